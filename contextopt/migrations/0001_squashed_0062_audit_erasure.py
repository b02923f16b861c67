"""The tables of people, spaces, contexts, agents, conversations and the gateway.

It replaces the migrations that a database of the version before has applied. Older databases have applied only
a part of them, at least `0001_initial`. Other apps depend on the last of them: without it, Django refuses the
database.
"""

import datetime
import secrets
import uuid
from decimal import Decimal

import django.contrib.auth.models
import django.contrib.auth.validators
import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.core.validators
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.fields.json
import django.db.models.functions.comparison
import django.db.models.functions.datetime
import django.utils.timezone
import pgmq
import pgvector.django.halfvec
from django.conf import settings
from django.db import migrations, models
from pgvector.django import VectorExtension

import contextopt.people.models
from contextopt.sql import load_sql

PURGE_KEY = """
CREATE TABLE contextopt_purgekey (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    inner_block bytea NOT NULL,
    outer_block bytea NOT NULL
);
"""

# The column is compressed already, so the database does not try again.
STORE_AS_IT_IS = "ALTER TABLE contextopt_assemblypayload ALTER COLUMN givens SET STORAGE EXTERNAL;"


def install_queue(_apps, schema_editor):
    """Install pgmq's tables and functions, unless the server has them, as an extension or from before."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('pgmq.meta') IS NOT NULL")
        if not cursor.fetchone()[0]:
            cursor.execute(pgmq.get_embedded_install_sql())


def make_purge_key(_apps, schema_editor):
    """Store the two blocks that HMAC makes of a key. Source: RFC 2104, section 2."""
    key = secrets.token_bytes(64)
    blocks = [bytes(byte ^ pad for byte in key) for pad in (0x36, 0x5C)]
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("INSERT INTO contextopt_purgekey (inner_block, outer_block) VALUES (%s, %s)", blocks)


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("contextopt", "0001_initial"),
        ("contextopt", "0001_squashed_0051_reported_cache"),
        ("contextopt", "0052_unsent_contexts"),
        ("contextopt", "0053_config_dates"),
        ("contextopt", "0054_adaptive_strictness"),
        ("contextopt", "0055_gateway_values_max"),
        ("contextopt", "0056_max_records_all"),
        ("contextopt", "0057_long_runs"),
        ("contextopt", "0058_unread_handoffs"),
        ("contextopt", "0059_gateway_cuts"),
        ("contextopt", "0060_abandoned_prompts"),
        ("contextopt", "0061_true_savings"),
        ("contextopt", "0062_audit_erasure"),
    ]

    dependencies = [("auth", "0012_alter_user_first_name_max_length")]

    operations = [
        VectorExtension(),
        load_sql("contextopt/search/words.sql"),
        migrations.RunPython(install_queue),
        migrations.CreateModel(
            name="User",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                (
                    "is_superuser",
                    models.BooleanField(
                        default=False,
                        help_text="Designates that this user has all permissions without explicitly assigning them.",
                        verbose_name="superuser status",
                    ),
                ),
                (
                    "username",
                    models.CharField(
                        error_messages={"unique": "A user with that username already exists."},
                        help_text="Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.",
                        max_length=150,
                        unique=True,
                        validators=[django.contrib.auth.validators.UnicodeUsernameValidator()],
                        verbose_name="username",
                    ),
                ),
                ("first_name", models.CharField(blank=True, max_length=150, verbose_name="first name")),
                ("last_name", models.CharField(blank=True, max_length=150, verbose_name="last name")),
                ("email", models.EmailField(blank=True, max_length=254, verbose_name="email address")),
                (
                    "is_staff",
                    models.BooleanField(default=False, help_text="Designates whether the user can log into this admin site.", verbose_name="staff status"),
                ),
                (
                    "is_active",
                    models.BooleanField(
                        default=True,
                        help_text="Designates whether this user should be treated as active. Unselect this instead of deleting accounts.",
                        verbose_name="active",
                    ),
                ),
                ("date_joined", models.DateTimeField(default=django.utils.timezone.now, verbose_name="date joined")),
                (
                    "groups",
                    models.ManyToManyField(
                        blank=True,
                        help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.group",
                        verbose_name="groups",
                    ),
                ),
                (
                    "user_permissions",
                    models.ManyToManyField(
                        blank=True,
                        help_text="Specific permissions for this user.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.permission",
                        verbose_name="user permissions",
                    ),
                ),
            ],
            options={
                "verbose_name": "user",
                "verbose_name_plural": "users",
                "abstract": False,
            },
            managers=[
                ("objects", django.contrib.auth.models.UserManager()),
            ],
        ),
        migrations.CreateModel(
            name="Team",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.SlugField(max_length=64, unique=True)),
                ("name", models.CharField(max_length=120)),
                ("time_zone", models.CharField(default="UTC", max_length=64, validators=[contextopt.people.models.validate_time_zone])),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="memberships", to="contextopt.team")),
                ("user", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="memberships", to=settings.AUTH_USER_MODEL)),
                (
                    "role",
                    models.CharField(
                        choices=[("viewer", "Viewer"), ("reviewer", "Reviewer"), ("editor", "Editor"), ("admin", "Admin")], default="viewer", max_length=16
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("team", "user"), name="membership_once"),
                    models.CheckConstraint(condition=models.Q(("role__in", ["viewer", "reviewer", "editor", "admin"])), name="membership_role"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ApiKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="api_keys", to="contextopt.team")),
                ("name", models.CharField(max_length=120)),
                ("scope", models.CharField(choices=[("read", "Read"), ("write", "Write"), ("admin", "Admin")], default="write", max_length=8)),
                ("prefix", models.CharField(editable=False, max_length=16)),
                ("secret_hash", models.CharField(editable=False, max_length=64, unique=True)),
                ("created_by", models.CharField(blank=True, editable=False, max_length=160)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("last_used_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "space_ids",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), blank=True, editable=False, help_text="empty for all spaces", null=True
                    ),
                ),
                ("requests_per_minute", models.PositiveIntegerField(blank=True, help_text="blank for the installation's limit", null=True)),
                (
                    "first_key",
                    models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="+", to="contextopt.apikey"),
                ),
                ("ways", models.JSONField(db_default={}, default=dict, editable=False)),
            ],
            options={
                "verbose_name": "API key",
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("scope__in", ["read", "write", "admin"])), name="api_key_scope"),
                    models.CheckConstraint(
                        condition=models.Q(("space_ids", None), models.Q(("scope", "admin"), _negated=True), _connector="OR"),
                        name="api_key_limited_is_no_admin",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("requests_per_minute", None), ("requests_per_minute__gte", 1), _connector="OR"), name="api_key_requests"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="StoredResponse",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("api_key", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="stored_responses", to="contextopt.apikey")),
                ("idempotency_key", models.CharField(max_length=255)),
                ("request_hash", models.CharField(max_length=64)),
                ("status", models.PositiveSmallIntegerField()),
                ("body", models.BinaryField(default=b"")),
                ("content_type", models.CharField(default="application/json", max_length=80)),
                ("location", models.TextField(blank=True)),
                ("record_ids", django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), editable=False, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["created_at"], name="stored_response_age"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("api_key", "idempotency_key"), name="stored_response_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="audit_events", to="contextopt.team")),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                ("actor", models.CharField(max_length=160)),
                ("action", models.CharField(help_text="type of the change, such as key.created", max_length=40)),
                ("subject", models.CharField(help_text="name of the changed item", max_length=200)),
                ("before", models.JSONField(default=dict, help_text="changed values before the change")),
                ("after", models.JSONField(default=dict, help_text="changed values after the change")),
            ],
            options={
                "verbose_name": "change",
                "verbose_name_plural": "change log",
                "indexes": [
                    models.Index(fields=["team", "-at", "-id"], name="audit_event_newest"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Invitation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="invitations", to="contextopt.team")),
                (
                    "role",
                    models.CharField(
                        choices=[("viewer", "Viewer"), ("reviewer", "Reviewer"), ("editor", "Editor"), ("admin", "Admin")], default="viewer", max_length=16
                    ),
                ),
                ("name", models.CharField(help_text="name of the invited person", max_length=120)),
                ("token_hash", models.CharField(editable=False, max_length=64, unique=True)),
                ("created_by", models.CharField(max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("expires_at", models.DateTimeField()),
                ("accepted_at", models.DateTimeField(null=True)),
                (
                    "accepted_by",
                    models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_SET_NULL, related_name="invitations", to=settings.AUTH_USER_MODEL),
                ),
                ("revoked_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("role__in", ["viewer", "reviewer", "editor", "admin"])), name="invitation_role"),
                    models.CheckConstraint(condition=models.Q(("accepted_at", None), ("revoked_at", None), _connector="OR"), name="invitation_one_end"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Throttle",
            fields=[
                ("key", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("free_at", models.DateTimeField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["free_at"], name="throttle_free_at"),
                ],
            },
        ),
        migrations.CreateModel(
            name="SearchCorpus",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("searchable", models.CharField(max_length=32)),
                ("corpus_id", models.BigIntegerField()),
                ("documents", models.BigIntegerField()),
                ("mean_length", models.FloatField(help_text="distinct words of a document, on average")),
                ("counted_at", models.DateTimeField()),
            ],
            options={
                "verbose_name_plural": "search corpora",
                "constraints": [
                    models.UniqueConstraint(fields=("searchable", "corpus_id"), name="search_corpus_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="DocumentFrequency",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "corpus",
                    models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="frequencies", to="contextopt.searchcorpus"),
                ),
                ("lexeme", models.TextField()),
                ("documents", models.BigIntegerField()),
            ],
            options={
                "verbose_name_plural": "document frequencies",
                "constraints": [
                    models.UniqueConstraint(fields=("corpus", "lexeme"), include=("documents",), name="document_frequency_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="EmbeddingModel",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200, unique=True)),
                ("dimensions", models.PositiveIntegerField()),
                ("state", models.CharField(choices=[("building", "Building"), ("active", "Active"), ("retired", "Retired")], default="building", max_length=8)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("activated_at", models.DateTimeField(blank=True, null=True)),
                ("retired_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(condition=models.Q(("state", "retired"), _negated=True), fields=("state",), name="embedding_model_one_of_a_state"),
                    models.CheckConstraint(condition=models.Q(("dimensions__gte", 1), ("dimensions__lte", 4000)), name="embedding_model_dimensions"),
                ],
            },
        ),
        migrations.CreateModel(
            name="EmbeddingFill",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("model", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="fills", to="contextopt.embeddingmodel")),
                ("searchable", models.CharField(max_length=32)),
                ("total", models.BigIntegerField(default=0, help_text="number of rows when the fill started")),
                ("walked", models.BigIntegerField(default=0, help_text="rows read so far")),
                ("filled_to", models.BigIntegerField(default=0, help_text="last id read")),
                ("is_filled", models.BooleanField(default=False)),
                ("is_indexed", models.BooleanField(default=False)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("model", "searchable"), name="embedding_fill_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="EmbeddingTodo",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "model",
                    models.ForeignKey(
                        blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="+", to="contextopt.embeddingmodel"
                    ),
                ),
                ("searchable", models.CharField(max_length=32)),
                ("corpus_id", models.BigIntegerField()),
                ("row_id", models.BigIntegerField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["model", "id"], name="embedding_todo_next"),
                    models.Index(fields=["searchable", "corpus_id", "id"], name="embedding_todo_corpus"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Space",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="spaces", to="contextopt.team")),
                ("slug", models.SlugField(max_length=64)),
                ("name", models.CharField(max_length=120)),
                ("description", models.CharField(blank=True, max_length=1000)),
                ("categories", django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=64), blank=True, default=list)),
                ("is_demo", models.BooleanField(default=False)),
                ("recount_from", models.BigIntegerField(blank=True, editable=False, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("team", "slug"), name="space_slug_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="SpaceCounts",
            fields=[
                (
                    "space",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.DB_CASCADE, primary_key=True, related_name="counts", serialize=False, to="contextopt.space"
                    ),
                ),
                ("live", models.BigIntegerField(default=0, help_text="neither deleted nor pinned")),
                ("pinned", models.BigIntegerField(default=0, help_text="pinned and not deleted")),
                ("deleted", models.BigIntegerField(default=0)),
            ],
            options={
                "verbose_name_plural": "space counts",
            },
        ),
        migrations.CreateModel(
            name="SpaceHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("space", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="hours", to="contextopt.space")),
                ("hour", models.DateTimeField()),
                ("live", models.BigIntegerField(default=0)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("space", "hour"), include=("live",), name="space_hour_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Record",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("language", models.CharField(choices=[("en", "English"), ("no", "Norwegian")], db_default="en", max_length=2)),
                ("title", models.CharField(max_length=1000)),
                ("type", models.CharField(default="note", max_length=64)),
                ("date", models.DateTimeField(default=django.utils.timezone.now)),
                ("tags", django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), blank=True, default=list)),
                ("notes", models.TextField(blank=True, max_length=1000000)),
                ("pinned", models.BooleanField(default=False)),
                ("thread", models.CharField(blank=True, max_length=200)),
                ("position", models.BigIntegerField(blank=True, null=True)),
                ("metadata", models.JSONField(blank=True, default=dict)),
                ("view_count", models.PositiveBigIntegerField(default=0)),
                ("deleted_at", models.DateTimeField(blank=True, null=True)),
                ("space", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="records", to="contextopt.space")),
                ("source", models.CharField(blank=True, max_length=200)),
                ("external_id", models.CharField(blank=True, max_length=500)),
                ("last_viewed_at", models.DateTimeField(blank=True, null=True)),
                ("purged_at", models.DateTimeField(blank=True, null=True)),
                ("content_hash", models.BinaryField(max_length=16)),
                ("summary", models.TextField()),
                ("summary_tokens", models.PositiveIntegerField()),
                ("summary_encoding", models.CharField(max_length=64)),
                (
                    "frequency",
                    models.GeneratedField(
                        db_persist=True, expression=django.db.models.functions.comparison.Least("view_count", 10), output_field=models.SmallIntegerField()
                    ),
                ),
                (
                    "search_vector",
                    models.GeneratedField(
                        db_persist=True,
                        expression=models.Func(
                            models.F("space"),
                            models.F("language"),
                            models.F("title"),
                            models.F("tags"),
                            models.F("notes"),
                            models.F("date"),
                            function="contextopt_search_vector",
                        ),
                        output_field=django.contrib.postgres.search.SearchVectorField(),
                    ),
                ),
                ("version", models.IntegerField(db_default=1, default=1, editable=False)),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("deleted_at", None), ("pinned", False)), fields=["space", "frequency", "-date", "-id"], name="record_stratum"
                    ),
                    models.Index(condition=models.Q(("deleted_at", None)), fields=["space", "-date", "-id"], include=("pinned",), name="record_newest"),
                    models.Index(condition=models.Q(("deleted_at", None), ("pinned", True)), fields=["space", "-date", "-id"], name="record_pinned"),
                    models.Index(condition=models.Q(("deleted_at__isnull", False)), fields=["space", "-date", "-id"], name="record_deleted"),
                    models.Index(condition=models.Q(("purged_at__isnull", False)), fields=["space", "purged_at"], name="record_purged"),
                    django.contrib.postgres.indexes.GinIndex(
                        condition=models.Q(("deleted_at", None)), fields=["search_vector"], gin_pending_list_limit=512, name="record_search"
                    ),
                    models.Index(condition=models.Q(("deleted_at", None)), fields=["space", "type", "source"], name="record_kinds"),
                    django.contrib.postgres.indexes.GinIndex(
                        condition=models.Q(("deleted_at", None)), fields=["tags"], gin_pending_list_limit=512, name="record_tags"
                    ),
                    models.Index(
                        models.F("space"),
                        models.F("thread"),
                        django.db.models.functions.comparison.Coalesce("position", 0),
                        models.F("date"),
                        models.F("id"),
                        condition=models.Q(("deleted_at", None), models.Q(("thread", ""), _negated=True)),
                        name="record_thread",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("external_id", ""), _negated=True), fields=("space", "source", "external_id"), name="record_imported_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("date__gte", datetime.datetime(1900, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)),
                            ("date__lte", datetime.datetime(2999, 12, 31, 0, 0, tzinfo=datetime.timezone.utc)),
                        ),
                        name="record_date_range",
                    ),
                    models.CheckConstraint(condition=models.Q(("notes__length__lte", 1000000)), name="record_notes_length"),
                ],
            },
        ),
        migrations.CreateModel(
            name="RecordView",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("record", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="views", to="contextopt.record")),
                ("viewer", models.CharField(max_length=64)),
                ("day", models.DateField(help_text="in the team's time zone")),
            ],
            options={
                "indexes": [
                    models.Index(fields=["day"], name="record_view_day"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("record", "viewer", "day"), name="record_view_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="RecordRevision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("title", models.CharField(max_length=1000)),
                ("type", models.CharField(default="note", max_length=64)),
                ("date", models.DateTimeField(default=django.utils.timezone.now)),
                ("tags", django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), blank=True, default=list)),
                ("notes", models.TextField(blank=True, max_length=1000000)),
                ("pinned", models.BooleanField(default=False)),
                ("thread", models.CharField(blank=True, max_length=200)),
                ("position", models.BigIntegerField(blank=True, null=True)),
                ("metadata", models.JSONField(blank=True, default=dict)),
                ("view_count", models.PositiveBigIntegerField(default=0)),
                ("deleted_at", models.DateTimeField(blank=True, null=True)),
                ("record", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="revisions", to="contextopt.record")),
                ("number", models.PositiveIntegerField()),
                ("version", models.IntegerField(editable=False, null=True)),
                ("language", models.CharField(blank=True, choices=[("en", "English"), ("no", "Norwegian")], db_default="", max_length=2)),
                ("changed_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("changed_by", models.CharField(max_length=160)),
                ("change", models.CharField(max_length=16)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["changed_at"], name="revision_changed"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("record", "number"), name="revision_number_once"),
                    models.UniqueConstraint(condition=models.Q(("version__isnull", False)), fields=("record", "version"), name="revision_version_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="RecordEmbedding",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("model", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name="+", to="contextopt.embeddingmodel")),
                ("corpus_id", models.BigIntegerField()),
                ("embedding", pgvector.django.halfvec.HalfVectorField()),
                ("content_hash", models.BinaryField(max_length=16)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "record",
                    models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="embeddings", to="contextopt.record"),
                ),
                ("date", models.DateTimeField(editable=False)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["model", "corpus_id"], name="record_embedding_corpus"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("record", "model"), name="record_embedding_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ContextConfig",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("space", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="configs", to="contextopt.space")),
                ("version", models.PositiveIntegerField()),
                ("is_active", models.BooleanField(default=False)),
                ("is_draft", models.BooleanField(db_default=False, default=False)),
                (
                    "window_days",
                    models.PositiveSmallIntegerField(
                        blank=True, choices=[(7, "7 days"), (14, "14 days"), (30, "30 days"), (None, "All")], default=14, null=True
                    ),
                ),
                (
                    "max_records",
                    models.PositiveSmallIntegerField(
                        blank=True,
                        default=20,
                        help_text="Leave blank for all.",
                        null=True,
                        validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000)],
                    ),
                ),
                (
                    "recency_weight",
                    models.DecimalField(
                        decimal_places=3,
                        default=Decimal("0.7"),
                        max_digits=5,
                        validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(10)],
                    ),
                ),
                (
                    "frequency_weight",
                    models.DecimalField(
                        decimal_places=3,
                        default=Decimal("0.3"),
                        max_digits=5,
                        validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(10)],
                    ),
                ),
                (
                    "system_tokens",
                    models.PositiveIntegerField(
                        default=800, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(200000)]
                    ),
                ),
                (
                    "history_tokens",
                    models.PositiveIntegerField(
                        default=1000, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(200000)]
                    ),
                ),
                (
                    "response_tokens",
                    models.PositiveIntegerField(
                        default=1000, validators=[django.core.validators.MinValueValidator(1000), django.core.validators.MaxValueValidator(200000)]
                    ),
                ),
                (
                    "context_tokens",
                    models.PositiveIntegerField(
                        default=2000, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(200000)]
                    ),
                ),
                (
                    "stage3_context_tokens",
                    models.PositiveIntegerField(
                        default=4000, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(200000)]
                    ),
                ),
                (
                    "total_tokens",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Leave blank for the sum of the four parts.",
                        null=True,
                        validators=[django.core.validators.MinValueValidator(1000), django.core.validators.MaxValueValidator(800000)],
                    ),
                ),
                ("encoding", models.CharField(default="cl100k_base", max_length=64)),
                ("record_order", models.CharField(choices=[("score", "By score"), ("stable", "Stable: oldest first")], default="score", max_length=8)),
                (
                    "semantic_weight",
                    models.DecimalField(
                        decimal_places=3,
                        default=Decimal("9"),
                        max_digits=5,
                        validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(10)],
                    ),
                ),
                (
                    "lexical_weight",
                    models.DecimalField(
                        decimal_places=3,
                        default=Decimal("4"),
                        max_digits=5,
                        validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(10)],
                    ),
                ),
                (
                    "neighbour_share",
                    models.DecimalField(
                        decimal_places=3,
                        default=Decimal("0.4"),
                        max_digits=5,
                        validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1)],
                    ),
                ),
                (
                    "date_weight",
                    models.DecimalField(
                        decimal_places=3,
                        default=Decimal("3"),
                        max_digits=5,
                        validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(10)],
                    ),
                ),
                (
                    "who_weight",
                    models.DecimalField(
                        decimal_places=3,
                        default=Decimal("4"),
                        max_digits=5,
                        validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(10)],
                    ),
                ),
                (
                    "question_window_days",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Leave blank for all.",
                        null=True,
                        validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(3650)],
                    ),
                ),
                (
                    "question_max_records",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Leave blank for all.",
                        null=True,
                        validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000)],
                    ),
                ),
                (
                    "question_notes_chars",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Leave blank for all.",
                        null=True,
                        validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(100000)],
                    ),
                ),
                (
                    "question_record_tokens",
                    models.PositiveIntegerField(
                        blank=True,
                        default=120,
                        help_text="Leave blank for a quarter of the context.",
                        null=True,
                        validators=[django.core.validators.MinValueValidator(64), django.core.validators.MaxValueValidator(200000)],
                    ),
                ),
                (
                    "budget_mode",
                    models.CharField(
                        choices=[("fixed", "Fixed: fill the budget"), ("adaptive", "Adaptive: stop at what helps little")],
                        db_default="fixed",
                        default="fixed",
                        max_length=8,
                    ),
                ),
                (
                    "adaptive_strictness",
                    models.DecimalField(
                        db_default=Decimal("0"),
                        decimal_places=3,
                        default=Decimal("0"),
                        max_digits=5,
                        validators=[django.core.validators.MinValueValidator(Decimal("-0.5")), django.core.validators.MaxValueValidator(Decimal("0.5"))],
                    ),
                ),
                ("note", models.CharField(blank=True, max_length=200)),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("space", "version"), name="config_version_once"),
                    models.UniqueConstraint(condition=models.Q(("is_active", True)), fields=("space",), name="config_active_once"),
                    models.CheckConstraint(condition=models.Q(("is_active", False), ("is_draft", False), _connector="OR"), name="config_active_is_no_draft"),
                    models.CheckConstraint(condition=models.Q(("window_days__in", [7, 14, 30])), name="config_window"),
                    models.CheckConstraint(condition=models.Q(("max_records__gte", 1), ("max_records__lte", 1000)), name="config_max_records"),
                    models.CheckConstraint(condition=models.Q(("response_tokens__gte", 1000)), name="config_response"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("recency_weight__gte", 0),
                            ("recency_weight__lte", 10),
                            ("frequency_weight__gte", 0),
                            ("frequency_weight__lte", 10),
                            ("semantic_weight__gte", 0),
                            ("semantic_weight__lte", 10),
                            ("lexical_weight__gte", 0),
                            ("lexical_weight__lte", 10),
                            ("neighbour_share__gte", 0),
                            ("neighbour_share__lte", 1),
                            ("date_weight__gte", 0),
                            ("date_weight__lte", 10),
                            ("who_weight__gte", 0),
                            ("who_weight__lte", 10),
                        ),
                        name="config_weights",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("adaptive_strictness__gte", Decimal("-0.5")), ("adaptive_strictness__lte", Decimal("0.5"))),
                        name="config_strictness",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("total_tokens", None), ("total_tokens__gte", models.F("response_tokens")), _connector="OR"), name="config_total"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Task",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="tasks", to="contextopt.team")),
                ("external_id", models.CharField(blank=True, max_length=200)),
                ("description", models.TextField(max_length=100000)),
                ("repository", models.CharField(blank=True, max_length=200)),
                (
                    "state",
                    models.CharField(
                        choices=[("open", "Open"), ("completed", "Completed"), ("failed", "Failed"), ("impossible", "Impossible")],
                        default="open",
                        max_length=12,
                    ),
                ),
                (
                    "phase",
                    models.CharField(
                        choices=[("analysis", "Analysis"), ("design", "Design"), ("implementation", "Implementation")], default="analysis", max_length=16
                    ),
                ),
                ("design_at", models.DateTimeField(blank=True, null=True)),
                ("implementation_at", models.DateTimeField(blank=True, null=True)),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("quality_score", models.FloatField(blank=True, help_text="0 to 10, from the task's report", null=True)),
                ("completed_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["team", "-created_at", "-id"], name="task_newest"),
                    models.Index(condition=models.Q(("expires_at__isnull", False)), fields=["expires_at"], name="task_expiry"),
                ],
                "constraints": [
                    models.UniqueConstraint(condition=models.Q(("external_id", ""), _negated=True), fields=("team", "external_id"), name="task_external_once"),
                    models.CheckConstraint(condition=models.Q(("state__in", ["open", "completed", "failed", "impossible"])), name="task_state"),
                    models.CheckConstraint(condition=models.Q(("phase__in", ["analysis", "design", "implementation"])), name="task_phase"),
                    models.CheckConstraint(condition=models.Q(("description__length__gte", 1), ("description__length__lte", 100000)), name="task_description"),
                    models.CheckConstraint(condition=models.Q(("quality_score__gte", 0), ("quality_score__lte", 10)), name="task_quality"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Assembly",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="assemblies", to="contextopt.team")),
                (
                    "space",
                    models.ForeignKey(
                        db_index=False, null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="assemblies", to="contextopt.space"
                    ),
                ),
                (
                    "config",
                    models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="assemblies", to="contextopt.contextconfig"),
                ),
                (
                    "task",
                    models.ForeignKey(
                        db_index=False, null=True, on_delete=django.db.models.deletion.DB_SET_NULL, related_name="assemblies", to="contextopt.task"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("space", "Space context"),
                            ("phase", "Phase filter"),
                            ("retry", "Retry delta"),
                            ("handoff", "Hand-off"),
                            ("hint", "Strategy hint"),
                            ("agent", "Agent context"),
                        ],
                        default="space",
                        max_length=8,
                    ),
                ),
                ("stage", models.PositiveSmallIntegerField(null=True)),
                ("phase", models.CharField(blank=True, max_length=64)),
                ("model", models.CharField(blank=True, max_length=120)),
                ("conversation", models.CharField(blank=True, max_length=200)),
                ("actor", models.CharField(blank=True, max_length=160)),
                ("as_of", models.DateTimeField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("records_filtered", models.PositiveIntegerField(default=0)),
                ("records_included", models.PositiveIntegerField(default=0)),
                ("over_record_limit", models.PositiveIntegerField(default=0)),
                ("over_budget", models.PositiveIntegerField(default=0)),
                ("duplicates", models.PositiveIntegerField(db_default=0, default=0)),
                ("low_relevance", models.PositiveIntegerField(db_default=0, default=0)),
                ("outside_window", models.PositiveIntegerField(default=0)),
                ("deleted", models.PositiveIntegerField(default=0)),
                ("tokens_before", models.PositiveIntegerField(null=True)),
                ("tokens_after", models.PositiveIntegerField()),
                ("tokens_available", models.PositiveIntegerField()),
                ("total_tokens", models.PositiveIntegerField(default=0)),
                ("system_tokens", models.PositiveIntegerField(default=0)),
                ("history_tokens", models.PositiveIntegerField(default=0)),
                ("response_tokens", models.PositiveIntegerField(default=0)),
                (
                    "placement",
                    models.CharField(
                        blank=True,
                        choices=[("system", "System prompt"), ("tail", "Before the question"), ("append", "Appended")],
                        db_default="",
                        default="",
                        max_length=6,
                    ),
                ),
                ("carried_tokens", models.PositiveIntegerField(db_default=0, default=0)),
                ("prompt_tokens", models.PositiveIntegerField(null=True)),
                ("shared_prefix_tokens", models.PositiveIntegerField(null=True)),
                ("cached_tokens", models.PositiveIntegerField(null=True)),
                ("cacheable_tokens", models.PositiveIntegerField(null=True)),
                ("truncated", models.BooleanField(default=False)),
                ("is_sent", models.BooleanField(db_default=True, default=True)),
                (
                    "warning_codes",
                    django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=32), blank=True, db_default=[], default=list),
                ),
                ("assembly_ms", models.FloatField()),
                ("encoding", models.CharField(max_length=64)),
                ("tokenizer_version", models.CharField(max_length=64)),
                ("sha256", models.CharField(max_length=64)),
                ("is_demo", models.BooleanField(default=False)),
            ],
            options={
                "verbose_name_plural": "assemblies",
                "indexes": [
                    models.Index(fields=["team", "-created_at", "-id"], name="assembly_newest"),
                    models.Index(fields=["space", "-created_at", "-id"], name="assembly_space_newest"),
                    models.Index(
                        condition=models.Q(("conversation", ""), _negated=True),
                        fields=["team", "conversation", "-created_at", "-id"],
                        name="assembly_conversation",
                    ),
                    models.Index(
                        condition=models.Q(("kind", "space"), ("records_included", 0), ("stage__gte", 3)),
                        fields=["team", "-created_at", "-id"],
                        name="assembly_empty",
                    ),
                    models.Index(condition=models.Q(("warning_codes", []), _negated=True), fields=["team", "-created_at", "-id"], name="assembly_warned"),
                    models.Index(condition=models.Q(("assembly_ms__gt", 500)), fields=["team", "-created_at", "-id"], name="assembly_slow"),
                    models.Index(condition=models.Q(("kind", "agent")), fields=["team", "-created_at", "-id"], name="assembly_agent"),
                    models.Index(condition=models.Q(("task__isnull", False)), fields=["task", "created_at", "id"], name="assembly_task"),
                    models.Index(fields=["team", "sha256"], name="assembly_hash"),
                ],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("kind__in", ["space", "phase", "retry", "handoff", "hint", "agent"])), name="assembly_kind"),
                    models.CheckConstraint(condition=models.Q(("tokens_after__lte", models.F("tokens_available"))), name="assembly_within_budget"),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "records_filtered",
                                django.db.models.expressions.CombinedExpression(
                                    django.db.models.expressions.CombinedExpression(
                                        django.db.models.expressions.CombinedExpression(
                                            django.db.models.expressions.CombinedExpression(models.F("records_included"), "+", models.F("over_record_limit")),
                                            "+",
                                            models.F("over_budget"),
                                        ),
                                        "+",
                                        models.F("duplicates"),
                                    ),
                                    "+",
                                    models.F("low_relevance"),
                                ),
                            )
                        ),
                        name="assembly_adds_up",
                    ),
                    models.CheckConstraint(condition=models.Q(("placement__in", ["", "system", "tail", "append"])), name="assembly_placement"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("cacheable_tokens", None), ("cached_tokens", None), ("prompt_tokens", None), ("shared_prefix_tokens", None)),
                            models.Q(
                                (
                                    "cacheable_tokens__lte",
                                    django.db.models.expressions.CombinedExpression(models.F("prompt_tokens"), "-", models.F("cached_tokens")),
                                ),
                                ("cached_tokens__lte", models.F("shared_prefix_tokens")),
                                ("shared_prefix_tokens__lte", models.F("prompt_tokens")),
                            ),
                            _connector="OR",
                        ),
                        name="assembly_prefix",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AssemblyPayload",
            fields=[
                (
                    "assembly",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.DB_CASCADE, primary_key=True, related_name="payload", serialize=False, to="contextopt.assembly"
                    ),
                ),
                ("text", models.TextField()),
                ("baseline_text", models.TextField(help_text="text that would have been sent without Contextopt", null=True)),
                ("ledger", models.JSONField()),
                ("config", models.JSONField()),
                ("request", models.JSONField(default=dict)),
                ("record_ids", django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list)),
                ("givens", models.BinaryField(null=True)),
                ("purged_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("task", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="attempts", to="contextopt.task")),
                ("number", models.PositiveIntegerField()),
                ("receiver", models.CharField(max_length=64)),
                ("root_cause", models.CharField(max_length=64)),
                ("diagnosis", models.JSONField()),
                ("plan", models.JSONField()),
                ("error", models.TextField(blank=True)),
                (
                    "action",
                    models.CharField(
                        choices=[
                            ("replan", "Plan again"),
                            ("retry", "Retry with the changes"),
                            ("refetch", "Retry with the full context"),
                            ("stop", "Stop"),
                            ("wait", "Wait, then repeat the same plan"),
                        ],
                        max_length=8,
                    ),
                ),
                ("state", models.CharField(choices=[("ready", "Ready"), ("waiting", "Waiting")], default="ready", max_length=8)),
                ("available_at", models.DateTimeField()),
                ("retry_context", models.JSONField()),
                ("full_tokens", models.PositiveIntegerField()),
                ("delta_tokens", models.PositiveIntegerField()),
                ("changed_files", models.PositiveIntegerField(default=0)),
                ("encoding", models.CharField(max_length=64)),
                (
                    "assembly",
                    models.OneToOneField(null=True, on_delete=django.db.models.deletion.DB_SET_NULL, related_name="attempt", to="contextopt.assembly"),
                ),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("state", "waiting")), fields=["available_at"], name="attempt_waiting"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("task", "number"), name="attempt_number_once"),
                    models.CheckConstraint(condition=models.Q(("number__gte", 1)), name="attempt_number"),
                    models.CheckConstraint(condition=models.Q(("receiver__length__gte", 1)), name="attempt_receiver"),
                    models.CheckConstraint(condition=models.Q(("action__in", ["replan", "retry", "refetch", "stop", "wait"])), name="attempt_action"),
                    models.CheckConstraint(
                        condition=models.Q(("state", "ready"), models.Q(("action", "wait"), ("state", "waiting")), _connector="OR"), name="attempt_state"
                    ),
                    models.CheckConstraint(condition=models.Q(("available_at__gte", models.F("created_at"))), name="attempt_available"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Blob",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="blobs", to="contextopt.team")),
                ("sha256", models.CharField(max_length=64)),
                ("size", models.PositiveIntegerField(help_text="bytes")),
                ("content", models.BinaryField()),
                ("used_at", models.DateTimeField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["used_at"], name="blob_age"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("team", "sha256"), name="blob_once"),
                    models.CheckConstraint(condition=models.Q(("size__lte", 4000000)), name="blob_size"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ReceiverFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("task", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="receiver_files", to="contextopt.task")),
                ("receiver", models.CharField(max_length=64)),
                ("path", models.CharField(max_length=500)),
                ("blob", models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="receiver_files", to="contextopt.blob")),
                ("is_partial", models.BooleanField(default=False, help_text="a cut version has been sent since")),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("task", "receiver", "path"), name="receiver_file_once"),
                    models.CheckConstraint(condition=models.Q(("blob__isnull", False), ("is_partial", True), _connector="OR"), name="receiver_file_known"),
                ],
            },
        ),
        migrations.CreateModel(
            name="PhaseProfile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name='%(class)ss', to="contextopt.team")),
                ("phase", models.CharField(max_length=64)),
                ("version", models.PositiveIntegerField()),
                ("is_active", models.BooleanField(default=False)),
                ("budget_tokens", models.PositiveIntegerField(validators=[django.core.validators.MaxValueValidator(2000000)])),
                (
                    "fields",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(
                            choices=[
                                ("tree", "tree"),
                                ("tree_paths", "tree_paths"),
                                ("package_manifest", "package_manifest"),
                                ("files", "files"),
                                ("memories", "memories"),
                                ("docs", "docs"),
                                ("tools", "tools"),
                            ],
                            max_length=32,
                        ),
                        blank=True,
                        default=list,
                        help_text="Comma-separated: tree, tree_paths, package_manifest, files, memories, docs, tools. The task is always sent.",
                    ),
                ),
                ("note", models.CharField(blank=True, max_length=200)),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("team", "phase", "version"), name="phase_version_once"),
                    models.UniqueConstraint(condition=models.Q(("is_active", True)), fields=("team", "phase"), name="phase_active_once"),
                    models.CheckConstraint(condition=models.Q(("phase__length__gte", 1)), name="phase_named"),
                    models.CheckConstraint(
                        condition=models.Q(("fields__contained_by", ["tree", "tree_paths", "package_manifest", "files", "memories", "docs", "tools"])),
                        name="phase_fields",
                    ),
                    models.CheckConstraint(condition=models.Q(("budget_tokens__lte", 2000000)), name="phase_budget"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Completion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="completions", to="contextopt.team")),
                ("task", models.OneToOneField(on_delete=django.db.models.deletion.DB_CASCADE, related_name="completion", to="contextopt.task")),
                ("sha256", models.CharField(help_text="hash of the report; the same report again is the same completion", max_length=64)),
                ("report", models.JSONField()),
                ("tries", models.PositiveSmallIntegerField(default=0)),
                ("error", models.TextField(blank=True, max_length=2000)),
                ("learned", models.JSONField(blank=True, null=True)),
                ("learned_at", models.DateTimeField(blank=True, null=True)),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("learned_at", None)), fields=["id"], name="completion_unlearned"),
                    models.Index(
                        models.F("team"),
                        django.db.models.fields.json.KeyTextTransform("pattern", "learned"),
                        models.OrderBy(models.F("id"), descending=True),
                        name="completion_pattern",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("team", "sha256"), name="completion_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("learned__isnull", True), ("learned_at__isnull", True)),
                            models.Q(("learned__isnull", False), ("learned_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="completion_learned",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Finding",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("task", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="findings", to="contextopt.task")),
                ("number", models.PositiveIntegerField()),
                ("phase", models.CharField(choices=[("analysis", "Analysis"), ("design", "Design"), ("implementation", "Implementation")], max_length=16)),
                ("category", models.CharField(max_length=64)),
                ("content", models.JSONField()),
                ("tags", django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=64), blank=True, default=list)),
                ("confidence", models.FloatField()),
                ("depends_on", django.contrib.postgres.fields.ArrayField(base_field=models.PositiveIntegerField(), blank=True, default=list)),
                ("implementation_ready", models.BooleanField(default=False)),
                ("decision", models.CharField(blank=True, choices=[("open", "Open"), ("resolved", "Resolved")], max_length=8)),
                ("resolution", models.CharField(blank=True, max_length=2000)),
                ("resolved_by", models.CharField(blank=True, max_length=160)),
                ("resolved_at", models.DateTimeField(blank=True, null=True)),
                ("relabelled_by", models.CharField(blank=True, db_default="", max_length=160)),
                ("relabelled_at", models.DateTimeField(blank=True, help_text="last change of tags or dependencies", null=True)),
                ("tokens", models.PositiveIntegerField()),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["task", "phase", "number"], name="finding_of_phase"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("task", "number"), name="finding_number_once"),
                    models.CheckConstraint(condition=models.Q(("number__gte", 1)), name="finding_number"),
                    models.CheckConstraint(condition=models.Q(("phase__in", ["analysis", "design", "implementation"])), name="finding_phase"),
                    models.CheckConstraint(condition=models.Q(("category__length__gte", 1)), name="finding_category"),
                    models.CheckConstraint(condition=models.Q(("confidence__gte", 0), ("confidence__lte", 1)), name="finding_confidence"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("decision", ""), ("resolved_at", None)),
                            models.Q(("decision", "open"), ("resolved_at", None)),
                            ("decision", "resolved"),
                            _connector="OR",
                        ),
                        name="finding_decision",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="PhaseCompression",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("task", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="compressions", to="contextopt.task")),
                ("phase", models.CharField(choices=[("analysis", "Analysis"), ("design", "Design"), ("implementation", "Implementation")], max_length=16)),
                ("version", models.PositiveIntegerField(db_default=1, default=1)),
                (
                    "made_in",
                    models.CharField(
                        blank=True, choices=[("analysis", "Analysis"), ("design", "Design"), ("implementation", "Implementation")], db_default="", max_length=16
                    ),
                ),
                ("extract", models.TextField(blank=True)),
                ("extract_tokens", models.PositiveIntegerField()),
                ("written", models.TextField(blank=True)),
                ("written_tokens", models.PositiveIntegerField(default=0)),
                ("written_by", models.CharField(blank=True, max_length=120)),
                (
                    "brief_state",
                    models.CharField(
                        choices=[("none", "Not requested"), ("pending", "In progress"), ("in_force", "Active"), ("refused", "Refused"), ("late", "Too late")],
                        default="none",
                        max_length=8,
                    ),
                ),
                ("brief_note", models.CharField(blank=True, max_length=500)),
                ("critical", django.contrib.postgres.fields.ArrayField(base_field=models.PositiveIntegerField(), blank=True, default=list)),
                ("critical_tokens", models.PositiveIntegerField()),
                ("tokens_before", models.PositiveIntegerField(help_text="tokens of all findings in full")),
                ("findings_count", models.PositiveIntegerField()),
                ("findings_hash", models.CharField(max_length=64)),
                ("discarded", models.JSONField(default=list)),
                ("in_brief", django.contrib.postgres.fields.ArrayField(base_field=models.PositiveIntegerField(), blank=True, default=list)),
                ("warnings", models.JSONField(blank=True, default=list)),
                ("undecided", django.contrib.postgres.fields.ArrayField(base_field=models.PositiveIntegerField(), blank=True, default=list)),
                ("is_forced", models.BooleanField(default=False)),
                ("writer_version", models.CharField(max_length=32)),
                ("settings", models.JSONField()),
                ("encoding", models.CharField(max_length=64)),
                ("assembly_ms", models.FloatField()),
                ("consumed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "assembly",
                    models.OneToOneField(null=True, on_delete=django.db.models.deletion.DB_SET_NULL, related_name="handoff", to="contextopt.assembly"),
                ),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "verbose_name": "hand-off",
                "verbose_name_plural": "hand-offs",
                "indexes": [
                    models.Index(condition=models.Q(("brief_state", "pending")), fields=["created_at"], name="compression_pending"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("task", "phase", "version"), name="compression_version_once"),
                    models.CheckConstraint(condition=models.Q(("phase__in", ["analysis", "design", "implementation"])), name="compression_phase"),
                    models.CheckConstraint(
                        condition=models.Q(("brief_state__in", ["none", "pending", "in_force", "refused", "late"])), name="compression_brief"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(models.Q(("brief_state", "in_force"), _negated=True), ("written_tokens__gte", 1), _connector="OR"),
                        name="compression_written",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="HandoffSettings",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="handoff_settings", to="contextopt.team")),
                ("phase", models.CharField(choices=[("analysis", "Analysis"), ("design", "Design"), ("implementation", "Implementation")], max_length=16)),
                (
                    "bundle_tokens",
                    models.PositiveIntegerField(
                        default=35000,
                        help_text="Maximum tokens of the context this phase starts with.",
                        validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(200000)],
                    ),
                ),
                (
                    "findings_tokens",
                    models.PositiveIntegerField(
                        default=7200,
                        help_text="Expected tokens of this phase's findings. More triggers a warning.",
                        validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(200000)],
                    ),
                ),
                (
                    "brief_tokens",
                    models.PositiveIntegerField(
                        default=450,
                        help_text="Maximum tokens of the brief of this phase's findings.",
                        validators=[django.core.validators.MinValueValidator(20), django.core.validators.MaxValueValidator(200000)],
                    ),
                ),
                (
                    "critical_tokens",
                    models.PositiveIntegerField(
                        default=1350,
                        help_text="Expected tokens of critical findings. More triggers a warning; they are never cut.",
                        validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(200000)],
                    ),
                ),
                (
                    "max_critical",
                    models.PositiveIntegerField(
                        default=5,
                        help_text="Expected number of critical findings. More triggers a warning.",
                        validators=[django.core.validators.MaxValueValidator(1000)],
                    ),
                ),
                (
                    "key_categories",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=64),
                        blank=True,
                        default=list,
                        help_text="Comma-separated. Findings in these categories are critical if their confidence is high.",
                    ),
                ),
                (
                    "critical_above",
                    models.FloatField(
                        default=0.9,
                        help_text="A finding in a key category with a higher confidence is critical.",
                        validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1)],
                    ),
                ),
                (
                    "speculation_below",
                    models.FloatField(
                        default=0.4,
                        help_text="A finding with a lower confidence is left out of the brief.",
                        validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1)],
                    ),
                ),
                ("updated_by", models.CharField(blank=True, editable=False, max_length=160)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "verbose_name_plural": "hand-off settings",
                "constraints": [
                    models.UniqueConstraint(fields=("team", "phase"), name="handoff_settings_once"),
                    models.CheckConstraint(condition=models.Q(("phase__in", ["analysis", "design", "implementation"])), name="handoff_settings_phase"),
                ],
            },
        ),
        migrations.CreateModel(
            name="RetrySettings",
            fields=[
                (
                    "team",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.DB_CASCADE, primary_key=True, related_name="retry_settings", serialize=False, to="contextopt.team"
                    ),
                ),
                (
                    "error_tokens",
                    models.PositiveIntegerField(
                        default=450,
                        help_text="Maximum tokens of the error in a retry.",
                        validators=[django.core.validators.MinValueValidator(50), django.core.validators.MaxValueValidator(20000)],
                    ),
                ),
                (
                    "diff_lines",
                    models.PositiveIntegerField(
                        default=20,
                        help_text="Maximum changed lines shown of each file.",
                        validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(100000)],
                    ),
                ),
                (
                    "diff_characters",
                    models.PositiveIntegerField(
                        default=500,
                        help_text="Maximum characters of each file's change.",
                        validators=[django.core.validators.MinValueValidator(100), django.core.validators.MaxValueValidator(1000000)],
                    ),
                ),
                ("updated_by", models.CharField(blank=True, editable=False, max_length=160)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "verbose_name_plural": "retry settings",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("diff_characters__range", (100, 1000000)), ("diff_lines__range", (1, 100000)), ("error_tokens__range", (50, 20000))
                        ),
                        name="retry_settings_range",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="StandingDocument",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="standing_documents", to="contextopt.team")),
                ("repository", models.CharField(help_text="name of the repository", max_length=200)),
                ("title", models.CharField(max_length=200)),
                ("content", models.TextField(max_length=100000)),
                ("created_by", models.CharField(blank=True, editable=False, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("team", "repository", "title"), name="standing_title_once"),
                    models.CheckConstraint(condition=models.Q(("repository__length__gte", 1), ("title__length__gte", 1)), name="standing_named"),
                    models.CheckConstraint(condition=models.Q(("content__length__gte", 1), ("content__length__lte", 100000)), name="standing_content"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Correction",
            fields=[
                (
                    "assembly",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.DB_CASCADE, primary_key=True, related_name="correction", serialize=False, to="contextopt.assembly"
                    ),
                ),
                (
                    "reason",
                    models.CharField(
                        choices=[
                            ("marks", "marks that only Contextopt adds are not part of the full context"),
                            ("replan", "a planner is not sent the error of a replan"),
                            ("lost", "a hand-off saves nothing by losing findings"),
                            ("unreceived", "no phase receives it"),
                            ("replaced", "nobody read the version before it"),
                        ],
                        max_length=10,
                    ),
                ),
                ("tokens_before", models.PositiveIntegerField(help_text="baseline before the correction", null=True)),
                ("corrected_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.CreateModel(
            name="Conversation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="conversations", to="contextopt.team")),
                ("space", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="conversations", to="contextopt.space")),
                ("title", models.CharField(max_length=120)),
                ("stage", models.PositiveSmallIntegerField(default=5)),
                ("model", models.CharField(blank=True, help_text="Leave blank to use the endpoint's default.", max_length=120)),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("active_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["team", "-active_at", "-id"], name="conversation_latest"),
                ],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("stage__gte", 2), ("stage__lte", 5)), name="conversation_stage"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Message",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("conversation", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="messages", to="contextopt.conversation")),
                ("author", models.CharField(choices=[("user", "User"), ("assistant", "Assistant")], max_length=9)),
                ("text", models.TextField()),
                ("reply_to", models.OneToOneField(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="answer", to="contextopt.message")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("sending", "Sending"),
                            ("answered", "Answered"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                            ("held", "Not sent"),
                        ],
                        max_length=9,
                    ),
                ),
                ("assembly", models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_SET_NULL, related_name="messages", to="contextopt.assembly")),
                ("history_ids", django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list)),
                ("idempotency_key", models.CharField(max_length=64, null=True, unique=True)),
                ("tries", models.PositiveIntegerField(default=0)),
                ("next_try_at", models.DateTimeField(null=True)),
                ("error", models.CharField(blank=True, max_length=300)),
                ("partial_text", models.TextField(blank=True, db_default="", default="")),
                ("model", models.CharField(blank=True, max_length=120)),
                ("prompt_tokens", models.PositiveIntegerField(help_text="counted by the endpoint", null=True)),
                ("completion_tokens", models.PositiveIntegerField(help_text="counted by the endpoint", null=True)),
                ("cached_tokens", models.PositiveIntegerField(help_text="found in its cache, as the endpoint says", null=True)),
                ("duration_ms", models.FloatField(null=True)),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("answered_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["conversation", "id"], name="message_order"),
                    models.Index(condition=models.Q(("state__in", ("queued", "sending"))), fields=["next_try_at", "id"], name="message_due"),
                    models.Index(condition=models.Q(("cached_tokens__isnull", False)), fields=["created_at"], name="message_reported"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["queued", "sending", "answered", "failed", "cancelled", "held"])), name="message_state"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("author", "user"), ("idempotency_key__isnull", False), ("reply_to", None)),
                            models.Q(("author", "assistant"), ("reply_to__isnull", False), ("state", "answered")),
                            _connector="OR",
                        ),
                        name="message_author",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("next_try_at__isnull", False), ("state__in", ("queued", "sending"))),
                            models.Q(models.Q(("state__in", ("queued", "sending")), _negated=True), ("next_try_at", None)),
                            _connector="OR",
                        ),
                        name="message_next_try",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="GatewayPolicy",
            fields=[
                (
                    "space",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.DB_CASCADE, primary_key=True, related_name="gateway_policy", serialize=False, to="contextopt.space"
                    ),
                ),
                ("mode", models.CharField(choices=[("audit", "Audit"), ("insert", "Insert")], default="audit", max_length=6)),
                (
                    "insert_percent",
                    models.PositiveSmallIntegerField(default=100, help_text="share of conversations that get a context in insert mode, 0 to 100"),
                ),
                (
                    "placement",
                    models.CharField(
                        choices=[("auto", "Cheapest"), ("system", "System prompt"), ("tail", "Before the question"), ("append", "Appended")],
                        default="auto",
                        max_length=6,
                    ),
                ),
                (
                    "keep",
                    models.CharField(
                        choices=[("sizes", "Sizes only"), ("question", "The question"), ("all", "The question and the answer")], default="sizes", max_length=8
                    ),
                ),
                (
                    "history_tokens",
                    models.PositiveIntegerField(blank=True, help_text="if older turns have more tokens, cut them to half of it; blank to never cut", null=True),
                ),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "verbose_name_plural": "gateway policies",
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("mode__in", ["audit", "insert"])), name="gateway_policy_mode"),
                    models.CheckConstraint(condition=models.Q(("keep__in", ["sizes", "question", "all"])), name="gateway_policy_keep"),
                    models.CheckConstraint(condition=models.Q(("insert_percent__lte", 100)), name="gateway_policy_percent"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("placement__in", {"append": "Appended", "auto": "Cheapest", "system": "System prompt", "tail": "Before the question"})
                        ),
                        name="gateway_policy_placement",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="GatewayRequest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uid", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                (
                    "team",
                    models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="gateway_requests", to="contextopt.team"),
                ),
                (
                    "api_key",
                    models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_SET_NULL, related_name="gateway_requests", to="contextopt.apikey"),
                ),
                ("space", models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="gateway_requests", to="contextopt.space")),
                (
                    "assembly",
                    models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_SET_NULL, related_name="gateway_requests", to="contextopt.assembly"),
                ),
                ("protocol", models.CharField(choices=[("chat", "Chat completions"), ("responses", "Responses"), ("messages", "Messages")], max_length=9)),
                ("model", models.CharField(blank=True, max_length=120)),
                ("is_streamed", models.BooleanField(default=False)),
                ("mode", models.CharField(choices=[("audit", "Audit"), ("insert", "Insert")], max_length=6)),
                ("is_inserted", models.BooleanField(default=False)),
                (
                    "reason",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("no_space", "The team has no space"),
                            ("unnamed_space", "The team has several spaces and the request names none"),
                            ("unknown_space", "The key reaches no space of that name"),
                            ("too_large", "The request is over 32 MiB or 30,000 JSON values"),
                            ("compressed", "The request is compressed"),
                            ("unreadable", "The request is not the protocol's JSON"),
                            ("no_question", "The request has no user text"),
                            ("tool_results", "The turn ends in tool results and had no context before"),
                            ("empty", "The context is empty"),
                            ("over_budget", "The prompt leaves no room for a context"),
                            ("timeout", "The context took longer than 150 ms"),
                            ("unavailable", "The database was not available"),
                            ("failed", "Assembling the context failed"),
                        ],
                        max_length=13,
                    ),
                ),
                (
                    "outcome",
                    models.CharField(
                        choices=[("answered", "Answered"), ("unreachable", "Not reachable"), ("broken", "Broke off"), ("abandoned", "Abandoned")], max_length=11
                    ),
                ),
                ("status_code", models.PositiveSmallIntegerField(help_text="the provider's; null without an answer", null=True)),
                ("answer_id", models.CharField(blank=True, db_default="", default="", max_length=200)),
                ("conversation", models.CharField(blank=True, max_length=64)),
                ("turn", models.PositiveIntegerField(null=True)),
                ("question_hash", models.CharField(blank=True, max_length=32)),
                ("cut_turn", models.PositiveIntegerField(null=True)),
                ("cut_hash", models.CharField(blank=True, db_default="", default="", max_length=32)),
                ("request_bytes", models.PositiveBigIntegerField()),
                ("answer_bytes", models.PositiveBigIntegerField()),
                ("prompt_tokens", models.PositiveIntegerField(null=True)),
                ("context_tokens", models.PositiveIntegerField(null=True)),
                ("input_tokens", models.PositiveBigIntegerField(null=True)),
                ("cached_tokens", models.PositiveBigIntegerField(null=True)),
                ("cache_write_tokens", models.PositiveBigIntegerField(null=True)),
                ("output_tokens", models.PositiveBigIntegerField(null=True)),
                ("added_ms", models.FloatField(help_text="from the whole request's arrival until it went on upstream")),
                ("first_byte_ms", models.FloatField(help_text="from its arrival to the answer's first byte", null=True)),
                ("total_ms", models.FloatField()),
                ("question", models.TextField(blank=True, help_text="kept only if the space's policy says so")),
                ("answer", models.TextField(blank=True, help_text="kept only if the space's policy says so")),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["team", "-created_at", "-id"], name="gateway_newest"),
                    models.Index(
                        condition=models.Q(("conversation", ""), _negated=True),
                        fields=["team", "conversation", "-created_at", "-id"],
                        name="gateway_conversation",
                    ),
                    models.Index(condition=models.Q(("answer_id", ""), _negated=True), fields=["team", "answer_id"], name="gateway_answer"),
                ],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("protocol__in", ["chat", "responses", "messages"])), name="gateway_protocol"),
                    models.CheckConstraint(condition=models.Q(("mode__in", ["audit", "insert"])), name="gateway_mode"),
                    models.CheckConstraint(condition=models.Q(("outcome__in", ["answered", "unreachable", "broken", "abandoned"])), name="gateway_outcome"),
                    models.CheckConstraint(
                        condition=models.Q(("is_inserted", False), models.Q(("mode", "insert"), ("reason", "")), _connector="OR"), name="gateway_inserted"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="GatewayGap",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="gateway_gaps", to="contextopt.team")),
                ("requests", models.PositiveIntegerField()),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.CreateModel(
            name="Repository",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="repositories", to="contextopt.team")),
                ("name", models.CharField(max_length=120)),
                ("folder", models.CharField(blank=True, help_text="folder on this machine; blank if uploaded", max_length=4096)),
                ("revision", models.CharField(blank=True, help_text="the indexed commit, if any", max_length=64)),
                ("revision_at", models.DateTimeField(blank=True, help_text="date of that commit", null=True)),
                ("state", models.UUIDField(default=uuid.uuid4, editable=False)),
                ("files", models.PositiveIntegerField(default=0)),
                ("symbols", models.PositiveIntegerField(default=0)),
                ("imports", models.PositiveIntegerField(default=0)),
                ("unresolved", models.PositiveIntegerField(default=0)),
                ("skipped", models.PositiveIntegerField(default=0)),
                ("parsed", models.PositiveIntegerField(default=0, help_text="files parsed by the last indexing")),
                ("seconds", models.FloatField(default=0, help_text="duration of the last indexing")),
                ("indexed_at", models.DateTimeField(blank=True, null=True)),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "verbose_name_plural": "repositories",
                "constraints": [
                    models.UniqueConstraint(fields=("team", "name"), name="repository_name_once"),
                    models.CheckConstraint(condition=models.Q(("name__length__gte", 1)), name="repository_name"),
                    models.CheckConstraint(condition=models.Q(("seconds__gte", 0)), name="repository_seconds"),
                ],
            },
        ),
        migrations.CreateModel(
            name="RepositoryHistory",
            fields=[
                (
                    "repository",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.DB_CASCADE, primary_key=True, related_name="history", serialize=False, to="contextopt.repository"
                    ),
                ),
                ("revision", models.CharField(max_length=64)),
                ("commits", models.PositiveIntegerField()),
                ("changes", models.TextField()),
            ],
            options={
                "verbose_name_plural": "repository histories",
            },
        ),
        migrations.CreateModel(
            name="CodeBlob",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="code_blobs", to="contextopt.team")),
                ("kind", models.CharField(blank=True, max_length=80)),
                ("oid", models.CharField(max_length=64)),
                ("parser", models.PositiveSmallIntegerField()),
                ("symbols", models.PositiveIntegerField(default=0)),
                ("content", models.BinaryField()),
                ("parsed", models.TextField()),
                ("definitions", models.TextField()),
                ("terms", models.TextField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("team", "kind", "oid"), name="code_blob_once"),
                    models.CheckConstraint(condition=models.Q(("oid__length__gte", 1)), name="code_blob_oid"),
                ],
            },
        ),
        migrations.CreateModel(
            name="RepositoryFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("repository", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="paths", to="contextopt.repository")),
                ("path", models.CharField(max_length=600)),
                ("oid", models.CharField(blank=True, max_length=64)),
                ("size", models.PositiveBigIntegerField(default=0, help_text="bytes")),
                ("skipped", models.CharField(blank=True, max_length=80)),
                (
                    "blob",
                    models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name="files", to="contextopt.codeblob"),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("repository", "path"), name="repository_path_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("blob__isnull", False), ("skipped", "")),
                            models.Q(models.Q(("skipped", ""), _negated=True), ("blob", None)),
                            _connector="OR",
                        ),
                        name="repository_file_read_or_skipped",
                    ),
                ],
            },
        ),
        migrations.RunSQL(STORE_AS_IT_IS),
        migrations.RunSQL(PURGE_KEY),
        migrations.RunPython(make_purge_key),
        load_sql("contextopt/spaces/triggers.sql"),
        load_sql("contextopt/search/triggers.sql"),
        load_sql("contextopt/immutable.sql"),
    ]
