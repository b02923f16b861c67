"""The admin: every model has its pages, and what changes goes the product's own way."""

from datetime import timedelta

import pytest
from django.apps import apps
from django.contrib import admin
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from contextopt import searchables
from contextopt.admin import base
from contextopt.completing import complete_task
from contextopt.completioninputs import CompletionIn
from contextopt.embeddingjobs import Work, work_through
from contextopt.frequencies import ensure_counted
from contextopt.inputs import RecordPatch
from contextopt.memberships import invite
from contextopt.models import (
    ApiKey,
    Assembly,
    AssemblyPayload,
    Attempt,
    Blob,
    CodeBlob,
    ContextConfig,
    Conversation,
    DocumentFrequency,
    EmbeddingFill,
    EmbeddingModel,
    EmbeddingTodo,
    Finding,
    HandoffSettings,
    Message,
    PhaseCompression,
    PhaseProfile,
    ReceiverFile,
    Record,
    RecordEmbedding,
    RecordRevision,
    Repository,
    RepositoryFile,
    RepositoryHistory,
    SearchCorpus,
    Space,
    SpaceCounts,
    SpaceHour,
    StoredResponse,
    Task,
    Team,
    User,
)
from contextopt.peopleinputs import InvitationIn
from contextopt.recording import update_record
from tests import factories

MODELS = [model for model in apps.get_app_config("contextopt").get_models() if not model._meta.auto_created]
VIEW_ONLY = [
    Assembly, AssemblyPayload, Attempt, Blob, CodeBlob, Conversation, DocumentFrequency, EmbeddingFill,
    EmbeddingModel, EmbeddingTodo, Finding, Message, PhaseCompression, ReceiverFile, RecordEmbedding,
    RecordRevision, Repository, RepositoryFile, RepositoryHistory, SearchCorpus, SpaceCounts, SpaceHour,
    StoredResponse, Task,
]  # fmt: skip


@pytest.fixture
def root(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="x"))
    return client


@pytest.fixture
def world(space: Space) -> Space:
    """One row of everything."""
    record = factories.make_record(space, title="Alpha")
    factories.make_record(space, title="Beta")
    work_through(seconds=10, index_seconds=None, work=Work())
    key, _ = factories.make_key(space.team)
    factories.make_user("anna", space.team)
    invite(team=space.team, data=InvitationIn(name="Nia"), actor="test")
    factories.make_assembly(space)
    factories.make_message(factories.make_conversation(space))
    factories.make_profile(space.team)
    task = factories.make_task(space.team, files={"a.py": "x = 1\n"})
    factories.make_attempt(task)
    factories.make_finding(task)
    factories.make_advance(task)
    HandoffSettings.objects.create(team=space.team, phase="analysis")
    repository = factories.make_repository(space.team)
    RepositoryHistory.objects.create(repository=repository, revision="0" * 40, commits=0, changes="[]")
    StoredResponse.objects.create(api_key=key, idempotency_key="k", request_hash="h", status=200)

    ensure_counted(searchables.get("record"), space.pk)
    report = CompletionIn(description="Fix the queue", plan="Look\nFix", quality_score=8)
    complete_task(team=space.team, data=report, actor="test")
    update_record(record=record, changes=RecordPatch(notes="Changed"), actor="test")
    return space


def page(model, kind: str, *args: object) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{kind}", args=args)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
class TestEveryModel:
    def test_list(self, root, world, model):
        assert root.get(page(model, "changelist")).status_code == 200

    def test_search(self, root, world, model):
        for query in ("alpha", "7", "9" * 30, "\x00", "ø'\"%"):
            response = root.get(page(model, "changelist"), {"q": query})
            assert response.status_code in {200, 302}

    def test_detail(self, root, world, model):
        row = model.objects.first()
        assert root.get(page(model, "change", row.pk)).status_code == 200

    def test_nobody_gets_in(self, client, world, model):
        response = client.get(page(model, "changelist"))
        assert response.status_code == 302
        assert "/admin/login/" in response["Location"]

    def test_policy_is_the_admins_own(self, root, world, model):
        policy = root.get(page(model, "changelist"))["Content-Security-Policy"]
        assert "'unsafe-eval'" in policy


@pytest.mark.parametrize("model", VIEW_ONLY, ids=lambda model: model.__name__)
def test_view_only(root, world, model):
    row = model.objects.first()
    assert root.get(page(model, "add")).status_code == 403
    assert root.post(page(model, "change", row.pk), {"text": "forged"}).status_code == 403
    assert root.post(page(model, "delete", row.pk), {"post": "yes"}).status_code == 403
    assert model.objects.filter(pk=row.pk).exists()


def test_member_without_staff_is_kept_out(client, owner):
    client.force_login(owner)
    assert client.get("/admin/").status_code == 302


