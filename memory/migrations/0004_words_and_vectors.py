"""Version numbers are words of memories too, and a title counts twice in a vector: both are made again."""

from typing import ClassVar

import django.contrib.postgres.indexes
import django.contrib.postgres.search
from django.db import migrations, models

NAMES = ("team", "language", "title", "tags", "content")
INDEX = django.contrib.postgres.indexes.GinIndex(
    condition=models.Q(("deleted_at", None), ("retired_at", None)),
    fields=["search_vector"],
    gin_pending_list_limit=512,
    name="memory_search",
)
# As in contextopt's 0019.
DROP_GRAPHS = """
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN SELECT id FROM contextopt_embeddingmodel LOOP
        EXECUTE format('DROP INDEX IF EXISTS %I', 'memory_embedding_hnsw_' || found.id);
    END LOOP;
END $$;
"""
EMBED_AGAIN = """
UPDATE contextopt_embeddingfill
   SET filled_to = 0, walked = 0, is_filled = false, is_indexed = false,
       total = (SELECT count(*) FROM memory_memory WHERE deleted_at IS NULL AND retired_at IS NULL)
 WHERE searchable = 'memory'
   AND model_id IN (SELECT id FROM contextopt_embeddingmodel WHERE state <> 'retired')
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0019_title_vectors"), ("memory", "0003_reviews")]

    operations: ClassVar = [
        migrations.RemoveIndex(model_name="memory", name="memory_search"),
        migrations.RemoveField(model_name="memory", name="search_vector"),
        migrations.AddField(
            model_name="memory",
            name="search_vector",
            field=models.GeneratedField(
                db_persist=True,
                expression=models.Func(*map(models.F, NAMES), function="contextopt_search_vector"),
                output_field=django.contrib.postgres.search.SearchVectorField(),
            ),
        ),
        migrations.AddIndex(model_name="memory", index=INDEX),
        migrations.RunSQL(DROP_GRAPHS, DROP_GRAPHS),
        migrations.RunSQL(EMBED_AGAIN, EMBED_AGAIN),
    ]
