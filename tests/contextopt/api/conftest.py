"""Callers of the API: one of each scope, a stranger from another team, and one without a key."""

import json
from typing import Any

import pytest
from django.http import HttpResponse

from contextopt.people.models import Scope, Team
from tests import factories
from tests.contextopt.api.documented import DocumentedClient


class Caller:
    """Calls `/api/v1` with one key. An answer with an undocumented status fails the test."""

    def __init__(self, secret: str = "") -> None:
        self.secret = secret
        self.client = DocumentedClient(headers={"Authorization": f"Bearer {secret}"} if secret else {})

    def get(self, path: str, **query: Any) -> HttpResponse:
        return self.client.get(f"/api/v1{path}", query_params=query or None)

    def post(self, path: str, data: object = None, **options: Any) -> HttpResponse:
        return self.send("post", path, data, **options)

    def patch(self, path: str, data: object = None, **options: Any) -> HttpResponse:
        return self.send("patch", path, data, **options)

    def delete(self, path: str, **options: Any) -> HttpResponse:
        return self.client.delete(f"/api/v1{path}", **options)

    def send(self, method: str, path: str, data: object, **options: Any) -> HttpResponse:
        body = data if isinstance(data, str | bytes) else json.dumps({} if data is None else data)
        options.setdefault("content_type", "application/json")
        return getattr(self.client, method)(f"/api/v1{path}", body, **options)


def make_caller(team: Team, scope: Scope = Scope.ADMIN) -> Caller:
    return Caller(factories.make_key(team, scope, name=f"{scope}-key")[1])


@pytest.fixture
def api(team: Team) -> Caller:
    """A caller from the team with an admin key."""
    return make_caller(team)


@pytest.fixture
def writer(team: Team) -> Caller:
    return make_caller(team, Scope.WRITE)


@pytest.fixture
def reader(team: Team) -> Caller:
    return make_caller(team, Scope.READ)


@pytest.fixture
def stranger(other_team: Team) -> Caller:
    """A caller from another team with an admin key."""
    return make_caller(other_team)


@pytest.fixture
def nobody(db: None) -> Caller:
    return Caller()


def fields_of(response: HttpResponse) -> set[str]:
    """Return the fields that a problem names."""
    assert response["Content-Type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == response.status_code
    return {error["field"] for error in problem.get("errors", [])}
