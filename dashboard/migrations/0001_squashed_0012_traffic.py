"""Squashes all migrations up to 0012. New databases start here; others continue with the originals."""

import datetime
import django.core.validators
import django.db.models.deletion
import pgvector.django.vector
from decimal import Decimal
from django.conf import settings
from django.db import migrations, models

TRIGGERS = r"""
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
"""

# Counters are updated in place, so their pages keep room.
ROOM = """
ALTER TABLE dashboard_trafficquarter SET (fillfactor = 60);
ALTER TABLE dashboard_trafficday SET (fillfactor = 60);
"""


class Migration(migrations.Migration):

    replaces = [
        ('dashboard', '0001_rollups'),
        ('dashboard', '0002_folding'),
        ('dashboard', '0003_worker_beat'),
        ('dashboard', '0004_summaries'),
        ('dashboard', '0005_deleted_spaces'),
        ('dashboard', '0006_counted_savings'),
        ('dashboard', '0007_plain_words'),
        ('dashboard', '0008_hint_kind'),
        ('dashboard', '0009_agent_kind'),
        ('dashboard', '0010_cache_prices'),
        ('dashboard', '0011_prompt_tokens'),
        ('dashboard', '0012_traffic'),
    ]

    initial = True

    dependencies = [
        ('contextopt', '0001_squashed_0051_reported_cache'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='RollupZone',
            fields=[
                ('team', models.OneToOneField(on_delete=django.db.models.deletion.DB_CASCADE, primary_key=True, related_name='+', serialize=False, to='contextopt.team')),
                ('time_zone', models.CharField(max_length=64)),
                ('summarised_since', models.DateTimeField(help_text='summaries are valid from here on; a job rebuilds older ones, newest first', null=True)),
            ],
        ),
        migrations.CreateModel(
            name='UnfoldedAssembly',
            fields=[
                ('assembly_id', models.BigIntegerField(primary_key=True, serialize=False)),
            ],
            options={
                'verbose_name_plural': 'unfolded assemblies',
            },
        ),
        migrations.CreateModel(
            name='WorkerBeat',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('beaten_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='ModelPrice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('model', models.CharField(blank=True, help_text='Name used in requests. Leave blank for the price of requests without a model.', max_length=120)),
                ('dollars_per_million', models.DecimalField(decimal_places=4, max_digits=10, validators=[django.core.validators.MinValueValidator(Decimal('0'))], verbose_name='US dollars per million input tokens')),
                ('cached_read_dollars', models.DecimalField(blank=True, decimal_places=4, help_text='Leave blank for the price in the package genai-prices, if it has one.', max_digits=10, null=True, validators=[django.core.validators.MinValueValidator(Decimal('0'))], verbose_name='US dollars per million tokens read from the cache')),
                ('cache_write_dollars', models.DecimalField(blank=True, decimal_places=4, help_text='Leave blank if writing costs as much as any other input.', max_digits=10, null=True, validators=[django.core.validators.MinValueValidator(Decimal('0'))], verbose_name='US dollars per million tokens written to the cache')),
                ('minimum_tokens', models.PositiveIntegerField(default=1024, help_text='The shortest beginning of a prompt that is cached.')),
                ('lifetime_seconds', models.PositiveIntegerField(default=300, help_text='How long an unused beginning stays cached.')),
                ('effective_from', models.DateField(default=datetime.date(2000, 1, 1), help_text="The first day that these prices hold, in the team's time zone.")),
                ('source', models.CharField(blank=True, help_text='Where the prices come from.', max_length=300)),
                ('changed_at', models.DateTimeField(auto_now=True)),
            ],
            options={
                'ordering': ['model', '-effective_from'],
                'constraints': [models.CheckConstraint(condition=models.Q(('dollars_per_million__gte', 0)), name='model_price_positive'), models.CheckConstraint(condition=models.Q(models.Q(('cached_read_dollars', None), ('cached_read_dollars__gte', 0), _connector='OR'), models.Q(('cache_write_dollars', None), ('cache_write_dollars__gte', 0), _connector='OR')), name='model_price_cache_positive'), models.UniqueConstraint(fields=('model', 'effective_from'), name='model_price_once_a_day')],
            },
        ),
        migrations.CreateModel(
            name='DayRollup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('start', models.DateTimeField()),
                ('stage', models.PositiveSmallIntegerField(null=True)),
                ('kind', models.CharField(choices=[('space', 'Space context'), ('phase', 'Phase filter'), ('retry', 'Retry delta'), ('handoff', 'Hand-off'), ('hint', 'Strategy hint'), ('agent', 'Agent context')], max_length=8)),
                ('phase', models.CharField(blank=True, max_length=64)),
                ('model', models.CharField(blank=True, max_length=120)),
                ('assemblies', models.PositiveIntegerField()),
                ('truncated', models.PositiveIntegerField()),
                ('empties', models.PositiveIntegerField(default=0, help_text='space contexts without records')),
                ('records_filtered', models.BigIntegerField()),
                ('records_included', models.BigIntegerField()),
                ('tokens_before', models.BigIntegerField()),
                ('tokens_after', models.BigIntegerField()),
                ('tokens_saved', models.BigIntegerField(help_text='of assemblies with a baseline')),
                ('prompts', models.PositiveIntegerField(default=0, help_text='contexts whose whole prompt was measured')),
                ('prompt_tokens', models.BigIntegerField(default=0)),
                ('shared_tokens', models.BigIntegerField(default=0)),
                ('cached_tokens', models.BigIntegerField(default=0)),
                ('cacheable_tokens', models.BigIntegerField(default=0)),
                ('carried_tokens', models.BigIntegerField(default=0, help_text='part of tokens_after')),
                ('ratios', models.FloatField()),
                ('with_ratio', models.PositiveIntegerField()),
                ('utilisations', models.FloatField()),
                ('with_utilisation', models.PositiveIntegerField()),
                ('ms_histogram', pgvector.django.vector.VectorField(dimensions=86)),
                ('tokens_histogram', pgvector.django.vector.VectorField(dimensions=50)),
                ('utilisation_histogram', pgvector.django.vector.VectorField(dimensions=21)),
                ('ratio_histogram', pgvector.django.vector.VectorField(dimensions=21)),
                ('config', models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name='+', to='contextopt.contextconfig')),
                ('space', models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name='+', to='contextopt.space')),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name='+', to='contextopt.team')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('team', 'start', 'space', 'stage', 'kind', 'config', 'phase', 'model'), name='day_rollup_once', nulls_distinct=False)],
            },
        ),
        migrations.CreateModel(
            name='DaySummary',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('start', models.DateTimeField()),
                ('stage', models.PositiveSmallIntegerField(null=True)),
                ('kind', models.CharField(choices=[('space', 'Space context'), ('phase', 'Phase filter'), ('retry', 'Retry delta'), ('handoff', 'Hand-off'), ('hint', 'Strategy hint'), ('agent', 'Agent context')], max_length=8)),
                ('phase', models.CharField(blank=True, max_length=64)),
                ('model', models.CharField(blank=True, max_length=120)),
                ('assemblies', models.PositiveIntegerField()),
                ('truncated', models.PositiveIntegerField()),
                ('empties', models.PositiveIntegerField(default=0, help_text='space contexts without records')),
                ('records_filtered', models.BigIntegerField()),
                ('records_included', models.BigIntegerField()),
                ('tokens_before', models.BigIntegerField()),
                ('tokens_after', models.BigIntegerField()),
                ('tokens_saved', models.BigIntegerField(help_text='of assemblies with a baseline')),
                ('prompts', models.PositiveIntegerField(default=0, help_text='contexts whose whole prompt was measured')),
                ('prompt_tokens', models.BigIntegerField(default=0)),
                ('shared_tokens', models.BigIntegerField(default=0)),
                ('cached_tokens', models.BigIntegerField(default=0)),
                ('cacheable_tokens', models.BigIntegerField(default=0)),
                ('carried_tokens', models.BigIntegerField(default=0, help_text='part of tokens_after')),
                ('ratios', models.FloatField()),
                ('with_ratio', models.PositiveIntegerField()),
                ('utilisations', models.FloatField()),
                ('with_utilisation', models.PositiveIntegerField()),
                ('ms_histogram', pgvector.django.vector.VectorField(dimensions=86)),
                ('tokens_histogram', pgvector.django.vector.VectorField(dimensions=50)),
                ('utilisation_histogram', pgvector.django.vector.VectorField(dimensions=21)),
                ('ratio_histogram', pgvector.django.vector.VectorField(dimensions=21)),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name='+', to='contextopt.team')),
            ],
            options={
                'verbose_name_plural': 'day summaries',
                'constraints': [models.UniqueConstraint(fields=('team', 'start', 'stage', 'kind', 'phase', 'model'), name='day_summary_once', nulls_distinct=False)],
            },
        ),
        migrations.CreateModel(
            name='HourSummary',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('start', models.DateTimeField()),
                ('stage', models.PositiveSmallIntegerField(null=True)),
                ('kind', models.CharField(choices=[('space', 'Space context'), ('phase', 'Phase filter'), ('retry', 'Retry delta'), ('handoff', 'Hand-off'), ('hint', 'Strategy hint'), ('agent', 'Agent context')], max_length=8)),
                ('phase', models.CharField(blank=True, max_length=64)),
                ('model', models.CharField(blank=True, max_length=120)),
                ('assemblies', models.PositiveIntegerField()),
                ('truncated', models.PositiveIntegerField()),
                ('empties', models.PositiveIntegerField(default=0, help_text='space contexts without records')),
                ('records_filtered', models.BigIntegerField()),
                ('records_included', models.BigIntegerField()),
                ('tokens_before', models.BigIntegerField()),
                ('tokens_after', models.BigIntegerField()),
                ('tokens_saved', models.BigIntegerField(help_text='of assemblies with a baseline')),
                ('prompts', models.PositiveIntegerField(default=0, help_text='contexts whose whole prompt was measured')),
                ('prompt_tokens', models.BigIntegerField(default=0)),
                ('shared_tokens', models.BigIntegerField(default=0)),
                ('cached_tokens', models.BigIntegerField(default=0)),
                ('cacheable_tokens', models.BigIntegerField(default=0)),
                ('carried_tokens', models.BigIntegerField(default=0, help_text='part of tokens_after')),
                ('ratios', models.FloatField()),
                ('with_ratio', models.PositiveIntegerField()),
                ('utilisations', models.FloatField()),
                ('with_utilisation', models.PositiveIntegerField()),
                ('ms_histogram', pgvector.django.vector.VectorField(dimensions=86)),
                ('tokens_histogram', pgvector.django.vector.VectorField(dimensions=50)),
                ('utilisation_histogram', pgvector.django.vector.VectorField(dimensions=21)),
                ('ratio_histogram', pgvector.django.vector.VectorField(dimensions=21)),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name='+', to='contextopt.team')),
            ],
            options={
                'verbose_name_plural': 'hour summaries',
                'constraints': [models.UniqueConstraint(fields=('team', 'start', 'stage', 'kind', 'phase', 'model'), name='hour_summary_once', nulls_distinct=False)],
            },
        ),
        migrations.CreateModel(
            name='QuarterRollup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('start', models.DateTimeField()),
                ('stage', models.PositiveSmallIntegerField(null=True)),
                ('kind', models.CharField(choices=[('space', 'Space context'), ('phase', 'Phase filter'), ('retry', 'Retry delta'), ('handoff', 'Hand-off'), ('hint', 'Strategy hint'), ('agent', 'Agent context')], max_length=8)),
                ('phase', models.CharField(blank=True, max_length=64)),
                ('model', models.CharField(blank=True, max_length=120)),
                ('assemblies', models.PositiveIntegerField()),
                ('truncated', models.PositiveIntegerField()),
                ('empties', models.PositiveIntegerField(default=0, help_text='space contexts without records')),
                ('records_filtered', models.BigIntegerField()),
                ('records_included', models.BigIntegerField()),
                ('tokens_before', models.BigIntegerField()),
                ('tokens_after', models.BigIntegerField()),
                ('tokens_saved', models.BigIntegerField(help_text='of assemblies with a baseline')),
                ('prompts', models.PositiveIntegerField(default=0, help_text='contexts whose whole prompt was measured')),
                ('prompt_tokens', models.BigIntegerField(default=0)),
                ('shared_tokens', models.BigIntegerField(default=0)),
                ('cached_tokens', models.BigIntegerField(default=0)),
                ('cacheable_tokens', models.BigIntegerField(default=0)),
                ('carried_tokens', models.BigIntegerField(default=0, help_text='part of tokens_after')),
                ('ratios', models.FloatField()),
                ('with_ratio', models.PositiveIntegerField()),
                ('utilisations', models.FloatField()),
                ('with_utilisation', models.PositiveIntegerField()),
                ('ms_histogram', pgvector.django.vector.VectorField(dimensions=86)),
                ('tokens_histogram', pgvector.django.vector.VectorField(dimensions=50)),
                ('utilisation_histogram', pgvector.django.vector.VectorField(dimensions=21)),
                ('ratio_histogram', pgvector.django.vector.VectorField(dimensions=21)),
                ('config', models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name='+', to='contextopt.contextconfig')),
                ('space', models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name='+', to='contextopt.space')),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name='+', to='contextopt.team')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('team', 'start', 'space', 'stage', 'kind', 'config', 'phase', 'model'), name='quarter_rollup_once', nulls_distinct=False)],
            },
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('page', models.CharField(choices=[('overview', 'Overview'), ('assemblies', 'Assemblies')], max_length=16)),
                ('name', models.CharField(max_length=80)),
                ('query', models.CharField(blank=True, max_length=2000)),
                ('created_by', models.CharField(blank=True, max_length=160)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('owner', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name='saved_views', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name='saved_views', to='contextopt.team')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('team', 'owner', 'page', 'name'), name='saved_view_once', nulls_distinct=False), models.CheckConstraint(condition=models.Q(('page__in', ['overview', 'assemblies'])), name='saved_view_page')],
            },
        ),
        migrations.CreateModel(
            name='StaleDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateTimeField()),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name='+', to='contextopt.team')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('team', 'day'), name='stale_day_once')],
            },
        ),
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
        migrations.RunSQL(TRIGGERS),
        migrations.RunSQL(ROOM),
    ]
