"""Every endpoint refuses callers without a key, with a lower scope, and from another team."""

import json
import re
from itertools import starmap
from typing import Any, NamedTuple

import pytest
from django.http import HttpResponse
from django.test import override_settings

from config.urls import api as ninja_api
from contextopt.agents.inputs import StandingDocumentIn
from contextopt.agents.standingdocuments import attach_document
from contextopt.assemblies.models import Assembly
from contextopt.people.models import Scope, Team
from contextopt.spaces.models import Space
from memory.backtests.backtests import start_backtest
from memory.backtests.inputs import BacktestIn
from memory.questions.evaluations import start_evaluation
from memory.questions.growth import SET_NAME
from memory.questions.inputs import QuestionIn
from memory.questions.sets import add_question, create_set, ensure_set
from memory.review.inputs import VerdictIn
from memory.review.reservations import give_verdict
from memory.strategies.strategies import retire_strategy
from tests import factories
from tests.contextopt.api.conftest import Caller, make_caller
from tests.memory.factories import make_review, make_strategy, make_use
from tests.walks import walk

SIMULATION = {
    "context_tokens": 500,
    "model": "gpt-4o-mini",
    "records": [{"title": "Queue stuck", "date": "2026-11-20T09:30:00Z", "external_id": "1"}],
    "turns": [{"query": "Why is the queue stuck?", "expected": ["1"]}],
}


class Endpoint(NamedTuple):
    """One operation with the lowest scope that may use it, and a right request."""

    method: str
    path: str
    scope: str
    body: dict[str, Any] | None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def names_something(self) -> bool:
        return any(value in ("{slug}", "{assembly}", "{task}") for value in (self.body or {}).values())

    def call(self, caller: Caller, places: dict[str, object], **options: Any) -> HttpResponse:
        text = json.dumps(self.body) if self.body is not None else "{}"
        text = text.replace("{slug}", str(places["slug"])).replace('"{assembly}"', str(places["assembly"]))
        text = text.replace('"{task}"', str(places["task"]))
        path = self.path.format(**places)
        if self.method == "GET":
            return caller.get(path)
        if self.method == "DELETE":
            return caller.delete(path, **options)
        return caller.send(self.method.lower(), path, text, **options)


