"""Properties of every assembly, on hostile input, compared with a slow and plain second implementation."""

from collections import Counter
from datetime import datetime, timedelta
from fractions import Fraction

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.assembly import assemble
from contextopt.engine.budget import allocate
from contextopt.engine.rendering import header, render, summary_line
from contextopt.engine.settings import ContextConfig
from contextopt.engine.text.cleaning import flatten, flatten_to
from contextopt.engine.text.tokens import HeuristicTokenizer
from contextopt.engine.validation import BudgetExceeded, InvalidValue
from contextopt.engine.values import Assembled, FilterCounts, PartSizes, RecordSummary, SpaceContext
from tests.contextopt.engine.factories import NOW, TOKENIZER, make_record, make_space
from tests.contextopt.engine.strategies import (
    configs,
    dates,
    record_lists,
    spaces,
    staged_configs,
    texts,
)

LINE_BREAKS = regex.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")


def oracle_candidates(space: SpaceContext, config: ContextConfig) -> list[RecordSummary]:
    window = timedelta.max if config.window_days is None else timedelta(days=config.window_days)
    return [
        record
        for record in space.records
        if not record.deleted and (record.pinned or is_inside(record.date, window))
    ]


def is_inside(date: datetime, window: timedelta) -> bool:
    # Written as differences from NOW, so that no limit such as NOW - 3650 days is computed.
    return NOW - date <= window and date - NOW <= timedelta(hours=24)


