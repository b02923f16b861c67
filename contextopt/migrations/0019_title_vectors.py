"""A title counts twice in its record's vector: whoever embeds goes through all records again, searches go on."""

from typing import ClassVar

from django.db import migrations

# The graph takes ten times as long for a vector that changes as for one of many when it is built, and leaves
# as much to vacuum. Without it searches compare; the job builds it again.
DROP_GRAPHS = """
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN SELECT id FROM contextopt_embeddingmodel LOOP
        EXECUTE format('DROP INDEX IF EXISTS %I', 'record_embedding_hnsw_' || found.id);
    END LOOP;
END $$;
"""
EMBED_AGAIN = """
UPDATE contextopt_embeddingfill
   SET filled_to = 0, walked = 0, is_filled = false, is_indexed = false,
       total = (SELECT count(*) FROM contextopt_record WHERE deleted_at IS NULL)
 WHERE searchable = 'record'
   AND model_id IN (SELECT id FROM contextopt_embeddingmodel WHERE state <> 'retired')
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0018_version_words")]

    operations: ClassVar = [
        migrations.RunSQL(DROP_GRAPHS, DROP_GRAPHS),
        migrations.RunSQL(EMBED_AGAIN, EMBED_AGAIN),
    ]
