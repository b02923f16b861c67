"""Reads prompts of the three protocols from their JSON.

The place of each value in the bytes is found too, so that text can be spliced in and no other byte changes.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic_core import from_json

from contextopt.engine.text.promptparts import BlockPattern, is_wrapped
from contextopt.gateway.clientprompts import is_handover, says_go_on
from contextopt.gateway.prompts import (
    Item,
    Prompt,
    Slot,
    Span,
    Splice,
    TooLargeError,
    ToolResult,
    Turn,
    UnreadablePromptError,
)
from contextopt.strictjson import has_more_values, string_end

type Patterns = Sequence[BlockPattern]
type Reader = Callable[[bytes, Patterns], Prompt]

# Reading this many takes up to 150 ms, depending on the values.
VALUES_MAX = 30_000
# No model reads more text. Parsing it would hold up streams, and counting its tokens would take seconds.
TEXT_MAX_BYTES = 8 * 2**20
# A long string that begins without spaces, escapes and non-ASCII characters is an image or a file. PHP
# escapes slashes.
_FILE = re.compile(rb'"(?:[!#-\[\]-~]|\\/){1000}')
# The request, its messages, each of them, and its parts.
DEPTH = 4
INSTRUCTING = frozenset({"system", "developer"})
TEXT_PARTS = frozenset({"text", "input_text"})
RESULT_ROLES = frozenset({"tool", "function"})
_CALL_TYPES = ("_call", "_approval_request")
_RESULT_TYPES = ("_output", "_approval_response")
# The fields in which a result names its call.
_ANSWERED = ("tool_call_id", "call_id", "approval_request_id", "id")
SYSTEM_GAP = "\n\n"
# Values under these names are not text for the model, or are images or files of unknown token size.
_ANSWER_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
# Fields of a request, and of a message, whose tokens are not those of text.
_NOT_TEXT = ("tools", "functions", "response_format", "text", "thinking", "mcp_servers", "container")
_CALLS = ("tool_calls", "function_call", "tool_call_id", "audio")
_NO_TEXT = frozenset({
    "type", "role", "id", "call_id", "tool_call_id", "tool_use_id", "data", "url", "image_url", "file_data",
    "file_id", "signature", "encrypted_content", "media_type", "status", "detail", "format", "cache_control",
})  # fmt: skip

_SPACE = re.compile(rb"[ \t\n\r]*+")
_SCALAR = re.compile(rb"[^ \t\n\r,\]}]++")
# Matches what is between brackets, up to a string that is long or has escapes. The limits keep a match from
# holding the interpreter for long.
_BETWEEN = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]{0,200}+"){0,200}+')
_QUOTE, _COMMA, _OBJECT, _OBJECT_END, _ARRAY_END = b'",{}]'
_OPEN, _CLOSE = frozenset(b"[{"), frozenset(b"]}")


class Place(NamedTuple):
    """A value's place, and those of the values in it, down to the depth that was searched."""

    start: int
    end: int
    members: Mapping[str, "Place"] = {}
    elements: Sequence["Place"] = ()

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


def read_chat(body: bytes, patterns: Patterns = ()) -> Prompt:
    """Read a request of /v1/chat/completions. Raises: UnreadablePromptError."""
    request, root = _parse(body)
    places, said = _list(root, request, "messages")
    items = _items(places, said, lambda value: _field(value, "role") in RESULT_ROLES)
    turns, added = _turns(body, places, said, items, "text", patterns)
    slot: Slot | None = None
    instructing = [number for number, item in enumerate(items) if item.is_system]
    if instructing:
        last = instructing[-1]
        slot = _message_slot(places[last].end, said[last]["role"], is_after=True)
    elif places:
        slot = _message_slot(places[0].start, "system", is_after=False)
    return _prompt(request, "", slot, items, turns, added)


