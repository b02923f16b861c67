"""A job measures the days again whose figures counted contexts that were not sent."""

from typing import ClassVar

from django.db import migrations

MARK_STALE = """
INSERT INTO dashboard_staleday (team_id, day)
SELECT DISTINCT team_id, date_trunc('day', created_at, 'UTC') FROM contextopt_assembly WHERE NOT is_sent
ON CONFLICT DO NOTHING;
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("dashboard", "0012_traffic"), ("contextopt", "0052_unsent_contexts")]

    operations: ClassVar = [migrations.RunSQL(MARK_STALE, migrations.RunSQL.noop)]
