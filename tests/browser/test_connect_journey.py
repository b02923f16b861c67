"""A newcomer creates a key, runs the snippet as it was copied, and sees the light turn on."""

import re
import shutil
import subprocess
from collections.abc import Callable

import httpx2
import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from tests import factories
from tests.browser.conftest import DESK


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_the_copied_snippet_turns_the_light_on(
    team: Team,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    page = open_page(
        **DESK,
        permissions=["clipboard-read", "clipboard-write"],
    )
    page.goto("/connect/")
    page.get_by_role("button", name="Create a space with examples").click()
    light = page.locator("#light")
    expect(light).to_contain_text("No key yet")
    check_accessibility(page)

    page.get_by_role("button", name="Create a key").click()
    expect(light).to_contain_text("Waiting for the first request…")
    check_accessibility(page)
    page.get_by_text("curl", exact=True).click()
    page.get_by_role("button", name="Copy curl: One call").click()
    expect(page.get_by_text("Copied.", exact=True)).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    ran = subprocess.run(["sh", "-c", copied], capture_output=True, check=True, timeout=60)
    assert b"Queue stuck after the deploy" in ran.stdout

    expect(light).to_contain_text("First request seen")
    expect(page.locator("#dot-http")).to_contain_text("seen")
    expect(page.locator("#dot-mcp")).not_to_contain_text("seen")
    # The secret is still in the snippets when the light has been drawn again.
    page.get_by_text("Claude Code", exact=True).click()
    expect(page.locator("#snippet-claude-4")).to_contain_text("ctx_")
    check_accessibility(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    light.get_by_role("link", name="Open it in the Inspector").click()
    expect(page).to_have_url(re.compile(rf"/assemblies/{Assembly.objects.get().pk}/$"))
    page.go_back()
    expect(page.locator("#snippet-claude-4")).not_to_contain_text("ctx_")


def test_a_connect_code_leads_to_the_first_context(
    team: Team, open_page: Callable[..., Page], check_accessibility: Callable[[Page], None]
) -> None:
    factories.make_record(factories.make_space(team), title="Queue stuck", date=timezone.now())
    page = open_page(**DESK, permissions=["clipboard-read", "clipboard-write"])
    page.goto("/connect/")
    page.get_by_role("button", name="Make a connect code").click()
    light = page.locator("#light")
    expect(light).to_contain_text("Waiting for the command…")
    check_accessibility(page)
    page.get_by_role("button", name="Copy Claude Code: Run this in your repository").click()
    expect(page.get_by_text("Copied.", exact=True)).to_be_visible()
    command = page.evaluate("navigator.clipboard.readText()")
    found = re.fullmatch(r"pipx run --no-cache --spec (\S+) contextopt connect claude --code (\S+)", command)
    assert found is not None
    assert httpx2.get(found[1], verify=False).content.startswith(b"PK")

    server = found[1].partition("/connect/")[0]
    sent = {"code": found[2], "tool": "claude", "machine": "laptop"}
    key = httpx2.post(f"{server}/connect/redeem", json=sent, verify=False).json()["key"]
    expect(page.locator("#steps")).to_contain_text("on laptop")
    expect(page.locator("#dot-claude")).not_to_contain_text("seen")
    headers = {"Authorization": f"Bearer {key}", "User-Agent": "contextopt-hook/claude"}
    httpx2.post(f"{server}/api/v1/assemblies", json={"space": "support"}, headers=headers, verify=False)
    expect(light).to_contain_text("First request seen")
    expect(page.locator("#dot-claude")).to_contain_text("seen")
    expect(page.locator("#steps")).to_contain_text("1 record")
    check_accessibility(page)


def test_another_space_is_filled_in(team: Team, open_page: Callable[..., Page]) -> None:
    factories.make_space(team, slug="one")
    factories.make_space(team, slug="two", name="Two")
    page = open_page()
    page.goto("/connect/")
    page.get_by_label("Space", exact=True).select_option("Two")
    expect(page.locator("#snippet-http-1")).to_contain_text('"space": "two"')


def test_help_comes_after_a_minute(team: Team, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto("/connect/")
    page.get_by_role("button", name="Create a key").click()
    expect(page.locator("#light")).to_contain_text("Waiting for the first request…")
    late = page.locator(".late")
    expect(late).to_be_hidden()
    page.evaluate("for (const each of document.getAnimations()) each.finish()")
    expect(late).to_be_visible()
