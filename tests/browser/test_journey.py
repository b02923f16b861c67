"""From the first record to the numbers: a person in the browser, and their software through the API."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import product
from urllib.request import Request, urlopen

from playwright.sync_api import Page, Route, expect
from pytest_django.live_server_helper import LiveServer

from contextopt.people.models import Team, User
from contextopt.spaces.models import Space
from tests import factories
from tests.browser.conftest import DESK, choose_filter, open_parts

SUBJECTS = ("Queue stuck after deploy", "Customer asks for SSO", "Restore from backup", "Weekly review")
# The page polls like this every half minute.
POLL = """() => htmx.ajax('GET', document.querySelector('#figures').getAttribute('hx-get'),
    { source: '#figures', target: '#figures', swap: 'outerHTML' })"""
PLACES = ("", " in staging", " at night", ", again", ", second try", " on the new cluster", " for the pilot")


def call(server: LiveServer, key: str, path: str, body: object) -> dict[str, object]:
    request = Request(
        f"{server.url}/api/v1{path}",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    with urlopen(request) as response:
        return json.load(response)


def fill_by_api(server: LiveServer, team: Team) -> dict[str, object]:
    """Fill a space and request contexts through the API; return the last answer."""
    _, key = factories.make_key(team)
    call(server, key, "/spaces", {"slug": "support", "name": "Support notes", "categories": ["ops"]})
    now = datetime.now(UTC)
    records = [
        {
            "title": f"{subject}{place}",
            "type": "incident",
            "date": (now - timedelta(hours=9 * number)).isoformat(),
            "notes": "Workers hold the old lock; restart one at a time and watch the queue drain. " * 4,
            "tags": ["ops"],
            "source": "journey",
            "external_id": str(number),
        }
        for number, (subject, place) in enumerate(product(SUBJECTS, PLACES))
    ]
    call(server, key, "/spaces/support/records/bulk", {"records": records})
    for _ in range(5):
        answer = call(server, key, "/assemblies", {"space": "support", "conversation": "journey"})
    call(server, key, "/assemblies", {"space": "support", "stage": 3})
    return answer


def test_from_records_to_numbers(
    live_server: LiveServer,
    team: Team,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    page = open_page(**DESK)
    page.goto("/")
    expect(page.get_by_role("heading", name="No assemblies yet")).to_be_visible()
    check_accessibility(page)

    answer = fill_by_api(live_server, team)
    page.reload()
    expect(page.locator("#tile-assemblies .value")).to_have_text("6")
    expect(page.locator("#plot-ratio .main-svg").first).to_be_visible()
    # So few are shown one by one.
    expect(page.locator("#plot-time .points path")).to_have_count(6)
    expect(page.locator("#answer-enough")).to_contain_text("Nobody has judged yet.")
    expect(page.locator("#answer-speed")).not_to_contain_text("target of")
    check_accessibility(page)

    # Filters work without a reload and can be shared.
    page.evaluate("window.stillHere = true")
    choose_filter(page, "Stage", "4")
    expect(page.locator("#tile-assemblies .value")).to_have_text("5")
    page.get_by_role("link", name="7d").click()
    expect(page).to_have_url(f"{live_server.url}/?range=7d&stage=4")
    expect(page.locator("#plot-time .main-svg").first).to_be_visible()
    assert page.evaluate("window.stillHere")
    page.get_by_role("button", name="Table of Compression ratio").click()
    expect(page.locator("#table-ratio")).to_be_visible()
    page.get_by_role("link", name="List").first.click()

    # The bar of a day leads to its assemblies, and a row leads to the Inspector.
    expect(page).to_have_url(re.compile(r"/assemblies/\?.*stage=4"))
    expect(page.locator("#assemblies tbody tr")).to_have_count(5)
    check_accessibility(page)
    page.get_by_role("link", name=str(answer["id"]), exact=True).click()
    expect(page.get_by_text("verified now")).to_be_visible()
    expect(page.locator("#prompt")).to_contain_text("Queue stuck after deploy")
    check_accessibility(page)
    row = page.locator("#ledger tr[data-line]").first
    row.focus()
    expect(page.locator(f"#{row.get_attribute('data-line')}")).to_have_class("lit")
    page.get_by_role("link", name="Dropped").click()
    expect(page.locator("#ledger .tag.kept")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"\?show=dropped$"))


def test_a_table_stays_open_over_polls_and_filters(
    live_server: LiveServer,
    team: Team,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    fill_by_api(live_server, team)
    _, key = factories.make_key(team, name="second")
    for _ in range(14):
        call(live_server, key, "/assemblies", {"space": "support", "stage": 4})
    page = open_page(viewport={"width": 1440, "height": 900})
    page.goto("/?range=7d")
    open_parts(page)
    button, table = page.get_by_role("button", name="Table of Tokens saved"), page.locator("#table-saved")
    expect(button).to_have_attribute("aria-expanded", "false")
    assert table.inner_html() == ""
    button.press("Enter")
    expect(table.locator("tbody tr")).to_have_count(7)
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(button).to_be_focused()
    expect(page.locator("#plot-saved")).to_be_hidden()
    page.get_by_role("button", name="Table of Assembly time").click()
    expect(page.locator("#table-time tbody tr")).to_have_count(7)
    check_accessibility(page)

    # A poll updates all open tables without removing them.
    last = table.locator("tbody tr").last
    before = last.inner_text()
    call(live_server, key, "/assemblies", {"space": "support", "stage": 4})
    page.evaluate("document.querySelector('#table-time').dataset.mark = 'same'")
    with page.expect_response("**/overview/time/?range=7d"), page.expect_response("**/overview/saved/?*"):
        page.evaluate(POLL)
    expect(page.locator("#tile-assemblies .value")).to_have_text("21")
    expect(last).not_to_have_text(before)
    expect(page.locator("#table-time")).to_have_attribute("data-mark", "same")
    expect(button).to_have_attribute("aria-expanded", "true")

    # A filter updates them too, and the links keep the filter.
    with page.expect_response("**/overview/saved/?range=7d&stage=4"):
        choose_filter(page, "Stage", "4")
    expect(table.get_by_role("link")).to_have_attribute("href", re.compile("stage=4"))
    expect(page.locator("#plot-ratio .main-svg").first).to_be_visible()
    button.press("Space")
    expect(table).to_be_hidden()
    expect(page.locator("#plot-saved .bars path")).not_to_have_count(0)


def test_a_table_is_a_page_without_scripts(
    live_server: LiveServer, team: Team, open_page: Callable[..., Page]
) -> None:
    fill_by_api(live_server, team)
    page = open_page(java_script_enabled=False)
    page.goto("/?range=7d&stage=4")
    page.get_by_role("button", name="Table of Compression ratio").click()
    expect(page).to_have_url(re.compile(r"/overview/ratio/\?range=7d&.*stage=4"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Compression ratio")
    page.get_by_role("link", name="List").click()
    expect(page.locator("#assemblies tbody tr")).to_have_count(5)


def test_the_pages_of_a_space(
    team: Team, open_page: Callable[..., Page], check_accessibility: Callable[[Page], None]
) -> None:
    space = factories.make_space(team)
    record = factories.make_record(space, date=datetime.now(UTC) - timedelta(days=1))
    page = open_page(viewport={"width": 1440, "height": 900})
    page.goto("/spaces/")
    check_accessibility(page)
    page.get_by_role("link", name="Support notes").click()
    expect(page.locator("#preview .prompt")).to_contain_text("Queue stuck after deploy")
    page.get_by_label("Stage").select_option("2")
    expect(page.locator("#preview .prompt")).not_to_contain_text("Queue stuck after deploy")
    check_accessibility(page)

    # An edit, its history, a deletion and its undo.
    page.get_by_role("link", name="Queue stuck after deploy").click()
    page.get_by_label("Title").fill("Queue stuck after the deploy")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text("Saved.")
    expect(page.locator(".history li")).to_have_count(1)
    check_accessibility(page)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("status")).to_contain_text("Record restored.")
    record.refresh_from_db()
    assert (record.title, record.is_deleted) == ("Queue stuck after the deploy", False)

    # The budget bar follows the typing; saving makes a version.
    page.goto("/spaces/support/settings/")
    page.get_by_label("Context tokens", exact=True).fill("500")
    words = "3,300 tokens: System 800, Context 500 of 500, History 1,000, Response 1,000"
    expect(page.locator("#budget svg.allocation")).to_have_attribute("aria-label", words)
    page.get_by_label("30 days").check()
    page.get_by_role("button", name="Publish as a new version").click()
    expect(page.locator("#version-2 .tag.kept")).to_have_text("active")
    check_accessibility(page)
    config = Space.objects.get().configs.active().get()
    assert (config.settings.context_tokens, config.settings.window_days) == (500, 30)


def test_settings_help_and_theme(
    team: Team, open_page: Callable[..., Page], check_accessibility: Callable[[Page], None]
) -> None:
    page = open_page(color_scheme="light", viewport={"width": 1440, "height": 900})
    page.goto("/settings/")
    check_accessibility(page)
    page.locator("#keys").get_by_label("Name").fill("ci")
    page.get_by_role("button", name="Create key").click()
    expect(page.locator("#secret")).to_contain_text("ctx_")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    check_accessibility(page)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 20, 22)"
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.get_by_role("heading", name="Spaces", exact=True)).to_be_visible()
    # The chosen theme survives a page change.
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_row_opens_by_click_and_by_keys(owner: User, space: Space, open_page: Callable[..., Page]) -> None:
    factories.make_record(space)
    older, newer = (factories.make_assembly(space).id for _ in range(2))
    page = open_page(viewport={"width": 1440, "height": 900})
    page.goto("/assemblies/")
    page.locator("tbody tr").first.locator("td").nth(1).click()
    expect(page).to_have_url(re.compile(rf"/assemblies/{newer}/$"))
    page.get_by_role("link", name="Previous", exact=True).click()
    expect(page).to_have_url(re.compile(rf"/assemblies/{older}/$"))
    page.goto("/assemblies/")
    # A click on a checkbox does not open its row.
    page.get_by_label(f"Select {newer} to compare").check()
    for key in ("j", "j", "k", "j", "Enter"):
        page.keyboard.press(key)
    expect(page).to_have_url(re.compile(rf"/assemblies/{older}/$"))


def test_popovers_close_as_menus_do(owner: User, space: Space, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto("/assemblies/")
    views, name = page.locator("summary", has_text="Views"), page.get_by_label("Save these filters as")
    views.press("Enter")
    name.press("Escape")
    expect(name).to_be_hidden()
    expect(views).to_be_focused()
    views.click()
    page.get_by_role("heading", level=1).click()
    expect(name).to_be_hidden()


def test_the_current_link_is_in_sight_on_a_phone(owner: User, open_page: Callable[..., Page]) -> None:
    page = open_page(viewport={"width": 390, "height": 844})
    page.goto("/settings/")
    expect(page.get_by_role("link", name="Settings")).to_be_in_viewport(ratio=1)


def test_typing_on_in_a_filter_aborts_its_first_request_quietly(
    owner: User, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    page.goto("/memory/")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/memory/?find=cart&*", hold)
    field = page.get_by_placeholder("Search memories")
    with page.expect_request("**/memory/?find=cart&*"):
        field.press_sequentially("cart")
    with page.expect_response("**/memory/?find=carts&*"):
        field.press_sequentially("s")
    expect(page).to_have_url(re.compile("find=carts"))
    assert len(held) == 1
    held[0].abort()
