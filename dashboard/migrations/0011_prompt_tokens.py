"""The tokens of prompts by what the provider's cache does with them. A job measures days with prompts again."""

from datetime import date
from typing import ClassVar

from django.db import migrations, models

ROLLUPS = ("dayrollup", "daysummary", "hoursummary", "quarterrollup")
SUMS = ("prompt_tokens", "shared_tokens", "cached_tokens", "cacheable_tokens")
# Only days with prompts in a conversation have such tokens.
MARK_STALE = """
INSERT INTO dashboard_staleday (team_id, day)
SELECT DISTINCT team_id, date_trunc('day', created_at, 'UTC') FROM contextopt_assembly
 WHERE prompt_tokens IS NOT NULL OR carried_tokens > 0
ON CONFLICT DO NOTHING;
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [
        ("dashboard", "0010_cache_prices"),
        ("contextopt", "0050_cacheable_tokens"),
    ]

    operations: ClassVar = [
        *(
            migrations.AddField(rollup, name, models.BigIntegerField(default=0))
            for rollup in ROLLUPS
            for name in SUMS
        ),
        *(
            migrations.AddField(
                rollup,
                "carried_tokens",
                models.BigIntegerField(default=0, help_text="part of tokens_after"),
            )
            for rollup in ROLLUPS
        ),
        *(
            migrations.AddField(
                rollup,
                "prompts",
                models.PositiveIntegerField(default=0, help_text="contexts whose whole prompt was measured"),
            )
            for rollup in ROLLUPS
        ),
        migrations.AlterField(
            "modelprice",
            "effective_from",
            models.DateField(
                default=date(2000, 1, 1),
                help_text="The first day that these prices hold, in the team's time zone.",
            ),
        ),
        migrations.RunSQL(MARK_STALE, migrations.RunSQL.noop),
    ]
