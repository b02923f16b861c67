"""A key's secret is shown once, and a reload does not create another key."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from contextopt.people.models import ApiKey, Role, Team, User
from tests import factories


@pytest.fixture
def owner(team: Team) -> User:
    return factories.make_user("olga", team, Role.ADMIN, is_staff=True, is_superuser=True)


def test_a_key_is_created_once(
    team: Team, open_page: Callable[..., Page], check_accessibility: Callable[[Page], None]
) -> None:
    page = open_page(viewport={"width": 1440, "height": 900})
    page.goto("/settings/")
    form = page.get_by_role("form", name="New key")
    form.get_by_label("Name").fill("ci")
    form.get_by_role("button", name="Create key").click()
    expect(page.locator("#secret")).to_contain_text("ctx_")
    expect(page.locator("#keys tbody tr")).to_have_count(1)
    expect(page.locator("#keys [data-copy]")).to_be_focused()
    check_accessibility(page)
    assert page.url.endswith("/settings/")
    page.goto("/spaces/")
    page.go_back()
    expect(page.get_by_role("form", name="New key")).to_be_visible()
    expect(page.locator("#secret")).to_have_count(0)
    page.reload()
    expect(page.locator("#secret")).to_have_count(0)
    assert ApiKey.objects.count() == 1
    # The form shows its errors.
    page.get_by_role("form", name="New key").get_by_label("Name").fill(" ")
    page.get_by_role("button", name="Create key").click()
    expect(page.locator("#keys [role=alert]")).to_be_visible()


def test_a_key_is_created_once_in_the_admin(team: Team, open_page: Callable[..., Page]) -> None:
    page = open_page(viewport={"width": 1440, "height": 900})
    page.goto("/admin/contextopt/apikey/add/")
    page.get_by_label("Name").fill("agent")
    page.get_by_role("button", name="Save", exact=True).click()
    # The team is missing and can still be chosen.
    expect(page.get_by_text("This field is required")).to_be_visible()
    page.locator("#main .select2-selection").click()
    page.get_by_role("option", name=team.name).click()
    page.get_by_role("button", name="Save", exact=True).click()
    secret = page.get_by_label("Secret", exact=True)
    expect(secret).to_be_visible()
    assert secret.input_value().startswith("ctx_")
    page.reload()
    expect(page.get_by_label("Name")).to_be_visible()
    expect(secret).to_have_count(0)
    assert ApiKey.objects.count() == 1
