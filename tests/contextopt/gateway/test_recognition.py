"""A conversation's prompts go on beginning alike, whatever happens to their contexts.

The provider's cache holds only prompts that begin alike.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction

from contextopt.assemblies.purge import purge_record
from contextopt.engine.text.encodings import CL100K
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.gateway.insertion import BlockTexts
from contextopt.gateway.models import GatewayPolicy, GatewayRequest
from contextopt.gateway.prompts import count_tokens
from contextopt.spaces.configs import publish_settings
from contextopt.spaces.models import Record
from tests.concurrency import wait_until
from tests.contextopt.gateway.conftest import LATE, Caller, Process, gateway_process, said
from tests.contextopt.gateway.test_failures import outage
from tests.gateway_upstream import Upstream

ASKED = ["Why is the queue stuck?", "And why was the mail late?", "Who can restart it?", "What is next?"]
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
LISTS = {"chat": "messages", "responses": "input", "messages": "messages"}
BLOCK = re.compile(r"The lines between BEGIN RECORDS (\w{8}).*?END RECORDS \1\n+", re.DOTALL)

type Inserting = Callable[..., Caller]


@contextmanager
def late_contexts() -> Iterator[None]:
    """Make every context slow by a lock on the records. The log can be read all the same."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE contextopt_record IN ACCESS EXCLUSIVE MODE")
        yield


def turns(number: int) -> list[str]:
    """Return the texts up to the question of this number, which is 1 for the first."""
    return [text for asked in ASKED[:number] for text in (asked, "Yes.")][:-1]


def request_of(protocol: str, number: int) -> bytes:
    """Return a request with spaces and line breaks of its own."""
    return json.dumps({"model": "m", LISTS[protocol]: said(*turns(number))}, indent=3).encode()


def sent(upstream: Upstream) -> list[Any]:
    body = upstream.got[-1].json
    return list(body.get("messages") or body["input"])


def blocks(upstream: Upstream) -> list[int]:
    """Return how many blocks each message has that went upstream last."""
    return [len(BLOCK.findall(json.loads(json.dumps(one["content"])))) for one in sent(upstream)]


def ask(caller: Caller, protocol: str, number: int, *, is_late: bool = False) -> str:
    """Ask the question of this number; return what became of its context."""
    body = request_of(protocol, number)
    response = caller.send(PATHS[protocol], body, {}) if is_late else caller.post(PATHS[protocol], body)
    return str(response.headers["x-contextopt-status"])


def without_blocks(body: bytes) -> bytes:
    """Take the blocks out of the bytes. They are texts in JSON, so their line breaks are escaped."""
    escaped = rb"The lines between BEGIN RECORDS (\w{8}).*?END RECORDS \1(?:\\n)+"
    return re.sub(escaped, b"", body, flags=re.DOTALL)


@pytest.mark.parametrize("protocol", PATHS)
def test_a_late_context_takes_nothing_away(inserting: Inserting, upstream: Upstream, protocol: str) -> None:
    caller = inserting(placement="append")
    for number in (1, 2):
        ask(caller, protocol, number)
        caller.logged(number)
    before = sent(upstream)
    with late_contexts():
        assert ask(caller, protocol, 3, is_late=True) in LATE
    assert sent(upstream)[: len(before)] == before
    assert blocks(upstream)[-1] == 0
    assert without_blocks(upstream.got[-1].body) == request_of(protocol, 3)
    late = sent(upstream)
    assert ask(caller, protocol, 4) == "inserted"
    assert sent(upstream)[: len(late)] == late


def test_a_late_context_is_logged_with_the_blocks_that_went_back(
    inserting: Inserting, upstream: Upstream
) -> None:
    caller = inserting(placement="append")
    ask(caller, "chat", 1)
    [first] = caller.logged()
    with late_contexts():
        ask(caller, "chat", 2, is_late=True)
    late = GatewayRequest.objects.filter(reason__in=LATE, turn=1)
    wait_until(late.exists)
    row = late.latest("id")
    assert (row.is_inserted, row.assembly_id) == (False, None)
    assert first.assembly is not None
    assert row.context_tokens == count_tokens(first.assembly.payload.text, get_tokenizer(CL100K))


def test_a_session_outlasts_its_system_prompt(inserting: Inserting, upstream: Upstream) -> None:
    """Coding tools put the date, the model and the state of the repository there."""
    caller = inserting(placement="append")

    def ask_in(day: str, number: int, **headers: str) -> Any:
        messages = [{"role": "system", "content": f"Today is {day}."}, *said(*turns(number))]
        caller.post("/v1/chat/completions", {"model": "m", "messages": messages}, **headers)
        return sent(upstream)

    first = ask_in("Friday", 1, x_session_id="one")[1]
    assert ask_in("Saturday", 2, x_session_id="one")[1] == first
    ask_in("Friday", 1, x_session_id="two")
    ask_in("Friday", 1, x_session_id="one", x_agent_id="reader")
    one, again, two, reader = [row.conversation for row in caller.logged(4)]
    assert one == again
    assert len({one, two, reader}) == 3


