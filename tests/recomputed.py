"""Computes logged assemblies again, from what the engine was given and from the records' versions."""

import json
import random
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal

from contextopt import engine
from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.givens import GivenRecord, Givens, unpack_givens
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.ledgers import pack_entries
from contextopt.assemblies.models import AssemblyPayload
from contextopt.assemblies.questions import NOTES_READ
from contextopt.assemblies.results import AssemblyResult, entry_json
from contextopt.assemblies.verify import read_config
from contextopt.engine import Assembled, Query, RecordDetail, RecordSummary, SpaceContext
from contextopt.engine.prompts.duplicates import numbers_in
from contextopt.engine.prompts.rendering import summary_line
from contextopt.engine.text.lexical import terms
from contextopt.engine.text.tokens import Tokenizer, get_tokenizer
from contextopt.spaces.inputs import RecordIn, RecordPatch, SpacePatch
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import (
    delete_record,
    restore_record,
    restore_revision,
    update_record,
    upsert_records,
)
from contextopt.spaces.recordviews import view_record
from contextopt.spaces.spaces import update_space
from contextopt.spaces.versions import RecordVersion, read_versions
from tests.factories import NOW

type Stage = Literal[2, 3, 4, 5]

STAGES: tuple[Stage, ...] = (2, 3, 4, 5, 5)
WORDS = [
    "queue", "printer", "invoice", "vaccine", "deploy", "login", "cookie", "cluster", "rounding", "holiday",
    "backup", "index", "worker", "lock", "timeout", "budget", "price", "cart", "refund", "password",
    "session", "migration", "rollback", "release", "alarm", "disk", "memory", "cache",
]  # fmt: skip


def givens_of(payload: AssemblyPayload) -> Givens:
    assert payload.givens is not None
    return unpack_givens(bytes(payload.givens))


def recompute(payload: AssemblyPayload) -> Assembled:
    """Return the assembly computed again. The stored text, hash and ledger are not read."""
    assembly = payload.assembly
    assert assembly.space_id is not None
    givens = givens_of(payload)
    tokenizer = get_tokenizer(assembly.encoding)
    found = read_versions(assembly.space_id, ((given.id, given.version) for given in givens.records))
    summaries = [
        (given, _summary(given, found[given.id, given.version], tokenizer)) for given in givens.records
    ]
    candidates = tuple(summary for given, summary in summaries if given.is_candidate)
    return engine.assemble(
        SpaceContext(givens.name, givens.description, givens.categories, candidates),
        read_config(payload.config),
        assembly.as_of,
        tokenizer,
        system_tokens=payload.request.get("system_tokens"),
        history_tokens=payload.request.get("history_tokens"),
        counts=givens.counts,
        baseline=tuple(summary for given, summary in summaries if given.is_baseline),
        query=_query(givens, payload.request, found) if givens.is_asked else None,
        sight=givens.sight,
    )


def _summary(given: GivenRecord, state: RecordVersion, tokenizer: Tokenizer) -> RecordSummary:
    line = summary_line(state.title, state.type, state.date, state.tags, state.notes)
    return RecordSummary(
        id=given.id, date=state.date, view_count=given.views, line=line, tokens=tokenizer.count(line),
        pinned=state.pinned, source=state.source, external_id=state.external_id, version=given.version,
    )  # fmt: skip


def _query(givens: Givens, request: dict[str, Any], found: dict[tuple[int, int], RecordVersion]) -> Query:
    details = {}
    for given in givens.records:
        if given.has_detail:
            state = found[given.id, given.version]
            notes = state.notes[:NOTES_READ]
            details[given.id] = RecordDetail(state.title, state.type, tuple(state.tags), notes)
    relevant = {given.id: given.relevance for given in givens.records if given.is_candidate}
    asked = request["query"].strip()
    return Query(frozenset(terms(asked)), relevant, details, givens.is_relevant, numbers_in(asked))


def differences(payload: AssemblyPayload, text: str | None = None) -> Iterator[str]:
    """Yield the names of everything that differs when the assembly is computed again.

    `text` is compared instead of the stored one, which may have been blanked since.
    """
    again, stored = recompute(payload), payload.assembly
    ledger = json.loads(json.dumps(pack_entries(map(entry_json, again.ledger))))
    pairs = {
        "text": (again.text, payload.text if text is None else text),
        "sha256": (again.certificate.sha256, stored.sha256),
        "tokens": (again.certificate.tokens, stored.tokens_after),
        "ledger": (ledger, payload.ledger["candidates"]),
        "counts": (dict(again.stats.dropped_by_reason), payload.ledger["counts"]),
        "order": (list(again.order), payload.ledger["order"]),
        "filtered": (again.stats.records_filtered, stored.records_filtered),
        "outside_window": (again.stats.outside_window, stored.outside_window),
        "deleted": (again.stats.deleted, stored.deleted),
        "baseline": (list(again.baseline_order), payload.ledger["baseline_order"]),
        "tokens_before": (again.stats.stage3_tokens, stored.tokens_before),
        "truncated": (again.stats.truncated, stored.truncated),
    }
    yield from (name for name, (one, other) in pairs.items() if one != other)


