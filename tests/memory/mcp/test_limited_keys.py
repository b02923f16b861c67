"""Keys that are limited to a space, or to requests per minute, through the tools."""

from collections.abc import Callable
from typing import Any

import httpx2
from mcp import Client

from contextopt.assemblies.models import Assembly
from contextopt.people.inputs import KeyIn
from contextopt.people.keys import create_key
from contextopt.people.models import Team
from contextopt.spaces.models import Record, Space
from memory.feedback.models import Vote
from memory.memories.inputs import MemoryIn
from memory.memories.memories import create_memory
from memory.memories.models import Memory
from tests import factories
from tests.memory.mcp.conftest import Door, text_of

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def limited(team: Team, **limits: Any) -> str:
    return create_key(team=team, data=KeyIn(name="limited", **limits), actor="test")[1]


def test_a_limited_key_uses_its_space(own_door: Callable[[str], Door], team: Team) -> None:
    own = factories.make_space(team, "own")
    factories.make_record(own, title="Postgres of our own")
    create_memory(team=team, data=MemoryIn(content="Postgres of the team"), actor="test")

    async def story(client: Client) -> None:
        context = await client.call_tool("get_context", {"space": "own", "query": "postgres"})
        number = int(text_of(context).split()[1].rstrip(":"))
        found = text_of(await client.call_tool("search", {"space": "own", "query": "postgres"}))
        assert "> Postgres of our own" in found
        assert "of the team" not in found
        kept = {"space": "own", "title": "A", "content": "B"}
        assert not (await client.call_tool("remember", kept)).is_error
        assert not (await client.call_tool("feedback", {"context": number, "rating": "up"})).is_error
        assert not (await client.call_tool("search", {"dropped_from": number})).is_error

    own_door(limited(team, spaces=["own"])).visit(story)
    assert Record.objects.get(source="mcp").space == own
    assert Vote.objects.get().space == own


def test_other_spaces_look_like_missing_ones(
    own_door: Callable[[str], Door], team: Team, space: Space
) -> None:
    factories.make_space(team, "own")
    theirs = factories.make_assembly(space)

    async def read_error(client: Client, tool: str, **arguments: Any) -> str:
        result = await client.call_tool(tool, arguments)
        assert result.is_error, result
        return text_of(result)

    async def story(client: Client) -> None:
        for tool, arguments in (
            ("get_context", {"query": "lock"}),
            ("search", {"query": "lock"}),
            ("remember", {"title": "A", "content": "B"}),
        ):
            said = await read_error(client, tool, space=space.slug, **arguments)
            missing = await read_error(client, tool, space="nowhere", **arguments)
            assert said.replace(space.slug, "nowhere") == missing
        said = await read_error(client, "search", dropped_from=theirs.id)
        assert said == f"There is no context {theirs.id}."
        said = await read_error(client, "explain", context=theirs.id, record="1")
        assert said == f"There is no context {theirs.id}."
        said = await read_error(client, "feedback", context=theirs.id, rating="up")
        missing = await read_error(client, "feedback", context=99_999_999, rating="up")
        assert said.replace(str(theirs.id), "99999999") == missing
        for tool, arguments in (("search", {"query": "lock"}), ("remember", {"title": "A", "content": "B"})):
            said = await read_error(client, tool, **arguments)
            assert said == "Name a space. This key is limited to: own."

    own_door(limited(team, spaces=["own"])).visit(story)
    assert Assembly.objects.count() == 1
    assert not Memory.objects.exists()
    assert not Vote.objects.exists()
    assert not Record.objects.filter(source="mcp").exists()


def test_requests_per_minute(address: str, team: Team) -> None:
    secret = limited(team, requests_per_minute=2)
    headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {secret}"}
    first, second, third = (httpx2.post(f"{address}/mcp", json=LIST, headers=headers) for _ in range(3))
    assert (first.status_code, first.headers["ratelimit-remaining"]) == (200, "1")
    assert second.headers["ratelimit"].startswith('"key";r=0;t=')
    assert (third.status_code, third.headers["ratelimit-limit"]) == (429, "2")
    assert 1 <= int(third.headers["retry-after"]) <= 30


def test_requests_per_minute_of_a_process(address: str, team: Team) -> None:
    secret = limited(team, requests_per_minute=2)

    async def story(client: Client) -> list[str]:
        calls = [await client.call_tool("search", {"query": "lock"}) for _ in range(3)]
        return [text_of(call) for call in calls]

    *_, last = Door("stdio", "legacy", secret, address).visit(story)
    assert last.startswith("This key may send 2 requests a minute.")
