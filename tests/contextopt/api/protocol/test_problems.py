"""Bad input is a 4xx problem that names the field, never a 500, and nothing is half-written."""

import gzip
import json
import tracemalloc

import pytest
from django.db import OperationalError, connection

from contextopt.api.protocol import problems
from contextopt.api.protocol.transport import VALUES_MAX, find_unstorable
from contextopt.spaces.models import Record
from tests import factories
from tests.contextopt.api.conftest import fields_of
from tests.speed import within

RECORDS = "/spaces/support/records"
MANY = {f"f{index}": 1 for index in range(100_000)}


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{"title": "nul \\u0000"}', "title"),
        ('{"title": "half \\ud83d"}', "title"),
        ('{"title": "x", "tags": ["ok", "\\udc00"]}', "tags.1"),
        ('{"title": ""}', "title"),
        ('{"title": "   "}', "title"),
        ('{"title": 5}', "title"),
        ('{"title": null}', "title"),
        ("{}", "title"),
        ('{"title": "x", "titel": "y"}', "titel"),
        ('{"title": "x", "a b-c": 1}', "a b-c"),
        ('{"title": "x", "\\u0000": 1}', "\x00"),
        ('{"title": "x", "\\ud800": 1}', "body"),
        ('{"title": "x", "position": 9223372036854775808}', "position"),
        ('{"title": "x", "view_count": 9223372036854775807}', "view_count"),
        ('{"title": "x", "view_count": 1000000000001}', "view_count"),
        ('{"title": "x", "position": NaN}', "position"),
        ('{"title": "x", "position": 1e400}', "position"),
        ('{"title": "x", "position": -Infinity}', "position"),
        ('{"title": "x", "date": "2026-01-01T00:00:00"}', "date"),
        ('{"title": "x", "date": "yesterday"}', "date"),
        ('{"title": "x", "date": "2026-02-30"}', "date"),
        ('{"title": "x", "date": "0001-01-01T00:00:00+14:00"}', "date"),
        ('{"title": "x", "date": "9999-12-31T23:59:59-12:00"}', "date"),
        ('{"title": "x", "date": 1700000000}', "date"),
        ('{"title": "x", "metadata": {"a": NaN}}', "metadata.a"),
        ('{"title": "x", "metadata": {"a": "\\u0000"}}', "metadata"),
        ('{"title": "x", "metadata": {"\\u0000": 1}}', "metadata"),
        ('{"title": "x", "metadata": []}', "metadata"),
        ('{"title": "x", "metadata": {"a": "%s"}}' % ("y" * 70_000), "metadata"),
        (json.dumps({"title": "x", "tags": ["t"] * 51}), "tags"),
        ('{"title": "%s"}' % ("x" * 1_001), "title"),
        ('{"title": "x", "notes": "%s"}' % ("x" * 1_000_001), "notes"),
        ('{"title": "x", "external_id": "%s"}' % ("x" * 501), "external_id"),
        ('{"title": "x", "title": "y"}', "title"),
        ('{"title": "x", "metadata": {"deep": {"key": 1, "key": 2}}}', "key"),
        ('{"title": "x", "position": true}', "position"),
        ("[]", "body"),
        ("null", "body"),
        ("5", "body"),
        ('"title"', "body"),
        ("", "body"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_field_is_named(api, space, body, field):
    response = api.post(RECORDS, body)
    assert response.status_code == 422, response.content
    assert fields_of(response) == {field}
    assert not Record.objects.exists()


def test_naming_a_field_takes_memory_for_its_depth_alone():
    depth, zeros = 800, 50_000
    body = '{"a":' * depth + "[" + "0," * zeros + "NaN" + ",0" * zeros + "]" + "}" * depth
    value = json.loads(body)
    tracemalloc.start()
    found = find_unstorable(value)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == (("a",) * depth + (str(zeros),), "must be a finite number")
    # Building a path for each value took 650 MB.
    assert peak < 5 * 2**20


@pytest.mark.parametrize(
    "body",
    [
        "{",
        "{'title': 'x'}",
        b"\xff\xfe",
        "1" * 5_000,
        nested(5_000),
        '{"title": "x"} more',
        "\ufeff{}",
        "NaN,",
    ],
    ids=lambda value: str(value)[:20],
)
def test_malformed_json(api, space, body):
    response = api.post(RECORDS, body)
    assert response.status_code == 400
    assert fields_of(response) == {"body"}


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/records/99999999999999999999", "record_id"),
        ("/records/0", "record_id"),
        ("/records/-1", "record_id"),
        ("/records/" + "9" * 5_000, "record_id"),
        ("/records/abc", "record_id"),
        ("/records/1%00", "record_id"),
        ("/spaces/a%00b", "slug"),
        ("/spaces/%ED%A0%80", "slug"),
        ("/spaces/%FF", "slug"),
        ("/spaces/" + "x" * 65, "slug"),
        ("/spaces/support/configs/99999999999", "version"),
        ("/assemblies/18446744073709551616", "assembly_id"),
        ("/spaces?limit=0", "limit"),
        ("/spaces?limit=201", "limit"),
        ("/spaces?limit=99999999999999999999", "limit"),
        ("/spaces?limit=ten", "limit"),
        ("/spaces?cursor=garbage", "cursor"),
        ("/spaces?cursor=%00", "cursor"),
        ("/spaces?cursor=W10", "cursor"),
        ("/spaces?limt=5", "limt"),
        ("/spaces/support/records?type=%00", "type"),
        ("/spaces/support/records?since=soon", "since"),
        ("/spaces/support/records?since=2026-01-01T00:00:00", "since"),
        ("/spaces/support/records?pinned=perhaps", "pinned"),
        ("/assemblies?stage=9", "stage"),
        ("/assemblies?sha256=abc", "sha256"),
        ("/assemblies?conversation=%00", "conversation"),
        ("/assemblies?space=%00", "space"),
    ],
    ids=lambda value: value[:60],
)
def test_address_and_query_are_checked(api, space, path, field):
    response = api.client.get(f"/api/v1{path}")
    assert response.status_code == 422, response.content
    assert fields_of(response) == {field}


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\t", "ø"])
def test_idempotency_key_is_checked(api, space, key):
    response = api.post(RECORDS, {"title": "x"}, headers={"Idempotency-Key": key})
    assert response.status_code == 422
    assert fields_of(response) == {"Idempotency-Key"}
    assert not Record.objects.exists()


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"stage": 9}, "stage"),
        ({"window_days": 0}, "window_days"),
        ({"window_days": "every"}, "window_days"),
        ({"window_days": True}, "window_days"),
        ({"context_tokens": False}, "context_tokens"),
        ({"max_records": 10**30}, "max_records"),
        ({"context_tokens": -1}, "context_tokens"),
        ({"context_tokens": 10**9}, "context_tokens"),
        ({"response_tokens": 999}, "response_tokens"),
        ({"recency_weight": "0.12345"}, "recency_weight"),
        ({"recency_weight": "NaN"}, "recency_weight"),
        ({"recency_weight": "1e999999999"}, "recency_weight"),
        ({"encoding": "klingon"}, "encoding"),
        ({"encoding": ""}, "encoding"),
        ({"system": "x", "system_tokens": 1}, "system_tokens"),
        ({"as_of": "now"}, "as_of"),
        ({"space": None}, "space"),
        ({"query": "x" * 100_001}, "query"),
        ({"neighbour_share": 1.5}, "neighbour_share"),
        ({"notes_chars": 0}, "notes_chars"),
    ],
    ids=str,
)
def test_assembly_names_the_field(api, space, data, field):
    response = api.post("/assemblies", {"space": "support", **data})
    assert response.status_code == 422, response.content
    assert fields_of(response) == {field}


