"""Actions that cannot be undone ask for confirmation."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from contextopt.people.models import ApiKey, Team
from tests import factories
from tests.browser.conftest import PHONE


def test_a_key_is_revoked_at_the_second_click(
    team: Team, open_page: Callable[..., Page], check_accessibility: Callable[[Page], None]
) -> None:
    key = factories.make_key(team, name="Nightly import of the support desk")[0]
    page = open_page(**PHONE)
    page.goto("/settings/")
    page.get_by_role("button", name="Revoke… Nightly").click()
    dialog = page.get_by_role("dialog", name="Revoke the key “Nightly import")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    check_accessibility(page)
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    assert ApiKey.objects.get(pk=key.pk).revoked_at is None
    page.get_by_role("button", name="Revoke… Nightly").click()
    dialog.get_by_role("button", name="Revoke", exact=True).click()
    expect(page.get_by_text("Key “Nightly import of the support desk” revoked.")).to_be_visible()
    assert ApiKey.objects.get(pk=key.pk).revoked_at is not None


def test_a_dialog_waits_until_its_form_can_be_sent(team: Team, open_page: Callable[..., Page]) -> None:
    space = factories.make_space(team)
    page = open_page(**PHONE)
    page.goto(f"/traffic/spaces/{space.slug}/")
    share = page.get_by_label("Share of conversations (%)")
    share.fill("250")
    page.get_by_role("button", name="Save…").click()
    expect(share).to_be_focused()
    dialog = page.get_by_role("dialog", name="Change how prompts")
    expect(dialog).to_be_hidden()
    share.fill("25")
    page.get_by_role("button", name="Save…").click()
    expect(dialog).to_be_visible()
