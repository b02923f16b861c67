"""Audit mode, through a real process: no byte changes, and everything is logged after the answer."""

import gzip
import json
import random
from typing import Any

import httpx2
import pytest

from contextopt.assemblies.models import Assembly
from contextopt.assemblies.replay.replay import replay_assembly
from contextopt.assemblies.verify import verify_assembly
from contextopt.gateway.models import GatewayPolicy
from contextopt.people.models import ApiKey, Scope, Way
from tests import factories
from tests.contextopt.gateway.conftest import Caller, Process, said
from tests.gateway_upstream import (
    Answer,
    Upstream,
    chat_answer,
    chat_events,
    messages_events,
    responses_events,
    stream,
    whole,
)

PATHS = {
    "/v1/chat/completions": ({"model": "m", "messages": said("Why is the queue stuck?")}, chat_events),
    "/v1/responses": ({"model": "m", "input": "Why is the queue stuck?"}, responses_events),
    "/v1/messages": (
        {"model": "m", "max_tokens": 10, "messages": said("Why is the queue stuck?")}, messages_events,
    ),
}  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_bytes_pass_unchanged(caller: Caller, upstream: Upstream, path: str) -> None:
    request, events = PATHS[path]
    odd = json.dumps({**request, "x": [1.0, 1e3, {"ø": "\ud83d\ude00"}]}, indent=3).encode() + b"\r\n "
    upstream.respond = lambda _: stream(events(), seed=7)
    response = caller.post(path, odd, Content_Type="application/json")
    assert response.content == b"".join(events())
    assert upstream.got[-1].body == odd
    # Tells a proxy in front, such as nginx, to pass each piece on as it comes.
    assert response.headers["x-accel-buffering"] == "no"


@pytest.mark.parametrize("path", PATHS)
def test_logged_after_the_answer(caller: Caller, upstream: Upstream, path: str) -> None:
    request, events = PATHS[path]
    upstream.respond = lambda _: stream(events(), seed=3)
    response = caller.post(path, {**request, "stream": True})
    [row] = caller.logged()
    assert response.headers["x-contextopt-status"] == "audit"
    assert int(response.headers["x-contextopt-assembly"]) == row.assembly_id
    assert (row.mode, row.is_inserted, row.reason, row.outcome) == ("audit", False, "", "answered")
    assert (row.status_code, row.is_streamed, row.model) == (200, True, "m")
    assert row.answer_bytes == len(response.content)
    assert row.prompt_tokens == 6
    assert row.context_tokens == row.assembly.tokens_after > 0
    assert "Queue stuck after deploy" in row.assembly.payload.text
    assert (row.assembly.is_sent, row.assembly.tokens_saved) == (False, None)
    assert verify_assembly(row.assembly.payload) == []
    assert (row.question, row.answer) == ("", "")
    assert list(ApiKey.objects.get().ways) == [Way.GATEWAY]


def test_usage_is_the_providers(caller: Caller, upstream: Upstream) -> None:
    for path, (request, _) in PATHS.items():
        caller.post(path, {**request, "stream": True})
    usage = [
        (row.input_tokens, row.cached_tokens, row.cache_write_tokens, row.output_tokens)
        for row in caller.logged(3)
    ]
    # An absent report is not 0. Anthropic counts what is cached apart from the rest.
    assert usage == [(40, 16, None, 9), (50, 0, None, 7), (47, 30, 5, 7)]


def test_usage_in_a_compressed_answer(caller: Caller, upstream: Upstream) -> None:
    body = gzip.compress(json.dumps(chat_answer()).encode())
    upstream.respond = lambda _: Answer(
        [body], headers=[("Content-Type", "application/json"), ("Content-Encoding", "gzip")]
    )
    with httpx2.stream(
        "POST", f"{caller.address}/v1/chat/completions", json=PATHS["/v1/chat/completions"][0],
        headers=caller.headers,
    ) as response:  # fmt: skip
        assert b"".join(response.iter_raw()) == body
    assert upstream.got[-1].headers["accept-encoding"] == response.request.headers["accept-encoding"]
    assert caller.logged()[0].input_tokens == 40