def test_login_page_has_the_admins_policy(client, db):
    assert "'unsafe-eval'" in client.get("/admin/login/")["Content-Security-Policy"]


def test_pages_outside_have_not(root, db):
    assert "unsafe" not in root.get("/accounts/login/").headers.get("Content-Security-Policy", "")
    assert "unsafe" not in root.get("/api/v1/me")["Content-Security-Policy"]


def test_site_is_ours(root):
    assert type(admin.site._wrapped if hasattr(admin.site, "_wrapped") else admin.site).__name__ in {
        "ContextoptAdminSite",
        "DefaultAdminSite",
    }
    response = root.get("/admin/")
    assert b"Contextopt" in response.content
    assert b"https://" not in response.content


@pytest.mark.parametrize(
    "model", [Assembly, Record, RecordRevision, AssemblyPayload], ids=lambda m: m.__name__
)
def test_list_queries_do_not_grow(root, space, model, django_assert_max_num_queries):
    for index in range(12):
        record = factories.make_record(space, title=f"row {index}")
        factories.make_assembly(space)
        root.post(page(Record, "delete", record.pk), {"post": "yes"})
    # Session, user, one bounded count, rows, and the choices of the filters.
    with django_assert_max_num_queries(9) as queries:
        root.get(page(model, "changelist"))
    for query in queries.captured_queries:
        if "COUNT(" in query["sql"]:
            assert "LIMIT" in query["sql"]
        assert '"notes"' not in query["sql"]
        assert '"ledger"' not in query["sql"]


def test_count_is_bounded(space, monkeypatch):
    monkeypatch.setattr(base, "COUNTED_MAX", 2)
    for _ in range(4):
        factories.make_record(space)
    assert base.BoundedPaginator(Record.objects.order_by("-id"), 50).count == 2


class TestApiKey:
    def add(self, root, team, **overrides):
        data = {"team": team.pk, "name": "agent", "scope": "write", "expires_at_0": "", "expires_at_1": ""}
        return root.post(page(ApiKey, "add"), {**data, **overrides}, follow=True)

    def test_secret_is_shown_once(self, root, team, client):
        response = self.add(root, team)
        key = ApiKey.objects.get()
        text = response.content.decode()
        secret = text[text.index("ctx_", text.index("shown this once")) :].split("<")[0].strip()
        assert key.created_by == "user:root"
        answer = client.get("/api/v1/me", headers={"X-API-Key": secret})
        assert answer.json()["key"]["name"] == "agent"
        assert secret not in root.get(page(ApiKey, "change", key.pk)).content.decode()
        assert secret not in root.get(page(ApiKey, "changelist")).content.decode()

    def test_revoke(self, root, team):
        key, _ = factories.make_key(team)
        root.post(page(ApiKey, "changelist"), {"action": "revoke", "_selected_action": [key.pk]})
        key.refresh_from_db()
        assert key.revoked_at is not None

    def test_scope_is_not_changed_later(self, root, team):
        key, _ = factories.make_key(team, scope="read")
        data = {"name": "renamed", "scope": "admin", "expires_at_0": "", "expires_at_1": ""}
        root.post(page(ApiKey, "change", key.pk), data)
        key.refresh_from_db()
        assert (key.name, key.scope) == ("renamed", "read")

    def test_is_never_deleted(self, root, team):
        key, _ = factories.make_key(team)
        assert root.post(page(ApiKey, "delete", key.pk), {"post": "yes"}).status_code == 403


class TestSpace:
    def test_add_makes_counts_and_settings(self, root, team):
        data = {"team": team.pk, "slug": "new", "name": "New", "description": "", "categories": "a,b"}
        root.post(page(Space, "add"), data)
        space = Space.objects.get(slug="new")
        assert space.categories == ["a", "b"]
        assert space.counts.live == 0
        assert space.configs.active().get().created_by == "user:root"

    def test_change(self, root, space):
        data = {"name": "Renamed", "description": "", "categories": ""}
        assert root.post(page(Space, "change", space.pk), data).status_code == 302
        space.refresh_from_db()
        assert space.name == "Renamed"

    def test_taken_slug(self, root, space):
        data = {"team": space.team_id, "slug": space.slug, "name": "New", "description": "", "categories": ""}
        assert root.post(page(Space, "add"), data).status_code == 200
        assert Space.objects.count() == 1

    def test_delete(self, root, world):
        root.post(page(Space, "delete", world.pk), {"post": "yes"})
        assert not Space.objects.exists()
        assert not Record.objects.exists()


