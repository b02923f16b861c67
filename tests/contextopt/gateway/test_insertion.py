"""Contexts go into the original bytes and come out again without a trace."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.gateway.insertion import frame_block
from contextopt.gateway.prompts import (
    Prompt,
    Slot,
    Splice,
    TooLargeError,
    Turn,
    UnreadablePromptError,
    splice,
)
from contextopt.gateway.protocols import READERS, Place, find_places, read_prompt

BLOCK = 'Space: Support\n\n- [note] Queue "stuck" \\ \u2028 ✓ (2026-03-02)\n'

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
text_parts = st.fixed_dictionaries({"type": st.just("text"), "text": texts})
input_parts = st.fixed_dictionaries({"type": st.just("input_text"), "text": texts})
other_parts = st.fixed_dictionaries(
    {"type": st.sampled_from(["image", "image_url"]) | json_values, "data": texts}
)
result_parts = st.fixed_dictionaries(
    {
        "type": st.just("tool_result"),
        "tool_use_id": texts,
        "content": texts | st.lists(text_parts, max_size=2),
    }
)


def messages(part: Any, roles: list[str]) -> Any:
    content = texts | st.lists(part | other_parts, max_size=3)
    message = st.fixed_dictionaries({"role": st.sampled_from(roles) | json_values, "content": content})
    return st.lists(message | json_values, max_size=5)


requests = {
    "chat": st.fixed_dictionaries(
        {
            "model": texts,
            "messages": messages(text_parts, ["system", "developer", "user", "assistant", "tool"]),
        }
    ),
    "responses": st.fixed_dictionaries(
        {"input": texts | messages(input_parts, ["system", "user", "assistant"])},
        optional={"instructions": texts | st.none(), "previous_response_id": texts},
    ),
    "messages": st.fixed_dictionaries(
        {"messages": messages(text_parts | result_parts, ["user", "assistant"])},
        optional={"system": texts | st.none() | st.lists(text_parts, max_size=2)},
    ),
}
indents = st.sampled_from([None, 0, 3])


def dump(request: Any, extra: Any, indent: int | None, *, is_ascii: bool) -> bytes:
    text = json.dumps({"x": extra, **request}, indent=indent, ensure_ascii=is_ascii)
    return f" \n{text}\t".encode()


def placed(turn: Turn) -> Slot:
    """Return the place of a block in the form in which its text came."""
    return turn.slot(is_own_part=turn.is_part)


def slots(prompt: Prompt) -> list[Slot]:
    found = [placed(turn) for turn in prompt.turns]
    return [*found, *([prompt.system_slot] if prompt.system_slot else [])]


def take_out(body: bytes, splices: list[Splice]) -> bytes:
    """Remove what was spliced in, from the last to the first."""
    ordered = sorted(splices, key=lambda one: one.at)
    shifts = [sum(len(before.data) for before in ordered[:at]) for at in range(len(ordered))]
    for one, shift in reversed(list(zip(ordered, shifts, strict=True))):
        start = one.at + shift
        assert body[start : start + len(one.data)] == one.data
        body = body[:start] + body[start + len(one.data) :]
    return body


@given(json_values, indents, st.booleans())
def test_spans_are_those_of_the_values(value: Any, indent: int | None, is_ascii: bool) -> None:
    body = f"  {json.dumps(value, indent=indent, ensure_ascii=is_ascii)} ".encode()
    for depth in range(4):
        _compare(body, find_places(body, depth), value, depth)


def _compare(body: bytes, place: Place, value: Any, depth: int) -> None:
    assert json.loads(body[place.start : place.end]) == value
    if depth and isinstance(value, dict):
        assert place.members.keys() == value.keys()
        for name, inner in value.items():
            _compare(body, place.members[name], inner, depth - 1)
    elif depth and isinstance(value, list):
        for inside, inner in zip(place.elements, value, strict=True):
            _compare(body, inside, inner, depth - 1)
    else:
        assert not place.members
        assert not place.elements


@pytest.mark.parametrize("long", ["x" * 5_000, '\\"' * 2_000, "\\" * 2_001, '"]' * 201, "ø\n" * 1_001])
def test_places_behind_long_strings(long: str) -> None:
    value = [{long: [[long, {"a": long}, "b"], long]}, ["]"] * 500, 1]
    body = json.dumps(value).encode()
    for depth in range(5):
        _compare(body, find_places(body, depth), value, depth)


def test_the_last_of_a_repeated_name_counts() -> None:
    body = b'{"a": 1, "\\u0061": {"b": "]}\\""}, "c": []}'
    found = [body[place.start : place.end] for place in find_places(body, 1).members.values()]
    assert found == [b'{"b": "]}\\""}', b"[]"]


@pytest.mark.parametrize("protocol", requests)
@given(data=st.data())
def test_taking_it_out_restores_the_bytes(protocol: str, data: st.DataObject) -> None:
    request = data.draw(requests[protocol])
    body = dump(request, data.draw(json_values), data.draw(indents), is_ascii=data.draw(st.booleans()))
    prompt = read_prompt(protocol, body)
    splices = [one for slot in slots(prompt) for one in slot.splices(frame_block(BLOCK, "a1b2"))]
    changed = splice(body, splices)
    assert take_out(changed, splices) == body
    # It is valid JSON, and the block is in it as often as it was put in.
    assert json.dumps(json.loads(changed)).count("END RECORDS a1b2\\n") >= len(prompt.turns)


@pytest.mark.parametrize("protocol", requests)
@given(data=st.data())
def test_blocks_stand_before_their_texts(protocol: str, data: st.DataObject) -> None:
    body = dump(data.draw(requests[protocol]), None, data.draw(indents), is_ascii=False)
    prompt = read_prompt(protocol, body)
    for turn in prompt.turns:
        changed = read_prompt(protocol, splice(body, placed(turn).splices(BLOCK)))
        [again] = [one for one in changed.turns if one.item == turn.item]
        assert again.text in {turn.text, BLOCK + turn.text}
        assert BLOCK in changed.items[turn.item].text


def test_chat_positions() -> None:
    request = {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [{"type": "text", "text": "Q1"}, {"type": "image_url", "image_url": {}}],
            },
            {"role": "assistant", "content": None, "tool_calls": [{"function": {"arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "42"},
            {"role": "user", "content": "Q2"},
        ]
    }
    body = json.dumps(request).encode()
    prompt = read_prompt("chat", body)
    assert prompt.system_slot is not None
    changed = json.loads(splice(body, [one for slot in slots(prompt) for one in slot.splices("B\n")]))[
        "messages"
    ]
    assert changed[1] == {"role": "system", "content": "B\n"}
    assert changed[2]["content"][:2] == [{"type": "text", "text": "B\n"}, {"type": "text", "text": "Q1"}]
    assert changed[5]["content"] == "B\nQ2"
    assert not prompt.ends_in_tool_results


def test_without_a_system_message_one_is_added() -> None:
    body = b'{"messages":[{"role":"user","content":"Q"}]}'
    slot = read_prompt("chat", body).system_slot
    assert slot is not None
    changed = json.loads(splice(body, slot.splices("B")))
    assert changed["messages"][0] == {"role": "system", "content": "B"}


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("Be brief.", "Be brief.\n\nB"),
        ("", "B\n"),
        ([{"type": "text", "text": "A"}], [{"type": "text", "text": "A"}, {"type": "text", "text": "B\n"}]),
        ([], [{"type": "text", "text": "B\n"}]),
    ],
)
def test_messages_system(system: Any, expected: Any) -> None:
    body = json.dumps({"system": system, "messages": [{"role": "user", "content": "Q"}]}).encode()
    slot = read_prompt("messages", body).system_slot
    assert slot is not None
    assert json.loads(splice(body, slot.splices("B\n")))["system"] == expected


@pytest.mark.parametrize(("protocol", "name"), [("messages", "system"), ("responses", "instructions")])
def test_a_missing_system_prompt_is_added(protocol: str, name: str) -> None:
    item = {"role": "user", "content": "Q"}
    body = json.dumps({"messages": [item], "input": [item]}).encode()
    slot = read_prompt(protocol, body).system_slot
    assert slot is not None
    assert json.loads(splice(body, slot.splices("B\n")))[name] == "B\n"


def test_messages_after_tool_results() -> None:
    content = [
        {"type": "tool_result", "tool_use_id": "t", "content": "42"},
        {"type": "text", "text": "And now?"},
    ]
    body = json.dumps({"messages": [{"role": "user", "content": content}]}).encode()
    prompt = read_prompt("messages", body)
    changed = json.loads(splice(body, placed(prompt.turns[-1]).splices("B")))["messages"][0]["content"]
    assert [part.get("text", part["type"]) for part in changed] == ["tool_result", "B", "And now?"]


@pytest.mark.parametrize(
    ("protocol", "request_"),
    [
        ("chat", {"messages": [{"role": "user", "content": "Q"}, {"role": "tool", "content": "42"}]}),
        ("responses", {"input": [{"role": "user", "content": "Q"}, {"type": "function_call_output"}]}),
        (
            "messages",
            {
                "messages": [
                    {"role": "user", "content": "Q"},
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "t"}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]},
                ]
            },
        ),
    ],
)
def test_turns_that_end_in_tool_results(protocol: str, request_: Any) -> None:
    prompt = read_prompt(protocol, json.dumps(request_).encode())
    assert prompt.ends_in_tool_results
    assert [turn.text for turn in prompt.turns] == ["Q"]


@pytest.mark.parametrize("protocol", READERS)
@pytest.mark.parametrize("odd", [["user"], {"user": 1}, 1, None])
def test_roles_and_types_that_are_no_texts(protocol: str, odd: Any) -> None:
    said = [
        {"role": odd, "type": odd, "content": "a"},
        {"role": "user", "content": [{"type": odd, "text": "b"}]},
        {"role": "user", "content": "c"},
    ]
    prompt = read_prompt(protocol, json.dumps({"messages": said, "input": said}).encode())
    assert [turn.text for turn in prompt.turns] == ["c"]
    assert not prompt.ends_in_tool_results


@pytest.mark.parametrize("body", [b"", b"{", b"3", b'{"messages": {}}', b"\xff\xfe{", b'{"a": "\xff"}'])
def test_other_bytes_are_unreadable(body: bytes) -> None:
    with pytest.raises(UnreadablePromptError):
        read_prompt("chat", body)


@pytest.mark.parametrize(
    ("part", "is_read"),
    [
        ("A" * 1_000, True),
        ("ab/+" * 250, True),
        ("word " * 200, False),
        ("A\n" * 500, False),
        ("語" * 500, False),
    ],
)
def test_images_and_files_are_no_text(part: str, is_read: bool) -> None:
    parts = [{"type": "text", "text": "Q"}, {"type": "image_url", "image_url": {"url": part * 5_000}}]
    request = {"messages": [{"role": "user", "content": parts}]}
    body = json.dumps(request, ensure_ascii=False).replace("/", r"\/").encode() + b" " * 4_000_000
    if is_read:
        assert read_prompt("chat", body).turns[0].text == "Q"
    else:
        with pytest.raises(TooLargeError):
            read_prompt("chat", body)


def test_deep_nesting_is_no_fault() -> None:
    body = b'{"x":' + b"[" * 100 + b"]" * 100 + b',"messages":[{"role":"user","content":"Q"}]}'
    assert read_prompt("chat", body).turns[0].text == "Q"
