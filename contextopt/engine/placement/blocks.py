"""The blocks of records from earlier prompts of a conversation that the caller still holds.

A new block leaves out what they already show. Passages are compared by their digests, so the log can store
what was in sight without its text.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from contextopt.engine.details import split_passages
from contextopt.engine.text.cleaning import ELLIPSIS
from contextopt.engine.text.tokens import Tokenizer

DIGEST_BYTES = 6
LEAST_SEEN = 0.2
"""The share of a record's wanted passages that must be in sight. With a larger share, long records are sent
again for every question, which costs more and finds nothing more on dialogues (benchmarks, section `cost`).
"""
# The start of a line up to its notes: "- [note] Title (2026-03-02) #tag", or without the date.
_FRAME = re.compile(r"- (?:.*?\(\d{4}-\d\d-\d\d\))?[^:\n]*")


class Shown(Protocol):
    """A record as a new block would show it."""

    @property
    def id(self) -> int: ...

    @property
    def version(self) -> int: ...

    @property
    def line(self) -> str: ...


class Seen(NamedTuple):
    """A record in sight: its version and the digests of its passages there."""

    version: int
    passages: frozenset[int]


@dataclass(frozen=True, slots=True)
class Block:
    """The context of an earlier prompt.

    It stands after `after_tokens` of history and before a question of `question_tokens`.
    """

    id: int
    tokens: int
    header: int
    records: Mapping[int, Seen]
    after_tokens: int = 0
    question_tokens: int = 0


def read_block(
    id: int,
    text: str,
    records: Sequence[tuple[int, int]],
    tokenizer: Tokenizer,
    *,
    after_tokens: int = 0,
    question_tokens: int = 0,
) -> Block:
    """Read a context's text. Its last lines are the records, which come as ids and versions."""
    lines = text.splitlines(keepends=True)
    first = len(lines) - len(records)
    seen = {
        record_id: Seen(version, frozenset(digests(line)))
        for (record_id, version), line in zip(records, lines[first:], strict=True)
    }
    header = "".join(lines[:first])
    header = header.removesuffix("\n") if records else header
    return Block(id, tokenizer.count(text), digest(header), seen, after_tokens, question_tokens)


@dataclass(frozen=True, slots=True)
class Sight:
    """Everything that the reader of a prompt sees before the new block.

    `tokens` is the size of the blocks, `headers` holds the digests of the lines before their records.
    """

    tokens: int = 0
    headers: frozenset[int] = frozenset()
    records: Mapping[int, Seen] = field(default_factory=dict)

    @classmethod
    def of(cls, blocks: Sequence[Block], in_history: Sequence[Block] = ()) -> "Sight":
        """Return what blocks show. The tokens of those in the history count there."""
        tokens, headers = sum(block.tokens for block in blocks), set()
        records: dict[int, Seen] = {}
        for block in (*in_history, *blocks):
            headers.add(block.header)
            for record_id, seen in block.records.items():
                before = records.get(record_id, seen)
                is_same = before.version == seen.version
                records[record_id] = Seen(seen.version, seen.passages | before.passages) if is_same else seen
        return cls(tokens, frozenset(headers), records)

    def shows(self, record: Shown) -> bool:
        """Return whether the record is in sight at this version, with enough of the wanted passages."""
        seen = self.records.get(record.id)
        if seen is None or seen.version != record.version:
            return False
        wanted = list(digests(record.line))
        return sum(one in seen.passages for one in wanted) >= LEAST_SEEN * len(wanted)

    def has(self, record: Shown) -> bool:
        """Return whether the record is in sight at all, whatever its passages."""
        return record.id in self.records

    def to_json(self, ids: Iterable[int]) -> dict[str, Any]:
        """Return the part that concerns these candidates, as plain numbers."""
        records = [
            [record_id, seen.version, *sorted(seen.passages)]
            for record_id in ids
            if (seen := self.records.get(record_id)) is not None
        ]
        return {"tokens": self.tokens, "headers": sorted(self.headers), "records": records}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Sight":
        records = {row[0]: Seen(row[1], frozenset(row[2:])) for row in stored["records"]}
        return cls(stored["tokens"], frozenset(stored["headers"]), records)


NOTHING = Sight()
"""Nothing is in sight, as in the first prompt of a conversation."""


def digests(line: str) -> Iterator[int]:
    """Yield the digests of the passages in a record's line, or of the whole line if it has no notes."""
    frame = _FRAME.match(line)
    notes = line[frame.end() if frame else 0 :].strip(": \n")
    if not notes:
        yield digest(line)
    for piece in notes.split(ELLIPSIS):
        yield from map(digest, split_passages(piece))


def digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=DIGEST_BYTES).digest())
