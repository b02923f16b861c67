"""Prompts of the gateway, added up by quarter of an hour and by day, by triggers."""

import django.db.models.deletion
import pgvector.django.vector
from django.db import migrations, models

TRIGGERS = """
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
           count(*) FILTER (WHERE g.outcome <> 'answered' OR g.status_code >= 400) AS failed,
           coalesce(sum(g.prompt_tokens), 0) AS prompt_tokens,
           coalesce(sum(g.context_tokens), 0) AS context_tokens,
           coalesce(sum(a.tokens_before::bigint - a.tokens_after), 0) AS saved_tokens,
           count(g.input_tokens) AS with_usage, coalesce(sum(g.input_tokens), 0) AS input_tokens,
           coalesce(sum(g.output_tokens) FILTER (WHERE g.input_tokens IS NOT NULL), 0) AS output_tokens,
           count(g.cached_tokens) AS with_cached, coalesce(sum(g.cached_tokens), 0) AS cached_tokens,
           coalesce(sum(g.input_tokens) FILTER (WHERE g.cached_tokens IS NOT NULL), 0) AS cached_input_tokens,
           coalesce(sum(g.cache_write_tokens), 0) AS cache_write_tokens,
           sum(dashboard_one_of_ms(g.added_ms)) AS added_histogram
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
        cached_input_tokens, cache_write_tokens, added_histogram)
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
        added_histogram = t.added_histogram + excluded.added_histogram
    )
    INSERT INTO dashboard_trafficday AS t (
        team_id, start, space_id, key_id, model, mode, reason, requests, inserted, failed, prompt_tokens,
        context_tokens, saved_tokens, with_usage, input_tokens, output_tokens, with_cached, cached_tokens,
        cached_input_tokens, cache_write_tokens, added_histogram)
    SELECT c.team_id, date_trunc('day', c.start, team.time_zone), c.space_id, c.key_id, c.model, c.mode, c.reason,
           sum(requests), sum(inserted), sum(failed), sum(prompt_tokens), sum(context_tokens),
           sum(saved_tokens), sum(with_usage), sum(input_tokens), sum(output_tokens), sum(with_cached),
           sum(cached_tokens), sum(cached_input_tokens), sum(cache_write_tokens), sum(added_histogram)
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
        added_histogram = t.added_histogram + excluded.added_histogram;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION dashboard_zone_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM dashboard_trafficday WHERE team_id = NEW.id;
    INSERT INTO dashboard_trafficday (
        team_id, start, space_id, key_id, model, mode, reason, requests, inserted, failed, prompt_tokens,
        context_tokens, saved_tokens, with_usage, input_tokens, output_tokens, with_cached, cached_tokens,
        cached_input_tokens, cache_write_tokens, added_histogram)
    SELECT team_id, date_trunc('day', start, NEW.time_zone), space_id, key_id, model, mode, reason,
           sum(requests), sum(inserted), sum(failed), sum(prompt_tokens), sum(context_tokens),
           sum(saved_tokens), sum(with_usage), sum(input_tokens), sum(output_tokens), sum(with_cached),
           sum(cached_tokens), sum(cached_input_tokens), sum(cache_write_tokens), sum(added_histogram)
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

-- The rows of the current quarter and day change with every prompt. Room on their pages keeps that cheap.
ALTER TABLE dashboard_trafficquarter SET (fillfactor = 60);
ALTER TABLE dashboard_trafficday SET (fillfactor = 60);
"""
DROP = """
DROP TRIGGER dashboard_team_zone_changed ON contextopt_team;
DROP TRIGGER dashboard_traffic_added ON contextopt_gatewayrequest;
DROP FUNCTION dashboard_zone_changed();
DROP FUNCTION dashboard_count_traffic();
DROP FUNCTION dashboard_one_of_ms(double precision);
"""


class Migration(migrations.Migration):

    dependencies = [
        ('contextopt', '0051_reported_cache'),
        ('dashboard', '0011_prompt_tokens'),
    ]

    operations = [
        migrations.CreateModel(
            name='TrafficDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('start', models.DateTimeField()),
                ('key_id', models.BigIntegerField(null=True)),
                ('model', models.CharField(blank=True, max_length=120)),
                ('mode', models.CharField(max_length=6)),
                ('reason', models.CharField(blank=True, max_length=13)),
                ('requests', models.PositiveIntegerField()),
                ('inserted', models.PositiveIntegerField()),
                ('failed', models.PositiveIntegerField(help_text='without an answer, or with an error from the provider')),
                ('prompt_tokens', models.BigIntegerField(help_text='counted here, without the context')),
                ('context_tokens', models.BigIntegerField(help_text='inserted, or in audit mode what would have been')),
                ('saved_tokens', models.BigIntegerField(help_text='of contexts whose saving counts, each once')),
                ('with_usage', models.PositiveIntegerField()),
                ('input_tokens', models.BigIntegerField()),
                ('output_tokens', models.BigIntegerField()),
                ('with_cached', models.PositiveIntegerField()),
                ('cached_tokens', models.BigIntegerField()),
                ('cached_input_tokens', models.BigIntegerField(help_text='input of the prompts with a cached count')),
                ('cache_write_tokens', models.BigIntegerField()),
                ('added_histogram', pgvector.django.vector.VectorField(dimensions=86)),
                ('space', models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name='+', to='contextopt.space')),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name='+', to='contextopt.team')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('team', 'start', 'space', 'key_id', 'model', 'mode', 'reason'), name='traffic_day_once', nulls_distinct=False)],
            },
        ),
        migrations.CreateModel(
            name='TrafficQuarter',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('start', models.DateTimeField()),
                ('key_id', models.BigIntegerField(null=True)),
                ('model', models.CharField(blank=True, max_length=120)),
                ('mode', models.CharField(max_length=6)),
                ('reason', models.CharField(blank=True, max_length=13)),
                ('requests', models.PositiveIntegerField()),
                ('inserted', models.PositiveIntegerField()),
                ('failed', models.PositiveIntegerField(help_text='without an answer, or with an error from the provider')),
                ('prompt_tokens', models.BigIntegerField(help_text='counted here, without the context')),
                ('context_tokens', models.BigIntegerField(help_text='inserted, or in audit mode what would have been')),
                ('saved_tokens', models.BigIntegerField(help_text='of contexts whose saving counts, each once')),
                ('with_usage', models.PositiveIntegerField()),
                ('input_tokens', models.BigIntegerField()),
                ('output_tokens', models.BigIntegerField()),
                ('with_cached', models.PositiveIntegerField()),
                ('cached_tokens', models.BigIntegerField()),
                ('cached_input_tokens', models.BigIntegerField(help_text='input of the prompts with a cached count')),
                ('cache_write_tokens', models.BigIntegerField()),
                ('added_histogram', pgvector.django.vector.VectorField(dimensions=86)),
                ('space', models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name='+', to='contextopt.space')),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name='+', to='contextopt.team')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('team', 'start', 'space', 'key_id', 'model', 'mode', 'reason'), name='traffic_quarter_once', nulls_distinct=False)],
            },
        ),
        migrations.RunSQL(TRIGGERS, DROP),
    ]
