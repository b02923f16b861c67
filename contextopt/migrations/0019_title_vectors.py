"""A title counts twice in its record's vector: whoever embeds goes through all records again, searches go on."""

from typing import ClassVar

from django.db import migrations

EMBED_AGAIN = """
UPDATE contextopt_embeddingfill
   SET filled_to = 0, walked = 0, is_filled = false,
       total = (SELECT count(*) FROM contextopt_record WHERE deleted_at IS NULL)
 WHERE searchable = 'record'
   AND model_id IN (SELECT id FROM contextopt_embeddingmodel WHERE state <> 'retired')
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0018_version_words")]

    operations: ClassVar = [migrations.RunSQL(EMBED_AGAIN, EMBED_AGAIN)]
