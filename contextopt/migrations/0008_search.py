"""Words of records, made by the database, and how many records have each."""

from itertools import batched
from typing import Any, ClassVar

import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
from django.db import migrations, models
from django.db.models.functions import Left

from contextopt.engine.text.lexical import READ_MAX, detect_language

# At most 100,000 characters of the body: a vector holds a mebibyte and its making takes time. Punctuation
# that joins names (users_table, auth.ts, src/app) becomes a blank, for queries alike. Of camelCase words the
# parts are added. The corpus is a word that begins with a blank, as none of a text does.
FUNCTIONS = r"""
CREATE FUNCTION contextopt_search_words(config regconfig, content text) RETURNS tsvector
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    plain text := translate(content, './\-', '    ');
    parts text;
BEGIN
    IF plain ~ '[a-zæøå0-9][A-ZÆØÅ]|[A-ZÆØÅ]{2}[a-zæøå]' THEN
        SELECT string_agg(regexp_replace(
                   regexp_replace(camel[1], '([a-zæøå0-9])([A-ZÆØÅ])', '\1 \2', 'g'),
                   '([A-ZÆØÅ])([A-ZÆØÅ][a-zæøå])', '\1 \2', 'g'), ' ')
          INTO parts
          FROM regexp_matches(
                   plain, '\m\w*(?:[a-zæøå0-9][A-ZÆØÅ]|[A-ZÆØÅ]{2}[a-zæøå])\w*', 'g') AS camel;
        RETURN to_tsvector(config, plain) || to_tsvector(config, coalesce(parts, ''));
    END IF;
    RETURN to_tsvector(config, plain);
END $$;

CREATE FUNCTION contextopt_search_config(language text) RETURNS regconfig
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE language WHEN 'no' THEN 'pg_catalog.norwegian'::regconfig
                         ELSE 'pg_catalog.english'::regconfig END
$$;

CREATE FUNCTION contextopt_search_vector(corpus bigint, language text, title text, tags text[], body text)
RETURNS tsvector LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path FROM CURRENT AS $$
DECLARE
    config regconfig := contextopt_search_config(language);
BEGIN
    RETURN setweight(contextopt_search_words(config, coalesce(title, '')), 'A')
        || setweight(contextopt_search_words(config, array_to_string(coalesce(tags, '{}'), ' ')), 'B')
        || contextopt_search_words(config, left(coalesce(body, ''), 100000))
        || array_to_tsvector(ARRAY[' ' || corpus]);
END $$;
"""

DROP_FUNCTIONS = """
DROP FUNCTION contextopt_search_vector(bigint, text, text, text[], text);
DROP FUNCTION contextopt_search_config(text);
DROP FUNCTION contextopt_search_words(regconfig, text);
"""

BATCH = 2_000


def detect_languages(apps: Any, _schema_editor: Any) -> None:
    """Find out the language of the records that are there."""
    records = apps.get_model("contextopt", "Record").objects
    rows = records.values_list("pk", "title", Left("notes", READ_MAX)).order_by("pk").iterator(BATCH)
    for batch in batched(rows, BATCH):
        norwegian = [pk for pk, title, notes in batch if detect_language(title, notes) == "no"]
        records.filter(pk__in=norwegian).update(language="no")


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0007_embeddings")]

    operations: ClassVar = [
        migrations.CreateModel(
            name="SearchCorpus",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("searchable", models.CharField(max_length=32)),
                ("corpus_id", models.BigIntegerField()),
                ("documents", models.BigIntegerField()),
                ("mean_length", models.FloatField(help_text="distinct words of a document, on average")),
                ("counted_at", models.DateTimeField()),
            ],
            options={"verbose_name_plural": "search corpora"},
        ),
        migrations.AddConstraint(
            model_name="searchcorpus",
            constraint=models.UniqueConstraint(fields=("searchable", "corpus_id"), name="search_corpus_once"),
        ),
        migrations.CreateModel(
            name="DocumentFrequency",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "corpus",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.DB_CASCADE,
                        related_name="frequencies",
                        to="contextopt.searchcorpus",
                    ),
                ),
                ("lexeme", models.TextField()),
                ("documents", models.BigIntegerField()),
            ],
            options={"verbose_name_plural": "document frequencies"},
        ),
        migrations.AddConstraint(
            model_name="documentfrequency",
            constraint=models.UniqueConstraint(
                fields=("corpus", "lexeme"), include=("documents",), name="document_frequency_once"
            ),
        ),
        migrations.AddField(
            model_name="record",
            name="language",
            field=models.CharField(
                choices=[("en", "English"), ("no", "Norwegian")], db_default="en", max_length=2
            ),
        ),
        migrations.RunPython(detect_languages, migrations.RunPython.noop),
        migrations.RunSQL(FUNCTIONS, DROP_FUNCTIONS),
        migrations.AddField(
            model_name="record",
            name="search_vector",
            field=models.GeneratedField(
                db_persist=True,
                expression=models.Func(
                    models.F("space"),
                    models.F("language"),
                    models.F("title"),
                    models.F("tags"),
                    models.F("notes"),
                    function="contextopt_search_vector",
                ),
                output_field=django.contrib.postgres.search.SearchVectorField(),
            ),
        ),
        migrations.AddIndex(
            model_name="record",
            index=django.contrib.postgres.indexes.GinIndex(
                condition=models.Q(("deleted_at", None)),
                fields=["search_vector"],
                gin_pending_list_limit=512,
                name="record_search",
            ),
        ),
    ]