def test_headers(caller: Caller, upstream: Upstream) -> None:
    upstream.respond = lambda _: Answer(
        [b"{}"],
        headers=[
            ("X-Request-Id", "r1"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Keep-Alive", "timeout=5"),
            ("X-Contextopt-Status", "forged"),
        ],
    )  # fmt: skip
    response = caller.chat(
        "Hi", X_Api_Key="sk-ant", X_Contextopt_Space="support", OpenAI_Organization="org", TE="trailers",
    )  # fmt: skip
    got = upstream.got[-1].headers
    assert (got["authorization"], got["x-api-key"]) == ("Bearer sk-provider", "sk-ant")
    assert got["openai-organization"] == "org"
    assert not [name for name in got if name.startswith("x-contextopt")]
    assert "te" not in got
    assert response.headers["x-request-id"] == "r1"
    assert response.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert response.headers.get_list("x-contextopt-status") == ["audit"]
    assert "keep-alive" not in response.headers


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
def test_errors_of_the_provider_pass(caller: Caller, upstream: Upstream, status: int) -> None:
    upstream.respond = lambda _: whole({"error": {"message": "no"}}, status)
    response = caller.chat("Hi")
    assert (response.status_code, response.json()) == (status, {"error": {"message": "no"}})
    assert caller.logged()[0].status_code == status


def test_redirects_are_not_followed(caller: Caller, upstream: Upstream) -> None:
    upstream.respond = lambda _: Answer([b""], status=307, headers=[("Location", "/v1/elsewhere")])
    response = caller.chat("Hi")
    assert (response.status_code, response.headers["location"]) == (307, "/v1/elsewhere")
    assert len(upstream.got) == 1


def test_other_paths_pass_unlogged(caller: Caller, upstream: Upstream) -> None:
    models = httpx2.get(f"{caller.address}/v1/models?limit=2", headers=caller.headers)
    assert "transfer-encoding" not in upstream.got[-1].headers
    assert models.json()["data"][0]["id"] == "m"
    assert upstream.got[-1].target == "/v1/models?limit=2"
    unknown = caller.post("/v1/embeddings", {"input": "x"})
    assert unknown.status_code == 404
    counted = caller.post("/v1/messages/count_tokens", {"messages": []})
    assert upstream.got[-1].target == "/v1/messages/count_tokens"
    assert counted.status_code == 404
    caller.chat("Hi")
    assert [row.protocol for row in caller.logged()] == ["chat"]


@pytest.mark.parametrize(
    ("path", "protocol"),
    [
        ("/v1//chat/completions", "chat"),
        ("/v1/chat/completions/", "chat"),
        ("/v1/chat%2Fcompletions", "chat"),
        ("/v1/%72esponses//", "responses"),
        ("/v1//messages", "messages"),
    ],
)
def test_other_spellings_of_a_prompts_path(
    caller: Caller, upstream: Upstream, path: str, protocol: str
) -> None:
    """A provider may take them for the same path."""
    body = {"model": "m", "messages": said("Hi"), "input": "Hi"}
    response = caller.post(path, body)
    assert upstream.got[-1].target == path
    assert response.headers["x-contextopt-status"] == "audit"
    assert [row.protocol for row in caller.logged()] == [protocol]


@pytest.mark.parametrize("path", ["/v2/models", "/v1/%2e%2e/admin", "/admin/", "/v1"])
def test_only_paths_below_v1_are_served(caller: Caller, upstream: Upstream, path: str) -> None:
    refused = httpx2.get(f"{caller.address}{path}", headers=caller.headers)
    assert (refused.status_code, refused.headers["x-should-retry"]) == (404, "false")
    assert upstream.got == []


def test_key_is_needed(caller: Caller, upstream: Upstream) -> None:
    def ask(path: str, **headers: str) -> httpx2.Response:
        return httpx2.post(f"{caller.address}{path}", json={}, headers=headers)

    for headers in ({}, {"X-Contextopt-Key": "ctx_wrong"}, {"Authorization": f"Bearer {caller.secret}"}):
        refused = ask("/v1/chat/completions", **headers)
        assert (refused.status_code, refused.headers["x-should-retry"]) == (401, "false")
        assert refused.json()["error"]["code"] == "authentication_error"
        refused = ask("/v1/messages", **headers)
        assert (refused.status_code, refused.headers["x-should-retry"]) == (401, "false")
        assert refused.json()["type"] == "error"
        assert refused.json()["error"]["type"] == "authentication_error"
    assert upstream.got == []


def test_key_needs_scope_and_allowance(caller: Caller, upstream: Upstream) -> None:
    _, reader = factories.make_key(caller.space.team, Scope.READ, "reader")
    refused = caller.chat("Hi", X_Contextopt_Key=reader)
    assert (refused.status_code, refused.headers["x-should-retry"]) == (403, "false")
    key, busy = factories.make_key(caller.space.team, Scope.WRITE, "busy")
    key.requests_per_minute = 1
    key.save()
    assert caller.chat("Hi", X_Contextopt_Key=busy).status_code == 200
    refused = caller.chat("Hi", X_Contextopt_Key=busy)
    assert (refused.status_code, refused.headers["x-should-retry"]) == (429, "true")
    assert int(refused.headers["retry-after"]) > 0


def test_too_many_wrong_keys(caller: Caller) -> None:
    """Waiting makes no wrong key right, so the client need not try again."""
    wrong = {"X-Contextopt-Key": "ctx_wrong"}
    with httpx2.Client(base_url=caller.address, headers=wrong, verify=False) as client:

        def ask() -> httpx2.Response:
            return client.post("/v1/messages", json={})

        refused = next(answer for answer in (ask() for _ in range(300)) if answer.status_code != 401)
    assert (refused.status_code, refused.headers["x-should-retry"]) == (429, "false")


def test_the_space(caller: Caller, upstream: Upstream) -> None:
    statuses = [
        caller.chat("Hi", X_Contextopt_Space=slug).headers["x-contextopt-status"] for slug in ("", "no")
    ]
    factories.make_space(caller.space.team, "second")
    rival = factories.make_space(factories.make_team("rivals"), "theirs")
    # The only space of the team is remembered for some seconds, so another key asks.
    _, secret = factories.make_key(caller.space.team, Scope.WRITE, "other")
    for slug in ("", rival.slug, "second"):
        response = caller.chat("Hi", X_Contextopt_Key=secret, X_Contextopt_Space=slug)
        statuses.append(response.headers["x-contextopt-status"])
    assert statuses == ["audit", "unknown_space", "unnamed_space", "unknown_space", "audit"]
    assert {row.status_code for row in caller.logged(5)} == {200}


def test_texts_are_kept_if_the_policy_says_so(caller: Caller, upstream: Upstream) -> None:
    GatewayPolicy.objects.create(space=caller.space, keep="all")
    caller.chat("Why is the queue\x00 stuck?")
    caller.post("/v1/chat/completions", {"model": "m", "messages": said("Again?"), "stream": True})
    first, second = caller.logged(2)
    assert first.question == "Why is the queue stuck?"
    assert first.answer == second.answer == "Restart the worker. Då virker det ✓"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "unreadable"),
        (b"[]", "unreadable"),
        (b'{"messages": 3}', "unreadable"),
        ("{}".encode("utf-16"), "unreadable"),
        (b'{"messages": [{"role": "system", "content": "x"}]}', "no_question"),
        (b'{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}', "no_question"),
    ],
)
def test_odd_requests_pass(caller: Caller, upstream: Upstream, body: bytes, reason: str) -> None:
    response = caller.post("/v1/chat/completions", body)
    assert upstream.got[-1].body == body
    assert response.status_code == 200
    assert caller.logged()[0].reason == reason


