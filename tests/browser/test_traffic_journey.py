"""A lead points a client at the gateway, switches a space to insert, and opens a prompt's context."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Page, expect

from contextopt.gateway.models import GatewayPolicy, GatewayRequest
from contextopt.people.models import Scope, Team
from tests import factories
from tests.browser.conftest import DESK
from tests.concurrency import wait_until
from tests.contextopt.gateway.conftest import Process, gateway_process
from tests.gateway_upstream import Upstream


@pytest.fixture
def process(team: Team, tmp_path: Path, settings: Any) -> Iterator[Process]:
    with Upstream() as upstream:
        process = gateway_process(upstream, tmp_path)
        process.start()
        settings.GATEWAY_HOST, settings.GATEWAY_PORT = "127.0.0.1", process.port
        settings.LLM_BASE_URL = f"{upstream.base_url}/v1"
        yield process
        process.stop()


def ask_until_inserted(base_url: str, secret: str) -> httpx2.Response:
    """Send prompts until one gets its context: a busy machine may need too long for the first."""
    asked = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Why is the queue stuck?"}]}
    headers = {"X-Contextopt-Key": secret, "X-Contextopt-Space": "support"}
    answers: list[httpx2.Response] = []

    def is_inserted() -> bool:
        named = {**headers, "X-Contextopt-Conversation": f"c{len(answers)}"}
        answers.append(httpx2.post(f"{base_url}/chat/completions", json=asked, headers=named, timeout=20))
        return answers[-1].headers["x-contextopt-status"] == "inserted"

    wait_until(is_inserted)
    return answers[-1]


def test_from_an_empty_page_to_the_context_of_a_prompt(
    team: Team,
    process: Process,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    space = factories.make_space(team)
    factories.make_record(space, title="Queue stuck after deploy", notes="Workers hold the old lock.")
    _, secret = factories.make_key(team, Scope.WRITE, name="chatbot")
    page = open_page(
        **DESK,
        permissions=["clipboard-read", "clipboard-write"],
    )
    page.goto("/traffic/")
    expect(page.get_by_role("heading", name="No prompts have passed yet")).to_be_visible()
    check_accessibility(page)
    page.get_by_role("button", name="Copy the OpenAI base URL").click()
    expect(page.get_by_text("Copied.", exact=True)).to_be_visible()
    base_url = page.evaluate("navigator.clipboard.readText()")
    assert base_url == f"{process.address}/v1"

    page.get_by_role("link", name="Change settings for Support notes").click()
    page.get_by_label("Insert: contexts go into the prompts").check()
    check_accessibility(page)
    page.get_by_role("button", name="Save…").click()
    check_accessibility(page)
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text("Contexts go into 100 % of conversations.")
    assert GatewayPolicy.objects.get(space=space).mode == "insert"

    answer = ask_until_inserted(base_url, secret)
    wait_until(GatewayRequest.objects.filter(is_inserted=True).exists)
    page.reload()
    expect(page.locator("#tile-prompts")).to_contain_text("0 failed")
    expect(page.locator("section", has=page.get_by_role("heading", name="By key"))).to_contain_text("chatbot")
    check_accessibility(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    page.get_by_role("link", name=re.compile(r"\d prompts, gpt-4o-mini")).click()
    expect(page.locator("#prompts")).to_contain_text("inserted")
    check_accessibility(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("#prompts tr", has_text="inserted").locator("[data-row]").click()
    expect(page.get_by_text("Queue stuck after deploy").first).to_be_visible()
    expect(page).to_have_url(re.compile(rf"/assemblies/{answer.headers['x-contextopt-assembly']}/"))
    page.goto("/assemblies/")
    expect(page.locator("#assemblies")).to_contain_text("gateway")


def test_a_switch_is_undone_from_its_message(team: Team, open_page: Callable[..., Page]) -> None:
    space = factories.make_space(team)
    page = open_page()
    page.goto("/traffic/spaces/support/")
    page.get_by_label("Insert: contexts go into the prompts").check()
    page.get_by_label("Share of conversations (%)").fill("10")
    page.get_by_role("button", name="Save…").click()
    page.get_by_role("button", name="Cancel").click()
    assert not GatewayPolicy.objects.exists()
    page.get_by_role("button", name="Save…").click()
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text("Contexts go into 10 % of conversations.")
    page.locator("#toasts").get_by_role("button", name="Undo").click()
    expect(page.locator("#toasts")).to_contain_text("Change undone")
    policy = GatewayPolicy.objects.get(space=space)
    assert (policy.mode, policy.insert_percent) == ("audit", 100)
