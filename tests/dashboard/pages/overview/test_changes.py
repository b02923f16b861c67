"""Changes in a period: published settings and new models."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
import time_machine

from contextopt.people.models import Team
from contextopt.spaces.configs import activate_config, publish_settings
from contextopt.spaces.models import Space
from dashboard.demo import load_demo, remove_demo
from dashboard.pages.overview.quality import CHANGES_SHOWN, PeriodChange, read_changes
from dashboard.rollups.fold import keep_rollups
from tests import factories
from tests.dashboard.pages.overview.test_figures import ask, log_row
from tests.factories import NOW


@pytest.fixture(autouse=True)
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(NOW - timedelta(days=2), tick=False) as traveller:
        yield traveller


def changes_of(team: Team, **narrowed: object) -> list[PeriodChange]:
    spaces = {space.slug: space for space in Space.objects.of(team)}
    return read_changes(team, ask(team, **narrowed), spaces)


def publish(space: Space, **settings: object) -> None:
    publish_settings(space=space, created_by="user:ada", **settings)


def test_published_settings_name_what_differs(team: Team, space: Space) -> None:
    publish(space, max_records=12, window_days=7)
    [change] = changes_of(team)
    assert change.at == NOW - timedelta(days=2)
    assert change.mark == "v2"
    assert change.title == f"Config v2 for {space.name} published by ada"
    assert change.details == "Date window 14 → 7, Record limit 20 → 12"
    assert change.url == f"/spaces/{space.slug}/settings/"


def test_a_space_that_is_not_offered_is_named(team: Team, space: Space) -> None:
    publish(space, max_records=12)
    [change] = read_changes(team, ask(team), {})
    assert change.title == f"Config v2 for {space.name} published by ada"
    assert change.url == f"/spaces/{space.slug}/settings/"


def test_many_differences_are_counted(team: Team, space: Space) -> None:
    publish(space, max_records=12, window_days=7, context_tokens=900, recency_weight="0.5")
    assert changes_of(team)[0].details.endswith(", 1 more")


def test_the_first_settings_are_no_change(team: Team, space: Space) -> None:
    assert changes_of(team) == []


def test_activating_an_older_version_is_a_change(team: Team, space: Space) -> None:
    publish(space, max_records=12)
    publish(space, max_records=13)
    for version in (2, 1):
        activate_config(space=space, version=version, actor="user:ben")
        title = f"Config v{version} for {space.name} activated by ben"
        assert changes_of(team)[0].title == title


def test_marks_name_the_space_where_there_are_several(team: Team, space: Space) -> None:
    other = factories.make_space(team, "a-very-long-name")
    publish(other, max_records=12)
    assert changes_of(team)[0].mark == "a-very-long… v2"
    [change] = changes_of(team, space_id=other.pk)
    assert change.mark == "v2"
    assert change.title == "Config v2 published by ada"
    assert changes_of(team, space_id=space.pk) == []


def test_a_removed_demo_leaves_no_changes(team: Team) -> None:
    load_demo(team, now=NOW, actor="user:ada", days=3, assemblies_a_day=12)
    [change, *_] = changes_of(team)
    assert "v2" in change.title
    assert NOW - timedelta(days=4) < change.at < NOW - timedelta(hours=1)
    remove_demo(team)
    assert changes_of(team) == []


def test_changes_of_other_periods_and_teams_are_left_out(team: Team, space: Space, clock) -> None:
    clock.move_to(NOW - timedelta(days=20))
    publish(space, max_records=12)
    clock.move_to(NOW - timedelta(days=2))
    publish(factories.make_space(factories.make_team("other")), max_records=12)
    assert changes_of(team) == []


def test_a_model_is_new_where_the_days_before_had_others(team: Team, space: Space) -> None:
    log_row(space, NOW - timedelta(days=30), model="old-model")
    log_row(space, NOW - timedelta(days=2), model="old-model")
    log_row(space, NOW - timedelta(days=2), model="new-model")
    keep_rollups()
    assert [(change.title, change.mark) for change in changes_of(team)] == [
        ("First prompts for new-model", "new-model")
    ]
    assert changes_of(team, space_id=space.pk) == []


def test_on_a_chart_of_hours_a_model_stands_at_its_first_hour(team: Team, space: Space) -> None:
    log_row(space, NOW - timedelta(days=3), model="old-model")
    log_row(space, NOW - timedelta(hours=26), model="before-model")
    log_row(space, NOW - timedelta(hours=2, minutes=40), model="first-prompts-of-a-long-name")
    log_row(space, NOW - timedelta(hours=1), model="first-prompts-of-a-long-name")
    keep_rollups()
    [change] = changes_of(team, range_name="24h")
    assert (change.at, change.mark) == (NOW - timedelta(hours=3), "first-prompts-o…")


def test_the_first_model_of_all_is_no_change(team: Team, space: Space) -> None:
    log_row(space, NOW - timedelta(days=2), model="only-model")
    keep_rollups()
    assert changes_of(team) == []


def test_the_newest_few_in_two_queries(team: Team, space: Space, django_assert_num_queries) -> None:
    for number in range(CHANGES_SHOWN + 3):
        publish(space, max_records=10 + number)
    wanted, spaces = ask(team), {space.slug: space}
    with django_assert_num_queries(2):
        # log of changes, models of the days
        found = read_changes(team, wanted, spaces)
    assert [change.mark for change in found] == [f"v{number}" for number in range(12, 12 - CHANGES_SHOWN, -1)]
