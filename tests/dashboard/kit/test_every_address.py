"""Every address admits only the right people."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings
from django.http import QueryDict
from django.test import Client, override_settings
from django.urls import URLPattern, reverse

from contextopt.agents.inputs import StandingDocumentIn
from contextopt.agents.standingdocuments import attach_document
from contextopt.gateway.policies import PolicyPatch, change_policy, last_change
from contextopt.importruns.runs import start_upload
from contextopt.people.inputs import InvitationIn
from contextopt.people.members import invite
from contextopt.people.models import Membership, Role, Team, User
from dashboard import urls
from memory.backtests.backtests import start_backtest
from memory.backtests.inputs import BacktestIn
from memory.questions.inputs import QuestionIn
from memory.questions.sets import add_question, create_set
from tests import factories
from tests.dashboard.conftest import log_in
from tests.memory.factories import make_review, make_strategy
from tests.walks import same, walk

# Pages open to every member, and whether the address names something of the team.
PAGES = {
    "overview": False,
    "palette": False,
    "overview_csv": False,
    "overview_table": False,
    "assemblies": False,
    "assemblies_csv": False,
    "assemblies_jsonl": False,
    "assemblies_compare": False,
    "assembly": True,
    "assembly_text": True,
    "assembly_what_if": True,
    "traffic": False,
    "traffic_csv": False,
    "traffic_prompts": False,
    "traffic_policy": True,
    "spaces": False,
    "space": True,
    "space_preview": True,
    "space_settings": True,
    "space_budget": True,
    "space_effect": True,
    "space_recount": True,
    "space_proof": True,
    "version_proof": True,
    "record": True,
    "import_run": True,
    "question_sets": False,
    "backtests": False,
    "backtest": True,
    "backtest_csv": True,
    "question_set": True,
    "question": True,
    "question_records": True,
    "phases": False,
    "phases_csv": False,
    "phase": False,
    "retries": False,
    "retry": True,
    "tasks": False,
    "task": True,
    "task_findings": True,
    "finding": True,
    "repositories": False,
    "repository": True,
    "index_run": True,
    "chat": False,
    "chat_conversation": True,
    "chat_prompt": True,
    "feedback": False,
    "feedback_csv": False,
    "feedback_votes": False,
    "reviews": False,
    "search": False,
    "connect": False,
    "memories": False,
    "memory": True,
    "strategies": False,
    "strategy": True,
    "settings": False,
    "password": False,
    "demo_status": False,
}
# The chart that the address is requested for.
CHARTS = {
    "overview_csv": "ratio",
    "overview_table": "ratio",
    "phases_csv": "share",
    "feedback_csv": "liked",
    "traffic_csv": "prompts",
}
# Pages that need a role: the role, and whether the address names something of the team.
CLOSED_PAGES = {
    "review": (Role.REVIEWER, True),
    "review_records": (Role.REVIEWER, True),
    "reviews_csv": (Role.REVIEWER, False),
    "reviews_jsonl": (Role.REVIEWER, False),
    "audit": (Role.ADMIN, False),
    "audit_csv": (Role.ADMIN, False),
}
# Actions that change something: the role they need, and whether the address names something of the team.
ACTIONS = {
    "space_create": (Role.EDITOR, False),
    "start_examples": (Role.EDITOR, True),
    "space_edit": (Role.EDITOR, True),
    "space_import": (Role.EDITOR, True),
    "import_part": (Role.EDITOR, True),
    "import_start": (Role.EDITOR, True),
    "import_cancel": (Role.EDITOR, True),
    "index_start": (Role.EDITOR, False),
    "index_confirm": (Role.EDITOR, True),
    "space_assemble": (Role.REVIEWER, True),
    "space_settings": (Role.EDITOR, True),
    "space_settings_try": (Role.EDITOR, True),
    "space_preset_use": (Role.EDITOR, True),
    "traffic_policy": (Role.EDITOR, True),
    "traffic_policy_undo": (Role.ADMIN, True),
    "space_config_activate": (Role.EDITOR, True),
    "record_new": (Role.EDITOR, True),
    "record_edit": (Role.EDITOR, True),
    "record_delete": (Role.EDITOR, True),
    "record_restore": (Role.EDITOR, True),
    "record_pin": (Role.EDITOR, True),
    "record_undo": (Role.EDITOR, True),
    "record_purge": (Role.ADMIN, True),
    "phase": (Role.EDITOR, False),
    "phase_activate": (Role.EDITOR, False),
    "task_new": (Role.EDITOR, False),
    "finding_check": (Role.EDITOR, True),
    "finding_resolve": (Role.EDITOR, True),
    "finding_change": (Role.EDITOR, True),
    "space_remedy": (Role.EDITOR, True),
    "document_attach": (Role.EDITOR, True),
    "document_detach": (Role.EDITOR, True),
    "task_compress": (Role.EDITOR, True),
    "task_advance": (Role.EDITOR, True),
    "memory_new": (Role.EDITOR, False),
    "memory_edit": (Role.EDITOR, True),
    "memory_delete": (Role.EDITOR, True),
    "memory_restore": (Role.EDITOR, True),
    "memory_purge": (Role.ADMIN, True),
    "strategy_complete": (Role.EDITOR, False),
    "strategy_retire": (Role.EDITOR, True),
    "strategy_reinstate": (Role.EDITOR, True),
    "chat_ask": (Role.REVIEWER, False),
    "chat_send": (Role.REVIEWER, True),
    "chat_cancel": (Role.REVIEWER, True),
    "chat_retry": (Role.REVIEWER, True),
    "chat_vote": (Role.REVIEWER, True),
    "assembly_vote": (Role.REVIEWER, True),
    "assembly_what_if_save": (Role.EDITOR, True),
    "backtests": (Role.EDITOR, False),
    "backtest_cancel": (Role.EDITOR, True),
    "backtest_publish": (Role.EDITOR, True),
    "review_rules": (Role.ADMIN, False),
    "review_next": (Role.REVIEWER, False),
    "review_verdict": (Role.REVIEWER, True),
    "review_skip": (Role.REVIEWER, True),
    "review_take": (Role.REVIEWER, True),
    "review_renew": (Role.REVIEWER, True),
    "review_undo": (Role.REVIEWER, True),
    "review_assign": (Role.ADMIN, True),
    "review_question": (Role.REVIEWER, True),
    "assembly_question": (Role.REVIEWER, True),
    "space_evaluate": (Role.EDITOR, True),
    "set_create": (Role.EDITOR, False),
    "set_evaluate": (Role.REVIEWER, True),
    "set_calibrate": (Role.REVIEWER, True),
    "set_draft": (Role.EDITOR, True),
    "set_rename": (Role.EDITOR, True),
    "set_guard": (Role.ADMIN, True),
    "set_delete": (Role.EDITOR, True),
    "set_import": (Role.EDITOR, True),
    "question": (Role.EDITOR, True),
    "question_new": (Role.EDITOR, True),
    "question_delete": (Role.EDITOR, True),
    "member_role": (Role.ADMIN, True),
    "member_remove": (Role.ADMIN, True),
    "invitation_create": (Role.ADMIN, False),
    "invitation_revoke": (Role.ADMIN, True),
    "settings_team": (Role.ADMIN, False),
    "key_create": (Role.ADMIN, False),
    "connect_key": (Role.EDITOR, False),
    "connect_revoke": (Role.EDITOR, True),
    "connect_code": (Role.EDITOR, False),
    "connect_space": (Role.EDITOR, False),
    "key_rotate": (Role.ADMIN, True),
    "key_revoke": (Role.ADMIN, True),
    "demo_load": (Role.ADMIN, False),
    "demo_remove": (Role.ADMIN, False),
}
# Actions whose address also shows their form.
ALSO_FORMS = {
    "record_new", "space_import", "index_start", "memory_new", "task_new", "strategy_complete", "set_import",
    "question_new", "assembly_question", "task_advance",
}  # fmt: skip
# Open to every member: these choose among one's own teams and store one's own views.
OPEN_ACTIONS = {"switch_team", "view_save", "view_delete", "start_dismiss"}
# Open to anybody with the link, with or without an account.
LINKS = {"invitation", "invitation_join"}
# Asked by programs, without a log-in: the wheel is the same for everybody, and a code is checked there.
PROGRAMS = {"connect_wheel", "connect_redeem"}
# Opened by htmx; a browser is redirected to the page that they belong to.
FRAGMENTS = {"chat_message", "start", "space_preset"}


pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def team(shared: None) -> Team:
    return factories.make_team()


@pytest.fixture(scope="module")
def address(team: Team) -> Callable[[str], str]:
    """Make one of everything, and return a function from an address's name to its path."""
    space = factories.make_space(team)
    record = factories.make_record(space, notes="first\nsecond", tags=["ops"], external_id="x")
    question_set = create_set(space=space, name="Facts", actor="test")
    asked = QuestionIn(query="Why?", expected=["x"])
    question = add_question(question_set=question_set, data=asked, actor="test")
    assembly = factories.make_assembly(space)
    key = factories.make_key(team)[0]
    task = factories.make_task(team)
    factories.make_finding(task, decision="open")
    repository = factories.make_repository(team)
    style = StandingDocumentIn(repository=repository.name, title="Style", content="Two spaces.")
    document = attach_document(team=team, data=style, actor="test").document
    strategy = make_strategy(team)
    conversation = factories.make_conversation(space)
    with override_settings():
        answer = factories.make_answer(conversation, settings)
    item = make_review(space)
    imported = start_upload(into=space, name="rows.csv", size=9, actor="test")
    indexed = start_upload(into=team, name="shop.zip", size=9, actor="test")
    backtest = start_backtest(space=space, data=BacktestIn(config=1), actor="test")
    member = team.memberships.first() or Membership.objects.create(
        team=team, user=factories.make_user("mia"), role=Role.VIEWER
    )
    change_policy(space=space, changes=PolicyPatch(mode="insert"), actor="test")
    changed = last_change(space)
    assert changed is not None
    invited = InvitationIn(name="Nia")
    invitation, _ = invite(team=team, data=invited, actor="test")

    def get(name: str) -> str:
        known = {
            "slug": CHARTS.get(name, space.slug),
            "record_id": record.pk,
            "assembly_id": assembly.id,
            "key_id": key.pk,
            "task_id": task.pk,
            "repository_id": repository.pk,
            "document_id": document.pk,
            "memory_id": strategy.pk,
            "conversation_id": conversation.pk,
            "message_id": answer.reply_to_id,
            "answer_id": answer.pk,
            "item_id": item.pk,
            "set_id": question_set.pk,
            "backtest_id": backtest.pk,
            "run_id": indexed.pk if name.startswith("index_") else imported.pk,
            "question_id": question.pk,
            "membership_id": member.pk,
            "invitation_id": invitation.pk,
            "event_id": changed.pk,
            "name": "lean",
            "number": 1,
            "version": 1,
        }
        pattern = next(p for p in urls.urlpatterns if isinstance(p, URLPattern) and p.name == name)
        return reverse(f"dashboard:{name}", kwargs={k: known[k] for k in pattern.pattern.converters})

    return get


