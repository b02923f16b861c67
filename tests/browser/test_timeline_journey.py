"""An agent's task from its first context to its completion, and its timeline."""

import json
import re
from collections.abc import Callable

import pytest
from django.core.management import call_command
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from tests import factories
from tests.browser.conftest import FITS, PHONE
from tests.browser.test_agents_journey import CART, ERROR
from tests.browser.test_journey import call
from tests.memory.factories import make_strategy

DESCRIPTION = "Fix the rounding error of prices in the shopping cart"
CONTEXT = {
    "tree": "shop/\n  cart.py\n  prices.py\n" * 20,
    "package_manifest": '[project]\nname = "shop"\n',
    "files": {"shop/cart.py": CART},
    "memories": ["Prices are decimals, never floats.", "Totals are rounded once."],
    "docs": ["How prices round.\n" * 200],
}
FINDINGS = [
    {"category": "constraints", "content": {"description": "Prices stay whole cents"}, "tags": ["critical"]},
    {"category": "risks", "content": {"description": "Floats in shop/cart.py lose cents on long carts"}},
]


@pytest.fixture
def team(transactional_db: None) -> Team:
    # The command at the end looks at the default team.
    return Team.objects.ensure_default()


def begin(server: LiveServer, key: str) -> int:
    """Create the task, fetch a hint and a context, and add findings, the first of them critical."""
    made = call(
        server, key, "/tasks",
        {"description": DESCRIPTION, "repository": "shop", "files": {"shop/cart.py": CART}},
    )  # fmt: skip
    task = int(str(made["id"]))
    hint = {"task": DESCRIPTION, "repository": "shop", "task_id": task}
    assert call(server, key, "/strategy-hints", hint)["hint"]
    filter_for(server, key, task, "planning")
    for finding in FINDINGS:
        call(server, key, f"/tasks/{task}/findings", {**finding, "confidence": 0.8})
    return task


def filter_for(server: LiveServer, key: str, task: int, phase: str) -> None:
    call(server, key, f"/phases/{phase}/filter", {"context": CONTEXT, "task_id": task})


def go_on(server: LiveServer, key: str, task: int) -> None:
    """Advance to design and to implementation, fail once, and wait once."""
    call(server, key, f"/tasks/{task}/advance", {})
    finding = {"category": "components", "content": {"description": "One rounding in shop/cart.py"}}
    call(server, key, f"/tasks/{task}/findings", {**finding, "confidence": 0.8})
    call(server, key, f"/tasks/{task}/advance", {})
    filter_for(server, key, task, "building")
    files = {"shop/cart.py": CART.replace("cart[7] * 1.00", "round(cart[7], 1)")}
    for cause in ("implementation_error", "environment_error"):
        diagnosis = {"root_cause": cause, "reason": "One digit is not enough"}
        body = {"error": ERROR, "plan": ["Find the price", "Round it"], "diagnosis": diagnosis}
        call(server, key, f"/tasks/{task}/attempts", {**body, "files": files})
    filter_for(server, key, task, "reviewing")


def test_from_the_first_context_to_the_account(
    live_server: LiveServer,
    team: Team,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, key = factories.make_key(team)
    make_strategy(team)
    page = open_page(**PHONE)
    empty = factories.make_task(team)
    page.goto(f"/tasks/{empty.pk}/")
    expect(page.get_by_role("heading", name="Nothing has happened yet")).to_be_visible()
    check_accessibility(page)

    task = begin(live_server, key)
    page.goto("/tasks/")
    page.get_by_role("link", name=DESCRIPTION).first.click()
    expect(page).to_have_url(f"{live_server.url}/tasks/{task}/")
    expect(page.locator(".ev[data-kind=hint]")).to_contain_text("added by the hint")
    expect(page.get_by_text("2 findings added, 1 critical")).to_be_visible()

    go_on(live_server, key, task)
    call(
        live_server, key, "/completions",
        {"task_id": task, "plan": "Find the price\nRound it", "quality_score": 9},
    )  # fmt: skip
    page.reload()
    expect(page.locator("header.page .tag.kept")).to_have_text("completed")
    expect(page.locator("#phase-implementation .ev[data-kind=attempt]")).to_have_count(2)
    expect(page.locator("#phase-implementation pre").first).to_contain_text("assert 7.004 == 7")
    expect(page.get_by_text("not compared: nothing was sent")).to_be_visible()
    expect(page.get_by_text("Handed to implementation")).to_be_visible()
    expect(page.get_by_text("Completed, quality 9")).to_be_visible()
    assert page.evaluate(FITS)
    check_accessibility(page)

    # The account is the sum of the task's assemblies, and verify_savings finds no difference.
    rows = list(Assembly.objects.filter(task=task))
    sent = sum(row.tokens_after for row in rows)
    saved = sum(row.tokens_saved or 0 for row in rows)
    expect(page.locator("#sent")).to_contain_text(f"{sent:,}")
    expect(page.locator("#saved")).to_contain_text(f"{saved:,} tokens saved")
    expect(page.locator("#saved")).to_contain_text(f"{len(rows) - 1} of {len(rows)} compared")
    shown = page.locator(".ev .num").evaluate_all(
        "nums => nums.map(num => num.firstChild?.textContent ?? '')"
    )
    assert sum(int(text.replace(",", "") or 0) for text in map(str.strip, shown)) == sent
    capsys.readouterr()
    call_command("verify_savings", "--json")
    assert json.loads(capsys.readouterr().out)["differences"] == []

    # Filters work without a reload; an event opens its assembly.
    page.evaluate("window.stillHere = true")
    page.get_by_role("navigation", name="Events").get_by_role("link", name="Attempts").click()
    expect(page).to_have_url(re.compile(r"\?show=attempts$"))
    expect(page.locator(".ev[data-kind=context]")).to_have_count(0)
    expect(page.locator("#sent")).to_contain_text(f"{sent:,}")
    assert page.evaluate("window.stillHere")
    page.get_by_role("navigation", name="Events").get_by_role("link", name="Everything").click()
    expect(page.locator(".ev[data-kind=context]")).to_have_count(3)
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Copied.")).to_be_visible()
    page.get_by_role("link", name="Retry with the changes").click()
    expect(page.get_by_text("verified now")).to_be_visible()
    page.get_by_role("link", name=f"task {task}").click()
    page.get_by_role("navigation", name="Task").get_by_role("link", name="Findings").click()
    expect(page.locator("#phase-analysis")).to_contain_text("F-001")
    check_accessibility(page)
