"""A newcomer goes from the first log-in to an answering context, and to an application's first request."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from contextopt.people.models import Team
from tests.browser.conftest import DESK
from tests.browser.test_journey import call


def test_five_steps(
    live_server: LiveServer,
    team: Team,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    page = open_page(**DESK)
    page.goto("/")
    strip = page.locator("#start")
    expect(strip).to_contain_text("1 of 5: Create a space.")
    check_accessibility(page)
    page.get_by_role("button", name="Create space").click()

    expect(strip).to_contain_text("2 of 5: Add records.")
    check_accessibility(page)
    page.get_by_role("button", name="Add example records").click()

    # The question is filled in, and the preview answers it before anything is logged.
    expect(strip).to_contain_text("3 of 5: Ask a question.")
    expect(page.get_by_label("Question", exact=True)).to_have_value(re.compile("queue get stuck"))
    expect(page.locator("#preview .prompt")).to_contain_text("Queue stuck after the deploy")
    check_accessibility(page)
    page.get_by_role("button", name="Assemble").click()

    expect(strip).to_contain_text("4 of 5: Create an API key.")
    expect(page.locator("#prompt")).to_contain_text("Restarting them one at a time freed it.")
    check_accessibility(page)
    strip.get_by_role("link", name="Connect").click()
    page.get_by_role("button", name="Create a key").click()

    # The request to copy has the key in it, and the page notices when it has arrived.
    expect(strip).to_contain_text("5 of 5: Send the first request.")
    request = page.locator("#snippet-http-1").inner_text()
    key = re.search(r"Bearer (\S+)\"", request)
    space = re.search(r'"space": "([^"]+)"', request)
    assert key is not None and space is not None
    check_accessibility(page)
    call(live_server, key[1], "/assemblies", {"space": space[1]})
    expect(strip).to_contain_text("The first request has arrived.")
    strip.get_by_role("link", name="Open the list").click()
    expect(page.locator("#assemblies tbody tr")).to_have_count(2)
    page.goto("/")
    expect(page.locator("#start")).to_have_count(0)


def test_it_can_be_dismissed(team: Team, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto("/")
    page.locator("#start").get_by_role("button", name="Dismiss").click()
    expect(page.get_by_text("Getting started is hidden")).to_be_visible()
    expect(page.locator("#start")).to_have_count(0)
