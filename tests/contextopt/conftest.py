"""Fixtures for the tests of the admin: a superuser, and one row of everything."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

import config.urls  # noqa: F401 it loads the admin's tables
from contextopt.agents.handoffs.findings import resolve_finding
from contextopt.agents.handoffs.inputs import ResolutionIn
from contextopt.agents.handoffs.models import HandoffSettings
from contextopt.agents.inputs import StandingDocumentIn
from contextopt.agents.phaselinks import LinkIn, publish_link
from contextopt.agents.retrysettings import RetrySettings
from contextopt.agents.standingdocuments import attach_document
from contextopt.assemblies.corrections import Correction
from contextopt.assemblies.tokenfactors import TokenFactor
from contextopt.gateway.models import GatewayGap, GatewayPolicy
from contextopt.importruns.models import ImportPart, ImportRun
from contextopt.people.connectcodes import make_code
from contextopt.people.inputs import CodeIn, InvitationIn
from contextopt.people.members import invite
from contextopt.people.models import StoredResponse, User
from contextopt.repositories.models import RepositoryHistory
from contextopt.search import registry
from contextopt.search.vectors.fill import Work, work_through
from contextopt.search.wordcounts import ensure_counted
from contextopt.spaces.inputs import RecordPatch
from contextopt.spaces.models import Space
from contextopt.spaces.records import update_record
from contextopt.spaces.recordviews import view_record
from memory.strategies.inputs import CompletionIn
from memory.strategies.reports import complete_task
from tests import factories
from tests.model_server import ModelServer


@pytest.fixture
def llm(settings: Any) -> Iterator[ModelServer]:
    with ModelServer() as server:
        settings.LLM_BASE_URL, settings.LLM_API_KEY, settings.LLM_MODEL = server.base_url, "sk-test", "small"
        yield server


@pytest.fixture
def root(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="x"))
    return client


@pytest.fixture
def world(space: Space) -> Space:
    return make_world(space)


def make_world(space: Space) -> Space:
    """Make one row of everything."""
    record = factories.make_record(space, title="Alpha")
    factories.make_record(space, title="Beta")
    view_record(record=record, viewer="user:1")
    work_through(seconds=10, index_seconds=None, work=Work())
    key, _ = factories.make_key(space.team)
    anna = factories.make_user("anna", space.team)
    make_code(team=space.team, user=anna, data=CodeIn(space=space.slug))
    invite(team=space.team, data=InvitationIn(name="Nia"), actor="test")
    logged = factories.make_assembly(space)
    Correction.objects.create(assembly_id=logged.id, reason="marks")
    factories.make_message(factories.make_conversation(space))
    factories.make_profile(space.team)
    task = factories.make_task(space.team, files={"a.py": "x = 1\n"})
    factories.make_attempt(task)
    decided = factories.make_finding(task, category="decisions", decision="open")
    answer = ResolutionIn(answer="Whole cents")
    resolve_finding(team_id=space.team_id, task_id=task.pk, number=decided.number, data=answer, actor="test")
    publish_link(team=space.team, phase="building", data=LinkIn(profile="building"), created_by="test")
    factories.make_advance(task)
    HandoffSettings.objects.create(team=space.team, phase="analysis")
    RetrySettings.objects.create(team=space.team)
    document = StandingDocumentIn(repository="shop", title="Style", content="Two spaces.")
    attach_document(team=space.team, data=document, actor="test")
    repository = factories.make_repository(space.team)
    RepositoryHistory.objects.create(repository=repository, revision="0" * 40, commits=0, changes="[]")
    StoredResponse.objects.create(api_key=key, idempotency_key="k", request_hash="h", status=200)
    GatewayPolicy.objects.create(space=space)
    factories.make_gateway_request(space)
    GatewayGap.objects.create(team=space.team, requests=3)
    TokenFactor.objects.create(team=space.team, model="claude-opus-4-7", kind="prose")
    run = ImportRun.objects.create(team=space.team, space=space, name="notes.zip", created_by="test")
    ImportPart.objects.create(run=run, number=0, content=b"PK")
    ensure_counted(registry.get("record"), space.pk)
    report = CompletionIn(description="Fix the queue", plan="Look\nFix", quality_score=8)
    complete_task(team=space.team, data=report, actor="test")
    update_record(record=record, changes=RecordPatch(notes="Changed"), actor="test")
    return space