@pytest.fixture(scope="module")
def holders(team: Team) -> dict[Role, Client]:
    """One member of the team for each role."""
    return {role: log_in(factories.make_user(f"holder_{role}", team, role)) for role in Role}


def role_below(role: Role) -> Role:
    return list(Role)[list(Role).index(role) - 1]


def test_every_address_is_in_these_tables() -> None:
    assert {p.name for p in urls.urlpatterns} == {
        *PAGES, *CLOSED_PAGES, *ACTIONS, *OPEN_ACTIONS, *FRAGMENTS, *LINKS, *PROGRAMS
    }  # fmt: skip


def test_a_member_opens_it(address, teammate_client: Client) -> None:
    def check(name: str) -> None:
        assert same(teammate_client).get(address(name)).status_code == 200

    walk(PAGES, check)


def test_the_role_opens_it_and_one_below_does_not(address, holders: dict[Role, Client]) -> None:
    def check(name: str) -> None:
        needed, _ = CLOSED_PAGES[name]
        response = same(holders[role_below(needed)]).get(address(name))
        assert response.status_code == 403
        assert f"This requires the role {needed.label.lower()}" in response.content.decode()
        assert same(holders[needed]).get(address(name)).status_code == 200

    walk(CLOSED_PAGES, check)


def test_no_cache_stores_it(address, owner_client: Client) -> None:
    def check(name: str) -> None:
        for headers in ({}, {"HX-Request": "true"}):
            response = same(owner_client).get(address(name), headers=headers)
            assert "no-store" in response.headers["Cache-Control"]

    walk([*PAGES, *CLOSED_PAGES, *FRAGMENTS], check)


