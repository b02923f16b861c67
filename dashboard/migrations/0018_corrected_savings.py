"""A job measures the days again whose savings were corrected."""

from typing import ClassVar

from django.db import migrations

MARK_STALE = """
INSERT INTO dashboard_staleday (team_id, day)
SELECT DISTINCT a.team_id, date_trunc('day', a.created_at, 'UTC')
  FROM contextopt_correction c JOIN contextopt_assembly a ON a.id = c.assembly_id
ON CONFLICT DO NOTHING;
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("dashboard", "0017_abandoned_prompts"), ("contextopt", "0061_true_savings")]

    operations: ClassVar = [migrations.RunSQL(MARK_STALE, migrations.RunSQL.noop)]
