"""Writes exports and sessions in the forms that the programs write them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from contextopt.spaces.importing.formats import read_path
from contextopt.spaces.importing.rows import Notice, RawRow


def write_json(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def write_lines(path: Path, *values: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def read_rows(path: Path, format: str = "") -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Return the fields of the rows, and the count of each thing that was left out."""
    found = list(read_path(str(path), format=format))
    assert all(isinstance(each, RawRow | Notice) for each in found), found
    rows = [each.fields for each in found if isinstance(each, RawRow)]
    return rows, {each.message: each.times for each in found if isinstance(each, Notice)}


def said(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the title and text of each row."""
    return [(row["title"], row["notes"]) for row in rows]


def chatgpt_nodes(*messages: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ChatGPT's nodes; each message names its own `id` and its `parent`."""
    for message in messages:
        kind = message.get("kind", "text")
        content = {"content_type": kind, "parts": message.get("parts", [message.get("text", "")])}
        yield (
            message["id"],
            {
                "id": message["id"],
                "parent": message.get("parent"),
                "children": [each["id"] for each in messages if each.get("parent") == message["id"]],
                "message": {
                    "id": message["id"],
                    "author": {"role": message["role"], "name": message.get("name")},
                    "create_time": message.get("at"),
                    "content": content | message.get("content", {}),
                    "metadata": message.get("metadata", {}),
                    "recipient": message.get("recipient", "all"),
                },
            },
        )
