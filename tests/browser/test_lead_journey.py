"""A team lead goes from the overview to the assemblies behind one point, compares two and exports them."""

import csv
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db.models import QuerySet
from playwright.sync_api import Locator, Page, expect
from pytest_django.live_server_helper import LiveServer

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from dashboard.kit.filters import SavedView
from dashboard.rollups.models import UnfoldedAssembly
from dashboard.tasks import fold_assemblies
from tests import factories
from tests.browser.conftest import choose_filter, open_parts

WEEK = 7
# Daily contexts of stage 4 in the space of interest, this week and the week before.
THIS_WEEK, WEEK_BEFORE = 6, 3


@pytest.fixture
def spaces(team: Team) -> tuple[Space, Space]:
    return factories.make_space(team), factories.make_space(team, "sales", name="Sales calls")


@pytest.fixture
def log(spaces: tuple[Space, Space]) -> None:
    """Log two weeks of contexts in two spaces and three stages, and fold them as the worker does."""
    now = datetime.now(UTC)
    for space in spaces:
        for number in range(45):
            factories.make_record(
                space,
                title=f"{space.slug.title()} note {number}",
                notes="Workers hold the old lock; restart one at a time. " * 4,
                date=now - timedelta(hours=8 * number),
            )
    for days in range(2 * WEEK):
        _assemble_day(spaces, now - timedelta(days=days), THIS_WEEK if days < WEEK else WEEK_BEFORE)
    fold_assemblies()
    assert not UnfoldedAssembly.objects.exists()


def _assemble_day(spaces: tuple[Space, Space], moment: datetime, contexts: int) -> None:
    support, sales = spaces
    for number in range(contexts):
        fewer = {"max_records": 4} if number % 2 else {}
        factories.make_assembly(support, as_of=moment, created_at=moment, **fewer)
    for stage in (2, 3):
        factories.make_assembly(support, as_of=moment, created_at=moment, stage=stage)
    factories.make_assembly(sales, as_of=moment, created_at=moment)


def scored(space: Space) -> QuerySet[Assembly]:
    """Return the assemblies that pass the journey's filters, newest first."""
    return Assembly.objects.filter(space=space, stage=4).order_by("-created_at", "-id")


def check_listed(page: Page, ids: list[int]) -> None:
    """Check that the page lists these assemblies, in any order."""
    links = page.locator("#assemblies tbody th a")
    expect(links).to_have_count(len(ids))
    assert sorted(map(int, links.all_inner_texts()), reverse=True) == ids


def click_bar(page: Page, bar: Locator) -> None:
    """Click the bar by mouse position: Plotly's own layer covers its bars."""
    bar.scroll_into_view_if_needed()
    box = bar.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    expect(
        page.locator("#plot-saved .hoverlayer .legend, #plot-saved .hoverlayer .hovertext").first
    ).to_be_visible()
    page.mouse.click(x, y)


def download(page: Page, name: str) -> Path:
    with page.expect_download() as caught:
        page.get_by_role("link", name=name).click()
    return caught.value.path()


def exported(rows: QuerySet[Assembly]) -> Iterator[dict[str, object]]:
    """Yield some cells of each row as an export has them."""
    for row in rows.select_related("space", "config"):
        assert row.space is not None and row.config is not None
        yield {
            "id": row.pk,
            "created_at": row.created_at.isoformat(),
            "space": row.space.slug,
            "stage": row.stage,
            "config_version": row.config.version,
            "records_included": row.records_included,
            "tokens_before": row.tokens_before,
            "tokens_after": row.tokens_after,
            "truncated": row.truncated,
            "sha256": row.sha256,
        }


