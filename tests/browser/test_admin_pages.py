"""The admin in a browser: its menu, and axe on its kinds of pages."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from contextopt.models import Role, Team, User
from tests import factories


@pytest.fixture
def owner(team: Team) -> User:
    return factories.make_user("olga", team, Role.ADMIN, is_staff=True, is_superuser=True)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_pages_of_the_admin(
    scheme: str,
    width: int,
    team: Team,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    space = factories.make_space(team)
    factories.make_profile(team)
    page = open_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    page.goto("/admin/")
    expect(page.get_by_role("heading", name="Configuration").first).to_be_visible()
    check_accessibility(page)
    page.get_by_role("link", name="Show internal tables").click()
    expect(page.locator(".capabilities").get_by_role("link", name="Throttles")).to_be_visible()
    page.get_by_role("link", name="Hide internal tables").click()
    expect(page.locator(".capabilities").get_by_role("link", name="Throttles")).to_have_count(0)
    for address in (
        "/admin/contextopt/contextconfig/",
        f"/admin/contextopt/contextconfig/{space.configs.get().pk}/change/",
        "/admin/contextopt/phaseprofile/",
        f"/admin/contextopt/phaseprofile/{team.phase_profiles.get(phase='building').pk}/change/",
        "/admin/contextopt/space/add/",
        "/admin/contextopt/auditevent/",
    ):
        page.goto(address)
        check_accessibility(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address
