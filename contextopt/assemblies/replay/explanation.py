"""Explains the outcome of one record in a logged assembly: which step lost it, and by how much."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet
from django.utils import timezone

from contextopt.assemblies.log import Givens, unpack_givens
from contextopt.assemblies.models import Assembly, AssemblyPayload, EntryJson, Kind
from contextopt.assemblies.replay.material import Material, NotReplayable, load_material
from contextopt.assemblies.verify import read_config
from contextopt.engine.assembly import NOT_LOADED
from contextopt.engine.details import DUPLICATE_OF
from contextopt.engine.ranking import NOT_RELEVANT, Scored, parts_of, rank, rank_by_query
from contextopt.engine.settings import HEADER_STAGE, LAST_RECORDS_STAGE, ContextConfig
from contextopt.engine.values import DateRange
from contextopt.engine.wording import day, plural
from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.inputs import read_digits
from contextopt.spaces.models import EXTERNAL_ID_MAX, SOURCE_MAX, Record, RecordRevision
from contextopt.spaces.records import split_identity


class Step(StrEnum):
    """The step that decided on a record, in the order in which an assembly takes them."""

    NO_RECORDS = "no_records"
    NOT_IN_SPACE = "not_in_space"
    DELETED = "deleted"
    OUTSIDE_WINDOW = "outside_window"
    NOT_A_CANDIDATE = "not_a_candidate"
    DUPLICATE_OF = "duplicate_of"
    OVER_RECORD_LIMIT = "over_record_limit"
    OVER_BUDGET = "over_budget"
    LOW_RELEVANCE = "low_relevance"
    INCLUDED = "included"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The outcome of a record: the step that decided, in words and figures.

    `rank` is its place among `of` candidates. `over_tokens` is by how many tokens the budget was too small to
    reach it, or for a question, by how many it exceeded what was left when its turn came. Figures that do not
    apply to the step are None.
    """

    record: Record
    step: Step
    message: str
    rank: int | None = None
    of: int | None = None
    parts: dict[str, float] | None = None
    tokens: int | None = None
    over_tokens: int | None = None
    duplicate_of: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the answer of the API and of `explain --json`. Figures that do not apply are left out."""
        record = self.record
        figures = {
            "rank": self.rank,
            "of": self.of,
            "parts": self.parts,
            "tokens": self.tokens,
            "over_tokens": self.over_tokens,
            "duplicate_of": self.duplicate_of,
        }
        return {
            "record": {
                "id": record.pk,
                "source": record.source,
                "external_id": record.external_id,
                "title": record.title,
            },
            "step": self.step.value,
            **{name: value for name, value in figures.items() if value is not None},
            "message": self.message,
        }


PASSES_OVER_SINCE = 13
"""Version of the engine since which a question's context passes over records that do not fit."""


class _Place(NamedTuple):
    """A candidate in rank order, with its tokens. One that `takes_room` leaves less to those below it."""

    id: int
    tokens: int
    takes_room: bool = True


def explain_record(assembly: Assembly, record: Record) -> Explanation:
    """Explain what a logged assembly did with a record. The assembly comes with its payload and space.

    Raises:
        Conflict: the assembly is not the context of a space, or its ledger is no longer stored.
    """
    payload = assembly.stored_payload
    if assembly.kind != Kind.SPACE or assembly.space is None:
        raise Conflict(f"Assembly {assembly.pk} is not the context of a space.")
    if payload is None:
        raise Conflict(f"The ledger of assembly {assembly.pk} is no longer stored.")
    if assembly.stage == HEADER_STAGE:
        return Explanation(record, Step.NO_RECORDS, "Stage 2 takes no records.")
    givens = None if payload.givens is None else unpack_givens(bytes(payload.givens))
    case = _Case(assembly, payload, record, read_config(payload.config), payload.entries, givens)
    named = next((entry for entry in case.entries if entry["id"] == record.pk), None)
    if named is not None:
        return case.explain_named(named, case.ranked(), named["parts"] or None)
    try:
        material = load_material(assembly)
    except NotReplayable:
        material = None
    return case.explain_unnamed(material)


