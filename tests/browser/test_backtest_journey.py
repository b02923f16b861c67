"""From a downvoted answer to the record that was missing, to a draft, its backtest, and its publication."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from contextopt.people.models import Team
from contextopt.spaces.configs import publish_settings
from contextopt.spaces.models import Space
from tests import factories
from tests.browser.conftest import DESK, take
from tests.memory.backtests.conftest import ask_all
from tests.memory.factories import make_review
from tests.memory.questions.conftest import ASKED, SAID_AT, make_talk

PET = ASKED[0][1]


@pytest.fixture
def space(team: Team) -> Space:
    """A space whose settings leave room for one record."""
    found = factories.make_space(team)
    make_talk(found)
    publish_settings(space=found, created_by="test", question_max_records=1)
    ask_all(found, rounds=3)
    make_review(found, query=PET, as_of=SAID_AT)
    return found


def test_from_a_downvote_to_a_published_draft(
    space: Space,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    page = open_page(**DESK)
    page.goto("/review/")
    page.get_by_role("button", name="Review next").first.click()
    page.get_by_text("Context missing").click()
    page.locator("input[name=record_ids]").last.check()
    page.get_by_role("button", name="Save and add to questions").click()
    expect(page.get_by_text("Added to")).to_be_visible()

    reviewed = space.assemblies.latest("pk")
    page.goto(f"/assemblies/{reviewed.pk}/what-if/")
    limit = page.locator("#what-if [name=question_max_records]")
    # With an invalid value nothing is tried, and the browser returns to the field.
    limit.fill("-1")
    limit.press("Tab")
    expect(limit).to_be_focused()
    limit.fill("10")
    page.get_by_role("button", name="Save as draft config").click()
    expect(page.get_by_text("Version 3 is saved as a draft.")).to_be_visible()
    page.get_by_role("link", name="Backtest version 3").click()
    take(page, "backtests")
    check_accessibility(page)
    page.get_by_role("button", name="Start backtest").click()

    expect(page.get_by_role("heading", name="and more evidence kept")).to_be_visible()
    plot = page.locator("#plot-changes")
    expect(plot.locator(".bars path").last).to_be_visible()
    plot.press("End")
    expect(plot.locator(".hoverlayer")).to_contain_text("more")
    plot.press("Enter")
    expect(page.get_by_role("link", name="remove this filter")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Evaluate v3").click()
    expect(page.locator("#proof")).to_contain_text("1 question found more, 0 less")
    check_accessibility(page)
    take(page, "backtest")
    page.get_by_role("link", name="Gained evidence").click()
    row = page.get_by_role("row").filter(has_text=f"{reviewed.pk}")
    expect(row).to_contain_text("1 gained")
    row.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("heading", name="Records in and out")).to_be_visible()
    page.go_back()
    page.get_by_role("button", name="Publish v3").click()
    expect(page.get_by_text("Version 3 of the settings published.")).to_be_visible()
    assert space.configs.active().get().version == 3
