"""A record's vector carries the record's date, so that a window is compared along one index."""

from typing import ClassVar

from django.db import migrations, models

# Every vector would enter its indexes anew. Without them searches compare all; the job builds them again.
DROP_INDEXES = """
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN SELECT id FROM contextopt_embeddingmodel LOOP
        EXECUTE format('DROP INDEX IF EXISTS %I', 'record_embedding_hnsw_' || found.id);
    END LOOP;
    UPDATE contextopt_embeddingfill SET is_indexed = false WHERE searchable = 'record';
END $$;
"""
FILL = """
UPDATE contextopt_recordembedding e SET date = r.date FROM contextopt_record r WHERE r.id = e.record_id;
"""

# As in 0007, and a new date as well: whoever embeds gives it to the vectors.
NOTE = """
DROP TRIGGER contextopt_record_text_updated ON contextopt_record;
CREATE TRIGGER contextopt_record_text_updated AFTER UPDATE OF title, notes, deleted_at, date ON contextopt_record
    FOR EACH ROW WHEN (OLD.title IS DISTINCT FROM NEW.title OR OLD.notes IS DISTINCT FROM NEW.notes
                       OR (OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL) OR OLD.date <> NEW.date)
    EXECUTE FUNCTION contextopt_note_updated_text('record', 'space_id');
"""
NOTE_TEXTS = """
DROP TRIGGER contextopt_record_text_updated ON contextopt_record;
CREATE TRIGGER contextopt_record_text_updated AFTER UPDATE OF title, notes, deleted_at ON contextopt_record
    FOR EACH ROW WHEN (OLD.title IS DISTINCT FROM NEW.title OR OLD.notes IS DISTINCT FROM NEW.notes
                       OR (OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL))
    EXECUTE FUNCTION contextopt_note_updated_text('record', 'space_id');
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0016_question_weights")]

    operations: ClassVar = [
        migrations.RunSQL(DROP_INDEXES, migrations.RunSQL.noop),
        migrations.AddField(
            model_name="recordembedding", name="date", field=models.DateTimeField(editable=False, null=True)
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.AlterField(
            model_name="recordembedding", name="date", field=models.DateTimeField(editable=False)
        ),
        migrations.RunSQL(NOTE, NOTE_TEXTS),
    ]
