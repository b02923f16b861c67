"""Changes to a tool's own files: planned and shown first, written whole or not at all, and undone."""

import base64
import difflib
import hashlib
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

from contextopt_connect import jsontext
from contextopt_connect.errors import LeadsOut, UnusableFile
from contextopt_connect.realfiles import (
    find_real,
    read_mode,
    read_whole,
    remove_empty,
    remove_file,
    write_whole,
)

BOM = "\ufeff"
PRIVATE_MODE = 0o600
# Several documents in a file, and a document that is one value on a line.
_UNUSUAL_YAML = re.compile(r"^(---|\.\.\.|[{\[])", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Entry:
    """An addition to a JSON file: a member, or an item at the end of an array."""

    path: tuple[str, ...]
    value: Any
    is_item: bool = False


class KeptEntry(TypedDict):
    path: list[str]
    value: Any
    is_item: bool


class KeptFile(TypedDict):
    """A file as undoing needs it: its bytes before (none if it was new), and our part of it after."""

    path: str
    before: str | None
    mode: int | None
    sha256: str
    entries: list[KeptEntry]
    block: str
    folders: list[str]


Outcome = Literal["restored", "deleted", "ours removed", "already gone", "changed, left", "linked, left"]
LEFT: frozenset[Outcome] = frozenset({"changed, left", "linked, left"})


@dataclass(frozen=True, slots=True)
class Change:
    """A file's bytes before and after, by its real path. `before` is None for a new file.

    A private file can be read by its owner alone, from then on until it is undone.
    """

    path: Path
    before: bytes | None
    after: bytes
    entries: tuple[Entry, ...] = ()
    block: str = ""
    is_private: bool = False

    @property
    def is_none(self) -> bool:
        return self.before == self.after

    def diff(self) -> str:
        old, new = ((part or b"").decode().splitlines(keepends=True) for part in (self.before, self.after))
        name = str(self.path)
        lines = difflib.unified_diff(old, new, "/dev/null" if self.before is None else name, name)
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    def kept(self) -> KeptFile:
        return {
            "path": str(self.path),
            "before": None if self.before is None else base64.b64encode(self.before).decode(),
            "mode": read_mode(self.path) if self.is_private else None,
            "sha256": hashlib.sha256(self.after).hexdigest(),
            "entries": [
                {"path": list(each.path), "value": each.value, "is_item": each.is_item}
                for each in self.entries
            ],
            "block": self.block,
            # Those that writing the file creates, the innermost first.
            "folders": [str(each) for each in self.path.parents if not each.exists()],
        }


def plan_json(
    folder: Path,
    name: str,
    entries: Sequence[Entry],
    base: dict[str, Any] | None = None,
    *,
    is_private: bool = False,
) -> Change:
    """Plan to add entries to a JSON file of a folder. `base` holds members that a new file needs.

    Raises:
        UnusableFile: it cannot be parsed, has another value at an entry's place, or is not in the folder.
    """
    new = jsontext.set_members("{}\n", base or {})
    path = find_real(folder, name, _with_all(new, entries))
    before = read_whole(path)
    text, mark = _decode(path, before)
    try:
        text = _with_all(text if text.strip() else new, entries)
    except jsontext.UnreadableJson as error:
        raise UnusableFile(f"{path} {error}. It was not changed.") from error
    return Change(path, before, (mark + text).encode(), tuple(entries), is_private=is_private)


def plan_toml(
    folder: Path,
    name: str,
    block: str,
    added: dict[str, Any],
    *,
    is_first: bool = False,
    is_private: bool = False,
) -> Change:
    """Plan to add a block of TOML to the end of a file of a folder, or to its start. `added` is what it adds.

    Raises:
        UnusableFile: it cannot be parsed, the block would change or repeat something in it, or it is not in
            the folder.
    """
    path = find_real(folder, name, block)
    before = read_whole(path)
    text, mark = _decode(path, before)
    if (own := _in_newlines(block, text)) in text:
        return Change(path, before, before or b"", block=own)
    block, after = _join_start(text, own) if is_first else _join_end(text, own)
    try:
        old = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnusableFile(f"{path} is not valid TOML: {error}. It was not changed.") from error
    try:
        merged = tomllib.loads(after)
    except tomllib.TOMLDecodeError as error:
        raise UnusableFile(f"{path} already has a part of this ({error}). It was not changed.") from error
    if merged != _merge(old, added):
        raise UnusableFile(f"Editing {path} would change other parts of it, so nothing was written.")
    return Change(path, before, (mark + after).encode(), block=block, is_private=is_private)


def plan_yaml(folder: Path, name: str, block: str, *, taken: str) -> Change:
    """Plan to add a block of YAML to the end of a private file of a folder.

    `taken` matches the beginning of a line that already says what the block would say.

    Raises:
        UnusableFile: it says so already, it is of another shape than the block, or it is not in the folder.
    """
    path = find_real(folder, name, block)
    before = read_whole(path)
    text, mark = _decode(path, before)
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    is_list = "\n- " in block
    if re.search(f"^{taken}", text, re.MULTILINE):
        raise UnusableFile(f"{path} already has a part of this. It was not changed.")
    if _UNUSUAL_YAML.search(text) or (lines and lines[0].startswith("- ") is not is_list):
        raise UnusableFile(f"{path} has another shape than expected. Add this to it yourself:\n{block}")
    own, after = _join_end(text, _in_newlines(block, text))
    return Change(path, before, (mark + after).encode(), block=own, is_private=True)


def _in_newlines(block: str, text: str) -> str:
    return block.replace("\n", "\r\n") if "\r\n" in text else block


def _join_end(text: str, block: str) -> tuple[str, str]:
    """Return what is added to the end of a text, with the gap before it, and the whole."""
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    return f"{gap}{block}", f"{text}{gap}{block}"


def _join_start(text: str, block: str) -> tuple[str, str]:
    newline = "\r\n" if "\r\n" in text else "\n"
    added = f"{block}{newline}" if text else block
    return added, f"{added}{text}"


def write_change(change: Change) -> None:
    """Write the file in one step.

    Raises:
        UnusableFile: it has changed since it was planned.
    """
    if read_whole(change.path) != change.before:
        raise UnusableFile(f"{change.path} has changed in the meantime. It was not written.")
    write_whole(change.path, change.after, PRIVATE_MODE if change.is_private else None)


def undo_file(kept: KeptFile, repository: Path | None) -> Outcome:
    """Put a file back as it was. If it was changed since, remove only our part."""
    path = Path(kept["path"])
    folder = repository if repository is not None and path.is_relative_to(repository) else path.parent
    try:
        path = find_real(folder, str(path.relative_to(folder)), "")
    except LeadsOut:
        return "linked, left"
    now = read_whole(path)
    if now is None:
        return "already gone"
    before = None if kept["before"] is None else base64.b64decode(kept["before"])
    if hashlib.sha256(now).hexdigest() == kept["sha256"]:
        if before is not None:
            write_whole(path, before, kept["mode"])
            return "restored"
        return _delete(path, kept)
    text, mark = _decode(path, now)
    rest = _without_block(text, kept["block"]) if kept["block"] else _without_entries(text, kept["entries"])
    if rest is None:
        return "changed, left"
    if before is None and not rest.strip():
        return _delete(path, kept)
    write_whole(path, (mark + rest).encode(), kept["mode"])
    return "ours removed"


def _delete(path: Path, kept: KeptFile) -> Outcome:
    """Delete a file that we created, and the folders that we created for it."""
    remove_file(path)
    for name in kept["folders"]:
        remove_empty(Path(name))
    return "deleted"


def _with_all(text: str, entries: Sequence[Entry]) -> str:
    for entry in entries:
        text = _with(text, entry)
    return text


def _with(text: str, entry: Entry) -> str:
    node = jsontext.find(text, entry.path)
    if entry.is_item:
        if node is not None and isinstance(node.value, list) and entry.value in node.value:
            return text
        return jsontext.add_item(text, entry.path, entry.value)
    if node is None:
        return jsontext.set_member(text, entry.path, entry.value)
    if node.value == entry.value:
        return text
    raise jsontext.UnreadableJson(f"already has another {'.'.join(entry.path)}")


def _without_entries(text: str, entries: Sequence[KeptEntry]) -> str | None:
    """Remove our entries, and the objects and arrays that this leaves empty. None: none of ours is there."""
    found = False
    for entry in entries:
        rest = _without(text, entry)
        if rest is None:
            continue
        text, found = rest, True
        path = entry["path"] if entry["is_item"] else entry["path"][:-1]
        while path and (node := jsontext.find(text, path)) is not None and not node.value:
            text, path = jsontext.remove_member(text, path), path[:-1]
    return text if found else None


def _without(text: str, entry: KeptEntry) -> str | None:
    try:
        node = jsontext.find(text, entry["path"])
    except jsontext.UnreadableJson:
        return None
    if node is None:
        return None
    if entry["is_item"]:
        return jsontext.remove_item(text, entry["path"], entry["value"])
    return jsontext.remove_member(text, entry["path"]) if node.value == entry["value"] else None


def _without_block(text: str, block: str) -> str | None:
    for part in (block, block.lstrip("\r\n"), block.strip("\r\n")):
        if part in text:
            return text.replace(part, "", 1)
    return None


def _decode(path: Path, content: bytes | None) -> tuple[str, str]:
    """Return the text, and the byte order mark if it begins with one."""
    try:
        text = (content or b"").decode()
    except UnicodeDecodeError as error:
        raise UnusableFile(f"{path} is not UTF-8. It was not changed.") from error
    return (text[1:], BOM) if text.startswith(BOM) else (text, "")


def _merge(old: dict[str, Any], added: dict[str, Any]) -> dict[str, Any]:
    """Return the tables together; arrays are continued."""
    merged = dict(old)
    for name, value in added.items():
        own = merged.get(name)
        if isinstance(own, dict) and isinstance(value, dict):
            merged[name] = _merge(own, value)
        elif isinstance(own, list) and isinstance(value, list):
            merged[name] = own + value
        else:
            merged[name] = value
    return merged
