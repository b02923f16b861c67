"""The gateway over real HTTP: changed bytes, the time added, and memory."""

import contextlib
import os
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import psutil
from django.conf import settings
from django.core.management.base import OutputWrapper

from benchmarks.corpus import generate_varied
from benchmarks.figures import Figure, Sample, Section, at_least, at_most
from benchmarks.service.prompts import PromptOutcome, PromptPlan
from benchmarks.service.server import ServerError, free_port, run_plan, start, stop, wait_for
from benchmarks.spaces import build_indexes, describe_space, fill, say, settle
from contextopt.gateway.models import GatewayPolicy, GatewayRequest
from contextopt.management.upkeep import make_searchable
from contextopt.people.models import ApiKey, Scope, Team
from contextopt.search import registry
from contextopt.spaces.models import Record, Space
from contextopt.spaces.spaces import create_space, delete_space
from dashboard.management.commands.up import gateway_command

SLUG = "behind-the-gateway"
OPEN_STREAMS = 50
STARTS_PER_SECOND = 20.0
MANY_STREAMS = 200
BAR_AUDIT_MS = 15.0
BAR_INSERT_MS = 40.0
BAR_INSERTED = 0.99
BAR_GROWTH_MB = 30.0
WARM_REQUESTS = 500
# The warm-up is a fifth of the requests: processes take more memory for their first prompts, and the second
# decider does so later.
WARM_SHARE = 5
QUESTION_WORDS = 6
LOG_SECONDS = 900.0
LOG_PAUSE_SECONDS = 2.0
SEED = 31
_CONDITIONS = (
    "Upstream, clients and their clock are one process; the gateway is another, started as by `up`. The "
    "time added to the first byte is the client's wait minus the upstream's, so it includes both ways "
    "over loopback. Varied requests are of all three protocols, with odd text, number spellings and chunk "
    "borders; request and answer are compared byte by byte. A fifth as many pass before them, so that the "
    "memory taken by the first prompts does not count. Streams write a chunk every 100 ms. Each is a "
    "separate conversation with one earlier turn."
)


@dataclass(frozen=True, slots=True)
class Gateway:
    """The running process, its port and the upstream's, and the space, key and questions of the prompts."""

    port: int
    upstream_port: int
    process: psutil.Process
    space: Space
    key: str
    questions: list[str]

    def memory_mb(self) -> float:
        """Return the memory of all its processes. Pages shared by forking count once."""
        processes = [self.process, *self.process.children(recursive=True)]
        return float(sum(each.memory_full_info().pss for each in processes)) / 2**20

    def logged(self) -> int:
        """Wait until the log is complete; return how many requests are in it."""
        ends, number = time.monotonic() + LOG_SECONDS, -1
        while number < (number := GatewayRequest.objects.filter(space=self.space).count()):
            if time.monotonic() > ends:
                raise ServerError(f"the log was not complete within {LOG_SECONDS:g} s")
            time.sleep(LOG_PAUSE_SECONDS)
        return number


@contextlib.contextmanager
def _serving(space: Space, key: str, questions: list[str]) -> Iterator[Gateway]:
    """Run the gateway, and stop it afterwards."""
    port, upstream_port = free_port(), free_port()
    base = f"http://127.0.0.1:{upstream_port}"
    command = [str(port) if part == str(settings.GATEWAY_PORT) else part for part in gateway_command()]
    environment = {"LLM_BASE_URL": f"{base}/v1", "ANTHROPIC_BASE_URL": base}
    with tempfile.TemporaryDirectory() as folder:
        running = start(command, Path(folder) / "gateway.log", environment)
        try:
            wait_for(port, running)
            yield Gateway(port, upstream_port, psutil.Process(running.pid), space, key, questions)
        finally:
            stop([running])


def measure_gateway(team: Team, *, records: int, requests: int, seconds: float) -> Section:
    space, questions = _space(team, records)
    _, secret = ApiKey.objects.create_with_secret(
        team=team, name="gateway", scope=Scope.WRITE, space_ids=[space.pk]
    )
    try:
        with _serving(space, secret, questions) as gateway:
            figures = [
                *_varied(gateway, requests),
                *_streams(gateway, seconds),
                *_many(gateway),
            ]
        GatewayPolicy.objects.create(space=space, mode="insert")
        with _serving(space, secret, questions) as gateway:
            figures += _inserts(gateway, seconds)
            logged = gateway.logged()
    finally:
        ApiKey.objects.filter(team=team, name="gateway").delete()
        delete_space(space=Space.objects.get(pk=space.pk))
    notes = (_CONDITIONS, f"The space has {records:,} records. {logged:,} requests were logged.")
    return Section("Gateway", tuple(figures), notes)


def _space(team: Team, records: int) -> tuple[Space, list[str]]:
    space = create_space(team=team, data=describe_space(SLUG), actor="benchmarks")
    fill(space, generate_varied(records, seed=SEED, until=datetime.now(UTC)))
    with Path(os.devnull).open("w") as sink:
        make_searchable(OutputWrapper(sink), registry.get("record"), space.pk)
    build_indexes()
    settle()
    rng = random.Random(SEED)
    notes = Record.objects.filter(space=space, deleted_at=None).values_list("notes", flat=True)[:200]
    return space, [" ".join(rng.sample(text.split(), QUESTION_WORDS)) for text in notes]


