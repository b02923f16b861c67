"""Stage 5 as a whole: everything that holds for stage 4 also holds with a question."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.assembly import assemble
from contextopt.engine.budget import OVER_BUDGET, OVER_RECORD_LIMIT
from contextopt.engine.details import LARGEST_SHARE, SMALLEST_SHARE, Query, RecordDetail, record_limits
from contextopt.engine.placement.blocks import NOTHING, Sight, read_block
from contextopt.engine.ranking import Relevance
from contextopt.engine.rendering import summary_line
from contextopt.engine.settings import MIN_RECORD_TOKENS, ContextConfig
from contextopt.engine.text.cleaning import flatten
from contextopt.engine.values import Assembled, RecordSummary, SpaceContext
from tests.contextopt.engine.factories import NOW, TOKENIZER, make_space
from tests.contextopt.engine.strategies import record_lists, spaces, staged_configs, texts

CONFIG = ContextConfig(stage=5)


def make_detailed(id: int, notes: str, **overrides: object) -> tuple[RecordSummary, RecordDetail]:
    detail = RecordDetail(f"Record {id}", "note", (), notes)
    line = summary_line(detail.title, detail.type, NOW, (), notes)
    record = RecordSummary(id, NOW, 0, line, TOKENIZER.count(line))
    return replace(record, **overrides), detail  # type: ignore[arg-type]


def ask(
    pairs: list[tuple[RecordSummary, RecordDetail]],
    relevant: dict[int, Relevance],
    config: ContextConfig = CONFIG,
    terms: frozenset[str] = frozenset(),
    sight: Sight = NOTHING,
) -> Assembled:
    details = {record.id: detail for record, detail in pairs}
    space = make_space(*(record for record, _ in pairs))
    return assemble(space, config, NOW, TOKENIZER, query=Query(terms, relevant, details), sight=sight)


def make_message(id: int, name: str, notes: str, **overrides: object) -> tuple[RecordSummary, RecordDetail]:
    record, _ = make_detailed(id, notes, **overrides)
    return record, RecordDetail(name, "message", (), notes)


def test_the_relevant_go_first_with_whole_notes() -> None:
    notes = "A long story. " * 20
    assembled = ask([make_detailed(1, "Short."), make_detailed(2, notes)], {2: Relevance(9.0, 10.0)})
    assert assembled.order == (2, 1)
    assert flatten(notes) in assembled.text
    assert assembled.ledger[0].parts == {
        "recency": 10.0, "frequency": 0.0, "semantic": 9.0, "lexical": 10.0, "neighbour": 0.0, "date": 0.0,
        "who": 0.0, "topic": 0.0,
    }  # fmt: skip


def test_a_repetition_falls_and_names_its_original() -> None:
    notes = "The import failed because the supplier changed the order of the columns in the file."
    first, second = make_detailed(1, notes), make_detailed(2, notes)
    same = RecordDetail("Record 1", "note", (), notes)
    assembled = ask([first, (second[0], same)], {1: Relevance(10.0, 10.0)})
    assert assembled.order == (1,)
    assert [(entry.id, entry.reason, entry.duplicate_of) for entry in assembled.ledger] == [
        (1, "", None),
        (2, "duplicate_of", 1),
    ]
    assert assembled.stats.dropped_by_reason == {"duplicate_of": 1}
    assert not assembled.stats.truncated


def test_a_pinned_record_stays_whatever_it_repeats() -> None:
    detail = RecordDetail("Same", "note", (), "The same words in both of these records, to the letter.")
    pairs = [(make_detailed(n, "", pinned=True)[0], detail) for n in (1, 2)]
    assert ask(pairs, {}).stats.records_included == 2


def test_the_day_of_all_messages_stands_once_in_the_header() -> None:
    earlier = NOW.replace(hour=0)
    pairs = [make_message(1, "Ada", "Ready?", date=earlier), make_message(2, "Bo", "Yes.")]
    assembled = ask(pairs, {1: Relevance(9.0)})
    assert assembled.text == "Space: Platform\nDate: 2026-03-15\n\n- Ada: Ready?\n- Bo: Yes.\n"
    assert assembled.day == NOW.date()
    assert "(2026-03-15)" in (assembled.baseline_text or "")
    assert assembled.certificate.tokens == TOKENIZER.count(assembled.text)


def test_a_later_block_states_its_day_again() -> None:
    """A block of another day may stand between it and the block that stated the day."""
    first, second = make_message(1, "Ada", "Ready?"), make_message(2, "Bo", "The printer is on fire.")
    block = read_block(1, ask([first], {}).text, [(1, first[0].version)], TOKENIZER)
    sight = Sight.of([block])
    assert ask([first], {}, sight=sight).text == ""
    text = ask([first, second], {}, sight=sight).text
    assert text == "Space: Platform\nDate: 2026-03-15\n\n- Bo: The printer is on fire.\n"


@pytest.mark.parametrize(
    "other",
    [
        make_message(2, "Bo", "Yes.", date=NOW - timedelta(days=1)),
        make_detailed(2, "Yes."),
        make_message(2, "Bo (2024-01-01)", "Yes."),
    ],
)
def test_each_line_has_its_day_beside_another_day_or_type(other: tuple[RecordSummary, RecordDetail]) -> None:
    assembled = ask([make_message(1, "Ada", "Ready?"), other], {1: Relevance(9.0)})
    assert assembled.text.startswith("Space: Platform\n\n- Ada (2026-03-15): Ready?\n- ")
    assert assembled.day is None


def test_no_record_enters_where_the_day_does_not_fit() -> None:
    pairs = [make_message(1, "Ada", "Yes.")]
    plain = TOKENIZER.count("Space: Platform\n")
    texts = [ask(pairs, {}, CONFIG.replace(context_tokens=budget)).text for budget in range(plain, 40)]
    assert set(texts[:3]) == {"Space: Platform\n"}
    assert texts[-1].endswith("- Ada: Yes.\n")


@pytest.mark.parametrize("budget", [300, 1_000, 4_000])
def test_a_long_record_neither_empties_nor_fills_the_context(budget: int) -> None:
    long = make_detailed(1, "All work and no play makes Jack a dull boy number seven. " * 3_000)
    others = [make_detailed(number, f"Fact number {number} of the list.") for number in range(2, 9)]
    assembled = ask([long, *others], {1: Relevance(10.0, 10.0)}, CONFIG.replace(context_tokens=budget))
    assert assembled.order[0] == 1
    assert assembled.stats.records_included > 1
    assert assembled.ledger[0].tokens <= max(MIN_RECORD_TOKENS, budget // LARGEST_SHARE)


def test_long_records_are_as_long_as_the_setting_says() -> None:
    pairs = [make_detailed(number, f"Story {number} goes on and on. " * 200) for number in range(30)]
    assembled = ask(pairs, {number: Relevance(float(number % 10)) for number in range(30)})
    kept = [entry.tokens for entry in assembled.ledger if entry.kept]
    assert 13 <= len(kept) < 30
    assert all(100 < tokens <= 120 for tokens in kept)


def test_a_dense_summary_leaves_prose_its_room() -> None:
    """A summary of few characters per token says little about notes in another script."""
    record, detail = make_detailed(1, "The harbour was quiet, and nobody on the quay spoke a word. " * 50)
    line = f"- [note] {'\U0001f980' * 60}\n"
    dense = replace(record, line=line, tokens=TOKENIZER.count(line))
    assert dense.tokens > len(line)
    assembled = ask([(dense, detail)], {}, CONFIG.replace(context_tokens=480))
    assert assembled.ledger[0].tokens > 60


def test_the_size_doubles_as_long_as_all_records_fit() -> None:
    pairs = [make_detailed(number, f"Story {number} goes on and on. " * 200) for number in range(5)]
    assert [300 < entry.tokens <= 480 for entry in ask(pairs[:4], {}).ledger] == [True] * 4
    assert [180 < entry.tokens <= 240 for entry in ask(pairs, {}).ledger] == [True] * 5
    alone = ask(pairs[:1], {}).ledger[0].tokens
    assert 420 < alone <= CONFIG.context_tokens / LARGEST_SHARE


def test_the_limits_run_from_the_setting_to_a_quarter_of_the_room() -> None:
    assert list(record_limits(CONFIG, 2_000)) == [120, 240, 480, 500]
    assert list(record_limits(CONFIG, 450)) == [75, 112]
    assert list(record_limits(CONFIG, 10)) == [MIN_RECORD_TOKENS]
    assert next(record_limits(CONFIG, 64_000)) == 64_000 // SMALLEST_SHARE
    assert list(record_limits(CONFIG.replace(question_record_tokens=None), 2_000)) == [500]


def test_what_does_not_fit_is_passed_over() -> None:
    """Smaller records fill the room, and the text of one that did not fit makes nothing a repetition."""
    long = "The quarterly report lists every printer, its owner, its room and the day of its last repair. "
    pairs = [make_detailed(1, f"{long} {long.upper()}"), make_detailed(2, long * 2), make_detailed(3, "Ink.")]
    pairs.append((make_detailed(4, "")[0], replace(pairs[1][1], notes=f"{long * 2}Yes.")))
    relevant = {number: Relevance(10.0 - number) for number in range(1, 5)}
    config = CONFIG.replace(question_record_tokens=None, context_tokens=85)
    assembled = ask(pairs, relevant, config)
    assert assembled.order == (1, 3)
    assert [(entry.id, entry.reason) for entry in assembled.ledger] == [
        (1, ""), (3, ""), (2, "over_budget"), (4, "over_budget"),
    ]  # fmt: skip
    assert assembled.stats.dropped_by_reason == {"over_budget": 2}
    assert assembled.stats.truncated
    assert not assembled.wants_more_candidates


def test_small_records_without_texts_fill_the_room_with_their_summaries() -> None:
    pairs = [make_detailed(1, "Story. " * 60), make_detailed(2, "Story. " * 90)]
    small, _ = make_detailed(3, "Ink.")
    details = {record.id: detail for record, detail in pairs}
    space = make_space(*(record for record, _ in pairs), small)
    relevant = {number: Relevance(10.0 - number) for number in range(1, 4)}
    config = CONFIG.replace(question_record_tokens=None, context_tokens=100)
    assembled = assemble(space, config, NOW, TOKENIZER, query=Query(frozenset(), relevant, details))
    assert assembled.order == (1, 3)
    assert not assembled.wants_more_candidates
    everything = config.replace(context_tokens=2_000)
    larger = assemble(space, everything, NOW, TOKENIZER, query=Query(frozenset(), relevant, details))
    assert larger.wants_more_candidates


def test_of_long_notes_the_passage_about_the_question_is_given() -> None:
    filler = "Nothing of interest happened on that day. " * 100
    record = make_detailed(1, f"{filler}The vault code is changed every Tuesday. {filler}")
    assembled = ask([record], {}, CONFIG.replace(question_notes_chars=120), frozenset({"vault", "code"}))
    assert "The vault code is changed every Tuesday." in assembled.text


def test_without_a_question_it_is_stage_4() -> None:
    pairs = [make_detailed(number, f"Note {number}. " * 30) for number in range(30)]
    space = make_space(*(record for record, _ in pairs))
    asked = assemble(space, CONFIG, NOW, TOKENIZER)
    assert asked == assemble(space, CONFIG.replace(stage=4), NOW, TOKENIZER)


part = st.floats(0, 10)
relevance_maps = st.dictionaries(st.integers(0, 40), st.builds(Relevance, st.none() | part, *[part] * 5))


@given(record_lists(), spaces(), staged_configs, relevance_maps, st.lists(texts, min_size=5, max_size=5))
def test_the_properties_of_stage_4_hold(
    records: tuple[RecordSummary, ...],
    space: SpaceContext,
    config: ContextConfig,
    relevant: dict[int, Relevance],
    notes: list[str],
) -> None:
    config = config.replace(stage=5)
    details = {
        record.id: RecordDetail(f"Title {record.id % 7}", "note", ("tag",), notes[record.id % 5])
        for record in records
        if record.id % 4
    }
    space = replace(space, records=records)
    assembled = assemble(space, config, NOW, TOKENIZER, query=Query(frozenset({"a"}), relevant, details))
    stats = assembled.stats
    assert TOKENIZER.count(assembled.text) == stats.tokens_used <= assembled.allocation.context
    assert stats.records_included + stats.records_dropped == stats.records_filtered
    assert sum(stats.dropped_by_reason.values()) == stats.records_dropped
    assert config.question_max_records is None or stats.records_included <= config.question_max_records
    kept = [entry for entry in assembled.ledger if entry.kept]
    assert [entry.id for entry in kept] == [entry.id for entry in assembled.ledger][: len(kept)]
    unpinned = [entry.score for entry in kept if not entry.pinned]
    assert unpinned == sorted(unpinned, reverse=True)
    for dropped in assembled.ledger:
        lower = [entry for entry in kept if (entry.pinned, entry.score) < (dropped.pinned, dropped.score)]
        if dropped.reason == OVER_BUDGET:
            assert all(entry.tokens < dropped.tokens for entry in lower)
        assert dropped.reason != OVER_RECORD_LIMIT or not lower
    assert not {record.id for record in records if record.deleted} & {entry.id for entry in assembled.ledger}
    again = assemble(space, config, NOW, TOKENIZER, query=Query(frozenset({"a"}), relevant, details))
    assert again.text == assembled.text


@given(record_lists(), staged_configs, staged_configs, st.lists(texts, min_size=5, max_size=5))
def test_drafts_of_one_selection_change_no_later_one(
    records: tuple[RecordSummary, ...], first: ContextConfig, second: ContextConfig, notes: list[str]
) -> None:
    details = {
        each.id: RecordDetail(f"Title {each.id % 7}", "note", (), notes[each.id % 5]) for each in records
    }
    space, relevant = make_space(*records), {each.id: Relevance(float(each.id % 9)) for each in records}
    used, fresh = (Query(frozenset({"a"}), relevant, details) for _ in range(2))
    assemble(space, first.replace(stage=5), NOW, TOKENIZER, query=used)
    config = second.replace(stage=5)
    assert assemble(space, config, NOW, TOKENIZER, query=used) == assemble(
        space, config, NOW, TOKENIZER, query=fresh
    )
