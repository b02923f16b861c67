"""Takes the README's picture of the Overview; `make picture` stores it."""

import os
from collections.abc import Callable

from django.utils import timezone
from playwright.sync_api import Page

from config.settings import BASE_DIR
from contextopt.people.models import Team
from dashboard.demo import load_demo
from tests.browser.test_every_page import DRAWN

PICTURE = BASE_DIR / "static" / "img" / "overview.png"
SIZE = {"width": 1440, "height": 1180}
IS_STORED = bool(os.environ.get("UPDATE_PICTURE"))


def png_size(data: bytes) -> dict[str, int]:
    """Return the width and height in a PNG's header, in pixels."""
    assert data.startswith(b"\x89PNG\r\n")
    return {"width": int.from_bytes(data[16:20]), "height": int.from_bytes(data[20:24])}


def test_the_picture_can_be_taken_again(team: Team, open_page: Callable[..., Page]) -> None:
    demo = {} if IS_STORED else {"days": 3, "assemblies_a_day": 12}
    load_demo(team, now=timezone.now(), actor="test", **demo)
    page = open_page(color_scheme="light", viewport=SIZE)
    page.goto("/")
    page.wait_for_function(DRAWN)
    picture = page.screenshot()
    if IS_STORED:
        PICTURE.write_bytes(picture)
    assert png_size(picture) == png_size(PICTURE.read_bytes()) == SIZE
