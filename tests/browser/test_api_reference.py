"""The API reference on a phone and a desk: nothing is cut, and an operation opens with its example."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import DESK, PHONE

WIDER = """() => [...document.querySelectorAll('#swagger-ui *')]
    .filter(node => node.getBoundingClientRect().right > innerWidth + 1)
    .filter(node => !node.closest('pre, .model-container, .json-schema-2020-12'))
    .slice(0, 3).map(node => node.outerHTML.slice(0, 120))"""


def test_an_operation_is_read_at_a_desk(open_page: Callable[..., Page]) -> None:
    page = open_page(**DESK)
    page.goto("/api/docs")
    operation = page.locator("#operations-Assemblies-contextopt_api_assemblies_create_assembly")
    operation.locator(".opblock-summary-control").click()
    expect(operation.get_by_text("Why is the queue stuck after a deploy?").first).to_be_visible()
    expect(operation.get_by_text("Repeating the request with the same key")).to_be_visible()
    operation.get_by_role("tab", name="Schema").first.click()
    check_width(page)
    assert not is_dark(page)
    expect(page.get_by_role("link", name="Contextopt", exact=True)).to_have_attribute("href", "/")


def test_a_request_is_tried_on_a_phone(open_page: Callable[..., Page]) -> None:
    """Empty filters are not sent, and the dialog for the key fits."""
    page = open_page(**PHONE)
    page.goto("/api/docs")
    operation = page.locator("#operations-Records-contextopt_api_records_list_records")
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()
    expect(operation.get_by_placeholder("slug")).to_have_value("support")
    expect(operation.get_by_placeholder("cursor")).to_have_value("")
    assert is_dark(page)
    check_width(page)
    page.get_by_role("button", name="Authorize").click()
    expect(page.get_by_role("heading", name="Available authorizations")).to_be_visible()
    check_width(page)


def is_dark(page: Page) -> bool:
    return "dark-mode" in (page.locator("html").get_attribute("class") or "")


def check_width(page: Page) -> None:
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    assert page.evaluate(WIDER) == []