def test_compressed_and_large_requests_pass_unread(caller: Caller, upstream: Upstream) -> None:
    packed = gzip.compress(json.dumps({"messages": said("Hi")}).encode())
    upstream.respond = lambda _: whole(chat_answer())
    caller.post("/v1/chat/completions", packed, Content_Encoding="gzip")
    assert upstream.got[-1].body == packed
    large = b" " * (32 * 2**20 + 1)
    caller.post("/v1/chat/completions", large)
    assert upstream.got[-1].body == large

    def chunks() -> Any:
        yield from (large[at : at + 2**20] for at in range(0, len(large), 2**20))

    httpx2.post(f"{caller.address}/v1/chat/completions", content=chunks(), headers=caller.headers, timeout=20)
    assert upstream.got[-1].body == large
    assert [row.reason for row in caller.logged(3)] == ["compressed", "too_large", "too_large"]


def test_large_images_are_read_but_not_as_much_text(caller: Caller, upstream: Upstream) -> None:
    upstream.respond = lambda _: whole(chat_answer())
    url = {"url": "data:image/png;base64," + "A" * 30_000_000}
    parts = [{"type": "image_url", "image_url": url}, {"type": "text", "text": "Why?"}]
    for content, status in ((parts, "audit"), ("\n" * 15_000_000, "too_large")):
        request = {"model": "m", "messages": [{"role": "user", "content": content}]}
        body = json.dumps(request).encode()
        assert caller.send("/v1/chat/completions", body, {}).headers["x-contextopt-status"] == status
        assert upstream.got[-1].body == body


@pytest.mark.parametrize("times", [32_900, 1_300_000])
def test_very_many_values_pass_unread(caller: Caller, upstream: Upstream, times: int) -> None:
    """Reading them would take a few seconds, in which no other prompt could be read."""
    upstream.respond = lambda _: whole(chat_answer())
    body = b'{"model":"m","messages":[' + b"{}," * times + b'{"role":"user","content":"x"}]}'
    response = caller.send("/v1/chat/completions", body, {})
    assert response.headers["x-contextopt-status"] == "too_large"
    assert upstream.got[-1].body == body
    long = json.dumps({"model": "m", "messages": said("word " * 30_000)}).encode()
    assert caller.post("/v1/chat/completions", long).headers["x-contextopt-status"] == "audit"
    assert [row.reason for row in caller.logged(2)] == ["too_large", ""]


