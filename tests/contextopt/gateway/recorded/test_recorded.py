"""Requests of real clients through a real gateway. They were recorded, and then put into our own words.

Each file beside this one has a client's requests in their order. `after` is the number of the request before
it in the same conversation, `status` what the gateway says, and `question` what the person asked. Where a
client changes what it sent before, `shared` is the share that both requests have in common all the same.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from contextopt.gateway.models import GatewayRequest
from contextopt.spaces.configs import publish_settings
from tests import factories
from tests.concurrency import wait_until
from tests.contextopt.gateway.conftest import LATE, Caller, Process
from tests.contextopt.gateway.test_recognition import late_contexts
from tests.gateway_upstream import Upstream

FOLDER = Path(__file__).parent
CLIENTS = sorted(path.stem for path in FOLDER.glob("*.json"))
OPENING = rb'{"type":"%s","text":'
BLOCK = (
    rb"The lines between BEGIN RECORDS (\w{8}) and END RECORDS \1 (?:(?!RECORDS \1).)*BEGIN RECORDS \1"
    rb"(?:(?!RECORDS \1).)*END RECORDS \1\\n\\n"
)
STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
# A provider's cache holds what two prompts have in common at their beginning.
SHARED_LEAST = 0.99
RECORDS = (
    "lock", "worker", "relay", "files", "order of restarts", "drain", "deploy on Friday", "Monday", "notes",
    "page", "helper", "compaction",
)  # fmt: skip

type Inserting = Callable[..., Caller]
type Recorded = list[dict[str, Any]]


@pytest.fixture(params=CLIENTS)
def recorded(request: pytest.FixtureRequest) -> Recorded:
    return read(request.param)


def read(client: str) -> Recorded:
    requests: Recorded = json.loads((FOLDER / f"{client}.json").read_text())
    return requests


def body_of(request: dict[str, Any]) -> bytes:
    """Return a request's bytes. All of these clients write JSON without spaces between values."""
    return json.dumps(request["body"], ensure_ascii=False, separators=(",", ":")).encode()


def send(caller: Caller, upstream: Upstream, request: dict[str, Any], *, is_late: bool = False) -> str:
    """Send a request, check that it only gained blocks on its way, and return its status."""
    body, headers = body_of(request), {"Content-Type": "application/json", **request["headers"]}
    if is_late:
        response = caller.send(request["path"], body, headers)
    else:
        response = caller.post(request["path"], body, **headers)
    assert without_blocks(upstream.got[-1].body, body) == body
    return str(response.headers["x-contextopt-status"])


def without_blocks(sent: bytes, original: bytes) -> bytes:
    """Take the blocks out of a request's bytes."""
    opening = OPENING % (b"input_text" if "input" in json.loads(original) else b"text")
    rest = re.sub(rb'%b"%b"},' % (re.escape(opening), BLOCK), b"", sent)
    rest, kept, at = re.sub(BLOCK, b"", rest), b"", 0
    # The rest are plain texts that became parts for their blocks.
    while (same := at + shared_length(rest[at:], original[len(kept) :])) < len(rest):
        text = STRING.match(rest, same + 1 + len(opening))
        assert text is not None and rest[same:].startswith(b"[" + opening), rest[same:][:200]
        assert rest.startswith(b"}]", text.end())
        kept, at = kept + rest[at:same] + text[0], text.end() + 2
    return kept + rest[at:]


