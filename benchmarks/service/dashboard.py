"""The pages over a log of many assemblies: server time, queries and size, and the speed of the rollups."""

import gzip
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchmarks.figures import Figure, Sample, Section, at_least, at_most
from benchmarks.service.dashboardlog import DAYS, SLUG, SPACES, fill_log
from benchmarks.service.server import HOST, serving
from benchmarks.spaces import settle
from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.models import Assembly
from contextopt.people.models import Membership, Role, Team, User
from dashboard.kit.serverevents import EVENTS_PATH
from dashboard.management.commands.up import collect_static_files
from dashboard.rollups.fold import FOLD_ROWS, fold
from dashboard.rollups.models import UnfoldedAssembly

BAR_ASSEMBLIES = 1_000_000
BAR_OVERVIEW_MS = 60.0
BAR_PHASES_MS = 150.0
BAR_LIST_MS = 100.0
BAR_FOLDED = 5_000.0
BAR_VISIBLE_SECONDS = 5.0
OK_STATUSES = (200, 286)
WRITTEN = 5
OPEN_PAGES = 20
LOGGED_EVERY_SECONDS = 0.5
PATIENCE_SECONDS = 60.0

OVERVIEWS = (
    ("the last 24 hours", "range=24h"),
    ("7 days", "range=7d"),
    ("14 days", "range=14d"),
    ("30 days", "range=30d"),
    ("90 days", "range=90d"),
    ("90 days, kinds apart", "range=90d&kinds=apart"),
    ("90 days, one space", f"range=90d&space={SLUG}"),
    ("90 days, one stage", "range=90d&stage=4"),
    ("90 days, one kind", "range=90d&kind=phase"),
    ("90 days, one phase", "range=90d&phase=building"),
    ("90 days, one config", "range=90d&config=2"),
    ("90 days, one model", "range=90d&model=model-large"),
)
LISTS = (
    ("all", ""),
    ("one space", f"space={SLUG}-5"),
    ("a rare stage", "stage=2"),
    ("a rare kind", "kind=handoff"),
    ("an old config", "config=1"),
    ("an unknown model", "model=none"),
    ("a rare stage, truncated", "stage=2&truncated=yes"),
    ("empty contexts", "empty=yes"),
    ("empty contexts of a stage", "empty=yes&stage=3"),
    ("a warning", "warning=nothing_relevant"),
    ("a conversation", "find=c-100"),
    ("a hash", "find=c4ca42"),
)


@dataclass(frozen=True, slots=True)
class Page:
    """A page to time, and its bar at full size."""

    what: str
    url: str
    bar_ms: float


def measure_dashboard(assemblies: int, *, runs: int) -> Section:
    """Time every page with every filter in turn, from the request to the whole response."""
    collect_static_files()
    Team.objects.filter(slug="benchmarks-dashboard").delete()
    team, user = Team.objects.create(slug="benchmarks-dashboard", name="Dashboard"), None
    try:
        fill_log(team, assemblies)
        folding = _measure_folding()
        settle()
        user = User.objects.create_user("benchmarks-dashboard")
        Membership.objects.create(team=team, user=user, role=Role.ADMIN)
        figures = [_measure_page(user, page, assemblies, runs) for page in _pages(team)]
        live = _measure_live(team, user, assemblies, runs)
        visible = _measure_visibility(team)
    finally:
        if user is not None:
            user.delete()
        team.delete()
    note = (
        f"{assemblies:,} generated assemblies over {DAYS} days, {SPACES} spaces, four kinds; measured "
        "with Django's test client, so whole pages without network or server. In brackets: queries, size, "
        "size gzipped."
    )
    return Section("Dashboard", (*figures, live, folding, visible), (note,))


def _pages(team: Team) -> list[Page]:
    shown = assemble_space(team_id=team.pk, request=AssemblyIn(space=SLUG), actor="benchmarks")
    return [
        *(Page(f"overview, {what}", f"/?{query}", BAR_OVERVIEW_MS) for what, query in OVERVIEWS),
        Page("overview, a chart's table, 90 days", "/overview/time/?range=90d", BAR_OVERVIEW_MS),
        *(Page(f"assemblies, {what}", f"/assemblies/?{query}", BAR_LIST_MS) for what, query in LISTS),
        Page("inspector", f"/assemblies/{shown.id}/", BAR_LIST_MS),
        Page("phases, 90 days", "/phases/?range=90d", BAR_PHASES_MS),
    ]


def _measure_page(user: User, page: Page, assemblies: int, runs: int) -> Figure:
    client = Client(headers={"host": "localhost"}, secure=settings.HTTPS)
    client.force_login(user)
    with CaptureQueriesContext(connection) as queries:
        body = _fetch(client, page.url)
    asked = len(queries)  # the next request forgets them
    sample = Sample(tuple(_took_ms(lambda: _fetch(client, page.url)) for _ in range(runs + 1))[1:])
    weight = f"{asked}, {len(body) / 1_000:.0f} kB, {len(gzip.compress(body)) / 1_000:.0f} kB"
    bar = at_most(page.bar_ms, sample.p95, f"p95 ≤ {page.bar_ms:g} ms")
    return Figure.of(f"{page.what} ({weight})", sample, bar=bar if assemblies >= BAR_ASSEMBLIES else None)