def _varied(gateway: Gateway, requests: int) -> list[Figure]:
    cold = gateway.memory_mb()
    say(f"{requests:,} varied requests")
    _run(_plan(gateway, "varied", max(WARM_REQUESTS, requests // WARM_SHARE)))
    before, memory = gateway.logged(), gateway.memory_mb()
    outcome = _run(_plan(gateway, "varied", requests))
    logged = gateway.logged() - before
    growth = gateway.memory_mb() - memory
    changed = outcome.changed_bytes
    bar = at_most(0, changed, "0 changed")
    flat = at_most(BAR_GROWTH_MB, growth, f"≤ {BAR_GROWTH_MB:g} MB")
    return [
        Figure("audit, varied requests: changed in either direction", "requests", requests, changed, bar=bar),
        Figure(
            "audit, varied requests: in the log",
            "requests",
            requests,
            logged,
            bar=at_least(requests, logged, "all"),
        ),
        Figure("audit, varied requests: memory after them", "MB more", requests, growth, bar=flat),
        Figure("audit, varied requests: memory of the gateway", "MB", requests, gateway.memory_mb()),
        Figure("memory of the gateway before the first prompt", "MB", 1, cold),
    ]


def _streams(gateway: Gateway, seconds: float) -> list[Figure]:
    say(f"{OPEN_STREAMS} streams, directly and audited")
    gateway.logged()
    plan = _paced(gateway, seconds)
    direct = _run(replace(plan, port=gateway.upstream_port))
    outcome = _run(plan)
    sample = Sample(tuple(outcome.added_ms))
    bar = at_most(BAR_AUDIT_MS, sample.p95, f"p95 ≤ {BAR_AUDIT_MS:g} ms")
    return [
        Figure.of("the same streams without a gateway: loopback alone", Sample(tuple(direct.added_ms))),
        Figure.of(f"audit, {_load(outcome)}: time added to the first byte", sample, bar=bar),
    ]


def _inserts(gateway: Gateway, seconds: float) -> list[Figure]:
    say(f"{OPEN_STREAMS} streams, insert")
    _run(_plan(gateway, "varied", 50))
    outcome = _run(_paced(gateway, seconds))
    sample = Sample(tuple(outcome.added_ms))
    share = outcome.statuses.get("inserted", 0) / len(sample.values)
    bar = at_most(BAR_INSERT_MS, sample.p95, f"p95 ≤ {BAR_INSERT_MS:g} ms")
    enough = at_least(BAR_INSERTED, share, f"≥ {BAR_INSERTED:.0%}")
    others = {name: number for name, number in outcome.statuses.items() if name != "inserted"}
    what = "insert: prompts with their context" + (f" (others: {others})" if others else "")
    return [
        Figure.of(f"insert, {_load(outcome)}: time added to the first byte", sample, bar=bar),
        Figure(what, "share", len(sample.values), share, bar=enough),
    ]


def _many(gateway: Gateway) -> list[Figure]:
    say(f"{MANY_STREAMS} streams at once")
    plan = _plan(gateway, "streams", MANY_STREAMS, per_second=STARTS_PER_SECOND * 2, stream_seconds=8.0)
    outcome = _run(plan)
    complete = len(outcome.added_ms) - outcome.changed_bytes
    bar = at_least(MANY_STREAMS, complete, "all")
    what = f"audit, {outcome.most_open} streams open at once: complete and unchanged"
    return [Figure(what, "streams", MANY_STREAMS, complete, bar=bar)]


def _paced(gateway: Gateway, seconds: float) -> PromptPlan:
    return _plan(
        gateway, "streams", round(STARTS_PER_SECOND * seconds),
        per_second=STARTS_PER_SECOND, stream_seconds=OPEN_STREAMS / STARTS_PER_SECOND,
    )  # fmt: skip


def _load(outcome: PromptOutcome) -> str:
    return f"{STARTS_PER_SECOND:g} starts a second, up to {outcome.most_open} streams open"


def _plan(
    gateway: Gateway,
    mode: str,
    requests: int,
    *,
    per_second: float = 0.0,
    stream_seconds: float = 0.0,
) -> PromptPlan:
    return PromptPlan(
        mode=mode, port=gateway.port, upstream_port=gateway.upstream_port, key=gateway.key,
        questions=gateway.questions,
        requests=requests, per_second=per_second, stream_seconds=stream_seconds,
    )  # fmt: skip


def _run(plan: PromptPlan) -> PromptOutcome:
    outcome = PromptOutcome(**run_plan("benchmarks.service.prompts", asdict(plan), timeout_seconds=1_200))
    if outcome.failures:
        raise ServerError(f"{len(outcome.failures)} requests failed: {'; '.join(outcome.failures[:5])}")
    return outcome
