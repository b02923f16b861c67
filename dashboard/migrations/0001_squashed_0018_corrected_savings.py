"""The rollups, saved views and prices.

The first migration of contextopt says what it replaces.
"""

import datetime
from decimal import Decimal

import django.core.validators
import django.db.models.deletion
import pgvector.django.vector
from django.conf import settings
from django.db import migrations, models

from contextopt.sql import load_sql

# Counters are updated in place, so their pages keep room.
ROOM = """
ALTER TABLE dashboard_trafficquarter SET (fillfactor = 60);
ALTER TABLE dashboard_trafficday SET (fillfactor = 60);
"""


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("dashboard", "0001_rollups"),
        ("dashboard", "0001_squashed_0012_traffic"),
        ("dashboard", "0013_unsent_contexts"),
        ("dashboard", "0014_saved_in_prompts"),
        ("dashboard", "0015_unread_handoffs"),
        ("dashboard", "0016_percentiles"),
        ("dashboard", "0017_abandoned_prompts"),
        ("dashboard", "0018_corrected_savings"),
    ]

    dependencies = [("contextopt", "0062_audit_erasure"), ("memory", "0013_strategy_outcomes")]

    operations = [
        migrations.CreateModel(
            name="WorkerBeat",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("beaten_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name="saved_views", to="contextopt.team")),
                (
                    "owner",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="saved_views", to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("page", models.CharField(choices=[("overview", "Overview"), ("assemblies", "Assemblies")], max_length=16)),
                ("name", models.CharField(max_length=80)),
                ("query", models.CharField(blank=True, max_length=2000)),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("team", "owner", "page", "name"), name="saved_view_once", nulls_distinct=False),
                    models.CheckConstraint(condition=models.Q(("page__in", ["overview", "assemblies"])), name="saved_view_page"),
                ],
            },
        ),
        migrations.CreateModel(
            name="QuarterRollup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="+", to="contextopt.team")),
                ("start", models.DateTimeField()),
                ("space", models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="+", to="contextopt.space")),
                ("stage", models.PositiveSmallIntegerField(null=True)),
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
                        max_length=8,
                    ),
                ),
                ("config", models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="+", to="contextopt.contextconfig")),
                ("phase", models.CharField(blank=True, max_length=64)),
                ("model", models.CharField(blank=True, max_length=120)),
                ("assemblies", models.PositiveIntegerField(default=0)),
                ("truncated", models.PositiveIntegerField(default=0)),
                ("empties", models.PositiveIntegerField(default=0)),
                ("records_filtered", models.BigIntegerField(default=0)),
                ("records_included", models.BigIntegerField(default=0)),
                ("tokens_before", models.BigIntegerField(default=0)),
                ("tokens_after", models.BigIntegerField(default=0)),
                ("tokens_saved", models.BigIntegerField(default=0)),
                ("prompts", models.PositiveIntegerField(default=0)),
                ("prompt_tokens", models.BigIntegerField(default=0)),
                ("shared_tokens", models.BigIntegerField(default=0)),
                ("cached_tokens", models.BigIntegerField(default=0)),
                ("cacheable_tokens", models.BigIntegerField(default=0)),
                ("carried_tokens", models.BigIntegerField(default=0)),
                ("saved_in_prompts", models.BigIntegerField(default=0)),
                ("saved_cached", models.FloatField(default=0.0)),
                ("saved_cacheable", models.FloatField(default=0.0)),
                ("ratios", models.FloatField(default=0.0)),
                ("with_ratio", models.PositiveIntegerField(default=0)),
                ("utilisations", models.FloatField(default=0.0)),
                ("with_utilisation", models.PositiveIntegerField(default=0)),
                ("ms_histogram", pgvector.django.vector.VectorField(dimensions=86)),
                ("ms_smallest", models.FloatField(null=True)),
                ("ms_largest", models.FloatField(null=True)),
                ("tokens_histogram", pgvector.django.vector.VectorField(dimensions=50)),
                ("tokens_smallest", models.FloatField(null=True)),
                ("tokens_largest", models.FloatField(null=True)),
                ("utilisation_histogram", pgvector.django.vector.VectorField(dimensions=21)),
                ("utilisation_smallest", models.FloatField(null=True)),
                ("utilisation_largest", models.FloatField(null=True)),
                ("ratio_histogram", pgvector.django.vector.VectorField(dimensions=82)),
                ("ratio_smallest", models.FloatField(null=True)),
                ("ratio_largest", models.FloatField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("team", "start", "space", "stage", "kind", "config", "phase", "model"), name="quarter_rollup_once", nulls_distinct=False
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DayRollup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="+", to="contextopt.team")),
                ("start", models.DateTimeField()),
                ("space", models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="+", to="contextopt.space")),
                ("stage", models.PositiveSmallIntegerField(null=True)),
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
                        max_length=8,
                    ),
                ),
                ("config", models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="+", to="contextopt.contextconfig")),
                ("phase", models.CharField(blank=True, max_length=64)),
                ("model", models.CharField(blank=True, max_length=120)),
                ("assemblies", models.PositiveIntegerField(default=0)),
                ("truncated", models.PositiveIntegerField(default=0)),
                ("empties", models.PositiveIntegerField(default=0)),
                ("records_filtered", models.BigIntegerField(default=0)),
                ("records_included", models.BigIntegerField(default=0)),
                ("tokens_before", models.BigIntegerField(default=0)),
                ("tokens_after", models.BigIntegerField(default=0)),
                ("tokens_saved", models.BigIntegerField(default=0)),
                ("prompts", models.PositiveIntegerField(default=0)),
                ("prompt_tokens", models.BigIntegerField(default=0)),
                ("shared_tokens", models.BigIntegerField(default=0)),
                ("cached_tokens", models.BigIntegerField(default=0)),
                ("cacheable_tokens", models.BigIntegerField(default=0)),
                ("carried_tokens", models.BigIntegerField(default=0)),
                ("saved_in_prompts", models.BigIntegerField(default=0)),
                ("saved_cached", models.FloatField(default=0.0)),
                ("saved_cacheable", models.FloatField(default=0.0)),
                ("ratios", models.FloatField(default=0.0)),
                ("with_ratio", models.PositiveIntegerField(default=0)),
                ("utilisations", models.FloatField(default=0.0)),
                ("with_utilisation", models.PositiveIntegerField(default=0)),
                ("ms_histogram", pgvector.django.vector.VectorField(dimensions=86)),
                ("ms_smallest", models.FloatField(null=True)),
                ("ms_largest", models.FloatField(null=True)),
                ("tokens_histogram", pgvector.django.vector.VectorField(dimensions=50)),
                ("tokens_smallest", models.FloatField(null=True)),
                ("tokens_largest", models.FloatField(null=True)),
                ("utilisation_histogram", pgvector.django.vector.VectorField(dimensions=21)),
                ("utilisation_smallest", models.FloatField(null=True)),
                ("utilisation_largest", models.FloatField(null=True)),
                ("ratio_histogram", pgvector.django.vector.VectorField(dimensions=82)),
                ("ratio_smallest", models.FloatField(null=True)),
                ("ratio_largest", models.FloatField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("team", "start", "space", "stage", "kind", "config", "phase", "model"), name="day_rollup_once", nulls_distinct=False
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="RollupZone",
            fields=[
                (
                    "team",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.DB_CASCADE, primary_key=True, related_name="+", serialize=False, to="contextopt.team"
                    ),
                ),
                ("time_zone", models.CharField(max_length=64)),
                ("summarised_since", models.DateTimeField(help_text="summaries are valid from here on; a job rebuilds older ones, newest first", null=True)),
            ],
        ),
        migrations.CreateModel(
            name="UnfoldedAssembly",
            fields=[
                ("assembly_id", models.BigIntegerField(primary_key=True, serialize=False)),
            ],
            options={
                "verbose_name_plural": "unfolded assemblies",
            },
        ),
        migrations.CreateModel(
            name="StaleDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="+", to="contextopt.team")),
                ("day", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("team", "day"), name="stale_day_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="HourSummary",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="+", to="contextopt.team")),
                ("start", models.DateTimeField()),
                ("stage", models.PositiveSmallIntegerField(null=True)),
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
                        max_length=8,
                    ),
                ),
                ("phase", models.CharField(blank=True, max_length=64)),
                ("model", models.CharField(blank=True, max_length=120)),
                ("assemblies", models.PositiveIntegerField(default=0)),
                ("truncated", models.PositiveIntegerField(default=0)),
                ("empties", models.PositiveIntegerField(default=0)),
                ("records_filtered", models.BigIntegerField(default=0)),
                ("records_included", models.BigIntegerField(default=0)),
                ("tokens_before", models.BigIntegerField(default=0)),
                ("tokens_after", models.BigIntegerField(default=0)),
                ("tokens_saved", models.BigIntegerField(default=0)),
                ("prompts", models.PositiveIntegerField(default=0)),
                ("prompt_tokens", models.BigIntegerField(default=0)),
                ("shared_tokens", models.BigIntegerField(default=0)),
                ("cached_tokens", models.BigIntegerField(default=0)),
                ("cacheable_tokens", models.BigIntegerField(default=0)),
                ("carried_tokens", models.BigIntegerField(default=0)),
                ("saved_in_prompts", models.BigIntegerField(default=0)),
                ("saved_cached", models.FloatField(default=0.0)),
                ("saved_cacheable", models.FloatField(default=0.0)),
                ("ratios", models.FloatField(default=0.0)),
                ("with_ratio", models.PositiveIntegerField(default=0)),
                ("utilisations", models.FloatField(default=0.0)),
                ("with_utilisation", models.PositiveIntegerField(default=0)),
                ("ms_histogram", pgvector.django.vector.VectorField(dimensions=86)),
                ("ms_smallest", models.FloatField(null=True)),
                ("ms_largest", models.FloatField(null=True)),
                ("tokens_histogram", pgvector.django.vector.VectorField(dimensions=50)),
                ("tokens_smallest", models.FloatField(null=True)),
                ("tokens_largest", models.FloatField(null=True)),
                ("utilisation_histogram", pgvector.django.vector.VectorField(dimensions=21)),
                ("utilisation_smallest", models.FloatField(null=True)),
                ("utilisation_largest", models.FloatField(null=True)),
                ("ratio_histogram", pgvector.django.vector.VectorField(dimensions=82)),
                ("ratio_smallest", models.FloatField(null=True)),
                ("ratio_largest", models.FloatField(null=True)),
            ],
            options={
                "verbose_name_plural": "hour summaries",
                "constraints": [
                    models.UniqueConstraint(fields=("team", "start", "stage", "kind", "phase", "model"), name="hour_summary_once", nulls_distinct=False),
                ],
            },
        ),
        migrations.CreateModel(
            name="DaySummary",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="+", to="contextopt.team")),
                ("start", models.DateTimeField()),
                ("stage", models.PositiveSmallIntegerField(null=True)),
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
                        max_length=8,
                    ),
                ),
                ("phase", models.CharField(blank=True, max_length=64)),
                ("model", models.CharField(blank=True, max_length=120)),
                ("assemblies", models.PositiveIntegerField(default=0)),
                ("truncated", models.PositiveIntegerField(default=0)),
                ("empties", models.PositiveIntegerField(default=0)),
                ("records_filtered", models.BigIntegerField(default=0)),
                ("records_included", models.BigIntegerField(default=0)),
                ("tokens_before", models.BigIntegerField(default=0)),
                ("tokens_after", models.BigIntegerField(default=0)),
                ("tokens_saved", models.BigIntegerField(default=0)),
                ("prompts", models.PositiveIntegerField(default=0)),
                ("prompt_tokens", models.BigIntegerField(default=0)),
                ("shared_tokens", models.BigIntegerField(default=0)),
                ("cached_tokens", models.BigIntegerField(default=0)),
                ("cacheable_tokens", models.BigIntegerField(default=0)),
                ("carried_tokens", models.BigIntegerField(default=0)),
                ("saved_in_prompts", models.BigIntegerField(default=0)),
                ("saved_cached", models.FloatField(default=0.0)),
                ("saved_cacheable", models.FloatField(default=0.0)),
                ("ratios", models.FloatField(default=0.0)),
                ("with_ratio", models.PositiveIntegerField(default=0)),
                ("utilisations", models.FloatField(default=0.0)),
                ("with_utilisation", models.PositiveIntegerField(default=0)),
                ("ms_histogram", pgvector.django.vector.VectorField(dimensions=86)),
                ("ms_smallest", models.FloatField(null=True)),
                ("ms_largest", models.FloatField(null=True)),
                ("tokens_histogram", pgvector.django.vector.VectorField(dimensions=50)),
                ("tokens_smallest", models.FloatField(null=True)),
                ("tokens_largest", models.FloatField(null=True)),
                ("utilisation_histogram", pgvector.django.vector.VectorField(dimensions=21)),
                ("utilisation_smallest", models.FloatField(null=True)),
                ("utilisation_largest", models.FloatField(null=True)),
                ("ratio_histogram", pgvector.django.vector.VectorField(dimensions=82)),
                ("ratio_smallest", models.FloatField(null=True)),
                ("ratio_largest", models.FloatField(null=True)),
            ],
            options={
                "verbose_name_plural": "day summaries",
                "constraints": [
                    models.UniqueConstraint(fields=("team", "start", "stage", "kind", "phase", "model"), name="day_summary_once", nulls_distinct=False),
                ],
            },
        ),
        migrations.CreateModel(
            name="ModelPrice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "model",
                    models.CharField(blank=True, help_text="Name used in requests. Leave blank for the price of requests without a model.", max_length=120),
                ),
                (
                    "dollars_per_million",
                    models.DecimalField(
                        decimal_places=4,
                        max_digits=10,
                        validators=[django.core.validators.MinValueValidator(Decimal("0"))],
                        verbose_name="US dollars per million input tokens",
                    ),
                ),
                (
                    "cached_read_dollars",
                    models.DecimalField(
                        blank=True,
                        decimal_places=4,
                        help_text="Leave blank for the price in the package genai-prices, if it has one.",
                        max_digits=10,
                        null=True,
                        validators=[django.core.validators.MinValueValidator(Decimal("0"))],
                        verbose_name="US dollars per million tokens read from the cache",
                    ),
                ),
                (
                    "cache_write_dollars",
                    models.DecimalField(
                        blank=True,
                        decimal_places=4,
                        help_text="Leave blank if writing costs as much as any other input.",
                        max_digits=10,
                        null=True,
                        validators=[django.core.validators.MinValueValidator(Decimal("0"))],
                        verbose_name="US dollars per million tokens written to the cache",
                    ),
                ),
                ("minimum_tokens", models.PositiveIntegerField(default=1024, help_text="The shortest beginning of a prompt that is cached.")),
                ("lifetime_seconds", models.PositiveIntegerField(default=300, help_text="How long an unused beginning stays cached.")),
                (
                    "effective_from",
                    models.DateField(default=datetime.date(2000, 1, 1), help_text="The first day that these prices hold, in the team's time zone."),
                ),
                ("source", models.CharField(blank=True, help_text="Where the prices come from.", max_length=300)),
                ("changed_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "ordering": ["model", "-effective_from"],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("dollars_per_million__gte", 0)), name="model_price_positive"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("cached_read_dollars", None), ("cached_read_dollars__gte", 0), _connector="OR"),
                            models.Q(("cache_write_dollars", None), ("cache_write_dollars__gte", 0), _connector="OR"),
                        ),
                        name="model_price_cache_positive",
                    ),
                    models.UniqueConstraint(fields=("model", "effective_from"), name="model_price_once_a_day"),
                ],
            },
        ),
        migrations.CreateModel(
            name="TrafficQuarter",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="+", to="contextopt.team")),
                ("start", models.DateTimeField()),
                ("space", models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="+", to="contextopt.space")),
                ("key_id", models.BigIntegerField(null=True)),
                ("model", models.CharField(blank=True, max_length=120)),
                ("mode", models.CharField(max_length=6)),
                ("reason", models.CharField(blank=True, max_length=13)),
                ("requests", models.PositiveIntegerField()),
                ("inserted", models.PositiveIntegerField()),
                ("failed", models.PositiveIntegerField(help_text="not answered, or with an error from the provider; clients that left are apart")),
                ("abandoned", models.PositiveIntegerField(db_default=0, default=0, help_text="whose client left before the answer ended; not failed")),
                ("prompt_tokens", models.BigIntegerField(help_text="counted here, without the context")),
                ("context_tokens", models.BigIntegerField(help_text="inserted, or in audit mode what would have been")),
                ("saved_tokens", models.BigIntegerField(help_text="of contexts whose saving counts, each once")),
                ("with_usage", models.PositiveIntegerField()),
                ("input_tokens", models.BigIntegerField()),
                ("output_tokens", models.BigIntegerField()),
                ("with_cached", models.PositiveIntegerField()),
                ("cached_tokens", models.BigIntegerField()),
                ("cached_input_tokens", models.BigIntegerField(help_text="input of the prompts with a cached count")),
                ("cache_write_tokens", models.BigIntegerField()),
                ("added_histogram", pgvector.django.vector.VectorField(dimensions=86)),
                ("added_smallest", models.FloatField()),
                ("added_largest", models.FloatField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("team", "start", "space", "key_id", "model", "mode", "reason"), name="traffic_quarter_once", nulls_distinct=False
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="TrafficDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("team", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name="+", to="contextopt.team")),
                ("start", models.DateTimeField()),
                ("space", models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name="+", to="contextopt.space")),
                ("key_id", models.BigIntegerField(null=True)),
                ("model", models.CharField(blank=True, max_length=120)),
                ("mode", models.CharField(max_length=6)),
                ("reason", models.CharField(blank=True, max_length=13)),
                ("requests", models.PositiveIntegerField()),
                ("inserted", models.PositiveIntegerField()),
                ("failed", models.PositiveIntegerField(help_text="not answered, or with an error from the provider; clients that left are apart")),
                ("abandoned", models.PositiveIntegerField(db_default=0, default=0, help_text="whose client left before the answer ended; not failed")),
                ("prompt_tokens", models.BigIntegerField(help_text="counted here, without the context")),
                ("context_tokens", models.BigIntegerField(help_text="inserted, or in audit mode what would have been")),
                ("saved_tokens", models.BigIntegerField(help_text="of contexts whose saving counts, each once")),
                ("with_usage", models.PositiveIntegerField()),
                ("input_tokens", models.BigIntegerField()),
                ("output_tokens", models.BigIntegerField()),
                ("with_cached", models.PositiveIntegerField()),
                ("cached_tokens", models.BigIntegerField()),
                ("cached_input_tokens", models.BigIntegerField(help_text="input of the prompts with a cached count")),
                ("cache_write_tokens", models.BigIntegerField()),
                ("added_histogram", pgvector.django.vector.VectorField(dimensions=86)),
                ("added_smallest", models.FloatField()),
                ("added_largest", models.FloatField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("team", "start", "space", "key_id", "model", "mode", "reason"), name="traffic_day_once", nulls_distinct=False
                    ),
                ],
            },
        ),
        migrations.RunSQL(ROOM),
        load_sql("dashboard/rollups/triggers.sql"),
    ]
