import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
from django.db import connection

from contextopt.locks import Lock, take_for_session
from contextopt.people.models import ApiKey, StoredResponse
from contextopt.spaces.models import Record, RecordRevision
from tests import factories
from tests.contextopt.api.conftest import fields_of

RECORDS = "/spaces/support/records"


def ids(response) -> list[int]:
    assert response.status_code == 200, response.content
    return [item["id"] for item in response.json()["items"]]


def test_create(api, space):
    data = {
        "title": "Fødselsdag 🎉",
        "type": "note",
        "date": "2026-06-01",
        "tags": ["a", "b"],
        "notes": "Long\nnotes",
        "pinned": True,
        "thread": "t",
        "position": 3,
        "source": "wiki",
        "external_id": "w-1",
        "metadata": {"nested": {"list": [1, 2.5, None, "x"]}},
    }
    response = api.post(RECORDS, data)
    assert response.status_code == 201
    record = response.json()
    assert response["Location"] == f"/api/v1/records/{record['id']}"
    assert record["date"] == "2026-06-01T00:00:00Z"
    assert {**data, "date": record["date"]}.items() <= record.items()
    assert record["view_count"] == 0
    assert record["summary_tokens"] > 0


def test_a_key_that_may_write_counts_once_a_day(api, writer, space):
    record = factories.make_record(space)
    assert writer.get(f"/records/{record.pk}", count_view="false").json()["view_count"] == 0
    seen = [caller.get(f"/records/{record.pk}").json() for caller in (writer, writer, api, api)]
    assert [row["view_count"] for row in seen] == [1, 1, 2, 2]
    assert seen[0]["last_viewed_at"] is not None


def test_reading_with_a_read_key_counts_nothing(reader, space):
    record = factories.make_record(space)
    assert reader.get(f"/records/{record.pk}").json()["view_count"] == 0
    assert Record.objects.get(pk=record.pk).view_count == 0


def test_head_counts_nothing(api, space):
    record = factories.make_record(space)
    assert api.client.head(f"/api/v1/records/{record.pk}").status_code == 200
    assert Record.objects.get(pk=record.pk).view_count == 0


def test_reading_a_deleted_record_counts_nothing(api, space):
    record = factories.make_record(space)
    api.delete(f"/records/{record.pk}")
    assert api.get(f"/records/{record.pk}").json()["view_count"] == 0


def test_update_keeps_a_revision_by_the_caller(api, space):
    record = factories.make_record(space)
    response = api.patch(f"/records/{record.pk}", {"title": "Changed", "tags": ["new"]})
    assert response.status_code == 200
    assert response.json()["title"] == "Changed"
    assert response.json()["notes"] == record.notes
    revision = api.get(f"/records/{record.pk}/revisions").json()["items"][0]
    assert revision["title"] == record.title
    assert revision["changed_by"] == "key:admin-key"


@pytest.mark.parametrize("field", ["title", "type", "date", "tags", "notes", "pinned", "metadata"])
def test_update_to_null(api, space, field):
    record = factories.make_record(space)
    response = api.patch(f"/records/{record.pk}", {field: None})
    assert response.status_code == 422
    assert fields_of(response) == {field}
    assert not RecordRevision.objects.exists()


def test_position_may_become_null(api, space):
    record = factories.make_record(space, position=2)
    assert api.patch(f"/records/{record.pk}", {"position": None}).json()["position"] is None


def test_delete_and_restore(api, space):
    record = factories.make_record(space)
    assert api.delete(f"/records/{record.pk}").status_code == 204
    assert ids(api.get(RECORDS)) == []
    assert ids(api.get(RECORDS, deleted="true")) == [record.pk]
    response = api.post(f"/records/{record.pk}/restore")
    assert response.json()["deleted_at"] is None
    assert ids(api.get(RECORDS)) == [record.pk]


def test_restore_revision(api, space):
    record = factories.make_record(space, title="First")
    api.patch(f"/records/{record.pk}", {"title": "Second"})
    response = api.post(f"/records/{record.pk}/revisions/1/restore")
    assert response.json()["title"] == "First"
    titles = [item["title"] for item in api.get(f"/records/{record.pk}/revisions").json()["items"]]
    assert titles == ["Second", "First"]


def test_restore_missing_revision(api, space):
    record = factories.make_record(space)
    assert api.post(f"/records/{record.pk}/revisions/5/restore").status_code == 404