def test_budget_exceeded_says_by_how_much(api, space):
    sizes = {"total_tokens": 2_000, "system_tokens": 1_500, "history_tokens": 0}
    response = api.post("/assemblies", {**sizes, "space": "support"})
    assert response.status_code == 422
    problem = response.json()
    assert problem["type"] == "urn:contextopt:problem:budget-exceeded"
    assert problem["missing_tokens"] == 500
    assert fields_of(response) == {"total_tokens"}


def test_many_unknown_fields_are_not_all_echoed(api, space):
    response = api.post(RECORDS, {f"field_{index}": 1 for index in range(5_000)} | {"x" * 10_000: 1})
    assert response.status_code == 422
    assert len(response.content) < 50_000


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (RECORDS, {"title": "x", **MANY}),
        ("/repos", {"name": "shop", "files": MANY}),
        (f"{RECORDS}/bulk", {"records": [{"title": "x"}], **MANY}),
    ],
    ids=["record", "files", "records"],
)
def test_very_many_faults_are_counted_and_not_listed(api, space, path, data):
    with within(seconds=2):
        response = api.post(path, data)
    assert response.status_code == 422
    assert response.json()["detail"] == "body: has 100,000 faults, too many to list"
    assert not Record.objects.exists()


def test_very_many_faults_of_one_row(api, space):
    with within(seconds=2):
        response = api.post(f"{RECORDS}/bulk", {"records": [{"title": "x", **MANY}, {"title": "y"}]})
    assert response.status_code == 200
    [refused, _] = response.json()["results"]
    assert refused["errors"] == [{"field": "body", "message": "has 100,000 faults, too many to list"}]
    assert Record.objects.get().title == "y"


@pytest.mark.parametrize("many", ['{"a":1}', "[]", "{}", "1", '""'])
def test_a_body_of_too_many_values_is_not_read(api, space, many):
    body = f'{{"title": "x", "metadata": {{"m": [{",".join([many] * VALUES_MAX)}]}}}}'
    with within(seconds=2):
        response = api.post(RECORDS, body)
    assert response.status_code == 422
    assert response.json()["detail"] == "body: must have at most 500,000 values"


def test_marks_in_texts_count_for_nothing(api, space):
    response = api.post(RECORDS, {"title": "x", "notes": '{"a": [1,2,"\\' * 60_000})
    assert response.status_code == 201


