"""The API's description is pinned and complete, and the API's answers match it."""

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import jsonschema_rs
import pytest

from config.urls import api as ninja_api
from contextopt.api.protocol.reference import BODY_REFUSALS, REFUSALS, problem_json, read_reference
from tests.contextopt.api.conftest import Caller
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
    refusals = {status: value for status, value in operation["responses"].items() if status >= "400"}
    assert refusals == {status: {"$ref": f"#/components/responses/Refusal{status}"} for status in refusals}


@pytest.mark.parametrize(("method", "path", "operation"), operations(), ids=lambda value: str(value)[:60])
def test_operation_is_explained_and_illustrated(method, path, operation):
    assert operation["description"]
    for parameter in operation["parameters"]:
        assert parameter["description"], parameter["name"]
        assert example_of(parameter) is not None, parameter["name"]
    if body := operation.get("requestBody"):
        assert "example" in body["content"]["application/json"]
    answers = [answer for status, answer in operation["responses"].items() if status < "300"]
    shown = [content for answer in answers for content in answer.get("content", {}).values()]
    assert not shown or any("example" in content for content in shown)


def test_fields_are_explained_and_illustrated():
    fields = [
        (f"{name}.{key}", value)
        for name, definition in json.loads(current_schema())["components"]["schemas"].items()
        for key, value in definition.get("properties", {}).items()
    ]
    unexplained = [name for name, value in fields if not value.get("description")]
    assert unexplained == [], "describe them in a glossary.toml"
    bare = [name for name, value in fields if not value.get("examples")]
    assert bare == [], "tell them in story.py, or add values to a glossary"


def test_every_example_fits_its_schema():
    schema = json.loads(current_schema())
    registry = jsonschema_rs.Registry([("urn:api", schema)])
    misfits = []
    for place, example in shown_examples(schema):
        validator = jsonschema_rs.validator_for({"$ref": f"urn:api#{quote(place)}"}, registry=registry)
        misfits += [
            f"{place} {fault.instance_path}: {fault.message}" for fault in validator.iter_errors(example)
        ]
    assert misfits == []


def shown_examples(schema: dict) -> Iterator[tuple[str, object]]:
    """Yield each example in the description with the JSON pointer of its schema."""
    for name, definition in schema["components"]["schemas"].items():
        for key, value in definition.get("properties", {}).items():
            for example in value.get("examples", ()):
                yield f"/components/schemas/{name}/properties/{key}", example
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            here = f"/paths/{path.replace('/', '~1')}/{method}"
            for at, parameter in enumerate(operation["parameters"]):
                yield f"{here}/parameters/{at}/schema", example_of(parameter)
            yield from shown_contents(f"{here}/requestBody", operation.get("requestBody", {}))
            for status, response in operation["responses"].items():
                yield from shown_contents(f"{here}/responses/{status}", response)
    for name, response in schema["components"]["responses"].items():
        yield from shown_contents(f"/components/responses/{name}", response)


def shown_contents(place: str, part: dict) -> Iterator[tuple[str, object]]:
    for kind, content in part.get("content", {}).items():
        if "example" in content:
            yield f"{place}/content/{kind.replace('/', '~1')}/schema", content["example"]


def example_of(parameter: dict) -> object:
    """Return a parameter's example. That of an optional one is in the schema, or Swagger UI would send it."""
    assert parameter["required"] == ("example" in parameter), parameter["name"]
    return parameter["example"] if parameter["required"] else parameter["schema"]["examples"][0]


def test_no_glossary_explains_a_field_that_is_gone():
    schemas = json.loads(current_schema())["components"]["schemas"]
    known = {key for definition in schemas.values() for key in definition.get("properties", {})}
    words = read_reference(ninja_api.folders())
    assert words.fields.keys() <= known
    for schema, exceptions in words.exceptions.items():
        assert exceptions.keys() <= schemas[schema]["properties"].keys(), schema
    shared = known | {each["name"] for *_, operation in operations() for each in operation["parameters"]}
    exact = {f"{schema}.{key}" for schema in schemas for key in schemas[schema].get("properties", {})}
    assert words.values.keys() <= shared | exact


def test_the_examples_of_errors_are_given(api, reader, settings):
    def shown(response):
        problem = response.json()
        assert problem == problem_json(problem["status"])
        return problem["status"]

    api.post("/spaces", {"slug": "support"})
    found = {
        shown(api.post("/spaces", '{"slug": ')),
        shown(Caller().get("/me")),
        shown(reader.post("/spaces", {"slug": "sales"})),
        shown(api.get("/spaces/sales")),
        shown(api.post("/spaces", {"slug": "support"})),
        shown(api.post("/spaces", '{"slug": "a"}', content_type="text/plain")),
        shown(api.post("/spaces", {"slug": ""})),
    }
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    found.add(shown(api.post("/spaces", {"slug": "support"})))
    assert set(REFUSALS) - found == {411, 429, 503}


def test_served(client, db):
    response = client.get("/api/openapi.json")
    assert response.status_code == 200
    assert response.json()["openapi"].startswith("3.1")
    packed = client.get("/api/openapi.json", headers={"Accept-Encoding": "gzip"})
    assert len(packed.content) < len(response.content) / 5


def test_the_description_is_made_once(client, db):
    plain = client.get("/api/openapi.json")
    first, second = (
        client.get("/api/openapi.json", headers={"Accept-Encoding": "br, gzip"}) for _ in range(2)
    )
    # A response that is compressed for each request has a random part.
    assert first.content == second.content
    assert gzip.decompress(first.content) == plain.content
    assert (first["Content-Encoding"], first["Vary"]) == ("gzip", "Accept-Encoding")
    assert first["ETag"] == plain["ETag"]


def test_a_known_description_is_not_sent_again(client, db):
    etag = client.get("/api/openapi.json")["ETag"]
    known = client.get("/api/openapi.json", headers={"If-None-Match": etag, "Accept-Encoding": "gzip"})
    assert (known.status_code, known.content, known["ETag"]) == (304, b"", etag)


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
