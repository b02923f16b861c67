"""The engine's decisions on fixed inputs, stored as golden.json.

If they change, raise ENGINE_VERSION and record them again with `UPDATE_GOLDEN=1`. If those without a question
change, raise PLAIN_ENGINE_VERSION to it. Logged assemblies name the version of the engine, and one of an
older version cannot be computed again.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from contextopt.engine.assembly import assemble
from contextopt.engine.details import Query, RecordDetail
from contextopt.engine.queryanalysis import Mentions, add_mentions
from contextopt.engine.ranking import Match, rate_neighbours, relevances
from contextopt.engine.rendering import summary_line
from contextopt.engine.settings import STAGES, ContextConfig
from contextopt.engine.text.lexical import terms
from contextopt.engine.values import ENGINE_VERSION, PLAIN_ENGINE_VERSION, Assembled, RecordSummary
from tests.contextopt.engine.factories import NOW, TOKENIZER, make_space

GOLDEN = Path(__file__).with_name("golden.json")
QUESTION = "Why did Ada restart the print queue last week?"
SENTENCES = (
    "The print queue is stuck after every deploy.",
    "Workers hold the old lock for 15 minutes.",
    "Ada restarted the queue by hand on Monday.",
    "Køen sto stille i to timer, og ingen så det. 👩‍🔧",
    "The invoice for March rounds half a cent up.",
    "Version 2.31.0 does not hold the lock any more.",
    "Nobody has looked at the cookie since.",
)


def text_of(number: int) -> str:
    """Return up to forty sentences, in record 27 as one. Records 30 and 31 nearly repeat record 5."""
    if number >= 30:
        return f"{text_of(5)} Truly."
    count = (0, 1, 2, 3, 5, 8, 40)[number % 7]
    end = "," if number == 27 else "."
    return " ".join(f"{SENTENCES[(number + at) % 7][:-1]}, note {number}-{at}{end}" for at in range(count))


def detail_of(number: int) -> RecordDetail:
    title = "Ada" if number % 9 == 0 else f"Entry {number}: {SENTENCES[number % 7][:24]}"
    if number >= 30:
        title = detail_of(5).title
    kind = "message" if number % 9 == 0 else ("note", "incident", "commit")[number % 3]
    return RecordDetail(title, kind, ("#ops", "print queue", "")[: number % 4], text_of(number))


def record(number: int) -> RecordSummary:
    detail = detail_of(number)
    date = NOW - timedelta(hours=number * 29 % 700, microseconds=number)
    line = summary_line(detail.title, detail.type, date, detail.tags, detail.notes)
    return RecordSummary(
        id=number, date=date, view_count=number * 5 % 13, line=line, tokens=TOKENIZER.count(line),
        pinned=number == 17,
    )  # fmt: skip


RECORDS = tuple(map(record, range(1, 32)))


def query(config: ContextConfig) -> Query:
    """Return the question with its relevance, computed by the engine from search results."""
    matches = {
        one.id: Match(one.id * 7 % 11 * 0.5, None if one.id % 6 == 0 else one.id * 37 % 100 / 100)
        for one in RECORDS
    }
    threads = [[one.id for one in RECORDS if one.id % 4 == rest] for rest in range(2)]
    sizes = {one.id: one.tokens + len(text_of(one.id)) // 4 for one in RECORDS}
    relevant = rate_neighbours(relevances(matches), threads, config, sizes)
    people = {one.id: ("Ada",) for one in RECORDS if one.id % 9 == 0}
    dates = {one.id: one.date for one in RECORDS}
    relevant = add_mentions(relevant, Mentions.of(QUESTION, NOW, UTC), dates, people)
    details = {one.id: detail_of(one.id) for one in RECORDS if one.id != 8}
    return Query(frozenset(terms(QUESTION)), relevant, details)


def in_one_topic(asked: Query) -> Query:
    """Return the question with all records as turns of a topic, further and further apart."""
    relevant = {number: part._replace(topic=5.0) for number, part in asked.relevant.items()}
    details = {
        number: replace(detail, thread="meeting", position=number**2)
        for number, detail in asked.details.items()
    }
    return replace(asked, relevant=relevant, details=details)


def cases() -> Iterator[tuple[str, Assembled]]:
    space = replace(
        make_space(*RECORDS),
        description="How we run the printers,\nand what broke.",
        categories=("print", "ops"),
    )
    changes: dict[str, dict[str, Any]] = {
        "default": {},
        "small": {"context_tokens": 150, "stage3_context_tokens": 90},
        "tiny": {"context_tokens": 12},
        "stable, a month, views": {
            "record_order": "stable", "window_days": 30, "question_window_days": 9,
            "frequency_weight": Decimal("2.125"), "max_records": 40,
        },
        "whole notes": {"question_record_tokens": None, "context_tokens": 1_200},
        "adaptive": {"budget_mode": "adaptive"},
        "short notes": {"question_notes_chars": 40, "question_max_records": 7, "context_tokens": 700},
    }  # fmt: skip
    for stage in STAGES:
        for name, change in changes.items():
            if stage < 4 and name not in {"default", "small", "tiny"}:
                continue
            config = ContextConfig(stage=stage, **change)
            asked = query(config) if stage == 5 else None
            yield f"stage {stage}, {name}", assemble(space, config, NOW, TOKENIZER, query=asked)
    config = ContextConfig(stage=5, budget_mode="adaptive")
    asked = in_one_topic(query(config))
    yield "stage 5, adaptive, a topic", assemble(space, config, NOW, TOKENIZER, query=asked)


def described(assembled: Assembled) -> dict[str, Any]:
    stats = assembled.stats
    everything = (
        [tuple(entry) for entry in assembled.ledger],
        (stats.records_filtered, stats.dropped_by_reason, stats.stage3_tokens, stats.truncated),
        assembled.baseline_text,
    )
    return {
        "text": assembled.text.splitlines(),
        "tokens": assembled.certificate.tokens,
        "ledger, counts and baseline": hashlib.sha256(repr(everything).encode()).hexdigest(),
    }


def test_decisions_change_only_with_the_version_of_the_engine() -> None:
    contexts = {name: described(assembled) for name, assembled in cases()}
    stored = json.loads(GOLDEN.read_text())
    if PLAIN_ENGINE_VERSION < ENGINE_VERSION:
        rule = "raise PLAIN_ENGINE_VERSION and ENGINE_VERSION, then record with UPDATE_GOLDEN=1"
        assert plain(stored["contexts"]) == plain(contexts), rule
    if os.environ.get("UPDATE_GOLDEN") and stored["version"] < ENGINE_VERSION:
        stored = {"version": ENGINE_VERSION, "contexts": contexts}
        GOLDEN.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
    assert stored["contexts"] == contexts, "raise ENGINE_VERSION, then record with UPDATE_GOLDEN=1"
    assert stored["version"] == ENGINE_VERSION, "record the golden contexts with UPDATE_GOLDEN=1"


def plain(contexts: dict[str, Any]) -> dict[str, Any]:
    """Return the contexts without a question."""
    return {name: context for name, context in contexts.items() if not name.startswith("stage 5")}