def test_purge_erases_and_bars_changes(api, space):
    record = factories.make_record(space, title="Secret plan")
    api.patch(f"/records/{record.pk}", {"notes": "more"})
    response = api.post(f"/records/{record.pk}/purge")
    assert response.status_code == 200
    assert response.json()["title"] == "[purged]"
    assert response.json()["purged_at"] is not None
    assert b"Secret" not in api.get(f"/records/{record.pk}/revisions").content
    assert api.patch(f"/records/{record.pk}", {"title": "Back"}).status_code == 409
    assert api.post(f"/records/{record.pk}/restore").status_code == 409


class TestList:
    def test_newest_first_without_notes(self, api, space):
        old = factories.make_record(space, date=factories.NOW - timedelta(days=2))
        new = factories.make_record(space)
        response = api.get(RECORDS)
        assert ids(response) == [new.pk, old.pk]
        assert "notes" not in response.json()["items"][0]

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({"type": "doc"}, {"doc"}),
            ({"tag": "red"}, {"red"}),
            ({"source": "wiki"}, {"wiki"}),
            ({"source": "wiki", "external_id": "1"}, {"wiki"}),
            ({"thread": "t"}, {"thread"}),
            ({"pinned": "true"}, {"pinned"}),
            ({"until": "2026-06-01"}, {"old"}),
            ({"since": "2026-07-01T00:00:00+02:00"}, {"new"}),
            ({"type": "doc", "tag": "red"}, set()),
        ],
        ids=str,
    )
    def test_filters(self, api, space, query, expected):
        factories.make_record(space, title="doc", type="doc")
        factories.make_record(space, title="red", tags=["red", "blue"])
        factories.make_record(space, title="wiki", source="wiki", external_id="1")
        factories.make_record(space, title="thread", thread="t")
        factories.make_record(space, title="pinned", pinned=True)
        factories.make_record(space, title="old", date="2026-06-01")
        factories.make_record(space, title="new", date="2026-07-01")
        response = api.get(RECORDS, **query)
        assert {item["title"] for item in response.json()["items"]} == expected

    def test_pages_hold_ties_once(self, api, space):
        made = [factories.make_record(space).pk for _ in range(5)]
        first = api.get(RECORDS, limit=2).json()
        factories.make_record(space, date=factories.NOW + timedelta(days=1))
        second = api.get(RECORDS, limit=2, cursor=first["next_cursor"]).json()
        third = api.get(RECORDS, limit=2, cursor=second["next_cursor"]).json()
        seen = [item["id"] for page in (first, second, third) for item in page["items"]]
        assert seen == made[::-1]
        assert third["next_cursor"] is None

    def test_cursor_of_another_list(self, api, space):
        for _ in range(2):
            factories.make_assembly(space)
        cursor = api.get("/assemblies", limit=1).json()["next_cursor"]
        response = api.get(RECORDS, cursor=cursor)
        assert response.status_code == 422
        assert fields_of(response) == {"cursor"}

    @pytest.mark.parametrize("rows", [2, 20])
    def test_queries(self, api, space, rows, django_assert_num_queries):
        for _ in range(rows):
            factories.make_record(space)
        api.get("/me")
        with django_assert_num_queries(3):  # the key, the space, the records
            assert len(ids(api.get(RECORDS))) == rows


class TestBulk:
    def test_each_row_is_told_by_its_index(self, api, space):
        api.post(
            f"{RECORDS}/bulk", {"records": [{"title": "same", "date": "2026-01-01", "external_id": "1"}]}
        )
        rows = [
            {"title": "same", "date": "2026-01-01", "external_id": "1"},
            {"title": ""},
            {"title": "new", "external_id": "2"},
            {"title": "nul\x00", "tags": [5]},
            "not a record",
            {"title": "without id"},
        ]
        response = api.post(f"{RECORDS}/bulk", {"records": rows})
        assert response.status_code == 200
        outcome = response.json()
        assert [row["status"] for row in outcome["results"]] == [
            "unchanged", "rejected", "created", "rejected", "rejected", "created",
        ]  # fmt: skip
        assert [row["index"] for row in outcome["results"]] == list(range(6))
        assert {key: outcome[key] for key in ("created", "updated", "unchanged", "rejected")} == {
            "created": 2, "updated": 0, "unchanged": 1, "rejected": 3,
        }  # fmt: skip
        fields = {error["field"] for error in outcome["results"][3]["errors"]}
        assert fields == {"title", "tags.0"}
        assert Record.objects.count() == 3

    def test_a_row_that_would_change_an_earlier_one_is_rejected(self, api, space):
        first, last = ({"title": title, "source": "wiki", "external_id": "1"} for title in ("First", "Last"))
        for status in ("created", "unchanged"):
            results = api.post(f"{RECORDS}/bulk", {"records": [first, last, first]}).json()["results"]
            assert [row["status"] for row in results] == [status, "rejected", "unchanged"]
            [error] = results[1]["errors"]
            assert error["field"] == "external_id"
            assert error["message"] == "has the same source and external_id as records.0"
        assert Record.objects.get().title == "First"

    def test_update(self, api, space):
        record = factories.make_record(space, external_id="1")
        outcome = api.post(f"{RECORDS}/bulk", {"records": [{"title": "New", "external_id": "1"}]}).json()
        assert outcome["results"] == [{"index": 0, "status": "updated", "id": record.pk}]

    @pytest.mark.parametrize(
        "records", [[], [{"title": "x"}] * 1_001, {}, None], ids=lambda r: str(len(r or ""))
    )
    def test_size(self, api, space, records):
        response = api.post(f"{RECORDS}/bulk", {"records": records})
        assert response.status_code == 422
        assert fields_of(response) == {"records"}

    def test_a_thousand(self, api, space, django_assert_max_num_queries):
        rows = [{"title": f"row {index}", "external_id": str(index)} for index in range(1_000)]
        with django_assert_max_num_queries(12):
            outcome = api.post(f"{RECORDS}/bulk", {"records": rows}).json()
        assert outcome["created"] == 1_000


