"""The Overview's charts with mouse, keyboard and finger."""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect
from playwright.sync_api import TimeoutError as TapTimeout

from contextopt.people.models import Team
from contextopt.spaces.models import Space
from dashboard.demo import load_demo
from dashboard.tasks import fold_assemblies
from tests import factories
from tests.browser.conftest import PHONE, open_parts

NOW = datetime.now(UTC)


@pytest.fixture
def space(team: Team) -> Space:
    """A space with three assemblies on each of the last ten days."""
    space = factories.make_space(team)
    factories.make_record(space, date=NOW - timedelta(days=11))
    for days in range(10):
        moment = NOW - timedelta(days=days)
        for _ in range(3):
            factories.make_assembly(space, as_of=moment, created_at=moment)
    fold_assemblies()
    return space


def rows_of(day: datetime) -> re.Pattern[str]:
    return re.compile(rf"/assemblies/\?kind=space&start={day.date()}T00%3A00%3A00Z&end=.*&sort=slowest")


def test_a_legend_leaves_room_for_the_bars_on_a_phone(team: Team, open_page: Callable[..., Page]) -> None:
    load_demo(team, now=NOW, actor="test", days=2, assemblies_a_day=12)
    fold_assemblies()
    page = open_page(**PHONE)
    page.goto("/?range=7d")
    open_parts(page)
    names = page.locator("#plot-saved .legend .traces")
    expect(names.first).to_be_visible()
    tops = names.evaluate_all("found => found.map(node => Math.round(node.getBoundingClientRect().top))")
    assert len(set(tops)) <= (len(tops) + 1) // 2


@pytest.mark.usefixtures("space")
def test_the_arrow_keys_read_points_and_enter_lists_their_rows(
    open_page: Callable[..., Page], check_accessibility: Callable[[Page], None]
) -> None:
    page = open_page(viewport={"width": 1440, "height": 900})
    page.goto("/?range=7d")
    plot = page.locator("#plot-time")
    expect(plot.locator(".main-svg").first).to_be_visible()
    plot.press("ArrowLeft")
    plot.press("ArrowLeft")
    day = NOW - timedelta(days=1)
    expect(page.locator("p[aria-live]", has_text=f"{day.date()}: p50 ")).to_have_count(1)
    expect(plot.locator(".hoverlayer .legend")).to_be_visible()
    check_accessibility(page)
    plot.press("Enter")
    expect(page).to_have_url(rows_of(day))
    expect(page.locator("#assemblies tbody tr")).to_have_count(3)


@pytest.mark.usefixtures("space")
def test_dragging_over_days_shows_them_in_all_charts(open_page: Callable[..., Page]) -> None:
    page = open_page(viewport={"width": 1440, "height": 900})
    page.goto("/?range=14d")
    plot = page.locator("#plot-time .nsewdrag").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    # Fourteen days share the width; from the fourth to the eighth, each in the middle of its share.
    page.mouse.move(box["x"] + box["width"] * 3.1 / 14, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 8.4 / 14, box["y"] + 60, steps=8)
    page.mouse.up()
    first, last = ((NOW - timedelta(days=13 - days)).date() for days in (3, 7))
    expect(page).to_have_url(re.compile(rf"\?range=custom&first={first}&last={last}"))
    expect(page.locator("#tile-assemblies .value")).to_have_text("12")
    page.go_back()
    expect(page.locator("#tile-assemblies .value")).to_have_text("30")


@pytest.mark.usefixtures("space")
@pytest.mark.parametrize(("weeks", "last"), [(slice(2, 5), 34), (slice(20, 23), 155)])
def test_weeks_are_shown_to_their_last_day(weeks: slice, last: int, open_page: Callable[..., Page]) -> None:
    first = NOW.date() - timedelta(days=155)
    page = open_page(viewport={"width": 1440, "height": 900})
    page.goto(f"/?range=custom&first={first}&last={NOW.date()}")
    plot = page.locator("#plot-time.js-plotly-plot")
    shown = plot.evaluate("plot => plot.data[0].x.concat(plot.data.at(-1).x).sort()")
    starts = sorted(set(shown))[weeks]
    change = {"xaxis.range[0]": starts[0], "xaxis.range[1]": starts[-1]}
    plot.evaluate("(plot, change) => plot.emit('plotly_relayout', change)", change)
    query = f"first={starts[0][:10]}&last={first + timedelta(days=last)}"
    expect(page).to_have_url(re.compile(re.escape(query)))


@pytest.mark.usefixtures("space")
def test_the_first_tap_reads_and_the_second_opens(open_page: Callable[..., Page]) -> None:
    page = open_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.goto("/?range=7d")
    plot = page.locator("#plot-time .nsewdrag").first
    plot.tap()
    expect(page.get_by_text("Tap the point again to list the rows behind it.")).to_be_visible()
    expect(page.locator("#plot-time .hoverlayer .legend")).to_be_visible()
    # A tap within the time of a double tap is the same tap.
    page.wait_for_timeout(500)
    # The browser's answer can be lost with the page that the tap leaves.
    with suppress(TapTimeout):
        plot.tap(timeout=5_000)
    expect(page).to_have_url(rows_of(NOW - timedelta(days=3)))
