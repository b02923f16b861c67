"""A conversation's messages, and the records that they become."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import PurePath

from contextopt.inputs import make_storable
from contextopt.spaces import models as limits
from contextopt.spaces.importing.dialogues import TURN_TYPE
from contextopt.spaces.importing.git import shorten
from contextopt.spaces.importing.jsonfiles import FoundValue
from contextopt.spaces.importing.rows import Found, Notice, RawRow, Rejection

# A message whose date cannot be read is still a message.
SPARE = frozenset({"date", "metadata"})
# Larger times are milliseconds.
SECONDS_MAX = 10**11
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
_PEOPLE = {"human": "user", "ai": "assistant", "model": "assistant", "bot": "assistant"}


class Reason(StrEnum):
    """Why a part of a conversation is left out or cut, as reports say it."""

    WITHOUT_TEXT = "messages without text, such as images alone, were left out"
    EMPTY = "conversations without messages were left out"
    IMAGES = "images, sounds and files without text were left out"
    SYSTEM = "instructions to the model were left out"
    TOOLS = "tool calls and their results were left out"
    THOUGHTS = "the model's reasoning was left out"
    BRANCHES = "messages of other branches than the active one were left out"
    SUBAGENTS = "messages between the agent and its own subagents were left out"
    SUMMARIES = "summaries that stood in for earlier messages were left out"
    ADDED = "texts that the tool added by itself were left out"
    CUT = f"messages of more than {limits.NOTES_MAX:,} characters were cut"


@dataclass(frozen=True, slots=True)
class Message:
    """A message as its source has it. `said_at` is a date in any form, or None."""

    id: str
    speaker: str
    text: str
    said_at: object = None
    line: int = 1
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation: its id, its title, where it comes from, and its date for messages without one."""

    id: str
    title: str
    source: str
    began_at: object = None


class LeftOut:
    """Counts what a reader leaves out, by reason, with the first line of each."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._counts: Counter[str] = Counter()
        self._lines: dict[str, int] = {}

    def add(self, reason: str, line: int, count: int = 1) -> None:
        if count:
            self._counts[reason] += count
            self._lines.setdefault(reason, line)

    def notices(self) -> Iterator[Notice]:
        """Yield a notice for each reason, and forget them."""
        for reason, count in self._counts.items():
            yield Notice(self._lines[reason], reason, self._file, count)
        self._counts.clear()
        self._lines.clear()


def message_rows(
    thread: Thread, messages: Iterable[Message], left_out: LeftOut, file: str
) -> Iterator[Found]:
    """Yield a row for each message that has text, numbered by its place in the thread."""
    before: object = thread.began_at
    place = 0
    for message in messages:
        text = make_storable(message.text).strip()
        if not text:
            left_out.add(Reason.WITHOUT_TEXT, message.line)
            continue
        if len(text) > limits.NOTES_MAX:
            left_out.add(Reason.CUT, message.line)
        before = message.said_at if message.said_at is not None else before
        yield RawRow(
            message.line,
            {
                "title": _title(message.speaker, thread.title),
                "type": TURN_TYPE,
                "date": read_moment(before),
                "notes": shorten(text, limits.NOTES_MAX),
                "thread": shorten(make_storable(thread.id), limits.THREAD_MAX),
                "position": place,
                "source": shorten(make_storable(thread.source), limits.SOURCE_MAX),
                "external_id": shorten(make_storable(message.id), limits.EXTERNAL_ID_MAX),
                "metadata": {name: value for name, value in message.metadata.items() if value},
            },
            len(text),
            file,
            SPARE,
        )
        place += 1


def conversation_rows(
    values: Iterable[FoundValue],
    file: str,
    read: Callable[[Mapping[str, object], int, LeftOut], tuple[Thread, Iterable[Message]]],
) -> Iterator[Found]:
    """Yield the rows of an export with one conversation per value, which `read` takes apart."""
    left_out = LeftOut(file)
    for found in values:
        if isinstance(found, Rejection):
            yield found
        else:
            thread, messages = read(dict_of(found.value), found.line, left_out)
            yield from message_rows(thread, messages, left_out, file)
    yield from left_out.notices()


def _title(speaker: str, conversation: str) -> str:
    words = " ".join(f"{speaker.capitalize() if speaker.islower() else speaker}".split())
    title = " ".join(make_storable(conversation).split())
    return shorten(f"{words} in {title}" if title else words, limits.TITLE_MAX) or TURN_TYPE


def read_moment(value: object) -> object:
    """Return the ISO form of seconds or milliseconds since 1970; any other value comes back unchanged."""
    if isinstance(value, str) and value.replace(".", "", 1).isdigit():
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    try:
        moment = datetime.fromtimestamp(value / 1_000 if value > SECONDS_MAX else value, UTC)
    except (OverflowError, ValueError, OSError):
        return str(value)
    return moment.isoformat()


def text_of(value: object) -> str:
    """Return a value that should be text, "" if it is none."""
    return value if isinstance(value, str) else ""


def dict_of(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def dicts_of(value: object) -> list[dict[str, object]]:
    """Return the objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def person_words(text: str) -> str:
    """Return a person's text without the reminders that a tool put into it."""
    return _REMINDER.sub("", text) if "<system-reminder>" in text else text


