-- Queue new and changed texts for embedding.

CREATE OR REPLACE FUNCTION contextopt_note_inserted_texts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'INSERT INTO contextopt_embeddingtodo (searchable, corpus_id, row_id) SELECT %L, %I, id FROM inserted',
        TG_ARGV[0], TG_ARGV[1]);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION contextopt_note_updated_text() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'INSERT INTO contextopt_embeddingtodo (searchable, corpus_id, row_id) SELECT %L, ($1).%I, ($1).id',
        TG_ARGV[0], TG_ARGV[1]) USING NEW;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER contextopt_record_texts_inserted
    AFTER INSERT ON contextopt_record
    REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT
    EXECUTE FUNCTION contextopt_note_inserted_texts('record', 'space_id');

CREATE OR REPLACE TRIGGER contextopt_record_text_updated
    AFTER UPDATE OF title, notes, deleted_at, date ON contextopt_record
    FOR EACH ROW
    WHEN (
        old.title IS DISTINCT FROM new.title
        OR old.notes IS DISTINCT FROM new.notes
        OR (old.deleted_at IS NULL) <> (new.deleted_at IS NULL)
        OR old.date <> new.date
    )
    EXECUTE FUNCTION contextopt_note_updated_text('record', 'space_id');
