-- Split texts into searchable words. Generated columns call these functions, so they come before the tables.

CREATE OR REPLACE FUNCTION contextopt_search_config(language text)
RETURNS regconfig LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE language WHEN 'no' THEN 'pg_catalog.norwegian'::regconfig
                         ELSE 'pg_catalog.english'::regconfig END
$$;

CREATE OR REPLACE FUNCTION contextopt_search_words(config regconfig, content text)
RETURNS tsvector LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    plain text := translate(content, './\-', '    ');
    parts text;
    numbers text;
BEGIN
    -- The parser tries long runs as addresses again and again: 100,000 characters took minutes.
    IF plain ~ '\S{255}' THEN
        plain := translate(plain, '_@', '  ');
    END IF;
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

CREATE OR REPLACE FUNCTION contextopt_search_vector(corpus bigint, language text, title text, tags text[], body text)
RETURNS tsvector LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path TO '$user', 'public' AS $$
DECLARE
    config regconfig := contextopt_search_config(language);
BEGIN
    RETURN setweight(contextopt_search_words(config, coalesce(title, '')), 'A')
        || setweight(contextopt_search_words(config, array_to_string(coalesce(tags, '{}'), ' ')), 'B')
        || contextopt_search_words(config, left(coalesce(body, ''), 100000))
        || array_to_tsvector(ARRAY[' ' || corpus]);
END $$;

CREATE OR REPLACE FUNCTION contextopt_search_vector(corpus bigint, language text, title text, tags text[], body text, dated timestamptz)
RETURNS tsvector LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path TO '$user', 'public' AS $$
BEGIN
    RETURN contextopt_search_vector(corpus, language, title, tags, body)
        || array_to_tsvector(ARRAY[
               ' ' || corpus || 'w' || floor(extract(epoch FROM dated - timestamptz 'epoch') / 604800)]);
END $$;