@contextmanager
def another_session() -> Iterator[psycopg.Connection]:
    params = connection.get_connection_params()
    names = ("dbname", "user", "password", "host", "port")
    with psycopg.connect(**{name: params[name] for name in names if params.get(name)}) as other:
        yield other
        # The end of a session gives its locks back too, but a little later.
        other.execute("SELECT pg_advisory_unlock_all()")


class TestIdempotency:
    HEADERS = {"Idempotency-Key": "order-1"}  # noqa: RUF012

    def test_repeat_is_done_once(self, api, space):
        first = api.post(RECORDS, {"title": "x"}, headers=self.HEADERS)
        second = api.post(RECORDS, {"title": "x"}, headers=self.HEADERS)
        assert (first.status_code, second.status_code) == (201, 201)
        assert second.content == first.content
        assert second["Content-Type"] == first["Content-Type"]
        assert "Idempotency-Replayed" not in first
        assert second["Idempotency-Replayed"] == "true"
        assert Record.objects.count() == 1

    @pytest.mark.parametrize("extra", [{}, {"id": "ticket-7"}, {"id": 7}])
    def test_metadata_that_looks_like_a_record(self, api, space, extra):
        data = {"title": "A", "metadata": {"origin": {"source": "crm", "external_id": "7", **extra}}}
        response = api.post(RECORDS, data, headers=self.HEADERS)
        assert response.status_code == 201
        assert StoredResponse.objects.get().record_ids == [response.json()["id"]]

    @pytest.mark.parametrize(
        ("path", "data"), [(RECORDS, {"title": "y"}), (f"{RECORDS}/bulk", {"title": "x"})]
    )
    def test_another_request_under_the_same_key(self, api, space, path, data):
        api.post(RECORDS, {"title": "x"}, headers=self.HEADERS)
        data = {"records": [data]} if path.endswith("bulk") else data
        response = api.post(path, data, headers=self.HEADERS)
        assert response.status_code == 422
        assert fields_of(response) == {"Idempotency-Key"}
        assert Record.objects.count() == 1

    def test_keys_are_of_one_caller(self, api, writer, space):
        api.post(RECORDS, {"title": "x"}, headers=self.HEADERS)
        response = writer.post(RECORDS, {"title": "x"}, headers=self.HEADERS)
        assert "Idempotency-Replayed" not in response
        assert Record.objects.count() == 2

    def test_refused_write_may_be_corrected(self, api, space):
        factories.make_record(space, external_id="1")
        refused = api.post(RECORDS, {"title": "x", "external_id": "1"}, headers=self.HEADERS)
        assert refused.status_code == 409
        assert not StoredResponse.objects.exists()
        assert api.post(RECORDS, {"title": "x"}, headers=self.HEADERS).status_code == 201

    def test_while_the_first_is_being_answered(self, api, space):
        with another_session() as other:
            assert take_for_session(other, Lock.IDEMPOTENCY, ApiKey.objects.get().pk, "order-1")
            response = api.post(RECORDS, {"title": "x"}, headers=self.HEADERS)
        assert response.status_code == 409
        assert int(response["Retry-After"]) > 0
        assert not Record.objects.exists()
        assert api.post(RECORDS, {"title": "x"}, headers=self.HEADERS).status_code == 201

    def test_same_body_packed_differently(self, api, space):
        for level in (1, 9):
            headers = {**self.HEADERS, "Content-Encoding": "gzip"}
            response = api.post(RECORDS, gzip.compress(b'{"title": "x"}', level), headers=headers)
            assert response.status_code == 201
        assert Record.objects.count() == 1
