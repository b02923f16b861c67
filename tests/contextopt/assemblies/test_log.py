"""The engine's inputs are logged: enough to compute each assembly again, and no text."""

import dataclasses
import inspect
import zlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.assemblies.candidates import Candidates
from contextopt.assemblies.log import GIVENS_FORMAT, GivenRecord, pack_givens, unpack_givens
from contextopt.assemblies.models import AssemblyPayload
from contextopt.assemblies.purge import purge_record
from contextopt.engine.assembly import assemble
from contextopt.engine.details import Query, RecordDetail
from contextopt.engine.ranking import Relevance
from contextopt.engine.text.promptparts import Span
from contextopt.engine.values import ENGINE_VERSION, FilterCounts, PartSizes, RecordSummary, SpaceContext
from contextopt.spaces.models import Space
from tests.factories import NOW, make_assembly, make_filtering, make_record
from tests.recomputed import givens_of, make_searchable

SPANS = st.builds(Span, st.integers(0, 99_999), st.integers(0, 100_000))
PARTS = st.integers(0, 10_000_000).map(lambda whole: whole / 1_000_000)
IDS = st.integers(0, 2**53) | st.integers(1, 40)
LINE = "- [note] Queue (2026-06-15)\n"


def summary(record_id: int, views: int = 0, version: int = 1) -> RecordSummary:
    return RecordSummary(id=record_id, date=NOW, view_count=views, line=LINE, tokens=9, version=version)


@st.composite
def relevances(draw: st.DrawFn) -> Relevance:
    return Relevance(draw(st.none() | PARTS), *(draw(PARTS) for _ in Relevance._fields[1:]))


@st.composite
def spaces(draw: st.DrawFn) -> SpaceContext:
    words = st.text(max_size=30)
    return SpaceContext(draw(words), draw(words), tuple(draw(st.lists(words, max_size=4))))


@st.composite
def candidates(draw: st.DrawFn) -> Candidates:
    record = st.builds(summary, IDS, st.integers(0, 10**12), st.integers(1, 2**31 - 1))
    records, baseline = (
        draw(st.lists(record, max_size=30, unique_by=lambda record: record.id)) for _ in range(2)
    )
    same = draw(st.lists(st.sampled_from(records), max_size=3, unique_by=id)) if records else []
    baseline = [*(record for record in baseline if record.id not in {one.id for one in same}), *same]
    ids = [record.id for record in records]
    query = Query(frozenset(), {}, {}) if draw(st.booleans()) else None
    if query and ids:
        some = st.sampled_from(ids)
        relevant = draw(st.dictionaries(some, relevances(), max_size=20))
        detail = RecordDetail("Queue", "note", (), "Stuck.")
        query = Query(frozenset(), relevant, dict.fromkeys(draw(st.sets(some)), detail))
    counts = FilterCounts(*(draw(st.integers(0, 2**62)) for _ in range(3)))
    return Candidates(
        tuple(records),
        tuple(baseline),
        counts,
        query,
        draw(st.text(max_size=20)),
        reach=draw(st.integers(1, 216)),
        passages=draw(st.lists(SPANS, max_size=3).map(tuple)),
    )


def expected(found: Candidates) -> set[GivenRecord]:
    query = found.query or Query(frozenset(), {}, {})
    both = {*map(key, found.records)} & {*map(key, found.baseline)}
    as_candidates = {
        GivenRecord(
            *key(one), True, key(one) in both, one.id in query.details,
            query.relevant.get(one.id, Relevance()),
        )
        for one in found.records
    }  # fmt: skip
    alone = {*map(key, found.baseline)} - both
    return as_candidates | {GivenRecord(*one, False, True, False) for one in alone}


def key(record: RecordSummary) -> tuple[int, int, int]:
    return record.id, record.version, min(10, record.view_count)


@given(spaces(), candidates())
def test_packed_givens_are_read_back(space: SpaceContext, found: Candidates) -> None:
    """A record read in two states appears twice: as a candidate, and as one of the last by date."""
    packed = pack_givens(space, found)
    assert packed[0] == GIVENS_FORMAT
    read = unpack_givens(packed)
    assert read.space == space
    assert (read.engine_version, read.encoder, read.reach) == (ENGINE_VERSION, found.encoder, found.reach)
    assert (read.counts, read.is_asked) == (found.counts, found.query is not None)
    assert read.passages == found.passages
    assert len(read.records) == len(expected(found))
    assert set(read.records) == expected(found)


