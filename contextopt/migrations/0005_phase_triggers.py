"""Phase profiles and attempts that nobody may change, and contents packed when they are written."""

from typing import ClassVar

from django.db import migrations

IMMUTABLE = """
CREATE TRIGGER contextopt_phase_immutable BEFORE UPDATE ON contextopt_phaseprofile
    FOR EACH ROW EXECUTE FUNCTION contextopt_refuse_change('is_active');
CREATE TRIGGER contextopt_attempt_immutable BEFORE UPDATE ON contextopt_attempt
    FOR EACH ROW EXECUTE FUNCTION contextopt_refuse_change('state', 'assembly_id');
"""

DROP_IMMUTABLE = """
DROP TRIGGER contextopt_attempt_immutable ON contextopt_attempt;
DROP TRIGGER contextopt_phase_immutable ON contextopt_phaseprofile;
"""

# lz4 costs a fifth of the default's time when a content is written; not every server has it.
COMPRESSION = """
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_settings
                WHERE name = 'default_toast_compression' AND 'lz4' = ANY(enumvals)) THEN
        ALTER TABLE contextopt_blob ALTER COLUMN content SET COMPRESSION lz4;
        ALTER TABLE contextopt_attempt ALTER COLUMN error SET COMPRESSION lz4;
    END IF;
END $$;
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0004_phases_and_tasks")]

    operations: ClassVar = [
        migrations.RunSQL(IMMUTABLE, DROP_IMMUTABLE),
        migrations.RunSQL(COMPRESSION, migrations.RunSQL.noop),
    ]
