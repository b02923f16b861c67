"""An administrator changes settings, sees the effect on the numbers, and invites people."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, Page, expect
from pytest_django.live_server_helper import LiveServer

from contextopt.assemblies.models import Assembly
from contextopt.people.models import AuditEvent, Membership, Role, Team, User
from contextopt.spaces.models import Space
from dashboard.beats import Duty, note_beats
from dashboard.kit.formats import action_words
from dashboard.tasks import fold_assemblies
from tests import factories
from tests.browser.conftest import choose_filter
from tests.browser.test_journey import call

RECORDS = 12
# How many contexts each version of the settings gets, and how many records a version includes.
CONTEXTS = {1: 2, 2: 3, 3: 4}
INCLUDED = {1: RECORDS, 2: 5, 3: 3}


@pytest.fixture
def owner(team: Team) -> User:
    """The person at the browser: an admin of the team and of the installation."""
    return factories.make_user("olga", team, Role.ADMIN, is_staff=True, is_superuser=True)


@pytest.fixture
def space(team: Team) -> Space:
    space = factories.make_space(team)
    for number in range(RECORDS):
        date = datetime.now(UTC) - timedelta(hours=5 * number)
        factories.make_record(space, title=f"Runbook {number}", date=date)
    return space


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    """A tab without a log-in."""
    page = open_page(viewport={"width": 1440, "height": 900})
    page.context.clear_cookies()
    return page


def log_in(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_label("Username").fill("olga")
    page.get_by_label("Password").fill("correct horse")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(lambda url: "/accounts/login/" not in url)


def assemble(server: LiveServer, secret: str, version: int) -> list[object]:
    """Request contexts through the API, and fold them as the worker does."""
    bodies = [{"space": "support", "stage": 4}] * CONTEXTS[version]
    answers = [call(server, secret, "/assemblies", body) for body in bodies]
    assert {len(answer["included"]) for answer in answers} == {INCLUDED[version]}
    fold_assemblies()
    return [answer["id"] for answer in answers]


def test_new_settings_and_their_effect(
    live_server: LiveServer, team: Team, space: Space, page: Page, check_accessibility: Callable[[Page], None]
) -> None:
    _, secret = factories.make_key(team)
    made = {1: assemble(live_server, secret, 1)}
    log_in(page, "/spaces/support/settings/")
    page.get_by_label("Record limit", exact=True).fill(str(INCLUDED[2]))
    page.get_by_label("Note", exact=True).fill("Five are enough")
    page.get_by_role("button", name="Publish as a new version").click()
    expect(page.get_by_role("status")).to_contain_text("Version 2 of the settings published.")
    expect(page.locator("#version-2")).to_contain_text("Five are enough")
    check_accessibility(page)
    made[2] = assemble(live_server, secret, 2)
    publish_in_the_admin(page, space)
    made[3] = assemble(live_server, secret, 3)
    check_versions(page, made)
    compare_versions(page, made[1][0], made[3][0])


def publish_in_the_admin(page: Page, space: Space) -> None:
    """Publish a version in the admin. The form starts with the active settings."""
    page.goto(f"/admin/contextopt/contextconfig/add/?space={space.pk}")
    records = page.locator("input[name=max_records]")
    expect(records).to_have_value(str(INCLUDED[2]))
    records.fill(str(INCLUDED[3]))
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was added successfully")).to_be_visible()
    assert space.configs.active().get().version == 3


def check_versions(page: Page, made: dict[int, list[object]]) -> None:
    """Check that every version can be chosen and shows only its own assemblies."""
    page.goto("/")
    total = page.locator("#tile-assemblies .value")
    expect(total).to_have_text(str(sum(CONTEXTS.values())))
    options = page.locator("#id_config option")
    assert set(options.all_text_contents()) == {"All configs", "v1", "v2", "v3"}
    for version, ids in made.items():
        choose_filter(page, "Config", str(version))
        expect(total).to_have_text(str(CONTEXTS[version]))
        expect(page.locator("#tile-records .value")).to_have_text(f"{INCLUDED[version]}.0")
        page.get_by_role("button", name="Table of Compression ratio").click()
        page.locator("#table-ratio").get_by_role("link", name="List").click()
        shown = page.locator("#assemblies tbody th a")
        expect(shown).to_have_count(len(ids))
        assert sorted(map(int, shown.all_inner_texts())) == ids
        assert {row.config.version for row in Assembly.objects.filter(pk__in=ids)} == {version}  # type: ignore[union-attr]
        page.go_back()


def compare_versions(page: Page, first: object, last: object) -> None:
    page.goto(f"/assemblies/compare/?id={first}&id={last}")
    cells = page.get_by_role("row", name="Config").locator("td")
    assert cells.all_inner_texts() == ["v1", "v3"]
    gone = page.get_by_role("table", name="Candidates with different outcomes").locator(".tag.drop")
    expect(gone).to_have_count(INCLUDED[1] - INCLUDED[3])


def test_people_and_the_log_of_changes(
    live_server: LiveServer,
    space: Space,
    page: Page,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    log_in(page, "/settings/")
    invite = page.get_by_role("form", name="New invitation")
    invite.get_by_label("Name").fill("Nia")
    invite.get_by_label("Role").select_option("viewer")
    invite.get_by_role("button", name="Create link").click()
    join(open_page(), page.locator("#link").inner_text())
    member = Membership.objects.get(user__username="nia")
    assert member.role == Role.VIEWER

    page.goto("/settings/")
    page.get_by_label("Role of nia").focus()
    page.keyboard.press("e")
    expect(page.get_by_role("status")).to_be_empty()
    page.get_by_role("button", name="Set the role of nia").click()
    expect(page.get_by_role("status")).to_contain_text("nia is now editor.")
    member.refresh_from_db()
    assert member.role == Role.EDITOR
    # The only admin keeps the role.
    page.get_by_label("Role of olga").select_option("viewer")
    page.get_by_role("button", name="Set the role of olga").click()
    expect(page.get_by_role("status")).to_contain_text("A team needs an admin")
    expect(page.get_by_label("Role of olga")).to_have_value("admin")

    page.get_by_role("link", name="Change log").click()
    tags = page.locator("#events .tag")
    wanted = list(AuditEvent.objects.order_by("-id").values_list("action", flat=True))
    assert wanted[:3] == ["role.changed", "invitation.accepted", "invitation.made"]
    expect(tags).to_have_text([action_words(each) for each in wanted])
    check_accessibility(page)
    page.get_by_label("About").select_option("role")
    expect(tags).to_have_text(["Role changed"])
    cells = page.locator("#events tbody td").all_inner_texts()
    assert cells[1:] == ["olga", "nia", "role viewer", "role editor"]


def join(page: Page, link: str) -> None:
    page.context.clear_cookies()
    page.goto(link)
    page.get_by_label("Username").fill("nia")
    page.get_by_label("Password").fill("correct horse battery")
    page.get_by_role("button", name="Create account and join").click()
    expect(page.get_by_role("navigation", name="Main")).to_contain_text("nia · viewer")


def test_the_health_of_the_installation(page: Page, space: Space) -> None:
    factories.make_assembly(space)
    log_in(page, "/accounts/login/?next=/admin/")
    health = page.get_by_role("region", name="Health")

    def value(label: str) -> Locator:
        sign = health.locator("dl > div").filter(has=page.get_by_text(label, exact=True))
        return sign.locator("dd > span")

    expect(value("Worker")).to_have_text("not running")
    expect(value("Not in rollups yet")).to_have_text("1")
    note_beats(Duty.JOBS)
    fold_assemblies()
    page.reload()
    expect(value("Worker")).to_have_text("running")
    expect(value("Not in rollups yet")).to_have_text("0")
    for label in ("Jobs waiting", "Waiting to be embedded", "Database", "Database disk free"):
        expect(value(label)).not_to_be_empty()
    icon = page.locator("link[rel=icon]").get_attribute("href")
    assert icon is not None
    assert page.request.get(icon).headers["content-type"] == "image/svg+xml"


def test_an_account_fits_a_phone(page: Page, owner: User) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    log_in(page, f"/accounts/login/?next=/admin/contextopt/user/{owner.pk}/change/")
    expect(page.get_by_role("link", name="Reset password")).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
