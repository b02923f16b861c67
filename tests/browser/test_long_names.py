"""Long names make no page scroll sideways, even without spaces."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect

from contextopt.people.models import AuditEvent, Team
from contextopt.spaces.models import Space
from dashboard.kit.filters import SavedView
from tests import factories
from tests.browser.conftest import DESK, PHONE, check_fit

UNBROKEN = "Verbindlichkeitsverzeichnis" * 4


@pytest.fixture
def space(team: Team) -> Space:
    made = factories.make_space(team, name=UNBROKEN)
    factories.make_record(made)
    factories.make_assembly(made)
    return made


def test_no_page_scrolls_sideways(space: Space, team: Team, open_page: Callable[..., Page]) -> None:
    conversation = factories.make_conversation(space)
    factories.make_key(team, name=space.name)
    AuditEvent.objects.create(
        team=team, actor=f"user:{space.name}", action="space.edit", subject="space 1",
        before={"description": "What was said before. " * 60}, after={"description": space.name},
    )  # fmt: skip
    SavedView.objects.create(team=team, page="overview", name=space.name[:80])
    page = open_page(**PHONE)
    for address in (
        "/", "/assemblies/", "/feedback/", "/spaces/", "/spaces/support/", "/spaces/support/settings/",
        "/spaces/support/preview/", "/chat/", f"/chat/{conversation.pk}/", "/review/", "/search/?q=queue",
        "/phases/", "/memory/", "/connect/", "/settings/", "/settings/audit/",
    ):  # fmt: skip
        page.goto(address)
        for summary in page.locator("details.popover.views summary").all():
            summary.click()
        check_fit(page)
        page.set_viewport_size(DESK["viewport"])
        check_fit(page)
        page.set_viewport_size(PHONE["viewport"])
    by = page.locator("#events tbody tr").first.locator("td").nth(1).bounding_box()
    assert by is not None
    assert by["width"] >= 100


def test_a_long_message_stays_in_its_toast(team: Team, open_page: Callable[..., Page]) -> None:
    page = open_page(**PHONE)
    page.goto("/")
    page.evaluate("text => showToast(text)", UNBROKEN)
    inside, outside = page.locator(".toast span").bounding_box(), page.locator(".toast").bounding_box()
    assert inside and outside
    assert inside["x"] + inside["width"] < outside["x"] + outside["width"] <= page.evaluate("innerWidth")
    assert page.locator(".toast span").evaluate("node => node.scrollWidth <= node.clientWidth")


def check_columns(page: Page) -> None:
    """Check that all columns of the page's tables are in sight."""
    tables = page.locator(".scroll").all()
    assert tables
    for table in tables:
        fits = table.evaluate("node => node.scrollWidth <= node.clientWidth")
        assert fits, table.get_attribute("aria-label")


def test_long_words_leave_room_for_the_other_columns(team: Team, open_page: Callable[..., Page]) -> None:
    space = factories.make_space(team, name="W" * 120, slug="w" * 64)
    factories.make_record(space, title="W" * 300, tags=["W" * 60], date=datetime.now(UTC))
    page = open_page(**DESK)
    for address in ("/spaces/", f"/spaces/{space.slug}/"):
        page.goto(address)
        check_columns(page)
    page.get_by_role("button", name="Assemble").click()
    expect(page.get_by_role("region", name="Ledger")).to_be_visible()
    check_columns(page)
    page.get_by_role("button", name="Upvote").click()
    expect(page.get_by_role("button", name="Upvote 1")).to_be_visible()
    page.goto(f"{page.url}what-if/?context_tokens=0")
    expect(page.get_by_role("region", name="Records in and out").last).to_be_visible()
    check_columns(page)
    page.goto("/feedback/")
    check_columns(page)
