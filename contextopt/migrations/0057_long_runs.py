"""Splits long runs of characters at underscores and at signs, so that none keeps the database busy."""

from django.db import migrations

FUNCTION = r"""
CREATE OR REPLACE FUNCTION contextopt_search_words(config regconfig, content text)
RETURNS tsvector LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    plain text := translate(content, './\-', '    ');
    parts text;
    numbers text;
BEGIN
    --SPLIT
    IF plain ~ '[a-zæøå0-9][A-ZÆØÅ]|[A-ZÆØÅ]{2}[a-zæøå]' THEN
        SELECT string_agg(regexp_replace(
                   regexp_replace(camel[1], '([a-zæøå0-9])([A-ZÆØÅ])', '\1 \2', 'g'),
                   '([A-ZÆØÅ])([A-ZÆØÅ][a-zæøå])', '\1 \2', 'g'), ' ')
          INTO parts
          FROM regexp_matches(
                   plain, '\m\w*(?:[a-zæøå0-9][A-ZÆØÅ]|[A-ZÆØÅ]{2}[a-zæøå])\w*', 'g') AS camel;
    END IF;
    IF content ~ '\d\.\d' THEN
        SELECT string_agg(version[1], ' ') INTO numbers
          FROM regexp_matches(content, '(?<![\d.])\d{1,9}(?:\.\d{1,9}){1,7}', 'g') AS version;
    END IF;
    RETURN to_tsvector(config, plain) || to_tsvector(config, concat_ws(' ', parts, numbers));
END $$;
"""
SPLIT = r"""-- The parser tries long runs as addresses again and again: 100,000 characters took minutes.
    IF plain ~ '\S{255}' THEN
        plain := translate(plain, '_@', '  ');
    END IF;"""


class Migration(migrations.Migration):

    dependencies = [
        ("contextopt", "0056_max_records_all"),
    ]

    operations = [
        migrations.RunSQL(FUNCTION.replace("--SPLIT", SPLIT), FUNCTION.replace("    --SPLIT\n", "")),
    ]
