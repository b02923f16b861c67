"""Spaces that change at random while contexts of them are assembled and computed again."""

import random
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal

from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.log import Givens, unpack_givens
from contextopt.assemblies.models import AssemblyPayload
from contextopt.assemblies.replay.material import load_material
from contextopt.assemblies.replay.replay import decide_again
from contextopt.assemblies.results import AssemblyResult
from contextopt.engine.values import Assembled
from contextopt.search import registry
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.search.wordcounts import ensure_counted
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


def make_searchable(space: Space) -> None:
    ensure_counted(registry.get("record"), space.pk)
    ensure_embedded(registry.get("record"), space.pk, limit=10_000)


def recompute(payload: AssemblyPayload) -> Assembled:
    """Return the assembly computed again. The stored text, hash and ledger are not read."""
    return decide_again(load_material(payload.assembly)).outcome


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
        """Make one change of a random kind."""
        ways = (
            self._edit, self._edit, self._redate, self._view, self._view, self._delete, self._restore,
            self._undo, self._overwrite, self._add, self._repeat, self._rename_space,
        )  # fmt: skip
        self.rng.choice(ways)()

    def assemble(self, stage: Stage, **request: Any) -> AssemblyResult:
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
        as_of = NOW - timedelta(days=rng.choice([0, 0, 10]))
        asked = {"space": self.space.slug, "stage": stage, "as_of": as_of, **settings, **request}
        return assemble_space(
            team_id=self.space.team_id, request=AssemblyIn.model_validate(asked), actor="test"
        )

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
