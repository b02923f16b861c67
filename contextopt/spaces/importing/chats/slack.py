"""Reads a Slack export: a folder for each channel with a file for each day."""

import html
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from contextopt.spaces.importing.chats.messages import (
    LeftOut,
    Message,
    Thread,
    dict_of,
    dicts_of,
    message_rows,
    text_of,
    with_attachments,
)
from contextopt.spaces.importing.files import readable
from contextopt.spaces.importing.rows import Found, RawRow, Rejection
from contextopt.strictjson import read_json

FILE_MAX_BYTES = 64 * 2**20
INDEX_FILES = ("channels.json", "groups.json", "dms.json", "mpims.json")
USERS_FILE = "users.json"
EVENTS = "events of a channel, such as who joined, were left out"
DELETED = "deleted messages were left out"
FILES = "files without text were left out"
_DAY_FILE = re.compile(r"\d{4}-\d\d-\d\d\.json")
_MARKUP = re.compile(r"<([@#!]?)([^|<>]+)(?:\|([^<>]*))?>")
# Messages of people and programs. The other subtypes are events.
_SAID = {
    "", "bot_message", "thread_broadcast", "me_message", "file_share", "file_comment", "huddle_thread",
    "reminder_add", "reply_broadcast",
}  # fmt: skip


def is_slack_export(folder: Path) -> bool:
    """Tell whether a folder is an export: a list of channels or users, and folders with files of days."""
    if not any((folder / name).is_file() for name in (*INDEX_FILES, USERS_FILE)):
        return False
    return any(_DAY_FILE.fullmatch(path.name) for path in folder.glob("*/*.json"))


def is_slack_day(value: object) -> bool:
    """Tell whether a value is a message of a file of a day."""
    message = dict_of(value)
    return message.get("type") == "message" and "ts" in message


@dataclass(frozen=True, slots=True)
class Names:
    """The names of people and channels by their ids."""

    people: Mapping[str, str]
    channels: Mapping[str, str]

    @classmethod
    def of(cls, folder: Path) -> "Names":
        people = {text_of(user.get("id")): _person_name(user) for user in _read_list(folder / USERS_FILE)}
        channels: dict[str, str] = {}
        for name in INDEX_FILES:
            for channel in _read_list(folder / name):
                own = text_of(channel.get("id"))
                channels[own] = text_of(channel.get("name")) or _members_name(channel, people) or own
        return cls(people, channels)

    def channel_of(self, folder: str) -> str:
        """Return the name of a channel's folder, which for direct messages is an id."""
        return self.channels.get(folder, folder)


NO_NAMES = Names({}, {})


def _person_name(user: Mapping[str, object]) -> str:
    profile = dict_of(user.get("profile"))
    names = (profile.get("display_name"), user.get("real_name"), profile.get("real_name"), user.get("name"))
    return next((text_of(name) for name in names if text_of(name)), "")


def _members_name(channel: Mapping[str, object], people: Mapping[str, str]) -> str:
    members = channel.get("members")
    known = [people.get(text_of(member), "") for member in members] if isinstance(members, list) else []
    return ", ".join(name for name in known if name)


def _read_list(path: Path) -> list[dict[str, object]]:
    """Return the objects of a file's list, none if it is missing or damaged: it only gives names."""
    try:
        with path.open("rb") as file:
            return dicts_of(read_json(file.read(FILE_MAX_BYTES).decode("utf-8-sig")))
    except (OSError, ValueError, RecursionError):
        return []


def read_slack(folder: Path) -> Iterator[Found]:
    """Yield a row for each message, channel by channel and day by day."""
    names = Names.of(folder)
    for channel in sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()):
        days = sorted(path for path in channel.iterdir() if _DAY_FILE.fullmatch(path.name))
        yield from _read_channel(channel, days, names)


def _read_channel(channel: Path, days: list[Path], names: Names) -> Iterator[Found]:
    name = names.channel_of(channel.name)
    for path in days:
        file = readable(f"{channel.name}/{path.name}")
        left_out = LeftOut(file)
        if path.is_symlink() or not path.is_file() or path.stat().st_size > FILE_MAX_BYTES:
            yield Rejection(1, "row", f"is not a file of at most {FILE_MAX_BYTES:,} bytes", file)
            continue
        try:
            messages = dicts_of(read_json(path.read_text("utf-8-sig")))
        except json.JSONDecodeError as error:
            yield Rejection(error.lineno, "row", f"is not JSON: {error.msg}", file)
            continue
        except (ValueError, RecursionError) as error:
            yield Rejection(1, "row", f"cannot be read: {error}", file)
            continue
        yield from channel_rows(messages, name, names, left_out, file)
        yield from left_out.notices()


