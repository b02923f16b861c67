"""Keys: how they are sent, refused, revoked, expired and marked as used."""

from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from contextopt.people.models import ApiKey, AuditEvent, Scope
from tests import factories
from tests.contextopt.api.conftest import Caller


def test_head_where_nothing_is_to_get(api):
    head = api.client.head("/api/v1/search")
    assert (head.status_code, head["Allow"]) == (405, "POST")


def test_header_key(api, team):
    response = Caller().client.get("/api/v1/me", headers={"X-API-Key": api.secret})
    assert response.json()["team"]["slug"] == team.slug
    assert response.json()["key"]["scope"] == "admin"


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", "Bearer x", "Basic abc", "Bearer ctx_é", "Bearer " + "x" * 5_000]
)
def test_useless_authorization(db, header):
    response = Caller().client.get("/api/v1/me", headers={"Authorization": header})
    assert response.status_code == 401


def test_revoked_key(api):
    ApiKey.objects.get().revoke()
    assert api.get("/me").status_code == 401


def test_expired_key(team):
    _, secret = ApiKey.objects.create_with_secret(
        team=team, name="brief", scope="read", expires_at=timezone.now() + timedelta(hours=1)
    )
    assert Caller(secret).get("/me").status_code == 200
    with time_machine.travel(timezone.now() + timedelta(hours=2)):
        assert Caller(secret).get("/me").status_code == 401


def test_last_use_is_written_once_a_minute(api, django_assert_num_queries):
    with django_assert_num_queries(4):  # the key, its first use by this way, its last use, its team
        api.get("/me")
    first = ApiKey.objects.get().last_used_at
    with django_assert_num_queries(2):  # the key, its team
        api.get("/me")
    assert ApiKey.objects.get().last_used_at == first
    with time_machine.travel(timezone.now() + timedelta(minutes=2)):
        api.get("/me")
    assert ApiKey.objects.get().last_used_at > first


class TestKeys:
    def test_create_shows_the_secret_once(self, api):
        response = api.post("/keys", {"name": "agent", "scope": "read"})
        assert response.status_code == 201
        secret = response.json()["secret"]
        assert Caller(secret).get("/me").json()["key"]["name"] == "agent"
        assert secret not in api.get("/keys").content.decode()
        assert not ApiKey.objects.filter(secret_hash=secret).exists()

    def test_created_by_names_the_caller(self, api):
        assert api.post("/keys", {"name": "agent"}).json()["created_by"] == "key:admin-key"

    def test_past_expiry_is_refused(self, api):
        response = api.post("/keys", {"name": "agent", "expires_at": "2020-01-01T00:00:00Z"})
        assert response.status_code == 422
        assert response.json()["errors"][0]["field"] == "expires_at"

    def test_a_key_may_revoke_itself_and_no_other(self, api, team):
        scopes = [Scope.READ, Scope.WRITE, Scope.ADMIN]
        for scope in scopes:
            secret = factories.make_key(team, scope, name=f"{scope} alone")[1]
            assert Caller(secret).delete("/me").status_code == 204
            assert Caller(secret).delete("/me").status_code == 401
        assert api.get("/me").status_code == 200
        events = AuditEvent.objects.filter(action="key.revoked")
        assert set(events.values_list("actor", flat=True)) == {f"key:{scope} alone" for scope in scopes}

    def test_revoke(self, api):
        created = api.post("/keys", {"name": "agent"}).json()
        assert api.delete(f"/keys/{created['id']}").status_code == 204
        assert Caller(created["secret"]).get("/me").status_code == 401
        assert api.delete(f"/keys/{created['id']}").status_code == 204

    def test_revoke_missing(self, api):
        assert api.delete("/keys/999999999").status_code == 404

    def test_secret_is_not_stored_for_a_repeat(self, api):
        response = api.post("/keys", {"name": "agent"}, headers={"Idempotency-Key": "k"})
        assert response.status_code == 422
        assert response.json()["errors"][0]["field"] == "Idempotency-Key"