def test_a_late_context_leaves_the_system_prompt_alone(inserting: Inserting, upstream: Upstream) -> None:
    caller = inserting(placement="system")
    ask(caller, "chat", 1)
    caller.logged()
    before = sent(upstream)
    assert blocks(upstream) == [1, 0]
    with late_contexts():
        ask(caller, "chat", 2, is_late=True)
    assert sent(upstream)[:2] == before


def test_at_the_tail_no_block_goes_back(inserting: Inserting, upstream: Upstream) -> None:
    """It is left out of the next prompt anyway."""
    caller = inserting(placement="tail")
    ask(caller, "chat", 1)
    caller.logged()
    with late_contexts():
        ask(caller, "chat", 2, is_late=True)
    assert upstream.got[-1].body == request_of("chat", 2)


CALL = {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f"}}]}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "42"}


@pytest.mark.parametrize("placement", ["system", "tail", "append", "auto"])
def test_a_tool_turn_needs_no_decision(inserting: Inserting, upstream: Upstream, placement: str) -> None:
    caller = inserting(placement=placement)
    ask(caller, "chat", 1)
    caller.logged()
    before = sent(upstream)
    with late_contexts():
        body = {"model": "m", "messages": [*said(*turns(1)), CALL, RESULT]}
        response = caller.send(PATHS["chat"], body, {})
    assert response.headers["x-contextopt-status"] == "inserted"
    assert sent(upstream) == [*before, CALL, RESULT]


def test_a_tool_turn_whose_question_has_no_context_keeps_earlier_ones(
    inserting: Inserting, upstream: Upstream
) -> None:
    caller = inserting(placement="append")
    ask(caller, "chat", 1)
    caller.logged()
    with late_contexts():
        ask(caller, "chat", 2, is_late=True)
    before = sent(upstream)
    assert blocks(upstream) == [1, 0, 0]
    messages = [*said(*turns(2)), CALL, RESULT]
    response = caller.post(PATHS["chat"], {"model": "m", "messages": messages})
    assert response.headers["x-contextopt-status"] == "tool_results"
    assert sent(upstream) == [*before, CALL, RESULT]


def test_an_edited_question_gets_no_block_back(inserting: Inserting, upstream: Upstream) -> None:
    caller = inserting(placement="append")
    caller.chat(ASKED[0], X_Contextopt_Conversation="c")
    caller.logged()
    edited = said(f"{ASKED[0]} Really?", "Yes.", ASKED[1])
    with late_contexts():
        named = {"X-Contextopt-Conversation": "c"}
        caller.send(PATHS["chat"], {"model": "m", "messages": edited}, named)
    assert sent(upstream) == edited


def test_purged_text_does_not_go_back(inserting: Inserting, upstream: Upstream) -> None:
    caller = inserting(placement="append")
    ask(caller, "chat", 1)
    caller.logged()
    purge_record(record=Record.objects.get(title="Queue stuck after deploy"))

    def is_out() -> bool:
        ask(caller, "chat", 2, is_late=True)
        return b"Workers hold" not in upstream.got[-1].body

    with late_contexts():
        # Only a database that does not answer in time leaves the text as it was.
        wait_until(is_out)


def test_the_database_takes_no_block_along(caller: Caller, upstream: Upstream, tmp_path: Path) -> None:
    GatewayPolicy.objects.create(space=caller.space, mode="insert", placement="append")
    process = gateway_process(upstream, tmp_path)
    process.start()
    try:
        own = Caller(caller.space, caller.secret, process.address)
        ask(own, "messages", 1)
        own.logged()
        before = sent(upstream)
        with outage():
            assert ask(own, "messages", 2, is_late=True) in {"unavailable", "failed", *LATE}
        assert sent(upstream)[:1] == before
    finally:
        process.stop()


@pytest.mark.parametrize("placement", ["append", "system"])
def test_late_contexts_after_a_restart(
    inserting: Inserting, process: Process, upstream: Upstream, placement: str
) -> None:
    caller = inserting(placement=placement)
    for number in (1, 2):
        ask(caller, "chat", number)
        caller.logged(number)
    before = sent(upstream)
    process.stop()
    process.start()

    def is_back() -> bool:
        assert ask(caller, "chat", 3, is_late=True) in LATE
        return sent(upstream)[: len(before)] == before

    with late_contexts():
        wait_until(is_back)


def test_many_tool_turns_hide_no_block_after_a_restart(
    inserting: Inserting, process: Process, upstream: Upstream
) -> None:
    caller = inserting(placement="append")
    for number in (1, 2):
        ask(caller, "chat", number)
        caller.logged(number)
    before, [_, last] = sent(upstream), caller.logged(2)
    for _ in range(300):
        last.pk, last.uid = None, uuid4()
        last.save(force_insert=True)
    process.stop()
    process.start()
    ask(caller, "chat", 3)
    assert sent(upstream)[: len(before)] == before


def in_order(messages: list[Any]) -> bool:
    """Tell whether each result comes after its call."""
    called: set[str] = set()
    for message in messages:
        for part in message["content"]:
            called |= {part["id"]} if part["type"] == "tool_use" else set()
            if part["type"] == "tool_result" and part["tool_use_id"] not in called:
                return False
    return True


def test_a_cut_takes_results_along_with_their_calls(inserting: Inserting, upstream: Upstream) -> None:
    """The user types on while each tool runs, so a result and the next text are in one message."""
    messages: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "word " * 300}]}]
    for number in range(4):
        use = {"type": "tool_use", "id": f"t{number}", "name": "f", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "word " * 300}
        text = {"type": "text", "text": f"old {number} {'word ' * 300}" if number < 3 else ASKED[0]}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result, text]}]
    caller = inserting(history_tokens=800, placement="tail")
    response = caller.post(PATHS["messages"], {"model": "m", "max_tokens": 9, "messages": messages})
    assert response.headers["x-contextopt-status"] == "inserted"
    assert in_order(sent(upstream))
    assert len(sent(upstream)) == 3
    assert sent(upstream)[0]["content"] == messages[-3]["content"][1:]
    assert sent(upstream)[1] == messages[-2]