def shared_length(one: Sequence[object], other: Sequence[object]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def rendered(sent: Any) -> str:
    """Return the messages as a provider shows them to the model: a plain text is a single part."""
    lines = []
    for item in sent.get("messages") or sent["input"]:
        content = item.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        shown = [{name: value for name, value in part.items() if name != "cache_control"} for part in parts]
        rest = {name: value for name, value in item.items() if name != "content"}
        lines += [json.dumps(rest), *map(json.dumps, shown)]
    return "\n".join(lines)


def shared(earlier: Any, later: Any) -> float:
    """Return the share of a prompt that a later one begins with."""
    before, after = rendered(earlier), rendered(later)
    return shared_length(before, after) / len(before)


def add_records(caller: Caller) -> None:
    """Add more records than a single context has room for, so that later questions bring further ones."""
    for one in RECORDS:
        notes = f"What we know of the {one}: its page in the runbook says more. " * 8
        factories.make_record(caller.space, title=f"About the {one}", notes=notes)
    publish_settings(space=caller.space, created_by="test", context_tokens=400)


def test_only_persons_questions_get_a_context(
    inserting: Inserting, upstream: Upstream, recorded: Recorded
) -> None:
    caller = inserting(placement="append", keep="question")
    add_records(caller)
    asked = []
    for number, request in enumerate(recorded):
        assert (number, send(caller, upstream, request)) == (number, request["status"])
        asked += [request["question"]] if request.get("question") else []
    rows = GatewayRequest.objects.filter(is_inserted=True)
    wait_until(lambda: rows.count() >= sum(one["status"] == "inserted" for one in recorded))
    assert set(asked) <= set(rows.values_list("question", flat=True))


@dataclass
class Replay:
    """A client's requests, and what went upstream for those that were sent already."""

    requests: Recorded
    sent: list[Any] = field(default_factory=list)

    @property
    def late(self) -> int:
        """The number of the second question that goes on with a conversation."""
        asked = [one.get("question") and "after" in one and one["status"] for one in self.requests]
        first = asked.index("inserted")
        return asked.index("inserted", first + 1)

    def send_next(self, caller: Caller, upstream: Upstream, *, is_late: bool = False) -> str:
        """Send the next request, check that it begins as the one before did, and return its status."""
        request = self.requests[len(self.sent)]
        status = send(caller, upstream, request, is_late=is_late)
        self.sent.append(json.loads(upstream.got[-1].body))
        if "after" in request:
            share = shared(self.sent[request["after"]], self.sent[-1])
            assert share >= request.get("shared", SHARED_LEAST), len(self.sent)
        return status

    def send_until(self, number: int, caller: Caller, upstream: Upstream) -> None:
        while len(self.sent) < number:
            self.send_next(caller, upstream)

    @property
    def blocks(self) -> int:
        """The blocks in the request that has most of them."""
        return max(len(re.findall(BLOCK, json.dumps(body).encode())) for body in self.sent)


def test_consecutive_prompts_share_their_beginning(
    inserting: Inserting, process: Process, upstream: Upstream
) -> None:
    """Also after a context that came too late, and after a restart of the gateway."""
    caller = inserting(placement="append", time_limit_ms=1_000)
    add_records(caller)
    replays = [Replay(read(client)) for client in CLIENTS]
    for replay in replays:
        replay.send_until(replay.late, caller, upstream)
        with late_contexts():
            assert replay.send_next(caller, upstream, is_late=True) in LATE
        replay.send_until(replay.late + 2, caller, upstream)
    process.stop()
    process.start()
    for replay in replays:
        replay.send_until(len(replay.requests), caller, upstream)
        assert replay.blocks > 1


def test_a_cut_history_leaves_no_result_without_its_call(
    inserting: Inserting, upstream: Upstream, recorded: Recorded
) -> None:
    caller = inserting(placement="append", history_tokens=300)
    for request in recorded:
        body = body_of(request)
        caller.post(request["path"], body, **request["headers"])
        calls, results = pairs(json.loads(upstream.got[-1].body))
        assert results <= calls


def pairs(sent: Any) -> tuple[set[str], set[str]]:
    """Return the IDs of the calls of tools in a prompt, and those that its results answer."""
    calls, results = set(), set()
    for item in sent.get("messages") or sent["input"]:
        parts = item["content"] if isinstance(item.get("content"), list) else []
        calls |= {part["id"] for part in parts if part["type"] == "tool_use"}
        results |= {part["tool_use_id"] for part in parts if part["type"] == "tool_result"}
        calls |= {call["id"] for call in item.get("tool_calls") or []}
        results |= {item["tool_call_id"]} if item.get("role") == "tool" else set()
        calls |= {item["call_id"]} if item.get("type") == "function_call" else set()
        results |= {item["call_id"]} if item.get("type") == "function_call_output" else set()
    return calls, results
