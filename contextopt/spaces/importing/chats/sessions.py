"""Reads the session files of Claude Code (`~/.claude/projects`) and Codex (`~/.codex/sessions`)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from contextopt.engine.text.promptparts import is_wrapped
from contextopt.spaces.importing.chats.messages import (
    LeftOut,
    Message,
    Reason,
    Thread,
    blocks_text,
    dict_of,
    message_rows,
    person_words,
    text_of,
    with_attachments,
)
from contextopt.spaces.importing.jsonfiles import FoundValue
from contextopt.spaces.importing.rows import Found, Rejection

# Messages that the program writes in the model's name.
_SYNTHETIC = "<synthetic>"
# A command of the person's: its name, and what they wrote after it.
_COMMAND = re.compile(
    r"<command-name>(.*?)</command-name>.*?(?:<command-args>(.*?)</command-args>|\Z)", re.DOTALL
)
# How Codex begins the files of instructions that it sends in the person's name.
_INSTRUCTIONS = ("# AGENTS.md instructions", "<user_instructions>", "<environment_context>")


@dataclass(frozen=True, slots=True)
class _Node:
    """A line of a Claude Code session: what it follows, and its message or attachment."""

    parent: str
    message: Message | None = None
    attachment: tuple[str, str] | None = None


def read_claude_code(values: Iterable[FoundValue], file: str, name: str) -> Iterator[Found]:
    """Yield a row for each message between the person and the agent, on the branch that ends the session."""
    left_out = LeftOut(file)
    nodes: dict[str, _Node] = {}
    title = session = leaf = ""
    for found in values:
        if isinstance(found, Rejection):
            yield found
            continue
        entry = dict_of(found.value)
        title = text_of(entry.get("customTitle")) or text_of(entry.get("aiTitle")) or title
        if entry.get("type") == "summary":
            title = title or text_of(entry.get("summary"))
        session = session or text_of(entry.get("sessionId"))
        own = text_of(entry.get("uuid"))
        if not own:
            continue
        if entry.get("isSidechain"):
            left_out.add(Reason.SUBAGENTS, found.line)
            continue
        nodes[own] = _claude_node(entry, found.line, left_out)
        if nodes[own].message is not None:
            leaf = own
    branch = _follow(nodes, leaf)
    count = sum(node.message is not None for node in nodes.values())
    messages = _with_files(branch)
    left_out.add(Reason.BRANCHES, 1, count - len(messages))
    thread = Thread(session or PurePath(name).stem, title, "claude-code")
    yield from message_rows(thread, messages, left_out, file)
    yield from left_out.notices()


def _claude_node(entry: Mapping[str, object], line: int, left_out: LeftOut) -> _Node:
    # After a compaction, the chain starts anew and names what it follows.
    parent = text_of(entry.get("parentUuid")) or text_of(entry.get("logicalParentUuid"))
    kind = entry.get("type")
    if kind == "attachment":
        return _Node(parent, attachment=_attached_file(dict_of(entry.get("attachment"))))
    if kind not in {"user", "assistant"}:
        return _Node(parent)
    said = dict_of(entry.get("message"))
    if entry.get("isCompactSummary"):
        left_out.add(Reason.SUMMARIES, line)
        return _Node(parent)
    text = person_words(blocks_text(said.get("content"), line, left_out))
    is_added = bool(entry.get("isMeta")) or said.get("model") == _SYNTHETIC
    if kind == "user" and not is_added and text.lstrip().startswith("<"):
        text, is_added = _read_wrapped(text)
    if is_added:
        left_out.add(Reason.ADDED, line)
        return _Node(parent)
    if not text.strip():
        return _Node(parent)
    message = Message(
        id=text_of(entry.get("uuid")),
        speaker=str(kind),
        text=text,
        said_at=entry.get("timestamp"),
        line=line,
        metadata={
            "role": kind,
            "model": text_of(said.get("model")),
            "folder": text_of(entry.get("cwd")),
            "branch": text_of(entry.get("gitBranch")),
        },
    )
    return _Node(parent, message)


def _read_wrapped(text: str) -> tuple[str, bool]:
    """Return what a person wrote, and whether it is nothing: a command alone, or only what a tool added."""
    if found := _COMMAND.search(text):
        words = (found[2] or "").strip()
        return f"{found[1].strip()} {words}", not words
    return text, is_wrapped(text)


def _attached_file(attachment: Mapping[str, object]) -> tuple[str, str] | None:
    """Return the name and text of a file that the person named with @."""
    if attachment.get("type") != "file":
        return None
    content = text_of(dict_of(dict_of(attachment.get("content")).get("file")).get("content"))
    name = text_of(attachment.get("displayPath")) or text_of(attachment.get("filename"))
    return (name, content) if content.strip() else None


def _follow(nodes: Mapping[str, _Node], leaf: str) -> list[_Node]:
    """Return the nodes that lead to the leaf, in order, and the attachments that follow it."""
    branch: list[_Node] = []
    seen: set[str] = set()
    name = _last_attachment(nodes, leaf)
    while name in nodes and name not in seen:
        seen.add(name)
        branch.append(nodes[name])
        name = nodes[name].parent
    return branch[::-1]


def _last_attachment(nodes: Mapping[str, _Node], leaf: str) -> str:
    for name, node in nodes.items():
        if node.parent == leaf and node.attachment is not None:
            leaf = name
    return leaf


def _with_files(branch: Iterable[_Node]) -> list[Message]:
    """Return the messages of a branch, with the files that were attached to them."""
    messages: list[Message] = []
    for node in branch:
        if node.message is not None:
            messages.append(node.message)
        elif node.attachment is not None and messages and messages[-1].speaker == "user":
            text = with_attachments(messages[-1].text, [node.attachment])
            messages[-1] = replace(messages[-1], text=text)
    return messages


@dataclass(slots=True)
class _CodexSession:
    """A Codex session so far."""

    session: str = ""
    folder: str = ""
    model: str = ""
    messages: list[Message] = field(default_factory=list)


def read_codex(values: Iterable[FoundValue], file: str, name: str) -> Iterator[Found]:
    """Yield a row for each message between the person and the agent. Turns that were undone are left out."""
    left_out = LeftOut(file)
    state = _CodexSession()
    for found in values:
        if isinstance(found, Rejection):
            yield found
            continue
        entry = dict_of(found.value)
        # Early versions wrote the items themselves.
        payload = dict_of(entry.get("payload")) or entry
        kind = entry.get("type")
        if kind == "session_meta" or (kind is None and "id" in entry):
            state.session = state.session or text_of(payload.get("id"))
            state.folder = text_of(payload.get("cwd")) or state.folder
        elif kind == "turn_context":
            state.model = text_of(payload.get("model")) or state.model
        elif kind == "compacted":
            left_out.add(Reason.SUMMARIES, found.line)
            # The model's answer to the program's own question for a summary.
            if state.messages and state.messages[-1].text.strip() in text_of(payload.get("message")):
                state.messages.pop()
        elif kind == "event_msg":
            _undo(state, payload, found.line, left_out)
        else:
            _add_item(state, payload, entry.get("timestamp"), found.line, left_out)
    thread = Thread(state.session or PurePath(name).stem, PurePath(state.folder).name, "codex")
    yield from message_rows(thread, state.messages, left_out, file)
    yield from left_out.notices()


def _undo(state: _CodexSession, event: Mapping[str, object], line: int, left_out: LeftOut) -> None:
    """Remove the last turns if the person has taken them back."""
    turns = event.get("num_turns")
    if event.get("type") != "thread_rolled_back" or not isinstance(turns, int):
        return
    before = len(state.messages)
    starts = [place for place, message in enumerate(state.messages) if message.speaker == "user"]
    if turns > 0 and starts:
        del state.messages[starts[-min(turns, len(starts))] :]
    left_out.add(Reason.BRANCHES, line, before - len(state.messages))


def _add_item(
    state: _CodexSession, item: Mapping[str, object], said_at: object, line: int, left_out: LeftOut
) -> None:
    kind, role = text_of(item.get("type")), text_of(item.get("role"))
    if kind == "reasoning":
        left_out.add(Reason.THOUGHTS, line)
    elif "call" in kind:
        left_out.add(Reason.TOOLS, line)
    if kind != "message":
        return
    if role not in {"user", "assistant"}:
        left_out.add(Reason.SYSTEM, line)
        return
    text = blocks_text(item.get("content"), line, left_out)
    if role == "user" and (text.lstrip().startswith(_INSTRUCTIONS) or (text.strip() and is_wrapped(text))):
        left_out.add(Reason.ADDED, line)
        return
    metadata = {"role": role, "model": state.model if role == "assistant" else "", "folder": state.folder}
    # A session file only grows, so its lines name its messages.
    own = f"{state.session}:{line}" if state.session else ""
    state.messages.append(Message(own, role, text, said_at, line, metadata))
