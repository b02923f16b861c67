"""Keeps every answer to a decision."""

from typing import ClassVar

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

from contextopt.sql import load_sql

ANSWERS = """
INSERT INTO contextopt_resolution (finding_id, number, answer, created_by, created_at)
SELECT id, 1, resolution, resolved_by, resolved_at
  FROM contextopt_finding
 WHERE resolved_at IS NOT NULL AND resolution <> ''
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0008_phase_links")]

    operations: ClassVar = [
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