def oracle_score(record: RecordSummary, config: ContextConfig) -> Fraction:
    days_old = max(Fraction(0), Fraction((NOW - record.date) // timedelta(microseconds=1), 86_400_000_000))
    recency = max(Fraction(0), 10 - days_old / 30 * 10)
    frequency = min(10, record.view_count)
    return Fraction(config.recency_weight) * recency + Fraction(config.frequency_weight) * frequency


def oracle_ranking(space: SpaceContext, config: ContextConfig) -> list[RecordSummary]:
    left = oracle_candidates(space, config)
    ranking = []
    while left:
        best = left[0]
        for record in left[1:]:
            if oracle_key(record, config) > oracle_key(best, config):
                best = record
        ranking.append(best)
        left.remove(best)
    return ranking


def oracle_key(record: RecordSummary, config: ContextConfig) -> tuple[object, ...]:
    return record.pinned, oracle_score(record, config), record.date, record.id


def oracle_kept(space: SpaceContext, config: ContextConfig) -> list[int]:
    """Render ever longer prefixes of the ranking and count each as a whole."""
    if TOKENIZER.count(header(space)) > config.context_tokens:
        return []
    ranking = oracle_ranking(space, config)
    limit = len(ranking) if config.max_records is None else min(len(ranking), config.max_records)
    kept = 0
    while kept < limit and TOKENIZER.count(render(space, ranking[: kept + 1])) <= config.context_tokens:
        kept += 1
    return [record.id for record in ranking[:kept]]


def run(space: SpaceContext, config: ContextConfig) -> Assembled:
    return assemble(space, config, NOW, TOKENIZER)


def kept_ids(assembled: Assembled) -> list[int]:
    return [entry.id for entry in assembled.ledger if entry.kept]


@given(spaces(), configs)
def test_matches_the_plain_implementation(space: SpaceContext, config: ContextConfig) -> None:
    assembled = run(space, config)
    assert kept_ids(assembled) == oracle_kept(space, config)
    ranking = [record.id for record in oracle_ranking(space, config)]
    assert [entry.id for entry in assembled.ledger] == ranking[: len(assembled.ledger)]


@given(record_lists(max_size=12), record_lists(max_size=12), staged_configs)
def test_1_space_isolation(
    ours: tuple[RecordSummary, ...], theirs: tuple[RecordSummary, ...], config: ContextConfig
) -> None:
    before = run(make_space(*ours), config)
    run(make_space(*theirs, name="Other"), config)
    assert run(make_space(*ours), config) == before
    lines = {record.line for record in ours}
    assert (
        set(before.text.splitlines(keepends=True)) <= lines | {"Space: Platform\n", "\n"}
        or "…" in before.text
    )
    assert set(before.order) <= {record.id for record in ours}


@given(spaces(), staged_configs)
def test_2_deleted_records_excluded(space: SpaceContext, config: ContextConfig) -> None:
    assembled = run(space, config)
    deleted = {record.id for record in space.records if record.deleted}
    assert not deleted & {entry.id for entry in assembled.ledger}
    assert assembled.stats.deleted == (0 if config.stage == 2 else len(deleted))


@given(texts, texts, dates, st.lists(texts, max_size=10), texts)
def test_3_summary_is_one_bounded_line(
    title: str, type: str, date: datetime, tags: list[str], notes: str
) -> None:
    line = summary_line(title, type, date, tags, notes)
    assert LINE_BREAKS.search(line[:-1]) is None and line.startswith("- ") and line.endswith("\n")
    assert len(flatten_to(notes, 100)) <= 100
    assert len(line) <= 2 + 35 + 120 + 13 + 8 * 34 + 2 + 100 + 1
    line.encode()
    # Any input makes a valid line of a record.
    make_record(date=date, line=line)


@given(texts, st.integers(1, 60))
def test_3_a_cut_is_never_inside_a_grapheme(text: str, limit: int) -> None:
    flat, shown = flatten(text), flatten_to(text, limit)
    assert flatten(flat) == flat
    if len(flat) <= limit:
        assert shown == flat
        return
    assert len(shown) <= limit and shown.endswith("…")
    beginnings = {""}
    beginning = ""
    for grapheme in regex.findall(r"\X", flat):
        beginning += grapheme
        beginnings.add(beginning.rstrip())
    assert shown[:-1] in beginnings


@given(spaces(), staged_configs, st.integers(0, 1500), st.integers(0, 1500))
def test_4_budget_never_exceeded(
    space: SpaceContext, config: ContextConfig, system: int, history: int
) -> None:
    config = config.replace(total_tokens=None, system_tokens=1500, history_tokens=1500)
    for tokenizer in (TOKENIZER, HeuristicTokenizer()):
        assembled = assemble(space, config, NOW, tokenizer, sizes=PartSizes(system, history))
        tokens = tokenizer.count(assembled.text)
        assert tokens == assembled.stats.tokens_used == assembled.certificate.tokens
        assert tokens <= assembled.allocation.context == assembled.stats.tokens_available


@given(spaces(), configs)
def test_4_holds_when_the_stored_counts_are_wrong(space: SpaceContext, config: ContextConfig) -> None:
    records = tuple(
        make_record(r.id, date=r.date, line=r.line, tokens=1, view_count=r.view_count) for r in space.records
    )
    lying = make_space(*records, name=space.name, description=space.description)
    assembled = run(lying, config)
    assert TOKENIZER.count(assembled.text) <= config.context_tokens
    assert kept_ids(assembled) == oracle_kept(lying, config)


@given(spaces(), configs)
def test_5_date_window_respected(space: SpaceContext, config: ContextConfig) -> None:
    by_id = {record.id: record for record in space.records}
    assembled = run(space, config)
    days = timedelta.max if config.window_days is None else timedelta(days=config.window_days)
    for entry in assembled.ledger:
        assert entry.pinned or is_inside(by_id[entry.id].date, days)
    outside = [r for r in space.records if not (r.deleted or r.pinned or is_inside(r.date, days))]
    assert assembled.stats.outside_window == len(outside)


@given(spaces(), staged_configs)
def test_6_at_most_max_records(space: SpaceContext, config: ContextConfig) -> None:
    included = run(space, config).stats.records_included
    assert config.max_records is None or included <= config.max_records
    assert config.stage != 3 or included <= 10
    assert config.stage != 2 or included == 0


@given(spaces(), configs)
def test_7_sorted_by_relevance(space: SpaceContext, config: ContextConfig) -> None:
    assembled = run(space, config.replace(record_order="score"))
    by_id = {record.id: record for record in space.records}
    keys = [oracle_key(by_id[id], config) for id in assembled.order]
    assert keys == sorted(keys, key=lambda key: key, reverse=True)
    stable = run(space, config.replace(record_order="stable"))
    moments = [(by_id[id].date, id) for id in stable.order]
    assert moments == sorted(moments)


@given(configs, st.integers(0, 9000), st.integers(0, 9000), st.none() | st.integers(1000, 9000))
def test_8_response_reservation(config: ContextConfig, system: int, history: int, total: int | None) -> None:
    config = config.replace(total_tokens=total)
    try:
        parts = allocate(config, PartSizes(system, history))
    except BudgetExceeded as error:
        missing = error.missing
        assert missing > 0
        assert config.total_for(4) + missing - system - history == config.response_tokens
        return
    assert parts.response >= config.response_tokens >= 1000
    assert parts.system + parts.history + parts.context + parts.response == parts.total
    assert 0 <= parts.context <= config.context_tokens


@given(spaces(), staged_configs, st.randoms(use_true_random=False))
def test_9_same_input_same_bytes(space: SpaceContext, config: ContextConfig, random: object) -> None:
    first = run(space, config)
    assert run(space, config) == first
    shuffled = list(space.records)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    again = SpaceContext(space.name, space.description, space.categories, tuple(shuffled))
    assert run(again, config) == first


@given(spaces(), configs)
def test_10_no_dropped_record_outranks_a_kept_one(space: SpaceContext, config: ContextConfig) -> None:
    kept = set(kept_ids(run(space, config)))
    candidates = [record for record in oracle_candidates(space, config) if not record.pinned]
    keys = [(oracle_key(record, config), record.id in kept) for record in candidates]
    worst_kept = min((key for key, is_kept in keys if is_kept), default=None)
    if worst_kept is not None:
        assert all(key < worst_kept for key, is_kept in keys if not is_kept)


@given(spaces(), staged_configs, st.none() | st.integers(0, 500))
def test_11_stats_add_up(space: SpaceContext, config: ContextConfig, unseen: int | None) -> None:
    whole = run(space, config)
    stats = whole.stats
    if config.stage != 2:
        everything = stats.records_filtered + stats.outside_window + stats.deleted
        assert everything == len(space.records)
    counts = None if unseen is None else FilterCounts(stats.records_filtered + unseen, 3, 4)
    assembled = assemble(space, config, NOW, TOKENIZER, counts=counts)
    stats = assembled.stats
    assert stats.records_included + stats.records_dropped == stats.records_filtered
    assert sum(stats.dropped_by_reason.values()) == stats.records_dropped
    assert 0 not in stats.dropped_by_reason.values()
    assert assembled.text == whole.text
    kept = kept_ids(assembled)
    assert len(kept) == stats.records_included and sorted(kept) == sorted(assembled.order)
    named = Counter(entry.reason for entry in assembled.ledger if not entry.kept)
    assert named.total() <= 100
    assert all(named[reason] <= stats.dropped_by_reason.get(reason, 0) for reason in named)
    assert stats.truncated or stats.records_dropped == 0


@given(spaces(), configs)
def test_the_comparison_is_what_stage_3_costs(space: SpaceContext, config: ContextConfig) -> None:
    config = config.replace(max_records=None)
    assembled = run(space, config)
    stage3 = run(space, config.replace(stage=3))
    assert assembled.baseline_text == stage3.text
    assert assembled.stats.stage3_tokens == stage3.stats.tokens_used
    assert assembled.stats.tokens_saved == stage3.stats.tokens_used - assembled.stats.tokens_used


@given(spaces())
def test_tokens_of_lines_add_up(space: SpaceContext) -> None:
    if space.records:
        parts = TOKENIZER.count(header(space) + "\n") + sum(record.tokens for record in space.records)
        assert TOKENIZER.count(render(space, space.records)) == parts


@given(spaces(), st.data())
def test_only_the_best_candidates_need_to_be_given(space: SpaceContext, data: st.DataObject) -> None:
    """Pass what a database does: the best records, and the rest as counts."""
    config = data.draw(configs).replace(max_records=data.draw(st.integers(1, 10)))
    whole = run(space, config)
    best = tuple(oracle_ranking(space, config)[:11])
    part = SpaceContext(space.name, space.description, space.categories, best)
    counts = FilterCounts(whole.stats.records_filtered, whole.stats.outside_window, whole.stats.deleted)
    assembled = assemble(part, config, NOW, TOKENIZER, counts=counts, baseline=space.records)
    assert (assembled.text, assembled.stats) == (whole.text, whole.stats)
    assert assembled.baseline_text == whole.baseline_text
    assert not assembled.wants_more_candidates


@given(st.datetimes())
def test_naive_dates_are_refused(moment: datetime) -> None:
    with pytest.raises(InvalidValue, match="date: must have a time zone"):
        make_record(date=moment)
    with pytest.raises(InvalidValue, match="now: must have a time zone"):
        assemble(make_space(), ContextConfig(), moment, TOKENIZER)