@pytest.mark.parametrize("path", ["/nowhere", "/spaces/", "/records", "/"])
def test_unknown_address(nobody, path):
    response = nobody.get(path)
    assert response.status_code == 404
    assert fields_of(response) == set()


def test_unknown_address_outside_the_version(client, db):
    response = client.get("/api/v9/spaces")
    assert response.status_code == 404
    assert fields_of(response) == set()


def test_wrong_method(api, space):
    response = api.client.put("/api/v1/spaces/support", "{}", content_type="application/json")
    assert response.status_code == 405
    assert response["Allow"] == "DELETE, GET, HEAD, PATCH"
    assert fields_of(response) == set()


def test_unknown_host(api):
    response = api.client.get("/api/v1/me", headers={"Host": "evil.example"})
    assert response.status_code == 400
    assert fields_of(response) == set()


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_wrong_content_type(api, space, content_type):
    response = api.post(RECORDS, '{"title": "x"}', content_type=content_type)
    assert response.status_code == 415
    assert fields_of(response) == set()


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "application/merge-patch+json"])
def test_json_content_types(api, space, content_type):
    assert api.post(RECORDS, '{"title": "x"}', content_type=content_type).status_code == 201


class TestPackedBody:
    def post(self, api, body, encoding="gzip"):
        return api.post(RECORDS, body, headers={"Content-Encoding": encoding})

    def test_gzip(self, api, space):
        response = self.post(api, gzip.compress(b'{"title": "packed"}'))
        assert response.status_code == 201
        assert response.json()["title"] == "packed"

    def test_two_members(self, api, space):
        body = gzip.compress(b'{"title": ') + gzip.compress(b'"packed"}')
        assert self.post(api, body).status_code == 201

    @pytest.mark.parametrize(
        "body",
        [
            b'{"title": "x"}',
            gzip.compress(b'{"title": "x"}', mtime=0)[:-5],
            gzip.compress(b"{}", mtime=0) + b"rest",
            b"\x1f\x8b",
        ],
    )
    def test_corrupt(self, api, space, body):
        response = self.post(api, body)
        assert response.status_code == 400
        assert fields_of(response) == {"body"}

    def test_bomb(self, api, space):
        response = self.post(api, gzip.compress(b" " * 40 * 2**20))
        assert response.status_code == 413
        assert fields_of(response) == set()

    def test_bomb_in_many_members(self, api, space):
        response = self.post(api, gzip.compress(b" " * 2**20) * 40)
        assert response.status_code == 413

    def test_very_many_members(self, api, space):
        with within(seconds=2):
            response = self.post(api, gzip.compress(b"") * 200_000)
        assert response.status_code == 400
        assert fields_of(response) == {"body"}

    def test_stranger_cannot_make_it_unpack(self, nobody, space):
        assert self.post(nobody, gzip.compress(b" " * 40 * 2**20)).status_code == 401

    def test_other_encoding(self, api, space):
        response = self.post(api, b"x", "br")
        assert response.status_code == 415
        assert "gzip" in response["Accept-Encoding"]


def test_body_too_large(api, space, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000
    response = api.post(RECORDS, {"title": "x", "notes": "y" * 1_000})
    assert response.status_code == 413
    assert fields_of(response) == set()


def test_body_in_chunks_is_refused_and_not_taken_for_none(api, space):
    headers = {"Transfer-Encoding": "chunked"}
    response = api.client.generic("POST", f"/api/v1{RECORDS}", headers=headers, CONTENT_LENGTH="")
    assert response.status_code == 411
    assert fields_of(response) == set()


def test_too_many_query_fields(api, space):
    query = "&".join(f"f{index}=1" for index in range(2_000))
    response = api.client.get(f"/api/v1/spaces?{query}")
    assert response.status_code == 400
    assert fields_of(response) == set()


def failing(error: Exception):
    """Make every statement fail where it would reach the database."""

    def fail(*args: object) -> None:
        raise error

    return connection.execute_wrapper(fail)


def test_database_down(api, space):
    with failing(OperationalError("no route to secret-host")):
        response = api.get("/spaces")
    assert response.status_code == 503
    assert int(response["Retry-After"]) > 0
    assert b"secret-host" not in response.content


def test_unexpected_error_is_logged_and_not_told(api, space, caplog):
    api.client.raise_request_exception = False
    with failing(ZeroDivisionError("the password is hunter2")):
        response = api.get("/spaces")
    assert response.status_code == 500
    assert fields_of(response) == set()
    assert b"hunter2" not in response.content
    assert any("ZeroDivisionError" in repr(record.msg) for record in caplog.records)


def test_a_problem_has_the_members_of_rfc_9457(api):
    problem = api.get("/spaces/missing").json()
    assert problem == {
        "type": problems.TYPE_PREFIX + "not-found",
        "title": "Not found",
        "status": 404,
        "detail": "There is no space 'missing'.",
        "instance": "/api/v1/spaces/missing",
    }


def test_duplicate_names_the_record(api, space):
    record = factories.make_record(space, external_id="a-1")
    response = api.post(RECORDS, {"title": "Again", "external_id": "a-1"})
    assert response.status_code == 409
    assert response.json()["record_id"] == record.pk
