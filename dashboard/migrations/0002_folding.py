"""Triggers that say what is to be folded: new assemblies, and the days of deleted ones."""

from typing import ClassVar

from django.db import migrations

NOTES = """
CREATE FUNCTION dashboard_note_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dashboard_unfoldedassembly (assembly_id) SELECT id FROM added;
    RETURN NULL;
END $$;

-- What went with its space or team takes its rollups along, by their own foreign keys.
CREATE FUNCTION dashboard_note_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dashboard_staleday (team_id, day)
    SELECT DISTINCT gone.team_id, date_trunc('day', gone.created_at, 'UTC')
      FROM gone
     WHERE EXISTS (SELECT FROM contextopt_team WHERE id = gone.team_id)
       AND (gone.space_id IS NULL OR EXISTS (SELECT FROM contextopt_space WHERE id = gone.space_id))
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE TRIGGER dashboard_assembly_added AFTER INSERT ON contextopt_assembly
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION dashboard_note_added();
CREATE TRIGGER dashboard_assembly_deleted AFTER DELETE ON contextopt_assembly
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION dashboard_note_deleted();

INSERT INTO dashboard_unfoldedassembly (assembly_id) SELECT id FROM contextopt_assembly;
"""

DROP_NOTES = """
DROP TRIGGER dashboard_assembly_deleted ON contextopt_assembly;
DROP TRIGGER dashboard_assembly_added ON contextopt_assembly;
DROP FUNCTION dashboard_note_deleted();
DROP FUNCTION dashboard_note_added();
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("dashboard", "0001_rollups")]

    operations: ClassVar = [migrations.RunSQL(NOTES, DROP_NOTES)]
