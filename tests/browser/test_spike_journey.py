"""A team lead sees a spike on the Overview and opens the rows behind it."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from dashboard.tasks import fold_assemblies
from tests import factories
from tests.browser.conftest import PHONE, open_parts
from tests.dashboard.pages.overview.test_figures import log_row

NOW = datetime.now(UTC)
SPIKE_MS = 1_800.0


@pytest.fixture
def slow(team: Team) -> Assembly:
    """Log three contexts a day, and one more three days ago that was slow."""
    space = factories.make_space(team)
    factories.make_record(space, date=NOW - timedelta(days=8))
    for days in range(7):
        moment = NOW - timedelta(days=days)
        for _ in range(3):
            factories.make_assembly(space, as_of=moment, created_at=moment)
    row = log_row(space, NOW - timedelta(days=3), assembly_ms=SPIKE_MS)
    fold_assemblies()
    return row


def test_from_the_spike_to_its_row(
    slow: Assembly,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    page = open_page(**PHONE)
    page.goto("/?range=7d")
    plot = page.locator("#plot-time")
    expect(plot.locator(".main-svg").first).to_be_visible()
    check_accessibility(page)
    for _ in range(4):
        plot.press("ArrowLeft")
    expect(page.locator("p[aria-live]", has_text="p95 1")).to_contain_text(f"{slow.created_at.date()}")
    plot.press("Enter")

    # The rows of that day, the slowest first.
    expect(page).to_have_url(re.compile(rf"start={slow.created_at.date()}T00%3A00%3A00Z&end=.*&sort=slowest"))
    rows = page.locator("#assemblies tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.first).to_contain_text("1,800")
    expect(page.locator("th[aria-sort]")).to_contain_text("ms")
    check_accessibility(page)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(str(slow.pk))
    check_accessibility(page)


def test_a_tile_opens_the_rows_behind_it(slow: Assembly, open_page: Callable[..., Page]) -> None:
    page = open_page(viewport={"width": 1440, "height": 900})
    page.goto("/?range=7d")
    open_parts(page)
    page.locator("#tile-time").get_by_role("link").click()
    expect(page.locator("#assemblies tbody th a").first).to_have_text(str(slow.pk))
