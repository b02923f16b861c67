"""Reads prompts of the three protocols from their JSON, byte positions included."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from contextopt.gateway.protocols.prompts import (
    Item,
    Prompt,
    Slot,
    TooManyValuesError,
    Turn,
    UnreadablePromptError,
    as_json,
    as_text,
    text_in,
)
from contextopt.gateway.protocols.spans import Span, elements, members, whole
from contextopt.strictjson import has_more_values

type Reader = Callable[[bytes], Prompt]

# Reading so many takes up to 150 ms, depending on what they are.
VALUES_MAX = 30_000
INSTRUCTING = frozenset({"system", "developer"})
TEXT_PARTS = frozenset({"text", "input_text"})
SYSTEM_GAP = "\n\n"


def read_chat(body: bytes) -> Prompt:
    """Read a request of /v1/chat/completions. Raises: UnreadablePromptError."""
    request, places = _parse(body)
    spans, said = _list(body, places, request, "messages")
    items = [_chat_item(span, value) for span, value in zip(spans, said, strict=True)]
    turns = _turns(body, spans, said, part="text")
    slot: Slot | None = None
    instructing = [number for number, item in enumerate(items) if item.is_system]
    if instructing:
        last = instructing[-1]
        slot = _message_slot(spans[last].end, said[last]["role"], is_after=True)
    elif spans:
        slot = _message_slot(spans[0].start, "system", is_after=False)
    return _prompt(request, "", slot, items, turns)


def _chat_item(span: Span, value: Any) -> Item:
    role = _field(value, "role")
    return Item(span, text_in(value), role in INSTRUCTING, role in {"tool", "function"})


def read_responses(body: bytes) -> Prompt:
    """Read a request of /v1/responses. Raises: UnreadablePromptError."""
    request, places = _parse(body)
    system = as_text(request.get("instructions"))
    continues = bool(request.get("previous_response_id") or request.get("conversation"))
    given = request.get("input")
    if isinstance(given, str):
        span = places["input"]
        items, spans = [Item(span, given)], [span]
        turns = [Turn(given, Slot(span.start + 1), 0)] if given.strip() else []
        is_list = False
    else:
        spans, said = _list(body, places, request, "input")
        items = [_responses_item(span, value) for span, value in zip(spans, said, strict=True)]
        turns, is_list = _turns(body, spans, said, part="input_text"), True
    slot = _field_slot(body, places, "instructions")
    if slot is None and is_list and spans:
        slot = _message_slot(spans[0].start, "developer", is_after=False)
    return _prompt(request, system, slot, items, turns, continues=continues)


def _responses_item(span: Span, value: Any) -> Item:
    is_result = _field(value, "type").endswith("_output")
    return Item(span, text_in(value), _field(value, "role") in INSTRUCTING, is_result)


def read_messages(body: bytes) -> Prompt:
    """Read a request of /v1/messages. Raises: UnreadablePromptError."""
    request, places = _parse(body)
    spans, said = _list(body, places, request, "messages")
    items = [_messages_item(span, value) for span, value in zip(spans, said, strict=True)]
    turns = _turns(body, spans, said, part="text")
    slot = _field_slot(body, places, "system")
    if isinstance(request.get("system"), list):
        slot = _last_part_slot(body, places["system"])
    return _prompt(request, text_in(request.get("system")), slot, items, turns)


def _messages_item(span: Span, value: Any) -> Item:
    content = value.get("content") if isinstance(value, dict) else None
    parts = content if isinstance(content, list) else []
    is_result = any(_field(part, "type") == "tool_result" for part in parts)
    return Item(span, text_in(value), is_tool_result=is_result)


READERS: Mapping[str, Reader] = {"chat": read_chat, "responses": read_responses, "messages": read_messages}


def read_prompt(protocol: str, body: bytes) -> Prompt:
    """Read a request of any protocol. Raises: UnreadablePromptError, TooManyValuesError."""
    if has_more_values(body, VALUES_MAX):
        raise TooManyValuesError
    return READERS[protocol](body)


def _parse(body: bytes) -> tuple[dict[str, Any], dict[str, Span]]:
    try:
        request = from_json(body)
    except ValueError as error:
        raise UnreadablePromptError("is not JSON") from error
    if not isinstance(request, dict):
        raise UnreadablePromptError("is not a JSON object")
    return request, members(body, whole(body))


def _list(
    body: bytes, places: Mapping[str, Span], request: Mapping[str, Any], name: str
) -> tuple[list[Span], list[Any]]:
    value = request.get(name)
    if not isinstance(value, list):
        raise UnreadablePromptError(f"has no list {name}")
    return elements(body, places[name]), value


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


def _turns(body: bytes, spans: Sequence[Span], said: Sequence[Any], *, part: str) -> list[Turn]:
    """Return the user's texts, with the last one of each message that has several."""
    found = []
    for number, (span, value) in enumerate(zip(spans, said, strict=True)):
        if _field(value, "role") == "user" and "content" in value:
            turn = _turn(body, members(body, span)["content"], value["content"], number, part)
            found += [turn] if turn else []
    return found


def _turn(body: bytes, place: Span, content: Any, item: int, part: str) -> Turn | None:
    if isinstance(content, str):
        return Turn(content, Slot(place.start + 1), item) if content.strip() else None
    parts = content if isinstance(content, list) else []
    for number in reversed(range(len(parts))):
        text = _part_text(parts[number])
        if text.strip():
            at = elements(body, place)[number].start
            return Turn(text, Slot(at, b'{"type":"%s","text":"' % part.encode(), b'"},'), item)
    return None


def _part_text(part: Any) -> str:
    return _field(part, "text") if _field(part, "type") in TEXT_PARTS else ""


def _field(value: Any, name: str) -> str:
    """Return the text in a field of an object, or nothing if it is no object or the field no text."""
    return as_text(value.get(name)) if isinstance(value, dict) else ""


def _message_slot(at: int, role: str, *, is_after: bool) -> Slot:
    start, end = (b",", b'"}') if is_after else (b"", b'"},')
    return Slot(at, start + b'{"role":"%s","content":"' % role.encode(), end)


def _field_slot(body: bytes, places: Mapping[str, Span], name: str) -> Slot | None:
    """Return the slot at the end of a field's string, or for the whole field if it is missing."""
    place = places.get(name)
    if place is None:
        first = whole(body).start + 1
        comma = b"," if places else b""
        return Slot(first, b'"%s":"' % name.encode(), b'"' + comma)
    if body[place.start] != ord('"'):
        return None
    return Slot(place.end - 1, gap=SYSTEM_GAP if place.end - place.start > 2 else "")


def _last_part_slot(body: bytes, place: Span) -> Slot:
    parts = elements(body, place)
    comma = b"," if parts else b""
    at = parts[-1].end if parts else place.start + 1
    return Slot(at, comma + b'{"type":"text","text":"', b'"}')