@dataclass(frozen=True, slots=True)
class _Case:
    """A record and the logged assembly that is asked about it."""

    assembly: Assembly
    payload: AssemblyPayload
    record: Record
    config: ContextConfig
    entries: list[EntryJson]
    givens: Givens | None

    @property
    def passes_over(self) -> bool:
        """Whether packing passed over what did not fit, and went on with the records below it."""
        givens = self.givens
        return givens is not None and givens.is_asked and givens.engine_version >= PASSES_OVER_SINCE

    def ranked(self) -> list[_Place]:
        """Return the named candidates in rank order; a duplicate may outrank those that were kept."""
        best_first = sorted(
            self.entries, key=lambda entry: (self._is_first(entry), entry["score"]), reverse=True
        )
        return [_Place(entry["id"], entry["tokens"], self._takes_room(entry)) for entry in best_first]

    def _takes_room(self, entry: EntryJson) -> bool:
        """Return whether the record takes room from those below it. An adaptive budget chooses among what
        fits, so what it leaves out has taken its room before.
        """
        if self.passes_over:
            return entry["kept"] or entry["reason"] == Step.LOW_RELEVANCE
        return entry["duplicate_of"] is None

    def _is_first(self, entry: EntryJson) -> bool:
        """Return whether the record is pinned, in a stage that takes pinned records first."""
        return entry["pinned"] and self.config.stage != LAST_RECORDS_STAGE

    def explain_named(
        self, entry: EntryJson, ranked: Sequence[_Place], parts: dict[str, float] | None
    ) -> Explanation:
        """Explain a candidate by its ledger entry, and by the candidates ranked above it."""
        place = next(at for at, one in enumerate(ranked) if one.id == entry["id"])
        step = Step.INCLUDED if entry["kept"] else _step(entry["reason"])
        over = self._over_tokens(ranked[: place + 1]) if step == Step.OVER_BUDGET else None
        of, records = self._candidates(), self.assembly.records_filtered
        ranks = f"Ranked {place + 1:,} of {of:,}"
        ranks += "." if of == records else f" candidates ({records:,} records)."
        if self._is_first(entry):
            ranks += " It is pinned, and pinned records come first."
        return Explanation(
            self.record,
            step,
            f"{ranks} {self._say(step, entry, over)}",
            rank=place + 1,
            of=of,
            parts=parts,
            tokens=entry["tokens"],
            over_tokens=over,
            duplicate_of=entry["duplicate_of"],
        )

    def _candidates(self) -> int:
        """Return how many records were ranked. A question ranks only those that were rated for it."""
        if self.givens is not None and self.givens.is_asked:
            return len({given.id for given in self.givens.records if given.is_candidate})
        return self.assembly.records_filtered

    def _say(self, step: Step, entry: EntryJson, over: int | None) -> str:
        row = self.assembly
        match step:
            case Step.INCLUDED:
                return f"It was kept, with {entry['tokens']:,} tokens."
            case Step.DUPLICATE_OF:
                return f"It nearly repeats record {entry['duplicate_of']}, which was considered instead."
            case Step.OVER_RECORD_LIMIT:
                kept = plural(row.records_included, "record")
                were = "was" if row.records_included == 1 else "were"
                return f"The record limit was reached first: {kept} {were} kept."
            case Step.LOW_RELEVANCE if not self.payload.request.get("query"):
                return "With an adaptive budget, others say more for their length or rank higher."
            case Step.LOW_RELEVANCE if self._outranks_a_kept(entry):
                return (
                    "With an adaptive budget, it was not worth its tokens, since it stands alone: few of the "
                    "kept records are near it in the conversation."
                )
            case Step.LOW_RELEVANCE:
                return "With an adaptive budget, it was not relevant enough to be worth its tokens."
            case _ if self.passes_over:
                assert over is not None
                left = plural(max(0, entry["tokens"] - over), "token")
                smaller = " Smaller ones that rank lower still fit." if self._outranks_a_kept(entry) else ""
                return (
                    f"The records ranked above it left {left} of {row.tokens_available:,}. It needs "
                    f"{entry['tokens']:,}, so it is {over:,} over the budget.{smaller}"
                )
            case _:
                assert over is not None
                return (
                    f"The {plural(row.records_included, 'kept record')} used "
                    f"{row.tokens_after:,} of {row.tokens_available:,} tokens. This record needs "
                    f"{entry['tokens']:,}, so it is {over:,} over the budget{self._others_before(entry)}."
                )

    def _outranks_a_kept(self, entry: EntryJson) -> bool:
        kept = (one for one in self.entries if one["kept"] and not one["pinned"])
        return any(one["score"] < entry["score"] for one in kept)

    def _others_before(self, entry: EntryJson) -> str:
        first = next((one for one in self.entries if one["reason"] == Step.OVER_BUDGET), None)
        is_first = first is not None and first["id"] == entry["id"]
        return "" if is_first else ", including the records ranked above it"

    def _over_tokens(self, until: Sequence[_Place]) -> int:
        """Return by how many tokens the budget was too small for the last of these."""
        row, (*above, last) = self.assembly, until
        header = row.tokens_after - sum(entry["tokens"] for entry in self.entries if entry["kept"])
        needed = header + sum(place.tokens for place in above if place.takes_room) + last.tokens
        return max(1, needed - row.tokens_available)

    def explain_unnamed(self, material: Material | None) -> Explanation:
        """Explain a record that the ledger does not name."""
        if material is not None and (found := self._explain_given(material)):
            return found
        lost = self._lost_before_ranking()
        if lost is not None:
            return Explanation(self.record, *lost)
        of = self.assembly.records_filtered
        return Explanation(self.record, Step.NOT_A_CANDIDATE, self._not_read(material), of=of)

    def _explain_given(self, material: Material) -> Explanation | None:
        """Rank the record among those that the engine was given; None if it was not given."""
        ranked = _rank_given(material)
        at = next((at for at, scored in enumerate(ranked) if scored.record.id == self.record.pk), None)
        if at is None:
            return None
        tokens = {entry["id"]: entry for entry in self.entries}
        places = [
            _Place(
                record.id,
                tokens[record.id]["tokens"] if record.id in tokens else record.tokens,
                self._takes_room(tokens[record.id]) if record.id in tokens else not self.passes_over,
            )
            for record, _ in ranked
        ]
        parts = _parts(material, ranked[at])
        entry = _unnamed_entry(ranked[at], self._cut_reason())
        return self.explain_named(entry, places, parts)

    def _cut_reason(self) -> str:
        """Return why the candidates that rank below the named ones were dropped: like the last of these."""
        named = [entry["reason"] for entry in self.entries if not entry["kept"]]
        reasons = [reason for reason in (*self.payload.ledger["counts"], *named) if reason != DUPLICATE_OF]
        return reasons[-1] if reasons else DUPLICATE_OF

    def _lost_before_ranking(self) -> tuple[Step, str] | None:
        """Return the filter that the record, as it was then, did not pass, with a message."""
        record, row = self.record, self.assembly
        assert row.space is not None
        if record.space_id != row.space_id:
            message = f"It is in the space {record.space.slug}. This context is from {row.space.slug}."
            return Step.NOT_IN_SPACE, message
        # A demo's assemblies have made-up times.
        moment = timezone.now() if row.is_demo else row.created_at
        if record.created_at > moment:
            message = f"It was added on {day(record.created_at)}, after this context was assembled."
            return Step.NOT_IN_SPACE, message
        state = _state_at(record, moment)
        if state.deleted_at is not None:
            return Step.DELETED, f"It had been deleted on {day(state.deleted_at)}."
        if message := self._outside(state.date, is_pinned=state.pinned):
            return Step.OUTSIDE_WINDOW, message
        return None

    def _outside(self, date: datetime, *, is_pinned: bool) -> str:
        """Say how the date misses the window; an empty text if it does not."""
        as_of, is_asked = self.assembly.as_of, bool(self.payload.request.get("query"))
        config = self.config if is_asked else self.config.without_question()
        has_window = config.stage > LAST_RECORDS_STAGE
        days = config.effective_window_days if has_window else None
        window = DateRange.ending_at(as_of, days)
        if date in window or (is_pinned and has_window):
            return ""
        if date > window.end:
            return f"It is dated {day(date)}, after {day(as_of)}, the date of this context."
        old = plural((as_of - date).days, "day")
        assert days is not None, "without a window, no record is too old"
        return f"It is dated {day(date)}, {old} before this context. The window is {plural(days, 'day')}."

    def _not_read(self, material: Material | None) -> str:
        of = self.assembly.records_filtered
        if material is None:
            return (
                f"It passed the filters, but the ledger lists only {len(self.entries):,} of the {of:,} "
                "candidates. The others cannot be ranked again, because this context cannot be replayed."
            )
        read = sum(given.is_candidate for given in material.givens.records)
        if self.config.stage == LAST_RECORDS_STAGE:
            return f"Stage 3 takes the newest records, and {read:,} are newer."
        if material.givens.is_asked:
            return (
                f"It was not among the {read:,} best of {of:,} records by words, meaning, neighbours, "
                f"recency and frequency."
            )
        return (
            f"Only the best {read:,} of {of:,} candidates were read. This record scores lower than all of "
            "them."
        )


