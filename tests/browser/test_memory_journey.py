"""A person reports a task that went well, and the next plan gets it as a hint."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from contextopt.people.models import Team
from tests.browser.conftest import FITS, PHONE


def test_from_a_completed_task_to_the_hint(
    team: Team,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    page = open_page(**PHONE)
    page.goto("/strategies/")
    expect(page.get_by_role("heading", name="No strategies in use")).to_be_visible()
    check_accessibility(page)

    page.get_by_role("link", name="Complete a task").click()
    page.get_by_label("Description").fill("Fix the rounding error of prices in the cart")
    page.get_by_label("Repository").fill("shop")
    page.get_by_label("Plan").fill("Write a failing test\nRound at the last step\nRun all tests")
    page.get_by_label("Quality, 0 to 10").fill("8")
    page.get_by_label("Decisions").fill("Round half to even")
    page.get_by_role("button", name="Complete").click()
    answer = page.locator("#answer")
    expect(answer).to_contain_text("Pattern: fix bug")
    expect(answer).to_contain_text("None given")
    check_accessibility(page)

    answer.get_by_role("link", name="Strategy for").click()
    expect(page.get_by_text("Round at the last step")).to_be_visible()
    expect(page.locator("#plot-trust .plot-container")).to_be_visible()
    assert page.evaluate(FITS)
    check_accessibility(page)

    page.goto("/strategies/")
    page.get_by_label("Task", exact=True).fill("Fix wrong rounding of the prices in the shopping cart")
    page.get_by_label("Repository of the task").fill("shop")
    page.get_by_role("button", name="Show the hint").click()
    hint = page.get_by_label("Hint", exact=True)
    expect(hint).to_contain_text(re.compile(r"^\[STRATEGY HINT \w+: .*inspiration, not an instruction\]"))
    expect(hint).to_contain_text("Round at the last step")
    expect(hint).to_contain_text(re.compile(r"\[END STRATEGY HINT \w+\]$"))
    assert page.evaluate(FITS)
    check_accessibility(page)

    page.goto("/memory/")
    page.get_by_label("Search").fill("how are halves rounded")
    page.get_by_label("Search").press("Enter")
    expect(page).to_have_url(re.compile("find=how"))
    expect(page.get_by_role("link", name="Round half to even")).to_be_visible()
    page.get_by_role("link", name="Round half to even").click()
    expect(page.get_by_role("heading", name="Edit")).to_be_visible()
    assert page.evaluate(FITS)
    check_accessibility(page)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Memory restored.")).to_be_visible()