def test_no_cache_stores_what_follows_from_an_action(owner_client: Client) -> None:
    known = {"slug": "support", "token": "x", "page": "assemblies"}

    def check(name: str) -> None:
        pattern = next(p for p in urls.urlpatterns if isinstance(p, URLPattern) and p.name == name)
        url = reverse(f"dashboard:{name}", kwargs={k: known.get(k, 1) for k in pattern.pattern.converters})
        assert "no-store" in same(owner_client).post(url).headers["Cache-Control"]

    walk([*ACTIONS, *OPEN_ACTIONS, *LINKS], check)


@pytest.mark.parametrize("url", ["/healthz", "/metrics", "/accounts/login/", "/admin/login/", "/nowhere"])
def test_no_cache_stores_the_other_addresses(url: str) -> None:
    assert "no-store" in Client().get(url).headers["Cache-Control"]


def test_anonymous_visitors_are_sent_to_the_login(address) -> None:
    def check(name: str) -> None:
        response = Client().get(address(name))
        assert response.status_code == 302
        assert response.headers["Location"] == f"{reverse('login')}?next={address(name)}"

    walk([*PAGES, *CLOSED_PAGES], check)


def test_anonymous_visitors_change_nothing(address) -> None:
    def check(name: str) -> None:
        assert Client().post(address(name)).status_code == 302

    walk(ACTIONS, check)


