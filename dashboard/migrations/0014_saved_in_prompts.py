"""The saving in prompts whose conversation is known. A job measures days with such prompts again."""

from typing import ClassVar

from django.db import migrations, models

ROLLUPS = ("dayrollup", "daysummary", "hoursummary", "quarterrollup")
MARK_STALE = """
INSERT INTO dashboard_staleday (team_id, day)
SELECT DISTINCT team_id, date_trunc('day', created_at, 'UTC') FROM contextopt_assembly
 WHERE prompt_tokens IS NOT NULL
ON CONFLICT DO NOTHING;
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("dashboard", "0013_unsent_contexts")]

    operations: ClassVar = [
        *(
            migrations.AddField(
                rollup, "saved_in_prompts", models.BigIntegerField(default=0, help_text="part of tokens_saved")
            )
            for rollup in ROLLUPS
        ),
        *(
            migrations.AddField(rollup, name, models.FloatField(default=0.0))
            for rollup in ROLLUPS
            for name in ("saved_cached", "saved_cacheable")
        ),
        migrations.RunSQL(MARK_STALE, migrations.RunSQL.noop),
    ]
