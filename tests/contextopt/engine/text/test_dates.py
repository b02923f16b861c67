"""Dates in questions, read on Tuesday, 24 November 2026."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.text.dates import SPANS_MAX, DateSpan, named_spans

TODAY = date(2026, 11, 24)


def read(question: str) -> list[str]:
    return [f"{span.first or ''}..{span.last}" for span in named_spans(question, TODAY)]


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("What happened on October 3?", "2026-10-03", "2026-10-03"),
        ("What happened on 3rd of December?", "2025-12-03", "2025-12-03"),
        ("What did Ada say on May 8, 2023?", "2023-05-08", "2023-05-08"),
        ("Hva skjedde 8. mai 2023?", "2023-05-08", "2023-05-08"),
        ("Hva skjedde den 3.10.2023?", "2023-10-03", "2023-10-03"),
        ("the log of 2023-10-03", "2023-10-03", "2023-10-03"),
        ("on Feb 29", "2024-02-29", "2024-02-29"),
        ("What changed in May?", "2026-05-01", "2026-05-31"),
        ("Who joined in December?", "2025-12-01", "2025-12-31"),
        ("in May 2023", "2023-05-01", "2023-05-31"),
        ("i mai 2023", "2023-05-01", "2023-05-31"),
        ("i mars", "2026-03-01", "2026-03-31"),
        ("What was decided in 2022?", "2022-01-01", "2022-12-31"),
        ("sommeren 2023", "2023-06-01", "2023-08-31"),
        ("winter 2023", "2023-12-01", "2024-02-29"),
        ("last summer", "2026-06-01", "2026-08-31"),
        ("Q3 2025", "2025-07-01", "2025-09-30"),
        ("3. kvartal 2025", "2025-07-01", "2025-09-30"),
        ("What broke yesterday?", "2026-11-23", "2026-11-23"),
        ("Hva gikk galt i går?", "2026-11-23", "2026-11-23"),
        ("i forgårs", "2026-11-22", "2026-11-22"),
        ("today", "2026-11-24", "2026-11-24"),
        ("last week", "2026-11-16", "2026-11-22"),
        ("forrige uke", "2026-11-16", "2026-11-22"),
        ("this week", "2026-11-23", "2026-11-24"),
        ("last month", "2026-10-01", "2026-10-31"),
        ("i fjor", "2025-01-01", "2025-12-31"),
        ("i år", "2026-01-01", "2026-11-24"),
        ("the last 3 months", "2026-08-24", "2026-11-24"),
        ("siste to uker", "2026-11-10", "2026-11-24"),
        ("two weeks ago", "2026-11-09", "2026-11-15"),
        ("for tre dager siden", "2026-11-21", "2026-11-21"),
        ("last Friday", "2026-11-20", "2026-11-20"),
        ("on Tuesday", "2026-11-17", "2026-11-17"),
        ("på fredag", "2026-11-20", "2026-11-20"),
        ("last weekend", "2026-11-21", "2026-11-22"),
        ("from 3 to 5 May 2024", "2024-05-03", "2024-05-05"),
        ("May 3-5, 2024", "2024-05-03", "2024-05-05"),
        ("between May and July 2023", "2023-05-01", "2023-07-31"),
        ("mellom 1. mai og 3. juni 2025", "2025-05-01", "2025-06-03"),
        ("since March", "2026-03-01", "2026-11-24"),
        ("etter 1. mai 2025", "2025-05-01", "2026-11-24"),
        ("before 2020", "", "2019-12-31"),
    ],
)
def test_reads_a_date(question: str, first: str, last: str) -> None:
    assert read(question) == [f"{first}..{last}"]


@pytest.mark.parametrize(
    "question",
    [
        "What may we do?",
        "March on and fix the march",
        "Mars is a planet",
        "What did April say?",
        "port 2023",
        "in 2023.1",
        "next week",
        "the 31 parts of the fall",
        "i dagens møte",
        "",
    ],
)
def test_other_words_are_no_dates(question: str) -> None:
    assert read(question) == []


def test_several_dates_come_in_order() -> None:
    assert read("in May 2023 or on 3 October 2023") == ["2023-05-01..2023-05-31", "2023-10-03..2023-10-03"]


def test_days_after_a_span() -> None:
    span = DateSpan(date(2026, 5, 1), date(2026, 5, 3))
    days = [span.days_after(date(2026, 5, day)) for day in (1, 3, 4, 13)]
    assert days == [0, 0, 1, 10]
    assert span.days_after(date(2026, 4, 30)) is None
    assert DateSpan(None, date(2026, 5, 3)).days_after(date.min) == 0


WORDS = """
in may 3 2023 last siste to uker i fjor between and before since 31 february 9999 ago 999 years . - q4 fredag
på 1.1.01 feb for siden the year 29
"""


@given(st.lists(st.sampled_from(WORDS.split()), max_size=12).map(" ".join), st.dates())
def test_any_text_at_any_time(question: str, today: date) -> None:
    spans = named_spans(question, today)
    assert len(spans) <= SPANS_MAX
    assert all(span.first is None or span.first <= span.last for span in spans)
