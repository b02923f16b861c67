"""A key that is limited to one space: nothing of another space is reached through any endpoint."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import IntegrityError, transaction
from django.utils import timezone

from contextopt.api import api as whole_api
from contextopt.people.inputs import KeyIn, RotationIn
from contextopt.people.keys import create_key, rotate_key
from contextopt.people.models import ApiKey, AuditEvent, Scope, Team
from contextopt.spaces.models import Record, Space
from memory.feedback.inputs import OpinionIn, SubjectIn
from memory.feedback.votes import give_feedback
from tests import factories
from tests.contextopt.api.conftest import Caller, fields_of
from tests.contextopt.api.test_every_endpoint import ENDPOINTS, Endpoint, make_places, shape_of
from tests.walks import walk

pytestmark = pytest.mark.django_db
# Open to limited keys, with the status that a right request gets.
OPEN = {
    "/me", "/spaces", "/spaces/{slug}", "/spaces/{slug}/records", "/spaces/{slug}/records/bulk",
    "/records/{record}", "/records/{record}/restore", "/records/{record}/revisions",
    "/records/{record}/revisions/1/restore", "/spaces/{slug}/configs", "/spaces/{slug}/configs/1",
    "/spaces/{slug}/gateway",
    "/assemblies", "/assemblies/preview", "/assemblies/batch", "/assemblies/{assembly}",
    "/assemblies/{assembly}/verification", "/assemblies/{hook}/delivery", "/assemblies/{assembly}/replay",
    "/assemblies/{assembly}/explain?expect={record}", "/conversations", "/conversations/{conversation}",
    "/conversations/{conversation}/messages", "/messages/{message}", "/messages/{message}/prompt",
    "/messages/{message}/cancel", "/messages/{message}/retry", "/feedback", "/feedback/withdraw",
    "/feedback/trends", "/search", "/assemblies/{answered}/question", "/spaces/{slug}/question-sets",
    "/question-sets/{set}", "/question-sets/{set}/questions", "/question-sets/{set}/questions/bulk",
    "/question-sets/{set}/evaluations", "/questions/{question}", "/evaluations/{evaluation}",
    "/evaluations/{evaluation}/questions", "/spaces/{slug}/backtests", "/backtests/{backtest}",
    "/backtests/{backtest}/rows", "/backtests/{backtest}/cancel",
}  # fmt: skip
CLOSED = {("POST", "/spaces")}
LISTS = ["/spaces", "/assemblies", "/conversations", "/feedback"]


@pytest.fixture(autouse=True)
def _model_endpoint(settings: Any) -> None:
    settings.LLM_BASE_URL = "http://127.0.0.1:9/v1"


@pytest.fixture(scope="module")
def team(shared: None) -> Team:
    return factories.make_team()


@pytest.fixture(scope="module")
def own(team: Team) -> Space:
    return factories.make_space(team, "own")


@pytest.fixture(scope="module")
def places(team: Team) -> dict[str, object]:
    """One of everything, in another space of the same team."""
    return make_places(factories.make_space(team, "theirs"), team)


@pytest.fixture(scope="module")
def outsider(shared: None) -> Caller:
    return Caller(factories.make_key(factories.make_team("other"), Scope.WRITE)[1])


def limited(team: Team, *slugs: str, scope: str = "write", **more: Any) -> Caller:
    data = KeyIn(name="limited", scope=scope, spaces=list(slugs), **more)
    return Caller(create_key(team=team, data=data, actor="test")[1])


def test_every_endpoint_keeps_to_the_space(
    team: Team, own: Space, places: dict[str, object], outsider: Caller
) -> None:
    caller = limited(team, "own")

    def check(endpoint: Endpoint) -> None:
        before = list(Record.objects.filter(space__slug="theirs").values())
        response = endpoint.call(caller, places)
        body = json.dumps(endpoint.body or {})
        names_theirs = "{" in endpoint.path or "{" in body.replace("{}", "")[1:]
        is_closed = endpoint.path not in OPEN or (endpoint.method, endpoint.path) in CLOSED
        if endpoint.scope == "admin" or is_closed:
            assert response.status_code == 403, response.content
        elif names_theirs:
            assert response.status_code == 404, response.content
            # A key of another team gets the same answer, so nothing tells that it exists.
            assert response.json()["detail"] == endpoint.call(outsider, places).json()["detail"]
        elif endpoint.path == "/feedback/trends":
            assert fields_of(response) == {"space"}
        else:
            assert response.status_code in (200, 201, 204)
            assert b"theirs" not in response.content
        assert list(Record.objects.filter(space__slug="theirs").values()) == before

    walk(ENDPOINTS, check)


def test_no_endpoint_is_open_that_this_test_does_not_know(places: dict[str, object]) -> None:
    """The walk above uses our own list of requests, so compare it with all that the API has."""
    found = set()
    for bound in whole_api._get_bound_routers():
        for path, view in bound.path_operations.items():
            found |= {
                (method, path.rstrip("/"))
                for operation in view.operations
                if hasattr(operation.view_func, "checks")
                for method in operation.methods
            }
    known = {(method, shape_of(path.strip("/"))) for method, path, scope, _ in ENDPOINTS if path in OPEN}
    assert {(method, shape_of(path.strip("/"))) for method, path in found} <= known


@pytest.mark.parametrize("path", LISTS)
def test_lists_show_the_space_alone(team: Team, own: Space, places: dict[str, object], path: str) -> None:
    assert Caller(factories.make_key(team)[1]).get(path).json()["items"]
    factories.make_conversation(own)
    made = factories.make_assembly(own)
    give_feedback(
        team=team,
        subject=SubjectIn(assembly_id=made.id),
        opinion=OpinionIn(rating="up"),
        rater="user:olga",
    )
    items = limited(team, "own").get(path).json()["items"]
    assert items
    assert {item.get("space", item.get("slug")) for item in items} == {"own"}


def test_what_a_limited_key_may_do(team: Team, own: Space, places: dict[str, object]) -> None:
    caller = limited(team, "own")
    assert caller.get("/me").json()["key"]["spaces"] == ["own"]
    assert caller.post("/spaces/own/records", {"title": "Postgres"}).status_code == 201
    made = caller.post("/assemblies", {"space": "own"})
    assert made.status_code == 201
    assert caller.get(f"/assemblies/{made.json()['id']}").status_code == 200
    assert caller.post("/feedback", {"assembly_id": made.json()["id"], "rating": "up"}).status_code == 200
    assert caller.get("/feedback/trends", space="own").json()["items"][0]["up"] == 1
    hits = caller.post("/search", {"query": "postgres", "space": "own"}).json()["results"]
    assert {hit["kind"] for hit in hits} == {"record"}
    assert fields_of(caller.post("/search", {"query": "postgres"})) == {"space"}
    asked = {"query": "postgres", "space": "own", "kinds": ["memory"]}
    assert fields_of(caller.post("/search", asked)) == {"kinds"}


def test_a_message_known_in_another_space_cannot_be_voted_on(
    team: Team, own: Space, places: dict[str, object]
) -> None:
    whole = Caller(factories.make_key(team)[1])
    vote = {"external_message_id": "m-1", "rating": "up"}
    assert whole.post("/feedback", {**vote, "assembly_id": places["assembly"]}).status_code == 200
    assert limited(team, "own").post("/feedback", vote).status_code == 404
    assert limited(team, "theirs").post("/feedback", vote).status_code == 200


def test_a_key_stays_limited_when_its_space_is_deleted(team: Team, own: Space) -> None:
    caller = limited(team, "own")
    Space.objects.get(pk=own.pk).delete()
    factories.make_space(team, "own")
    assert caller.get("/spaces").json()["items"] == []
    assert caller.get("/spaces/own").status_code == 404


def test_no_statement_more_for_a_limited_key(team: Team, own: Space, django_assert_num_queries: Any) -> None:
    for caller in (limited(team, "own"), Caller(factories.make_key(team, Scope.WRITE)[1])):
        assert caller.post("/assemblies/preview", {"space": "own"}).status_code == 200
        with django_assert_num_queries(3):  # the key, the space, the candidates
            caller.post("/assemblies/preview", {"space": "own"})


class TestCreating:
    def test_through_the_api(self, team: Team, own: Space) -> None:
        whole = Caller(factories.make_key(team)[1])
        made = whole.post("/keys", {"name": "app", "spaces": ["own"], "requests_per_minute": 30}).json()
        assert (made["spaces"], made["requests_per_minute"]) == (["own"], 30)
        assert AuditEvent.objects.get(action="key.created").after["spaces"] == ["own"]

    @pytest.mark.parametrize(
        ("field", "data"),
        [
            ("spaces", {"spaces": ["nowhere"]}),
            ("spaces", {"spaces": []}),
            ("spaces", {"spaces": ["own"], "scope": "admin"}),
            ("requests_per_minute", {"requests_per_minute": 0}),
            ("requests_per_minute", {"requests_per_minute": True}),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, team: Team, own: Space, field: str, data: Any) -> None:
        whole = Caller(factories.make_key(team)[1])
        assert fields_of(whole.post("/keys", {"name": "app", **data})) == {field}
        assert not ApiKey.objects.filter(name="app").exists()

    def test_another_teams_space_looks_like_a_missing_one(self, team: Team, other_team: Team) -> None:
        factories.make_space(other_team, "secret")
        whole = Caller(factories.make_key(team)[1])
        theirs = whole.post("/keys", {"name": "app", "spaces": ["secret"]}).content
        missing = whole.post("/keys", {"name": "app", "spaces": ["nowhere"]}).content
        assert theirs.replace(b"secret", b"nowhere") == missing

    def test_the_database_keeps_limited_admins_out(self, team: Team) -> None:
        with pytest.raises(IntegrityError), transaction.atomic():
            ApiKey.objects.create_with_secret(team=team, name="x", scope="admin", space_ids=[1])


class TestRotating:
    @pytest.fixture
    def whole(self, team: Team) -> Caller:
        return Caller(factories.make_key(team)[1])

    def make(self, team: Team, **more: Any) -> tuple[ApiKey, Caller]:
        data = KeyIn(name="app", scope="read", spaces=["own"], requests_per_minute=600, **more)
        key, secret = create_key(team=team, data=data, actor="test")
        return key, Caller(secret)

    def test_both_work_until_the_overlap_ends(self, team: Team, own: Space, whole: Caller) -> None:
        key, old = self.make(team)
        made = whole.post(f"/keys/{key.pk}/rotate", {"overlap_hours": 2})
        assert made.status_code == 201
        new = Caller(made.json()["secret"])
        assert old.get("/me").status_code == new.get("/me").status_code == 200
        shown = new.get("/me").json()["key"]
        assert (shown["name"], shown["scope"], shown["spaces"], shown["requests_per_minute"]) == (
            "app", "read", ["own"], 600,
        )  # fmt: skip
        with time_machine.travel(timezone.now() + timedelta(hours=2, seconds=1)):
            assert old.get("/me").status_code == 401
            assert new.get("/me").status_code == 200
        event = AuditEvent.objects.get(action="key.rotated")
        assert event.before["prefix"] == key.prefix
        assert event.after["prefix"] == made.json()["prefix"]
        assert made.json()["secret"] not in json.dumps(event.after)

    def test_a_write_repeated_with_the_new_secret_is_not_done_twice(self, team: Team, own: Space) -> None:
        key, secret = create_key(team=team, data=KeyIn(name="app"), actor="test")
        second = rotate_key(key=key, data=RotationIn(), actor="test")
        _, third = rotate_key(key=second[0], data=RotationIn(), actor="test")
        record = {"source": "crm", "external_id": "1", "title": "Once"}
        answers = [
            Caller(each).post(f"/spaces/{own.slug}/records", record, headers={"Idempotency-Key": "k"})
            for each in (secret, second[1], third)
        ]
        assert [answer.status_code for answer in answers] == [201, 201, 201]
        assert ["Idempotency-Replayed" in answer for answer in answers] == [False, True, True]
        assert Record.objects.filter(space=own).count() == 1

    def test_both_secrets_share_the_limit(self, team: Team) -> None:
        key, secret = create_key(team=team, data=KeyIn(name="app", requests_per_minute=3), actor="test")
        _, second = rotate_key(key=key, data=RotationIn(), actor="test")
        left = [Caller(each).get("/me")["RateLimit-Remaining"] for each in (secret, second, secret)]
        assert left == ["2", "1", "0"]
        assert Caller(second).get("/me").status_code == 429

    def test_without_overlap_the_old_one_ends_at_once(self, team: Team, own: Space, whole: Caller) -> None:
        key, old = self.make(team)
        whole.post(f"/keys/{key.pk}/rotate", {"overlap_hours": 0})
        assert old.get("/me").status_code == 401
        assert whole.post(f"/keys/{key.pk}/rotate", {}).status_code == 409

    def test_each_can_be_revoked_alone(self, team: Team, own: Space, whole: Caller) -> None:
        key, old = self.make(team)
        made = whole.post(f"/keys/{key.pk}/rotate", {}).json()
        assert whole.delete(f"/keys/{key.pk}").status_code == 204
        assert old.get("/me").status_code == 401
        assert Caller(made["secret"]).get("/me").status_code == 200
        assert whole.delete(f"/keys/{made['id']}").status_code == 204
        assert Caller(made["secret"]).get("/me").status_code == 401

    def test_an_earlier_expiry_stays(self, team: Team, own: Space, whole: Caller) -> None:
        soon = timezone.now() + timedelta(hours=1)
        key, _ = self.make(team, expires_at=soon)
        later = (soon + timedelta(days=30)).isoformat()
        made = whole.post(f"/keys/{key.pk}/rotate", {"expires_at": later}).json()
        key.refresh_from_db()
        assert key.expires_at == soon
        assert datetime.fromisoformat(made["expires_at"]) == soon + timedelta(days=30)

    @pytest.mark.parametrize(
        ("field", "data"),
        [
            ("overlap_hours", {"overlap_hours": -1}),
            ("overlap_hours", {"overlap_hours": 721}),
            ("expires_at", {"expires_at": "2020-01-01"}),
        ],
    )
    def test_bad_input(self, team: Team, own: Space, whole: Caller, field: str, data: Any) -> None:
        key, old = self.make(team)
        assert fields_of(whole.post(f"/keys/{key.pk}/rotate", data)) == {field}
        assert old.get("/me").status_code == 200

    def test_a_strangers_key_and_a_revoked_one(self, team: Team, own: Space, stranger: Caller) -> None:
        key, _ = self.make(team)
        assert stranger.post(f"/keys/{key.pk}/rotate", {}).status_code == 404
        key.revoke()
        assert Caller(factories.make_key(team)[1]).post(f"/keys/{key.pk}/rotate", {}).status_code == 409


class TestRequestsPerMinute:
    def test_headers_count_down_and_then_429(self, team: Team, own: Space) -> None:
        caller = limited(team, "own", requests_per_minute=3)
        left = [caller.get("/me")["RateLimit-Remaining"] for _ in range(3)]
        assert left == ["2", "1", "0"]
        refused = caller.get("/me")
        assert refused.status_code == 429
        assert 1 <= int(refused["Retry-After"]) <= 20
        assert refused["RateLimit"].startswith('"key";r=0;t=')
        assert refused["RateLimit-Policy"] == '"key";q=3;w=60'
        assert "may send 3 requests a minute" in refused.json()["detail"]

    def test_a_forbidden_request_counts_too(self, team: Team, own: Space) -> None:
        caller = limited(team, "own", requests_per_minute=2)
        assert caller.get("/keys")["RateLimit-Remaining"] == "1"

    def test_the_installations_limit_is_for_keys_without_their_own(self, team: Team, settings: Any) -> None:
        caller = Caller(factories.make_key(team)[1])
        assert "RateLimit" not in caller.get("/me")
        settings.KEY_REQUESTS_PER_MINUTE = 5
        assert caller.get("/me")["RateLimit-Limit"] == "5"
