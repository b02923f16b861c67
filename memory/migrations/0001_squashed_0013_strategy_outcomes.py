"""The tables of memories, strategies, feedback, reviews, questions and backtests.

The first migration of contextopt says what it replaces.
"""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.core.serializers.json
import django.db.models.deletion
import django.utils.timezone
import pgvector.django.halfvec
from django.conf import settings
from django.db import migrations, models

from contextopt.sql import load_sql


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("memory", "0001_initial"),
        ("memory", "0001_squashed_0011_evidence_shown"),
        ("memory", "0012_memory_purges"),
        ("memory", "0013_strategy_outcomes"),
    ]

    dependencies = [("contextopt", "0062_audit_erasure")]

    operations = [
        migrations.CreateModel(
            name="Backtest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("space", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="backtests", to="contextopt.space")),
                ("config", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="backtests", to="contextopt.contextconfig")),
                ("last", models.PositiveIntegerField(help_text="contexts asked for")),
                (
                    "state",
                    models.CharField(choices=[("running", "Running"), ("done", "Finished"), ("cancelled", "Cancelled")], default="running", max_length=9),
                ),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("worked_at", models.DateTimeField(default=django.utils.timezone.now, help_text="last context computed")),
                ("finished_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["space", "-created_at", "-id"], name="backtest_newest"),
                    models.Index(condition=models.Q(("state", "running")), fields=["id"], name="backtest_running"),
                ],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("state__in", ["running", "done", "cancelled"])), name="backtest_state"),
                ],
            },
        ),
        migrations.CreateModel(
            name="BacktestRow",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("backtest", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="rows", to="memory.backtest")),
                ("assembly", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="backtest_rows", to="contextopt.assembly")),
                ("is_done", models.BooleanField(default=False)),
                ("tokens_before", models.PositiveIntegerField()),
                ("tokens_after", models.PositiveIntegerField(null=True)),
                ("change", models.PositiveIntegerField(default=0)),
                ("empty_before", models.BooleanField(default=False)),
                ("empty_after", models.BooleanField(default=False)),
                ("is_reconstructed", models.BooleanField(default=False)),
                ("added", django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list)),
                ("removed", django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list)),
                ("evidence", django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list)),
                ("evidence_before", models.PositiveIntegerField(default=0, help_text="evidence in the logged context")),
                ("evidence_after", models.PositiveIntegerField(default=0, help_text="evidence in the new context")),
                ("lost", django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list)),
                ("gained", django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list)),
                ("prompt_after", models.PositiveIntegerField(help_text="tokens of the prompt with the new context", null=True)),
                ("cached_after", models.PositiveIntegerField(null=True)),
                ("cacheable_after", models.PositiveIntegerField(null=True)),
                ("reason", models.CharField(blank=True, max_length=32)),
                ("message", models.TextField(blank=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["backtest", "-change", "-id"], name="backtest_row_change"),
                    models.Index(condition=models.Q(("is_done", False)), fields=["backtest", "-id"], name="backtest_row_waiting"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("backtest", "assembly"), name="backtest_row_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("is_done", False), ("reason", ""), ("tokens_after", None)),
                            models.Q(("is_done", True), ("tokens_after", None), models.Q(("reason", ""), _negated=True)),
                            models.Q(("is_done", True), ("reason", ""), ("tokens_after__isnull", False)),
                            _connector="OR",
                        ),
                        name="backtest_row_outcome",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ExternalMessage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="external_messages", to="contextopt.team")),
                ("external_id", models.CharField(max_length=200)),
                ("assembly", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="external_messages", to="contextopt.assembly")),
                ("answer", models.TextField(blank=True, db_default="", max_length=20000)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("team", "external_id"), name="external_message_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Vote",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="votes", to="contextopt.team")),
                ("assembly", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="votes", to="contextopt.assembly")),
                ("message", models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="votes", to="contextopt.message")),
                (
                    "external_message",
                    models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="votes", to="memory.externalmessage"),
                ),
                ("rater", models.CharField(max_length=200)),
                ("rating", models.CharField(choices=[("up", "Upvote"), ("down", "Downvote")], max_length=4)),
                ("reason", models.CharField(blank=True, max_length=64)),
                ("comment", models.TextField(blank=True, max_length=2000)),
                ("space", models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="votes", to="contextopt.space")),
                ("stage", models.PositiveSmallIntegerField(null=True)),
                ("config_version", models.PositiveIntegerField(null=True)),
                ("phase", models.CharField(blank=True, max_length=64)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["team", "-created_at", "-id"], name="vote_newest"),
                ],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("rating__in", ["up", "down"])), name="vote_rating"),
                    models.CheckConstraint(condition=models.Q(("message", None), ("external_message", None), _connector="OR"), name="vote_one_subject"),
                    models.UniqueConstraint(condition=models.Q(("message__isnull", False)), fields=("message", "rater"), name="vote_message_once"),
                    models.UniqueConstraint(
                        condition=models.Q(("external_message__isnull", False)), fields=("external_message", "rater"), name="vote_external_once"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("external_message", None), ("message", None)), fields=("assembly", "rater"), name="vote_assembly_once"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Memory",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("language", models.CharField(choices=[("en", "English"), ("no", "Norwegian")], db_default="en", max_length=2)),
                ("team", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="memories", to="contextopt.team")),
                (
                    "space",
                    models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.DB_SET_NULL, related_name="memories", to="contextopt.space"),
                ),
                (
                    "task",
                    models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.DB_SET_NULL, related_name="memories", to="contextopt.task"),
                ),
                ("title", models.CharField(blank=True, max_length=200)),
                ("content", models.TextField(max_length=10000)),
                ("memory_type", models.CharField(default="general", max_length=64)),
                ("category", models.CharField(blank=True, max_length=64)),
                ("tags", django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), blank=True, default=list)),
                ("repository", models.CharField(blank=True, max_length=200)),
                (
                    "trust_level",
                    models.CharField(choices=[("user", "Team member"), ("agent", "Agent"), ("external", "External")], default="user", max_length=8),
                ),
                ("trust", models.FloatField(default=0.5, help_text="0 to 1, adjusted by ratings")),
                ("payload", models.JSONField(blank=True, default=dict)),
                ("access_count", models.PositiveBigIntegerField(default=0)),
                ("last_accessed_at", models.DateTimeField(blank=True, null=True)),
                ("use_count", models.PositiveIntegerField(default=0, help_text="number of plans that received it as a hint")),
                ("evidence_count", models.PositiveIntegerField(db_default=1, default=1, help_text="number of tasks that succeeded with it")),
                (
                    "tokens_saved",
                    models.BigIntegerField(
                        blank=True, help_text="by tasks that used it, compared with similar tasks without it; blank if there are none", null=True
                    ),
                ),
                ("retired_at", models.DateTimeField(blank=True, null=True)),
                ("retired_reason", models.CharField(blank=True, max_length=200)),
                ("deleted_at", models.DateTimeField(blank=True, null=True)),
                ("purged_at", models.DateTimeField(blank=True, null=True)),
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
            ],
            options={
                "verbose_name_plural": "memories",
                "indexes": [
                    models.Index(condition=models.Q(("deleted_at", None)), fields=["team", "-created_at", "-id"], name="memory_newest"),
                    models.Index(condition=models.Q(("deleted_at__isnull", False)), fields=["team", "-created_at", "-id"], name="memory_deleted"),
                    models.Index(condition=models.Q(("deleted_at__isnull", False)), fields=["purged_at", "deleted_at"], name="memory_purged"),
                    models.Index(condition=models.Q(("deleted_at", None)), fields=["team", "memory_type", "repository"], name="memory_of_type"),
                    django.contrib.postgres.indexes.GinIndex(
                        condition=models.Q(("deleted_at", None), ("retired_at", None)),
                        fields=["search_vector"],
                        gin_pending_list_limit=512,
                        name="memory_search",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("content__length__gte", 1), ("content__length__lte", 10000)), name="memory_content"),
                    models.CheckConstraint(condition=models.Q(("memory_type__length__gte", 1)), name="memory_type"),
                    models.CheckConstraint(condition=models.Q(("trust__gte", 0), ("trust__lte", 1)), name="memory_trust"),
                    models.CheckConstraint(condition=models.Q(("trust_level__in", ["user", "agent", "external"])), name="memory_trust_level"),
                ],
            },
        ),
        migrations.CreateModel(
            name="MemoryEmbedding",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("model", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name="+", to="contextopt.embeddingmodel")),
                ("corpus_id", models.BigIntegerField()),
                ("embedding", pgvector.django.halfvec.HalfVectorField()),
                ("content_hash", models.BinaryField(max_length=16)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("memory", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="embeddings", to="memory.memory")),
            ],
            options={
                "indexes": [
                    models.Index(fields=["model", "corpus_id"], name="memory_embedding_corpus"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("memory", "model"), name="memory_embedding_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="HalfLife",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="half_lives", to="contextopt.team")),
                ("memory_type", models.CharField(max_length=64)),
                ("days", models.FloatField(help_text="days without access after which a memory counts half")),
            ],
            options={
                "verbose_name_plural": "half-lives",
                "constraints": [
                    models.UniqueConstraint(fields=("team", "memory_type"), include=("days",), name="half_life_once"),
                    models.CheckConstraint(condition=models.Q(("days__gt", 0), ("days__lte", 36500)), name="half_life_days"),
                ],
            },
        ),
        migrations.CreateModel(
            name="MemoryPolicy",
            fields=[
                (
                    "team",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.DB_CASCADE, primary_key=True, related_name="memory_policy", serialize=False, to="contextopt.team"
                    ),
                ),
                ("hints_across_repositories", models.BooleanField(default=False, help_text="allow hints from the team's other repositories")),
                ("rating_weight", models.FloatField(default=0.3, help_text="weight of one rating in the trust, 0 to 1")),
                ("retire_below", models.FloatField(default=0.25, help_text="retire a strategy when its trust falls below this")),
                ("retire_after", models.PositiveIntegerField(default=3, help_text="minimum number of ratings before a strategy is retired")),
            ],
            options={
                "verbose_name_plural": "memory policies",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("rating_weight__gt", 0), ("rating_weight__lte", 1), ("retire_below__gte", 0), ("retire_below__lte", 1)),
                        name="memory_policy_shares",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="QuestionSet",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "space",
                    models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="question_sets", to="contextopt.space"),
                ),
                ("name", models.CharField(max_length=120)),
                ("min_recall", models.FloatField(blank=True, help_text="0 to 1; blank: none", null=True)),
                ("changed_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("space", "name"), name="question_set_once"),
                    models.CheckConstraint(condition=models.Q(("min_recall__gte", 0), ("min_recall__lte", 1)), name="question_set_min_recall"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Question",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "question_set",
                    models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="questions", to="memory.questionset"),
                ),
                ("external_id", models.CharField(blank=True, max_length=500)),
                ("text", models.TextField()),
                ("answer", models.TextField(blank=True, max_length=20000)),
                ("as_of", models.DateTimeField(blank=True, null=True)),
                (
                    "source",
                    models.CharField(
                        choices=[("hand", "By hand"), ("file", "File"), ("verdict", "Review verdict"), ("vote", "Upvoted answer")], default="hand", max_length=8
                    ),
                ),
                (
                    "assembly",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.DB_SET_NULL, related_name="questions", to="contextopt.assembly"
                    ),
                ),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["question_set", "id"], name="question_newest"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("external_id", ""), _negated=True), fields=("question_set", "external_id"), name="question_imported_once"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("assembly__isnull", False)), fields=("question_set", "assembly"), name="question_assembly_once"
                    ),
                    models.CheckConstraint(condition=models.Q(("source__in", ["hand", "file", "verdict", "vote"])), name="question_source"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ExpectedRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("question", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="expected", to="memory.question")),
                ("record", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="+", to="contextopt.record")),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("question", "record"), name="expected_record_once"),
                ],
            },
        ),
        migrations.AddField(
            model_name="question",
            name="records",
            field=models.ManyToManyField(related_name="+", through="memory.ExpectedRecord", to="contextopt.record"),
        ),
        migrations.CreateModel(
            name="Evaluation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "question_set",
                    models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="evaluations", to="memory.questionset"),
                ),
                ("config_version", models.PositiveIntegerField(help_text="blank: a draft", null=True)),
                ("settings", models.JSONField(encoder=django.core.serializers.json.DjangoJSONEncoder)),
                ("settings_key", models.CharField(max_length=32)),
                ("context_tokens", models.PositiveIntegerField(help_text="blank: as the settings say", null=True)),
                ("state", models.CharField(choices=[("running", "Running"), ("done", "Done"), ("failed", "Failed")], default="running", max_length=8)),
                ("error", models.TextField(blank=True)),
                ("questions", models.PositiveIntegerField(default=0, help_text="to ask in all")),
                ("asked", models.PositiveIntegerField(default=0, help_text="asked so far")),
                ("recall", models.FloatField(null=True)),
                ("precision", models.FloatField(null=True)),
                ("evidence_shown", models.FloatField(null=True)),
                ("tokens_mean", models.FloatField(null=True)),
                ("empty", models.PositiveIntegerField(default=0, help_text="contexts without records")),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("worked_at", models.DateTimeField(default=django.utils.timezone.now, help_text="last question asked")),
                ("finished_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["question_set", "-created_at", "-id"], name="evaluation_newest"),
                    models.Index(condition=models.Q(("state", "running")), fields=["id"], name="evaluation_running"),
                ],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("state__in", ["running", "done", "failed"])), name="evaluation_state"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "done"), _negated=True),
                            models.Q(("precision__isnull", False), ("recall__isnull", False), ("tokens_mean__isnull", False)),
                            _connector="OR",
                        ),
                        name="evaluation_done",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="EvaluatedQuestion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "evaluation",
                    models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="results", to="memory.evaluation"),
                ),
                ("question", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="results", to="memory.question")),
                ("recall", models.FloatField()),
                ("precision", models.FloatField()),
                ("evidence_shown", models.FloatField(null=True)),
                ("tokens", models.PositiveIntegerField()),
                ("is_empty", models.BooleanField()),
                ("outcomes", models.JSONField(default=list)),
                ("warning_codes", django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=32), default=list)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("evaluation", "question"), name="evaluated_question_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ReviewRules",
            fields=[
                (
                    "team",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.DB_CASCADE, primary_key=True, related_name="review_rules", serialize=False, to="contextopt.team"
                    ),
                ),
                ("takes_disliked", models.BooleanField(default=True, help_text="all downvoted answers")),
                ("sample_share", models.FloatField(default=0, help_text="random sample of other assemblies, 0 to 1")),
                ("verdicts_wanted", models.PositiveSmallIntegerField(default=1, help_text="verdicts wanted per item")),
                ("sampled_until", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "verbose_name_plural": "review rules",
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("sample_share__gte", 0), ("sample_share__lte", 1)), name="review_rules_share"),
                    models.CheckConstraint(condition=models.Q(("verdicts_wanted__gte", 1), ("verdicts_wanted__lte", 3)), name="review_rules_verdicts"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ReviewItem",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="review_items", to="contextopt.team")),
                ("assembly", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="review_items", to="contextopt.assembly")),
                (
                    "message",
                    models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_SET_NULL, related_name="review_items", to="contextopt.message"),
                ),
                (
                    "external_message",
                    models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="review_items", to="memory.externalmessage"),
                ),
                ("origin", models.CharField(choices=[("disliked", "Downvoted"), ("sample", "Sample")], max_length=8)),
                ("state", models.CharField(choices=[("open", "Waiting"), ("done", "Done"), ("withdrawn", "Withdrawn")], default="open", max_length=9)),
                ("verdicts", models.PositiveSmallIntegerField(default=0, help_text="verdicts given so far")),
                (
                    "assigned_to",
                    models.ForeignKey(
                        help_text="blank: anyone can review it",
                        null=True,
                        on_delete=django.db.models.deletion.DB_SET_NULL,
                        related_name="review_items",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("space", models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="review_items", to="contextopt.space")),
                ("stage", models.PositiveSmallIntegerField(null=True)),
                ("config_version", models.PositiveIntegerField(null=True)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("done_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["team", "-created_at", "-id"], name="review_item_newest"),
                    models.Index(condition=models.Q(("state", "open")), fields=["team", "origin", "created_at", "id"], name="review_item_queue"),
                ],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("state__in", ["open", "done", "withdrawn"])), name="review_item_state"),
                    models.CheckConstraint(condition=models.Q(("origin__in", ["disliked", "sample"])), name="review_item_origin"),
                    models.CheckConstraint(condition=models.Q(("message", None), ("external_message", None), _connector="OR"), name="review_item_one_subject"),
                    models.UniqueConstraint(condition=models.Q(("external_message", None)), fields=("assembly",), name="review_item_assembly_once"),
                    models.UniqueConstraint(
                        condition=models.Q(("external_message__isnull", False)), fields=("external_message",), name="review_item_external_once"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ReviewSlot",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("item", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="slots", to="memory.reviewitem")),
                ("number", models.PositiveSmallIntegerField()),
                ("reviewer", models.CharField(blank=True, max_length=200)),
                ("reserved_until", models.DateTimeField(null=True)),
                (
                    "verdict",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("context_missing", "Context missing"),
                            ("context_cut", "Context cut too short"),
                            ("context_wrong", "Context wrong or stale"),
                            ("model", "The model's fault"),
                            ("no_problem", "Not a problem"),
                            ("other", "Other"),
                        ],
                        max_length=16,
                    ),
                ),
                ("note", models.TextField(blank=True, max_length=2000)),
                ("record_ids", django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), blank=True, default=list)),
                ("judged_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("reviewer", ""), _negated=True), fields=["reviewer", "-judged_at"], name="review_slot_reviewer"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("item", "number"), name="review_slot_once"),
                    models.UniqueConstraint(condition=models.Q(("reviewer", ""), _negated=True), fields=("item", "reviewer"), name="review_slot_reviewer_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("judged_at", None), ("reserved_until", None), ("reviewer", ""), ("verdict", "")),
                            models.Q(("judged_at", None), ("reserved_until__isnull", False), ("verdict", ""), models.Q(("reviewer", ""), _negated=True)),
                            models.Q(
                                ("judged_at__isnull", False),
                                ("reserved_until", None),
                                ("verdict__in", ["context_missing", "context_cut", "context_wrong", "model", "no_problem", "other"]),
                                models.Q(("reviewer", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="review_slot_state",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="StrategyUse",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("memory", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="uses", to="memory.memory")),
                (
                    "task",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.DB_SET_NULL, related_name="strategy_uses", to="contextopt.task"
                    ),
                ),
                (
                    "assembly",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.DB_SET_NULL, related_name="strategy_uses", to="contextopt.assembly"
                    ),
                ),
                ("similarity", models.FloatField()),
                ("asked", models.CharField(help_text="start of the task description", max_length=200)),
                (
                    "tokens_saved",
                    models.BigIntegerField(blank=True, help_text="compared with similar tasks without the strategy; blank if there are none", null=True),
                ),
                ("rating", models.FloatField(blank=True, help_text="0: it hurt, 1: it helped", null=True)),
                ("succeeded", models.BooleanField(blank=True, help_text="whether its task succeeded; blank until it ends", null=True)),
                ("rated_by", models.CharField(blank=True, max_length=160)),
                ("rated_at", models.DateTimeField(blank=True, null=True)),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["memory", "-created_at", "-id"], name="strategy_use_newest"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("rating", None), models.Q(("rating__gte", 0), ("rating__lte", 1)), _connector="OR"), name="strategy_use_rating"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="TrustChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("memory", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="trust_changes", to="memory.memory")),
                (
                    "use",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.DB_SET_NULL, related_name="trust_changes", to="memory.strategyuse"
                    ),
                ),
                ("trust", models.FloatField()),
                ("weight", models.FloatField(blank=True, help_text="weight of the rating; blank when trust is reset", null=True)),
                ("rating", models.FloatField(blank=True, help_text="blank with a weight: the rating was withdrawn", null=True)),
                ("reason", models.CharField(max_length=200)),
                ("changed_by", models.CharField(blank=True, max_length=160)),
                ("changed_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["memory", "changed_at", "id"], name="trust_change_of"),
                ],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("trust__gte", 0), ("trust__lte", 1)), name="trust_change_trust"),
                ],
            },
        ),
        load_sql("memory/memories/triggers.sql"),
    ]
