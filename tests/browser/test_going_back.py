"""The browser's Back: pages show results for their restored fields, and each filter is one step."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from tests import factories
from tests.browser.conftest import DESK

QUESTION = "Why is the queue stuck?"


@pytest.fixture
def space(team: Team) -> Space:
    made = factories.make_space(team)
    factories.make_record(made, title="Queue stuck after the deploy", date=datetime.now(UTC))
    return made


def test_the_preview_answers_the_question_that_back_restores(
    space: Space, open_page: Callable[..., Page]
) -> None:
    page = open_page(**DESK)
    page.goto(f"/spaces/{space.slug}/")
    whys = page.get_by_role("heading", name="Why these records")
    page.get_by_label("Question").fill(QUESTION)
    page.get_by_role("button", name="Preview", exact=True).click()
    expect(whys).to_be_visible()
    page.get_by_role("button", name="Assemble").click()
    expect(page.get_by_role("heading", name="Assembly")).to_be_visible()

    page.go_back()
    expect(page.get_by_label("Question")).to_have_value(QUESTION)
    expect(whys).to_be_visible()
    page.get_by_role("button", name="Assemble").click()
    expect(page.get_by_role("heading", name="Assembly")).to_be_visible()
    asked = [row.payload.request["query"] for row in Assembly.objects.select_related("payload")]
    assert asked == [QUESTION] * 2


def test_the_same_filter_again_is_no_step_back(space: Space, open_page: Callable[..., Page]) -> None:
    factories.make_assembly(space)
    page = open_page(**DESK)
    page.goto("/assemblies/")
    words = page.get_by_label("Words in question or context")
    words.press_sequentially("invoice")
    expect(page).to_have_url(re.compile("words=invoice"))
    steps = page.evaluate("history.length")
    with page.expect_response(re.compile("words=invoice")):
        words.press("Enter")
    page.wait_for_load_state("networkidle")
    assert page.evaluate("history.length") == steps
    page.go_back()
    expect(words).to_have_value("")
