"""Polls keep the focus, open lists and half-typed text."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect

from contextopt.people.audit import note_event
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from dashboard.kit.responses import PAGE_ROWS
from memory.questions.inputs import QuestionIn
from memory.questions.sets import add_question, create_set
from tests import factories
from tests.browser.conftest import DESK, open_parts

FOCUSED = "() => document.activeElement.textContent.trim() || document.activeElement.id"
NO_STORAGE = """Object.defineProperty(window, "localStorage", {get() { throw new DOMException(); }})"""


@pytest.fixture
def space(team: Team) -> Space:
    space = factories.make_space(team)
    factories.make_record(space, date=datetime.now(UTC))
    for _ in range(2):
        factories.make_assembly(space, as_of=datetime.now(UTC))
    return space


def poll(page: Page, target: str) -> None:
    """Update an element as its poll does."""
    with page.expect_response(lambda response: response.request.headers.get("hx-target") == target):
        page.evaluate(
            """id => {
                const element = document.getElementById(id);
                const address = element.getAttribute("hx-get") ?? location.href;
                htmx.ajax("GET", address, {source: element, target: element, swap: "outerHTML"});
            }""",
            target,
        )
    page.wait_for_function("() => !document.querySelector('.htmx-request, .htmx-swapping, .htmx-settling')")


def test_the_live_list_keeps_the_focus_and_its_columns(space: Space, open_page: Callable[..., Page]) -> None:
    page = open_page(**DESK)
    page.goto("/assemblies/?live=on")
    row = page.locator("a[data-row]").last
    row.focus()
    number = row.inner_text()
    factories.make_assembly(space, as_of=datetime.now(UTC))
    poll(page, "assemblies")
    expect(page.locator("a[data-row]")).to_have_count(3)
    assert page.evaluate(FOCUSED) == number
    page.locator("#columns summary").click()
    page.get_by_label("By", exact=True).focus()
    poll(page, "assemblies")
    expect(page.get_by_label("By", exact=True)).to_be_focused()
    page.get_by_text("Columns").focus()
    poll(page, "assemblies")
    assert page.evaluate(FOCUSED) == "Columns"


def test_the_overview_keeps_the_focus(space: Space, open_page: Callable[..., Page]) -> None:
    page = open_page(**DESK)
    page.goto("/")
    open_parts(page)
    page.locator("#tile-assemblies a").focus()
    poll(page, "figures")
    expect(page.locator("#tile-assemblies a")).to_be_focused()


def test_a_chosen_filter_leaves_the_focus_on_its_menu(space: Space, open_page: Callable[..., Page]) -> None:
    page = open_page(**DESK)
    page.goto("/")
    menu = page.locator("summary", has_text="+ Filter")
    menu.press("Enter")
    page.get_by_label("Stage", exact=True).focus()
    page.get_by_label("Stage", exact=True).select_option("4")
    expect(page.get_by_role("link", name="Stage: 4")).to_be_visible()
    expect(menu).to_be_focused()


def test_a_poll_does_not_interrupt_typing_a_decision(team: Team, open_page: Callable[..., Page]) -> None:
    task = factories.make_task(team)
    factories.make_finding(task, decision="open")
    page = open_page(**DESK)
    page.goto(f"/tasks/{task.pk}/findings/")
    decision = page.get_by_placeholder("Answer")
    decision.press_sequentially("keep ")
    poll(page, "board")
    page.keyboard.type("floats")
    expect(decision).to_have_value("keep floats")


def test_refusals_show_at_once(space: Space, open_page: Callable[..., Page]) -> None:
    found = create_set(space=space, name="Small talk", actor="test")
    record = factories.make_record(space)
    add_question(question_set=found, data=QuestionIn(query="Why?", record_ids=[record.pk]), actor="test")
    page = open_page(**DESK)
    page.goto(f"/questions/{found.pk}/")
    found.questions.all().delete()
    page.get_by_role("button", name="Evaluate").click()
    expect(page.locator(".toast.error")).to_contain_text("Not evaluated.")


def test_one_toast_says_that_polls_fail(space: Space, open_page: Callable[..., Page]) -> None:
    tab = open_page(**DESK).context.new_page()
    tab.goto("/assemblies/")
    tab.context.set_offline(True)
    for _ in range(2):
        tab.evaluate("() => htmx.ajax('GET', location.href, '#assemblies').catch(() => null)")
    expect(tab.locator(".toast")).to_have_count(1)
    expect(tab.locator(".toast")).to_contain_text("It shows an earlier state.")


def test_without_storage_columns_can_be_hidden(space: Space, open_page: Callable[..., Page]) -> None:
    page = open_page(**DESK)
    page.add_init_script(NO_STORAGE)
    page.goto("/assemblies/")
    page.get_by_text("Columns").click()
    page.get_by_label("By", exact=True).uncheck()
    expect(page.get_by_role("columnheader", name="By")).to_be_hidden()
    poll(page, "assemblies")
    expect(page.get_by_role("columnheader", name="By")).to_be_hidden()


def test_older_rows_keep_the_focus_on_their_link(team: Team, open_page: Callable[..., Page]) -> None:
    for number in range(2 * PAGE_ROWS + 1):
        note_event(team_id=team.pk, actor="test", action="key.created", subject=f"key {number}")
    page = open_page(**DESK)
    page.goto("/settings/audit/")
    page.get_by_role("link", name="Older").focus()
    for shown in (f"key {PAGE_ROWS}", "key 0"):
        page.keyboard.press("Enter")
        expect(page.get_by_role("cell", name=shown, exact=True)).to_be_visible()


def test_the_last_and_the_first_page_keep_the_focus_among_their_links(
    team: Team, open_page: Callable[..., Page]
) -> None:
    for number in range(PAGE_ROWS + 1):
        note_event(team_id=team.pk, actor="test", action="key.created", subject=f"key {number}")
    page = open_page(**DESK)
    page.goto("/settings/audit/")
    page.get_by_role("link", name="Older").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Newest")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Older")).to_be_focused()


def test_a_refused_action_is_no_stale_page(space: Space, open_page: Callable[..., Page]) -> None:
    # Another tab of the browser has logged in again, so the form's token is no longer valid.
    tab = open_page(**DESK).context.new_page()
    tab.goto(f"/assemblies/{space.assemblies.latest('pk').pk}/")
    tab.context.clear_cookies(name="csrftoken")
    tab.get_by_role("button", name="Upvote").click()
    expect(tab.locator(".toast")).to_contain_text("That did not work. Reload the page and try again.")


def test_an_action_without_an_answer_may_have_worked(space: Space, open_page: Callable[..., Page]) -> None:
    tab = open_page(**DESK).context.new_page()
    tab.goto(f"/assemblies/{space.assemblies.latest('pk').pk}/")
    tab.context.set_offline(True)
    tab.get_by_role("button", name="Upvote").click()
    expect(tab.locator(".toast")).to_contain_text("The server did not answer.")