class Restless:
    """Changes a space at random, as people, agents and imports do, and assembles contexts of it."""

    def __init__(self, space: Space, rng: random.Random) -> None:
        self.space, self.rng = space, rng
        self.imported = 0

    def text(self, most: int) -> str:
        return " ".join(self.rng.choices(WORDS, k=self.rng.randint(1, most)))

    def row(self, key: int) -> RecordIn:
        rng = self.rng
        kind = rng.choice(["note", "message", "commit", "incident"])
        return RecordIn(
            title=rng.choice(["Ada", "Ben", "Kim"]) if kind == "message" else self.text(6),
            type=kind,
            date=NOW - timedelta(days=rng.choice([0, 1, 5, 20, 60]) + rng.random() * 20),
            tags=rng.sample(WORDS, rng.randint(0, 3)),
            notes=". ".join(self.text(30) for _ in range(rng.choice([0, 1, 3, 12]))),
            pinned=rng.random() < 0.03,
            thread=rng.choice(["", "monday", "tuesday"]),
            position=key,
            source="import",
            external_id=str(key),
            metadata=rng.choice([{}, {"author": "ada"}]),
        )

    def fill(self, count: int) -> None:
        """Import new records."""
        rows = [self.row(self.imported + number) for number in range(count)]
        self.imported += count
        upsert_records(space=self.space, rows=rows, actor="test")

    def change(self) -> None:
        """Make one change, in one of the ways that there are."""
        ways = (
            self._edit, self._edit, self._redate, self._view, self._view, self._delete, self._restore,
            self._undo, self._overwrite, self._add, self._repeat, self._rename_space,
        )  # fmt: skip
        self.rng.choice(ways)()

    def assemble(self, stage: Stage) -> AssemblyResult:
        rng = self.rng
        settings: dict[str, Any] = {
            "window_days": rng.choice([1, 14, 30, "all"]),
            "max_records": rng.choice([1, 5, 20, "all"]),
            "context_tokens": rng.choice([0, 60, 300, 2_000, 8_000]),
            "record_order": rng.choice(["score", "stable"]),
            "frequency_weight": Decimal(rng.choice(["0", "0.3", "2.125"])),
            "system_tokens": rng.choice([None, 0, 400]),
        }
        if stage == 5:
            day = rng.choice(["", "", " last week", " on 1 June 2026"])
            settings["query"] = f"{rng.choice(['', 'Ada '])}{self.text(5)}{day}"
            settings["record_tokens"] = rng.choice(["all", 64, 120])
        request = AssemblyIn(
            space=self.space.slug, stage=stage, as_of=NOW - timedelta(days=rng.choice([0, 0, 10])), **settings
        )
        return assemble_space(team_id=self.space.team_id, request=request, actor="test")

    def _some(self, **filters: Any) -> Record | None:
        ids = self.space.records.filter(purged_at=None, **filters).values_list("pk", flat=True)
        return Record.objects.select_related("space__team").get(pk=self.rng.choice(ids)) if ids else None

    def _edit(self) -> None:
        if record := self._some():
            changes = RecordPatch(title=self.text(6), notes=self.text(60), tags=self.rng.sample(WORDS, 2))
            update_record(record=record, changes=changes, actor="test")

    def _redate(self) -> None:
        if record := self._some():
            changes = RecordPatch(date=NOW - timedelta(days=self.rng.random() * 40), pinned=False)
            update_record(record=record, changes=changes, actor="test")

    def _view(self) -> None:
        if record := self._some():
            view_record(record=record, viewer=f"user:{self.rng.randint(1, 9)}")

    def _delete(self) -> None:
        if record := self._some(deleted_at=None):
            delete_record(record=record, actor="test")

    def _restore(self) -> None:
        if record := self._some(deleted_at__isnull=False):
            restore_record(record=record, actor="test")

    def _undo(self) -> None:
        if record := self._some(version__gt=1):
            number = self.rng.randint(1, record.version - 1)
            restore_revision(record=record, number=number, actor="test")

    def _overwrite(self) -> None:
        """Import some records again, with other content."""
        keys = self.rng.sample(range(self.imported), 3)
        upsert_records(space=self.space, rows=[self.row(key) for key in keys], actor="test")

    def _add(self) -> None:
        self.fill(self.rng.randint(1, 4))

    def _repeat(self) -> None:
        """Add a near-duplicate."""
        if record := self._some(deleted_at=None):
            data = RecordIn(title=record.title, notes=f"{record.notes} Again.", date=record.date)
            upsert_records(space=self.space, rows=[data], actor="test")

    def _rename_space(self) -> None:
        categories = self.rng.sample(WORDS, 2)
        changes = SpacePatch(name=self.text(3), description=self.text(9), categories=categories)
        update_space(space=self.space, changes=changes)