def _measure_live(team: Team, user: User, assemblies: int, runs: int) -> Figure:
    """Fetch the overviews over HTTP while other pages wait for events and contexts are logged."""
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    headers = {"cookie": f"{settings.SESSION_COOKIE_NAME}={session}", "accept-encoding": "gzip"}
    took = []
    with serving() as server, ExitStack() as opened:
        pages = [http.client.HTTPConnection(HOST, server.port, timeout=60) for _ in range(OPEN_PAGES)]
        events = [_get(opened.enter_context(closing(page)), EVENTS_PATH, headers) for page in pages]
        asking = opened.enter_context(closing(http.client.HTTPConnection(HOST, server.port, timeout=60)))
        with _logging(team):
            for number in range(runs + 1):
                for _, query in OVERVIEWS:
                    fetch_ms = _took_ms(partial(_read, asking, f"/?{query}", headers))
                    took += [fetch_ms] if number else []
            for stream in events:
                while not stream.readline().startswith(b"event: assemblies"):
                    pass
    sample = Sample(tuple(took))
    bar = at_most(BAR_OVERVIEW_MS, sample.p95, f"p95 ≤ {BAR_OVERVIEW_MS:g} ms")
    load = f"{OPEN_PAGES} live pages and {1 / LOGGED_EVERY_SECONDS:g} new contexts a second"
    what = f"overview, all filters, over HTTP beside {load}"
    return Figure.of(what, sample, bar=bar if assemblies >= BAR_ASSEMBLIES else None)


def _get(server: http.client.HTTPConnection, path: str, headers: dict[str, str]) -> http.client.HTTPResponse:
    server.request("GET", path, headers=headers)
    answer = server.getresponse()
    if answer.status not in OK_STATUSES:
        raise RuntimeError(f"{path} answered {answer.status}")
    return answer


def _read(server: http.client.HTTPConnection, path: str, headers: dict[str, str]) -> bytes:
    return _get(server, path, headers).read()


@contextmanager
def _logging(team: Team) -> Iterator[None]:
    """Log a context every LOGGED_EVERY_SECONDS from another thread."""
    ended = threading.Event()

    def write() -> None:
        try:
            while not ended.wait(LOGGED_EVERY_SECONDS):
                assemble_space(team_id=team.pk, request=AssemblyIn(space=SLUG), actor="benchmarks")
        finally:
            connection.close()

    writing = threading.Thread(target=write)
    writing.start()
    try:
        yield
    finally:
        ended.set()
        writing.join()


def _fetch(client: Client, url: str) -> bytes:
    answer = client.get(url)
    if answer.status_code not in OK_STATUSES:
        raise RuntimeError(f"{url} answered {answer.status_code}")
    return answer.content


def _took_ms(act: Callable[[], object]) -> float:
    started = perf_counter()
    act()
    return (perf_counter() - started) * 1_000


def _measure_folding() -> Figure:
    """Fold the whole log as the job does, in steps of FOLD_ROWS."""
    rates = []
    while True:
        started = perf_counter()
        folded = fold(FOLD_ROWS)
        if not folded:
            break
        rates.append(folded / (perf_counter() - started))
    sample = Sample(tuple(rates))
    bar = at_least(BAR_FOLDED, sample.median, f"≥ {BAR_FOLDED:,.0f} a second")
    return Figure("rollups: assemblies folded", "a second", len(rates), sample.median, bar=bar)


def _measure_visibility(team: Team) -> Figure:
    """Write assemblies while worker and schedule run, and wait until each is in the rollups."""
    with serving():
        waits = [_wait_until_folded(team) for _ in range(WRITTEN)]
    sample = Sample(tuple(waits))
    bar = at_most(BAR_VISIBLE_SECONDS, max(waits), f"at most {BAR_VISIBLE_SECONDS:g} s")
    what = "rollups: from the commit until folded; pages show it at once"
    return Figure.of(what, sample, unit="s", bar=bar)


def _wait_until_folded(team: Team) -> float:
    request = AssemblyIn(space=SLUG)
    written = assemble_space(team_id=team.pk, request=request, actor="benchmarks").id
    assert written is not None
    started = perf_counter()
    while UnfoldedAssembly.objects.filter(pk=written).exists():
        if perf_counter() - started > PATIENCE_SECONDS:
            raise RuntimeError("nothing is folded: is the worker running?")
        time.sleep(0.05)
    took = perf_counter() - started
    if not Assembly.objects.filter(pk=written).exists():
        raise RuntimeError("an assembly is gone")
    return took