class TestRecord:
    def form(self, **overrides):
        data = {
            "title": "Alpha", "type": "note", "date_0": "2026-06-15", "date_1": "12:00:00", "tags": "",
            "notes": "Line one\r\nline two", "thread": "", "position": "", "metadata": "{}", "source": "",
            "external_id": "",
        }  # fmt: skip
        return {**data, **overrides}

    def test_add(self, root, space):
        response = root.post(page(Record, "add"), self.form(space=space.pk, tags="a,b"))
        assert response.status_code == 302
        record = Record.objects.get()
        assert record.notes == "Line one\nline two"
        assert record.tags == ["a", "b"]
        assert record.summary_tokens > 0
        space.counts.refresh_from_db()
        assert space.counts.live == 1

    def test_saving_what_was_not_changed_keeps_no_revision(self, root, space):
        date = factories.NOW + timedelta(microseconds=123_456)
        record = factories.make_record(space, title="Alpha", notes="Line one\nline two", date=date)
        root.post(page(Record, "change", record.pk), self.form())
        assert not RecordRevision.objects.exists()
        record.refresh_from_db()
        assert record.date == date

    def test_comma_in_a_tag_survives_a_look(self, root, space):
        record = factories.make_record(space, title="Alpha", tags=["a,b", "c"])
        root.post(page(Record, "change", record.pk), self.form(title="New", tags="a,b,c"))
        record.refresh_from_db()
        assert (record.title, record.tags) == ("New", ["a,b", "c"])

    def test_change_keeps_a_revision(self, root, space):
        record = factories.make_record(space)
        assert root.post(page(Record, "change", record.pk), self.form(title="New")).status_code == 302
        record.refresh_from_db()
        assert record.title == "New"
        assert "New" in record.summary
        assert RecordRevision.objects.get().changed_by == "user:root"

    @pytest.mark.parametrize(
        "overrides",
        [
            {"title": " "},
            {"metadata": "[]"},
            {"metadata": "{"},
            {"date_0": "1066-01-01"},
            {"tags": "x" * 101},
        ],
        ids=str,
    )
    def test_bad_input_is_shown_on_the_form(self, root, space, overrides):
        response = root.post(page(Record, "add"), self.form(space=space.pk, **overrides))
        assert response.status_code == 200
        assert not Record.objects.exists()

    def test_taken_external_id(self, root, space):
        factories.make_record(space, external_id="1")
        assert root.post(page(Record, "add"), self.form(space=space.pk, external_id="1")).status_code == 200
        assert Record.objects.count() == 1

    def test_delete_is_soft_and_restorable(self, root, space):
        record = factories.make_record(space)
        root.post(page(Record, "delete", record.pk), {"post": "yes"})
        record.refresh_from_db()
        assert record.is_deleted
        root.post(page(Record, "changelist"), {"action": "restore", "_selected_action": [record.pk]})
        record.refresh_from_db()
        assert not record.is_deleted

    def test_delete_many_is_soft(self, root, space):
        record = factories.make_record(space)
        selected = {"action": "delete_selected", "_selected_action": [record.pk], "post": "yes"}
        root.post(page(Record, "changelist"), selected)
        record.refresh_from_db()
        assert record.is_deleted

    def test_purge_asks_first(self, root, space):
        record = factories.make_record(space, title="Secret")
        address = f"/admin/contextopt/record/{record.pk}/purge/"
        assert b"Erase this record" in root.get(address).content
        root.post(address, {"_form_submitted": "True"})
        record.refresh_from_db()
        assert record.title == "Secret"
        response = root.post(address, {"_form_submitted": "True", "confirm": "on"})
        assert response["HX-Redirect"] == page(Record, "change", record.pk)
        record.refresh_from_db()
        assert record.title == "[purged]"
        assert root.post(page(Record, "change", record.pk), self.form()).status_code == 403


class TestConfig:
    def form(self, space, **overrides):
        config = space.configs.active().get()
        names = ContextConfig._meta.get_fields()
        data = {field.name: getattr(config, field.name, "") for field in names if field.concrete}
        return {**{k: "" if v is None else v for k, v in data.items()}, "space": space.pk, **overrides}

    def test_add_publishes_the_next_version(self, root, space):
        root.post(page(ContextConfig, "add"), self.form(space, max_records=7, note="fewer"))
        config = space.configs.active().get()
        assert (config.version, config.max_records, config.created_by) == (2, 7, "user:root")

    def test_form_begins_with_the_active_settings(self, root, space):
        ContextConfig.objects.publish(space=space, created_by="test", max_records=17)
        response = root.get(page(ContextConfig, "add"), {"space": space.pk})
        assert b'value="17"' in response.content

    @pytest.mark.parametrize("space_id", ["x", "9" * 40, "-1", "999999"])
    def test_form_of_no_space(self, root, space_id):
        assert root.get(page(ContextConfig, "add"), {"space": space_id}).status_code == 200

    @pytest.mark.parametrize(
        "overrides",
        [{"encoding": "klingon"}, {"response_tokens": 10}, {"total_tokens": 1_000, "response_tokens": 2_000}],
        ids=str,
    )
    def test_bad_settings_publish_nothing(self, root, space, overrides):
        assert root.post(page(ContextConfig, "add"), self.form(space, **overrides)).status_code == 200
        assert space.configs.count() == 1

    def test_versions_are_not_edited(self, root, space):
        config = space.configs.get()
        assert root.post(page(ContextConfig, "change", config.pk), {"max_records": 9}).status_code == 403


