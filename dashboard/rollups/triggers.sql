-- Note which assemblies to fold, which days to add up again and which zones to summarise again, and count
-- prompts of the gateway.

CREATE OR REPLACE FUNCTION dashboard_note_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dashboard_unfoldedassembly (assembly_id) SELECT id FROM added;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION dashboard_note_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dashboard_staleday (team_id, day)
    SELECT DISTINCT gone.team_id, date_trunc('day', gone.created_at, 'UTC')
      FROM gone
     WHERE EXISTS (SELECT FROM contextopt_team WHERE id = gone.team_id)
       AND (gone.space_id IS NULL OR EXISTS (SELECT FROM contextopt_space WHERE id = gone.space_id))
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION dashboard_note_space_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE dashboard_rollupzone SET summarised_since = NULL
     WHERE summarised_since IS NOT NULL AND team_id IN (SELECT team_id FROM gone);
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER dashboard_assembly_added
    AFTER INSERT ON contextopt_assembly
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT
    EXECUTE FUNCTION dashboard_note_added();

CREATE OR REPLACE TRIGGER dashboard_assembly_deleted
    AFTER DELETE ON contextopt_assembly
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT
    EXECUTE FUNCTION dashboard_note_deleted();

CREATE OR REPLACE FUNCTION dashboard_note_corrected() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dashboard_staleday (team_id, day) VALUES (NEW.team_id, date_trunc('day', NEW.created_at, 'UTC'))
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER dashboard_assembly_corrected
    AFTER UPDATE ON contextopt_assembly
    FOR EACH ROW
    WHEN ((OLD.is_sent, OLD.tokens_before) IS DISTINCT FROM (NEW.is_sent, NEW.tokens_before))
    EXECUTE FUNCTION dashboard_note_corrected();

CREATE OR REPLACE TRIGGER dashboard_space_deleted
    AFTER DELETE ON contextopt_space
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT
    EXECUTE FUNCTION dashboard_note_space_deleted();

-- Count each prompt that passed the gateway. The bucket of a time is that of rollups/histograms.py.
CREATE OR REPLACE FUNCTION dashboard_one_of_ms(ms double precision) RETURNS vector LANGUAGE sql IMMUTABLE AS $$
    SELECT (array_fill(0, ARRAY[bucket]) || 1 || array_fill(0, ARRAY[85 - bucket]))::vector(86)
      FROM (SELECT CASE WHEN ms < 0.5 THEN 0 ELSE least(85, 1 + floor(6 * ln(ms / 0.5) / ln(2)))::int END) AS b (bucket)
$$;

