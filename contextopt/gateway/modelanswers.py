"""Reads what a provider reports of an answer: usage, and the text if it is wanted.

The bytes are a copy of what was passed on, so a fault here changes nothing for the client.
"""

import re
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import brotlicffi
from pydantic_core import from_json

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COUNT_MAX = 2**53
_LINE = re.compile(rb"\r\n|\n|\r")
# Types of the last event. A stream of Chat Completions ends with [DONE].
_LAST_TYPES = ("response.completed", "response.incomplete", "response.failed", "message_stop")
# A decoded answer of more bytes than this is cut.
DECODED_MAX = 32 * 2**20
_GZIP_BITS = 31
# After each gzip member, zlib copies what follows in the same piece.
_PIECE_BYTES = 4_096
# Usage stands at an answer's beginning or end. A long answer's middle is not kept.
HEAD_BYTES = 2**20
TAIL_BYTES = 2**18


@dataclass(frozen=True, slots=True)
class Usage:
    """The provider's token counts. None where it reports none, which is not the same as 0.

    `input` counts the whole prompt, including what was read from a cache or written to it.
    """

    input: int | None = None
    cached: int | None = None
    cache_write: int | None = None
    output: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as far as it is read. `id` is the provider's own, such as `chatcmpl-…` or `msg_…`.

    `is_ended` tells that a stream's last event is there, `is_failed` that the provider reports a failure.
    """

    usage: Usage = Usage()
    text: str = ""
    id: str = ""
    model: str = ""
    is_ended: bool = False
    is_failed: bool = False


@dataclass(slots=True)
class AnswerCopy:
    """A copy of an answer, to read its usage from: all of it, or its beginning and its end.

    `first_byte_at` is a time of `perf_counter`.
    """

    status_code: int | None = None
    first_byte_at: float | None = None
    encoding: str = ""
    is_stream: bool = False
    size_bytes: int = 0
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)

    def begin(self, status_code: int, headers: Mapping[str, str]) -> None:
        self.status_code = status_code
        self.is_stream = headers.get("content-type", "").startswith("text/event-stream")
        self.encoding = headers.get("content-encoding", "")

    def add(self, chunk: bytes) -> None:
        if self.first_byte_at is None:
            self.first_byte_at = time.perf_counter()
        self.size_bytes += len(chunk)
        room = HEAD_BYTES - len(self.head)
        self.head += chunk[:room]
        self.tail += chunk[max(room, 0) :]
        if len(self.tail) > 2 * TAIL_BYTES:
            del self.tail[:-TAIL_BYTES]

    def read(self, protocol: str, *, wants_text: bool) -> Answer:
        content = bytes(self.head + self.tail)
        return read_answer(protocol, content, self.encoding, is_stream=self.is_stream, wants_text=wants_text)


def read_answer(protocol: str, body: bytes, encoding: str, *, is_stream: bool, wants_text: bool) -> Answer:
    """Read an answer, whole or as a stream. Whatever cannot be read is left out."""
    plain = _decode(body, encoding)
    documents = list(_events(plain, wants_text=wants_text) if is_stream else _documents(plain))
    usage: dict[str, Any] = {}
    for document in documents:
        usage |= {name: value for name, value in _usage_in(document).items() if value is not None}
    text = "".join(_text_in(document) for document in documents) if wants_text else ""
    named = documents[0] if documents else {}
    return Answer(
        usage=_READ_USAGE[protocol](usage),
        text=text,
        id=_name_in(named, "id"),
        model=_name_in(named, "model"),
        is_ended=is_stream and _is_ended(plain),
        is_failed=any(
            document.get("type") == "error"
            or document.get("error")
            or _inner(document, "response").get("error")
            for document in documents
        ),
    )


def _decode(body: bytes, encoding: str) -> bytes:
    """Return the decompressed bytes; nothing if they cannot be decompressed."""
    try:
        match encoding.strip().lower():
            case "" | "identity":
                return body
            case "gzip" | "x-gzip":
                return _gunzip_readable(body)
            case "deflate":
                return zlib.decompressobj().decompress(body, DECODED_MAX)
            case "br":
                return bytes(brotlicffi.Decompressor().process(body, output_buffer_limit=DECODED_MAX))
            case "zstd":
                return zstd.ZstdDecompressor().decompress(body, DECODED_MAX)
    except (zlib.error, brotlicffi.error, zstd.ZstdError):
        pass
    return b""


def _gunzip_readable(body: bytes) -> bytes:
    """Unpack one gzip member after another, until one is broken or there are DECODED_MAX bytes."""
    plain = bytearray()
    unpacker = zlib.decompressobj(_GZIP_BITS)
    for at in range(0, len(body), _PIECE_BYTES):
        piece = body[at : at + _PIECE_BYTES]
        while piece and len(plain) < DECODED_MAX:
            if unpacker.eof:
                unpacker = zlib.decompressobj(_GZIP_BITS)
            try:
                plain += unpacker.decompress(piece, DECODED_MAX - len(plain))
            except zlib.error:
                return bytes(plain)
            piece = unpacker.unused_data
    return bytes(plain)


def _documents(body: bytes) -> Iterator[Mapping[str, Any]]:
    try:
        value = from_json(body)
    except ValueError:
        return
    if isinstance(value, dict):
        yield value


def _events(body: bytes, *, wants_text: bool) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON of a stream's events.

    If no text is wanted, yield only the first, which names the answer, and those that may report usage or a
    failure.
    """
    data: list[bytes] = []
    is_first = True
    for line in [*_LINE.split(body), b""]:
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            event = b"\n".join(data)
            data = []
            if is_first or wants_text or b'"usage"' in event or b'"error"' in event:
                yield from _documents(event)
            is_first = False