ENDPOINTS = list(starmap(Endpoint, [
    ("GET", "/me", "read", None),
    ("GET", "/spaces", "read", None),
    ("POST", "/spaces", "write", {"slug": "new"}),
    ("GET", "/spaces/{slug}", "read", None),
    ("PATCH", "/spaces/{slug}", "write", {"name": "New name"}),
    ("DELETE", "/spaces/{slug}", "admin", None),
    ("GET", "/spaces/{slug}/records", "read", None),
    ("POST", "/spaces/{slug}/records", "write", {"title": "New"}),
    ("POST", "/spaces/{slug}/records/bulk", "write", {"records": [{"title": "New"}]}),
    ("GET", "/records/{record}", "read", None),
    ("PATCH", "/records/{record}", "write", {"title": "Changed"}),
    ("DELETE", "/records/{record}", "write", None),
    ("POST", "/records/{record}/restore", "write", None),
    ("POST", "/records/{record}/purge", "admin", None),
    ("GET", "/records/{record}/revisions", "read", None),
    ("POST", "/records/{record}/revisions/1/restore", "write", None),
    ("GET", "/spaces/{slug}/configs", "read", None),
    ("POST", "/spaces/{slug}/configs", "admin", {"max_records": 5}),
    ("GET", "/spaces/{slug}/configs/1", "read", None),
    ("POST", "/spaces/{slug}/configs/1/activate", "admin", None),
    ("GET", "/spaces/{slug}/gateway", "read", None),
    ("PATCH", "/spaces/{slug}/gateway", "write", {"time_limit_ms": 200}),
    ("GET", "/assemblies", "read", None),
    ("POST", "/assemblies", "write", {"space": "{slug}"}),
    ("POST", "/assemblies/preview", "read", {"space": "{slug}"}),
    ("POST", "/assemblies/batch", "write", {"space": "{slug}", "queries": [{"id": "1"}]}),
    ("GET", "/assemblies/{assembly}", "read", None),
    ("GET", "/assemblies/{assembly}/verification", "read", None),
    ("POST", "/assemblies/{hook}/delivery", "write", None),
    ("POST", "/assemblies/{assembly}/replay", "read", {"settings": {"max_records": 3}}),
    ("GET", "/assemblies/{assembly}/explain?expect={record}", "read", None),
    ("GET", "/phases", "read", None),
    ("POST", "/phases/{phase}/filter", "write", {"context": {}}),
    ("GET", "/phases/{phase}/profiles", "read", None),
    ("POST", "/phases/{phase}/profiles", "admin", {"budget_tokens": 5}),
    ("GET", "/phases/{phase}/profiles/1", "read", None),
    ("POST", "/phases/{phase}/profiles/1/activate", "admin", None),
    ("GET", "/phase-links", "read", None),
    ("GET", "/phases/{phase}/links", "read", None),
    ("POST", "/phases/{phase}/links", "admin", {"receives": "design"}),
    ("GET", "/phases/{phase}/links/1", "read", None),
    ("POST", "/phases/{phase}/links/1/activate", "admin", None),
    ("GET", "/tasks", "read", None),
    ("POST", "/tasks", "write", {"description": "New"}),
    ("GET", "/tasks/{task}", "read", None),
    ("GET", "/tasks/{task}/attempts", "read", None),
    ("POST", "/tasks/{task}/attempts", "write", {"files": {}, "diagnosis": {"root_cause": "bad_plan"}}),
    ("GET", "/tasks/{task}/attempts/1", "read", None),
    ("POST", "/tasks/{task}/findings", "write", {"category": "risks", "content": {"description": "New"}}),
    ("GET", "/tasks/{task}/findings", "read", None),
    ("GET", "/tasks/{task}/findings/{finding}", "read", None),
    ("PATCH", "/tasks/{task}/findings/{finding}", "write", {"tags": ["money"]}),
    ("GET", "/tasks/{task}/findings/{decision}/resolutions", "read", None),
    ("POST", "/tasks/{task}/findings/{decision}/resolutions", "write", {"answer": "Whole cents"}),
    ("POST", "/compress-findings", "read", {"phase": "analysis", "findings": []}),
    (
        "POST",
        "/retry-delta",
        "write",
        {
            "task": "x",
            "before": {},
            "after": {},
            "diagnosis": {"root_cause": "bad_plan"},
        },
    ),
    ("POST", "/placement-simulations", "write", SIMULATION),
    ("GET", "/tasks/{task}/status", "read", None),
    ("GET", "/tasks/{task}/timeline", "read", None),
    ("GET", "/tasks/{task}/compressions", "read", None),
    ("POST", "/tasks/{task}/compress", "write", {"force": True}),
    ("POST", "/tasks/{task}/advance", "write", {"force": True}),
    ("POST", "/tasks/{task}/bundle", "write", {"context": {}}),
    ("GET", "/repos", "read", None),
    ("POST", "/repos", "write", {"name": "new"}),
    ("GET", "/repos/{repo}", "read", None),
    ("POST", "/repos/{repo}/files", "write", {"files": {"a.py": "x = 1"}}),
    ("POST", "/repos/{repo}/relevant", "read", {"task": "Add up the cart"}),
    ("DELETE", "/repos/{repo}", "write", None),
    ("GET", "/standing-documents", "read", None),
    ("POST", "/standing-documents", "write", {"repository": "shop", "title": "New", "content": "New"}),
    ("GET", "/standing-documents/{document}", "read", None),
    ("DELETE", "/standing-documents/{document}", "write", None),
    ("POST", "/agent-context", "write", {"task_id": "{task}", "phase": "completing"}),
    ("GET", "/conversations", "read", None),
    ("POST", "/conversations", "write", {"space": "{slug}"}),
    ("GET", "/conversations/{conversation}", "read", None),
    ("GET", "/conversations/{conversation}/messages", "read", None),
    ("POST", "/conversations/{conversation}/messages", "write", {"text": "Why?"}),
    ("GET", "/messages/{message}", "read", None),
    ("GET", "/messages/{message}/prompt", "read", None),
    ("POST", "/messages/{message}/cancel", "write", None),
    ("POST", "/messages/{message}/retry", "write", None),
    ("POST", "/feedback", "write", {"assembly_id": "{assembly}", "rating": "up"}),
    ("POST", "/feedback/withdraw", "write", {"assembly_id": "{assembly}"}),
    ("GET", "/feedback", "read", None),
    ("GET", "/feedback/trends", "read", None),
    ("GET", "/reviews", "read", None),
    ("GET", "/reviews/summary", "read", None),
    ("GET", "/reviews/export", "read", None),
    ("GET", "/reviews/rules", "read", None),
    ("PATCH", "/reviews/rules", "admin", {"verdicts_wanted": 2}),
    ("POST", "/reviews/reserve", "write", {}),
    ("GET", "/reviews/{review}", "read", None),
    ("POST", "/reviews/{review}/verdict", "write", {"verdict": "model"}),
    ("POST", "/reviews/{review}/release", "write", {}),
    ("POST", "/reviews/{review}/assign", "admin", {"username": None}),
    ("POST", "/reviews/{verdict}/question", "write", None),
    ("POST", "/assemblies/{answered}/question", "write", None),
    ("GET", "/spaces/{slug}/question-sets", "read", None),
    ("POST", "/spaces/{slug}/question-sets", "write", {"name": "New"}),
    ("GET", "/question-sets/{set}", "read", None),
    ("PATCH", "/question-sets/{set}", "write", {"name": "Renamed"}),
    ("PUT", "/question-sets/{set}/minimum", "admin", {"min_recall": 0.5}),
    ("DELETE", "/question-sets/{set}", "admin", None),
    ("GET", "/question-sets/{set}/questions", "read", None),
    ("POST", "/question-sets/{set}/questions", "write", {"query": "Why?", "expected": ["x"]}),
    ("POST", "/question-sets/{set}/questions/bulk", "write", {"questions": [{"query": "Why?"}]}),
    ("PATCH", "/questions/{question}", "write", {"query": "Why not?"}),
    ("DELETE", "/questions/{question}", "write", None),
    ("GET", "/question-sets/{set}/evaluations", "read", None),
    ("POST", "/question-sets/{set}/evaluations", "write", {}),
    ("GET", "/evaluations/{evaluation}", "read", None),
    ("GET", "/evaluations/{evaluation}/questions", "read", None),
    ("GET", "/spaces/{slug}/backtests", "read", None),
    ("POST", "/spaces/{slug}/backtests", "write", {"config": 1, "last": 1}),
    ("GET", "/backtests/{backtest}", "read", None),
    ("GET", "/backtests/{backtest}/rows", "read", None),
    ("POST", "/backtests/{backtest}/cancel", "write", None),
    ("POST", "/search", "read", {"query": "queue", "space": "{slug}"}),
    ("GET", "/memories", "read", None),
    ("POST", "/memories", "write", {"content": "New"}),
    ("GET", "/memories/{memory}", "read", None),
    ("PATCH", "/memories/{memory}", "write", {"content": "Changed"}),
    ("DELETE", "/memories/{memory}", "write", None),
    ("POST", "/memories/{memory}/restore", "write", None),
    ("POST", "/memories/{memory}/purge", "admin", None),
    ("POST", "/completions", "write", {"description": "New", "quality_score": 8}),
    ("POST", "/task-patterns", "read", {"task": "Fix it"}),
    ("POST", "/strategy-hints", "write", {"task": "Fix it"}),
    ("POST", "/strategy-uses/{use}/rating", "write", {"rating": "up"}),
    ("POST", "/strategies/{memory}/retire", "write", {"reason": "Old"}),
    ("POST", "/strategies/{retired}/reinstate", "write", None),
    ("GET", "/health", "admin", None),
    ("DELETE", "/me", "read", None),
    ("GET", "/keys", "admin", None),
    ("POST", "/keys", "admin", {"name": "new"}),
    ("POST", "/keys/{key}/rotate", "admin", {}),
    ("DELETE", "/keys/{key}", "admin", None),
]))  # fmt: skip
SCOPES = ["read", "write", "admin"]
# These endpoints cover only the caller's own team: a stranger sees their own.
OF_ONES_OWN = {
    "/compress-findings", "/retry-delta", "/placement-simulations",
    "/me", "/spaces", "/keys", "/assemblies", "/phases", "/phases/{phase}/filter",
    "/phases/{phase}/profiles", "/phase-links", "/phases/{phase}/links", "/tasks",
    "/repos", "/standing-documents", "/conversations", "/feedback",
    "/feedback/trends",
    "/health", "/memories", "/completions", "/task-patterns", "/strategy-hints", "/reviews",
    "/reviews/summary", "/reviews/export", "/reviews/rules", "/reviews/reserve",
}  # fmt: skip
# The answer has a secret, which is not stored, or the key is gone.
NOT_REPEATED = {"/keys", "/keys/{key}/rotate", "/me"}

