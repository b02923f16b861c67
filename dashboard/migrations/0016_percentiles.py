"""The ends of the values beside each histogram, and fine buckets of small ratios.

Rollups of earlier days keep ends that are unknown and no ratios until the worker has rebuilt them, the newest
first. The ends of the time that the gateway added are read from its log here.
"""

from importlib import import_module
from typing import ClassVar

import pgvector.django.vector
from django.db import migrations, models

ROLLUPS = ("dayrollup", "daysummary", "hoursummary", "quarterrollup")
TRAFFIC = ("trafficday", "trafficquarter")
FIGURES = ("ms", "tokens", "utilisation", "ratio")
BUCKETS, BUCKETS_BEFORE = 82, 21


def add_ends(table, figures, null=""):
    """Add columns whose existing rows do not know their values."""
    columns = ", ".join(
        f"ADD COLUMN {figure}_smallest double precision {null} DEFAULT 0, "
        f"ADD COLUMN {figure}_largest double precision {null} DEFAULT 'Infinity'"
        for figure in figures
    )
    no_defaults = ", ".join(
        f"ALTER COLUMN {figure}_{end} DROP DEFAULT" for figure in figures for end in ("smallest", "largest")
    )
    return f"ALTER TABLE dashboard_{table} {columns}; ALTER TABLE dashboard_{table} {no_defaults};"


def drop_ends(table, figures):
    columns = ", ".join(f"DROP COLUMN {figure}_{end}" for figure in figures for end in ("smallest", "largest"))
    return f"ALTER TABLE dashboard_{table} {columns};"


def change_ratios(table, buckets):
    return (
        f"ALTER TABLE dashboard_{table} ALTER COLUMN ratio_histogram TYPE vector({buckets}) "
        f"USING array_fill(0, ARRAY[{buckets}])::vector({buckets});"
    )


def change(forwards, backwards, *states):
    return migrations.SeparateDatabaseAndState([migrations.RunSQL(forwards, backwards)], list(states))


def add_columns(table, figures, *, null):
    return change(
        add_ends(table, figures, "" if null else "NOT NULL"),
        drop_ends(table, figures),
        *(
            migrations.AddField(table, f"{figure}_{end}", models.FloatField(null=null))
            for figure in figures
            for end in ("smallest", "largest")
        ),
    )


FUNCTIONS = r"""
CREATE OR REPLACE FUNCTION dashboard_count_traffic() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH counted AS MATERIALIZED (
    SELECT g.team_id, date_bin('15 minutes', g.created_at, timestamptz '2000-01-01 00:00Z') AS start, g.space_id,
           g.api_key_id AS key_id, g.model, g.mode, g.reason,
           count(*) AS requests, count(*) FILTER (WHERE g.is_inserted) AS inserted,
           count(*) FILTER (WHERE g.outcome <> 'answered' OR g.status_code >= 400) AS failed,
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
        team_id, start, space_id, key_id, model, mode, reason, requests, inserted, failed, prompt_tokens,
        context_tokens, saved_tokens, with_usage, input_tokens, output_tokens, with_cached, cached_tokens,
        cached_input_tokens, cache_write_tokens, added_histogram, added_smallest, added_largest)
    SELECT * FROM counted
    ON CONFLICT (team_id, start, space_id, key_id, model, mode, reason) DO UPDATE SET
        requests = t.requests + excluded.requests, inserted = t.inserted + excluded.inserted,
        failed = t.failed + excluded.failed, prompt_tokens = t.prompt_tokens + excluded.prompt_tokens,
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
        team_id, start, space_id, key_id, model, mode, reason, requests, inserted, failed, prompt_tokens,
        context_tokens, saved_tokens, with_usage, input_tokens, output_tokens, with_cached, cached_tokens,
        cached_input_tokens, cache_write_tokens, added_histogram, added_smallest, added_largest)
    SELECT c.team_id, date_trunc('day', c.start, team.time_zone), c.space_id, c.key_id, c.model, c.mode, c.reason,
           sum(requests), sum(inserted), sum(failed), sum(prompt_tokens), sum(context_tokens),
           sum(saved_tokens), sum(with_usage), sum(input_tokens), sum(output_tokens), sum(with_cached),
           sum(cached_tokens), sum(cached_input_tokens), sum(cache_write_tokens), sum(added_histogram),
           min(added_smallest), max(added_largest)
      FROM counted c JOIN contextopt_team team ON team.id = c.team_id
     GROUP BY c.team_id, 2, c.space_id, c.key_id, c.model, c.mode, c.reason
     ORDER BY c.team_id, 2, c.space_id, c.key_id, c.model, c.mode, c.reason
    ON CONFLICT (team_id, start, space_id, key_id, model, mode, reason) DO UPDATE SET
        requests = t.requests + excluded.requests, inserted = t.inserted + excluded.inserted,
        failed = t.failed + excluded.failed, prompt_tokens = t.prompt_tokens + excluded.prompt_tokens,
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
        team_id, start, space_id, key_id, model, mode, reason, requests, inserted, failed, prompt_tokens,
        context_tokens, saved_tokens, with_usage, input_tokens, output_tokens, with_cached, cached_tokens,
        cached_input_tokens, cache_write_tokens, added_histogram, added_smallest, added_largest)
    SELECT team_id, date_trunc('day', start, NEW.time_zone), space_id, key_id, model, mode, reason,
           sum(requests), sum(inserted), sum(failed), sum(prompt_tokens), sum(context_tokens),
           sum(saved_tokens), sum(with_usage), sum(input_tokens), sum(output_tokens), sum(with_cached),
           sum(cached_tokens), sum(cached_input_tokens), sum(cache_write_tokens), sum(added_histogram),
           min(added_smallest), max(added_largest)
      FROM dashboard_trafficquarter WHERE team_id = NEW.id
     GROUP BY team_id, 2, space_id, key_id, model, mode, reason;
    RETURN NULL;
END $$;
"""
FUNCTIONS_BEFORE = import_module("dashboard.migrations.0001_squashed_0012_traffic").TRIGGERS

