"""Dates whose year is in range in their own time zone, and out of range in UTC."""

import pytest

from contextopt.spaces.models import Record
from tests import factories
from tests.contextopt.api.conftest import fields_of

EDGES = ["1900-01-01T00:00:00+14:00", "2998-12-31T23:59:59-12:00"]
RECORDS = "/spaces/support/records"

pytestmark = pytest.mark.parametrize("edge", EDGES)


def test_a_new_record_is_refused(api, space, edge):
    response = api.post(RECORDS, {"title": "x", "date": edge})
    assert (response.status_code, fields_of(response)) == (422, {"date"})
    assert not Record.objects.exists()


def test_a_changed_record_is_refused(api, space, edge):
    record = factories.make_record(space)
    response = api.patch(f"/records/{record.pk}", {"date": edge})
    assert (response.status_code, fields_of(response)) == (422, {"date"})


def test_a_row_of_many_is_refused_alone(api, space, edge):
    rows = [{"title": "x", "date": edge}, {"title": "y"}]
    outcome = api.post(f"{RECORDS}/bulk", {"records": rows}).json()
    assert [row["status"] for row in outcome["results"]] == ["rejected", "created"]
    assert [error["field"] for error in outcome["results"][0]["errors"]] == ["date"]


def test_a_filter_is_refused(api, space, edge):
    response = api.client.get(f"/api/v1{RECORDS}", query_params={"since": edge})
    assert (response.status_code, fields_of(response)) == (422, {"since"})


def test_the_moment_of_an_assembly_is_refused(api, space, edge):
    response = api.post("/assemblies", {"space": "support", "as_of": edge})
    assert (response.status_code, fields_of(response)) == (422, {"as_of"})


def test_the_moment_of_a_batch_is_refused(api, space, edge):
    everywhere = api.post("/assemblies/batch", {"space": "support", "as_of": edge, "queries": [{"id": "a"}]})
    assert (everywhere.status_code, fields_of(everywhere)) == (422, {"as_of"})
    once = api.post("/assemblies/batch", {"space": "support", "queries": [{"id": "a", "as_of": edge}]})
    assert (once.status_code, fields_of(once)) == (422, {"queries.0.as_of"})
