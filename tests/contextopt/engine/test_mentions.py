"""Parts of the score for the days and the person that a question names."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from contextopt.engine.queryanalysis import Mentions, add_mentions, named_person
from contextopt.engine.ranking import Relevance

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
OCTOBER_3 = datetime(2026, 10, 3, 12, tzinfo=UTC)


def mentions(question: str, zone: str = "UTC") -> Mentions:
    return Mentions.of(question, NOW, ZoneInfo(zone))


@pytest.mark.parametrize(("days", "part"), [(-1, 0), (0, 10), (1, 9), (5, 5), (9, 1), (10, 0), (40, 0)])
def test_a_day_counts_and_the_ten_days_after_it_less(days: int, part: float) -> None:
    asked = mentions("What happened on October 3?")
    assert asked.date_part(OCTOBER_3 + timedelta(days=days)) == part


def test_the_nearest_of_several_days_counts() -> None:
    asked = mentions("What happened on October 3 and October 8?")
    assert [asked.date_part(OCTOBER_3 + timedelta(days=days)) for days in (4, 5, 6)] == [6, 10, 9]


def test_days_are_those_of_the_time_zone() -> None:
    late = datetime(2026, 10, 3, 23, tzinfo=UTC)
    asked = "What happened on October 4?"
    assert mentions(asked).date_part(late) == 0
    assert mentions(asked, "Europe/Oslo").date_part(late) == 10
    just_after_midnight = datetime(2026, 11, 23, 23, 30, tzinfo=UTC)
    today = Mentions.of("What happened today?", just_after_midnight, ZoneInfo("Europe/Oslo"))
    assert today.date_part(just_after_midnight) == 10
    assert today.date_part(just_after_midnight - timedelta(hours=1)) == 0


def test_the_range_holds_the_days_that_count() -> None:
    found = mentions("What happened on October 3?", "Europe/Oslo").range()
    assert found is not None
    assert found.start == datetime(2026, 10, 2, 22, tzinfo=UTC)
    assert found.end.date() == OCTOBER_3.date() + timedelta(days=10)


@pytest.mark.parametrize("question", ["no day", "before 2020", "in 1999 and in 2022"])
def test_no_range_for_no_day_or_too_many(question: str) -> None:
    assert mentions(question).range() is None


@pytest.mark.parametrize(
    ("question", "person"),
    [
        ("What did Ada say?", "ada"),
        ("what did ada's sister say?", "ada"),
        ("What did Ada tell Bob?", None),
        ("What did Adam say?", None),
        ("What did Project Manager say?", "project manager"),
        ("What did they say?", None),
    ],
)
def test_one_person(question: str, person: str | None) -> None:
    assert named_person(question, ["Ada", "Bob", "Project Manager", "Manager", ""]) == person


def test_parts_are_added_to_candidates() -> None:
    asked = mentions("What did Ada say on October 3?")
    dates = {1: OCTOBER_3, 2: OCTOBER_3 + timedelta(days=1), 3: NOW, 4: NOW}
    people = {1: ("Ada",), 2: ("Bob",), 3: ("Note", "ADA"), 4: ()}
    added = add_mentions({1: Relevance(semantic=5.0)}, asked, dates, people)
    assert added == {
        1: Relevance(semantic=5.0, date=10.0, who=10.0),
        2: Relevance(date=9.0),
        3: Relevance(who=10.0),
    }
