"""Who may call `/mcp`, and that no call blocks the others."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx2
import pytest
from asgiref.testing import ApplicationCommunicator
from django.db import connection, transaction

from contextopt.assemblies.models import Assembly
from contextopt.people.logins import WRONG_KEYS
from contextopt.people.models import ApiKey, Scope, Team
from contextopt.spaces.models import Record, Space
from memory.feedback.models import Vote
from memory.mcp.http import serve_mcp
from memory.memories.models import Memory
from tests import factories
from tests.concurrency import beside, in_own_loop, somebody_waits, wait_until
from tests.memory.mcp.conftest import Door, text_of

CALL = {
    "jsonrpc": "2.0", "id": 1, "method": "tools/call",
    "params": {"name": "search", "arguments": {"query": "lock", "space": "support"}},
}  # fmt: skip
ACCEPTS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def post(
    address: str, headers: dict[str, str], content: str = json.dumps(CALL), path: str = "/mcp"
) -> httpx2.Response:
    # Loading the CA certificates would take longer than the request.
    return httpx2.post(
        f"{address}{path}", headers={**ACCEPTS, **headers}, content=content, timeout=30, verify=False
    )


def test_a_key_comes_in_either_header(address: str, secret: str, space: Space) -> None:
    for headers in ({"Authorization": f"Bearer {secret}"}, {"X-API-Key": secret}):
        answer = post(address, headers)
        assert "Queue stuck" in answer.json()["result"]["content"][0]["text"]
        assert answer.headers["cache-control"] == "no-store"


def test_a_slash_at_the_end_is_no_other_address(address: str, secret: str, space: Space) -> None:
    assert post(address, {"X-API-Key": secret}, path="/mcp/").status_code == 200


def test_without_a_valid_key_nothing_is_served(address: str, team: Team) -> None:
    key, revoked = factories.make_key(team)
    key.revoke()
    for headers in ({}, {"Authorization": "Bearer ctx_no"}, {"X-API-Key": revoked}, {"X-API-Key": "x" * 999}):
        answer = post(address, headers)
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["cache-control"] == "no-store"


def test_who_sends_many_wrong_keys_must_wait(address: str, secret: str, space: Space) -> None:
    # On a slow machine the limit lets more through, since it forgets a try every two seconds.
    statuses = (post(address, {"X-API-Key": f"ctx_{at}"}).status_code for at in range(10 * WRONG_KEYS.burst))
    assert next(statuses) == 401
    assert next(status for status in statuses if status != 401) == 429
    assert post(address, {"X-API-Key": secret}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "{address}"}, 200),
    ],
)
def test_only_known_names_and_pages_may_call(
    address: str, secret: str, space: Space, headers: dict[str, str], status: int
) -> None:
    sent = {name: value.format(address=address) for name, value in headers.items()}
    assert post(address, {"X-API-Key": secret, **sent}).status_code == status


def test_behind_https_nothing_is_served_in_clear(transactional_db: None, settings: Any, secret: str) -> None:
    settings.HTTPS, settings.SECURE_PROXY_SSL_HEADER = True, ("HTTP_X_FORWARDED_PROTO", "https")
    call = {
        "type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "scheme": "http",
        "server": ("localhost", 80), "headers": [(b"host", b"localhost"), (b"x-api-key", b"ctx_no")],
    }  # fmt: skip
    forwarded = {**call, "headers": [*call["headers"], (b"x-forwarded-proto", b"https")]}
    assert [in_own_loop(_status_of(scope)) for scope in (call, forwarded)] == [403, 401]


async def _status_of(scope: dict[str, Any]) -> int:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    await serve_mcp(scope, receive, send)
    return int(sent[0]["status"])


def test_only_post_is_served(address: str, secret: str) -> None:
    for method in ("GET", "DELETE", "PUT"):
        answer = httpx2.request(method, f"{address}/mcp", headers={"X-API-Key": secret, **ACCEPTS})
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_what_is_no_call_is_a_clear_error(address: str, secret: str) -> None:
    assert post(address, {"X-API-Key": secret}, content="{").status_code == 400
    assert post(address, {"X-API-Key": secret}, content="x" * 5_000_000).status_code == 413


MODERN = {"MCP-Protocol-Version": "2026-07-28"}


@pytest.mark.parametrize("revision", [{}, MODERN])
@pytest.mark.parametrize(
    ("headers", "content", "told"),
    [
        ({"Content-Type": "text/plain"}, "{}", (415, "Send application/json, not text/plain.")),
        ({"Content-Type": ""}, "{}", (415, "Send application/json.")),
        ({}, "x" * 5_000_000, (413, "The body is larger than 4 MiB.")),
        ({}, '{"jsonrpc": "2.0", "id": 1, "id": 2}', (422, 'id: has the key "id" twice in one object')),
    ],
)
def test_refused_requests_are_problems(
    address: str, secret: str, revision: dict[str, str], headers: dict[str, str], content: str, told: Any
) -> None:
    answer = post(address, {"X-API-Key": secret, **revision, **headers}, content=content)
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["detail"]) == told


def test_a_long_body_without_a_length_is_a_problem(address: str, team: Team) -> None:
    key, secret = factories.make_key(team)
    key.requests_per_minute = 60
    key.save()

    def chunks() -> Iterator[bytes]:
        yield from [b" " * 2**20] * 5

    headers = {**ACCEPTS, "X-API-Key": secret}
    answer = httpx2.post(f"{address}/mcp", headers=headers, content=chunks(), timeout=30, verify=False)
    assert (answer.status_code, answer.json()["title"]) == (413, "Body too large")
    assert answer.headers["ratelimit-limit"] == "60"


def test_a_body_that_breaks_off_is_a_problem(address: str, secret: str) -> None:
    server = httpx2.URL(address)
    lines = ("POST /mcp HTTP/1.1", "Host: localhost", f"X-API-Key: {secret}", "Content-Length: 99")
    head = [*lines, *(f"{name}: {value}" for name, value in ACCEPTS.items())]
    with socket.create_connection((server.host, server.port or 80)) as client:
        client.sendall("\r\n".join([*head, "", '{"jsonrpc"']).encode())
        client.shutdown(socket.SHUT_WR)
        answer = client.recv(4_000)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"detail":"The body ended too early."' in answer


def test_a_body_that_stalls_is_a_problem(transactional_db: None, settings: Any, secret: str) -> None:
    settings.BODY_STALL_SECONDS = 1
    call = {
        "type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "scheme": "http",
        "server": ("localhost", 80), "headers": [
            (b"host", b"localhost"), (b"x-api-key", secret.encode()), (b"content-length", b"99"),
            *((name.lower().encode(), value.encode()) for name, value in ACCEPTS.items()),
        ],
    }  # fmt: skip

    async def story() -> list[Mapping[str, Any]]:
        page = ApplicationCommunicator(serve_mcp, call)
        await page.send_input({"type": "http.request", "body": b"{", "more_body": True})
        return [await page.receive_output(10), await page.receive_output(10)]

    start, body = in_own_loop(story())
    assert start["status"] == 408
    assert (b"connection", b"close") in start["headers"]
    assert json.loads(body["body"])["detail"] == "The body did not arrive in time."


def test_the_way_follows_the_user_agent(address: str, team: Team, space: Space) -> None:
    key, secret = factories.make_key(team)
    post(address, {"X-API-Key": secret, "User-Agent": "claude-code/2.1"})
    post(address, {"X-API-Key": secret, "User-Agent": "python"})
    assert set(ApiKey.objects.get(pk=key.pk).ways) == {"claude", "mcp"}


def test_another_team_sees_nothing(
    own_door: Callable[[str], Door], door: Door, other_team_secret: str, space: Space
) -> None:
    made = factories.make_assembly(space)
    stranger = own_door(other_team_secret)
    missing, foreign = (
        text_of(stranger.call("get_context", space=slug, query="lock")) for slug in ("missing", "support")
    )
    assert foreign == missing.replace("missing", "support")
    missing, foreign = (
        text_of(stranger.call("feedback", context=number, rating="up")) for number in (made.id + 1, made.id)
    )
    assert foreign == missing.replace(str(made.id + 1), str(made.id))
    for arguments in ({"query": "lock", "space": "support"}, {"dropped_from": made.id}):
        assert stranger.call("search", **arguments).is_error
    assert stranger.call("remember", title="x", content="y", space="support").is_error
    assert not Vote.objects.exists()
    assert not Record.objects.filter(title="x").exists()
    assert door.call("search", dropped_from=made.id).is_error is False


@pytest.fixture
def other_team_secret(transactional_db: None) -> str:
    return factories.make_key(factories.make_team("rivals"))[1]


def test_a_key_that_may_only_read_writes_nothing(
    own_door: Callable[[str], Door], team: Team, space: Space
) -> None:
    reader = own_door(factories.make_key(team, Scope.READ)[1])
    context = text_of(reader.call("get_context", space="support", query="lock"))
    assert context.startswith("Context (not logged: this key may only read): 1 of 1 record.")
    for name, arguments in (
        ("remember", {"title": "a", "content": "b"}),
        ("remember", {"title": "a", "content": "b", "space": "support"}),
        ("feedback", {"context": 1, "rating": "up"}),
    ):
        answer = reader.call(name, **arguments)
        assert answer.is_error
        assert "requires a key with scope write" in text_of(answer)
    assert not Memory.objects.exists()
    assert not Vote.objects.exists()
    assert not Assembly.objects.exists()


@pytest.mark.parametrize(
    ("name", "arguments", "named"),
    [
        ("get_context", {"query": "x", "space": "support", "budget": 1}, "budget: is not an argument"),
        ("get_context", {"space": "support"}, "query: is missing"),
        (
            "get_context",
            {"query": "x", "space": "support", "max_tokens": 5},
            "max_tokens: must be at least 200",
        ),
        ("get_context", {"query": "x\0", "space": "support"}, "query: contains a NUL"),
        ("search", {"query": "x", "limit": True}, "limit: must be a number, not true or false"),
        ("search", {"space": "support"}, "query: is missing"),
        ("remember", {"title": " ", "content": "x"}, "title: must not be blank"),
        ("remember", {"title": "x", "content": "x" * 10_001}, "content: must have at most 10,000 characters"),
        ("feedback", {"context": 1, "rating": "sideways"}, "rating: must be 'up' or 'down'"),
        ("explain", {"context": 1, "record": ""}, "record: must have at least 1 character"),
        ("explain", {"context": 1, "record": "1"}, "There is no context 1."),
        ("explain", {"context": 1, "record": 1}, "There is no context 1."),
        ("feedback", {"context": 1, "rating": "up"}, "There is no context 1."),
        ("persuade", {}, "There is no tool 'persuade'"),
    ],
)
def test_errors_name_the_argument(
    door: Door, space: Space, name: str, arguments: dict[str, Any], named: str
) -> None:
    answer = door.call(name, **arguments)
    assert answer.is_error
    assert text_of(answer).startswith(named)


def test_what_is_found_and_left_out_is_counted(door: Door, space: Space) -> None:
    assert text_of(door.call("search", query="lock", space="support")).startswith("1 hit. Lines")
    factories.make_record(space, title="The lock", notes="lock " * 200)
    factories.make_record(space, title="A lock", notes="lock " * 200)
    said = text_of(door.call("search", query="lock", space="support"))
    assert said.startswith("3 hits. Lines")
    said = text_of(door.call("search", query="lock", space="support", limit=2, max_tokens=400))
    assert said.startswith("1 hit. 1 more does not fit. Lines")


def test_who_repeats_a_call_keeps_one_record_and_one_vote(door: Door, space: Space) -> None:
    made = factories.make_assembly(space)
    for _ in range(2):
        door.call("remember", title="Retries", content="Three.", space="support")
        door.call("remember", title="Tone", content="Short.")
        door.call("feedback", context=made.id, rating="down")
    assert Record.objects.filter(title="Retries").count() == 1
    assert Memory.objects.count() == 1
    assert Vote.objects.count() == 1


def test_calls_that_wait_for_the_database_hold_no_page_up(address: str, secret: str, space: Space) -> None:
    """While all turns of the tools wait for a lock, the process serves its other pages."""
    call = {"name": "remember", "arguments": {"title": "a", "content": "b", "space": "support"}}
    content = json.dumps({**CALL, "params": call})
    measured = threading.Event()

    async def story() -> list[str]:
        async with httpx2.AsyncClient(headers={"X-API-Key": secret, **ACCEPTS}, timeout=30) as client:
            calls = [asyncio.create_task(client.post(f"{address}/mcp", content=content)) for _ in range(12)]
            await asyncio.wrap_future(beside(lambda: wait_until(somebody_waits)))
            assert (await client.get(f"{address}/healthz")).status_code == 200
            assert not any(task.done() for task in calls)
            measured.set()
            answers = await asyncio.gather(*calls)
            return [answer.json()["result"]["content"][0]["text"] for answer in answers]

    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE contextopt_record IN ACCESS EXCLUSIVE MODE")
        told = beside(lambda: in_own_loop(story()))
        assert measured.wait(20)
    answers = told.result(30)
    record = Record.objects.get(title="a")
    assert sorted(set(answers)) == [f"Record {record.pk} kept.", f"Record {record.pk} was kept before."]
    assert answers.count(f"Record {record.pk} kept.") == 1
