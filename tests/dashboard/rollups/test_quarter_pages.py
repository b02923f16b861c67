"""The list of assemblies is the same with rollups as without them."""

from datetime import timedelta

import pytest
from django.http import QueryDict

from contextopt.people.models import Team
from contextopt.spaces.configs import ContextConfig
from dashboard.kit.responses import newest_page
from dashboard.pages.assemblies.filters import AssembliesForm
from dashboard.rollups.fold import fold
from tests.dashboard.pages.overview.test_figures import log_row
from tests.factories import NOW, make_space, make_team


@pytest.fixture(scope="module")
def team(shared: None) -> Team:
    team = make_team()
    space = make_space(team)
    make_space(team, "other")
    config = ContextConfig.objects.get(space=space)
    for number in range(160):
        rare = number % 11 == 0
        log_row(
            space, NOW - timedelta(minutes=37 * number, seconds=number), stage=2 if rare else 4,
            model="rare" if number % 7 == 0 else "", config=config if number % 3 else None,
        )  # fmt: skip
    return team


QUERIES = (
    "stage=2", "stage=4", "model=rare", "model=none", "config=1", "config=9", "kind=space", "kind=retry",
    "stage=2&model=rare", "stage=4&space=support", "stage=4&space=other", "stage=2&start=2026-06-13",
    "stage=2&end=2026-06-14", "stage=4&end=2026-06-14T09:07:00Z&start=2026-06-14", "phase=building",
    "stage=4&truncated=no", "truncated=yes", "truncated=no",
)  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize("folded", [0, 70, 200])
@pytest.mark.parametrize("query", QUERIES)
def test_pages_hold_what_passes(query: str, folded: int, team: Team) -> None:
    if folded:
        fold(rows=folded)
    form = AssembliesForm(QueryDict(query), team=team)
    expected = [row.pk for row in form.select().order_by("-created_at", "-id")]
    found, cursor = [], ""
    for _ in range(10):
        page = newest_page(form.select_page(cursor), "created_at", cursor, 20)
        found += [row.pk for row in page.rows]
        cursor = page.older
        if not cursor:
            break
    assert found == expected
