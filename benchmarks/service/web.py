"""The API over real HTTP from another process, with the durable log: its speed and how evenly it responds."""

import http.client
import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from itertools import batched

from benchmarks.corpus import generate
from benchmarks.figures import Figure, Sample, Section, at_least, at_most
from benchmarks.service.contenders import BUDGET_TOKENS
from benchmarks.service.load import Outcome, Plan
from benchmarks.service.recount import Recount
from benchmarks.service.server import HOST, ServerError, run_plan, serving
from benchmarks.spaces import Filled, describe_space
from contextopt.people.models import ApiKey, Scope, Team
from contextopt.search.models import EmbeddingFill, EmbeddingTodo
from contextopt.search.vectors.fill import choose_models
from contextopt.spaces.models import Record, Space
from contextopt.spaces.spaces import create_space, delete_space

CLOSED_CLIENTS = 8
BAR_PER_SECOND = 200.0
BAR_CLOSED_P95_MS = 45.0
PACED_PER_SECOND = 100.0
BAR_PACED_P95_MS = 25.0
# Enough that a request seldom waits for a connection. Such a wait counts as latency.
PACED_CONNECTIONS = 32
WARM_UP_SECONDS = 4.0
BULK_ROWS = 1_000
BULK_SPACE = "written-in-bulk"


def measure_web(filled: Filled, *, seconds: float, bulk_calls: int, recount: Recount) -> Section:
    key, secret = ApiKey.objects.create_with_secret(
        team=filled.space.team, name="benchmarks", scope=Scope.ADMIN, created_by="benchmarks"
    )
    _leave_no_backlog()
    try:
        with serving() as server:
            port = server.port
            _run_load(_plan(filled, port, secret, "closed", WARM_UP_SECONDS), recount)
            before = server.cpu_seconds()
            closed = _run_load(_plan(filled, port, secret, "closed", seconds), recount)
            spent = _cpu_note(before, server.cpu_seconds(), len(closed.took_ms))
            paced = _run_load(_plan(filled, port, secret, "paced", seconds), recount)
            bulk = _measure_bulk(filled.space.team, port, secret, bulk_calls)
    finally:
        key.delete()
    figures = (*_closed_figures(closed), *_paced_figures(paced), *bulk)
    notes = (*_notes(filled, seconds, closed, paced), spent)
    return Section("`POST /api/v1/assemblies` over HTTP", figures, notes)


def _leave_no_backlog() -> None:
    """Mark the generated records as embedded.

    Otherwise the worker would compute a million vectors during the load, which would distort the times.
    """
    models = choose_models()
    newest = Record.objects.order_by("-id").values_list("id", flat=True).first() or 0
    EmbeddingFill.objects.filter(model__in=models, searchable="record").update(
        is_filled=True, filled_to=newest
    )
    EmbeddingTodo.objects.all().delete()


def _plan(filled: Filled, port: int, secret: str, mode: str, seconds: float) -> Plan:
    first, last = min(bounds := filled.moments(200, seed=3)), max(bounds)
    return Plan(
        mode=mode,
        port=port,
        key=secret,
        space=filled.slug,
        first=first.isoformat(),
        last=last.isoformat(),
        seconds=seconds,
        clients=CLOSED_CLIENTS if mode == "closed" else PACED_CONNECTIONS,
        per_second=PACED_PER_SECOND,
        budget=BUDGET_TOKENS,
        seed=int(seconds * 10),
    )


def _run_load(plan: Plan, recount: Recount) -> Outcome:
    timeout_seconds = plan.seconds * 4 + 120
    outcome = Outcome(**run_plan("benchmarks.service.load", asdict(plan), timeout_seconds=timeout_seconds))
    recount.add(outcome.checked, outcome.violations, outcome.violation_examples)
    if outcome.failures:
        raise ServerError(f"{outcome.failures} requests failed: {'; '.join(outcome.examples)}")
    return outcome


def _closed_figures(outcome: Outcome) -> list[Figure]:
    sample = Sample(tuple(outcome.took_ms))
    per_second = len(sample.values) / outcome.seconds
    name = f"closed loop, {CLOSED_CLIENTS} clients"
    rate_bar = at_least(BAR_PER_SECOND, per_second, f"≥ {BAR_PER_SECOND:g} a second")
    time_bar = at_most(BAR_CLOSED_P95_MS, sample.p95, f"p95 ≤ {BAR_CLOSED_P95_MS:g} ms")
    return [
        Figure(f"{name}: throughput", "a second", len(sample.values), per_second, bar=rate_bar),
        Figure.of(f"{name}: time of a request", sample, bar=time_bar),
    ]


def _paced_figures(outcome: Outcome) -> list[Figure]:
    sample = Sample(tuple(outcome.took_ms))
    what = f"{PACED_PER_SECOND:g} a second, evenly: time from the intended send"
    bar = at_most(BAR_PACED_P95_MS, sample.p95, f"p95 ≤ {BAR_PACED_P95_MS:g} ms")
    return [Figure.of(what, sample, bar=bar)]


def _measure_bulk(team: Team, port: int, secret: str, calls: int) -> list[Figure]:
    """Time calls that write 1,000 new records."""
    space = create_space(team=team, data=describe_space(BULK_SPACE), actor="benchmarks")
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    times = []
    try:
        for body in _bulk_bodies(calls):
            started = time.perf_counter()
            _write_bulk(connection, secret, body)
            times.append((time.perf_counter() - started) * 1_000)
    finally:
        connection.close()
        delete_space(space=Space.objects.get(pk=space.pk))
    sample = Sample(tuple(times))
    return [
        Figure.of("bulk write of 1,000 new records: time of a request", sample),
        Figure("bulk write: records", "a second", calls, BULK_ROWS * 1_000 / sample.median),
    ]


def _bulk_bodies(calls: int) -> Iterator[bytes]:
    records = generate(calls * BULK_ROWS, seed=5, until=datetime.now().astimezone())
    rows = (record.to_row(str(number)) for number, record in enumerate(records))
    for batch in batched(rows, BULK_ROWS):
        yield json.dumps({"records": batch}).encode()


def _write_bulk(connection: http.client.HTTPConnection, secret: str, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    connection.request("POST", f"/api/v1/spaces/{BULK_SPACE}/records/bulk", body, headers)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200 or json.loads(content)["created"] != BULK_ROWS:
        raise ServerError(f"bulk write: {answer.status} {content[:300]!r}")


def _cpu_note(before: dict[str, float], after: dict[str, float], requests: int) -> str:
    """Describe the processor time per request, which bounds the throughput on two cores."""
    shares = ", ".join(
        f"{name} {(after[name] - before.get(name, 0.0)) * 1_000 / requests:.2f} ms" for name in after
    )
    return f"Processor time per request in the closed loop: {shares}, plus the load process."


def _notes(filled: Filled, seconds: float, closed: Outcome, paced: Outcome) -> list[str]:
    slowest = [max(outcome.took_ms) for outcome in (closed, paced)]
    conditions = (
        "Web (2 processes), worker and schedule run as under `manage.py up`; the load comes from another "
        f"process on this machine and shares its cores. {seconds:g} s each, on the space of "
        f"{filled.records:,} records, with a different `as_of` per request, over keep-alive connections."
    )
    slowest_note = (
        "The load process counted every text again after its clock had stopped. Slowest request: "
        f"{slowest[0]:.0f} ms in the closed loop, {slowest[1]:.0f} ms evenly paced."
    )
    return [conditions, slowest_note]
