"""Prompts that are hard for the gateway: many that start together, long conversations, big records."""

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from benchmarks.corpus import Generated, generate_varied
from benchmarks.figures import Figure, Sample, at_least, at_most
from benchmarks.service.gatewayprocess import (
    SEED,
    Gateway,
    Prompted,
    make_plan,
    prompted_space,
    run_prompts,
    serving_gateway,
)
from benchmarks.service.prompts import SYLLABLES, PromptOutcome, PromptPlan
from benchmarks.spaces import say
from contextopt.gateway.models import TIME_LIMIT_MAX_MS, GatewayPolicy
from contextopt.people.models import Team

STARTS = 50
BAR_STARTS = 45
LONG_CHARACTERS = 800_000
RESTARTS = 5
BIG_RECORDS = 3_000
BIG_CHARACTERS = 27_000
BIG_PROMPTS = 40
BIG_BAR_MS = 150.0
# The pace of prompts that do not overlap.
APART_PER_SECOND = 2.0
WORDS = [one + other for one in SYLLABLES for other in SYLLABLES]
SAID_BY_ALL = ("queue", "deploy", "worker", "lock")


def measure_starts(prompted: Prompted) -> list[Figure]:
    """Let prompts start together, at the longest time limit."""
    say(f"{STARTS} prompts that start together")
    _limit(prompted, TIME_LIMIT_MAX_MS)
    with serving_gateway(prompted) as gateway:
        run_prompts(make_plan(gateway, "varied", STARTS))
        outcome = _together(gateway)
    inserted = outcome.statuses.get("inserted", 0)
    what = f"insert, {STARTS} prompts start together, limit {TIME_LIMIT_MAX_MS:,} ms"
    return [
        Figure(
            f"{what}: with their context{_others(outcome)}", "prompts", STARTS, inserted,
            bar=at_least(BAR_STARTS, inserted, f"≥ {BAR_STARTS}"),
        ),
        Figure.of(f"{what}: time added to the first byte", Sample(tuple(outcome.added_ms))),
    ]  # fmt: skip


def measure_long_conversations(prompted: Prompted) -> list[Figure]:
    """Start the gateway anew for each of several long conversations, at the usual time limit."""
    say(f"conversations of {LONG_CHARACTERS:,} characters after a restart")
    inserted, added = 0, []
    for restart in range(RESTARTS):
        asked = replace(prompted, questions=prompted.questions[restart:])
        with serving_gateway(asked) as gateway:
            plan = make_plan(
                gateway, "streams", 1,
                per_second=APART_PER_SECOND, stream_seconds=0.1, earlier_characters=LONG_CHARACTERS,
            )  # fmt: skip
            outcome = run_prompts(plan)
        inserted += outcome.statuses.get("inserted", 0)
        added += outcome.added_ms
    what = f"insert, {LONG_CHARACTERS // 1_000} kB of conversation, first request after a restart"
    return [
        Figure(
            f"{what}: with its context", "prompts", RESTARTS, inserted,
            bar=at_least(RESTARTS, inserted, "all"),
        ),
        Figure.of(f"{what}: time added to the first byte", Sample(tuple(added))),
    ]  # fmt: skip


def measure_big_records(team: Team, records: int) -> list[Figure]:
    """Ask a space in which every record is long and matches every question."""
    say(f"{records:,} records of {BIG_CHARACTERS // 1_000} kB")
    with prompted_space(team, "big-records", _big_records(records)) as prompted:
        asked = replace(prompted, questions=[_big_question(number) for number in range(BIG_PROMPTS)])
        GatewayPolicy.objects.create(space=prompted.space, mode="insert", time_limit_ms=TIME_LIMIT_MAX_MS)
        with serving_gateway(asked) as gateway:
            run_prompts(_apart(gateway, 3))
            outcome = run_prompts(_apart(gateway, BIG_PROMPTS))
    sample = Sample(tuple(outcome.added_ms))
    bar = at_most(BIG_BAR_MS, sample.p95, f"p95 ≤ {BIG_BAR_MS:g} ms")
    what = f"insert, {records:,} matching records of {BIG_CHARACTERS // 1_000} kB{_others(outcome)}"
    return [Figure.of(f"{what}: time added to the first byte", sample, bar=bar)]


def _together(gateway: Gateway) -> PromptOutcome:
    plan = make_plan(gateway, "streams", STARTS, per_second=float("inf"), stream_seconds=0.1)
    return run_prompts(plan)


def _apart(gateway: Gateway, prompts: int) -> PromptPlan:
    return make_plan(gateway, "streams", prompts, per_second=APART_PER_SECOND, stream_seconds=0.1)


def _limit(prompted: Prompted, time_limit_ms: int) -> None:
    GatewayPolicy.objects.filter(space=prompted.space).update(time_limit_ms=time_limit_ms)


def _others(outcome: PromptOutcome) -> str:
    others = {name: number for name, number in outcome.statuses.items() if name != "inserted"}
    return f" (others: {others})" if others else ""


def _big_records(records: int) -> Iterator[Generated]:
    rng = random.Random(SEED)
    for record in generate_varied(records, seed=SEED, until=datetime.now(UTC)):
        said = " ".join(rng.choices(WORDS, k=BIG_CHARACTERS // 5))
        notes = f"The {' '.join(SAID_BY_ALL)} again. {said}"[:BIG_CHARACTERS]
        yield replace(record, notes=notes)


def _big_question(number: int) -> str:
    rng = random.Random(number)
    one, other = rng.sample(SAID_BY_ALL, 2)
    return f"Why does the {one} stop when the {other} waits for {rng.choice(WORDS)}?"
