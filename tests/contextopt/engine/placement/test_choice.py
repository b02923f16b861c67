"""The place of a conversation's contexts, the blocks that stay in sight, and the cost."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.assembly import assemble
from contextopt.engine.placement.blocks import Block, Sight, read_block
from contextopt.engine.placement.choice import (
    CachePrices,
    Conversation,
    LastPrompt,
    Place,
    Placed,
    place_context,
)
from contextopt.engine.rendering import summary_line
from contextopt.engine.settings import ContextConfig
from contextopt.engine.values import Assembled, RecordSummary
from tests.contextopt.engine.factories import NOW, TOKENIZER, make_record, make_space

CHEAP_READS, DEAR_READS = CachePrices(0.1, 1.25), CachePrices(0.5, 1.0)
CONTEXT_TOKENS = 400
CONFIG = ContextConfig(stage=4, window_days=None, max_records=None, context_tokens=CONTEXT_TOKENS)


def make_notes(ids: Sequence[int]) -> list[RecordSummary]:
    """Return records of which those named first rank first."""
    notes = []
    for place, id in enumerate(ids):
        line = summary_line(f"Note {id}", "note", NOW, [], f"What was decided in meeting {id}, word by word.")
        notes.append(make_record(id, days_old=place / 100, line=line))
    return notes


def decider(ids: Sequence[int]) -> Callable[[Sight], Assembled]:
    space = make_space(*make_notes(ids))
    return lambda sight: assemble(space, CONFIG, NOW, TOKENIZER, sight=sight)


def play(
    questions: Sequence[Sequence[int]],
    *,
    placement: str = "append",
    prices: CachePrices = CHEAP_READS,
    bound: int = 4 * CONTEXT_TOKENS,
    lost: Callable[[tuple[Block, ...]], tuple[Block, ...]] = lambda blocks: blocks,
) -> list[Placed]:
    """Send a prompt for each question. `lost` removes blocks that the caller no longer holds."""
    conversation, prompts = Conversation(800, question_tokens=20), []
    for number, ids in enumerate(questions):
        placed = place_context(Place(placement, prices, bound), conversation, decider(ids))
        prompts.append(placed)
        outcome, history = placed.outcome, conversation.history_tokens
        block = read_block(
            number, outcome.text, [(id, 1) for id in outcome.order], TOKENIZER,
            after_tokens=history, question_tokens=20,
        )  # fmt: skip
        held = lost((*placed.kept, block)) if placed.carries_on else ()
        last = LastPrompt(placed.placement, outcome.text, 800, history, 20, number)
        conversation = Conversation(800, history + 140, 20, held, last)
    return prompts


question_lists = st.lists(
    st.lists(st.integers(1, 60), min_size=1, max_size=40, unique=True), min_size=1, max_size=8
)


def shown_ids(placed: Placed) -> set[int]:
    return {entry.id for entry in placed.outcome.ledger if entry.kept}


@given(question_lists, st.integers(0, 2_400), st.sampled_from(["append", "auto"]))
def test_appended_contexts_keep_their_budgets(questions: list[list[int]], bound: int, placement: str) -> None:
    for placed in play(questions, bound=bound, placement=placement):
        certificate = placed.outcome.certificate
        carried = sum(block.tokens for block in placed.kept)
        assert certificate.tokens == TOKENIZER.count(placed.outcome.text) <= CONTEXT_TOKENS
        assert certificate.carried_tokens == carried
        assert certificate.total_tokens == certificate.tokens + carried
        assert placed.outcome.stats.tokens_used <= placed.outcome.stats.tokens_available
        if carried:
            assert certificate.total_tokens <= bound
        if placed.is_rewritten and placement == "append":
            assert carried <= bound / 2


@given(question_lists, st.data())
def test_no_record_is_lost_with_the_blocks_that_the_caller_lost(
    questions: list[list[int]], data: st.DataObject
) -> None:
    def lose(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
        return tuple(block for block in blocks if data.draw(st.booleans()))

    for ids, placed in zip(questions, play(questions, lost=lose), strict=True):
        alone = decider(ids)(Sight())
        in_sight = {id for block in placed.kept for id in block.records} | set(placed.outcome.order)
        assert set(alone.order) <= in_sight
        assert set(alone.order) <= shown_ids(placed)


def test_at_the_bound_blocks_stay_down_to_half_of_it() -> None:
    questions = [range(start, start + 40) for start in range(0, 400, 40)]
    prompts = play(questions)
    rewritten = [placed for placed in prompts if placed.is_rewritten]
    assert rewritten
    for placed in rewritten:
        assert 0 < placed.sight.tokens <= 4 * CONTEXT_TOKENS / 2
    numbers = [number for number, placed in enumerate(prompts) if placed.is_rewritten]
    assert all(after - before > 1 for before, after in pairwise(numbers))


def test_the_blocks_that_stay_are_the_first_so_their_prefix_does_too() -> None:
    prompts = play([range(start, start + 40) for start in range(0, 400, 40)])
    for before, after in pairwise(prompts):
        assert [block.id for block in after.kept[: len(before.kept)]] == [
            block.id for block in before.kept[: len(after.kept)]
        ]
        if after.is_rewritten:
            assert after.shared_tokens >= 800 + after.sight.tokens


def test_appended_prompts_share_all_of_the_last_one() -> None:
    first, second = play([range(1, 10), range(5, 15)])
    assert first.shared_tokens == 0
    assert second.shared_tokens == first.split.tokens


def test_at_the_tail_only_system_prompt_and_history_are_shared() -> None:
    prompts = play([range(1, 10)] * 3, placement="tail")
    assert [placed.shared_tokens for placed in prompts] == [0, 800, 940]
    assert {placed.outcome.text for placed in prompts} == {prompts[0].outcome.text}


def test_in_the_system_prompt_a_new_context_changes_what_follows() -> None:
    prompts = play([range(1, 10), range(20, 30)], placement="system")
    assert prompts[1].shared_tokens == 800


def test_in_the_system_prompt_the_same_context_shares_all() -> None:
    def prefix(before: str, after: str) -> tuple[int, bool]:
        return TOKENIZER.count(after), before == after

    last = LastPrompt("system", decider(range(1, 10))(Sight()).text, 800, 0, 20, 1)
    place = Place("system", CHEAP_READS, 0, prefix)
    placed = place_context(place, Conversation(800, 140, 20, (), last), decider(range(1, 10)))
    assert placed.shared_tokens == 800 + placed.outcome.certificate.tokens + 20


def test_auto_appends_where_reads_are_cheap() -> None:
    questions = [range(start, start + 40) for start in range(0, 100, 10)]
    prompts = play(questions, placement="auto")
    assert {placed.placement for placed in prompts} == {"append"}


@pytest.mark.parametrize("prices", [DEAR_READS, CachePrices()])
def test_auto_costs_no_more_than_the_best(prices: CachePrices) -> None:
    questions = [range(start, start + 40) for start in range(0, 300, 30)]
    costs = {
        name: sum(placed.cost for placed in play(questions, placement=name, prices=prices))
        for name in ("system", "tail", "append", "auto")
    }
    assert costs["auto"] <= 1.05 * min(costs.values())


def test_after_a_long_pause_nothing_is_worth_carrying() -> None:
    block = read_block(1, "Space: A\n", [], TOKENIZER)
    last = LastPrompt("append", "Space: A\n", 800, 2_000, 20, 1, idle_seconds=3_600)
    conversation = Conversation(800, 2_140, 20, (block,), last)
    placed = place_context(Place("auto", CHEAP_READS, 1_600), conversation, decider(range(1, 30)))
    assert placed.split.cached == 0
    assert placed.kept == ()


@pytest.mark.parametrize("placement", ["tail", "append"])
def test_history_that_was_cut_shares_only_the_system_prompt(placement: str) -> None:
    text = decider(range(1, 10))(Sight()).text
    block = read_block(1, text, [(id, 1) for id in range(1, 10)], TOKENIZER, after_tokens=1_800)
    last = LastPrompt("append", text, 800, 2_000, 20, 1)
    conversation = Conversation(800, 500, 20, (block,) if placement == "append" else (), last)
    placed = place_context(Place(placement, CHEAP_READS, 4_000), conversation, decider(range(1, 30)))
    assert bool(placed.kept) == (placement == "append")
    assert placed.shared_tokens == 800
