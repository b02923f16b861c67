"""Counters that every writer keeps, whoever it is, and rows that nobody may change."""

from typing import ClassVar

from django.db import migrations

COUNTERS = """
CREATE FUNCTION contextopt_start_counts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO contextopt_spacecounts (space_id, live, pinned, deleted) VALUES (NEW.id, 0, 0, 0);
    RETURN NULL;
END $$;

CREATE TRIGGER contextopt_space_counts AFTER INSERT ON contextopt_space
    FOR EACH ROW EXECUTE FUNCTION contextopt_start_counts();

-- The row of totals comes first in each function: writers of a space then queue there and never in a circle.
CREATE FUNCTION contextopt_count_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE contextopt_spacecounts c
       SET live = c.live + d.live, pinned = c.pinned + d.pinned, deleted = c.deleted + d.deleted
      FROM (SELECT space_id,
                   count(*) FILTER (WHERE deleted_at IS NULL AND NOT pinned) AS live,
                   count(*) FILTER (WHERE deleted_at IS NULL AND pinned) AS pinned,
                   count(*) FILTER (WHERE deleted_at IS NOT NULL) AS deleted
              FROM changed GROUP BY space_id) d
     WHERE c.space_id = d.space_id;
    INSERT INTO contextopt_spacehour (space_id, hour, live)
    SELECT space_id, date_trunc('hour', date, 'UTC'), count(*)
      FROM changed WHERE deleted_at IS NULL AND NOT pinned
     GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (space_id, hour) DO UPDATE SET live = contextopt_spacehour.live + EXCLUDED.live;
    RETURN NULL;
END $$;

-- Only updates: when a whole space goes, its counters may have gone before its records.
CREATE FUNCTION contextopt_count_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE contextopt_spacecounts c
       SET live = c.live - d.live, pinned = c.pinned - d.pinned, deleted = c.deleted - d.deleted
      FROM (SELECT space_id,
                   count(*) FILTER (WHERE deleted_at IS NULL AND NOT pinned) AS live,
                   count(*) FILTER (WHERE deleted_at IS NULL AND pinned) AS pinned,
                   count(*) FILTER (WHERE deleted_at IS NOT NULL) AS deleted
              FROM changed GROUP BY space_id) d
     WHERE c.space_id = d.space_id;
    UPDATE contextopt_spacehour h SET live = h.live - d.live
      FROM (SELECT space_id, date_trunc('hour', date, 'UTC') AS hour, count(*) AS live
              FROM changed WHERE deleted_at IS NULL AND NOT pinned GROUP BY 1, 2) d
     WHERE h.space_id = d.space_id AND h.hour = d.hour;
    RETURN NULL;
END $$;

CREATE FUNCTION contextopt_count_updated() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    was_live boolean := OLD.deleted_at IS NULL AND NOT OLD.pinned;
    is_live boolean := NEW.deleted_at IS NULL AND NOT NEW.pinned;
BEGIN
    UPDATE contextopt_spacecounts
       SET live = live + is_live::int - was_live::int,
           pinned = pinned + (NEW.deleted_at IS NULL AND NEW.pinned)::int
                           - (OLD.deleted_at IS NULL AND OLD.pinned)::int,
           deleted = deleted + (NEW.deleted_at IS NOT NULL)::int - (OLD.deleted_at IS NOT NULL)::int
     WHERE space_id = NEW.space_id;
    IF was_live THEN
        UPDATE contextopt_spacehour SET live = live - 1
         WHERE space_id = OLD.space_id AND hour = date_trunc('hour', OLD.date, 'UTC');
    END IF;
    IF is_live THEN
        INSERT INTO contextopt_spacehour (space_id, hour, live)
        VALUES (NEW.space_id, date_trunc('hour', NEW.date, 'UTC'), 1)
            ON CONFLICT (space_id, hour) DO UPDATE SET live = contextopt_spacehour.live + 1;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER contextopt_record_inserted AFTER INSERT ON contextopt_record
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION contextopt_count_inserted();
CREATE TRIGGER contextopt_record_deleted AFTER DELETE ON contextopt_record
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION contextopt_count_deleted();
-- By row: a trigger with a transition table cannot be limited to columns, and views change none of these.
CREATE TRIGGER contextopt_record_updated AFTER UPDATE OF date, deleted_at, pinned ON contextopt_record
    FOR EACH ROW
    WHEN ((OLD.date, OLD.deleted_at, OLD.pinned) IS DISTINCT FROM (NEW.date, NEW.deleted_at, NEW.pinned))
    EXECUTE FUNCTION contextopt_count_updated();
"""

DROP_COUNTERS = """
DROP TRIGGER contextopt_record_updated ON contextopt_record;
DROP TRIGGER contextopt_record_deleted ON contextopt_record;
DROP TRIGGER contextopt_record_inserted ON contextopt_record;
DROP TRIGGER contextopt_space_counts ON contextopt_space;
DROP FUNCTION contextopt_count_updated();
DROP FUNCTION contextopt_count_deleted();
DROP FUNCTION contextopt_count_inserted();
DROP FUNCTION contextopt_start_counts();
"""

IMMUTABLE = """
CREATE FUNCTION contextopt_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF to_jsonb(NEW) - coalesce(TG_ARGV, '{}') IS DISTINCT FROM to_jsonb(OLD) - coalesce(TG_ARGV, '{}') THEN
        RAISE EXCEPTION '% rows never change', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER contextopt_config_immutable BEFORE UPDATE ON contextopt_contextconfig
    FOR EACH ROW EXECUTE FUNCTION contextopt_refuse_change('is_active');
CREATE TRIGGER contextopt_assembly_immutable BEFORE UPDATE ON contextopt_assembly
    FOR EACH ROW EXECUTE FUNCTION contextopt_refuse_change();
"""

DROP_IMMUTABLE = """
DROP TRIGGER contextopt_assembly_immutable ON contextopt_assembly;
DROP TRIGGER contextopt_config_immutable ON contextopt_contextconfig;
DROP FUNCTION contextopt_refuse_change();
"""

# lz4 costs a fifth of the default's time when a payload is written; not every server has it.
COMPRESSION = """
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_settings
                WHERE name = 'default_toast_compression' AND 'lz4' = ANY(enumvals)) THEN
        ALTER TABLE contextopt_assemblypayload
            ALTER COLUMN text SET COMPRESSION lz4, ALTER COLUMN baseline_text SET COMPRESSION lz4,
            ALTER COLUMN ledger SET COMPRESSION lz4;
        ALTER TABLE contextopt_record ALTER COLUMN notes SET COMPRESSION lz4;
    END IF;
END $$;
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0001_initial")]

    operations: ClassVar = [
        migrations.RunSQL(COUNTERS, DROP_COUNTERS),
        migrations.RunSQL(IMMUTABLE, DROP_IMMUTABLE),
        migrations.RunSQL(COMPRESSION, migrations.RunSQL.noop),
    ]
