"""Memories, their vectors, strategies' uses and trust, and the teams' rules."""

from typing import ClassVar

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
import django.utils.timezone
import pgvector.django.halfvec
from django.db import migrations, models

# The texts that are to be embedded, as those of records.
NOTE = """
CREATE TRIGGER memory_texts_inserted AFTER INSERT ON memory_memory
    REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT
    EXECUTE FUNCTION contextopt_note_inserted_texts('memory', 'team_id');
CREATE TRIGGER memory_text_updated AFTER UPDATE OF title, content, deleted_at, retired_at ON memory_memory
    FOR EACH ROW WHEN (OLD.title IS DISTINCT FROM NEW.title OR OLD.content IS DISTINCT FROM NEW.content
                       OR (OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL)
                       OR (OLD.retired_at IS NULL) <> (NEW.retired_at IS NULL))
    EXECUTE FUNCTION contextopt_note_updated_text('memory', 'team_id');
"""
UNNOTE = """
DROP TRIGGER memory_text_updated ON memory_memory;
DROP TRIGGER memory_texts_inserted ON memory_memory;
"""


class Migration(migrations.Migration):
    initial = True

    dependencies: ClassVar = [
        ("contextopt", "0009_completions"),
    ]

    operations: ClassVar = [
        migrations.CreateModel(
            name="Memory",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "language",
                    models.CharField(
                        choices=[("en", "English"), ("no", "Norwegian")], db_default="en", max_length=2
                    ),
                ),
                ("title", models.CharField(blank=True, max_length=200)),
                ("content", models.TextField(max_length=10000)),
                ("memory_type", models.CharField(default="general", max_length=64)),
                ("category", models.CharField(blank=True, max_length=64)),
                (
                    "tags",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=100), blank=True, default=list
                    ),
                ),
                ("repository", models.CharField(blank=True, max_length=200)),
                (
                    "trust_level",
                    models.CharField(
                        choices=[
                            ("user", "A person of the team"),
                            ("agent", "An agent"),
                            ("external", "Somebody else"),
                        ],
                        default="user",
                        max_length=8,
                    ),
                ),
                ("trust", models.FloatField(default=0.5, help_text="0 to 1; ratings move it")),
                ("payload", models.JSONField(blank=True, default=dict)),
                ("access_count", models.PositiveBigIntegerField(default=0)),
                ("last_accessed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "use_count",
                    models.PositiveIntegerField(
                        default=0, help_text="times that a plan was given it as a hint"
                    ),
                ),
                ("tokens_saved", models.BigIntegerField(default=0, help_text="by the tasks that reused it")),
                ("retired_at", models.DateTimeField(blank=True, null=True)),
                ("retired_reason", models.CharField(blank=True, max_length=200)),
                ("deleted_at", models.DateTimeField(blank=True, null=True)),
                (
                    "search_vector",
                    models.GeneratedField(
                        db_persist=True,
                        expression=models.Func(
                            models.F("team"),
                            models.F("language"),
                            models.F("title"),
                            models.F("tags"),
                            models.F("content"),
                            function="contextopt_search_vector",
                        ),
                        output_field=django.contrib.postgres.search.SearchVectorField(),
                    ),
                ),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "space",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.DB_SET_NULL,
                        related_name="memories",
                        to="contextopt.space",
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.DB_SET_NULL,
                        related_name="memories",
                        to="contextopt.task",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.DB_CASCADE,
                        related_name="memories",
                        to="contextopt.team",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "memories",
            },
        ),
        migrations.CreateModel(
            name="MemoryEmbedding",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("corpus_id", models.BigIntegerField()),
                ("embedding", pgvector.django.halfvec.HalfVectorField()),
                ("content_hash", models.BinaryField(max_length=16)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "memory",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.DB_CASCADE,
                        related_name="embeddings",
                        to="memory.memory",
                    ),
                ),
                (
                    "model",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="contextopt.embeddingmodel",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="MemoryPolicy",
            fields=[
                (
                    "team",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.DB_CASCADE,
                        primary_key=True,
                        related_name="memory_policy",
                        serialize=False,
                        to="contextopt.team",
                    ),
                ),
                (
                    "hints_across_repositories",
                    models.BooleanField(
                        default=False,
                        help_text="hints may come from strategies of the team's other repositories",
                    ),
                ),
                (
                    "rating_weight",
                    models.FloatField(default=0.3, help_text="how far one rating moves the trust, 0 to 1"),
                ),
                (
                    "retire_below",
                    models.FloatField(default=0.25, help_text="a strategy of less trust is retired"),
                ),
                (
                    "retire_after",
                    models.PositiveIntegerField(default=3, help_text="but not before it was rated so often"),
                ),
            ],
            options={
                "verbose_name_plural": "memory policies",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("rating_weight__gt", 0),
                            ("rating_weight__lte", 1),
                            ("retire_below__gte", 0),
                            ("retire_below__lte", 1),
                        ),
                        name="memory_policy_shares",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="StrategyUse",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("similarity", models.FloatField()),
                ("asked", models.CharField(help_text="the beginning of the task", max_length=200)),
                ("tokens_saved", models.BigIntegerField(default=0)),
                ("rating", models.FloatField(blank=True, help_text="0 hurt, 1 helped", null=True)),
                ("rated_by", models.CharField(blank=True, max_length=160)),
                ("rated_at", models.DateTimeField(blank=True, null=True)),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "assembly",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.DB_SET_NULL,
                        related_name="strategy_uses",
                        to="contextopt.assembly",
                    ),
                ),
                (
                    "memory",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.DB_CASCADE,
                        related_name="uses",
                        to="memory.memory",
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.DB_SET_NULL,
                        related_name="strategy_uses",
                        to="contextopt.task",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="TrustChange",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("trust", models.FloatField()),
                ("reason", models.CharField(max_length=200)),
                ("changed_by", models.CharField(blank=True, max_length=160)),
                ("changed_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "memory",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.DB_CASCADE,
                        related_name="trust_changes",
                        to="memory.memory",
                    ),
                ),
                (
                    "use",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.DB_SET_NULL,
                        related_name="trust_changes",
                        to="memory.strategyuse",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="HalfLife",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("memory_type", models.CharField(max_length=64)),
                (
                    "days",
                    models.FloatField(help_text="after so many days without access a memory counts half"),
                ),
                (
                    "team",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.DB_CASCADE,
                        related_name="half_lives",
                        to="contextopt.team",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "half-lives",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("team", "memory_type"), include=("days",), name="half_life_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("days__gt", 0), ("days__lte", 36500)), name="half_life_days"
                    ),
                ],
            },
        ),
        migrations.AddIndex(
            model_name="memory",
            index=models.Index(
                condition=models.Q(("deleted_at", None)),
                fields=["team", "-created_at", "-id"],
                name="memory_newest",
            ),
        ),
        migrations.AddIndex(
            model_name="memory",
            index=models.Index(
                condition=models.Q(("deleted_at__isnull", False)),
                fields=["team", "-created_at", "-id"],
                name="memory_deleted",
            ),
        ),
        migrations.AddIndex(
            model_name="memory",
            index=models.Index(
                condition=models.Q(("deleted_at", None)),
                fields=["team", "memory_type", "repository"],
                name="memory_of_type",
            ),
        ),
        migrations.AddIndex(
            model_name="memory",
            index=django.contrib.postgres.indexes.GinIndex(
                condition=models.Q(("deleted_at", None), ("retired_at", None)),
                fields=["search_vector"],
                gin_pending_list_limit=512,
                name="memory_search",
            ),
        ),
        migrations.AddConstraint(
            model_name="memory",
            constraint=models.CheckConstraint(
                condition=models.Q(("content__length__gte", 1), ("content__length__lte", 10000)),
                name="memory_content",
            ),
        ),
        migrations.AddConstraint(
            model_name="memory",
            constraint=models.CheckConstraint(
                condition=models.Q(("memory_type__length__gte", 1)), name="memory_type"
            ),
        ),
        migrations.AddConstraint(
            model_name="memory",
            constraint=models.CheckConstraint(
                condition=models.Q(("trust__gte", 0), ("trust__lte", 1)), name="memory_trust"
            ),
        ),
        migrations.AddConstraint(
            model_name="memory",
            constraint=models.CheckConstraint(
                condition=models.Q(("trust_level__in", ["user", "agent", "external"])),
                name="memory_trust_level",
            ),
        ),
        migrations.AddIndex(
            model_name="memoryembedding",
            index=models.Index(fields=["model", "corpus_id"], name="memory_embedding_corpus"),
        ),
        migrations.AddConstraint(
            model_name="memoryembedding",
            constraint=models.UniqueConstraint(fields=("memory", "model"), name="memory_embedding_once"),
        ),
        migrations.AddIndex(
            model_name="strategyuse",
            index=models.Index(fields=["memory", "-created_at", "-id"], name="strategy_use_newest"),
        ),
        migrations.AddConstraint(
            model_name="strategyuse",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("rating", None), models.Q(("rating__gte", 0), ("rating__lte", 1)), _connector="OR"
                ),
                name="strategy_use_rating",
            ),
        ),
        migrations.AddIndex(
            model_name="trustchange",
            index=models.Index(fields=["memory", "changed_at", "id"], name="trust_change_of"),
        ),
        migrations.AddConstraint(
            model_name="trustchange",
            constraint=models.CheckConstraint(
                condition=models.Q(("trust__gte", 0), ("trust__lte", 1)), name="trust_change_trust"
            ),
        ),
        migrations.RunSQL(NOTE, UNNOTE),
    ]
