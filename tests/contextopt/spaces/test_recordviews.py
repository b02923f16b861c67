"""A view is one viewer and one record on one day of the team's time zone."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from contextopt import tasks
from contextopt.spaces.models import VIEWS_MAX, Record, RecordView, Space
from contextopt.spaces.records import delete_record
from contextopt.spaces.recordviews import view_record
from tests import factories
from tests.concurrency import at_once

ANN, BOB = "user:1", "user:2"


def views_of(record: Record) -> int:
    return Record.objects.get(pk=record.pk).view_count


def test_opening_again_on_the_same_day_counts_nothing(space: Space) -> None:
    record = factories.make_record(space)
    assert view_record(record=record, viewer=ANN).view_count == 1
    first = record.last_viewed_at
    assert first is not None
    assert view_record(record=record, viewer=ANN).view_count == 1
    assert view_record(record=record, viewer=BOB).view_count == 2
    assert views_of(record) == 2


def test_a_stale_object_learns_the_count(space: Space) -> None:
    record = factories.make_record(space)
    stale = Record.objects.get(pk=record.pk)
    view_record(record=record, viewer=ANN)
    assert view_record(record=stale, viewer=BOB).view_count == 2


def test_a_deleted_record_has_no_views(space: Space) -> None:
    gone = delete_record(record=factories.make_record(space), actor="test")
    assert view_record(record=gone, viewer=ANN).view_count == 0
    assert not RecordView.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("zone", "moment", "begins"),
    [
        ("UTC", datetime(2026, 6, 15, 23, 59, tzinfo=UTC), 2),
        ("Pacific/Auckland", datetime(2026, 6, 15, 23, 59, tzinfo=UTC), 1),
        ("Pacific/Auckland", datetime(2026, 6, 15, 11, 59, tzinfo=UTC), 2),
        ("America/Los_Angeles", datetime(2026, 6, 16, 6, 59, tzinfo=UTC), 2),
    ],
)
def test_a_day_is_one_of_the_teams_time_zone(zone: str, moment: datetime, begins: int) -> None:
    record = factories.make_record(factories.make_space(factories.make_team(time_zone=zone)))
    with time_machine.travel(moment, tick=False) as traveller:
        view_record(record=record, viewer=ANN)
        traveller.shift(timedelta(minutes=2))
        view_record(record=record, viewer=ANN)
    assert views_of(record) == begins


def test_the_limit_is_not_passed(space: Space) -> None:
    record = factories.make_record(space, view_count=2**63 - 1)
    assert view_record(record=record, viewer=ANN).view_count == VIEWS_MAX


@pytest.mark.django_db(transaction=True)
def test_many_at_once_lose_none_and_one_viewer_counts_once() -> None:
    record = factories.make_record(factories.make_space(factories.make_team()))
    viewers = [f"user:{number % 6}" for number in range(18)]
    at_once(*[lambda viewer=viewer: view_record(record=record, viewer=viewer) for viewer in viewers])
    assert views_of(record) == RecordView.objects.count() == 6


def test_views_are_swept_once_their_day_is_over_everywhere(space: Space) -> None:
    record = factories.make_record(space)
    with time_machine.travel(datetime(2026, 6, 15, 12, tzinfo=UTC), tick=False) as traveller:
        view_record(record=record, viewer=ANN)
        traveller.move_to(datetime(2026, 6, 16, 23, 59, tzinfo=UTC))
        tasks.sweep()
        assert RecordView.objects.count() == 1
        traveller.move_to(datetime(2026, 6, 17, 0, 1, tzinfo=UTC))
        tasks.sweep()
    assert not RecordView.objects.exists()
    assert views_of(record) == 1


def test_one_statement_counts_a_view(space: Space, django_assert_num_queries) -> None:
    record = Record.objects.select_related("space__team").get(pk=factories.make_record(space).pk)
    with django_assert_num_queries(1):
        view_record(record=record, viewer=ANN)
