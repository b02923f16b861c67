"""Reads the exports of ChatGPT and Claude: `conversations.json`, one object for each conversation."""

from collections.abc import Iterable, Iterator, Mapping

from contextopt.spaces.importing.chats.messages import (
    LeftOut,
    Message,
    Reason,
    Thread,
    blocks_text,
    conversation_rows,
    dict_of,
    dicts_of,
    text_of,
    with_attachments,
)
from contextopt.spaces.importing.jsonfiles import FoundValue
from contextopt.spaces.importing.rows import Found

# These tools of ChatGPT quote the person's own files.
_OF_FILES = {"myfiles_browser", "file_search"}
_THOUGHTS = {"thoughts", "reasoning_recap"}
_SETTINGS = {"user_editable_context", "model_editable_context"}


def read_chatgpt(values: Iterable[FoundValue], file: str) -> Iterator[Found]:
    """Yield a row for each message on the active branch of each conversation."""
    return conversation_rows(values, file, _chatgpt_chat)


def _chatgpt_chat(
    chat: Mapping[str, object], line: int, left_out: LeftOut
) -> tuple[Thread, Iterable[Message]]:
    nodes = {name: dict_of(node) for name, node in dict_of(chat.get("mapping")).items()}
    branch = _active_branch(nodes, text_of(chat.get("current_node")))
    said = [node for node in nodes.values() if _is_said(dict_of(node.get("message")))]
    kept = [dict_of(node.get("message")) for node in branch]
    left_out.add(Reason.BRANCHES, line, len(said) - sum(map(_is_said, kept)))
    if not said:
        left_out.add(Reason.EMPTY, line)
    own = text_of(chat.get("conversation_id")) or text_of(chat.get("id"))
    thread = Thread(own, text_of(chat.get("title")), "chatgpt", chat.get("create_time"))
    messages = (_chatgpt_message(message, line, left_out) for message in kept if message)
    return thread, (each for each in messages if each)


def _active_branch(nodes: Mapping[str, Mapping[str, object]], leaf: str) -> list[Mapping[str, object]]:
    """Return the nodes from the root to the current one; without one, to the last that was added."""
    name = leaf if leaf in nodes else _newest_leaf(nodes)
    branch: list[Mapping[str, object]] = []
    seen: set[str] = set()
    while name in nodes and name not in seen:
        seen.add(name)
        branch.append(nodes[name])
        name = text_of(nodes[name].get("parent"))
    return branch[::-1]


def _newest_leaf(nodes: Mapping[str, Mapping[str, object]]) -> str:
    leaves = [name for name, node in nodes.items() if not node.get("children")]
    return max(leaves, key=lambda name: _seconds(dict_of(nodes[name].get("message"))), default="")


def _seconds(message: Mapping[str, object]) -> float:
    value = message.get("create_time")
    return float(value) if isinstance(value, int | float) else 0.0


def _is_said(message: Mapping[str, object]) -> bool:
    """Tell whether a message is a person's or the model's, to be read by the other."""
    role = text_of(dict_of(message.get("author")).get("role"))
    kind = dict_of(message.get("content")).get("content_type")
    is_shown = not dict_of(message.get("metadata")).get("is_visually_hidden_from_conversation")
    return role in {"user", "assistant"} and kind in {"text", "multimodal_text"} and is_shown