@pytest.mark.usefixtures("log")
def test_from_the_overview_to_the_rows(
    live_server: LiveServer,
    spaces: tuple[Space, Space],
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    page = open_page(viewport={"width": 1440, "height": 900}, accept_downloads=True)
    page.goto("/?range=7d")
    open_parts(page)
    expect(page.locator("#tile-assemblies .value")).to_have_text(str(WEEK * (THIS_WEEK + 3)))
    check_accessibility(page)
    page.evaluate("window.stillHere = true")
    choose_space_and_range(page, live_server)
    compare_stages_and_weeks(page, live_server)
    assert page.evaluate("window.stillHere")
    check_accessibility(page)

    # A bar leads to the assemblies of that day only.
    bars = page.locator("#plot-saved .bars path")
    expect(bars).to_have_count(WEEK)
    click_bar(page, bars.nth(WEEK - 4))
    day = datetime.now(UTC).date() - timedelta(days=3)
    expect(page).to_have_url(
        re.compile(rf"/assemblies/\?space=support&stage=4&start={day}T00%3A00%3A00Z&end=.*&sort=saved")
    )
    expect(page.locator("#id_space")).to_have_value("support")
    expect(page.locator("#id_stage")).to_have_value("4")
    behind = list(scored(spaces[0]).filter(created_at__date=day).values_list("pk", flat=True))
    assert len(behind) == THIS_WEEK
    check_listed(page, behind)
    check_accessibility(page)

    compare_two(page, behind, check_accessibility)
    page.go_back()
    check_listed(page, behind)

    remove_the_day(page)
    expect(page.locator("#assemblies tbody tr")).to_have_count(50)
    save_and_open_a_view(page, live_server)
    check_exports(page, scored(spaces[0]))


def choose_space_and_range(page: Page, server: LiveServer) -> None:
    """Choose a space and a range, and check that each filter is in the address at once."""
    assemblies = page.locator("#tile-assemblies .value")
    page.get_by_role("link", name="30d").click()
    expect(page).to_have_url(f"{server.url}/?range=30d")
    expect(assemblies).to_have_text(str(WEEK * (THIS_WEEK + WEEK_BEFORE + 6)))
    choose_filter(page, "Space", "support")
    expect(page).to_have_url(f"{server.url}/?range=30d&space=support")
    expect(assemblies).to_have_text(str(WEEK * (THIS_WEEK + WEEK_BEFORE + 4)))
    page.get_by_role("link", name="7d").click()
    expect(page).to_have_url(f"{server.url}/?range=7d&space=support")
    expect(assemblies).to_have_text(str(WEEK * (THIS_WEEK + 2)))


def compare_stages_and_weeks(page: Page, server: LiveServer) -> None:
    rows = page.get_by_role("table", name="Stages side by side").locator("tbody tr").all()
    counts = [(row.locator("th").inner_text()[0], row.locator("td").first.inner_text()) for row in rows]
    assert counts == [("2", str(WEEK)), ("3", str(WEEK)), ("4", str(WEEK * THIS_WEEK))]
    choose_filter(page, "Stage", "4")
    expect(page).to_have_url(f"{server.url}/?range=7d&space=support&stage=4")
    # A chip removes its filter.
    page.get_by_role("link", name="Space: Support notes").click()
    expect(page).to_have_url(f"{server.url}/?range=7d&stage=4")
    choose_filter(page, "Space", "support")
    expect(page).to_have_url(f"{server.url}/?range=7d&space=support&stage=4")
    expect(page.locator("#tile-assemblies .value")).to_have_text(str(WEEK * THIS_WEEK))
    expect(page.locator("#tile-assemblies .delta")).to_contain_text("▲up 100 %")
    expect(page.locator("#tile-truncation .value")).to_have_text("100 %")


def compare_two(page: Page, behind: list[int], check_accessibility: Callable[[Page], None]) -> None:
    """Compare an assembly with four records and one without that limit: text and ledger show what is gone."""
    fewer, all_records = behind[0], behind[1]
    for number in (fewer, all_records):
        page.get_by_role("checkbox", name=f"Select {number} to compare", exact=True).check()
    page.get_by_role("button", name="Compare selected").click()
    expect(page).to_have_url(re.compile(rf"/assemblies/compare/\?id={fewer}&id={all_records}$"))
    included = Assembly.objects.in_bulk([fewer, all_records])
    gone = included[all_records].records_included - included[fewer].records_included
    assert (included[fewer].records_included, gone > 0) == (4, True)
    figures = page.get_by_role("row", name="Records included")
    expect(figures.locator("strong")).to_contain_text("4 of ")
    expect(page.locator("pre.diff .gone")).not_to_have_count(0)
    expect(page.locator("pre.diff")).to_contain_text("Support note")
    ledger = page.get_by_role("table", name="Candidates with different outcomes")
    expect(ledger.locator(".tag.drop")).to_have_count(gone)
    check_accessibility(page)


def remove_the_day(page: Page) -> None:
    """Remove the day by its chips, then the order, without a reload."""
    for label in ("From: ", "To: "):
        page.locator(".chips").get_by_role("link", name=label).click()
        expect(page.locator(".chips").get_by_role("link", name=label)).to_have_count(0)
    page.evaluate("window.stillHere = true")
    page.get_by_label("Sort", exact=True).select_option("")
    expect(page).to_have_url(re.compile(r"/assemblies/\?words=&find=&space=support"))
    expect(page.locator("th[aria-sort]")).to_have_text("Time")
    assert page.evaluate("window.stillHere")


def save_and_open_a_view(page: Page, server: LiveServer) -> None:
    """Check that a view saves the page's current filters, not those that it was opened with."""
    page.locator("summary", has_text="Views").click()
    page.get_by_label("Save these filters as").fill("Support, scored")
    page.get_by_role("button", name="Save view").click()
    expect(page.get_by_role("status")).to_contain_text("Saved as “Support, scored”.")
    assert SavedView.objects.get().query == "space=support&stage=4"
    page.goto("/assemblies/")
    page.locator("summary", has_text="Views").click()
    page.get_by_role("link", name="Support, scored").click()
    expect(page).to_have_url(f"{server.url}/assemblies/?space=support&stage=4")
    expect(page.locator("#assemblies tbody tr")).to_have_count(50)


def check_exports(page: Page, rows: QuerySet[Assembly]) -> None:
    """Check that both files hold every row that passes the filters, not only those of the first page."""
    wanted = list(exported(rows))
    assert len(wanted) == WEEK * (THIS_WEEK + WEEK_BEFORE)
    as_text = [{name: str(value) for name, value in row.items()} for row in wanted]
    with download(page, "Export all as CSV").open(encoding="utf-8-sig", newline="") as file:
        found = list(csv.DictReader(file))
    assert [{name: row[name] for name in as_text[0]} for row in found] == as_text
    lines = [json.loads(line) for line in download(page, "JSONL").read_text().splitlines()]
    assert [{name: line[name] for name in wanted[0]} for line in lines] == wanted
