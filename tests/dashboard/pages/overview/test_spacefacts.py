"""Facts about the spaces behind the figures."""

from datetime import timedelta

from contextopt.spaces.configs import publish_settings
from contextopt.spaces.models import Space
from dashboard.pages.overview.diagnosis import SpaceFacts, read_space_facts
from tests.dashboard.pages.overview.test_figures import ask
from tests.factories import NOW, make_record, make_space
from tests.queries import count_queries


def test_views_and_ages_of_records(space: Space) -> None:
    wanted = ask(space.team)
    assert read_space_facts(wanted).records == 0
    make_record(space, date=NOW)
    make_record(space, date=NOW - timedelta(hours=2))
    facts = read_space_facts(wanted)
    assert (facts.records, facts.is_viewed, facts.has_ages) == (2, False, False)
    make_record(space, date=NOW - timedelta(days=3), view_count=1)
    facts = read_space_facts(wanted)
    assert (facts.records, facts.is_viewed, facts.has_ages) == (3, True, True)
    assert count_queries(lambda: read_space_facts(wanted)) == 1


def test_settings_of_the_active_or_the_chosen_config(space: Space) -> None:
    make_record(space, date=NOW)
    before = read_space_facts(ask(space.team))
    assert before == SpaceFacts(records=1)
    publish_settings(
        space=space, created_by="user:ada", window_days=None, max_records=None, frequency_weight=0,
        budget_mode="adaptive", question_window_days=90,
    )  # fmt: skip
    now = read_space_facts(ask(space.team))
    assert (now.has_window, now.has_limit, now.has_question_window) == (False, False, True)
    assert (now.weighs_views, now.is_adaptive) == (False, True)
    assert read_space_facts(ask(space.team, config_version=1)) == before


def test_another_space_bounds_what_one_leaves_open(space: Space) -> None:
    other = make_space(space.team, "other")
    for each in (space, other):
        make_record(each, date=NOW)
    publish_settings(space=space, created_by="user:ada", window_days=None)
    assert read_space_facts(ask(space.team)).has_window
    assert not read_space_facts(ask(space.team, space_id=space.pk)).has_window