CREATE OR REPLACE FUNCTION dashboard_count_traffic() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH counted AS MATERIALIZED (
    SELECT g.team_id, date_bin('15 minutes', g.created_at, timestamptz '2000-01-01 00:00Z') AS start, g.space_id,
           g.api_key_id AS key_id, g.model, g.mode, g.reason,
           count(*) AS requests, count(*) FILTER (WHERE g.is_inserted) AS inserted,
           count(*) FILTER (WHERE g.outcome <> 'abandoned' AND (g.outcome <> 'answered' OR g.status_code >= 400)) AS failed,
           count(*) FILTER (WHERE g.outcome = 'abandoned') AS abandoned,
           coalesce(sum(g.prompt_tokens), 0) AS prompt_tokens,
           coalesce(sum(g.context_tokens), 0) AS context_tokens,
           coalesce(sum(a.tokens_before::bigint - a.tokens_after), 0) AS saved_tokens,
           count(g.input_tokens) AS with_usage, coalesce(sum(g.input_tokens), 0) AS input_tokens,
           coalesce(sum(g.output_tokens) FILTER (WHERE g.input_tokens IS NOT NULL), 0) AS output_tokens,
           count(g.cached_tokens) AS with_cached, coalesce(sum(g.cached_tokens), 0) AS cached_tokens,
           coalesce(sum(g.input_tokens) FILTER (WHERE g.cached_tokens IS NOT NULL), 0) AS cached_input_tokens,
           coalesce(sum(g.cache_write_tokens), 0) AS cache_write_tokens,
           sum(dashboard_one_of_ms(g.added_ms)) AS added_histogram,
           min(g.added_ms) AS added_smallest, max(g.added_ms) AS added_largest
      FROM added g
      LEFT JOIN contextopt_assembly a
        ON a.id = g.assembly_id AND (a.tokens_before IS NOT NULL AND (a.kind = 'space' AND a.stage >= 3 AND a.records_included = 0) IS NOT TRUE AND NOT (a.kind = 'retry' AND a.tokens_after = 0) AND NOT a.warning_codes && '{budget_too_small,empty_window,not_embedded,nothing_relevant}'::varchar[])
       AND NOT EXISTS (SELECT FROM contextopt_gatewayrequest e WHERE e.assembly_id = g.assembly_id AND e.id < g.id)
     GROUP BY g.team_id, 2, g.space_id, g.api_key_id, g.model, g.mode, g.reason
     -- Two at once lock the same rows in the same order.
     ORDER BY g.team_id, 2, g.space_id, g.api_key_id, g.model, g.mode, g.reason
    ), quarters AS (
    INSERT INTO dashboard_trafficquarter AS t (
        team_id, start, space_id, key_id, model, mode, reason, requests, inserted, failed, abandoned,
        prompt_tokens, context_tokens, saved_tokens, with_usage, input_tokens, output_tokens, with_cached,
        cached_tokens, cached_input_tokens, cache_write_tokens, added_histogram, added_smallest, added_largest)
    SELECT * FROM counted
    ON CONFLICT (team_id, start, space_id, key_id, model, mode, reason) DO UPDATE SET
        requests = t.requests + excluded.requests, inserted = t.inserted + excluded.inserted,
        failed = t.failed + excluded.failed, abandoned = t.abandoned + excluded.abandoned,
        prompt_tokens = t.prompt_tokens + excluded.prompt_tokens,
        context_tokens = t.context_tokens + excluded.context_tokens,
        saved_tokens = t.saved_tokens + excluded.saved_tokens,
        with_usage = t.with_usage + excluded.with_usage,
        input_tokens = t.input_tokens + excluded.input_tokens,
        output_tokens = t.output_tokens + excluded.output_tokens,
        with_cached = t.with_cached + excluded.with_cached,
        cached_tokens = t.cached_tokens + excluded.cached_tokens,
        cached_input_tokens = t.cached_input_tokens + excluded.cached_input_tokens,
        cache_write_tokens = t.cache_write_tokens + excluded.cache_write_tokens,
        added_histogram = t.added_histogram + excluded.added_histogram,
        added_smallest = least(t.added_smallest, excluded.added_smallest),
        added_largest = greatest(t.added_largest, excluded.added_largest)
    )
    INSERT INTO dashboard_trafficday AS t (
        team_id, start, space_id, key_id, model, mode, reason, requests, inserted, failed, abandoned,
        prompt_tokens, context_tokens, saved_tokens, with_usage, input_tokens, output_tokens, with_cached,
        cached_tokens, cached_input_tokens, cache_write_tokens, added_histogram, added_smallest, added_largest)
    SELECT c.team_id, date_trunc('day', c.start, team.time_zone), c.space_id, c.key_id, c.model, c.mode, c.reason,
           sum(requests), sum(inserted), sum(failed), sum(abandoned), sum(prompt_tokens), sum(context_tokens),
           sum(saved_tokens), sum(with_usage), sum(input_tokens), sum(output_tokens), sum(with_cached),
           sum(cached_tokens), sum(cached_input_tokens), sum(cache_write_tokens), sum(added_histogram),
           min(added_smallest), max(added_largest)
      FROM counted c JOIN contextopt_team team ON team.id = c.team_id
     GROUP BY c.team_id, 2, c.space_id, c.key_id, c.model, c.mode, c.reason
     ORDER BY c.team_id, 2, c.space_id, c.key_id, c.model, c.mode, c.reason
    ON CONFLICT (team_id, start, space_id, key_id, model, mode, reason) DO UPDATE SET
        requests = t.requests + excluded.requests, inserted = t.inserted + excluded.inserted,
        failed = t.failed + excluded.failed, abandoned = t.abandoned + excluded.abandoned,
        prompt_tokens = t.prompt_tokens + excluded.prompt_tokens,
        context_tokens = t.context_tokens + excluded.context_tokens,
        saved_tokens = t.saved_tokens + excluded.saved_tokens,
        with_usage = t.with_usage + excluded.with_usage,
        input_tokens = t.input_tokens + excluded.input_tokens,
        output_tokens = t.output_tokens + excluded.output_tokens,
        with_cached = t.with_cached + excluded.with_cached,
        cached_tokens = t.cached_tokens + excluded.cached_tokens,
        cached_input_tokens = t.cached_input_tokens + excluded.cached_input_tokens,
        cache_write_tokens = t.cache_write_tokens + excluded.cache_write_tokens,
        added_histogram = t.added_histogram + excluded.added_histogram,
        added_smallest = least(t.added_smallest, excluded.added_smallest),
        added_largest = greatest(t.added_largest, excluded.added_largest);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION dashboard_zone_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM dashboard_trafficday WHERE team_id = NEW.id;
    INSERT INTO dashboard_trafficday (
        team_id, start, space_id, key_id, model, mode, reason, requests, inserted, failed, abandoned,
        prompt_tokens, context_tokens, saved_tokens, with_usage, input_tokens, output_tokens, with_cached,
        cached_tokens, cached_input_tokens, cache_write_tokens, added_histogram, added_smallest, added_largest)
    SELECT team_id, date_trunc('day', start, NEW.time_zone), space_id, key_id, model, mode, reason,
           sum(requests), sum(inserted), sum(failed), sum(abandoned), sum(prompt_tokens), sum(context_tokens),
           sum(saved_tokens), sum(with_usage), sum(input_tokens), sum(output_tokens), sum(with_cached),
           sum(cached_tokens), sum(cached_input_tokens), sum(cache_write_tokens), sum(added_histogram),
           min(added_smallest), max(added_largest)
      FROM dashboard_trafficquarter WHERE team_id = NEW.id
     GROUP BY team_id, 2, space_id, key_id, model, mode, reason;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER dashboard_traffic_added
    AFTER INSERT ON contextopt_gatewayrequest
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT
    EXECUTE FUNCTION dashboard_count_traffic();

CREATE OR REPLACE TRIGGER dashboard_team_zone_changed
    AFTER UPDATE OF time_zone ON contextopt_team
    FOR EACH ROW
    WHEN (OLD.time_zone IS DISTINCT FROM NEW.time_zone)
    EXECUTE FUNCTION dashboard_zone_changed();