def read_responses(body: bytes, patterns: Patterns = ()) -> Prompt:
    """Read a request of /v1/responses. Raises: UnreadablePromptError."""
    request, root = _parse(body)
    system = _field(request, "instructions")
    continues = bool(request.get("previous_response_id") or request.get("conversation"))
    given = request.get("input")
    places: Sequence[Place] = ()
    added: frozenset[int] = frozenset()
    if isinstance(given, str):
        place = root.members["input"]
        items = [Item(place.span, given)]
        turns = [Turn(given, Slot(place.start + 1), None, 0)] if given.strip() else []
    else:
        places, said = _list(root, request, "input")
        items = _items(places, said, lambda value: _field(value, "type").endswith("_output"))
        turns, added = _turns(body, places, said, items, "input_text", patterns)
    slot = _field_slot(body, root, "instructions")
    if slot is None and places:
        slot = _message_slot(places[0].start, "developer", is_after=False)
    return _prompt(request, system, slot, items, turns, added, continues=continues)


def read_messages(body: bytes, patterns: Patterns = ()) -> Prompt:
    """Read a request of /v1/messages. Raises: UnreadablePromptError."""
    request, root = _parse(body)
    places, said = _list(root, request, "messages")
    items = _items(
        places,
        said,
        lambda value: any(_field(part, "type") == "tool_result" for part in _values(value, "content")),
    )
    turns, added = _turns(body, places, said, items, "text", patterns)
    slot = _field_slot(body, root, "system")
    if isinstance(request.get("system"), list):
        place = root.members["system"]
        parts = place.elements
        at = parts[-1].end if parts else place.start + 1
        slot = Slot(at, (b"," if parts else b"") + b'{"type":"text","text":"', b'"}')
    return _prompt(request, text_in(request.get("system")), slot, items, turns, added)


READERS: Mapping[str, Reader] = {"chat": read_chat, "responses": read_responses, "messages": read_messages}


def read_prompt(protocol: str, body: bytes, patterns: Patterns = ()) -> Prompt:
    """Read a request of any protocol. `patterns` tell what the team's tools add to user texts.

    Raises: UnreadablePromptError, TooLargeError.
    """
    if has_more_values(body, VALUES_MAX) or has_more_text(body, TEXT_MAX_BYTES):
        raise TooLargeError
    return READERS[protocol](body, patterns)


def has_more_text(body: bytes, most: int) -> bool:
    """Tell whether a request has more bytes than `most`, without those of images and files."""
    at = in_files = 0
    while len(body) - in_files > most:
        start = body.find(b'"', at)
        if start < 0 or at - in_files > most:
            return True
        at = string_end(body, start)
        if _FILE.match(body, start):
            in_files += at - start
    return False


def _parse(body: bytes) -> tuple[dict[str, Any], Place]:
    try:
        request = from_json(body)
    except ValueError as error:
        raise UnreadablePromptError("is not JSON") from error
    if not isinstance(request, dict):
        raise UnreadablePromptError("is not a JSON object")
    return request, find_places(body, DEPTH)


def _list(root: Place, request: Mapping[str, Any], name: str) -> tuple[Sequence[Place], list[Any]]:
    value = request.get(name)
    if not isinstance(value, list):
        raise UnreadablePromptError(f"has no list {name}")
    return root.members[name].elements, value


def _items(places: Sequence[Place], said: Sequence[Any], is_result: Callable[[Any], bool]) -> list[Item]:
    """Return the items. `is_result` tells whether one counts as a tool's result in the protocol."""
    pairs = zip(places, said, strict=True)
    return [_item(place, value, is_tool_result=is_result(value)) for place, value in pairs]


def _item(place: Place, value: Any, *, is_tool_result: bool) -> Item:
    """Read an item with its calls of tools and their results, of whatever protocol."""
    text, parts = text_in(value), _values(value, "content")
    within = [
        ToolResult(_field(part, "tool_use_id"), text_in(part), number)
        for number, part in enumerate(parts)
        if _field(part, "type").endswith("tool_result")
    ]
    role = _field(value, "role")
    whole = []
    if role in RESULT_ROLES or _field(value, "type").endswith(_RESULT_TYPES):
        call = next(filter(None, (_field(value, name) for name in _ANSWERED)), "")
        whole = [ToolResult(call, text)]
    has_parts = bool(within) and not whole
    return Item(
        place.span,
        text,
        role in INSTRUCTING,
        is_tool_result,
        (
            *_calls(value),
            *(_field(part, "id") for part in parts if _field(part, "type").endswith("tool_use")),
        ),
        tuple(whole or within),
        tuple(part.span for part in place.members["content"].elements) if has_parts else (),
    )


