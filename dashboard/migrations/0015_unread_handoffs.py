"""A job measures a day again if a hand-off of that day turns out not to have been read."""

from typing import ClassVar

from django.db import migrations

CREATE = """
CREATE FUNCTION dashboard_note_corrected() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dashboard_staleday (team_id, day) VALUES (NEW.team_id, date_trunc('day', NEW.created_at, 'UTC'))
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE TRIGGER dashboard_assembly_corrected
    AFTER UPDATE ON contextopt_assembly
    FOR EACH ROW
    WHEN ((OLD.is_sent, OLD.tokens_before) IS DISTINCT FROM (NEW.is_sent, NEW.tokens_before))
    EXECUTE FUNCTION dashboard_note_corrected();
"""
DROP = """
DROP TRIGGER dashboard_assembly_corrected ON contextopt_assembly;
DROP FUNCTION dashboard_note_corrected();
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("dashboard", "0014_saved_in_prompts"), ("contextopt", "0058_unread_handoffs")]

    operations: ClassVar = [migrations.RunSQL(CREATE, DROP)]
