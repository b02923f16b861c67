"""A real browser on the live server. Any console error or failed request fails the test."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from django.test import Client
from django.urls import get_resolver
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Response,
    TimeoutError,
    expect,
    sync_playwright,
)
from pytest_django.live_server_helper import LiveServer

from contextopt.people.models import Team, User
from tests import factories

DESK: dict[str, Any] = {"color_scheme": "light", "viewport": {"width": 1440, "height": 900}}
PHONE: dict[str, Any] = {"color_scheme": "dark", "viewport": {"width": 390, "height": 900}}
# Elements that axe skips to save time: rows like those above them, and Plotly's drawings.
UNREAD = ("tbody tr:nth-child(n+4)", ".main-svg")
# True if the page does not scroll sideways.
FITS = "() => document.documentElement.scrollWidth <= innerWidth"
# Elements wider than the window. Only boxes that scroll by themselves may contain some.
WIDER = """() => [...document.querySelectorAll('main *')]
    .filter(node => node.getBoundingClientRect().right > innerWidth + 1)
    .filter(node => !node.closest('.scroll, .chart-table, .sr, .js-plotly-plot'))
    .slice(0, 3).map(node => node.outerHTML.slice(0, 90))"""
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Playwright's event loop runs in this thread, so Django would refuse to use its ORM here.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
# A busy machine takes longer than the default of five seconds.
expect.set_options(timeout=15_000)


@pytest.fixture(scope="session")
def loaded_site() -> None:
    """Load all pages and the API, as a server does before it listens.

    Otherwise the first test's first page would wait for that, on a busy machine beyond its timeout.
    """
    assert get_resolver().url_patterns


@pytest.fixture(scope="session")
def browser(loaded_site: None) -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture
def team(transactional_db: None) -> Team:
    return factories.make_team()


@pytest.fixture
def open_page(browser: Browser, live_server: LiveServer, owner: User) -> Iterator[Callable[..., Page]]:
    """Open a tab as the owner: `open_page(color_scheme="dark", viewport=…)`."""
    contexts: list[BrowserContext] = []
    faults: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            faults.append(f"console {message.type}: {message.text}")

    def check(response: Response) -> None:
        if response.status >= 400:
            faults.append(f"{response.status} from {response.url}")

    def get(**options: object) -> Page:
        client = Client()
        client.force_login(owner)
        context = browser.new_context(base_url=live_server.url, reduced_motion="reduce", **options)
        context.set_default_timeout(30_000)
        context.add_cookies(
            [{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live_server.url}]
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: faults.append(f"exception: {error}"))
        page.on("response", check)
        page.on("requestfailed", lambda request: _note_failure(request, faults))
        page.on("request", lambda request: _check_host(request.url, live_server.url, faults))
        return page

    yield get
    for context in contexts:
        context.close()
    _join_requests()
    assert faults == []


def _join_requests(seconds: float = 10.0) -> None:
    """Wait for the server's last requests, whose locks could cause a deadlock when the tables are emptied."""
    end = time.monotonic() + seconds
    for thread in threading.enumerate():
        if "process_request_thread" in thread.name:
            thread.join(max(0.0, end - time.monotonic()))


def _note_failure(request: Request, faults: list[str]) -> None:
    """Note a failed request, unless the page aborted it for a newer one or by leaving."""
    if request.failure != "net::ERR_ABORTED":
        faults.append(f"failed: {request.url}: {request.failure}")


def _check_host(url: str, own: str, faults: list[str]) -> None:
    if not url.startswith((own, "data:", "blob:")):
        faults.append(f"another host: {url}")


def take(page: Page, name: str) -> None:
    """Take a screenshot if the environment variable PICTURES names a folder for them."""
    if folder := os.environ.get("PICTURES"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def check_fit(page: Page) -> None:
    """Fail if the page is wider than the window. Wait for charts, which resize a moment later."""
    try:
        page.wait_for_function(FITS, timeout=5_000)
    except TimeoutError:
        pytest.fail(f"{page.url} is too wide: {page.evaluate(WIDER)}")


def choose_filter(page: Page, name: str, value: str) -> None:
    """Choose a value of one of the Overview's filters."""
    page.locator("summary", has_text="+ Filter").click()
    page.get_by_label(name, exact=True).select_option(value)


def open_parts(page: Page) -> None:
    """Open everything behind the Overview's "More". Later updates leave it open."""
    page.evaluate("document.querySelectorAll('.more > details').forEach(part => { part.open = true; })")


@pytest.fixture
def check_accessibility() -> Callable[..., None]:
    """Fail on violations of all axe's rules, or of the named ones, unless their impact is spared."""

    def check(page: Page, *rules: str, spared: tuple[str, ...] = ("minor",)) -> None:
        options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
        if rules:
            options["runOnly"] = list(rules)
        if not page.evaluate("'axe' in window"):
            page.evaluate(AXE_SCRIPT)
        found = page.evaluate("given => axe.run(...given)", [{"exclude": [[one] for one in UNREAD]}, options])
        grave = [
            f"{item['id']}: {item['help']} ({node['target']})"
            for item in found["violations"]
            if item["impact"] not in spared
            for node in item["nodes"][:3]
        ]
        assert grave == [], page.url

    return check
