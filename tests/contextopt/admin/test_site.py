"""The admin as a whole: every model has its pages, and only staff get in."""

from datetime import UTC, datetime

import pytest
from django.apps import apps
from django.contrib import admin
from django.db.models import Model
from django.test import Client

from contextopt.admin import base
from contextopt.agents.handoffs.models import Finding, PhaseCompression, Resolution
from contextopt.agents.models import Attempt, Blob, ReceiverFile, Task
from contextopt.assemblies.corrections import Correction
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.assemblies.tokenfactors import TokenFactor
from contextopt.chat.models import Conversation, Message
from contextopt.gateway.models import GatewayGap, GatewayPolicy, GatewayRequest
from contextopt.importruns.models import ImportPart, ImportRun
from contextopt.people.models import StoredResponse, Team, Throttle
from contextopt.repositories.models import CodeBlob, Repository, RepositoryFile, RepositoryHistory
from contextopt.search.models import (
    DocumentFrequency,
    EmbeddingFill,
    EmbeddingModel,
    EmbeddingTodo,
    SearchCorpus,
)
from contextopt.spaces.models import (
    Record,
    RecordEmbedding,
    RecordRevision,
    RecordView,
    Space,
    SpaceCounts,
    SpaceHour,
)
from tests import factories
from tests.adminpages import page
from tests.contextopt.conftest import make_world
from tests.walks import walk

MODELS = [model for model in apps.get_app_config("contextopt").get_models() if not model._meta.auto_created]
VIEW_ONLY = [
    Assembly, AssemblyPayload, Attempt, Blob, CodeBlob, Conversation, Correction, DocumentFrequency,
    EmbeddingFill, EmbeddingModel, EmbeddingTodo, Finding, GatewayGap, GatewayPolicy, GatewayRequest,
    ImportPart, ImportRun, Message, PhaseCompression, ReceiverFile, RecordEmbedding, RecordRevision,
    RecordView, Repository, RepositoryFile, RepositoryHistory, Resolution, SearchCorpus, SpaceCounts,
    SpaceHour, StoredResponse,
    Task, Throttle, TokenFactor,
]  # fmt: skip


pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def world(shared: None) -> Space:
    return make_world(factories.make_space(factories.make_team("world")))


def test_list(root: Client, world: Space) -> None:
    def check(model: type[Model]) -> None:
        response = root.get(page(model, "changelist"))
        assert response.status_code == 200
        assert "'unsafe-eval'" in response["Content-Security-Policy"]
        assert "no-store" in response["Cache-Control"]

    walk(MODELS, check)


def test_search(root: Client, world: Space) -> None:
    def check(model: type[Model]) -> None:
        for query in ("9" * 30, "\x00", "ø'\"%"):
            response = root.get(page(model, "changelist"), {"q": query})
            assert response.status_code in {200, 302}

    walk(MODELS, check)


def test_handmade_values(root: Client, world: Space) -> None:
    def check(model: type[Model]) -> None:
        for name in admin.site.get_model_admin(model).list_filter:
            assert root.get(page(model, "changelist"), {str(name): "\0"}).status_code == 302
        chosen = {"action": "delete_selected", "_selected_action": "no key", "index": 0}
        assert root.post(page(model, "changelist"), chosen).status_code < 500
        assert root.get(page(model, "change", "\0")).status_code == 302
        handmade = dict.fromkeys(admin.site.get_model_admin(model).autocomplete_fields, "no key")
        assert root.post(page(model, "add"), handmade).status_code < 500

    walk(MODELS, check)


def test_detail(root: Client, world: Space) -> None:
    def check(model: type[Model]) -> None:
        row = model.objects.first()
        assert root.get(page(model, "change", row.pk)).status_code == 200

    walk(MODELS, check)


def test_nobody_gets_in(client: Client, world: Space) -> None:
    def check(model: type[Model]) -> None:
        response = client.get(page(model, "changelist"))
        assert response.status_code == 302
        assert "/admin/login/" in response["Location"]

    walk(MODELS, check)


def test_view_only(root: Client, world: Space) -> None:
    def check(model: type[Model]) -> None:
        row = model.objects.first()
        assert root.get(page(model, "add")).status_code == 403
        assert root.post(page(model, "change", row.pk), {"text": "forged"}).status_code == 403
        assert root.post(page(model, "delete", row.pk), {"post": "yes"}).status_code == 403
        assert model.objects.filter(pk=row.pk).exists()

    walk(VIEW_ONLY, check)


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


def test_times_are_those_of_a_24_hour_clock(root):
    moment = datetime(2026, 3, 1, 15, 4, tzinfo=UTC)
    team = factories.make_team("clock")
    Team.objects.filter(pk=team.pk).update(created_at=moment)
    assert "1 Mar 2026, 15:04" in root.get(page(Team, "changelist")).content.decode()
