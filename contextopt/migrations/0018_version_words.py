"""Version numbers are words: who asks for 3.7 does not mean every 3 and every 7."""

from typing import ClassVar

import django.contrib.postgres.indexes
import django.contrib.postgres.search
from django.db import migrations, models

FUNCTION = r"""
CREATE OR REPLACE FUNCTION contextopt_search_words(config regconfig, content text) RETURNS tsvector
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    plain text := translate(content, './\-', '    ');
    parts text;
    numbers text;
BEGIN
    IF plain ~ '[a-zæøå0-9][A-ZÆØÅ]|[A-ZÆØÅ]{2}[a-zæøå]' THEN
        SELECT string_agg(regexp_replace(
                   regexp_replace(camel[1], '([a-zæøå0-9])([A-ZÆØÅ])', '\1 \2', 'g'),
                   '([A-ZÆØÅ])([A-ZÆØÅ][a-zæøå])', '\1 \2', 'g'), ' ')
          INTO parts
          FROM regexp_matches(
                   plain, '\m\w*(?:[a-zæøå0-9][A-ZÆØÅ]|[A-ZÆØÅ]{2}[a-zæøå])\w*', 'g') AS camel;
    END IF;
    --VERSIONS
    RETURN to_tsvector(config, plain) || to_tsvector(config, concat_ws(' ', parts, numbers));
END $$;
"""
VERSIONS = r"""IF content ~ '\d\.\d' THEN
        SELECT string_agg(version[1], ' ') INTO numbers
          FROM regexp_matches(content, '(?<![\d.])\d{1,9}(?:\.\d{1,9}){1,7}', 'g') AS version;
    END IF;"""
COUNT_AGAIN = "UPDATE contextopt_searchcorpus SET counted_at = 'epoch'"

NAMES = ("space", "language", "title", "tags", "notes", "date")
INDEX = django.contrib.postgres.indexes.GinIndex(
    condition=models.Q(("deleted_at", None)),
    fields=["search_vector"],
    gin_pending_list_limit=512,
    name="record_search",
)


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0017_dated_vectors")]

    operations: ClassVar = [
        # Made again, for a row has the words that the function found when it was written.
        migrations.RemoveIndex(model_name="record", name="record_search"),
        migrations.RemoveField(model_name="record", name="search_vector"),
        migrations.RunSQL(FUNCTION.replace("--VERSIONS", VERSIONS), FUNCTION),
        migrations.AddField(
            model_name="record",
            name="search_vector",
            field=models.GeneratedField(
                db_persist=True,
                expression=models.Func(*map(models.F, NAMES), function="contextopt_search_vector"),
                output_field=django.contrib.postgres.search.SearchVectorField(),
            ),
        ),
        migrations.AddIndex(model_name="record", index=INDEX),
        migrations.RunSQL(COUNT_AGAIN, COUNT_AGAIN),
    ]
