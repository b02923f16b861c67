import json
import random
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
import structlog
from django.db import IntegrityError, transaction

from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.assemblies.verify import verify_assembly
from contextopt.engine.assembly import assemble
from contextopt.engine.settings import ContextConfig
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.engine.validation import BudgetExceeded, UnknownEncoding
from contextopt.engine.values import RecordSummary, SpaceContext
from contextopt.errors import InvalidInput, NotFound
from contextopt.people.models import Team
from contextopt.spaces.configs import ContextConfig as SpaceConfig
from contextopt.spaces.inputs import RecordIn
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import upsert_records
from tests.factories import NOW, make_assembly, make_record, make_space
from tests.queries import count_queries


def fill(space: Space, count: int, rng: random.Random, days: float = 45) -> None:
    """Add records of all ages, some viewed, deleted, pinned, or with the same date."""
    rows = [
        RecordIn(
            title=f"Record {i}",
            date=NOW - timedelta(days=rng.choice([rng.uniform(-2, days), float(rng.randint(0, 12))])),
            tags=["a", "b"][: rng.randint(0, 2)],
            notes="word " * rng.randint(0, 40),
            pinned=rng.random() < 0.02,
        )
        for i in range(count)
    ]
    for result in upsert_records(space=space, rows=rows, actor="test"):
        if rng.random() < 0.6:
            Record.objects.filter(pk=result.record_id).update(view_count=rng.randint(1, 14))
        if rng.random() < 0.1:
            Record.objects.filter(pk=result.record_id).update(deleted_at=NOW)


def load_all(space: Space) -> SpaceContext:
    """Return the whole space as the engine sees it: the strata must agree with it."""
    records = tuple(
        RecordSummary(
            id=record.pk, date=record.date, view_count=record.view_count, line=record.summary,
            tokens=record.summary_tokens, pinned=record.pinned, deleted=record.is_deleted,
        )
        for record in Record.objects.filter(space=space)
    )  # fmt: skip
    return SpaceContext(space.name, space.description, tuple(space.categories), records)


@pytest.mark.parametrize("seed", range(12))
def test_the_strata_find_what_scoring_every_record_finds(space: Space, seed: int) -> None:
    rng = random.Random(seed)
    fill(space, 400, rng)
    request = AssemblyIn(
        space=space.slug,
        as_of=NOW - timedelta(days=rng.choice([0, 0.5, 3, 20])),
        window_days=rng.choice([1, 7, 14, 30, 400]),
        max_records=rng.choice([1, 20, 60, "all"]),
        recency_weight=Decimal(rng.choice(["0", "0.7", "1", "10"])),
        frequency_weight=Decimal(rng.choice(["0", "0.3", "2.125"])),
        context_tokens=rng.choice([0, 60, 2_000, 20_000]),
        stage=rng.choice([3, 4, 4]),
        record_order=rng.choice(["score", "stable"]),
    )
    found = assemble_space(team_id=space.team_id, request=request, actor="test")
    stored = Assembly.objects.get(pk=found.id)
    config = ContextConfig.from_json(
        {k: v for k, v in stored.payload.config.items() if k not in {"version", "overrides"}}
    )
    whole = assemble(load_all(space), config, found.asked.as_of, get_tokenizer("cl100k_base"))
    assert found.text == whole.text
    assert [entry.id for entry in found.ledger] == [entry.id for entry in whole.ledger]
    assert found.outcome.stats == whole.stats
    assert found.outcome.baseline_text == whole.baseline_text


def test_the_certificate_is_of_the_exact_text(space: Space) -> None:
    fill(space, 60, random.Random(1))
    result = make_assembly(space)
    assert result.certificate.tokens == get_tokenizer("cl100k_base").count(result.text)
    assert result.certificate.tokens <= result.allocation.context
    assert result.certificate.encoding == "cl100k_base"


