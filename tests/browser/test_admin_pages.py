"""The admin in a browser: its menu, and axe on its kinds of pages."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from contextopt.people.models import Role, Team, User
from tests import factories
from tests.browser.conftest import DESK, FITS


@pytest.fixture
def owner(team: Team) -> User:
    return factories.make_user("olga", team, Role.ADMIN, is_staff=True, is_superuser=True)


def test_pages_of_the_admin(
    team: Team,
    open_page: Callable[..., Page],
    check_accessibility: Callable[..., None],
) -> None:
    space = factories.make_space(team)
    factories.make_profile(team)
    page = open_page(**DESK)
    page.goto("/admin/")
    expect(page.get_by_role("heading", name="Configuration").first).to_be_visible()
    # The admin's landmarks are those of its theme.
    spared = ("minor", "moderate")
    check_accessibility(page, spared=spared)
    page.get_by_role("link", name="Show internal tables").click()
    expect(page.locator(".capabilities").get_by_role("link", name="Throttles")).to_be_visible()
    page.get_by_role("link", name="Hide internal tables").click()
    expect(page.locator(".capabilities").get_by_role("link", name="Throttles")).to_have_count(0)
    for address in (
        "/admin/contextopt/contextconfig/",
        f"/admin/contextopt/contextconfig/{space.configs.get().pk}/change/",
        "/admin/contextopt/phaseprofile/",
        f"/admin/contextopt/phaseprofile/{team.phaseprofiles.get(phase='building').pk}/change/",
        "/admin/contextopt/space/add/",
        "/admin/contextopt/record/add/",
        "/admin/contextopt/auditevent/",
    ):
        page.goto(address)
        check_accessibility(page, spared=spared)
        assert page.evaluate(FITS), address


def test_a_long_word_leaves_room_for_the_other_columns(team: Team, open_page: Callable[..., Page]) -> None:
    factories.make_record(factories.make_space(team), title="W" * 300)
    page = open_page(**DESK)
    page.goto("/admin/contextopt/record/")
    expect(page.get_by_role("columnheader", name="Summary tokens")).to_be_in_viewport()
