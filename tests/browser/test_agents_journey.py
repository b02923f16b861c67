"""An agent fails twice, and a person looks at the context it was sent."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from contextopt.agents.models import PhaseProfile
from contextopt.people.models import Team
from tests import factories
from tests.browser.conftest import DESK, FITS, PHONE
from tests.browser.test_journey import call
from tests.gitrepos import SHOP

CART = "".join(f"def line_{number}(cart):\n    return cart[{number}] * 1.00\n\n\n" for number in range(40))
ERROR = "collecting\n" * 300 + "E   AssertionError: assert 7.004 == 7\ncart_test.py:4: AssertionError\n"


def post_context(server: LiveServer, key: str) -> dict[str, object]:
    """Filter a context for a phase, as an agent does before it builds."""
    context = {
        "tree": "shop/\n  cart.py\n",
        "files": {"shop/cart.py": CART},
        "docs": ["How prices round.\n" * 50],
    }
    return call(server, key, "/phases/building/filter", {"context": context})


def fail_twice(server: LiveServer, key: str) -> int:
    """Make a task and post two failed attempts; return the task's id."""
    task = call(
        server, key, "/tasks", {"description": "Round prices to cents", "files": {"shop/cart.py": CART}}
    )
    path = f"/tasks/{task['id']}/attempts"
    first = CART.replace("cart[7] * 1.00", "round(cart[7], 1)")
    diagnosis = {
        "root_cause": "implementation_error", "reason": "One digit", "suggested_action": "Keep two digits"
    }  # fmt: skip
    body = {"error": ERROR, "plan": ["Find the price", "Round it"], "diagnosis": diagnosis}
    call(server, key, path, {**body, "files": {"shop/cart.py": first}})
    second = first.replace("round(cart[7], 1)", "round(cart[7], 2)")
    call(server, key, path, {**body, "files": {"shop/cart.py": second, "shop/cents.py": "CENTS = 2\n"}})
    return int(str(task["id"]))


def test_from_two_failures_to_the_saving(
    live_server: LiveServer,
    team: Team,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    page = open_page(**PHONE)
    page.goto("/retries/")
    expect(page.get_by_role("heading", name="No tasks yet")).to_be_visible()
    check_accessibility(page)

    _, key = factories.make_key(team)
    task = fail_twice(live_server, key)
    page.reload()
    expect(page.locator("#tile-attempts .value")).to_have_text("2")
    check_accessibility(page)
    page.get_by_label("Root cause", exact=True).select_option("implementation_error")
    expect(page).to_have_url(re.compile(r"\?.*cause=implementation_error"))
    page.get_by_role("link", name="Round prices to cents").click()

    # The second delta builds on the first: it holds only later changes.
    expect(page).to_have_url(f"{live_server.url}/retries/{task}/")
    second = page.locator("#attempt-2")
    expect(second.locator("pre.marked .gone")).to_contain_text("-    return round(cart[7], 1)")
    expect(second.locator("pre.marked .added").first).to_contain_text("+    return round(cart[7], 2)")
    expect(second.get_by_text("[NEW FILE]")).to_be_visible()
    expect(second.get_by_label("Latest error", exact=True)).to_contain_text("assert 7.004 == 7")
    expect(second.locator("dl.facts")).to_contain_text("tokens fewer")
    expect(second.locator("svg.allocation")).to_have_attribute("aria-label", re.compile("tokens sent$"))
    assert page.evaluate(FITS)
    check_accessibility(page)

    second.get_by_role("link", name="Sent text").click()
    expect(page.get_by_text("verified now")).to_be_visible()
    expect(page.locator("#prompt")).to_contain_text("## Changed files")
    check_accessibility(page)


def test_a_phase_is_looked_at_and_made_smaller(
    live_server: LiveServer,
    team: Team,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    _, key = factories.make_key(team)
    page = open_page(viewport={"width": 1440, "height": 900})
    page.goto("/phases/")
    expect(page.get_by_role("heading", name="No filtered contexts yet")).to_be_visible()
    check_accessibility(page)
    answer = post_context(live_server, key)
    page.reload()
    expect(page.locator("#tile-filterings .value")).to_have_text("1")
    expect(page.locator("#plot-saved .bars path")).not_to_have_count(0)
    check_accessibility(page)

    # Filters work without a reload, and the drawn charts stay.
    page.evaluate("window.stillHere = true")
    page.get_by_label("Phase", exact=True).select_option("building")
    expect(page).to_have_url(f"{live_server.url}/phases/?phase=building")
    expect(page.locator("#plot-share .main-svg").first).to_be_visible()
    page.get_by_role("button", name="Table of Share saved by phase").click()
    expect(page.locator("#table-share")).to_be_visible()
    assert page.evaluate("window.stillHere")

    # One filtered context, before and after.
    page.get_by_role("link", name=str(answer["id"]), exact=True).click()
    expect(page.locator("pre.marked .gone").first).to_contain_text("− ## Tree")
    expect(page.locator("#prompt")).not_to_contain_text("How prices round")
    expect(page.get_by_text("not used in this phase").first).to_be_visible()
    check_accessibility(page)

    # Publishing a smaller budget creates a version, and the next filtered context keeps to it.
    page.get_by_role("link", name="building").click()
    page.get_by_label("Budget in tokens").fill("300")
    page.get_by_label("package manifest").uncheck()
    check_accessibility(page)
    page.get_by_role("button", name="Publish as a new version").click()
    expect(page.locator("#version-1 .tag.kept")).to_have_text("active")
    assert PhaseProfile.objects.get().budget_tokens == 300
    assert int(str(post_context(live_server, key)["filtered_tokens"])) <= 300
    page.goto("/phases/")
    expect(page.locator("#filterings .tag", has_text="trimmed")).to_have_count(1)


def test_the_files_of_a_task(
    live_server: LiveServer,
    team: Team,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    page = open_page(**DESK)
    page.goto("/repositories/")
    expect(page.get_by_role("heading", name="No repositories yet")).to_be_visible()
    check_accessibility(page)
    _, key = factories.make_key(team)
    call(live_server, key, "/repos", {"name": "shop", "files": SHOP})
    page.reload()
    page.get_by_role("link", name="shop").click()
    page.get_by_label("Task", exact=True).fill("Round the prices of a cart")
    page.get_by_role("button", name="Find the files").click()
    expect(page.locator("#chosen tbody tr")).to_have_count(len(SHOP))
    expect(page).to_have_url(re.compile(r"\?task=Round"))
    expect(page.locator("svg.graph .link")).not_to_have_count(0)
    row = page.locator("#chosen tbody tr", has_text="shop/prices.py")
    row.focus()
    expect(page.locator("svg.graph .link.lit").first).to_be_attached()
    assert page.evaluate(FITS)
    check_accessibility(page)