def channel_rows(
    messages: list[dict[str, object]], channel: str, names: Names, left_out: LeftOut, file: str
) -> Iterator[Found]:
    """Yield a row for each message of a channel. Replies are in the thread of the message they answer."""
    for number, message in enumerate(messages, start=1):
        subtype = text_of(message.get("subtype"))
        if subtype not in _SAID:
            left_out.add(DELETED if subtype == "tombstone" else EVENTS, number)
            continue
        stamp = text_of(message.get("ts"))
        thread_stamp = text_of(message.get("thread_ts"))
        own = f"#{channel} {thread_stamp}" if thread_stamp else f"#{channel}"
        said = _message(message, names, number, left_out)
        said = Message(f"{channel}:{stamp}", said.speaker, said.text, stamp, number, said.metadata)
        for row in message_rows(Thread(own, f"#{channel}", "slack"), [said], left_out, file):
            if isinstance(row, RawRow):
                # An export of a later period goes on from this one.
                row.fields["position"] = _microseconds(stamp)
            yield row


def _microseconds(stamp: str) -> int:
    seconds, _, rest = stamp.partition(".")
    return (
        int(seconds + rest[:6].ljust(6, "0"))
        if (seconds + rest).isascii() and (seconds + rest).isdigit()
        else 0
    )


def _message(message: Mapping[str, object], names: Names, number: int, left_out: LeftOut) -> Message:
    profile = dict_of(message.get("user_profile"))
    speaker = (
        names.people.get(text_of(message.get("user")), "")
        or text_of(profile.get("display_name"))
        or text_of(profile.get("real_name"))
        or text_of(message.get("username"))
        or text_of(message.get("user"))
        or "bot"
    )
    shared = [
        (text_of(each.get("title")) or "of a link", _attached_text(each))
        for each in dicts_of(message.get("attachments"))
    ]
    files = [
        (text_of(each.get("name")) or "file", _file_text(each)) for each in dicts_of(message.get("files"))
    ]
    left_out.add(FILES, number, sum(not content.strip() for _, content in files))
    text = text_of(message.get("text")) or _blocks(message.get("blocks"))
    attachments = [*((name, _plain(content, names)) for name, content in shared), *files]
    reactions = Counter(
        {text_of(each.get("name")): each.get("count") or 0 for each in dicts_of(message.get("reactions"))}
    )
    return Message(
        "", speaker, with_attachments(_plain(text, names), attachments),
        metadata={"files": [name for name, _ in files], "reactions": dict(reactions)},
    )  # fmt: skip


def _attached_text(attachment: Mapping[str, object]) -> str:
    return text_of(attachment.get("text")) or text_of(attachment.get("fallback"))


def _file_text(file: Mapping[str, object]) -> str:
    return text_of(file.get("plain_text")) or text_of(file.get("preview"))


def _blocks(blocks: object) -> str:
    """Return the texts of a message's blocks, which some programs send alone."""
    found: list[str] = []
    waiting: list[object] = [blocks]
    while waiting and len(found) < 1_000:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += reversed(value)
        elif isinstance(value, dict):
            text = value.get("text")
            if isinstance(text, str):
                found.append(text)
            waiting += [each for each in value.values() if isinstance(each, list | dict)][::-1]
    return " ".join(found)


def _plain(text: str, names: Names) -> str:
    """Return a text with the names of people, channels and links instead of their ids."""

    def write(found: re.Match[str]) -> str:
        sign, own, label = found.groups()
        if sign == "@":
            return f"@{names.people.get(own) or label or own}"
        if sign == "#":
            return f"#{label or names.channel_of(own)}"
        if sign == "!":
            return f"@{label or own.split('^')[0]}"
        return f"{label} ({own})" if label and label != own else own

    return html.unescape(_MARKUP.sub(write, text))
