"""A count of empty contexts. All days are measured again by a job: what counts as a saving has changed."""

from typing import ClassVar

from django.db import migrations, models

# The job takes a day of a team a step, the newest first.
MARK_STALE = """
INSERT INTO dashboard_staleday (team_id, day)
SELECT DISTINCT team_id, date_trunc('day', start, 'UTC') FROM dashboard_quarterrollup
ON CONFLICT DO NOTHING;
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("dashboard", "0005_deleted_spaces"), ("contextopt", "0021_warning_codes")]

    operations: ClassVar = [
        *(
            migrations.AddField(
                model_name=rollup,
                name="empties",
                field=models.PositiveIntegerField(default=0, help_text="contexts of spaces without a record"),
            )
            for rollup in ("dayrollup", "daysummary", "hoursummary", "quarterrollup")
        ),
        migrations.RunSQL(MARK_STALE, MARK_STALE),
    ]
