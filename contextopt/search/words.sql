-- Split texts into searchable words. Generated columns call these functions, so they come before the tables.

CREATE OR REPLACE FUNCTION contextopt_search_config(language text)
RETURNS regconfig LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE language WHEN 'no' THEN 'pg_catalog.norwegian'::regconfig
                         ELSE 'pg_catalog.english'::regconfig END
$$;

-- The form in which texts are compared: NFKC, without characters that nobody sees.
CREATE OR REPLACE FUNCTION contextopt_normal_form(content text)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(content) = length(content) THEN content
                ELSE translate(normalize(content, NFKC), U&'\00AD\200B\200C\200D\2060\FEFF', '') END
$$;

-- The marks are those of Latin, Greek, Cyrillic, Hebrew and Arabic. The letters have no decomposition.
CREATE OR REPLACE FUNCTION contextopt_without_accents(content text)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT replace(replace(replace(replace(translate(
        normalize(regexp_replace(normalize(content, NFD),
                                 '[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1-\u05c7\u064b-\u065f\u0670]+', '', 'g'), NFC),
        'øØłŁđĐıħĦ', 'oOlLdDihH'), 'æ', 'ae'), 'Æ', 'AE'), 'œ', 'oe'), 'ß', 'ss')
$$;

-- The pairs of neighbouring characters in scripts without blanks between words, and the last character of
-- each run. So the beginning of a pair finds a single character. Blanks separate the runs.
CREATE OR REPLACE FUNCTION contextopt_search_pairs(runs text)
RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT string_agg(''''  || pair || ''':' || places, ' ')::tsvector
      FROM (SELECT rtrim(one || coalesce(other, '')) AS pair,
                   string_agg(least(place, 16383)::text, ',') AS places
              FROM (SELECT string_to_array(runs, NULL) AS letters) AS split
             CROSS JOIN unnest(letters, letters[2:]) WITH ORDINALITY AS pairs(one, other, place)
             WHERE one <> ' '
             GROUP BY 1) AS placed
$$;

CREATE OR REPLACE FUNCTION contextopt_search_words(config regconfig, content text)
RETURNS tsvector LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    unspaced CONSTANT text := '\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf'
                              '\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff';
    -- Some characters become many in the normal form.
    normal text := left(contextopt_normal_form(content), 100000);
    plain text := translate(normal, './\-', '    ');
    is_ascii boolean := octet_length(plain) = length(plain);
    pairs tsvector := '';
    bare text;
    parts text;
    numbers text;
BEGIN
    IF NOT is_ascii AND plain ~ ('[' || unspaced || ']') THEN
        pairs := contextopt_search_pairs(regexp_replace(plain, '[^' || unspaced || ']+', ' ', 'g'));
        plain := regexp_replace(plain, '[' || unspaced || ']+', ' ', 'g');
    END IF;
    -- The parser tries long runs as addresses again and again: 100,000 characters took minutes.
    IF plain ~ '\S{255}' THEN
        plain := translate(plain, '_@', '  ');
    END IF;
    IF NOT is_ascii THEN
        SELECT string_agg(word, ' ')
          INTO bare
          FROM unnest(string_to_array(translate(plain, E'\n\t\r', '   '), ' ')) AS word
         WHERE octet_length(word) <> length(word);
        SELECT string_agg(without, ' ')
          INTO bare
          FROM unnest(string_to_array(bare, ' '), string_to_array(contextopt_without_accents(bare), ' '))
               AS words(written, without)
         WHERE written <> without;
    END IF;
    IF plain ~ '[a-zæøå0-9][A-ZÆØÅ]|[A-ZÆØÅ]{2}[a-zæøå]' THEN
        SELECT string_agg(regexp_replace(
                   regexp_replace(camel[1], '([a-zæøå0-9])([A-ZÆØÅ])', '\1 \2', 'g'),
                   '([A-ZÆØÅ])([A-ZÆØÅ][a-zæøå])', '\1 \2', 'g'), ' ')
          INTO parts
          FROM regexp_matches(
                   plain, '\m\w*(?:[a-zæøå0-9][A-ZÆØÅ]|[A-ZÆØÅ]{2}[a-zæøå])\w*', 'g') AS camel;
    END IF;
    IF normal ~ '\d\.\d' THEN
        SELECT string_agg(version[1], ' ') INTO numbers
          FROM regexp_matches(normal, '(?<![\d.])\d{1,9}(?:\.\d{1,9}){1,7}', 'g') AS version;
    END IF;
    RETURN to_tsvector(config, plain) || to_tsvector(config, concat_ws(' ', parts, numbers, bare)) || pairs;
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
