"""From a downvoted answer to a question in a set, its evaluation, and settings that pass it."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from contextopt.people.models import Team
from contextopt.spaces.models import Space
from memory.questions.growth import SET_NAME
from memory.questions.models import Question, QuestionSet
from tests import factories
from tests.browser.conftest import DESK, take
from tests.memory.factories import make_review
from tests.memory.questions.conftest import ASKED, SAID_AT, make_talk

PET = ASKED[0][1]


@pytest.fixture
def space(team: Team) -> Space:
    found = factories.make_space(team)
    make_talk(found)
    make_review(found, query=PET, as_of=SAID_AT, context_tokens=60)
    return found


def test_from_a_downvote_to_published_settings(
    space: Space,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    page = open_page(**DESK)
    page.goto("/review/")
    page.get_by_role("button", name="Review next").first.click()
    expect(page.get_by_text(PET).first).to_be_visible()
    page.get_by_text("Context missing").click()
    page.locator("input[name=record_ids]").first.check()
    take(page, "review")
    page.get_by_role("button", name="Save and add to questions").click()
    expect(page.get_by_text(f"Added to “{SET_NAME}”")).to_be_visible()
    question = Question.objects.get()
    assert question.text == PET

    page.goto(f"/questions/{question.question_set_id}/")
    expect(page.get_by_text("Not evaluated yet.")).to_be_visible()
    check_accessibility(page)
    add_by_hand(page)
    page.get_by_role("button", name="Evaluate config v1").click()
    expect(page.locator("#evaluation")).to_contain_text("Recall100.0 %")
    expect(page.get_by_role("cell", name="found", exact=True)).to_have_count(2)
    check_accessibility(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    take(page, "set")

    page.get_by_label("Minimum recall (%)").fill("90")
    page.get_by_role("button", name="Save minimum").click()
    expect(page.get_by_text("Minimum saved.")).to_be_visible()
    assert QuestionSet.objects.get().min_recall == 0.9
    publish(page, space, check_accessibility)


def add_by_hand(page: Page) -> None:
    """Search for the record that answers a question, and tick it."""
    page.get_by_role("link", name="Add question").click()
    page.get_by_label("Question", exact=True).fill("How does Ben get to the harbour?")
    page.get_by_label("Expected answer").fill("By tram, his bicycle is broken")
    page.get_by_label("Find records").press_sequentially("bicycle tram")
    page.get_by_label(re.compile("D1:6")).check()
    take(page, "question")
    page.get_by_role("button", name="Add question").click()
    expect(page.get_by_text("Question added.")).to_be_visible()


def publish(page: Page, space: Space, check_accessibility: Callable[[Page], None]) -> None:
    """Try settings that miss the minimum, and publish others."""
    page.goto(f"/spaces/{space.slug}/settings/")
    page.get_by_label("Notes limit (characters)").fill("10")
    page.get_by_role("button", name="Evaluate these settings").click()
    expect(page.locator("#proof")).to_contain_text("below the minimum")
    take(page, "settings")
    check_accessibility(page)
    page.get_by_label("Notes limit (characters)").fill("400")
    page.get_by_role("button", name="Publish as a new version").click()
    expect(page.get_by_text("Version 2 of the settings published.")).to_be_visible()
    expect(page.locator("#effect")).to_contain_text("Assembled again now")
    assert space.configs.count() == 2
