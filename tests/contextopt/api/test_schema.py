"""The API's description is pinned and complete, and the API's answers match it."""

import json
import os
from pathlib import Path

import pytest

from config.urls import api as ninja_api
from contextopt.api.build import BODY_REFUSALS, REFUSALS
from contextopt.api.reference import read_reference
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


@pytest.mark.parametrize(("method", "path", "operation"), operations(), ids=lambda value: str(value)[:60])
def test_operation_is_explained_and_illustrated(method, path, operation):
    assert operation["description"]
    for parameter in operation["parameters"]:
        assert parameter["description"], parameter["name"]
        assert "example" in parameter, parameter["name"]
    if body := operation.get("requestBody"):
        assert "example" in body["content"]["application/json"]
    answers = [answer for status, answer in operation["responses"].items() if status < "300"]
    shown = [content for answer in answers for content in answer.get("content", {}).values()]
    assert not shown or any("example" in content for content in shown)


@pytest.mark.parametrize("name", json.loads(current_schema())["components"]["schemas"])
def test_fields_are_explained_and_illustrated(name):
    """A field that refers to another schema has its examples there."""
    fields = json.loads(current_schema())["components"]["schemas"][name].get("properties", {})
    unexplained = [key for key, value in fields.items() if not value.get("description")]
    assert unexplained == [], "describe them in a glossary.toml"
    plain = [key for key, value in fields.items() if "$ref" not in json.dumps(value | {"examples": []})]
    bare = [key for key in plain if not fields[key].get("examples")]
    assert bare == [], "tell them in story.py, or add values to a glossary"


def test_no_glossary_explains_a_field_that_is_gone():
    schemas = json.loads(current_schema())["components"]["schemas"]
    known = {key for definition in schemas.values() for key in definition.get("properties", {})}
    words = read_reference(ninja_api.folders())
    assert words.fields.keys() <= known
    for schema, exceptions in words.exceptions.items():
        assert exceptions.keys() <= schemas[schema]["properties"].keys(), schema


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
