"""The gateway over real HTTP: changed bytes, the time added, memory, and prompts that are hard for it."""

from dataclasses import replace
from datetime import UTC, datetime

from benchmarks.corpus import generate_varied
from benchmarks.figures import Figure, Sample, Section, at_least, at_most
from benchmarks.service.gatewayprocess import (
    SEED,
    Gateway,
    make_plan,
    one_busy_core,
    prompted_space,
    run_prompts,
    serving_gateway,
)
from benchmarks.service.hardprompts import (
    BIG_RECORDS,
    measure_big_records,
    measure_long_conversations,
    measure_starts,
)
from benchmarks.service.prompts import PromptOutcome, PromptPlan
from benchmarks.spaces import say
from contextopt.gateway.models import GatewayPolicy
from contextopt.people.models import Team

SLUG = "behind-the-gateway"
OPEN_STREAMS = 50
STARTS_PER_SECOND = 20.0
MANY_STREAMS = 200
BESIDE = ", beside one busy core"
BAR_AUDIT_MS = 15.0
BAR_INSERT_MS = 40.0
BAR_INSERTED = 0.99
BAR_GROWTH_MB = 30.0
WARM_REQUESTS = 500
# The warm-up is a fifth of the requests: processes take more memory for their first prompts, and the second
# decider does so later.
WARM_SHARE = 5
_CONDITIONS = (
    "Upstream, clients and their clock are one process; the gateway is another, started as by `up`. The "
    "time added to the first byte is the client's wait minus the upstream's, so it includes both ways "
    "over loopback. Varied requests are of all three protocols, with odd text, number spellings and chunk "
    "borders; request and answer are compared byte by byte. A fifth as many pass before them, so that the "
    "memory taken by the first prompts does not count. Streams write a chunk every 100 ms. Each is a "
    "separate conversation with one earlier turn."
)


def measure_gateway(team: Team, *, records: int, requests: int, seconds: float) -> Section:
    generated = generate_varied(records, seed=SEED, until=datetime.now(UTC))
    with prompted_space(team, SLUG, generated) as prompted:
        with serving_gateway(prompted) as gateway:
            figures = [
                *_varied(gateway, requests),
                *_streams(gateway, seconds),
                *_many(gateway),
            ]
            with one_busy_core():
                figures += _streams(gateway, seconds, BESIDE)
        GatewayPolicy.objects.create(space=prompted.space, mode="insert")
        with serving_gateway(prompted) as gateway:
            figures += _inserts(gateway, seconds)
            with one_busy_core():
                figures += _inserts(gateway, seconds, BESIDE)
            logged = gateway.logged()
        figures += measure_long_conversations(prompted)
        figures += measure_starts(prompted)
    figures += measure_big_records(team, min(records, BIG_RECORDS))
    notes = (_CONDITIONS, f"The space has {records:,} records. {logged:,} requests were logged.")
    return Section("Gateway", tuple(figures), notes)


def _varied(gateway: Gateway, requests: int) -> list[Figure]:
    cold = gateway.memory_mb()
    say(f"{requests:,} varied requests")
    run_prompts(make_plan(gateway, "varied", max(WARM_REQUESTS, requests // WARM_SHARE)))
    before, memory = gateway.logged(), gateway.memory_mb()
    outcome = run_prompts(make_plan(gateway, "varied", requests))
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


def _streams(gateway: Gateway, seconds: float, beside: str = "") -> list[Figure]:
    say(f"{OPEN_STREAMS} streams, directly and audited")
    gateway.logged()
    plan = _paced(gateway, seconds)
    direct = run_prompts(replace(plan, port=gateway.upstream_port))
    outcome = run_prompts(plan)
    sample = Sample(tuple(outcome.added_ms))
    bar = at_most(BAR_AUDIT_MS, sample.p95, f"p95 ≤ {BAR_AUDIT_MS:g} ms")
    return [
        Figure.of(
            f"the same streams without a gateway{beside}: loopback alone", Sample(tuple(direct.added_ms))
        ),
        Figure.of(f"audit, {_load(outcome)}{beside}: time added to the first byte", sample, bar=bar),
    ]


def _inserts(gateway: Gateway, seconds: float, beside: str = "") -> list[Figure]:
    say(f"{OPEN_STREAMS} streams, insert")
    run_prompts(make_plan(gateway, "varied", 50))
    outcome = run_prompts(_paced(gateway, seconds))
    sample = Sample(tuple(outcome.added_ms))
    share = outcome.statuses.get("inserted", 0) / len(sample.values)
    bar = at_most(BAR_INSERT_MS, sample.p95, f"p95 ≤ {BAR_INSERT_MS:g} ms")
    enough = at_least(BAR_INSERTED, share, f"≥ {BAR_INSERTED:.0%}")
    others = {name: number for name, number in outcome.statuses.items() if name != "inserted"}
    what = f"insert{beside}: prompts with their context" + (f" (others: {others})" if others else "")
    return [
        Figure.of(f"insert, {_load(outcome)}{beside}: time added to the first byte", sample, bar=bar),
        Figure(what, "share", len(sample.values), share, bar=enough),
    ]


def _many(gateway: Gateway) -> list[Figure]:
    say(f"{MANY_STREAMS} streams at once")
    plan = make_plan(gateway, "streams", MANY_STREAMS, per_second=STARTS_PER_SECOND * 2, stream_seconds=8.0)
    outcome = run_prompts(plan)
    complete = len(outcome.added_ms) - outcome.changed_bytes
    bar = at_least(MANY_STREAMS, complete, "all")
    what = f"audit, {outcome.most_open} streams open at once: complete and unchanged"
    return [Figure(what, "streams", MANY_STREAMS, complete, bar=bar)]


def _paced(gateway: Gateway, seconds: float) -> PromptPlan:
    return make_plan(
        gateway, "streams", round(STARTS_PER_SECOND * seconds),
        per_second=STARTS_PER_SECOND, stream_seconds=OPEN_STREAMS / STARTS_PER_SECOND,
    )  # fmt: skip


def _load(outcome: PromptOutcome) -> str:
    return f"{STARTS_PER_SECOND:g} starts a second, up to {outcome.most_open} streams open"