def _is_ended(body: bytes) -> bool:
    """Return whether the last line of a stream is its protocol's last event."""
    lines = body.rstrip()
    last = lines[max(lines.rfind(b"\n"), lines.rfind(b"\r")) + 1 :]
    if not last.startswith(b"data:"):
        return False
    data = last.removeprefix(b"data:").strip()
    return data == b"[DONE]" or any(document.get("type") in _LAST_TYPES for document in _documents(data))


def _name_in(document: Mapping[str, Any], name: str) -> str:
    """Return a name of the answer, from a document or from the answer within an event."""
    for holder in (document.get("response"), document.get("message"), document):
        if isinstance(holder, dict) and isinstance(holder.get(name), str):
            return str(holder[name])
    return ""


def _usage_in(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usage of a document, or of the answer within an event."""
    for holder in (document, document.get("response"), document.get("message")):
        usage = holder.get("usage") if isinstance(holder, dict) else None
        if isinstance(usage, dict):
            return usage
    return {}


def _chat_usage(usage: Mapping[str, Any]) -> Usage:
    whole, details = _count(usage, "prompt_tokens"), _inner(usage, "prompt_tokens_details")
    cached = _part(details, "cached_tokens", whole)
    # DeepSeek reports it beside the others.
    cached = _part(usage, "prompt_cache_hit_tokens", whole) if cached is None else cached
    written = _part(details, "cache_write_tokens", whole)
    return Usage(whole, cached, written, _count(usage, "completion_tokens"))


def _responses_usage(usage: Mapping[str, Any]) -> Usage:
    whole, details = _count(usage, "input_tokens"), _inner(usage, "input_tokens_details")
    return Usage(
        whole,
        _part(details, "cached_tokens", whole),
        _part(details, "cache_write_tokens", whole),
        _count(usage, "output_tokens"),
    )


def _messages_usage(usage: Mapping[str, Any]) -> Usage:
    """Read Anthropic's usage, whose `input_tokens` are only those outside of the cache."""
    fresh = _count(usage, "input_tokens")
    read, written = _count(usage, "cache_read_input_tokens"), _count(usage, "cache_creation_input_tokens")
    whole = None if fresh is None else fresh + (read or 0) + (written or 0)
    return Usage(whole, read, written, _count(usage, "output_tokens"))


_READ_USAGE = {"chat": _chat_usage, "responses": _responses_usage, "messages": _messages_usage}


def _inner(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}


def _count(value: Mapping[str, Any], name: str) -> int | None:
    count = value.get(name)
    is_count = isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= COUNT_MAX
    return count if is_count else None


def _part(value: Mapping[str, Any], name: str, whole: int | None) -> int | None:
    """Return a count that is a part of another. More than the whole is no count."""
    part = _count(value, name)
    return None if part is not None and whole is not None and part > whole else part


def _text_in(document: Mapping[str, Any]) -> str:
    """Return the text of a whole answer, or what one event of a stream adds to it."""
    match document:
        case {"choices": [{"message": {"content": str(text)}}, *_]}:
            return text
        case {"choices": [{"delta": {"content": str(text)}}, *_]}:
            return text
        case {"type": "response.output_text.delta", "delta": str(text)}:
            return text
        case {"type": "content_block_delta", "delta": {"text": str(text)}}:
            return text
        case {"object": "response", "output": list(output)}:
            return "".join(_parts_text(item.get("content")) for item in output if isinstance(item, dict))
        case {"type": "message", "content": list(content)}:
            return _parts_text(content)
    return ""


def _parts_text(content: Any) -> str:
    parts = content if isinstance(content, list) else []
    return "".join(
        part["text"]
        for part in parts
        if isinstance(part, dict)
        # Not a set: a type that is no text may not be hashable.
        and part.get("type") in ("text", "output_text")
        and isinstance(part.get("text"), str)
    )
