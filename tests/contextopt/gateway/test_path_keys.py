"""A key in the path, for clients that cannot send headers."""

from dataclasses import replace
from datetime import timedelta

import httpx2
import pytest
from django.utils import timezone

from contextopt.people.inputs import KeyIn
from contextopt.people.keys import create_key
from contextopt.people.models import AuditEvent, Scope
from tests import factories
from tests.contextopt.gateway.conftest import Caller, Process, said
from tests.gateway_upstream import Upstream

CHAT = "/v1/chat/completions"
ASKED = {"model": "m", "messages": said("Why is the queue stuck?")}


@pytest.fixture
def token(caller: Caller) -> str:
    """The secret of a key that is only for the gateway."""
    expires_at = timezone.now() + timedelta(days=30)
    data = KeyIn(name="laptop", scope="gateway", expires_at=expires_at, spaces=[caller.space.slug])
    return create_key(team=caller.space.team, data=data, actor="user:olga")[1]


def post(caller: Caller, path: str, **headers: str) -> httpx2.Response:
    provider = {"Authorization": "Bearer sk-provider"}
    return httpx2.post(f"{caller.address}{path}", json=ASKED, headers={**provider, **headers}, verify=False)


def test_the_key_is_taken_off_the_path(
    caller: Caller, token: str, upstream: Upstream, process: Process
) -> None:
    answer = post(caller, f"/k/{token}{CHAT}?a=1")
    assert (answer.status_code, answer.headers["x-contextopt-status"]) == (200, "audit")
    [got] = upstream.got
    assert got.target == f"{CHAT}?a=1"
    assert token not in str(got)
    [row] = caller.logged()
    assert row.api_key is not None and row.api_key.name == "laptop"
    assert token not in process.log.read_text()


def test_the_key_opens_only_the_gateway(caller: Caller, token: str) -> None:
    assert post(caller, CHAT, **{"X-Contextopt-Key": token}).status_code == 200
    refused = post(caller, f"/k/{token}/api/v1/me")
    assert refused.status_code == 404
    assert token not in refused.text


def test_a_wrong_key_in_the_path_is_like_none(caller: Caller, upstream: Upstream) -> None:
    wrong, none = post(caller, f"/k/ctx_wrong{CHAT}"), post(caller, CHAT)
    assert (wrong.status_code, wrong.json()) == (none.status_code, none.json())
    assert wrong.status_code == 401
    assert wrong.headers["x-should-retry"] == "false"
    assert upstream.got == []
    ends = next(
        answer for answer in (post(caller, f"/k/x{CHAT}") for _ in range(300)) if answer.status_code != 401
    )
    assert ends.status_code == 429


def test_other_keys_do_not_belong_into_a_path(caller: Caller, upstream: Upstream) -> None:
    refused = post(caller, f"/k/{caller.secret}{CHAT}")
    assert refused.status_code == 403
    assert "scope gateway" in refused.json()["error"]["message"]
    assert upstream.got == []


def test_two_keys_have_to_agree(caller: Caller, token: str, upstream: Upstream) -> None:
    refused = post(caller, f"/k/{token}{CHAT}", **{"X-Contextopt-Key": caller.secret})
    assert (refused.status_code, refused.headers["x-should-retry"]) == (400, "false")
    assert upstream.got == []
    assert post(caller, f"/k/{token}{CHAT}", **{"X-Contextopt-Key": token}).status_code == 200


def test_the_key_reaches_its_spaces_only(caller: Caller, token: str) -> None:
    factories.make_space(caller.space.team, slug="sales")
    other = replace(caller, secret=token)
    assert other.chat("Hi").headers["x-contextopt-status"] == "audit"
    assert other.chat("Hi", X_Contextopt_Space="sales").headers["x-contextopt-status"] == "unknown_space"


def test_making_it_is_in_the_change_log(caller: Caller, token: str) -> None:
    event = AuditEvent.objects.get(action="key.created", subject="laptop")
    assert event.after["scope"] == Scope.GATEWAY
    assert token not in str(event.after)