def _calls(value: Any) -> list[str]:
    """Return the names of the calls in an item.

    The name is "" for a reference to a stored item, which may be a call, and for the calls of older clients,
    whose results name only the function.
    """
    names = [_field(call, "id") for call in _values(value, "tool_calls")]
    if isinstance(value, dict) and value.get("function_call"):
        names.append("")
    if _field(value, "type").endswith(_CALL_TYPES):
        # A few outputs name the call's `id`, the others its `call_id`.
        names += {_field(value, "call_id"), _field(value, "id")} - {""} or {""}
    return [*names, ""] if _field(value, "type") == "item_reference" else names


def _values(value: Any, name: str) -> list[Any]:
    """Return the list in a field of an object, or an empty one."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _prompt(
    request: Mapping[str, Any],
    system: str,
    slot: Slot | None,
    items: Sequence[Item],
    turns: Sequence[Turn],
    added: frozenset[int],
    *,
    continues: bool = False,
) -> Prompt:
    return Prompt(
        model=_field(request, "model"),
        is_streamed=request.get("stream") is True,
        system=system,
        # In the JSON that its tokens are counted in.
        tools=json.dumps(request["tools"], ensure_ascii=False) if request.get("tools") else "",
        system_slot=slot,
        items=tuple(items),
        turns=tuple(turns),
        added=added,
        continues=continues,
        answer_tokens=next((n for n in map(request.get, _ANSWER_LIMITS) if isinstance(n, int)), None),
        is_text_alone=not continues and _is_text_alone(request),
    )


def _is_text_alone(request: Mapping[str, Any]) -> bool:
    """Tell whether a prompt holds nothing but messages of text."""
    if any(request.get(name) for name in _NOT_TEXT):
        return False
    said = [_values(request, "messages"), _values(request, "input"), _values(request, "system")]
    return all(_is_text(value) for values in said for value in values)


def _is_text(value: Any) -> bool:
    if not isinstance(value, dict) or any(value.get(name) for name in _CALLS):
        return False
    if _field(value, "type") not in {"", "message", *TEXT_PARTS, "output_text"}:
        return False
    content = value.get("content", "")
    return isinstance(content, str) or (isinstance(content, list) and all(map(_is_text, content)))


def _turns(
    body: bytes,
    places: Sequence[Place],
    said: Sequence[Any],
    items: Sequence[Item],
    part: str,
    patterns: Patterns,
) -> tuple[list[Turn], frozenset[int]]:
    """Return the user's texts, and the items with texts that a client added after one of them.

    Only the last text of a message counts that a person wrote. Later messages cannot change what an earlier
    one is, so that blocks keep their places.
    """
    found: list[Turn] = []
    added: set[int] = set()
    has_person = False
    for number, (place, value) in enumerate(zip(places, said, strict=True)):
        if _field(value, "role") != "user" or "content" not in value:
            continue
        turn = _turn(body, place.members["content"], value["content"], number, part, patterns)
        if turn is None:
            continue
        is_beside_result = items[number].is_tool_result or items[max(0, number - 1)].is_tool_result
        if found and not has_person:
            has_person = not is_wrapped(found[-1].text, patterns)
        if (has_person and _is_added(turn, found[-1], patterns)) or (
            is_beside_result and is_wrapped(turn.text, patterns)
        ):
            added.add(number)
        else:
            found.append(turn)
    return found, frozenset(added)


def _is_added(turn: Turn, before: Turn, patterns: Patterns) -> bool:
    """Return whether a client wrote a text that comes after a person's."""
    is_next = before.item == turn.item - 1
    return is_wrapped(turn.text, patterns) or says_go_on(turn.text) or (is_next and is_handover(turn.text))