def test_loops_are_refused(caller: Caller, upstream: Upstream) -> None:
    caller.chat("Hi")
    looped = caller.chat("Hi", Via=upstream.got[-1].headers["via"])
    assert (looped.status_code, looped.headers["x-should-retry"]) == (508, "false")
    assert len(upstream.got) == 1


def test_the_question_is_stored_only_if_it_is_kept(caller: Caller, upstream: Upstream) -> None:
    asked = "Why was the mail late in Oslo?"
    caller.chat(asked)
    [row] = caller.logged()
    assembly = Assembly.objects.select_related("payload", "space").get(pk=row.assembly_id)
    assert assembly.actor == "key:test"
    assert assembly.conversation == f"gateway:{row.conversation}"
    assert asked not in json.dumps([assembly.payload.request, assembly.payload.ledger])
    assert replay_assembly(assembly).reason == "question_not_kept"


def test_a_kept_question_can_be_replayed(caller: Caller, upstream: Upstream) -> None:
    GatewayPolicy.objects.create(space=caller.space, keep="question")
    caller.chat("Why was the mail late?")
    [row] = caller.logged()
    assembly = Assembly.objects.select_related("payload", "space").get(pk=row.assembly_id)
    assert assembly.payload.request["query"] == row.question == "Why was the mail late?"
    assert replay_assembly(assembly).is_same


TOOL_TURN = [
    *said("Why is the queue stuck?"),
    {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f"}}]},
    {"role": "tool", "tool_call_id": "c", "content": "42"},
]


def test_tool_turns_name_the_same_assembly(caller: Caller, upstream: Upstream) -> None:
    first = caller.chat("Why is the queue stuck?")
    second = caller.post("/v1/chat/completions", {"model": "m", "messages": TOOL_TURN})
    assert first.headers["x-contextopt-assembly"] == second.headers["x-contextopt-assembly"]
    rows = caller.logged(2)
    assert rows[0].assembly_id == rows[1].assembly_id
    assert Assembly.objects.count() == 1


def test_tool_turns_are_logged_with_their_context_after_a_restart(
    caller: Caller, process: Process, upstream: Upstream
) -> None:
    caller.chat("Why is the queue stuck?")
    caller.logged()
    process.stop()
    process.start()
    caller.post("/v1/chat/completions", {"model": "m", "messages": TOOL_TURN})
    asked, continued = caller.logged(2)
    assert continued.assembly_id == asked.assembly_id
    assert (continued.context_tokens, continued.reason) == (asked.context_tokens, "")


def test_tool_turns_of_an_earlier_question_are_logged_with_its_context(
    caller: Caller, upstream: Upstream
) -> None:
    for number, messages in enumerate((TOOL_TURN[:1], [*TOOL_TURN, *said("And the mail?")], TOOL_TURN), 1):
        caller.post("/v1/chat/completions", {"model": "m", "messages": messages})
        rows = caller.logged(number)
    asked, _, continued = rows
    assert continued.assembly_id == asked.assembly_id
    assert (continued.turn, continued.question_hash) == (0, asked.question_hash)
    assert (continued.context_tokens, continued.reason) == (asked.context_tokens, "")


def test_a_tool_turn_without_a_context(caller: Caller, upstream: Upstream) -> None:
    caller.post("/v1/chat/completions", {"model": "m", "messages": TOOL_TURN})
    [row] = caller.logged()
    assert (row.assembly_id, row.reason) == (None, "tool_results")


def test_many_varied_requests(caller: Caller, upstream: Upstream) -> None:
    """Bytes of both directions are compared; the benchmark sends 10,000."""
    rng = random.Random(5)
    for number in range(60):
        path = rng.choice(list(PATHS))
        request, events = PATHS[path]
        answer = stream(events(), seed=number) if rng.random() < 0.5 else whole({"n": "ø" * number})
        upstream.respond = lambda _, answer=answer: answer
        body = json.dumps({**request, "noise": "\u2028é" * rng.randint(0, 200)}, ensure_ascii=False).encode()
        assert caller.post(path, body).content == answer.content
        assert upstream.got[-1].body == body
    assert len(caller.logged(60)) == 60


def test_space_of_another_key(caller: Caller, upstream: Upstream) -> None:
    """A key that is limited to one space uses it without naming it."""
    second = factories.make_space(caller.space.team, "second")
    key, secret = factories.make_key(caller.space.team, Scope.WRITE, "limited")
    key.space_ids = [second.pk]
    key.save()
    caller.chat("Hi", X_Contextopt_Key=secret)
    caller.chat("Hi", X_Contextopt_Key=secret, X_Contextopt_Space=caller.space.slug)
    rows = caller.logged(2)
    assert [(row.space_id, row.reason) for row in rows] == [(second.pk, "empty"), (None, "unknown_space")]
