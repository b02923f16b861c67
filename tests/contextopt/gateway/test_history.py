"""The history is cut at turn borders, and a tool's result never goes on without its call."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.gateway.prompts import (
    Prompt,
    cut_history,
    cut_spans,
    dropped_items,
    latest_cut,
    splice,
    spoken_tokens,
)
from contextopt.gateway.protocols import read_prompt

LISTS = {"chat": "messages", "responses": "input", "messages": "messages"}
USED = re.compile(r"(call|result)#(\d+);")


def count(text: str) -> int:
    return len(text.split())


def cut(protocol: str, request: Any, limit: int, held: int = 0) -> tuple[list[Any], int]:
    """Return what is left of a request's list, and the turn that it was cut at."""
    body = json.dumps(request, indent=1).encode()
    prompt = read_prompt(protocol, body)
    turn = cut_history(prompt, limit, count, held)
    left = json.loads(splice(body, [], cut_spans(prompt, turn)))
    assert len(left[LISTS[protocol]]) == len(prompt.items) - len(dropped_items(prompt, turn))
    return left[LISTS[protocol]], turn


def conversation() -> dict[str, Any]:
    call = {"role": "assistant", "tool_calls": [{"function": {"arguments": "one two three"}}]}
    said = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "one two three four"},
        call,
        {"role": "tool", "content": "five six seven"},
        {"role": "developer", "content": "D"},
        {"role": "user", "content": "eight nine"},
        {"role": "assistant", "content": "ten"},
        {"role": "user", "content": "last"},
    ]
    return {"messages": said}


@pytest.mark.parametrize(("limit", "left"), [(100, 8), (13, 8), (12, 5), (6, 5), (5, 3), (0, 3)])
def test_history_is_cut_at_turn_borders_to_half_of_the_limit(limit: int, left: int) -> None:
    said, _ = cut("chat", conversation(), limit)
    assert len(said) == left
    assert [one["content"] for one in said if one["role"] in {"system", "developer"}] == ["S", "D"]
    assert said[-1]["content"] == "last"
    tools = [one["role"] for one in said if one["role"] == "tool" or "tool_calls" in one]
    assert tools in ([], ["assistant", "tool"])


def test_a_cut_stays_until_the_limit_is_reached() -> None:
    """Each turn has 10 words, so the history of 100 has place for 10."""
    said: list[Any] = []
    turn, cuts = 0, []
    for number in range(40):
        said += [{"role": "user", "content": f"question {number} {'word ' * 5}"}]
        left, turn = cut("chat", {"messages": said}, 100, turn)
        assert sum(count(one["content"]) for one in left[:-1]) <= 100
        cuts.append(turn)
        said += [{"role": "assistant", "content": "yes it is"}]
    assert sorted(set(cuts)) == [0, 6, 12, 18, 24, 30]
    assert cuts == sorted(cuts)


def test_a_raised_limit_brings_the_history_back() -> None:
    assert cut("chat", conversation(), 13, held=1)[1] == 0


def turn_of(number: int) -> list[Any]:
    """A call, and its result beside the user's next text, as when someone types while a tool runs."""
    call = {"type": "tool_use", "id": f"t{number}", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "word " * 20}
    asked = {"type": "text", "text": f"question {number}"}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result, asked]}]


def test_a_result_beside_a_text_goes_with_its_call() -> None:
    said = [{"role": "user", "content": "first"}, *turn_of(1), *turn_of(2), *turn_of(3)]
    left, turn = cut("messages", {"messages": said}, 30)
    assert turn == 2
    assert left == [{"role": "user", "content": said[4]["content"][1:]}, *said[5:]]


def test_the_last_results_keep_their_calls() -> None:
    """Even if nothing can be cut because of that."""
    said = [{"role": "user", "content": "word " * 50}, *turn_of(1)]
    assert cut("messages", {"messages": said}, 10) == (said, 0)