# A deleted key is gone from the log, so its quarters take the ends of all keys.
READ_ENDS = """
UPDATE dashboard_trafficquarter t
   SET added_smallest = seen.smallest, added_largest = seen.largest
  FROM (SELECT team_id, date_bin('15 minutes', created_at, timestamptz '2000-01-01 00:00Z') AS start, space_id,
               model, mode, reason, min(added_ms) AS smallest, max(added_ms) AS largest
          FROM contextopt_gatewayrequest GROUP BY 1, 2, 3, 4, 5, 6) seen
 WHERE t.team_id = seen.team_id AND t.start = seen.start AND t.space_id IS NOT DISTINCT FROM seen.space_id
   AND t.model = seen.model AND t.mode = seen.mode AND t.reason = seen.reason;
UPDATE dashboard_trafficday t
   SET added_smallest = seen.smallest, added_largest = seen.largest
  FROM (SELECT q.team_id, date_trunc('day', q.start, team.time_zone) AS start, q.space_id, q.key_id, q.model,
               q.mode, q.reason, min(added_smallest) AS smallest, max(added_largest) AS largest
          FROM dashboard_trafficquarter q JOIN contextopt_team team ON team.id = q.team_id
         GROUP BY 1, 2, 3, 4, 5, 6, 7) seen
 WHERE t.team_id = seen.team_id AND t.start = seen.start AND t.space_id IS NOT DISTINCT FROM seen.space_id
   AND t.key_id IS NOT DISTINCT FROM seen.key_id AND t.model = seen.model AND t.mode = seen.mode
   AND t.reason = seen.reason;
"""
MARK_STALE = """
INSERT INTO dashboard_staleday (team_id, day)
SELECT DISTINCT team_id, date_trunc('day', start, 'UTC') FROM dashboard_quarterrollup
ON CONFLICT DO NOTHING;
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("dashboard", "0015_unread_handoffs")]

    operations: ClassVar = [
        migrations.RunSQL(migrations.RunSQL.noop, MARK_STALE),
        *(
            change(
                change_ratios(rollup, BUCKETS),
                change_ratios(rollup, BUCKETS_BEFORE),
                migrations.AlterField(
                    rollup, "ratio_histogram", pgvector.django.vector.VectorField(dimensions=BUCKETS)
                ),
            )
            for rollup in ROLLUPS
        ),
        *(add_columns(rollup, FIGURES, null=True) for rollup in ROLLUPS),
        *(add_columns(traffic, ("added",), null=False) for traffic in TRAFFIC),
        migrations.RunSQL(FUNCTIONS, FUNCTIONS_BEFORE),
        migrations.RunSQL(READ_ENDS, migrations.RunSQL.noop),
        migrations.RunSQL(MARK_STALE, migrations.RunSQL.noop),
    ]
