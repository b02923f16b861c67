"""A newcomer imports old data, widens the window with one click, and asks two questions."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from contextopt.search import registry
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.spaces.models import Space
from tests import factories
from tests.browser.conftest import PHONE
from tests.processes import database, wait_for_sessions_to_end

IMPORTING = "importing"

ANSWER = "The printer on the second floor broke when its roller was worn out."
SUBJECTS = (
    "Soup and bread at noon.",
    "The lift was serviced.",
    "New chairs for the office.",
    "Parking costs more.",
)


@pytest.fixture
def space(team: Team) -> Space:
    return factories.make_space(team)


def old_rows() -> bytes:
    old = datetime.now(UTC) - timedelta(days=200)
    texts = [ANSWER, *SUBJECTS]
    rows = [
        {"title": f"Note {number}", "notes": text, "date": (old - timedelta(days=number)).isoformat()}
        for number, text in enumerate(texts)
    ]
    return "\n".join(map(json.dumps, rows)).encode()


def test_from_old_data_to_an_answered_and_an_unanswered_question(
    space: Space,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE_URL", database(IMPORTING))
    page = open_page(**PHONE)
    page.goto(f"/spaces/{space.slug}/import/")
    page.get_by_label("File", exact=True).set_input_files(
        {"name": "old.jsonl", "mimeType": "application/x-ndjson", "buffer": old_rows()}
    )
    page.get_by_role("button", name="Upload").click()
    page.get_by_role("button", name="Import", exact=True).click()

    # The import proposes a window that holds its records, and one click sets it.
    expect(page.get_by_text("All 5 records are older than the window of 14 days")).to_be_visible()
    check_accessibility(page)
    wait_for_sessions_to_end(IMPORTING)
    page.get_by_role("button", name="Include all records").click()
    page.goto(f"/spaces/{space.slug}/")
    preview = page.locator("#preview")
    expect(preview).to_contain_text("5 of 5")
    expect(preview.locator("[data-code]")).to_have_count(0)

    # As the worker does after an import.
    ensure_embedded(registry.get("record"), space.pk, limit=99)
    page.get_by_label("Budget", exact=True).select_option("adaptive")
    question = page.get_by_label("Question", exact=True)
    question.fill("Why did the printer break?")
    question.press("Enter")
    expect(preview).to_contain_text("1 of 5")
    expect(preview.locator(".prompt")).to_contain_text(ANSWER)
    expect(preview.locator("[data-code]")).to_have_count(0)
    check_accessibility(page)

    # A question about another subject gets a warning. With a fixed budget, records are sent anyway.
    question.fill("How do volcanoes form under the ocean?")
    question.press("Enter")
    warning = preview.locator("[data-code=nothing_relevant]")
    expect(warning).to_contain_text("No record seems to be about this question")
    expect(preview).to_contain_text("0 of 5")
    page.get_by_label("Budget", exact=True).select_option("fixed")
    expect(preview).to_contain_text("5 of 5")
    expect(warning).to_be_visible()
    page.get_by_label("Budget", exact=True).select_option("adaptive")
    expect(preview).to_contain_text("0 of 5")
    page.get_by_role("button", name="Assemble").click()

    # The Inspector says why nothing was sent, and the list finds the assembly.
    expect(page.locator("[data-code=nothing_relevant]")).to_be_visible()
    expect(page.locator("figure.curve")).to_contain_text("No record is worth its tokens.")
    check_accessibility(page)
    assembly = Assembly.objects.get()
    assert (assembly.records_included, assembly.low_relevance) == (0, 5)
    page.goto("/assemblies/?warning=nothing_relevant")
    expect(page.locator("#assemblies tbody tr")).to_have_count(1)
    expect(page.locator("#assemblies tbody")).to_contain_text(re.compile("nothing relevant", re.IGNORECASE))