def test_results_of_stored_calls_stay() -> None:
    """With `previous_response_id` the provider has the call."""
    output = {"type": "function_call_output", "call_id": "c", "output": "word " * 50}
    said = [{"role": "user", "content": text} for text in ("old", "one two", "last")]
    said.insert(2, output)
    left, _ = cut("responses", {"input": said, "previous_response_id": "r"}, 10)
    assert left == said[1:]


@dataclass
class Story:
    """A conversation that grows as a client writes it down. Calls and results are numbered in pairs."""

    protocol: str
    draw: Any
    said: list[Any] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(10_000)))

    def id_of(self, number: int) -> str:
        """Some servers name their calls alike in each turn."""
        return f"id{number % 3}" if self.alike else f"id{number}"

    def __post_init__(self) -> None:
        self.alike = self.draw(st.booleans())
        self.continues = self.protocol == "responses" and self.draw(st.booleans())

    def text(self) -> str:
        return " ".join(self.draw(st.lists(st.sampled_from(["word", "Ærø", '"', "\\"]), max_size=12)))

    def ask(self) -> None:
        self.said.append({"role": "user", "content": self._content(self.text() + " asked")})

    def _content(self, text: str) -> Any:
        kind = "input_text" if self.protocol == "responses" else "text"
        part = {"type": kind, "text": text}
        image = {"type": "image", "source": {"data": "AAAA"}}
        return self.draw(st.sampled_from([text, [part], [image, part], [part, part]]))

    def disturb(self) -> None:
        odd = [
            {"role": "system", "content": "instructed"},
            {"role": "assistant", "content": "said"},
            {"role": "user", "content": []},
            {"role": "user", "content": "typed in between"},
            None,
            7,
            {"type": "reasoning", "summary": [], "id": "rs"},
        ]
        self.said += self.draw(st.lists(st.sampled_from(odd), max_size=2))

    def use_tools(self) -> None:
        """Call one to three tools at once, and bring the results, with anything in between."""
        numbers = [next(self.numbers) for _ in range(self.draw(st.integers(1, 3)))]
        {"chat": self._chat, "responses": self._responses, "messages": self._messages}[self.protocol](numbers)

    def _chat(self, numbers: list[int]) -> None:
        if self.draw(st.booleans()):
            calls = [
                {"id": self.id_of(one), "type": "function", "function": {"arguments": f"call#{one};"}}
                for one in numbers
            ]
            self.said.append({"role": "assistant", "content": None, "tool_calls": calls})
            results = [
                {"role": "tool", "tool_call_id": self.id_of(one), "content": self._result(one)}
                for one in numbers
            ]
        else:
            call = {"name": "f", "arguments": f"call#{numbers[0]};"}
            self.said.append({"role": "assistant", "content": None, "function_call": call})
            results = [{"role": "function", "name": "f", "content": self._result(numbers[0])}]
        self._bring(results)

    def _responses(self, numbers: list[int]) -> None:
        kinds = ["function_call", "custom_tool_call", "local_shell_call", "mcp"]
        kind = self.draw(st.sampled_from([*kinds, "stored" if self.continues else "reference"]))
        self._bring([self._answer_of(kind, one) for one in numbers])

    def _answer_of(self, kind: str, number: int) -> dict[str, Any]:
        """Write a call down, and return its result."""
        name, text = self.id_of(number), self._result(number)
        given = {"arguments": f"call#{number};"}
        match kind:
            case "mcp":
                self.said.append({"type": "mcp_approval_request", "id": name, **given})
                return {"type": "mcp_approval_response", "approval_request_id": name, "reason": text}
            case "local_shell_call":
                # The call's id is the only name that the output repeats.
                self.said.append({"type": kind, "id": name, **given})
                return {"type": "local_shell_call_output", "id": name, "output": text}
            case "reference":
                self.said.append({"type": "item_reference", "id": given["arguments"]})
                return {"type": "function_call_output", "call_id": f"r{number}", "output": text}
            case "stored":
                return {"type": "function_call_output", "call_id": f"s{number}", "output": text}
        self.said.append({"type": kind, "id": f"fc_{number}", "call_id": name, **given})
        return {"type": f"{kind}_output", "call_id": name, "output": text}

    def _messages(self, numbers: list[int]) -> None:
        prefix = self.draw(st.sampled_from(["", "server_", "mcp_"]))
        calls = [
            {"type": f"{prefix}tool_use", "id": self.id_of(one), "input": f"call#{one};"} for one in numbers
        ]
        kind = {"": "tool_result", "server_": "web_search_tool_result", "mcp_": "mcp_tool_result"}[prefix]
        results = [
            {"type": kind, "tool_use_id": self.id_of(one), "content": [{"text": self._result(one)}]}
            for one in numbers
        ]
        if prefix and self.draw(st.booleans()):
            self.said.append({"role": "assistant", "content": [*calls, *results]})
            return
        self.said.append({"role": "assistant", "content": [{"type": "text", "text": "x"}, *calls]})
        if self.draw(st.booleans()):
            self.disturb()
        beside = [{"type": "text", "text": text} for text in self.draw(st.sampled_from([[], ["beside it"]]))]
        if self.draw(st.booleans()):
            self.said.append({"role": "user", "content": [*results, *beside]})
        else:
            self.said += [{"role": "user", "content": [*beside, one]} for one in results]

    def _bring(self, results: list[Any]) -> None:
        for one in results:
            if self.draw(st.integers(0, 3)) == 0:
                self.disturb()
            self.said.append(one)

    def _result(self, number: int) -> str:
        return f"result#{number}; {self.text()}"