ENDPOINT = "http://127.0.0.1:9/v1"
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _model_endpoint(settings: Any) -> None:
    settings.LLM_BASE_URL = ENDPOINT


@pytest.fixture(scope="module")
def team(shared: None) -> Team:
    return factories.make_team()


@pytest.fixture(scope="module")
def callers(team: Team) -> dict[str, Caller]:
    """One caller of the team for each scope."""
    return {scope: make_caller(team, Scope(scope)) for scope in SCOPES}


@pytest.fixture(scope="module")
def places(team: Team) -> dict[str, object]:
    with override_settings(LLM_BASE_URL=ENDPOINT):
        return make_places(factories.make_space(team), team)


def make_places(space: Space, team: Team) -> dict[str, object]:
    """Make one of everything, and return the values for path parameters."""
    record = factories.make_record(space)
    record = factories.make_record(space, external_id="x")
    assembly = factories.make_assembly(space)
    key, _ = factories.make_key(team, name="spare")
    factories.make_profile(team)
    factories.make_link(team, "building", receives="design")
    task = factories.make_task(team)
    factories.make_attempt(task)
    factories.make_finding(task)
    factories.make_finding(task, decision="open")
    repository = factories.make_repository(team)
    document = StandingDocumentIn(repository="shop", title="Style", content="Two spaces.")
    document_id = attach_document(team=team, data=document, actor="test").document.pk
    strategy, retired = make_strategy(team), make_strategy(team, plan="Look it up")
    retire_strategy(memory=retired, reason="old", actor="test")
    memories = {"memory": strategy.pk, "retired": retired.pk, "use": make_use(strategy).pk}
    conversation = factories.make_conversation(space)
    message = factories.make_message(conversation)
    return memories | {
        "slug": space.slug, "record": record.pk, "assembly": assembly.id, "key": key.pk, "task": task.pk,
        "phase": "building", "finding": "F-001", "decision": "F-002",
        "repo": repository.pk, "conversation": conversation.pk, "message": message.pk,
        "review": make_review(space).pk, "document": document_id,
        "hook": factories.make_assembly(space, awaits_delivery=True).id,
    } | make_question_places(space)  # fmt: skip