def _unnamed_entry(scored: Scored, reason: str) -> EntryJson:
    """Return the ledger's entry for a candidate that the ledger does not name."""
    record = scored.record
    return {
        "id": record.id,
        "source": record.source,
        "external_id": record.external_id,
        "score": 0.0,
        "parts": {},
        "tokens": record.tokens,
        "pinned": record.pinned,
        "kept": False,
        "reason": reason,
        "duplicate_of": None,
    }


def _step(reason: str) -> Step:
    return Step.NOT_A_CANDIDATE if reason == NOT_LOADED else Step(reason)


def _rank_given(material: Material) -> list[Scored]:
    asked = material.asked
    found, now, config = material.candidates(asked.tokenizer), asked.as_of, asked.effective_config
    if config.stage == LAST_RECORDS_STAGE:
        newest = sorted(found.records, key=lambda record: (record.date, record.id), reverse=True)
        return [Scored(record, 0) for record in newest]
    if found.query is not None:
        return rank_by_query(found.records, found.query.relevant, now, config)
    return rank(found.records, now, config)


def _parts(material: Material, scored: Scored) -> dict[str, float] | None:
    if material.asked.config.stage == LAST_RECORDS_STAGE:
        return None
    record = scored.record
    parts = parts_of(record, material.assembly.as_of)
    if material.givens.is_asked:
        given = {one.id: one.relevance for one in material.givens.records if one.is_candidate}
        parts |= given.get(record.id, NOT_RELEVANT).to_parts()
    return {name: round(value, 6) for name, value in parts.items()}


