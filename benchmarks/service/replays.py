"""Replays: logged assemblies computed again after the space has changed, with their texts blanked."""

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import cycle, islice
from time import perf_counter
from typing import Any

from django.db import connection
from django.db.models import Avg
from django.db.models.functions import Length

from benchmarks.corpus import Generated, generate_varied
from benchmarks.figures import Figure, Sample, Section, at_most
from benchmarks.retrieval.recall import use_model
from benchmarks.spaces import describe_space, fill, new_space, say
from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn, ReplayIn
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.assemblies.replay.replay import Replay, replay_assembly
from contextopt.assemblies.results import AssemblyResult
from contextopt.people.models import Team
from contextopt.spaces.inputs import RecordIn, RecordPatch, SettingsIn, SpacePatch
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import delete_record, restore_record, update_record, upsert_records
from contextopt.spaces.recordviews import view_record
from contextopt.spaces.spaces import delete_space, update_space

SLUG = "replayed"
STAGES = (2, 3, 4, 5, 5)
QUESTION_WORDS = 6
IMPORTED_AT_ONCE = 20
SEED = 23
WIDER = ReplayIn(settings=SettingsIn(context_tokens=4_000, recency_weight=Decimal("1.4")))
_CONDITIONS = (
    "Contexts of stages 2 to 5 with varying windows, limits and budgets are assembled while another thread "
    "edits, dates, views, deletes, restores and imports records of the space and renames it. Then all stored "
    "texts are blanked, and each context is computed again from what the log says the engine was given. It "
    "is the same if its hash is the certificate's and ledger, order, counts and tokens are those of the log. "
    "With other settings (twice the budget, another weight), candidates are looked up."
)


@dataclass(slots=True)
class _Writer:
    """Changes a space in a separate thread until `stop` is set."""

    space: Space
    fresh: Iterator[Generated]
    rng: random.Random
    stop: threading.Event = field(default_factory=threading.Event)
    changes: int = 0
    imported: int = 0

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self.rng.choice(self._ways())()
                self.changes += 1
        finally:
            connection.close()

    def _ways(self) -> tuple[Callable[[], object], ...]:
        return (
            self._edit, self._edit, self._redate, self._view, self._view, self._delete, self._restore,
            self._import, self._rename,
        )  # fmt: skip

    def _some(self, *, deleted: bool = False) -> Record | None:
        rows = Record.objects.filter(space=self.space, deleted_at__isnull=not deleted)
        ids = list(rows.order_by("-date").values_list("pk", flat=True)[:400])
        rows = Record.objects.select_related("space__team")
        return rows.get(pk=self.rng.choice(ids)) if ids else None

    def _edit(self) -> None:
        if record := self._some():
            notes = " ".join(self.rng.sample(record.notes.split() or ["empty"], k=1)) + f" {record.notes}"
            changes = RecordPatch(notes=notes[:5_000], tags=[f"tag-{self.rng.randrange(9)}"])
            update_record(record=record, changes=changes, actor="benchmarks")

    def _redate(self) -> None:
        if record := self._some():
            moved = record.date - timedelta(hours=self.rng.randrange(48))
            changes = RecordPatch(date=moved, pinned=self.rng.random() < 0.02)
            update_record(record=record, changes=changes, actor="benchmarks")

    def _view(self) -> None:
        if record := self._some():
            view_record(record=record, viewer=f"user:{self.rng.randrange(1_000)}")

    def _delete(self) -> None:
        if record := self._some():
            delete_record(record=record, actor="benchmarks")

    def _restore(self) -> None:
        if record := self._some(deleted=True):
            restore_record(record=record, actor="benchmarks")

    def _import(self) -> None:
        """Import new records, and others again with changed content."""
        rows = []
        for record in islice(self.fresh, IMPORTED_AT_ONCE):
            key = str(self.rng.randrange(self.imported)) if self.imported and self.rng.random() < 0.5 else ""
            rows.append(record.to_row(key or str(self.imported)))
            self.imported += not key
        upsert_records(space=self.space, rows=list(map(RecordIn.model_validate, rows)), actor="benchmarks")

    def _rename(self) -> None:
        changes = SpacePatch(description=f"Notes of the platform team, edition {self.rng.randrange(1_000)}.")
        update_space(space=self.space, changes=changes)