def make_question_places(space: Space) -> dict[str, object]:
    """Make a set with a question and an evaluation, a verdict on what was missing, and an answer."""
    record = factories.make_record(space)
    found = create_set(space=space, name="Facts", actor="test")
    data = QuestionIn(query="Why is the queue stuck?", record_ids=[record.pk])
    question = add_question(question_set=found, data=data, actor="test")
    settings = space.configs.get().settings
    evaluation = start_evaluation(question_set=found, settings=settings, config_version=1, actor="test")
    item = make_review(space, query="Why is the queue stuck?")
    verdict = VerdictIn(verdict="context_missing", record_ids=[record.pk])
    give_verdict(item=item, reviewer="user:olga", data=verdict)
    assembly = Assembly.objects.get(pk=make_review(space, query="Who holds the lock?").assembly_id)
    other, _ = ensure_set(space=space, name=SET_NAME, actor="test")
    add_question(question_set=other, data=data, actor="test", assembly_id=assembly.pk)
    backtest = start_backtest(space=space, data=BacktestIn(config=1), actor="test")
    return {
        "backtest": backtest.pk, "set": found.pk, "question": question.pk, "evaluation": evaluation.pk,
        "verdict": item.pk, "answered": assembly.pk,
    }  # fmt: skip


def test_every_endpoint_is_in_the_list():
    schema = ninja_api.get_openapi_schema(path_prefix="/api/")
    described = {
        (method.upper(), shape_of(path)) for path, methods in schema["paths"].items() for method in methods
    }
    assert described == {(method, shape_of(f"/api/v1{path}")) for method, path, _, _ in ENDPOINTS}


