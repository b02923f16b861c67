"""The overview page: server time over a log of many assemblies, made up by the database itself."""

from time import perf_counter

from django.conf import settings
from django.db import connection
from django.test import Client
from django.urls import reverse

from benchmarks.figures import Figure, Sample, Section, at_most
from benchmarks.spaces import describe_space, settle
from contextopt.models import ContextConfig, Membership, Role, Team, User
from contextopt.recording import create_space

SLUG = "overview"
BAR_ASSEMBLIES = 1_000_000
BAR_P95_MS = 150.0
OK_STATUSES = (200, 286)
FILTERS = (
    ("the last 24 hours", {"range": "24h"}),
    ("7 days", {"range": "7d"}),
    ("14 days", {"range": "14d"}),
    ("30 days", {"range": "30d"}),
    ("90 days", {"range": "90d"}),
    ("30 days, one space", {"range": "30d", "space": SLUG}),
    ("30 days, one stage", {"range": "30d", "stage": "4"}),
)

# Spread over 90 days; figures vary as real ones do, payloads are left out since the page reads none.
_FILL_SQL = """
INSERT INTO contextopt_assembly (
    team_id, space_id, config_id, kind, stage, phase, model, conversation, actor, as_of, created_at,
    records_filtered, records_included, over_record_limit, over_budget, outside_window, deleted,
    tokens_before, tokens_after, tokens_available, total_tokens, system_tokens, history_tokens,
    response_tokens, truncated, assembly_ms, encoding, tokenizer_version, sha256, is_demo)
SELECT %(team)s, %(space)s, %(config)s, 'space', 3 + (n %% 3 > 0)::int, '', 'model-' || n %% 3, '',
       'benchmarks', moment, moment, 20 + n %% 80, 20, n %% 80, 0, n %% 500, n %% 7,
       700 + (n * 7919) %% 900, 600 + (n * 104729) %% 1300, 2000, 4800, 800, 1000,
       1000 + (n * 31) %% 1400, n %% 80 > 0, 0.5 + ((n * 15485863) %% 1000) / 60.0, 'cl100k_base',
       'generated', md5(n::text) || md5((n + 1)::text), false
  FROM (SELECT n, now() - (random() * 90) * interval '1 day' AS moment
          FROM generate_series(1, %(count)s::bigint) AS n) AS made
"""


def measure_overview(assemblies: int, *, runs: int) -> Section:
    """Time the page with every filter in turn, from the request to the whole answer."""
    team, user = _make_team(), None
    try:
        _fill_log(team, assemblies)
        user = User.objects.create_user("benchmarks-overview")
        Membership.objects.create(team=team, user=user, role=Role.ADMIN)
        figures = _measure_page(user, assemblies, runs)
    finally:
        if user is not None:
            user.delete()
        team.delete()
    note = (
        f"{assemblies:,} generated assemblies over 90 days; Django's own client, so the page is built whole, "
        "without network or server in front."
    )
    return Section("Overview page", tuple(figures), (note,))


def _make_team() -> Team:
    Team.objects.filter(slug="benchmarks-overview").delete()
    return Team.objects.create(slug="benchmarks-overview", name="Overview")


def _fill_log(team: Team, assemblies: int) -> None:
    space = create_space(team=team, data=describe_space(SLUG), actor="benchmarks")
    config = ContextConfig.objects.get(space=space, is_active=True)
    with connection.cursor() as cursor:
        values = {"team": team.pk, "space": space.pk, "config": config.pk, "count": assemblies}
        cursor.execute(_FILL_SQL, values)
    settle()


def _measure_page(user: User, assemblies: int, runs: int) -> list[Figure]:
    client = Client(headers={"host": "localhost"}, secure=settings.HTTPS)
    client.force_login(user)
    url = reverse("dashboard:overview")
    figures = []
    for name, query in FILTERS:
        times = [_time_page(client, url, query) for _ in range(runs + 1)][1:]
        sample = Sample(tuple(times))
        bar = at_most(BAR_P95_MS, sample.p95, f"p95 ≤ {BAR_P95_MS:g} ms")
        figures.append(Figure.of(name, sample, bar=bar if assemblies >= BAR_ASSEMBLIES else None))
    return figures


def _time_page(client: Client, url: str, query: dict[str, str]) -> float:
    started = perf_counter()
    answer = client.get(url, query)
    took_ms = (perf_counter() - started) * 1_000
    if answer.status_code not in OK_STATUSES:
        raise RuntimeError(f"the overview answered {answer.status_code}")
    return took_ms
