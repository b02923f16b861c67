"""The API's description is pinned and complete, and the API's answers match it."""

import json
import os
from pathlib import Path

import pytest

from config.urls import api as ninja_api
from contextopt.api.build import BODY_REFUSALS, REFUSALS
from tests.contextopt.api.documented import documented_statuses

SNAPSHOT = Path(__file__).with_name("openapi.json")


def current_schema() -> str:
    schema = ninja_api.get_openapi_schema(path_prefix="/api/")
    return json.dumps(schema, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def test_snapshot():
    """Compare the description with the stored one; UPDATE_OPENAPI=1 stores the new one."""
    if os.environ.get("UPDATE_OPENAPI"):
        SNAPSHOT.write_text(current_schema())
    assert current_schema() == SNAPSHOT.read_text(), "run again with UPDATE_OPENAPI=1 if this is meant"


def operations() -> list[tuple[str, str, dict]]:
    schema = json.loads(current_schema())
    return [
        (method, path, operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]


@pytest.mark.parametrize(("method", "path", "operation"), operations(), ids=lambda value: str(value)[:60])
def test_operation_is_described(method, path, operation):
    assert operation["summary"]
    assert operation["tags"]
    assert [set(scheme) for scheme in operation["security"]] == [{"BearerKey"}, {"HeaderKey"}]
    assert {"401", "403", "404", "422", "503"} <= operation["responses"].keys()
    refusals = [value for status, value in operation["responses"].items() if status >= "400"]
    assert all("application/problem+json" in refusal["content"] for refusal in refusals)


def test_served(client, db):
    response = client.get("/api/openapi.json")
    assert response.status_code == 200
    assert response.json()["openapi"].startswith("3.1")


def test_docs_page_calls_no_other_host(client, db):
    response = client.get("/api/docs")
    assert response.status_code == 200
    page = response.content.decode()
    assert "http://" not in page
    assert "https://" not in page
    assert "default-src 'self'" in response["Content-Security-Policy"]


def test_the_check_of_statuses_knows_every_address():
    assert documented_statuses("POST", "/api/v1/completions") == {200, 201, *REFUSALS}
    assert documented_statuses("GET", "/api/v1/records/17") == {200, *set(REFUSALS) - BODY_REFUSALS}
    assert documented_statuses("PUT", "/api/v1/records/17") is None
    assert documented_statuses("GET", "/api/v1/nowhere") is None