def shape_of(path: str) -> str:
    """Return the path with a star for each of its parameters."""
    return re.sub(r"\{[^}]+\}|\b\d+\b", "*", path.partition("?")[0])


def test_the_description_may_be_stored(client):
    for path in ("openapi.json", "docs"):
        assert "no-store" not in client.get(f"/api/{path}").get("Cache-Control", "")


def test_nobody(nobody: Caller, places: dict[str, object]) -> None:
    def check(endpoint: Endpoint) -> None:
        response = endpoint.call(nobody, places)
        assert response.status_code == 401
        assert response["WWW-Authenticate"].startswith("Bearer")
        assert response["Cache-Control"] == "no-store"
        assert response["Content-Type"] == "application/problem+json"

    walk(ENDPOINTS, check)


def test_lower_scope(callers: dict[str, Caller], places: dict[str, object]) -> None:
    def check(endpoint: Endpoint) -> None:
        for lower in SCOPES[: SCOPES.index(endpoint.scope)]:
            response = endpoint.call(callers[lower], places)
            assert response.status_code == 403
            assert response["Content-Type"] == "application/problem+json"

    walk(ENDPOINTS, check)


def test_needed_scope(callers: dict[str, Caller], places: dict[str, object]) -> None:
    def check(endpoint: Endpoint) -> None:
        response = endpoint.call(callers[endpoint.scope], places)
        expected = {404} if "revisions/1" in endpoint.path else {200, 201, 204}
        assert response.status_code in expected, response.content
        assert response["Cache-Control"] == "no-store"

    walk(ENDPOINTS, check)


def test_stranger(stranger: Caller, places: dict[str, object]) -> None:
    def check(endpoint: Endpoint) -> None:
        response = endpoint.call(stranger, places)
        assert response.status_code == 404
        assert response["Content-Type"] == "application/problem+json"

    walk((each for each in ENDPOINTS if each.path not in OF_ONES_OWN or each.names_something), check)


def test_a_repeat_gets_the_first_answer(api: Caller, places: dict[str, object]) -> None:
    def check(endpoint: Endpoint) -> None:
        first, second = (endpoint.call(api, places, headers={"Idempotency-Key": "k"}) for _ in range(2))
        assert (second.status_code, second.content) == (first.status_code, first.content)
        assert ("Idempotency-Replayed" in second) == (first.status_code < 400)

    changing = (each for each in ENDPOINTS if each.method not in {"GET", "PUT"})
    walk((each for each in changing if each.path not in NOT_REPEATED), check)


def test_head_is_answered_as_get_without_the_body(api: Caller, places: dict[str, object]) -> None:
    def check(endpoint: Endpoint) -> None:
        url = f"/api/v1{endpoint.path.format(**places)}"
        head, get = api.client.head(url), api.client.get(url)
        assert (head.status_code, head.getvalue()) == (get.status_code, b"")
        assert head["Content-Type"] == get["Content-Type"]

    walk((each for each in ENDPOINTS if each.method == "GET"), check)


def test_list_is_of_ones_own_team(stranger, places):
    for path in (
        "/spaces", "/assemblies", "/tasks", "/repos", "/standing-documents", "/conversations", "/memories",
        "/feedback", "/reviews", "/phases/building/profiles",
    ):  # fmt: skip
        assert stranger.get(path).json()["items"] == [], path
    assert {phase["version"] for phase in stranger.get("/phases").json()["items"]} == {None}
    assert [key["name"] for key in stranger.get("/keys").json()["items"]] == ["admin-key"]