class LongTalk:
    """A conversation whose turns have about 50 tokens each."""

    def __init__(self, caller: Caller, upstream: Upstream) -> None:
        self.caller, self.upstream, self.texts = caller, upstream, list[str]()

    def ask(self, *, is_late: bool = False) -> str:
        """Ask on, and return the first text that went upstream."""
        self.texts += ["Yes."] if self.texts else []
        self.texts.append(f"Question {len(self.texts)}: {'word ' * 45}")
        body = {"model": "m", "messages": said(*self.texts)}
        if is_late:
            self.caller.send(PATHS["chat"], body, {})
        else:
            self.caller.post(PATHS["chat"], body)
        return BLOCK.sub("", sent(self.upstream)[0]["content"])[:15].strip()


def test_a_cut_stays_where_it_is(inserting: Inserting, process: Process, upstream: Upstream) -> None:
    """The history may have 400 tokens, so it is cut at the ninth turn, and again at the fourteenth."""
    talk = LongTalk(inserting(history_tokens=400, placement="append"), upstream)
    first = [talk.ask() for _ in range(9)]
    assert set(first[:8]) == {first[0]} != {first[8]}
    assert talk.ask() == first[8]
    talk.caller.logged(10)
    process.stop()
    process.start()
    assert [talk.ask(), talk.ask()] == [first[8]] * 2
    assert len({talk.ask() for _ in range(4)} | {first[8]}) == 2


def test_a_late_context_keeps_the_cut(inserting: Inserting, upstream: Upstream) -> None:
    talk = LongTalk(inserting(history_tokens=400, placement="append"), upstream)
    *_, cut = [talk.ask() for _ in range(9)]
    talk.caller.logged(9)
    before = sent(upstream)
    with late_contexts():
        assert talk.ask(is_late=True) == cut
    assert sent(upstream)[: len(before)] == before


def test_a_prompt_without_room_is_cut_too(inserting: Inserting, upstream: Upstream) -> None:
    caller = inserting(history_tokens=100, placement="append")
    publish_settings(space=caller.space, created_by="test", total_tokens=6_000)
    system = {"role": "system", "content": "word " * 10_000}
    messages = [system, *said("old " * 300, "Yes.", ASKED[0])]
    response = caller.post(PATHS["chat"], {"model": "m", "messages": messages})
    assert response.headers["x-contextopt-status"] == "over_budget"
    assert sent(upstream) == [system, messages[-1]]


def test_remembered_texts_are_bounded() -> None:
    texts = BlockTexts(chars_max=10)
    texts.keep({1: "four", 2: "four"})
    texts.keep({1: "five!"})
    assert texts.find([1, 2]) == {1: "five!", 2: "four"}
    texts.keep({3: "three"})
    assert texts.find([3, 2, 1]) == {3: "three", 1: "five!"}
