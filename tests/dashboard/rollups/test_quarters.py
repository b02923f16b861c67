"""Rollups narrow the list of assemblies to the quarters that can hold matching ones."""

from datetime import timedelta

from django.http import QueryDict

from contextopt.spaces.models import Space
from dashboard.kit.responses import newest_page
from dashboard.pages.assemblies.filters import AssembliesForm
from dashboard.rollups.fold import fold
from dashboard.rollups.quarters import QUARTER, Narrowing, join_quarters, narrow
from tests.dashboard.pages.overview.test_figures import log_row
from tests.factories import NOW


def test_a_rare_truncation_is_found_however_old(space: Space) -> None:
    made = [
        log_row(space, NOW - number * QUARTER, stage=3, truncated=number in {0, 90}).pk
        for number in range(91)
    ]
    fold()
    for query in ("truncated=yes", "stage=3&truncated=yes", "space=support&kind=space&truncated=yes"):
        assert first_page(space, query) == [made[0], made[90]]
    assert first_page(space, "truncated=no") == made[1:51]


def first_page(space: Space, query: str) -> list[int]:
    form = AssembliesForm(QueryDict(query), team=space.team)
    return [row.pk for row in newest_page(form.select_page(""), "created_at", "").rows]


def test_quarters_that_follow_each_other_are_one_stretch() -> None:
    newest_first = [NOW, NOW - QUARTER, NOW - 3 * QUARTER]
    assert list(join_quarters(newest_first)) == [
        (NOW - QUARTER, NOW + QUARTER),
        (NOW - 3 * QUARTER, NOW - 2 * QUARTER),
    ]
    assert list(join_quarters([])) == []


def test_what_is_not_folded_stretches_the_range_only_when_it_passes(space: Space) -> None:
    old, fresh = NOW - timedelta(days=50), NOW
    log_row(space, old, stage=2)
    fold(rows=10)
    log_row(space, fresh, stage=4)
    assert repr(fresh) not in str(narrow(Narrowing(space.team_id, stage=2)))
    assert repr(fresh) in str(narrow(Narrowing(space.team_id, stage=4)))
    log_row(space, fresh, stage=2)
    assert repr(fresh) in str(narrow(Narrowing(space.team_id, stage=2)))
