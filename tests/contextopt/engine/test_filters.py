from datetime import timedelta

from contextopt.engine.ranking import filter_records
from contextopt.engine.values import DateRange, FilterCounts
from tests.contextopt.engine.factories import NOW, make_record

WEEK = DateRange.ending_at(NOW, 7)


def test_records_filtered_out_are_counted_by_cause() -> None:
    inside, old, gone = make_record(1), make_record(2, days_old=8), make_record(3, deleted=True)
    old_and_gone = make_record(4, days_old=8, deleted=True)
    result = filter_records((inside, old, gone, old_and_gone), WEEK)
    assert result == ((inside,), FilterCounts(1, 1, 2))


def test_pinned_passes_whatever_its_date_but_not_deleted() -> None:
    old = make_record(1, days_old=800, pinned=True)
    ahead = make_record(2, days_old=-30, pinned=True)
    gone = make_record(3, pinned=True, deleted=True)
    assert filter_records((old, ahead, gone), WEEK) == ((old, ahead), FilterCounts(2, 0, 1))


def test_both_ends_are_included() -> None:
    first = make_record(1, days_old=7)
    last = make_record(2, date=NOW + timedelta(hours=24))
    later = make_record(3, date=NOW + timedelta(hours=24, microseconds=1))
    assert filter_records((first, last, later), WEEK) == ((first, last), FilterCounts(2, 1))
