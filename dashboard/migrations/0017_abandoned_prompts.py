"""Clients that left are counted apart from failures, also those of earlier prompts.

The log tells them apart. Prompts of deleted keys no longer name their key, so they are taken from the failures
of deleted keys in the same quarter of an hour.
"""

from typing import ClassVar

from django.db import migrations, models

FUNCTIONS = r"""
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
"""
ADDED = (
    "\n           count(*) FILTER (WHERE g.outcome = 'abandoned') AS abandoned,",
    "abandoned = t.abandoned + excluded.abandoned,",
    " abandoned,",
    " sum(abandoned),",
    "g.outcome <> 'abandoned' AND ",
)
BEFORE = FUNCTIONS
for _part in ADDED:
    BEFORE = BEFORE.replace(_part, "")

_LEFT = """
    SELECT team_id, date_bin('15 minutes', created_at, timestamptz '2000-01-01 00:00Z') AS start, space_id,
           api_key_id AS key_id, model, mode, reason, count(*) AS requests
      FROM contextopt_gatewayrequest WHERE outcome = 'abandoned'
     GROUP BY 1, 2, 3, 4, 5, 6, 7
"""
_SAME = """t.team_id = g.team_id AND t.start = g.start AND t.space_id IS NOT DISTINCT FROM g.space_id
       AND t.model = g.model AND t.mode = g.mode AND t.reason = g.reason"""
COUNT = f"""
UPDATE dashboard_trafficquarter t SET abandoned = g.requests, failed = t.failed - g.requests
  FROM ({_LEFT}) AS g
 WHERE {_SAME} AND t.key_id = g.key_id;

WITH shared AS (
    SELECT t.id, t.failed,
           g.requests - coalesce(sum(t.failed) OVER (
               PARTITION BY t.team_id, t.start, t.space_id, t.model, t.mode, t.reason ORDER BY t.id
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS rest
      FROM dashboard_trafficquarter t JOIN ({_LEFT}) AS g ON {_SAME}
     WHERE g.key_id IS NULL AND NOT EXISTS (SELECT FROM contextopt_apikey k WHERE k.id = t.key_id)
)
UPDATE dashboard_trafficquarter t
   SET abandoned = least(s.failed, s.rest), failed = s.failed - least(s.failed, s.rest)
  FROM shared s WHERE t.id = s.id AND s.rest > 0;

UPDATE dashboard_trafficday t SET abandoned = g.abandoned, failed = g.failed
  FROM (
    SELECT q.team_id, date_trunc('day', q.start, team.time_zone) AS start, q.space_id, q.key_id, q.model, q.mode,
           q.reason, sum(q.failed) AS failed, sum(q.abandoned) AS abandoned
      FROM dashboard_trafficquarter q JOIN contextopt_team team ON team.id = q.team_id
     GROUP BY 1, 2, 3, 4, 5, 6, 7
  ) AS g
 WHERE {_SAME} AND t.key_id IS NOT DISTINCT FROM g.key_id AND g.abandoned > 0;
"""
MERGE = """
UPDATE dashboard_trafficquarter SET failed = failed + abandoned WHERE abandoned > 0;
UPDATE dashboard_trafficday SET failed = failed + abandoned WHERE abandoned > 0;
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("dashboard", "0016_percentiles")]

    operations: ClassVar = [
        *(
            migrations.AddField(
                rollup,
                "abandoned",
                models.PositiveIntegerField(
                    default=0,
                    db_default=0,
                    help_text="whose client left before the answer ended; not failed",
                ),
            )
            for rollup in ("trafficquarter", "trafficday")
        ),
        *(
            migrations.AlterField(
                rollup,
                "failed",
                models.PositiveIntegerField(
                    help_text="not answered, or with an error from the provider; clients that left are apart"
                ),
            )
            for rollup in ("trafficquarter", "trafficday")
        ),
        migrations.RunSQL(FUNCTIONS, BEFORE),
        migrations.RunSQL(COUNT, MERGE),
    ]
