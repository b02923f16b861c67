import doctest
import hashlib
import subprocess
import sys
from datetime import datetime, timedelta

import pytest

from contextopt import engine
from contextopt.engine.assembly import assemble
from contextopt.engine.settings import ContextConfig
from contextopt.engine.text.tokens import HeuristicTokenizer
from contextopt.engine.validation import BudgetExceeded, InvalidValue
from contextopt.engine.values import Assembled, FilterCounts, PartSizes, SpaceContext
from tests.contextopt.engine.factories import NOW, TOKENIZER, make_record, make_space

STAGE_2, STAGE_3, STAGE_4 = (ContextConfig(stage=stage) for stage in (2, 3, 4))


def run(space: SpaceContext, config: ContextConfig = STAGE_4) -> Assembled:
    return assemble(space, config, NOW, TOKENIZER)


def make_full_space(count: int = 30) -> SpaceContext:
    return make_space(*(make_record(id, days_old=id / 4) for id in range(1, count + 1)))


def test_docstring_example() -> None:
    assert doctest.testmod(engine).failed == 0
    assert doctest.testmod(engine).attempted > 5


def test_imports_without_django() -> None:
    code = (
        "import sys, contextopt.engine.assembly; "
        "assert 'django' not in sys.modules and 'requests' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_stage_4_end_to_end() -> None:
    assembled = run(make_full_space())
    stats = assembled.stats
    assert assembled.order == tuple(range(1, 21))
    assert (stats.records_filtered, stats.records_included, stats.records_dropped) == (30, 20, 10)
    assert stats.dropped_by_reason == {"over_record_limit": 10}
    assert stats.compression_ratio == 20 / 30
    assert stats.truncated
    assert stats.tokens_used == TOKENIZER.count(assembled.text) <= stats.tokens_available == 2000
    assert stats.utilisation == stats.tokens_used / 2000
    assert stats.assembly_ms is None
    assert (
        stats.stage3_tokens is not None and stats.tokens_saved == stats.stage3_tokens - stats.tokens_used < 0
    )
    assert [entry.kept for entry in assembled.ledger] == [True] * 20 + [False] * 10
    best = assembled.ledger[0]
    assert best.parts == {"recency": pytest.approx(10 - 1 / 12), "frequency": 0}
    assert best.score == pytest.approx(0.7 * best.parts["recency"])


def test_certificate_proves_the_text() -> None:
    assembled = run(make_space(name="\u00c5rsplan"))
    certificate = assembled.certificate
    assert certificate.sha256 == hashlib.sha256("Space: \u00c5rsplan\n".encode()).hexdigest()
    assert (certificate.tokens, certificate.encoding) == (assembled.stats.tokens_used, "cl100k_base")
    assert certificate.tokenizer_version == TOKENIZER.version


def test_stage_4_drops_for_the_budget() -> None:
    assembled = run(make_full_space(), ContextConfig(context_tokens=100))
    stats = assembled.stats
    assert stats.dropped_by_reason == {"over_budget": stats.records_dropped}
    assert 0 < stats.records_included < 20
    assert stats.utilisation is not None and stats.utilisation > 0.8


def test_stage_3_takes_the_last_ten_whatever_is_pinned_or_old() -> None:
    records = [make_record(id, days_old=id * 10) for id in range(12)]
    records += [make_record(50, days_old=500, pinned=True), make_record(51, deleted=True)]
    records += [
        make_record(52, date=NOW + timedelta(hours=24)),
        make_record(53, date=NOW + timedelta(hours=25)),
    ]
    assembled = run(make_space(*records), STAGE_3)
    assert assembled.order == (52, 0, 1, 2, 3, 4, 5, 6, 7, 8)
    stats = assembled.stats
    assert (stats.records_filtered, stats.outside_window, stats.deleted) == (14, 1, 1)
    assert stats.dropped_by_reason == {"over_record_limit": 4}
    assert stats.stage3_tokens is None and assembled.baseline_text is None
    assert {(entry.score, *entry.parts) for entry in assembled.ledger} == {(0.0,)}


def test_stage_3_enforces_its_allocation_and_a_lower_record_limit() -> None:
    space = make_full_space()
    assembled = run(space, ContextConfig(stage=3, stage3_context_tokens=60))
    assert assembled.stats.dropped_by_reason == {"over_budget": assembled.stats.records_dropped}
    assert assembled.allocation.context == 60
    assert run(space, ContextConfig(stage=3, max_records=3)).stats.records_included == 3
    assert run(space, ContextConfig(stage=3, max_records=None)).stats.records_included == 10


def test_stage_2_is_the_header_alone() -> None:
    assembled = run(make_full_space(), STAGE_2)
    assert assembled.text == "Space: Platform\n"
    stats = assembled.stats
    assert (stats.records_filtered, stats.records_dropped, stats.compression_ratio) == (0, 0, None)
    assert assembled.ledger == () and not stats.truncated


def test_empty_space() -> None:
    stats = run(make_space(name="", description="")).stats
    assert (stats.compression_ratio, stats.records_filtered, stats.tokens_saved) == (None, 0, 0)


def test_pinned_go_first_and_are_dropped_too_when_the_budget_is_gone() -> None:
    space = make_space(
        make_record(1, view_count=10), *(make_record(id, days_old=90, pinned=True) for id in (2, 3, 4))
    )
    assert run(space).order == (4, 3, 2, 1)
    assembled = run(space, ContextConfig(max_records=2))
    assert assembled.order == (4, 3)
    assert [(e.id, e.pinned, e.reason) for e in assembled.ledger[2:]] == [
        (2, True, "over_record_limit"),
        (1, False, "over_record_limit"),
    ]


def test_stable_order_grows_at_the_end() -> None:
    config = ContextConfig(record_order="stable")
    old = [make_record(id, days_old=9 - id, view_count=id % 3) for id in range(1, 6)]
    before = run(make_space(*old), config).text
    assert run(make_space(*old, make_record(9)), config).text.startswith(before)


def test_as_of_ignores_records_dated_later() -> None:
    space = make_space(make_record(1, days_old=20), make_record(2, days_old=1))
    then = NOW - timedelta(days=15)
    assembled = assemble(space, STAGE_4, then, TOKENIZER)
    assert assembled.order == (1,)
    assert assembled.stats.outside_window == 1
    assert assembled.baseline_text is not None and "Record 2" not in assembled.baseline_text


def test_context_of_zero_tokens_is_empty() -> None:
    assembled = run(make_full_space(), ContextConfig(context_tokens=0))
    assert assembled.text == "" and assembled.certificate.tokens == 0
    assert assembled.stats.utilisation is None
    assert assembled.stats.dropped_by_reason == {"over_budget": 30}


def test_a_header_over_the_budget_is_cut_and_says_so() -> None:
    assembled = run(make_space(description="many words " * 3000))
    assert assembled.stats.truncated and assembled.stats.records_dropped == 0
    assert 1980 <= assembled.stats.tokens_used <= 2000


def test_long_history_shrinks_the_context_and_then_is_an_error() -> None:
    assembled = assemble(make_full_space(), STAGE_4, NOW, TOKENIZER, sizes=PartSizes(history=2900))
    assert assembled.allocation.context == 100 >= assembled.stats.tokens_used
    with pytest.raises(BudgetExceeded) as caught:
        assemble(make_full_space(), STAGE_4, NOW, TOKENIZER, sizes=PartSizes(history=3100))
    assert caught.value.missing == 100


def test_counts_of_a_bigger_set() -> None:
    space = make_full_space(count=25)
    assembled = assemble(space, STAGE_4, NOW, TOKENIZER, counts=FilterCounts(5000, 70, 8), baseline=())
    stats = assembled.stats
    assert (stats.records_filtered, stats.records_dropped) == (5000, 4980)
    assert (stats.outside_window, stats.deleted) == (70, 8)
    assert stats.dropped_by_reason == {"over_record_limit": 4980}
    assert stats.stage3_tokens == TOKENIZER.count("Space: Platform\n")
    assert not assembled.wants_more_candidates


def test_ledger_names_the_best_hundred_of_the_dropped() -> None:
    assembled = run(make_space(*(make_record(id, days_old=id / 100) for id in range(200))))
    assert [entry.id for entry in assembled.ledger] == list(range(120))
    assert assembled.stats.dropped_by_reason == {"over_record_limit": 180}


def test_too_few_candidates_are_reported() -> None:
    space = make_full_space(count=5)
    assembled = assemble(space, STAGE_4, NOW, TOKENIZER, counts=FilterCounts(50), baseline=())
    assert assembled.wants_more_candidates
    assert assembled.stats.dropped_by_reason == {"not_loaded": 45}


def test_counts_that_lag_behind_the_rows() -> None:
    space = make_full_space(count=5)
    stats = assemble(space, STAGE_4, NOW, TOKENIZER, counts=FilterCounts(3), baseline=()).stats
    assert (stats.records_filtered, stats.records_included, stats.records_dropped) == (5, 5, 0)


def test_baseline_is_given_apart_from_the_candidates() -> None:
    last = tuple(make_record(id, days_old=0) for id in range(100, 115))
    assembled = assemble(make_full_space(3), STAGE_4, NOW, TOKENIZER, counts=FilterCounts(3), baseline=last)
    assert assembled.baseline_text is not None
    assert assembled.stats.stage3_tokens == TOKENIZER.count(assembled.baseline_text)
    assert assembled.baseline_text.count("\n- ") == 10
    assert assembled.stats.tokens_saved is not None and assembled.stats.tokens_saved > 0


def test_no_comparison_if_stage_3_could_not_be_assembled() -> None:
    config = ContextConfig(stage3_context_tokens=0)
    assembled = assemble(make_full_space(), config, NOW, TOKENIZER, sizes=PartSizes(history=2000))
    assert assembled.stats.stage3_tokens is None and assembled.stats.tokens_saved is None


def test_heuristic_tokenizer_is_counted_on_the_text_too() -> None:
    assembled = assemble(make_full_space(), STAGE_4, NOW, HeuristicTokenizer())
    assert assembled.certificate.encoding == "heuristic"
    assert assembled.stats.tokens_used == -(-len(assembled.text) // 4)
    assert assembled.baseline_text is not None
    assert assembled.stats.stage3_tokens == -(-len(assembled.baseline_text) // 4)


def test_at_the_ends_of_time() -> None:
    for moment in (datetime.min, datetime.max):
        now = moment.replace(tzinfo=NOW.tzinfo)
        assert assemble(make_space(make_record(date=now)), STAGE_4, now, TOKENIZER).order == (1,)


def test_a_record_twice_in_the_baseline_is_refused() -> None:
    with pytest.raises(InvalidValue, match="baseline"):
        assemble(make_space(), STAGE_4, NOW, TOKENIZER, baseline=(make_record(1), make_record(1)))


def test_the_blank_line_before_the_records_is_counted() -> None:
    # After most names the two line breaks are one token; after this one they are two.
    space = make_space(make_record(1), name="a:)")
    text = run(space).text
    exact = TOKENIZER.count(text)
    assert exact == TOKENIZER.count("Space: a:)\n") + 1 + space.records[0].tokens
    assert run(space, ContextConfig(context_tokens=exact)).text == text
    assembled = run(space, ContextConfig(context_tokens=exact - 1))
    assert assembled.order == ()
    assert assembled.stats.stage3_tokens == exact
