"""The adaptive budget: records enter while the next one is worth its tokens."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.assembly import assemble
from contextopt.engine.budget import LOW_RELEVANCE, least_worths
from contextopt.engine.details import Query, RecordDetail
from contextopt.engine.ranking import Relevance, Scored
from contextopt.engine.settings import ContextConfig
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.engine.validation import InvalidValue
from contextopt.engine.values import SpaceContext
from tests.contextopt.engine.factories import NOW, make_record
from tests.contextopt.engine.strategies import configs, spaces

TOKENIZER = get_tokenizer("cl100k_base")
ADAPTIVE = ContextConfig(stage=5, budget_mode="adaptive")
RECORDS = tuple(make_record(number, days_old=number) for number in range(1, 21))


def query(*semantic: float, is_relevant: bool = True) -> Query:
    found = {number: Relevance(semantic=part) for number, part in enumerate(semantic, 1)}
    return Query(frozenset(), found, {}, is_relevant)


def kept(asked: Query, config: ContextConfig = ADAPTIVE) -> list[int]:
    result = assemble(SpaceContext("S", "", (), RECORDS), config, NOW, TOKENIZER, query=asked)
    return [entry.id for entry in result.ledger if entry.kept]


def test_one_clear_answer_enters_alone() -> None:
    asked = query(9, *[2.5] * 19)
    assert kept(asked) == [1]
    assert len(kept(asked, ADAPTIVE.replace(budget_mode="fixed"))) == 20


def test_equally_relevant_records_enter_together() -> None:
    assert len(kept(query(*[6] * 20))) == 20


def test_the_rest_is_dropped_for_its_relevance() -> None:
    result = assemble(
        SpaceContext("S", "", (), RECORDS), ADAPTIVE, NOW, TOKENIZER, query=query(9, 8.5, *[1.0] * 18)
    )
    assert {entry.reason for entry in result.ledger if not entry.kept} == {LOW_RELEVANCE}
    assert result.stats.dropped_by_reason == {LOW_RELEVANCE: 18}
    # Nothing was dropped for the budget or the record limit.
    assert not result.stats.truncated


def test_recency_does_not_make_a_record_relevant() -> None:
    asked = Query(frozenset(), {20: Relevance(semantic=9.0)}, {})
    assert kept(asked) == [20]


def test_nothing_relevant_leaves_pinned_records_only() -> None:
    records = (replace(RECORDS[0], pinned=True), *RECORDS[1:])
    asked = query(3, *[2] * 19, is_relevant=False)
    result = assemble(SpaceContext("S", "", (), records), ADAPTIVE, NOW, TOKENIZER, query=asked)
    assert [entry.id for entry in result.ledger if entry.kept] == [1]
    assert kept(asked) == []
    assert len(kept(asked, ADAPTIVE.replace(budget_mode="fixed"))) == 20


def test_without_a_question_the_budget_is_filled() -> None:
    space = SpaceContext("S", "", (), RECORDS)
    adaptive = assemble(space, ADAPTIVE, NOW, TOKENIZER)
    assert adaptive.text == assemble(space, ADAPTIVE.replace(budget_mode="fixed"), NOW, TOKENIZER).text


def meeting(
    positions: list[int],
    semantic: list[float],
    pinned: int | None = None,
    strictness: str = "0",
    far_topic: float = 5.0,
    **changes: Any,
) -> tuple[list[int], list[int]]:
    """Return the positions of the turns of a topic that an adaptive and a fixed budget keep."""
    turns = [make_record(number, pinned=number == pinned) for number in range(1, len(positions) + 1)]
    relevant = {
        number: Relevance(semantic=part, neighbour=1.0, topic=far_topic if position > 500 else 5.0)
        for number, (part, position) in enumerate(zip(semantic, positions, strict=True), 1)
    }
    details = {
        number: RecordDetail("Ada", "message", (), f"Turn {number} at {position}.", "meeting", position)
        for number, position in enumerate(positions, 1)
    }
    asked = Query(frozenset(), relevant, details)
    kept = []
    for mode in ("adaptive", "fixed"):
        config = ADAPTIVE.replace(budget_mode=mode, adaptive_strictness=Decimal(strictness), **changes)
        result = assemble(SpaceContext("S", "", (), tuple(turns)), config, NOW, TOKENIZER, query=asked)
        kept.append([positions[entry.id - 1] for entry in result.ledger if entry.kept])
    return kept[0], kept[1]


TURNS = [*range(101, 120), 900]


def test_a_turn_that_stands_alone_is_left_out_wherever_it_ranks() -> None:
    """In a topic, what answers a question is said in one place."""
    adaptive, fixed = meeting(TURNS, [9.0, *[6.0] * 18, 8.0])
    assert fixed[1] == 900
    assert adaptive == [position for position in fixed if position != 900]


def test_the_most_relevant_and_pinned_turns_stay_if_alone() -> None:
    assert 900 in meeting(TURNS, [*[6.0] * 19, 9.0])[0]
    assert 900 in meeting(TURNS, [9.0, *[6.0] * 19], pinned=20)[0]


def test_the_turn_that_matches_best_by_itself_stays_if_alone() -> None:
    """Others are more relevant for the topic around them."""
    semantic = [*[6.0] * 17, 7.0, 7.0, 8.0]
    assert 900 in meeting(TURNS, semantic, far_topic=1.0)[0]
    assert 900 not in meeting(TURNS, [9.0, *semantic[1:]], far_topic=1.0)[0]


def test_a_stricter_budget_wants_turns_closer_together() -> None:
    positions = [3 * step**2 for step in range(20)]
    sizes = [len(meeting(positions, [6.0] * 20, strictness=each)[0]) for each in ("-0.4", "0", "0.4")]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[1] > sizes[2] > 0


@given(
    st.lists(st.integers(0, 400), min_size=2, max_size=25),
    st.integers(100, 2_000),
    st.sampled_from(["-0.5", "0", "0.5"]),
)
def test_of_a_meeting_adaptive_takes_some_that_fixed_takes(
    positions: list[int], budget: int, strictness: str
) -> None:
    semantic = [float(position % 11) for position in positions]
    adaptive, fixed = meeting(positions, semantic, strictness=strictness, context_tokens=budget)
    remaining = iter(fixed)
    assert all(position in remaining for position in adaptive)
    assert adaptive[:1] == fixed[:1]


def needed(
    tokens: int = 45, best: float = 6, usual_similarity: float | None = None, **parts: float
) -> list[float]:
    """Return what each of twenty records needs, as a share of the best."""
    records = [Scored(replace(record, tokens=tokens), 0) for record in RECORDS]
    alike = {record.id: Relevance(semantic=best, **parts) for record in RECORDS}
    asked = Query(frozenset(), alike, {}, usual_similarity=usual_similarity)
    return [least / (9 * best) for least in least_worths(records, asked, ADAPTIVE)]


def test_each_further_record_needs_more() -> None:
    shares = needed()
    assert shares == sorted(shares)
    assert 1.8 < shares[-1] / shares[0] < 2.1
    assert least_worths([], query(), ADAPTIVE) == []


def test_a_clear_match_leaves_room_for_less() -> None:
    assert needed(best=9)[0] > needed(best=4)[0]


def test_a_similar_record_leaves_room_for_less() -> None:
    """The usual cosine is that of the encoder; one without has no effect."""
    assert needed(usual_similarity=0.5)[0] > needed(usual_similarity=0.6)[0]
    assert needed(usual_similarity=0.6) == needed()


def test_long_records_need_less() -> None:
    assert needed(tokens=15)[0] > needed(tokens=45)[0] > needed(tokens=150)[0]


def test_records_of_a_thread_need_less_than_single_ones() -> None:
    assert needed(neighbour=0.1)[0] < 0.9 * needed()[0]


@given(st.lists(st.floats(0, 10), min_size=20, max_size=20), st.integers(100, 2_000))
def test_adaptive_takes_a_beginning_of_what_fixed_takes(parts: list[float], budget: int) -> None:
    asked, config = query(*parts), ADAPTIVE.replace(context_tokens=budget)
    fixed = kept(asked, config.replace(budget_mode="fixed"))
    adaptive = kept(asked, config)
    assert adaptive == fixed[: len(adaptive)]
    assert bool(adaptive) == bool(fixed)


@pytest.mark.parametrize("value", ["", "Fixed", "auto"])
def test_an_unknown_mode_is_refused(value: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        ContextConfig.from_json({"budget_mode": value})
    assert refused.value.field == "budget_mode"


def test_a_stricter_budget_asks_for_more_relevance() -> None:
    asked = query(9, 7, 6, 5, 4, 3, *[2] * 14)
    sizes = [
        len(kept(asked, ADAPTIVE.replace(adaptive_strictness=Decimal(value))))
        for value in ("-0.5", "-0.2", "0", "0.2", "0.5")
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[2] >= sizes[-1] > 0
    fixed = ADAPTIVE.replace(budget_mode="fixed", adaptive_strictness=Decimal("0.5"))
    assert len(kept(asked, fixed)) == 20


@pytest.mark.parametrize("value", ["-0.51", "0.501", "0.0001", "NaN", "x"])
def test_a_strictness_out_of_range_is_refused(value: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        ContextConfig.from_json({"adaptive_strictness": value})
    assert refused.value.field == "adaptive_strictness"


LEAN = ContextConfig(record_budget="adaptive")
WORDS = ("ledger", "snapshot", "payroll", "rollback", "invoice", "quota", "shard", "replica")


def test_without_a_question_the_records_that_say_the_most_enter() -> None:
    lines = [f"- [note] {word} {word}s{number} restored\n" for number, word in enumerate(WORDS)]
    thanks = [f"- [note] Ok, thanks, thanks {number % 2}\n" for number in range(16)]
    records = tuple(
        make_record(number, days_old=number / 100, line=line)
        for number, line in enumerate([*thanks, *lines], 1)
    )
    result = assemble(SpaceContext("S", "", (), records), LEAN, NOW, TOKENIZER)
    shown = {entry.id for entry in result.ledger if entry.kept}
    assert len(shown & set(range(17, 25))) > len(shown) / 2
    assert {entry.reason for entry in result.ledger if not entry.kept} == {LOW_RELEVANCE}
    assert not result.stats.truncated
    assert result.fixed_tokens is not None
    assert result.fixed_tokens > result.stats.tokens_used


def test_one_record_enters_even_if_it_is_all_there_is() -> None:
    space = SpaceContext("S", "", (), (make_record(1, days_old=1),))
    assert assemble(space, LEAN, NOW, TOKENIZER).order == (1,)


def test_pinned_records_stay() -> None:
    pinned = tuple(make_record(number, days_old=9, pinned=True) for number in (1, 2, 3))
    others = tuple(make_record(number, days_old=1) for number in range(4, 8))
    order = assemble(SpaceContext("S", "", (), pinned + others), LEAN, NOW, TOKENIZER).order
    assert set(order) >= {1, 2, 3}


def test_a_question_is_not_answered_with_less() -> None:
    asked = query(*[6] * 20)
    assert len(kept(asked, LEAN.replace(stage=5))) == 20


@given(space=spaces(), config=configs)
def test_an_adaptive_record_budget_stays_below_the_last_records(
    space: SpaceContext, config: ContextConfig
) -> None:
    lean = config.replace(record_budget="adaptive")
    result = assemble(space, lean, NOW, TOKENIZER)
    shown = [entry for entry in result.ledger if entry.kept]
    stats = result.stats
    assert stats.tokens_used <= result.allocation.context
    assert len(shown) <= (lean.max_records or len(shown))
    assert stats.records_included + stats.records_dropped == stats.records_filtered
    # Pinned records and the first one may exceed it, and so may a context without records.
    unpinned = [entry for entry in shown if not entry.pinned]
    if len(unpinned) == len(shown) > 1 and stats.stage3_tokens is not None:
        assert stats.tokens_used <= 0.8 * stats.stage3_tokens + 1
    backwards = replace(space, records=space.records[::-1])
    assert assemble(backwards, lean, NOW, TOKENIZER).text == result.text
