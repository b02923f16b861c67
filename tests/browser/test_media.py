"""Paper, forced colours and fingers."""

from collections.abc import Callable

from playwright.sync_api import Page

from contextopt.models import Team
from tests import factories
from tests.browser.conftest import DESK, PHONE

COLOUR = "node => getComputedStyle(node).color"
ADJUST = "node => getComputedStyle(node).forcedColorAdjust"


def test_a_dark_page_is_printed_in_dark_ink(team: Team, open_page: Callable[..., Page]) -> None:
    page = open_page(**DESK)
    page.goto("/")
    in_light = page.locator("h1").evaluate(COLOUR)
    page.get_by_role("button", name="Dark").click()
    assert page.locator("h1").evaluate(COLOUR) != in_light
    page.emulate_media(media="print")
    assert page.locator("h1").evaluate(COLOUR) == in_light


def test_what_is_chosen_keeps_its_ground_in_forced_colours(
    team: Team, open_page: Callable[..., Page]
) -> None:
    factories.make_assembly(factories.make_space(team))
    page = open_page(**DESK, forced_colors="active")
    page.goto("/")
    for name in ("14d", "Overview"):
        assert page.get_by_role("link", name=name, exact=True).evaluate(ADJUST) == "none", name


def test_links_that_sort_fit_a_finger(team: Team, open_page: Callable[..., Page]) -> None:
    factories.make_assembly(factories.make_space(team))
    page = open_page(**PHONE)
    page.goto("/assemblies/")
    heights = page.locator("thead a").evaluate_all("all => all.map(node => node.offsetHeight)")
    assert heights
    assert min(heights) >= 24
