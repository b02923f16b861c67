"""Reads prompts of the three protocols from their JSON, byte positions included."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from contextopt.gateway.protocols.jsonspans import Place, find_places
from contextopt.gateway.protocols.prompts import (
    Item,
    Prompt,
    Slot,
    TooLargeError,
    ToolResult,
    Turn,
    UnreadablePromptError,
    as_json,
    as_text,
    text_in,
)
from contextopt.strictjson import has_more_values, string_end

type Reader = Callable[[bytes], Prompt]

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


def read_chat(body: bytes) -> Prompt:
    """Read a request of /v1/chat/completions. Raises: UnreadablePromptError."""
    request, root = _parse(body)
    places, said = _list(root, request, "messages")
    items = [_chat_item(place, value) for place, value in zip(places, said, strict=True)]
    turns = _turns(places, said, part="text")
    slot: Slot | None = None
    instructing = [number for number, item in enumerate(items) if item.is_system]
    if instructing:
        last = instructing[-1]
        slot = _message_slot(places[last].end, said[last]["role"], is_after=True)
    elif places:
        slot = _message_slot(places[0].start, "system", is_after=False)
    return _prompt(request, "", slot, items, turns)


def _chat_item(place: Place, value: Any) -> Item:
    return _item(place, value, is_tool_result=_field(value, "role") in RESULT_ROLES)


def read_responses(body: bytes) -> Prompt:
    """Read a request of /v1/responses. Raises: UnreadablePromptError."""
    request, root = _parse(body)
    system = as_text(request.get("instructions"))
    continues = bool(request.get("previous_response_id") or request.get("conversation"))
    given = request.get("input")
    places: Sequence[Place] = ()
    if isinstance(given, str):
        place = root.members["input"]
        items = [Item(place.span, given)]
        turns = [Turn(given, Slot(place.start + 1), 0)] if given.strip() else []
    else:
        places, said = _list(root, request, "input")
        items = [_responses_item(place, value) for place, value in zip(places, said, strict=True)]
        turns = _turns(places, said, part="input_text")
    slot = _field_slot(body, root, "instructions")
    if slot is None and places:
        slot = _message_slot(places[0].start, "developer", is_after=False)
    return _prompt(request, system, slot, items, turns, continues=continues)


def _responses_item(place: Place, value: Any) -> Item:
    return _item(place, value, is_tool_result=_field(value, "type").endswith("_output"))


def read_messages(body: bytes) -> Prompt:
    """Read a request of /v1/messages. Raises: UnreadablePromptError."""
    request, root = _parse(body)
    places, said = _list(root, request, "messages")
    items = [_messages_item(place, value) for place, value in zip(places, said, strict=True)]
    turns = _turns(places, said, part="text")
    slot = _field_slot(body, root, "system")
    if isinstance(request.get("system"), list):
        slot = _last_part_slot(root.members["system"])
    return _prompt(request, text_in(request.get("system")), slot, items, turns)


def _messages_item(place: Place, value: Any) -> Item:
    is_result = any(_field(part, "type") == "tool_result" for part in _values(value, "content"))
    return _item(place, value, is_tool_result=is_result)


READERS: Mapping[str, Reader] = {"chat": read_chat, "responses": read_responses, "messages": read_messages}


def read_prompt(protocol: str, body: bytes) -> Prompt:
    """Read a request of any protocol. Raises: UnreadablePromptError, TooLargeError."""
    if has_more_values(body, VALUES_MAX) or has_more_text(body, TEXT_MAX_BYTES):
        raise TooLargeError
    return READERS[protocol](body)


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


def _item(place: Place, value: Any, *, is_tool_result: bool) -> Item:
    """Read an item with its calls of tools and their results, of whatever protocol."""
    text, parts = text_in(value), _values(value, "content")
    within = [
        ToolResult(_field(part, "tool_use_id"), text_in(part), number)
        for number, part in enumerate(parts)
        if _field(part, "type").endswith("tool_result")
    ]
    whole = [ToolResult(_first(value, *_ANSWERED), text)] if _is_result(value) else []
    has_parts = bool(within) and not whole
    return Item(
        place.span,
        text,
        _field(value, "role") in INSTRUCTING,
        is_tool_result,
        (
            *_calls(value),
            *(_field(part, "id") for part in parts if _field(part, "type").endswith("tool_use")),
        ),
        tuple(whole or within),
        tuple(part.span for part in place.members["content"].elements) if has_parts else (),
    )


def _is_result(value: Any) -> bool:
    return _field(value, "role") in RESULT_ROLES or _field(value, "type").endswith(_RESULT_TYPES)


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


def _first(value: Any, *names: str) -> str:
    """Return the first of the fields that has a text."""
    return next(filter(None, (_field(value, name) for name in names)), "")


def _prompt(
    request: Mapping[str, Any],
    system: str,
    slot: Slot | None,
    items: Sequence[Item],
    turns: Sequence[Turn],
    *,
    continues: bool = False,
) -> Prompt:
    return Prompt(
        model=as_text(request.get("model")),
        is_streamed=request.get("stream") is True,
        system=system,
        tools=as_json(request, "tools"),
        system_slot=slot,
        items=tuple(items),
        turns=tuple(turns),
        continues=continues,
    )


def _turns(places: Sequence[Place], said: Sequence[Any], *, part: str) -> list[Turn]:
    """Return the user's texts. Only the last one of a message counts."""
    found = []
    for number, (place, value) in enumerate(zip(places, said, strict=True)):
        if _field(value, "role") == "user" and "content" in value:
            turn = _turn(place.members["content"], value["content"], number, part)
            found += [turn] if turn else []
    return found


def _turn(place: Place, content: Any, item: int, part: str) -> Turn | None:
    if isinstance(content, str):
        return Turn(content, Slot(place.start + 1), item) if content.strip() else None
    parts = content if isinstance(content, list) else []
    for number in reversed(range(len(parts))):
        text = _part_text(parts[number])
        if text.strip():
            at = place.elements[number].start
            return Turn(text, Slot(at, b'{"type":"%s","text":"' % part.encode(), b'"},'), item)
    return None


def _part_text(part: Any) -> str:
    return _field(part, "text") if _field(part, "type") in TEXT_PARTS else ""


def _field(value: Any, name: str) -> str:
    """Return the text in a field of an object, or "" if there is none."""
    return as_text(value.get(name)) if isinstance(value, dict) else ""


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


def _last_part_slot(place: Place) -> Slot:
    parts = place.elements
    comma = b"," if parts else b""
    at = parts[-1].end if parts else place.start + 1
    return Slot(at, comma + b'{"type":"text","text":"', b'"}')
