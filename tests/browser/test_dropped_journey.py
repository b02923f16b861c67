"""A developer asks why a record was not sent, and changes the settings that dropped it."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from contextopt.people.models import Team
from contextopt.spaces.configs import publish_settings
from contextopt.spaces.models import Record, Space
from tests import factories
from tests.browser.conftest import PHONE

LIMIT = 3
QUESTION = "Which certificate expired?"


@pytest.fixture
def space(team: Team) -> Space:
    space = factories.make_space(team)
    publish_settings(space=space, created_by="user:olga", question_max_records=LIMIT)
    for number in range(8):
        factories.make_record(
            space,
            title=f"Certificate {number} expired",
            notes="The certificate expired and was renewed.",
            date=datetime.now(UTC) - timedelta(hours=number),
        )
    return space


@pytest.fixture
def missed(space: Space) -> Record:
    """A record that the context leaves out: it is older and shorter than the others."""
    old = datetime.now(UTC) - timedelta(days=9)
    return factories.make_record(space, title="Wildcard renewal", notes="Renew by hand.", date=old)


def test_from_a_record_to_the_reason_and_the_remedy(
    space: Space,
    missed: Record,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    first = factories.make_assembly(space, query=QUESTION, as_of=datetime.now(UTC)).id
    page = open_page(**PHONE)
    page.goto("/")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Page, space, record").fill("wildcard")
    page.get_by_role("option", name="Wildcard renewal").first.click()

    # The record names the assembly that dropped it, the question, and why.
    row = page.get_by_role("region", name="Assemblies").get_by_role("row", name=QUESTION)
    expect(row).to_contain_text("dropped over the record limit")
    check_accessibility(page)
    row.get_by_role("link", name=str(first), exact=True).click()

    # The Inspector shows how many records were kept, and how its score adds up.
    expect(page.locator(".outcome")).to_contain_text(f"{LIMIT} of 9 candidates were kept")
    page.locator("#ledger").get_by_role("link", name="Dropped").click()
    expect(page.locator("#ledger tbody tr:not(.addends)")).to_have_count(9 - LIMIT)
    dropped = page.locator("#ledger tbody tr", has_text="Wildcard renewal")
    expect(dropped).to_contain_text("over the record limit")
    dropped.locator("summary").click()
    addends = page.locator("#ledger .addends li").filter(visible=True)
    expect(addends.filter(has_text=" of 10 × weight").first).to_be_visible()
    check_accessibility(page)

    publish_a_higher_limit(page, space, first)
    page.go_back()
    second = factories.make_assembly(space, query=QUESTION, as_of=datetime.now(UTC)).id
    compare(page, first, second)
    check_accessibility(page)


def test_from_the_reason_to_a_draft(
    space: Space,
    missed: Record,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    first = factories.make_assembly(space, query=QUESTION, as_of=datetime.now(UTC)).id
    page = open_page(**PHONE)
    page.goto(f"/spaces/{space.slug}/records/{missed.pk}/?from=inspector")
    page.get_by_role("link", name=f"Explain assembly {first}").click()

    # The record's page leads to the explanation, and any other record can be typed.
    box = page.locator("#explain")
    expect(box).to_contain_text(f"The record limit was reached first: {LIMIT} records were kept.")
    expect(box.locator("li.failed")).to_contain_text("Within the record limit")
    check_accessibility(page)
    box.get_by_role("searchbox").fill("certificate 3")
    box.get_by_role("button", name="Explain").click()
    expect(box).to_contain_text("Certificate 3 expired")

    # The rows that are shown and the record that is explained are both in the address.
    page.locator("#ledger").get_by_role("link", name="Dropped").click()
    expect(page).to_have_url(re.compile(r"\?show=dropped&explain=certificate\+3$"))
    box.get_by_role("searchbox").fill("certificate 4")
    box.get_by_role("button", name="Explain").click()
    expect(page).to_have_url(re.compile(r"\?show=dropped&explain=certificate%204$"))

    # A higher limit lets the missed record in, which shows without a reload.
    page.get_by_role("link", name="What if").click()
    expect(page.locator("#outcome")).to_contain_text("the same, byte for byte")
    check_accessibility(page)
    page.get_by_label("Record limit for questions").fill("9")
    outcome = page.locator("#outcome")
    expect(outcome).to_contain_text(f"{LIMIT} → 9")
    expect(outcome.get_by_role("row", name="Wildcard renewal").first).to_contain_text("Wildcard renewal")
    expect(outcome.locator("td.added")).to_have_count(6)
    check_accessibility(page)

    # A draft changes nothing until it is published.
    page.get_by_role("button", name="Save as draft config").click()
    draft = page.locator(".history li", has_text="draft")
    expect(draft).to_contain_text(f"Tried on assembly {first}")
    assert space.configs.active().get().settings.question_max_records == LIMIT
    draft.get_by_role("button", name="Publish").click()
    expect(page.locator(".history li", has_text="active").first).to_contain_text("Record limit for questions")
    assert space.configs.active().get().settings.question_max_records == 9


def publish_a_higher_limit(page: Page, space: Space, first: int) -> None:
    """Change the limit, see that the last question gets more records, and save."""
    page.goto(f"/spaces/{space.slug}/settings/")
    effect = page.get_by_role("row", name=str(first))
    expect(effect.locator("td").last).to_have_text(str(LIMIT))
    page.get_by_label("Record limit for questions", exact=True).fill("9")
    expect(effect.locator("td").last).to_have_text("9")
    page.get_by_role("button", name="Publish as a new version").click()
    expect(page.get_by_role("status")).to_contain_text("Version 3 of the settings published.")


def compare(page: Page, first: int, second: int) -> None:
    page.goto(f"/assemblies/{second}/")
    page.get_by_role("link", name="Compare with previous").click()
    expect(page).to_have_url(re.compile(rf"/compare/\?id={first}&id={second}$"))
    row = page.get_by_role("row", name="Wildcard renewal")
    expect(row.locator(".tag")).to_have_text("now in")
