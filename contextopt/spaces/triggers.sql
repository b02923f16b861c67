-- Update a space's counters with every write of a record.

CREATE OR REPLACE FUNCTION contextopt_start_counts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO contextopt_spacecounts (space_id, live, pinned, deleted) VALUES (NEW.id, 0, 0, 0);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION contextopt_count_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION contextopt_count_updated() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION contextopt_count_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE TRIGGER contextopt_space_counts
    AFTER INSERT ON contextopt_space
    FOR EACH ROW
    EXECUTE FUNCTION contextopt_start_counts();

CREATE OR REPLACE TRIGGER contextopt_record_inserted
    AFTER INSERT ON contextopt_record
    REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT
    EXECUTE FUNCTION contextopt_count_inserted();

CREATE OR REPLACE TRIGGER contextopt_record_updated
    AFTER UPDATE OF date, deleted_at, pinned ON contextopt_record
    FOR EACH ROW
    WHEN ((old.date, old.deleted_at, old.pinned) IS DISTINCT FROM (new.date, new.deleted_at, new.pinned))
    EXECUTE FUNCTION contextopt_count_updated();

CREATE OR REPLACE TRIGGER contextopt_record_deleted
    AFTER DELETE ON contextopt_record
    REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT
    EXECUTE FUNCTION contextopt_count_deleted();
