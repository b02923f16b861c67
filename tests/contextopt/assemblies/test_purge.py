"""A purge leaves neither text nor external id, and the record still cannot be imported or created again."""

import hmac
import json
from typing import Any

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connection

from contextopt import tasks
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.assemblies.purge import purge_record
from contextopt.assemblies.verify import verify_assembly
from contextopt.errors import DuplicateRecord
from contextopt.people.models import StoredResponse, Team, User
from contextopt.spaces.inputs import RecordIn
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import create_record, upsert_records
from tests import factories
from tests.contextopt.api.conftest import Caller, api
from tests.queries import count_queries

__all__ = ["api"]
NAME = "ola.nordmann@example.no"


@pytest.fixture
def record(space: Space) -> Record:
    return factories.make_record(space, title="Secret plan", source="crm", external_id=NAME)


def everything_stored() -> str:
    """Return all rows of all tables as text, bytes decoded."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'"
        )
        tables = [name for (name,) in cursor.fetchall()]
        said = []
        for table in tables:
            cursor.execute(f'SELECT * FROM "{table}"')
            said += [repr([bytes(v) if isinstance(v, memoryview) else v for v in row]) for row in cursor]
    return "\n".join(said)


def post(api: Caller, path: str, data: object, key: str) -> Any:
    return api.post(path, data, headers={"Idempotency-Key": key})


def test_no_table_holds_the_text_or_the_id(api: Caller, space: Space, owner: User) -> None:
    given = {"title": "Secret plan", "source": "crm", "external_id": NAME, "metadata": {"Secret": [NAME]}}
    path = f"/spaces/{space.slug}/records"
    record = Record.objects.get(pk=post(api, path, given, "create").json()["id"])
    api.patch(f"/records/{record.pk}", {"notes": "Another Secret"})
    for number in range(3):
        post(api, "/assemblies", {"space": space.slug, "max_records": 1}, f"assemble-{number}")
        factories.make_record(space, title=f"Newer {number}", view_count=10)
    post(api, "/search", {"query": "secret plan", "space": space.slug}, "search")
    kind = ContentType.objects.get_for_model(Record)
    entry = {"user": owner, "content_type": kind, "object_id": str(record.pk), "action_flag": CHANGE}
    LogEntry.objects.create(**entry, object_repr=record.title)
    assert NAME in everything_stored()
    purge_record(record=record)
    stored = everything_stored()
    assert NAME not in stored
    assert "Secret" not in stored
    for payload in AssemblyPayload.objects.select_related("assembly"):
        assert not verify_assembly(payload)


def test_an_hmac_replaces_the_external_id(record: Record) -> None:
    ledger = factories.make_assembly(record.space)
    purge_record(record=record)
    with connection.cursor() as cursor:
        cursor.execute("SELECT inner_block FROM contextopt_purgekey")
        key = bytes(byte ^ 0x36 for byte in bytes(cursor.fetchone()[0]))
    message = f"{record.space_id}:3:crm{NAME}".encode()
    expected = f"purged:{hmac.new(key, message, 'sha256').hexdigest()[:32]}"
    assert (record.source, record.external_id) == ("crm", expected)
    [entry] = AssemblyPayload.objects.get(pk=ledger.id).entries
    assert (entry["source"], entry["external_id"]) == ("crm", expected)
    assert purge_record(record=record).external_id == expected


def test_the_same_id_elsewhere_has_another_hash(record: Record, other_team: Team) -> None:
    """Nobody can tell from two hashes that they belong to the same external id."""
    other = factories.make_space(other_team)
    twins = [factories.make_record(space, source=source, external_id=NAME)
             for space, source in ((other, "crm"), (record.space, "mail"))]  # fmt: skip
    hashes = {purge_record(record=twin).external_id for twin in (record, *twins)}
    assert len(hashes) == 3


def test_it_is_not_imported_again_in_bulk(record: Record) -> None:
    purge_record(record=record)
    rows = [RecordIn(title="Back", source="crm", external_id=name) for name in (NAME, "new")]
    results = upsert_records(space=record.space, rows=rows, actor="test")
    assert [result.status for result in results] == ["unchanged", "created"]
    assert results[0].record_id == record.pk
    with pytest.raises(DuplicateRecord):
        create_record(space=record.space, data=rows[0], actor="test")
    elsewhere = RecordIn(title="Back", source="mail", external_id=NAME)
    assert create_record(space=record.space, data=elsewhere, actor="test").title == "Back"


def test_recognising_purged_records_takes_no_extra_statement(record: Record) -> None:
    purge_record(record=record)
    row = RecordIn(title="Back", source="crm", external_id=NAME)

    def count(rows: int) -> int:
        return count_queries(lambda: upsert_records(space=record.space, rows=[row] * rows, actor="test"))

    count(1)
    assert count(1) == count(300)


def test_another_secret_key_changes_nothing(record: Record, settings: Any) -> None:
    purge_record(record=record)
    settings.SECRET_KEY = "another"
    row = RecordIn(title="Back", source="crm", external_id=NAME)
    assert upsert_records(space=record.space, rows=[row], actor="test")[0].status == "unchanged"


def test_a_repeated_create_after_a_purge_makes_no_duplicate(api: Caller, space: Space) -> None:
    path = f"/spaces/{space.slug}/records"
    secret, other = {"title": "Secret plan", "notes": "2026-01-01"}, {"title": "Another"}
    first, kept = post(api, path, secret, "a"), post(api, path, other, "b")
    purge_record(record=Record.objects.get(pk=first.json()["id"]))
    again = post(api, path, secret, "a")
    assert (again.status_code, again["Location"]) == (201, first["Location"])
    assert again.json()["id"] == first.json()["id"]
    assert again.json()["title"] == again.json()["notes"] == "[purged]"
    assert again.json()["date"] == first.json()["date"]
    assert post(api, path, other, "b").json() == kept.json()
    assert Record.objects.count() == 2


def test_a_repeated_assembly_after_a_purge_is_not_assembled_again(api: Caller, record: Record) -> None:
    asked = {"space": record.space.slug, "as_of": factories.NOW.isoformat()}
    first = post(api, "/assemblies", asked, "a").json()
    assert "Secret" in first["text"]
    purge_record(record=record)
    again = post(api, "/assemblies", asked, "a").json()
    assert (again["id"], again["stats"]) == (first["id"], first["stats"])
    assert again["text"] == again["included"][0]["external_id"] == "[purged]"
    assert Assembly.objects.count() == 1


def test_an_answer_kept_by_an_older_version_is_erased(api: Caller, record: Record) -> None:
    post(api, "/search", {"query": "secret plan", "space": record.space.slug}, "a")
    assert b"Secret" in bytes(StoredResponse.objects.get().body)
    StoredResponse.objects.update(record_ids=None)
    purge_record(record=record)
    assert b"Secret" not in bytes(StoredResponse.objects.get().body)


def test_an_answer_kept_during_a_purge_is_erased_by_the_sweep(api: Caller, record: Record) -> None:
    post(api, "/search", {"query": "secret plan", "space": record.space.slug}, "a")
    before = StoredResponse.objects.values("body", "record_ids").get()
    purge_record(record=record)
    # A request that had read the record before the purge would store this after it.
    StoredResponse.objects.update(**before)
    tasks.sweep()
    assert b"Secret" not in bytes(StoredResponse.objects.get().body)


def test_a_dropped_record_loses_its_id_and_the_text_stays_proven(record: Record, capsys: Any) -> None:
    factories.make_record(record.space, title="Read more often", view_count=10)
    stored = factories.make_assembly(record.space, max_records=1)
    assert "Secret" not in stored.text
    purge_record(record=record)
    payload = AssemblyPayload.objects.get(pk=stored.id)
    assert NAME not in json.dumps(payload.ledger)
    assert payload.text == stored.text
    call_command("verify_savings", "--json")
    assert json.loads(capsys.readouterr().out)["differences"] == []