def _chatgpt_message(message: Mapping[str, object], line: int, left_out: LeftOut) -> Message | None:
    author, content = dict_of(message.get("author")), dict_of(message.get("content"))
    role, kind = text_of(author.get("role")), text_of(content.get("content_type"))
    metadata = dict_of(message.get("metadata"))
    is_file = kind == "tether_quote" or (role == "tool" and author.get("name") in _OF_FILES)
    if kind in _THOUGHTS:
        left_out.add(Reason.THOUGHTS, line)
        return None
    if role == "system" or kind in _SETTINGS or metadata.get("is_visually_hidden_from_conversation"):
        text = "".join(part for part in _parts(content) if isinstance(part, str))
        left_out.add(Reason.SYSTEM, line, int(bool(text.strip()) or kind in _SETTINGS))
        return None
    if not is_file and (role == "tool" or text_of(message.get("recipient")) not in {"", "all"}):
        left_out.add(Reason.TOOLS, line)
        return None
    texts = [_part_text(part) for part in _parts(content)]
    left_out.add(Reason.IMAGES, line, texts.count(None))
    said = [text_of(content.get("text")), *map(text_of, texts)]
    text = "\n\n".join(part for part in said if part.strip())
    names = [text_of(each.get("name")) for each in dicts_of(metadata.get("attachments"))]
    if is_file:
        title = text_of(content.get("title")) or "from a file"
        text = with_attachments("", [(title, text)])
    return Message(
        id=text_of(message.get("id")),
        speaker="attachment" if is_file else text_of(author.get("name")) or role,
        text=text,
        said_at=message.get("create_time"),
        line=line,
        metadata={
            "role": role,
            "model": text_of(metadata.get("model_slug")) if role == "assistant" else "",
            "attachments": [name for name in names if name],
        },
    )


def _parts(content: Mapping[str, object]) -> list[object]:
    parts = content.get("parts")
    return parts if isinstance(parts, list) else []


def _part_text(part: object) -> str | None:
    """Return a part's text, None if it is an image or a sound. Sounds may come with what was said."""
    if isinstance(part, str):
        return part
    return text_of(dict_of(part).get("text")) or None


def read_claude(values: Iterable[FoundValue], file: str) -> Iterator[Found]:
    """Yield a row for each message of each conversation, with the texts of its attachments."""
    return conversation_rows(values, file, _claude_chat)


def _claude_chat(
    chat: Mapping[str, object], line: int, left_out: LeftOut
) -> tuple[Thread, Iterable[Message]]:
    every = dicts_of(chat.get("chat_messages"))
    kept = _claude_branch(every, text_of(chat.get("current_leaf_message_uuid")))
    left_out.add(Reason.BRANCHES, line, len(every) - len(kept))
    if not every:
        left_out.add(Reason.EMPTY, line)
    own, title = text_of(chat.get("uuid")), text_of(chat.get("name"))
    thread = Thread(own, title, "claude.ai", chat.get("created_at"))
    return thread, [_claude_message(message, line, left_out) for message in kept]


def _claude_branch(messages: list[dict[str, object]], leaf: str) -> list[dict[str, object]]:
    """Return the messages up to the current or last one. Older exports don't say what a message answers."""
    by_id = {text_of(message.get("uuid")): message for message in messages}
    if not any(text_of(message.get("parent_message_uuid")) in by_id for message in messages):
        return messages
    name = leaf if leaf in by_id else text_of(messages[-1].get("uuid"))
    branch: list[dict[str, object]] = []
    while (message := by_id.pop(name, None)) is not None:
        branch.append(message)
        name = text_of(message.get("parent_message_uuid"))
    return branch[::-1]


def _claude_message(message: Mapping[str, object], line: int, left_out: LeftOut) -> Message:
    text = blocks_text(message.get("content"), line, left_out) or text_of(message.get("text"))
    attachments = [
        (text_of(each.get("file_name")) or "without a name", text_of(each.get("extracted_content")))
        for each in dicts_of(message.get("attachments"))
    ]
    files = [text_of(each.get("file_name")) for each in dicts_of(message.get("files"))]
    with_text = {name for name, content in attachments if content.strip()}
    names = [name for name, _ in attachments] + [name for name in files if name]
    left_out.add(Reason.IMAGES, line, sum(name not in with_text for name in dict.fromkeys(names)))
    role = "user" if message.get("sender") == "human" else text_of(message.get("sender"))
    return Message(
        id=text_of(message.get("uuid")),
        speaker=role or "user",
        text=with_attachments(text, attachments),
        said_at=message.get("created_at"),
        line=line,
        metadata={"role": role, "attachments": list(dict.fromkeys(names))},
    )
