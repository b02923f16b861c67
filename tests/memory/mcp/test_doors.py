"""Every tool through every door: both transports, both revisions, with the SDK's own client."""

import asyncio
import json
import re
import subprocess
from dataclasses import replace
from typing import Any

from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND

from contextopt.assemblies.models import Assembly
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.people.models import ApiKey, Scope, Team
from contextopt.spaces.models import Record, Space
from memory.feedback.models import Vote
from memory.memories.models import Memory
from tests import factories
from tests.concurrency import beside
from tests.memory.mcp.conftest import MANAGE, MODES, Door, environment, text_of

SCHEMAS_MAX_TOKENS = 2_000


async def use_all(client: Client) -> dict[str, Any]:
    answers: dict[str, Any] = {"tools": (await client.list_tools()).tools}
    context = await client.call_tool("get_context", {"space": "support", "query": "Why is the queue stuck?"})
    answers["get_context"] = context
    number = int(re.findall(r"^Context (\d+):", text_of(context))[0])
    answers["search"] = await client.call_tool("search", {"query": "lock", "space": "support"})
    kept = {"title": "Retries", "content": "Three, then stop.", "space": "support", "kind": "decision"}
    answers["remember"] = await client.call_tool("remember", kept)
    answers["memory"] = await client.call_tool("remember", {"title": "Tone", "content": "Short answers."})
    answers["feedback"] = await client.call_tool("feedback", {"context": number, "rating": "up"})
    return answers


def test_every_tool_works(each_door: Door, space: Space) -> None:
    answers = each_door.visit(use_all)
    tools = {tool.name: tool for tool in answers.pop("tools")}
    assert set(tools) == {"get_context", "search", "explain", "remember", "task_step", "feedback"}
    assert {name for name, tool in tools.items() if tool.annotations.read_only_hint} == {
        "get_context",
        "search",
        "explain",
    }
    assert not [answer for answer in answers.values() if answer.is_error], answers
    assembly = Assembly.objects.get()
    assert text_of(answers["get_context"]).startswith(f"Context {assembly.pk}: 1 of 1 record.")
    assert assembly.actor == "key:agent"
    assert "> Workers of the old release kept their lock." in text_of(answers["search"])
    assert Record.objects.get(title="Retries").notes == "Three, then stop."
    assert Memory.objects.get(title="Tone").content == "Short answers."
    assert Vote.objects.get().rater == "key:agent"
    assert list(ApiKey.objects.get().ways) == ["mcp"]


def test_only_what_exists_is_announced(each_door: Door, space: Space) -> None:
    """Some clients add tools for resources to every prompt if the server announces them."""

    async def story(client: Client) -> tuple[str, dict[str, Any], list[int]]:
        calls = (
            client.list_resources(),
            client.list_resource_templates(),
            client.read_resource("file:///x"),
        )
        refusals = [
            each.code
            for each in await asyncio.gather(*calls, return_exceptions=True)
            if isinstance(each, MCPError)
        ]
        announced = client.server_capabilities.model_dump(exclude_none=True)
        return client.protocol_version, announced, refusals

    is_legacy = each_door.mode == "legacy"
    # A client that is told the revision does not ask what the server has.
    asking = each_door if is_legacy else replace(each_door, mode="auto")
    revision, announced, refusals = asking.visit(story)
    assert (revision == "2026-07-28") is not is_legacy
    assert set(announced) - {"experimental", "extensions"} == {"tools", "prompts"}
    assert refusals == [METHOD_NOT_FOUND] * 3


def test_all_schemas_together_are_short(door: Door) -> None:
    tools = door.visit(lambda client: client.list_tools()).tools
    written = json.dumps([tool.model_dump(mode="json", by_alias=True) for tool in tools])
    assert get_tokenizer("cl100k_base").count(written) <= SCHEMAS_MAX_TOKENS


def test_a_process_stops_working_when_its_key_is_revoked(address: str, team: Team, space: Space) -> None:
    key, secret = factories.make_key(team, Scope.WRITE)

    async def story(client: Client) -> list[bool]:
        first = await client.call_tool("search", {"query": "lock"})
        await asyncio.wrap_future(beside(key.revoke))
        return [first.is_error, (await client.call_tool("search", {"query": "lock"})).is_error]

    assert Door("stdio", MODES[0], secret, address).visit(story) == [False, True]


def test_a_process_with_a_wrong_key_does_not_start(team: Team) -> None:
    variables = {**environment(), "CONTEXTOPT_KEY": "ctx_wrong"}
    ended = subprocess.run(
        [*MANAGE, "mcp"], env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "CONTEXTOPT_KEY" in ended.stderr
    assert "ctx_wrong" not in ended.stderr


def test_a_process_refuses_a_key_given_twice(team: Team) -> None:
    twice = '{"jsonrpc": "2.0", "id": %s, "method": "tools/call", "params": {"name": "a", "name": "b"}}'
    told = 'name: has the key "name" twice in one object'
    ping = '{"jsonrpc": "2.0", "id": "after", "method": "ping"}'
    messages = [twice % "7", twice % '"8"', twice % "true", f"[{twice % '9'}]", "{", ping]
    with subprocess.Popen(
        [*MANAGE, "mcp"], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        process.stdin.write("\n".join([*messages, ""]))
        process.stdin.flush()
        *answers, last = [json.loads(process.stdout.readline()) for _ in range(5)]
        process.stdin.close()
    assert [each["id"] for each in answers] == [7, "8", None, None]
    assert {each["error"]["message"] for each in answers} == {told}
    assert last == {"jsonrpc": "2.0", "id": "after", "result": {}}


def test_without_a_key_a_process_acts_for_the_default_team(address: str, space: Space) -> None:
    factories.make_space(Team.objects.ensure_default(), "own")
    door = Door("stdio", "legacy", "", address)
    assert not door.call("get_context", space="own", query="lock").is_error
    assert door.call("get_context", space="support", query="lock").is_error