def _state_at(record: Record, moment: datetime) -> Record | RecordRevision:
    """Return the record as it was at the moment: the revision that the next change kept, or the record."""
    later = record.revisions.filter(changed_at__gt=moment).order_by("number")
    return later.defer("notes").first() or record


EXPECTED_CHARS = SOURCE_MAX + EXTERNAL_ID_MAX + 1


def find_expected(assembly: Assembly, expected: str, records: QuerySet[Record], *, field: str) -> Record:
    """Return one of the `records` by its id, or a record of the assembly's space by SOURCE:EXTERNAL_ID.

    Raises:
        NotFound: no record has this id, or this source and external id.
        InvalidInput: several records match, or the text has neither form; the error names `field`.
    """
    if expected.isascii() and expected.isdigit():
        found = records.filter(pk=read_digits(expected) or 0).first()
        if found is None:
            raise NotFound(f"There is no record {expected[:40]}.")
        return found
    if ":" not in expected:
        raise InvalidInput.of(field, "give a record's ID, or SOURCE:EXTERNAL_ID")
    matches = list(records.filter(_by_identity(expected), space=assembly.space_id).order_by("pk")[:3])
    if not matches:
        raise NotFound(f"There is no record {expected[:80]!r} in the space of this context.")
    if len(matches) > 1:
        named = ", ".join(f"{one.pk} ({one.source!r}, {one.external_id!r})" for one in matches)
        raise InvalidInput.of(field, f"names more than one record; give the ID: {named}"[:400])
    return matches[0]


def _by_identity(text: str) -> Q:
    pairs = (Q(source=source, external_id=external_id) for source, external_id in split_identity(text))
    return reduce(or_, pairs, Q(pk__in=()))
