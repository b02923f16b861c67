"""A reviewer judges ten answers by keyboard alone, and an admin sees what to change."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from contextopt.people.models import Role, Team, User
from memory.review.models import ReviewItem, ReviewSlot
from tests import factories
from tests.browser.conftest import DESK
from tests.memory.factories import make_review

ITEMS = 10


@pytest.fixture
def owner(team: Team) -> User:
    """The person at the browser: a reviewer."""
    return factories.make_user("olga", team, Role.REVIEWER)


@pytest.fixture
def queue(team: Team) -> list[ReviewItem]:
    space = factories.make_space(team)
    for days in range(4):
        factories.make_record(
            space,
            title=f"Runbook, day {days}",
            notes="Replay the queue after the restore. " * 10,
            date=datetime.now(UTC) - timedelta(days=days),
        )
    return [make_review(space, as_of=datetime.now(UTC)) for _ in range(ITEMS)]


def test_ten_items_by_keyboard(
    queue: list[ReviewItem],
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    page = open_page(**DESK)
    page.goto("/review/")
    expect(page.get_by_role("main").get_by_text("10 waiting")).to_be_visible()
    check_accessibility(page)
    # In the queue, j and k move and Enter opens.
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator("[data-row]").first).to_be_focused()

    page.keyboard.press("r")
    expect(page).to_have_url(re.compile(rf"/review/{queue[0].pk}/$"))
    expect(page.locator("#reserved")).to_contain_text("reserved for you until")
    expect(page.get_by_role("cell", name="cut at 100 chars").first).to_be_visible()
    check_accessibility(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    # The first is skipped and comes back at the end.
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile(rf"/review/{queue[1].pk}/$"))
    page.keyboard.press("k")
    expect(page).to_have_url(re.compile(rf"/review/{queue[0].pk}/$"))
    page.wait_for_load_state()
    with page.expect_event("load"):  # for Back, htmx loads the whole page
        page.go_back()
    expect(page).to_have_url(re.compile(rf"/review/{queue[1].pk}/$"))

    page.evaluate("window.isSamePage = true")
    for number, item in enumerate(queue[1:], start=1):
        expect(page).to_have_url(re.compile(rf"/review/{item.pk}/$"))
        page.keyboard.press(str(number % 6 + 1))
        page.keyboard.press("n")
        page.keyboard.type(f"note {number}, with j and 3")
        if number % 2:
            page.keyboard.press("Control+Enter")
        else:
            page.keyboard.press("Escape")
            page.keyboard.press("Enter")
        expect(page.locator("#toasts .toast")).to_contain_text("Saved: ")
    expect(page.get_by_role("main").get_by_text("1 waiting")).to_be_visible()
    expect(page.locator("#waiting")).to_contain_text("1 waiting")
    # Each item replaced the last one without loading the page.
    assert page.evaluate("window.isSamePage")
    page.get_by_role("button", name="Review skipped items").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"/review/{queue[0].pk}/$"))
    expect(page.get_by_label("Context cut too short")).to_be_visible()
    page.keyboard.press("2")
    # The verdict has the focus, and the help still opens.
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Help")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    expect(page.get_by_role("main").get_by_text("0 waiting")).to_be_visible()
    expect(page.locator("#waiting")).to_be_hidden()
    expect(page.get_by_role("heading", name="Settings to change")).to_be_visible()
    check_accessibility(page)

    slots = ReviewSlot.objects.exclude(verdict="")
    assert slots.count() == ITEMS
    assert set(slots.values_list("reviewer", flat=True)) == {"user:olga"}
    assert slots.get(item=queue[3]).note == "note 3, with j and 3"
    assert len(set(slots.values_list("verdict", flat=True))) == 6

    # The last verdict is taken back from the toast.
    page.get_by_role("button", name="Undo").last.click()
    expect(page).to_have_url(re.compile(rf"/review/{queue[0].pk}/$"))
    expect(page.locator("#reserved")).to_contain_text("reserved for you until")
    expect(page.get_by_label("Context cut too short")).to_be_checked()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Help")).to_be_visible()


SKIP_ONCE_MORE = """
window.isSamePage = true;
const skip = () => document.querySelector("#skip-form").requestSubmit();
document.addEventListener("htmx:afterSwap", () => setTimeout(skip), {once: true});
"""


def test_two_skips_in_quick_succession_load_no_page(
    queue: list[ReviewItem], open_page: Callable[..., Page]
) -> None:
    page = open_page(**DESK)
    page.goto(f"/review/{queue[0].pk}/")
    page.evaluate(SKIP_ONCE_MORE)
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile(rf"/review/{queue[2].pk}/$"))
    assert page.evaluate("window.isSamePage")


def test_a_skipped_item_keeps_its_draft(queue: list[ReviewItem], open_page: Callable[..., Page]) -> None:
    page = open_page(**DESK)
    page.goto(f"/review/{queue[0].pk}/")
    page.keyboard.press("2")
    page.get_by_label("Note").fill("The runbook is cut.")
    page.get_by_label("The verdict is about Runbook, day 1").check()
    page.get_by_role("button", name="Skip").click()
    expect(page).to_have_url(re.compile(rf"/review/{queue[1].pk}/$"))
    expect(page.get_by_label("Note")).to_have_value("")
    page.keyboard.press("k")
    expect(page).to_have_url(re.compile(rf"/review/{queue[0].pk}/$"))
    expect(page.get_by_label("Note")).to_have_value("The runbook is cut.")
    expect(page.get_by_label("Context cut too short")).to_be_checked()
    expect(page.get_by_label("The verdict is about Runbook, day 1")).to_be_checked()

    # A saved verdict leaves no draft behind.
    page.get_by_role("button", name="Save and next").click()
    expect(page.locator("#toasts .toast")).to_contain_text("Saved: ")
    assert page.evaluate("Object.keys(sessionStorage).filter(key => key.startsWith('draft:'))") == []
