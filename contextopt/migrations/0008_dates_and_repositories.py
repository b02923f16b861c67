"""Adds the order of days and months in a team's dates, and imports of repositories."""

from typing import ClassVar

import django.db.models.deletion
from django.db import migrations, models

SET_TEAMS = """
UPDATE contextopt_importrun r SET team_id = s.team_id FROM contextopt_space s WHERE s.id = r.space_id
"""
# Before, each import had a space.
DROP_INDEX_RUNS = "DELETE FROM contextopt_importrun WHERE space_id IS NULL"


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0007_links_and_answers")]

    operations: ClassVar = [
        migrations.AddField(
            model_name="team",
            name="date_order",
            field=models.CharField(
                blank=True,
                choices=[
                    ("", "As usual in the time zone"),
                    ("day", "Day first (31/12/2026)"),
                    ("month", "Month first (12/31/2026)"),
                ],
                help_text="How imports read dates such as 03/04/2026 if no date in the column shows the order.",
                max_length=5,
            ),
        ),
        migrations.AddConstraint(
            model_name="team",
            constraint=models.CheckConstraint(
                condition=models.Q(("date_order__in", ["", "day", "month"])), name="team_date_order"
            ),
        ),
        migrations.RenameField(model_name="repository", old_name="folder", new_name="source"),
        migrations.AlterField(
            model_name="repository",
            name="source",
            field=models.CharField(
                blank=True,
                help_text="folder on this machine, git address, or name of an archive; blank if posted",
                max_length=4096,
            ),
        ),
        migrations.AddField(
            model_name="importrun",
            name="team",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DB_CASCADE,
                related_name="import_runs",
                to="contextopt.team",
            ),
        ),
        migrations.RunSQL(SET_TEAMS, migrations.RunSQL.noop),
        migrations.AlterField(
            model_name="importrun",
            name="team",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.DB_CASCADE,
                related_name="import_runs",
                to="contextopt.team",
            ),
        ),
        migrations.AlterField(
            model_name="importrun",
            name="space",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DB_CASCADE,
                related_name="import_runs",
                to="contextopt.space",
            ),
        ),
        migrations.RunSQL(migrations.RunSQL.noop, DROP_INDEX_RUNS),
        migrations.AddIndex(
            model_name="importrun",
            index=models.Index(fields=["team", "-created_at", "-id"], name="import_run_team"),
        ),
    ]