@st.composite
def stories(draw: Any, protocol: str) -> dict[str, Any]:
    story = Story(protocol, draw)
    steps: list[Callable[[], None]] = [story.ask, story.use_tools, story.use_tools, story.disturb]
    for step in draw(st.lists(st.sampled_from(range(len(steps))), max_size=10)):
        steps[step]()
    if draw(st.booleans()):
        story.ask()
    continued = {"previous_response_id": "r"} if story.continues else {}
    return {LISTS[protocol]: story.said, **continued}


def used(said: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {"call": set(), "result": set()}
    for kind, number in USED.findall(json.dumps(said)):
        found[kind].add(number)
    return found


@pytest.mark.parametrize("protocol", LISTS)
@given(data=st.data())
def test_a_call_and_its_result_are_never_parted(protocol: str, data: st.DataObject) -> None:
    request = data.draw(stories(protocol))
    said, prompt = request[LISTS[protocol]], read_prompt(protocol, json.dumps(request).encode())
    if not prompt.turns:
        return
    limit, held = data.draw(st.integers(0, 60)), data.draw(st.integers(0, len(prompt.turns) - 1))
    left, turn = cut(protocol, request, limit, held)
    found, before = used(left), used(said)
    stored = before["result"] - before["call"]
    assert found["result"] == found["call"] | stored
    is_kept_whole(prompt, said, left)
    assert turn == latest_cut(prompt) or left_of(prompt, turn) <= limit


def left_of(prompt: Prompt, turn: int) -> int:
    last = len(prompt.turns) - 1
    return spoken_tokens(prompt, turn, count) - spoken_tokens(prompt, last, count)


def is_kept_whole(prompt: Prompt, said: list[Any], left: list[Any]) -> None:
    """Check that the last turn and all instructions are still there, and that nothing else appeared."""
    last = said[prompt.turns[-1].item :]
    assert left[-len(last) :] == last
    instructions = [one for one in said if isinstance(one, dict) and one.get("role") == "system"]
    assert [one for one in left if one in instructions] == instructions
    rest = iter(said)
    for kept in left:
        assert any(kept == one or is_part(kept, one) for one in rest)


def is_part(kept: Any, whole: Any) -> bool:
    """Tell whether a message lost some of its parts and nothing else."""
    if not (isinstance(kept, dict) and isinstance(whole, dict) and isinstance(kept.get("content"), list)):
        return False
    if not isinstance(whole.get("content"), list) or {**kept, "content": 0} != {**whole, "content": 0}:
        return False
    parts = iter(whole["content"])
    return all(any(part == one for one in parts) for part in kept["content"])
