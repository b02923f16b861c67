"""A log of many assemblies, made up by the database itself as real ones are spread: days and nights, busy
and quiet spaces, four kinds, versions of settings that follow each other."""

from django.db import connection, transaction

from benchmarks.spaces import describe_space, settle
from contextopt.models import ContextConfig, Space, Team
from contextopt.spaces.spaces import create_space

SPACES = 6
CONFIGS = 3
DAYS = 90
SLUG = "overview"

# Payloads are left out: no page but the inspector reads one.
_FILL_SQL = """
WITH dice AS MATERIALIZED (
    SELECT n, random() AS r_kind, random() AS r_stage, random() AS r_space, random() AS r_size,
           random() AS r_ms, random() AS r_model,
           least(now() - interval '1 second',
                 date_trunc('day', now()) - floor(random() * %(days)s) * interval '1 day'
                 + (random() + random()) * interval '12 hours') AS moment
      FROM generate_series(1, %(count)s::bigint) AS n
), rows AS (
    SELECT n, moment, r_ms, r_model, r_size, floor(r_size * r_size * 120)::int AS filtered,
           CASE WHEN r_kind < 0.7 THEN 'space' WHEN r_kind < 0.9 THEN 'phase'
                WHEN r_kind < 0.97 THEN 'retry' ELSE 'handoff' END AS kind,
           CASE WHEN r_stage < 0.7 THEN 4 WHEN r_stage < 0.88 THEN 5
                WHEN r_stage < 0.98 THEN 3 ELSE 2 END AS stage,
           1 + floor(%(spaces)s * r_space * r_space)::int AS place,
           1 + least(%(configs)s - 1,
                     floor(extract(epoch FROM now() - moment) / 86400 / %(days)s * %(configs)s)
           )::int AS version
      FROM dice
)
INSERT INTO contextopt_assembly (
    team_id, space_id, config_id, kind, stage, phase, model, conversation, actor, as_of, created_at,
    records_filtered, records_included, over_record_limit, over_budget, outside_window, deleted,
    tokens_before, tokens_after, tokens_available, total_tokens, system_tokens, history_tokens,
    response_tokens, truncated, assembly_ms, encoding, tokenizer_version, sha256, is_demo)
SELECT %(team)s,
       CASE WHEN kind = 'space' THEN (%(space_ids)s::bigint[])[place] END,
       CASE WHEN kind = 'space' THEN (%(config_ids)s::bigint[])[(place - 1) * %(configs)s + version] END,
       kind, CASE WHEN kind = 'space' THEN stage END,
       CASE WHEN kind = 'phase' THEN (%(phases)s::text[])[1 + n %% 6] ELSE '' END,
       (ARRAY['model-large', 'model-small', ''])[1 + floor(r_model * 3)::int],
       CASE WHEN n %% 2 = 0 THEN 'c-' || n / 20 ELSE '' END, 'benchmarks', moment, moment,
       CASE WHEN kind = 'space' THEN filtered ELSE 0 END,
       CASE WHEN kind = 'space' THEN least(filtered, 20) ELSE 0 END,
       CASE WHEN kind = 'space' THEN greatest(filtered - 20, 0) ELSE 0 END, 0, n %% 500, n %% 7,
       1000 + (r_size * 900)::int, 300 + (r_size * 1600)::int, 2000, 4800, 800, 1000, 1000,
       kind = 'space' AND filtered > 20, 0.8 + 3 * -ln(1 - r_ms), 'cl100k_base', 'generated',
       md5(n::text) || md5((n + 1)::text), false
  FROM rows
"""
_PHASES = ["confidence", "planning", "building", "diagnosis", "reviewing", "completing"]
FILL_ROWS = 100_000


def fill_log(team: Team, assemblies: int) -> None:
    """Write so many assemblies over the last 90 days, a bounded number in each transaction."""
    spaces = [_make_space(team, number) for number in range(SPACES)]
    configs = [config.pk for space in spaces for config in _make_configs(space)]
    values = {
        "team": team.pk, "space_ids": [space.pk for space in spaces], "config_ids": configs,
        "phases": _PHASES, "days": DAYS, "spaces": SPACES, "configs": CONFIGS,
    }  # fmt: skip
    for done in range(0, assemblies, FILL_ROWS):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_FILL_SQL, {**values, "count": min(FILL_ROWS, assemblies - done)})
    settle()


def _make_space(team: Team, number: int) -> Space:
    return create_space(
        team=team, data=describe_space(SLUG if not number else f"{SLUG}-{number}"), actor="benchmarks"
    )


def _make_configs(space: Space) -> list[ContextConfig]:
    """Return the versions of a space's settings, the newest first."""
    for _ in range(CONFIGS - 1):
        ContextConfig.objects.publish(space=space, created_by="benchmarks", max_records=20)
    return list(ContextConfig.objects.filter(space=space).order_by("-version"))