def test_outsiders_find_nothing(address, outsider_client: Client) -> None:
    def check(name: str) -> None:
        assert same(outsider_client).get(address(name)).status_code == 404

    closed = (name for name, (_, is_owned) in CLOSED_PAGES.items() if is_owned)
    walk([*(name for name, is_owned in PAGES.items() if is_owned), *closed], check)


def test_outsiders_pages_link_to_nothing_of_the_team(
    address, owner_client: Client, outsider_client: Client
) -> None:
    shared, owned = ([name for name in PAGES if PAGES[name] is is_owned] for is_owned in (False, True))
    things = {f'href="{address(name)}"' for name in owned}
    shown = "".join(page_of(owner_client, address(name)) for name in shared)
    assert sum(thing in shown for thing in things) >= 11
    for name in shared:
        html = page_of(outsider_client, address(name))
        assert not [thing for thing in things if thing in html], name


def page_of(client: Client, url: str) -> str:
    return client.get(url).getvalue().decode()


def test_a_number_beyond_the_databases_is_not_found(address, owner_client: Client) -> None:
    for name in (name for name, is_owned in PAGES.items() if is_owned):
        url = re.sub(r"\d+", str(2**70), address(name))
        assert owner_client.get(url).status_code == (200 if url == address(name) else 404), url


def test_outsiders_change_nothing(address, outsider_client: Client) -> None:
    def check(name: str) -> None:
        assert same(outsider_client).post(address(name)).status_code == 404

    walk((name for name, (_, is_owned) in ACTIONS.items() if is_owned), check)


def test_a_role_below_gets_403(address, holders: dict[Role, Client]) -> None:
    def check(name: str) -> None:
        needed, _ = ACTIONS[name]
        client = same(holders[role_below(needed)])
        for response in (client.post(address(name)), *[client.get(address(name))] * (name in ALSO_FORMS)):
            assert response.status_code == 403
            assert f"This requires the role {needed.label.lower()}" in response.content.decode()

    walk(ACTIONS, check)


def test_actions_refuse_get(address, owner_client: Client) -> None:
    def check(name: str) -> None:
        assert same(owner_client).get(address(name)).status_code == 405

    walk((name for name in ACTIONS if name not in PAGES and name not in ALSO_FORMS), check)


# Fields that a form needs to take effect. The other actions need none.
FORMS: dict[str, dict[str, Any]] = {
    "space_create": {"name": "New", "slug": "new"},
    "space_edit": {"name": "Renamed"},
    "space_remedy": {"setting": "window_days", "value": "30"},
    "record_new": {"title": "New", "type": "note"},
    "record_edit": {"title": "Changed", "type": "note"},
    "phase": {"budget_tokens": 100},
    "task_new": {"description": "New"},
    "memory_new": {"memory_type": "decision", "content": "New", "trust_level": "user"},
    "memory_edit": {"memory_type": "strategy", "content": "Changed", "trust_level": "user"},
    "strategy_complete": {
        "description": "New",
        "outcome": "completed",
        "quality_score": 8,
        "total_attempts": 1,
    },
    "traffic_policy": {
        "mode": "audit",
        "insert_percent": 50,
        "placement": "auto",
        "keep": "sizes",
        "time_limit_ms": 150,
    },
    "document_attach": {"title": "Tests", "content": "Write one first."},
    "chat_ask": {"space": "support", "stage": "3", "text": "Why?"},
    "chat_send": {"text": "Why?"},
    "review_rules": {"sample_percent": 5, "verdicts_wanted": 1},
    "review_verdict": {"verdict": "model"},
    "settings_team": {"name": "Platform", "time_zone": "UTC"},
    "set_create": {"space": "support", "name": "New"},
    "set_rename": {"name": "Renamed"},
    "set_guard": {"min_recall": "0.5"},
    "question": {"query": "Why not?", "expected": "x"},
    "question_new": {"query": "Who?", "expected": "x"},
    "assembly_question": {"one_click": "1"},
}
# The tests of their pages send these larger forms, and the parts that a script sends. The demo needs a queue,
# which few tests have.
SENT_ELSEWHERE = {
    "space_import", "index_start", "import_part", "space_settings", "space_settings_try", "space_evaluate",
    "set_import", "phase_activate", "demo_load",
}  # fmt: skip


