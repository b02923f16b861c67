"""A trigger that says when the summaries of a team no longer hold: a space's share of them went with it."""

from typing import ClassVar

from django.db import migrations

NOTES = """
CREATE FUNCTION dashboard_note_space_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE dashboard_rollupzone SET summarised_since = NULL
     WHERE summarised_since IS NOT NULL AND team_id IN (SELECT team_id FROM gone);
    RETURN NULL;
END $$;

CREATE TRIGGER dashboard_space_deleted AFTER DELETE ON contextopt_space
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION dashboard_note_space_deleted();
"""

DROP_NOTES = """
DROP TRIGGER dashboard_space_deleted ON contextopt_space;
DROP FUNCTION dashboard_note_space_deleted();
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("dashboard", "0004_summaries")]

    operations: ClassVar = [migrations.RunSQL(NOTES, DROP_NOTES)]
