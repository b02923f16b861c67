"""Pages that get events about changes from the real web server, also after it was stopped."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from urllib.request import urlopen

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, Page, expect

from benchmarks.service.server import free_port
from contextopt.people.models import Team, User
from contextopt.spaces.models import Space
from contextopt.sql import own_conninfo
from dashboard.management.commands.up import web_command
from tests import factories
from tests.concurrency import wait_until

HOST = "127.0.0.1"
START_MS = 60_000
# A machine that runs other tests at the same time needs longer than the second that people see.
TOLD_MS = 5_000


class Web:
    """One web process on the tests' database."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}"
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            web_command(HOST, self.port, 1),
            cwd=settings.BASE_DIR,
            env=os.environ | {"DATABASE_URL": own_conninfo()},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self.answers)

    def answers(self) -> bool:
        with suppress(OSError), urlopen(f"{self.url}/healthz", timeout=5):
            return True
        return False

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)


@pytest.fixture
def space(team: Team) -> Space:
    space = factories.make_space(team)
    factories.make_record(space, date=datetime.now(UTC))
    factories.make_assembly(space, as_of=datetime.now(UTC))
    return space


# The tests' own settings have no manifest, which the web process needs.
COLLECT = """
import django
django.setup()
from dashboard.management.commands.up import collect_static_files
collect_static_files()
"""


@pytest.fixture(scope="module")
def static_files() -> None:
    with (settings.VAR_DIR / "static.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        settings_module = {"DJANGO_SETTINGS_MODULE": "config.settings"}
        subprocess.run(
            [sys.executable, "-c", COLLECT],
            cwd=settings.BASE_DIR,
            env=os.environ | settings_module,
            check=True,
        )


@pytest.fixture(scope="module")
def web(django_db_setup: None, static_files: None) -> Iterator[Web]:
    web = Web()
    yield web
    web.stop()


@pytest.fixture
def open_live(browser: Browser, web: Web, space: Space, owner: User) -> Iterator[Callable[[str], Page]]:
    """Open a page as the owner, and wait until it receives events."""
    client = Client()
    client.force_login(owner)
    context = browser.new_context(base_url=web.url)
    session = {"name": "sessionid", "value": client.cookies["sessionid"].value, "url": web.url}
    context.add_cookies([session])

    def get(address: str) -> Page:
        page = context.new_page()
        page.goto(address)
        expect(page.locator("html")).to_have_attribute("data-is-live", "", timeout=START_MS)
        return page

    yield get
    context.close()


def test_pages_follow_what_is_written(space: Space, open_live: Callable[[str], Page]) -> None:
    overview, listed = open_live("/"), open_live("/assemblies/?live=on")
    expect(overview.locator("#tile-assemblies .value")).to_have_text("1")
    made = factories.make_assembly(space, as_of=datetime.now(UTC))
    # The page in front receives the event; the other one updates when it comes to the front.
    expect(listed.locator(f"a[data-row][href='/assemblies/{made.id}/']")).to_be_visible(timeout=TOLD_MS)
    overview.bring_to_front()
    expect(overview.locator("#tile-assemblies .value")).to_have_text("2", timeout=TOLD_MS)


def test_a_page_catches_up_after_the_server_was_away(
    space: Space, web: Web, open_live: Callable[[str], Page]
) -> None:
    page = open_live("/")
    web.stop()
    expect(page.locator("html")).not_to_have_attribute("data-is-live", "")
    factories.make_assembly(space, as_of=datetime.now(UTC))
    web.start()
    expect(page.locator("html")).to_have_attribute("data-is-live", "", timeout=START_MS)
    expect(page.locator("#tile-assemblies .value")).to_have_text("2", timeout=TOLD_MS)
