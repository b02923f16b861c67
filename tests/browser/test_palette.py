"""The command palette by keyboard and by finger."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from contextopt.people.models import Team
from tests import factories


def test_by_keyboard(
    team: Team, open_page: Callable[..., Page], check_accessibility: Callable[[Page], None]
) -> None:
    space = factories.make_space(team)
    record = factories.make_record(space, title="Zebra crossing")
    page = open_page(viewport={"width": 1440, "height": 900})
    page.goto("/assemblies/")
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Page, space, record")
    expect(field).to_be_focused()
    expect(page.get_by_role("option", name="Overview")).to_have_attribute("aria-selected", "true")
    check_accessibility(page)
    page.keyboard.press("Escape")
    expect(field).to_be_hidden()
    page.keyboard.press("Control+k")
    field.fill("zeb")
    page.keyboard.press("Escape")
    expect(field).to_be_hidden()
    page.keyboard.press("Control+k")
    field.fill("zebra")
    expect(page.get_by_role("option", name="Zebra crossing", exact=False).first).to_have_attribute(
        "aria-selected", "true"
    )
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", name="Search records and memories")).to_have_attribute(
        "aria-selected", "true"
    )
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"/records/{record.pk}/$"))


def test_an_action_on_a_phone(
    team: Team, open_page: Callable[..., Page], check_accessibility: Callable[[Page], None]
) -> None:
    page = open_page(viewport={"width": 390, "height": 844}, has_touch=True, color_scheme="light")
    page.goto("/spaces/")
    page.get_by_role("button", name="Go to…").tap()
    page.get_by_role("combobox", name="Page, space, record").fill("theme dark")
    check_accessibility(page)
    page.get_by_role("option", name="Theme: dark").tap()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator("#palette")).to_be_hidden()


def test_enter_before_the_matches_opens_the_first_match(team: Team, open_page: Callable[..., Page]) -> None:
    page = open_page(viewport={"width": 1440, "height": 900})
    page.goto("/assemblies/")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("option", name="Overview")).to_have_attribute("aria-selected", "true")
    page.keyboard.type("settings")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/settings/$"))
