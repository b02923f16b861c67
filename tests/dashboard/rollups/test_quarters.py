"""The list of assemblies is the same with rollups as without them."""

from datetime import timedelta

import pytest
from django.http import QueryDict

from contextopt.models import Assembly, ContextConfig, Space
from dashboard.kit.paging import newest_page
from dashboard.pages.assemblies.filters import AssembliesForm
from dashboard.rollups.fold import fold
from dashboard.rollups.quarters import QUARTER, Narrowing, join_quarters, narrow
from tests.dashboard.pages.overview.test_figures import log_row
from tests.factories import NOW, make_space


@pytest.fixture
def log(space: Space) -> list[Assembly]:
    config = ContextConfig.objects.get(space=space)
    made = []
    for number in range(160):
        rare = number % 11 == 0
        made.append(
            log_row(
                space, NOW - timedelta(minutes=37 * number, seconds=number), stage=2 if rare else 4,
                model="rare" if number % 7 == 0 else "", config=config if number % 3 else None,
            )
        )  # fmt: skip
    return made


QUERIES = (
    "stage=2", "stage=4", "model=rare", "model=none", "config=1", "config=9", "kind=space", "kind=retry",
    "stage=2&model=rare", "stage=4&space=support", "stage=4&space=other", "stage=2&start=2026-06-13",
    "stage=2&end=2026-06-14", "stage=4&end=2026-06-14T09:07:00Z&start=2026-06-14", "phase=building",
    "stage=4&truncated=no", "truncated=yes", "truncated=no",
)  # fmt: skip


@pytest.mark.parametrize("folded", [0, 70, 200])
@pytest.mark.parametrize("query", QUERIES)
def test_pages_hold_what_passes(query: str, folded: int, log: list[Assembly], space: Space) -> None:
    make_space(space.team, "other")
    if folded:
        fold(rows=folded)
    form = AssembliesForm(QueryDict(query), team=space.team)
    expected = [row.pk for row in form.select().order_by("-created_at", "-id")]
    found, cursor = [], ""
    for _ in range(10):
        page = newest_page(form.select_page(cursor), "created_at", cursor, 20)
        found += [row.pk for row in page.rows]
        cursor = page.older
        if not cursor:
            break
    assert found == expected


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