def packed_parts(relevance: Relevance) -> bytes:
    query = Query(frozenset(), {7: relevance}, {})
    space = SpaceContext("", "", ())
    return pack_givens(space, Candidates((summary(7),), (), FilterCounts(1), query))


def test_parts_are_rounded_as_the_engine_rounds_them() -> None:
    values = (2.0000005, 1.2345678, 9.9999996, 0.0, 1e-7, 4.5)
    read = unpack_givens(packed_parts(Relevance(*values))).records[0].relevance
    assert [round((part or 0) * 1_000_000) for part in read] == [round(part * 1_000_000) for part in values]


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format 77"):
        unpack_givens(bytes([77, 1, 2]))


def test_parts_that_the_relevance_no_longer_has_are_left_out() -> None:
    packed = packed_parts(Relevance(1.0, 2.0))
    head, _, columns = zlib.decompress(packed[1:]).partition(b"\n")
    former = head.replace(b'"lexical"', b'"former"') + b"\n" + columns
    read = unpack_givens(packed[:1] + zlib.compress(former)).records[0].relevance
    assert (read.semantic, read.lexical) == (1.0, 0.0)


def test_every_input_of_the_engine_is_logged() -> None:
    """A further input of the engine has to be logged: in `Givens`, or elsewhere in the log."""
    assert [*inspect.signature(assemble).parameters] == [
        "space", "config", "now", "tokenizer", "sizes", "counts", "baseline", "query", "sight",
    ]  # fmt: skip
    assert names(PartSizes) == ["system", "history"]
    assert names(SpaceContext) == ["name", "description", "categories", "records"]
    # The usual similarity is that of the encoder, whose name is logged.
    assert names(Query) == [
        "terms", "relevant", "details", "is_relevant", "numbers", "usual_similarity",
    ]  # fmt: skip
    assert names(FilterCounts) == ["filtered", "outside_window", "deleted"]
    assert names(RecordDetail) == ["title", "type", "tags", "notes", "thread", "position"]
    assert names(RecordSummary) == [
        "id", "date", "view_count", "line", "tokens", "pinned", "deleted", "source", "external_id", "version",
    ]  # fmt: skip


def names(values: type) -> list[str]:
    """Return the fields that are given when a value is made."""
    return [field.name for field in dataclasses.fields(values) if field.init]


def payload_of(assembly_id: int | None) -> AssemblyPayload:
    return AssemblyPayload.objects.select_related("assembly").get(pk=assembly_id)


def test_every_stage_logs_what_it_was_given(space: Space) -> None:
    for number in range(12):
        make_record(space, title=f"Queue {number}", date=NOW - timedelta(days=number), view_count=number)
    make_searchable(space)
    found = {
        stage: givens_of(payload_of(make_assembly(space, stage=stage, query="queue").id))
        for stage in (2, 3, 4, 5)
    }
    assert [len(found[stage].records) for stage in found] == [0, 12, 12, 12]
    assert {one.space.name for one in found.values()} == {"Support notes"}
    assert {one.engine_version for one in found.values()} == {ENGINE_VERSION}
    assert [one.encoder for one in found.values()] == ["", "", "", "wordllama-256"]
    assert [one.is_asked for one in found.values()] == [False, False, False, True]
    by_id = {record.id: record for record in found[4].records}
    assert sum(record.is_baseline for record in by_id.values()) == 10
    assert max(record.views for record in by_id.values()) == 10
    assert all(record.has_detail and record.relevance.lexical > 0 for record in found[5].records)


def test_other_kinds_log_no_givens(space: Space) -> None:
    make_filtering(space.team)
    assert AssemblyPayload.objects.get().givens is None


def test_no_text_of_a_record_is_logged_so_a_purge_has_nothing_to_erase(space: Space) -> None:
    record = make_record(space, title="Zanzibar", notes="Password is swordfish.", tags=["xylophone"])
    make_searchable(space)
    payload = payload_of(make_assembly(space, stage=5, query="password").id)
    kept = repr(givens_of(payload))
    assert not any(word in kept for word in ("Zanzibar", "swordfish", "xylophone", "password"))
    purge_record(record=record)
    assert payload_of(payload.pk).givens == payload.givens