def test_team_counts(root, space, django_assert_max_num_queries):
    factories.make_user("anna", space.team)
    with django_assert_max_num_queries(6):
        response = root.get(page(Team, "changelist"))
    assert response.status_code == 200


def test_user_can_be_added(root):
    data = {
        "username": "nina",
        "password1": "correct horse",
        "password2": "correct horse",
        "usable_password": "true",
    }
    assert root.post(page(User, "add"), data).status_code == 302
    assert User.objects.filter(username="nina", date_joined__lte=timezone.now()).exists()


class TestPhaseProfile:
    def add(self, root, team, **overrides):
        data = {"team": team.pk, "phase": "building", "budget_tokens": 9_000, "fields": ["tree", "files"]}
        return root.post(page(PhaseProfile, "add"), {**data, "note": "", **overrides})

    def test_add_publishes(self, root, team):
        assert self.add(root, team).status_code == 302
        assert self.add(root, team, budget_tokens=8_000).status_code == 302
        active = PhaseProfile.objects.active().get()
        assert (active.version, active.budget_tokens, active.fields) == (2, 8_000, ["tree", "files"])
        assert active.created_by == "user:root"

    def test_form_begins_with_what_is_in_force(self, root, team):
        for address in ({"team": team.pk, "phase": "diagnosis"}, {"team": "x" * 30}, {"phase": "\x00"}):
            response = root.get(page(PhaseProfile, "add"), address)
            assert response.status_code == 200
        response = root.get(page(PhaseProfile, "add"), {"team": team.pk, "phase": "diagnosis"})
        assert response.context["adminform"].form.initial["budget_tokens"] == 5_000

    @pytest.mark.parametrize(
        "overrides",
        [
            {"budget_tokens": -1},
            {"budget_tokens": 10**8},
            {"fields": ["soul"]},
            {"phase": " "},
            {"phase": ""},
        ],
        ids=str,
    )
    def test_refused(self, root, team, overrides):
        assert self.add(root, team, **overrides).status_code == 200
        assert not PhaseProfile.objects.exists()

    def test_is_never_changed(self, root, team):
        profile = factories.make_profile(team)
        assert root.post(page(PhaseProfile, "change", profile.pk), {"budget_tokens": 1}).status_code == 403
        assert root.post(page(PhaseProfile, "delete", profile.pk), {"post": "yes"}).status_code == 403


def test_no_page_shows_a_files_content(root, team):
    factories.make_task(team, files={"secret.py": "the launch code\n"})
    for model in (Blob, ReceiverFile, Task):
        row = model.objects.get()
        for address in (page(model, "changelist"), page(model, "change", row.pk)):
            assert b"launch code" not in root.get(address).content


class TestHandoffSettings:
    def test_begin_with_the_defaults_of_the_phase(self, root, team):
        html = root.get(page(HandoffSettings, "add"), {"phase": "design"}).content.decode()
        assert 'value="600"' in html
        assert "api_contracts,data_model,components" in html
        for address in ({"phase": "x"}, {"phase": ""}, {"team": "²"}):
            assert root.get(page(HandoffSettings, "add"), address).status_code == 200

    def test_are_saved_and_come_into_force(self, root, team):
        data = {
            "team": team.pk, "phase": "analysis", "bundle_tokens": 30_000, "findings_tokens": 7_000,
            "brief_tokens": 300, "critical_tokens": 900, "max_critical": 3, "key_categories": "risks, rules",
            "critical_above": 0.8, "speculation_below": 0.3,
        }  # fmt: skip
        add = page(HandoffSettings, "add")
        for wrong in ({"brief_tokens": 5}, {"critical_above": 2}, {"phase": "testing"}):
            assert root.post(add, {**data, **wrong}).status_code == 200
        assert not HandoffSettings.objects.exists()
        assert root.post(add, data).status_code == 302
        stored = HandoffSettings.objects.get()
        assert (stored.key_categories, stored.updated_by) == (["risks", "rules"], "user:root")
        task = factories.make_task(team)
        factories.make_finding(task, confidence=0.9)
        factories.make_advance(task)
        compression = PhaseCompression.objects.get()
        assert (compression.critical, compression.settings["brief_tokens"]) == ([1], 300)
