"""Contexts of hooks count once they have arrived."""

from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from contextopt.assemblies.models import Assembly
from contextopt.people.models import ApiKey, Scope
from tests import factories
from tests.contextopt.api.conftest import Caller, make_caller

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked(api, space):
    """A hook's context, which has not arrived yet."""
    factories.make_record(space)
    answer = api.post(
        "/assemblies", {"space": "support", "query": "Why is it stuck?", "awaits_delivery": True}
    )
    return answer.json()


def row_of(api, asked):
    [row] = [row for row in api.get("/assemblies").json()["items"] if row["id"] == asked["id"]]
    return row


def test_it_counts_once_it_has_arrived(api, writer, asked):
    row = row_of(api, asked)
    assert (row["not_delivered"], row["is_sent"], row["tokens_saved"]) == (True, False, None)
    assert row["not_counted"] == "its delivery was not confirmed"
    for _ in range(2):
        assert writer.post(f"/assemblies/{asked['id']}/delivery").status_code == 204
    row = row_of(api, asked)
    assert (row["not_delivered"], row["is_sent"]) == (False, True)
    assert "delivery" not in row["not_counted"]


def test_late_confirmations_are_refused(api, asked):
    with time_machine.travel(timezone.now() + timedelta(minutes=11), tick=False):
        refused = api.post(f"/assemblies/{asked['id']}/delivery")
    assert refused.status_code == 409
    assert "10 minutes" in refused.json()["detail"]
    assert not Assembly.objects.get(pk=asked["id"]).is_sent


def test_a_confirmed_one_can_be_confirmed_again_later(api, asked):
    api.post(f"/assemblies/{asked['id']}/delivery")
    with time_machine.travel(timezone.now() + timedelta(minutes=11), tick=False):
        assert api.post(f"/assemblies/{asked['id']}/delivery").status_code == 204


def test_other_contexts_count_when_they_are_answered(api, space):
    own = api.post("/assemblies", {"space": "support"}).json()
    assert row_of(api, own)["is_sent"]
    assert api.post(f"/assemblies/{own['id']}/delivery").status_code == 409


def test_lists_can_leave_them_out(api, asked, space):
    other = api.post("/assemblies", {"space": "support"}).json()
    found = {
        flag: [row["id"] for row in api.get(f"/assemblies?not_delivered={flag}").json()["items"]]
        for flag in ("true", "false")
    }
    assert found == {"true": [asked["id"]], "false": [other["id"]]}


def test_who_may_confirm(api, reader, asked, other_team):
    path = f"/assemblies/{asked['id']}/delivery"
    assert reader.post(path).status_code == 403
    assert make_caller(other_team, Scope.WRITE).post(path).status_code == 404
    sales = factories.make_space(Assembly.objects.get(pk=asked["id"]).team, slug="sales")
    _, secret = ApiKey.objects.create_with_secret(
        team=sales.team, name="sales", scope=Scope.WRITE, space_ids=[sales.pk]
    )
    assert Caller(secret).post(path).status_code == 404
    assert api.post("/assemblies/999999/delivery").status_code == 404
    assert not Assembly.objects.get(pk=asked["id"]).is_sent


def test_queries(writer, asked, django_assert_num_queries):
    writer.get("/me")
    with django_assert_num_queries(3):  # the key, the assembly, the update with its triggers
        writer.post(f"/assemblies/{asked['id']}/delivery")
