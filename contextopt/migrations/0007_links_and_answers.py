"""Adds the table that joins the names of phases, and keeps every answer to a decision."""

from typing import ClassVar

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

from contextopt.sql import load_sql

_HANDOFFS = [("analysis", "Analysis"), ("design", "Design"), ("implementation", "Implementation")]
ANSWERS = """
INSERT INTO contextopt_resolution (finding_id, number, answer, created_by, created_at)
SELECT id, 1, resolution, resolved_by, resolved_at
  FROM contextopt_finding
 WHERE resolved_at IS NOT NULL AND resolution <> ''
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0006_tokens_and_imports")]

    operations: ClassVar = [
        migrations.CreateModel(
            name="PhaseLink",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("phase", models.CharField(max_length=64)),
                ("version", models.PositiveIntegerField()),
                ("is_active", models.BooleanField(default=False)),
                ("profile", models.CharField(help_text="The phase whose profile it uses.", max_length=64)),
                (
                    "receives",
                    models.CharField(
                        blank=True,
                        choices=_HANDOFFS,
                        help_text="The phase whose hand-off its steps are sent. Leave blank for none.",
                        max_length=16,
                    ),
                ),
                ("note", models.CharField(blank=True, max_length=200)),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.DB_CASCADE,
                        related_name="%(class)ss",
                        to="contextopt.team",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("team", "phase", "version"), name="phase_link_version_once"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("is_active", True)),
                        fields=("team", "phase"),
                        name="phase_link_active_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("phase__length__gte", 1), ("profile__length__gte", 1)),
                        name="phase_link_named",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("receives__in", ["", *dict(_HANDOFFS)])),
                        name="phase_link_receives",
                    ),
                ],
            },
        ),
        load_sql("contextopt/agents/phaselinks.sql"),
        migrations.CreateModel(
            name="Resolution",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("answer", models.CharField(max_length=2000)),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "finding",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.DB_CASCADE,
                        related_name="resolutions",
                        to="contextopt.finding",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("finding", "number"), name="resolution_number_once"),
                    models.CheckConstraint(
                        condition=models.Q(("number__gte", 1)), name="resolution_number"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("answer__length__gte", 1)), name="resolution_answer"
                    ),
                ],
            },
        ),
        migrations.RunSQL(ANSWERS, migrations.RunSQL.noop),
        load_sql("contextopt/agents/handoffs/resolutions.sql"),
    ]
