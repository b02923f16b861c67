"""Paper, forced colours and fingers."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from contextopt.people.models import Team
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


# Charts and tables that lie over another chart's card, or reach beyond their own.
OVERLAPS = """() => {
    const box = node => node.getBoundingClientRect();
    const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
        && a.top < b.bottom - 1 && b.top < a.bottom - 1;
    const cards = [...document.querySelectorAll('figure.card')];
    return cards.flatMap(card => [...card.querySelectorAll('.main-svg, table')]
        .filter(node => node.checkVisibility())
        .filter(node => box(node).right > box(card).right
            || cards.some(other => other !== card && meet(box(node), box(other))))
        .map(node => node.outerHTML.slice(0, 90)));
}"""
# Grids around charts: their rows do not grow where a page ends.
GRIDS = """() => [...document.querySelectorAll('main *:has(figure.card)')]
    .filter(node => getComputedStyle(node).display !== 'block').map(node => node.className)"""
DRAWN = "() => [...document.querySelectorAll('[data-chart]')].every(node => node.children.length)"
ON_PAPER = "() => [...document.querySelectorAll('.main-svg')].every(drawn => drawn.clientWidth <= 640)"
AS_WIDE = """() => [...document.querySelectorAll('.js-plotly-plot')].filter(plot => plot.checkVisibility())
    .every(plot => Math.abs(plot.querySelector('.main-svg').clientWidth - plot.clientWidth) < 2)"""


@pytest.mark.parametrize("address", ["/", "/traffic/"])
def test_nothing_lies_over_a_chart_on_paper(team: Team, address: str, open_page: Callable[..., Page]) -> None:
    space = factories.make_space(team)
    factories.make_assembly(space)
    factories.make_gateway_request(space)
    page = open_page(**DESK)
    page.goto(address)
    page.wait_for_function(
        "() => [...document.querySelectorAll('[data-chart]')].every(node => node.children.length)"
    )
    page.get_by_role("button", name="Table").last.click()
    expect(page.locator(".chart-table table").last).to_be_visible()
    # Paper is narrower than the window, and no event tells of it.
    page.evaluate("document.documentElement.style.width = '700px'")
    page.emulate_media(media="print")
    page.wait_for_function(ON_PAPER)
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate(GRIDS) == []
    page.evaluate("document.documentElement.style.width = ''")
    page.emulate_media(media="screen")
    page.wait_for_function(AS_WIDE)


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