def with_attachments(text: str, attachments: Iterable[tuple[str, str]]) -> str:
    """Return a text with the texts of its attachments, each below its name."""
    parts = [
        text.strip(),
        *(f"Attachment {name}:\n{content.strip()}" for name, content in attachments if content.strip()),
    ]
    return "\n\n".join(part for part in parts if part)


def blocks_text(content: object, line: int, left_out: LeftOut) -> str:
    """Return the text of a message's content: a string, or a list of blocks as providers define them."""
    if isinstance(content, str):
        return content
    parts: list[str] = []
    for block in content if isinstance(content, list) else ():
        if isinstance(block, str):
            parts.append(block)
            continue
        kind = text_of(dict_of(block).get("type"))
        if kind in {"thinking", "redacted_thinking", "reasoning"}:
            left_out.add(Reason.THOUGHTS, line)
        elif "tool" in kind or "function" in kind:
            left_out.add(Reason.TOOLS, line)
        else:
            parts.append(text_of(dict_of(block).get("text")))
    return "\n\n".join(part for part in parts if part.strip())


def read_role_messages(values: Iterable[FoundValue], file: str, name: str) -> Iterator[Found]:
    """Yield a row for each `{role, content}` message.

    A line is a message, or a conversation with a list of `messages`. Messages that name no conversation
    belong to the file's.
    """
    left_out = LeftOut(file)
    stem = PurePath(name).name.split(".")[0] or "chat"
    source = f"chat:{stem}"
    places: Counter[str] = Counter()
    for found in values:
        if isinstance(found, Rejection):
            yield found
            continue
        value = dict_of(found.value)
        if isinstance(value.get("messages"), list):
            own = _name_of(value) or f"{stem}-{found.line}"
            thread = Thread(own, text_of(value.get("title") or value.get("name")), source, _said_at(value))
            messages = [_role_message(each, found.line, left_out) for each in dicts_of(value["messages"])]
            yield from message_rows(thread, (each for each in messages if each), left_out, file)
            continue
        if "role" not in value:
            yield Rejection(found.line, "role", "is missing", file)
            continue
        own = _name_of(value) or stem
        message = _role_message(value, found.line, left_out)
        for row in message_rows(Thread(own, "", source), [message] if message else (), left_out, file):
            if isinstance(row, RawRow):
                row.fields["position"] = places[own]
                places[own] += 1
            yield row
    yield from left_out.notices()


def _name_of(value: Mapping[str, object]) -> str:
    names = ("conversation_id", "conversation", "thread_id", "thread", "session_id", "sessionId", "chat_id")
    found = next((value[name] for name in names if value.get(name)), "")
    return str(found) if isinstance(found, str | int) else ""


def _said_at(value: Mapping[str, object]) -> object:
    names = ("timestamp", "created_at", "create_time", "createdAt", "created", "date", "time", "ts")
    return next((value[name] for name in names if value.get(name)), None)


def _role_message(value: Mapping[str, object], line: int, left_out: LeftOut) -> Message | None:
    role = text_of(value.get("role"))
    role = _PEOPLE.get(role, role)
    if role in {"system", "developer"}:
        left_out.add(Reason.SYSTEM, line)
        return None
    if role in {"tool", "function"} or (value.get("tool_calls") and not value.get("content")):
        left_out.add(Reason.TOOLS, line)
        return None
    given = value.get("id") or value.get("uuid") or value.get("message_id") or ""
    return Message(
        id=str(given) if isinstance(given, str | int) else "",
        speaker=text_of(value.get("name")) or role or "user",
        text=person_words(blocks_text(value.get("content"), line, left_out)),
        said_at=_said_at(value),
        line=line,
        metadata={"role": role, "model": text_of(value.get("model"))},
    )