def test_the_same_moment_gives_the_same_bytes(space: Space) -> None:
    fill(space, 60, random.Random(2))
    first = make_assembly(space)
    make_record(space, date=NOW + timedelta(days=30), title="Imported later, dated later")
    assert make_assembly(space).certificate == first.certificate


def test_an_assembly_does_not_count_as_a_view(space: Space) -> None:
    record = make_record(space)
    make_assembly(space)
    record.refresh_from_db()
    assert record.view_count == 0


def test_records_of_other_teams_and_spaces_stay_out(space: Space, other_team: Team) -> None:
    make_record(make_space(other_team), title="Theirs")
    make_record(make_space(space.team, "second"), title="Elsewhere")
    assert make_assembly(space).stats.records_filtered == 0
    with pytest.raises(NotFound):
        assemble_space(team_id=other_team.pk, request=AssemblyIn(space="second"), actor="test")


def test_stage_2_is_the_space_alone(space: Space) -> None:
    make_record(space)
    result = make_assembly(space, stage=2)
    assert result.text == "Space: Support notes\nWhat the support team writes down.\n"
    assert result.stats.records_filtered == 0
    assert result.stats.compression_ratio is None


def test_stage_3_is_the_last_ten_by_date(space: Space) -> None:
    for day in range(12):
        make_record(space, title=f"Day {day}", date=NOW - timedelta(days=day * 40), pinned=day == 11)
    result = make_assembly(space, stage=3)
    assert [f"Day {day} " in result.text for day in range(12)] == [True] * 10 + [False] * 2
    assert (result.allocation.context, result.allocation.total) == (4_000, 6_800)
    assert result.stats.dropped_by_reason == {"over_record_limit": 2}


def test_a_larger_context_raises_the_total(space: Space) -> None:
    allocation = make_assembly(space, context_tokens=3_000).allocation
    assert (allocation.total, allocation.context, allocation.response) == (5_800, 3_000, 1_000)


def test_context_gives_way_to_a_long_system_prompt(space: Space) -> None:
    allocation = make_assembly(space, system_tokens=1_300).allocation
    assert (allocation.total, allocation.system, allocation.context, allocation.response) == (
        4_800, 1_300, 1_500, 1_000,
    )  # fmt: skip


def test_a_prompt_without_room_for_the_response_is_refused(space: Space) -> None:
    with pytest.raises(BudgetExceeded) as caught:
        make_assembly(space, system_tokens=3_000, history_tokens=1_000)
    assert caught.value.missing == 200
    assert not Assembly.objects.exists()


def test_texts_and_their_sizes_give_the_same_allocation(space: Space) -> None:
    text = "You answer briefly. " * 100
    size = get_tokenizer("cl100k_base").count(text)
    given = make_assembly(space, system=text, history="")
    assert given.allocation == make_assembly(space, system_tokens=size, history_tokens=0).allocation
    with pytest.raises(InvalidInput, match="system_tokens"):
        make_assembly(space, system="x", system_tokens=1)
    assert "briefly" not in json.dumps(AssemblyPayload.objects.get(pk=given.id).request)


def test_an_unavailable_encoding_is_named(space: Space) -> None:
    with pytest.raises(UnknownEncoding, match="klingon"):
        make_assembly(space, encoding="klingon")


def test_the_row_has_the_figures_of_the_answer(space: Space) -> None:
    fill(space, 80, random.Random(3))
    result = make_assembly(space, conversation="c-1", model="gpt-x")
    row = Assembly.objects.select_related("payload").get(pk=result.id)
    assert row.payload.text == result.text
    assert row.tokens_after == result.stats.tokens_used
    assert row.tokens_saved == result.stats.tokens_saved
    assert row.records_dropped == result.stats.records_dropped
    assert row.compression_ratio == result.stats.compression_ratio
    assert (row.conversation, row.model, row.actor) == ("c-1", "gpt-x", "test")
    assert [entry["id"] for entry in row.payload.entries] == [e.id for e in result.ledger]
    assert verify_assembly(row.payload) == []


