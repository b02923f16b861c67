-- Note which assemblies to fold, which days to add up again and which zones to summarise again. This file
-- states what is in force: a migration that changes the functions or triggers changes them here too, and a
-- test compares this file with the database.

CREATE OR REPLACE FUNCTION dashboard_note_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dashboard_unfoldedassembly (assembly_id) SELECT id FROM added;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION dashboard_note_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dashboard_staleday (team_id, day)
    SELECT DISTINCT gone.team_id, date_trunc('day', gone.created_at, 'UTC')
      FROM gone
     WHERE EXISTS (SELECT FROM contextopt_team WHERE id = gone.team_id)
       AND (gone.space_id IS NULL OR EXISTS (SELECT FROM contextopt_space WHERE id = gone.space_id))
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION dashboard_note_space_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE dashboard_rollupzone SET summarised_since = NULL
     WHERE summarised_since IS NOT NULL AND team_id IN (SELECT team_id FROM gone);
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER dashboard_assembly_added
    AFTER INSERT ON contextopt_assembly
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT
    EXECUTE FUNCTION dashboard_note_added();

CREATE OR REPLACE TRIGGER dashboard_assembly_deleted
    AFTER DELETE ON contextopt_assembly
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT
    EXECUTE FUNCTION dashboard_note_deleted();

CREATE OR REPLACE TRIGGER dashboard_space_deleted
    AFTER DELETE ON contextopt_space
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT
    EXECUTE FUNCTION dashboard_note_space_deleted();