def test_what_a_browser_sends_ends_in_a_redirect(address, holders: dict[Role, Client]) -> None:
    def check(name: str) -> None:
        role, _ = ACTIONS.get(name, (Role.VIEWER, False))
        response = same(holders[role]).post(address(name), FORMS.get(name, {}))
        errors = re.findall(r'id="id_(\w+)_error".*?</div>', response.content.decode())
        assert response.status_code == 302, errors

    walk((name for name in (*ACTIONS, "view_save") if name not in SENT_ELSEWHERE), check)


def test_head_is_answered_as_get_without_the_body(address, owner_client: Client) -> None:
    def check(name: str) -> None:
        url, client = address(name), same(owner_client)
        head, get = client.head(url), client.get(url)
        assert head.status_code == get.status_code
        assert head.getvalue() == b""
        assert head.headers.get("Content-Type") == get.headers.get("Content-Type")

    walk([*PAGES, *CLOSED_PAGES, *FRAGMENTS], check)


def test_head_does_nothing_where_get_does_not(address, owner_client: Client) -> None:
    def check(name: str) -> None:
        url, client = address(name), same(owner_client)
        assert client.head(url).status_code == client.get(url).status_code

    walk((name for name in ACTIONS if name not in PAGES), check)


@pytest.mark.parametrize(
    ("referer", "way_back"),
    [
        ("http://testserver/spaces/?show=all", "/spaces/?show=all"),
        ("http://testserver/spaces/", "/spaces/"),
        ("http://elsewhere.example/spaces/", "/"),
        ("http://testserver//elsewhere.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("", "/"),
    ],
)
def test_what_an_expired_session_sent_leads_back_to_its_page(
    referer: str, way_back: str, address, owner: User
) -> None:
    client = Client()
    response = client.post(address("key_create"), headers={"Referer": referer})
    assert response.status_code == 302
    login = response.headers["Location"]
    assert parse_qs(urlsplit(login).query) == {"next": [way_back]}
    given = {"username": "olga", "password": "correct horse", "next": way_back}
    assert client.post(login, given).headers["Location"] == way_back


def test_a_nul_in_the_address_is_no_error(address, owner_client: Client) -> None:
    fields = {
        "after", "before", "config", "evaluation", "explain", "find", "key", "model", "next", "phase", "q",
        "question", "record", "repository", "show", "space", "task", "until", "version", "words",
    }  # fmt: skip

    def check(name: str) -> None:
        client, url = same(owner_client), address(name)
        with fields_read() as read:
            client.get(url)
        for given in ("unknown", *sorted(fields & read)):
            assert client.get(url, {given: "a\0"}).status_code < 500, given

    walk([*PAGES, *CLOSED_PAGES, *FRAGMENTS], check)


@contextmanager
def fields_read() -> Iterator[set[str]]:
    """Note the fields that pages look up in the address. A page handles all others alike."""
    read: set[str] = set()

    def noting(look_up: Callable[..., Any]) -> Callable[..., Any]:
        def note(given: QueryDict, field: str, *default: Any) -> Any:
            read.add(field)
            return look_up(given, field, *default)

        return note

    with pytest.MonkeyPatch.context() as patch:
        for name in ("__contains__", "__getitem__", "get", "getlist"):
            patch.setattr(QueryDict, name, noting(getattr(QueryDict, name)))
        yield read


def test_no_page_has_inline_styles_or_scripts(address, owner_client: Client) -> None:
    files = {"assembly_text"}
    for name in [n for n in (*PAGES, *CLOSED_PAGES) if not n.endswith(("_csv", "_jsonl")) and n not in files]:
        html = owner_client.get(address(name)).content.decode()
        assert " style=" not in html, name
        assert "<style" not in html, name
        assert "hx-on" not in html, name
        assert "<script>" not in html, name