def test_a_preview_leaves_no_trace(space: Space) -> None:
    request = AssemblyIn(space=space.slug)
    assert assemble_space(team_id=space.team_id, request=request, actor="test", store=False).id is None
    assert not Assembly.objects.exists()


@pytest.mark.parametrize("count", [2, 60])
def test_an_assembly_takes_three_statements(space: Space, count: int) -> None:
    fill(space, count, random.Random(4))
    # the space with its settings, candidates with their counts, the row with its payload
    assert count_queries(lambda: make_assembly(space)) == 3


def test_log_rows_never_change(space: Space) -> None:
    result = make_assembly(space)
    with pytest.raises(IntegrityError, match="never change"), transaction.atomic():
        Assembly.objects.filter(pk=result.id).update(tokens_after=0)
    with pytest.raises(IntegrityError, match="never change"), transaction.atomic():
        SpaceConfig.objects.filter(space=space).update(settings={})
    SpaceConfig.objects.filter(space=space).update(is_active=False)


def test_verification_finds_a_changed_payload(space: Space) -> None:
    fill(space, 30, random.Random(5))
    payload = AssemblyPayload.objects.get(pk=make_assembly(space).id)
    payload.text += "One line more.\n"
    figures = {difference.figure for difference in verify_assembly(payload)}
    assert {"tokens_after", "sha256"} <= figures


def test_the_events_of_an_assembly_are_logged(space: Space) -> None:
    with structlog.testing.capture_logs() as events:
        result = make_assembly(space)
    assert [event["event"] for event in events] == [
        "context_filtering_complete",
        "records_scored_by_relevance",
        "token_budget_allocated",
        "context_truncation_complete",
        "context_assembled",
    ]
    assert {event["assembly_id"] for event in events} == {result.id}


@pytest.mark.parametrize(("stage", "scored"), [(2, 0), (3, 0), (4, 130), (5, 130)])
def test_the_number_of_scored_records_is_logged(space: Space, stage: int, scored: int) -> None:
    upsert_records(space=space, rows=[RecordIn(title=str(i), date=NOW) for i in range(130)], actor="test")
    with structlog.testing.capture_logs() as events:
        make_assembly(space, stage=stage)
    assert [event["scored"] for event in events if "scored" in event] == [scored]


def test_pinned_records_go_first_whatever_their_date(space: Space) -> None:
    make_record(space, title="Fresh", view_count=10)
    make_record(space, title="Old but pinned", date=NOW - timedelta(days=900), pinned=True)
    result = make_assembly(space)
    lines = result.text.splitlines()
    assert "Old but pinned" in lines[3]
    assert "Fresh" in lines[4]
    assert result.stats.records_filtered == 2


@pytest.mark.parametrize(
    ("age", "inside"),
    [
        (timedelta(days=14), True),
        (timedelta(days=14, microseconds=1), False),
        (timedelta(hours=-24), True),
        (timedelta(hours=-24, microseconds=-1), False),
    ],
)
def test_both_ends_of_the_window_are_inside(space: Space, age: timedelta, inside: bool) -> None:
    make_record(space, date=NOW - age)
    stats = make_assembly(space).stats
    assert (stats.records_filtered, stats.outside_window) == ((1, 0) if inside else (0, 1))


def test_the_counts_hold_at_every_edge_of_an_hour(space: Space) -> None:
    moments = [NOW - timedelta(days=14) + timedelta(minutes=15 * step) for step in range(-8, 9)]
    for moment in moments:
        make_record(space, date=moment)
    for shift in (0, 1, 29, 30, 59, 60, 61):
        as_of: datetime = NOW + timedelta(minutes=shift)
        stats = make_assembly(space, as_of=as_of).stats
        assert stats.records_filtered == sum(m >= as_of - timedelta(days=14) for m in moments)
