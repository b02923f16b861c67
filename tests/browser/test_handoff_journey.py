"""A task is analysed and handed on to design, and a person looks up a discarded finding."""

import json
from collections.abc import Callable

from playwright.sync_api import Page, expect

from contextopt.agents.handoffs.models import Finding, PhaseCompression
from contextopt.agents.models import Task
from contextopt.people.models import Team
from tests.browser.conftest import FITS, PHONE

RISK = {"description": "Rounding in shop/tax.py", "severity": "high", "mitigation": "Round once"}
FINDINGS = [
    ("constraints", {"description": "Prices must stay whole cents in shop/cart.py."}, "0.95", ""),
    ("risks", RISK, "0.8", ""),
    ("database_needs", {"table": "carts", "columns": ["price_cents"]}, "0.7", "critical"),
    ("open_questions", {"description": "Perhaps pigeons carry the receipts?"}, "0.2", ""),
]


def add(page: Page, category: str, content: dict[str, object], confidence: str, tags: str) -> None:
    page.get_by_label("Category").fill(category)
    page.get_by_label("Content").fill(json.dumps(content))
    page.get_by_label("Confidence").fill(confidence)
    page.get_by_label("Tags").fill(tags)
    page.get_by_role("button", name="Add finding").click()


def test_from_findings_to_the_next_phase(
    team: Team,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    page = open_page(**PHONE)
    page.goto("/tasks/")
    expect(page.get_by_role("heading", name="No tasks yet")).to_be_visible()
    check_accessibility(page)
    page.get_by_role("link", name="New task").click()
    page.get_by_label("Description").fill("Round prices to whole cents in the cart")
    check_accessibility(page)
    page.get_by_role("button", name="Create task").click()
    expect(page.get_by_text("No findings yet")).to_be_visible()

    # Errors are shown before the form is sent.
    page.wait_for_load_state()
    page.get_by_label("Category").fill("risks")
    page.get_by_label("Content").fill('{"description": ')
    page.get_by_label("Confidence").fill("1.2")
    page.get_by_label("Tags").focus()
    expect(page.locator("#finding-check")).to_contain_text("Enter a JSON object")
    expect(page.locator("#finding-check")).to_contain_text("Confidence")
    for finding in FINDINGS:
        add(page, *finding)
        expect(page.locator("#phase-analysis")).to_contain_text(f"F-00{FINDINGS.index(finding) + 1}")
    assert Finding.objects.count() == len(FINDINGS)
    check_accessibility(page)

    # Advancing to design shows what it would get, and needs a confirmation.
    page.get_by_role("link", name="Advance to design").click()
    dialog = page.get_by_role("dialog", name="Advance to design?")
    expect(dialog.get_by_role("link", name="F-003")).to_be_visible()
    expect(dialog.get_by_label("Brief", exact=True).last).to_contain_text("shop/tax.py")
    check_accessibility(page)
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    assert Task.objects.get().phase == "analysis"
    page.get_by_role("link", name="Advance to design").press("Enter")
    dialog.get_by_role("button", name="Advance to design").click()
    expect(page.locator("#phase-design")).to_have_attribute("aria-current", "step")

    # The brief stands beside its findings, and a discarded finding is one click away.
    expect(page.locator("#brief-analysis")).to_contain_text("shop/tax.py")
    handed = page.get_by_role("region", name="and their outcome")
    expect(handed.get_by_role("row", name="F-003")).to_contain_text("tagged critical")
    expect(handed.get_by_role("row", name="F-004")).to_contain_text("speculation")
    expect(page.locator("#plot-handoffs .bars path")).not_to_have_count(0)
    page.get_by_role("button", name="Open F-004").click()
    expect(page.locator("#finding-content")).to_contain_text("Perhaps pigeons carry the receipts?")
    assert page.evaluate(FITS)
    check_accessibility(page)
    page.get_by_role("button", name="Table of tokens before and after").click()
    compression = PhaseCompression.objects.get()
    expect(page.locator("#table-handoffs")).to_contain_text(f"{compression.tokens_before:,}")

    # Tagging a finding and adding a late one makes a new version to hand on.
    page.locator("#labels-tags").fill("critical")
    page.get_by_role("button", name="Save tags and dependencies").click()
    expect(page.locator("#finding-shown")).to_contain_text("Saved.")
    check_accessibility(page)
    page.goto(page.url.partition("#")[0])
    expect(page.locator("#phase-analysis")).to_contain_text("Changed since")
    page.get_by_label("Phase", exact=True).select_option("analysis")
    add(page, "risks", {"description": "Refunds in shop/refund.py lose cents"}, "0.8", "")
    expect(page.locator("#phase-analysis")).to_contain_text("F-005")
    check_accessibility(page)
    page.get_by_role("button", name="Compress again").click()
    expect(page.locator("#brief-analysis")).to_contain_text("shop/refund.py")
    expect(handed.get_by_role("row", name="F-004")).to_contain_text("tagged critical")
    page.get_by_text("Versions (2)").click()
    versions = page.get_by_role("region", name="Versions of analysis")
    expect(versions.get_by_role("row")).to_have_count(3)
    assert page.evaluate(FITS)
    check_accessibility(page)
    page.get_by_role("link", name="Log entry").click()
    expect(page.get_by_text("verified now")).to_be_visible()
    page.goto("/tasks/")
    expect(page.locator("#tasks")).to_contain_text("design")
    check_accessibility(page)
