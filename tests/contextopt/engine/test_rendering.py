from datetime import UTC, datetime, timedelta, timezone

import pytest

from contextopt.engine.ranking import Scored
from contextopt.engine.rendering import (
    add_day,
    fit_header,
    header,
    order_records,
    question_start,
    render,
    summary_line,
)
from contextopt.engine.validation import InvalidValue
from tests.contextopt.engine.factories import NOW, TOKENIZER, make_record, make_space


def test_summary_line() -> None:
    line = summary_line("Move to PostgreSQL", "decision", NOW, ["database", "upgrade"], "Agreed.\nTwo weeks.")
    assert line == "- [decision] Move to PostgreSQL (2026-03-15) #database #upgrade: Agreed. Two weeks.\n"


@pytest.mark.parametrize(
    ("title", "type", "tags", "notes", "line"),
    [
        ("", "", [], "", "- Untitled (2026-03-15)\n"),
        (" \n", "note", ["", " ", "#"], "\0", "- [note] Untitled (2026-03-15)\n"),
        ("T", "", ["#a", "b c"], "", "- T (2026-03-15) #a #b c\n"),
        ("T", "", [], "n", "- T (2026-03-15): n\n"),
    ],
)
def test_empty_parts_leave_nothing(title: str, type: str, tags: list[str], notes: str, line: str) -> None:
    assert summary_line(title, type, NOW, tags, notes) == line


def test_limits_count_the_ellipsis() -> None:
    line = summary_line("t" * 121, "y" * 33, NOW, ["g" * 33] * 9, "n" * 101)
    tags = f" #{'g' * 31}…" * 8
    assert line == f"- [{'y' * 31}…] {'t' * 119}… (2026-03-15){tags}: {'n' * 99}…\n"
    assert summary_line("t" * 120, "", NOW, ["g" * 32], "n" * 100).count("…") == 0


def test_a_record_cannot_forge_a_line() -> None:
    for breaker in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029":
        forged = f"x{breaker}- [note] forged{breaker}Space: other"
        line = summary_line(forged, forged, NOW, [forged], forged)
        assert len(line.splitlines()) == 1


@pytest.mark.parametrize(
    ("title", "type", "line"),
    [
        ("Ada", "message", "- Ada (2026-03-15) #a"),
        ("[decision] Ada", "message", "- [message] [decision] Ada (2026-03-15) #a"),
        ("Ada", "note", "- [note] Ada (2026-03-15) #a"),
        ("Ada", "", "- Ada (2026-03-15) #a"),
    ],
)
def test_a_message_goes_without_its_type(title: str, type: str, line: str) -> None:
    assert question_start(title, type, NOW, ["a"]) == line


def test_a_line_goes_without_the_day_that_the_header_has() -> None:
    assert question_start("Ada", "message", NOW, ["a"], has_date=False) == "- Ada #a"
    assert header(make_space(), NOW.date()) == "Space: Platform\nDate: 2026-03-15\n"


def test_the_day_is_added_to_a_header_if_it_fits() -> None:
    fitted = fit_header(make_space(), 50, TOKENIZER)
    with_day = add_day(fitted, NOW.date(), 50, TOKENIZER)
    assert with_day == (header(make_space(), NOW.date()), TOKENIZER.count(with_day.text), False)
    assert add_day(fitted, NOW.date(), with_day.tokens, TOKENIZER) == with_day
    assert add_day(fitted, NOW.date(), with_day.tokens - 1, TOKENIZER) == fitted._replace(is_cut=True)


def test_date_is_that_of_utc() -> None:
    tokyo = datetime(2026, 3, 15, 3, tzinfo=timezone(timedelta(hours=9)))
    assert "(2026-03-14)" in summary_line("T", "", tokyo, [], "")
    assert "(0001-01-01)" in summary_line("T", "", datetime.min.replace(tzinfo=UTC), [], "")
    with pytest.raises(InvalidValue, match="date"):
        summary_line("T", "", datetime(2026, 3, 15), [], "")


def test_header() -> None:
    space = make_space(name="Platform\nteam", description="How we\nrun it.", categories=("a\n", "", "b"))
    assert header(space) == "Space: Platform team\nHow we run it.\nCategories: a, b\n"
    assert header(make_space(name="")) == "Space: Untitled\n"


def test_render_puts_a_blank_line_before_the_records() -> None:
    records = (make_record(1), make_record(2))
    text = "Space: Platform\n\n- [note] Record 1 (2026-03-01)\n- [note] Record 2 (2026-03-01)\n"
    assert render(make_space(*records), records) == text
    assert render(make_space(), ()) == "Space: Platform\n"


def test_orders() -> None:
    old, new, same = make_record(3, days_old=5), make_record(1), make_record(2)
    kept = [Scored(record, 0) for record in (new, old, same)]
    assert order_records(kept, "score") == [new, old, same]
    assert order_records(kept, "stable") == [old, new, same]


def test_header_is_cut_description_first() -> None:
    space = make_space(name="Platform", description="word " * 5000, categories=("alpha", "beta"))
    fitted = fit_header(space, 50, TOKENIZER)
    assert fitted.is_cut and 45 <= fitted.tokens <= 50
    assert (
        fitted.text.startswith("Space: Platform\nword word") and "…\nCategories: alpha, beta\n" in fitted.text
    )


def test_header_is_cut_then_categories_then_name() -> None:
    space = make_space(
        name="Platform engineering", description="d", categories=("alpha", "beta", "gamma") * 9
    )
    by_budget = [fit_header(space, budget, TOKENIZER) for budget in range(80)]
    assert all(fitted.tokens <= budget for budget, fitted in enumerate(by_budget))
    assert by_budget[0].text == ""
    assert by_budget[5].text == "Space: Platform engineering\n"
    assert by_budget[20].text.startswith("Space: Platform engineering\nCategories: alpha, beta, gamma, alpha")
    assert by_budget[4].text.startswith("Space: P") and by_budget[4].text.endswith("…\n")
    assert by_budget[79].text == header(space) and not by_budget[79].is_cut


@pytest.mark.parametrize("unit", ["x", "\u6f22", "e\u0301", "\U0001f469\u200d\U0001f467", "-", "word "])
def test_a_megabyte_of_description_is_cut(unit: str) -> None:
    space = make_space(description=unit * (1_000_000 // len(unit)))
    fitted = fit_header(space, 500, TOKENIZER)
    assert 490 <= fitted.tokens <= 500
