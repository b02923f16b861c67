"""A full disk is a 503 that says when to come back. Nothing is half-written, and work resumes later."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.test import Client

from contextopt.people.models import StoredResponse, User
from contextopt.search.vectors.fill import Work, work_through
from contextopt.spaces.models import Record, RecordEmbedding, RecordRevision, Space
from tests import factories
from tests.contextopt.api.conftest import Caller, api, make_caller
from tests.fulldisk import LACKS, lacking_room

__all__ = ["api"]
BULK = "/spaces/support/records/bulk"
ROWS = {"records": [{"title": f"Row {number}", "external_id": str(number)} for number in range(5)]}


@pytest.mark.parametrize("code", LACKS)
def test_a_bulk_write_is_refused_whole_and_done_later(api: Caller, space: Space, code: str) -> None:
    headers = {"Idempotency-Key": "bulk-1"}
    with lacking_room("contextopt_record", code, after_rows=3):
        response = api.post(BULK, ROWS, headers=headers)
    assert response.status_code == 503, response.content
    assert response["Content-Type"] == "application/problem+json"
    assert int(response["Retry-After"]) > 0
    assert b"base/1/2" not in response.content
    assert not Record.objects.exists()
    assert not StoredResponse.objects.exists()
    assert api.post(BULK, ROWS, headers=headers).json()["created"] == 5


@pytest.mark.parametrize("table", ["contextopt_record", "contextopt_recordrevision"])
def test_a_change_is_refused_whole(api: Caller, space: Space, table: str) -> None:
    record = factories.make_record(space)
    with lacking_room(table):
        assert api.patch(f"/records/{record.pk}", {"title": "Changed"}).status_code == 503
    record.refresh_from_db()
    assert record.title != "Changed"
    assert not RecordRevision.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_an_assembly_is_refused_whole() -> None:
    team = factories.make_team()
    space = factories.make_space(team)
    api = make_caller(team)
    with lacking_room("contextopt_assemblypayload"):
        assert api.post("/assemblies", {"space": space.slug}).status_code == 503
    assert not space.assemblies.exists()


@pytest.mark.django_db(transaction=True)
def test_a_page_says_so_and_when_to_come_back() -> None:
    team = factories.make_team()
    owner = factories.make_user("olga", team)
    factories.make_space(team)
    client = Client(raise_request_exception=False)
    client.force_login(owner)
    with lacking_room("contextopt_record"):
        response = client.post("/spaces/support/records/new/", {"title": "New", "type": "note"})
    assert response.status_code == 503
    assert int(response["Retry-After"]) > 0
    assert "Temporarily unavailable" in response.content.decode()
    assert not Record.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("address", ["/accounts/login/", "/admin/login/"])
def test_what_fails_outside_our_own_pages_says_so_too(address: str) -> None:
    User.objects.create_superuser("root", password="correct horse")
    client = Client(raise_request_exception=False)
    with lacking_room("django_session"):
        response = client.post(address, {"username": "root", "password": "correct horse"})
    assert response.status_code == 503


@pytest.mark.django_db(transaction=True)
def test_an_import_says_how_far_it_came_and_is_finished_later(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"title": f"Row {number}"}) + "\n" for number in range(1_500)))
    err = StringIO()
    with lacking_room("contextopt_record", after_rows=1_200), pytest.raises(CommandError) as failure:
        call_command("import_records", "disk", str(path), stderr=err)
    assert failure.value.returncode == 2
    assert "No space left on device" in str(failure.value)
    assert "1,000 read: 1,000 created" in str(failure.value)
    assert "Run the same command again" in str(failure.value)
    assert Record.objects.count() == 1_000
    out = StringIO()
    call_command("import_records", "disk", str(path), "--json", stdout=out)
    assert json.loads(out.getvalue())["created"] == 500


def test_vectors_that_find_no_room_are_made_later(space: Space) -> None:
    factories.make_record(space)
    with lacking_room("contextopt_recordembedding"), pytest.raises(OperationalError):
        work_through(seconds=10, index_seconds=None, work=Work())
    assert not RecordEmbedding.objects.exists()
    work_through(seconds=10, index_seconds=None, work=Work())
    assert RecordEmbedding.objects.count() == 1
