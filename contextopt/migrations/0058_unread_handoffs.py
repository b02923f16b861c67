"""Lets a hand-off that nobody read be taken out of the account, and lists corrected savings."""

from typing import ClassVar

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

TRIGGER = """
DROP TRIGGER contextopt_assembly_immutable ON contextopt_assembly;
CREATE TRIGGER contextopt_assembly_immutable BEFORE UPDATE ON contextopt_assembly
    FOR EACH ROW EXECUTE FUNCTION contextopt_refuse_change({columns});
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0057_long_runs")]

    operations: ClassVar = [
        migrations.RunSQL(TRIGGER.format(columns="'task_id', 'is_sent'"), TRIGGER.format(columns="'task_id'")),
        migrations.CreateModel(
            name="Correction",
            fields=[
                (
                    "assembly",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.DB_CASCADE,
                        primary_key=True,
                        related_name="correction",
                        serialize=False,
                        to="contextopt.assembly",
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
    ]