def measure_replays(team: Team, *, records: int, assemblies: int) -> Section:
    space = new_space(team, describe_space(SLUG))
    fill(space, generate_varied(records, seed=SEED, until=datetime.now(UTC)))
    use_model([space])
    made, writer = _assemble_among_changes(space, assemblies)
    say(f"{writer.changes:,} changes while {assemblies:,} contexts were assembled")
    logged_bytes = AssemblyPayload.objects.filter(assembly__space=space).aggregate(
        mean=Avg(Length("givens"))
    )["mean"]
    AssemblyPayload.objects.filter(assembly__space=space).update(text="", baseline_text=None)
    same_ms, again = _replay(space, None)
    other_ms, other = _replay(space, WIDER)
    delete_space(space=space)
    different = [replay for replay in again if _differs(replay, made)]
    for replay in different[:5]:
        say(f"assembly {replay.assembly.pk}: {replay.reason or replay.differences}")
    looked_up = sum(replay.looked_up for replay in other)
    figures = (
        Figure(
            f"contexts of {assemblies:,} that came out differently", "", 1, len(different),
            bar=at_most(0, len(different), "0"),
        ),
        Figure.of("replay, same settings", Sample(tuple(same_ms))),
        Figure.of("replay, other settings", Sample(tuple(other_ms))),
        Figure("logged about what the engine was given", "bytes", 1, float(logged_bytes)),
    )  # fmt: skip
    note = (
        f"A space of {records:,} records; {writer.changes:,} changes, {writer.imported:,} records imported. "
        f"Under other settings, {looked_up:,} candidates were looked up in all."
    )
    return Section("Replays", figures, (_CONDITIONS, note))


def _assemble_among_changes(space: Space, count: int) -> tuple[dict[int, AssemblyResult], _Writer]:
    rng = random.Random(SEED)
    notes = list(Record.objects.filter(space=space).values_list("notes", flat=True)[:2_000])
    fresh = generate_varied(10**6, seed=SEED + 1, until=datetime.now(UTC))
    writer = _Writer(space, fresh, random.Random(SEED + 2))
    thread = threading.Thread(target=writer.run, name="writer", daemon=True)
    thread.start()
    try:
        made = [_assemble(space, stage, rng, notes) for stage in islice(cycle(STAGES), count)]
    finally:
        writer.stop.set()
        thread.join()
    return {result.id: result for result in made if result.id is not None}, writer


def _assemble(space: Space, stage: int, rng: random.Random, notes: list[str]) -> AssemblyResult:
    settings: dict[str, Any] = {
        "window_days": rng.choice([7, 14, 30, "all"]),
        "max_records": rng.choice([5, 20, 100, "all"]),
        "context_tokens": rng.choice([100, 500, 2_000, 6_000]),
        "record_order": rng.choice(["score", "stable"]),
    }
    if stage == 5:
        words = rng.choice(notes).replace(".", " ").replace(",", " ").split()
        settings["query"] = " ".join(rng.sample(words, min(QUESTION_WORDS, len(words)))) or "backup"
    request = AssemblyIn.model_validate({"space": space.slug, "stage": stage, **settings})
    return assemble_space(team_id=space.team_id, request=request, actor="benchmarks")


def _replay(space: Space, settings: ReplayIn | None) -> tuple[list[float], list[Replay]]:
    rows = Assembly.objects.filter(space=space).for_replay()
    times, replays = [], []
    for assembly in rows.order_by("pk").iterator(chunk_size=100):
        started = perf_counter()
        replays.append(replay_assembly(assembly, settings))
        times.append((perf_counter() - started) * 1_000)
    return times, replays


def _differs(replay: Replay, made: dict[int, AssemblyResult]) -> bool:
    """Also compare with the text that was returned then, since the stored one was blanked."""
    return not replay.is_same or replay.result is None or replay.result.text != made[replay.assembly.pk].text