def _turn(body: bytes, place: Place, content: Any, item: int, part: str, patterns: Patterns) -> Turn | None:
    opening = b'{"type":"%s","text":' % part.encode()
    if isinstance(content, str):
        end = Splice(place.end, b"}]")
        own_part = Slot(place.start, b"[" + opening + b'"', b'"},' + opening, end=end)
        return Turn(content, Slot(place.start + 1), own_part, item) if content.strip() else None
    parts = content if isinstance(content, list) else []
    texts = {
        number: text
        for number, each in enumerate(parts)
        if _field(each, "type") in TEXT_PARTS and (text := _field(each, "text")).strip()
    }
    if not texts:
        return None
    written = [number for number, text in texts.items() if not is_wrapped(text, patterns)]
    last = written[-1] if written else max(texts)
    at = place.elements[last].start
    in_text = Slot(_find(body, at, 1).members["text"].start + 1)
    return Turn(texts[last], in_text, Slot(at, opening + b'"', b'"},'), item, is_part=True)


def _field(value: Any, name: str) -> str:
    """Return the text in a field of an object, or "" if there is none."""
    text = value.get(name) if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""


def _message_slot(at: int, role: str, *, is_after: bool) -> Slot:
    start, end = (b",", b'"}') if is_after else (b"", b'"},')
    return Slot(at, start + b'{"role":"%s","content":"' % role.encode(), end)


def _field_slot(body: bytes, root: Place, name: str) -> Slot | None:
    """Return the slot at the end of a field's string, or for the whole field if it is missing."""
    place = root.members.get(name)
    if place is None:
        comma = b"," if root.members else b""
        return Slot(root.start + 1, b'"%s":"' % name.encode(), b'"' + comma)
    if body[place.start] != ord('"'):
        return None
    return Slot(place.end - 1, gap=SYSTEM_GAP if place.end - place.start > 2 else "")


def text_in(value: Any) -> str:
    """Return the texts in a part of a prompt that the model reads, one per line."""
    return "\n".join(_texts(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name not in _NO_TEXT:
                yield from _texts(inner)


def find_places(body: bytes, depth: int) -> Place:
    """Return the place of the only value, with those of values inside up to `depth` objects and arrays."""
    return _find(body, _skip_space(body, 0), depth)


def _find(body: bytes, at: int, depth: int) -> Place:
    first = body[at]
    if first == _QUOTE:
        return Place(at, string_end(body, at))
    if first not in _OPEN:
        found = _SCALAR.match(body, at)
        assert found is not None
        return Place(at, found.end())
    if not depth:
        return Place(at, _nested_end(body, at))
    return (_find_members if first == _OBJECT else _find_elements)(body, at, depth - 1)


def _find_members(body: bytes, start: int, depth: int) -> Place:
    """Find an object's values by name. The last of a repeated name counts, as in parsers."""
    members: dict[str, Place] = {}
    at = _skip_space(body, start + 1)
    while body[at] != _OBJECT_END:
        name = body[at : string_end(body, at)]
        colon = _skip_space(body, at + len(name))
        place = _find(body, _skip_space(body, colon + 1), depth)
        members[from_json(name) if b"\\" in name else name[1:-1].decode()] = place
        at = _skip_comma(body, place.end)
    return Place(start, at + 1, members=members)


def _find_elements(body: bytes, start: int, depth: int) -> Place:
    elements = []
    at = _skip_space(body, start + 1)
    while body[at] != _ARRAY_END:
        place = _find(body, at, depth)
        elements.append(place)
        at = _skip_comma(body, place.end)
    return Place(start, at + 1, elements=elements)


def _skip_comma(body: bytes, at: int) -> int:
    """Return where the next value begins, or where its container ends."""
    at = _skip_space(body, at)
    return _skip_space(body, at + 1) if body[at] == _COMMA else at


def _skip_space(body: bytes, at: int) -> int:
    # Most values follow without a space.
    if body[at] > ord(" "):
        return at
    found = _SPACE.match(body, at)
    assert found is not None
    return found.end()


def _nested_end(body: bytes, at: int) -> int:
    depth = 0
    while True:
        byte = body[at]
        if byte == _QUOTE:
            at = string_end(body, at)
        elif byte in _OPEN:
            depth, at = depth + 1, at + 1
        elif byte in _CLOSE:
            depth, at = depth - 1, at + 1
            if not depth:
                return at
        found = _BETWEEN.match(body, at)
        assert found is not None
        at = found.end()
