-- Note memories to be embedded. The functions are in contextopt/search.

CREATE OR REPLACE TRIGGER memory_texts_inserted
    AFTER INSERT ON memory_memory
    REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT
    EXECUTE FUNCTION contextopt_note_inserted_texts('memory', 'team_id');

CREATE OR REPLACE TRIGGER memory_text_updated
    AFTER UPDATE OF title, content, deleted_at, retired_at ON memory_memory
    FOR EACH ROW
    WHEN (
        old.title IS DISTINCT FROM new.title
        OR old.content IS DISTINCT FROM new.content
        OR (old.deleted_at IS NULL) <> (new.deleted_at IS NULL)
        OR (old.retired_at IS NULL) <> (new.retired_at IS NULL)
    )
    EXECUTE FUNCTION contextopt_note_updated_text('memory', 'team_id');
