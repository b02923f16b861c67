"""Other ways to choose the records of a prompt, over the same records and budget."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from benchmarks.service.recount import count_tokens
from benchmarks.spaces import WINDOW_DAYS, Filled
from contextopt.engine.text.encodings import CL100K, load_encoding

BUDGET_TOKENS = 2_000
MAX_RECORDS = 20
# These libraries get only the newest records in the window, because their time grows faster than the list.
TRIM_MESSAGES_MOST = 10_000
MEMORY_BUFFER_MOST = 500
SKEW = timedelta(hours=24)

_SCORE_ALL_SQL = """
SELECT id, summary, summary_tokens FROM contextopt_record
 WHERE space_id = %(space)s AND deleted_at IS NULL AND NOT pinned
   AND date >= %(start)s AND date <= %(end)s
 ORDER BY 0.7 * greatest(0, 10 - greatest(0, extract(epoch FROM %(now)s::timestamptz - date)) / 86400 / 3)
        + 0.3 * least(10, view_count) DESC, date DESC, id DESC
 LIMIT %(limit)s
"""
_COUNT_SQL = """
SELECT count(*) FROM contextopt_record
 WHERE space_id = %(space)s AND deleted_at IS NULL AND date >= %(start)s AND date <= %(end)s
"""
_NEWEST_SQL = """
SELECT summary FROM contextopt_record
 WHERE space_id = %(space)s AND deleted_at IS NULL AND date >= %(start)s AND date <= %(end)s
 ORDER BY date DESC, id DESC LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """The number of records that one run considered, its text, and the records in it."""

    considered: int
    text: str
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Contender:
    """Another way. `most` is the maximum number of records it gets; None is the whole window."""

    name: str
    run: Callable[[Filled, datetime], Taken]
    most: int | None = None


def score_every_row(filled: Filled, now: datetime) -> Taken:
    """Let the database score the whole window, take the best that fit, and count the window."""
    asked = _window(filled, now) | {"now": now, "limit": MAX_RECORDS}
    with connection.cursor() as cursor:
        cursor.execute(_SCORE_ALL_SQL, asked)
        best = cursor.fetchall()
        cursor.execute(_COUNT_SQL, _window(filled, now))
        (considered,) = cursor.fetchone() or (0,)
    kept, left = [], BUDGET_TOKENS
    for record_id, line, tokens in best:
        if tokens > left:
            break
        kept.append((record_id, line))
        left -= tokens
    text = "".join(line for _, line in kept)
    count_tokens(text)
    return Taken(considered, text, tuple(record_id for record_id, _ in kept))


def load_contenders() -> tuple[list[Contender], list[str]]:
    """Return the contenders whose packages are installed, and a note on each that is left out."""
    found, notes = [Contender("scoring every row in SQL", score_every_row)], []
    makers: Sequence[tuple[str, Callable[[], Contender]]] = (
        ("langchain-core", _trim_messages),
        ("llama-index-core", _memory_buffer),
    )
    for package, make in makers:
        try:
            found.append(make())
        except ModuleNotFoundError:
            notes.append(f"{package} is not installed and was left out.")
    return found, notes


# These packages are imported by name, since only the environment for benchmarks has them.
def _trim_messages() -> Contender:
    messages: Any = importlib.import_module("langchain_core.messages")

    def count(batch: list[Any]) -> int:
        return sum(count_tokens(message.content) for message in batch)

    def run(filled: Filled, now: datetime) -> Taken:
        lines = _newest(filled, now, TRIM_MESSAGES_MOST)
        history = [messages.HumanMessage(content=line) for line in lines]
        kept = messages.trim_messages(history, max_tokens=BUDGET_TOKENS, strategy="last", token_counter=count)
        return Taken(len(lines), "".join(message.content for message in kept))

    return Contender("langchain-core `trim_messages`", run, TRIM_MESSAGES_MOST)


def _memory_buffer() -> Contender:
    memory: Any = importlib.import_module("llama_index.core.memory")
    llms: Any = importlib.import_module("llama_index.core.llms")
    encode = load_encoding(CL100K).encode_ordinary

    def run(filled: Filled, now: datetime) -> Taken:
        lines = _newest(filled, now, MEMORY_BUFFER_MOST)
        history = [llms.ChatMessage(role="user", content=line) for line in lines]
        buffer = memory.ChatMemoryBuffer.from_defaults(
            chat_history=history, token_limit=BUDGET_TOKENS, tokenizer_fn=encode
        )
        return Taken(len(lines), "".join(message.content for message in buffer.get()))

    return Contender("llama-index-core `ChatMemoryBuffer`", run, MEMORY_BUFFER_MOST)


def _window(filled: Filled, now: datetime) -> dict[str, int | datetime]:
    return {"space": filled.space.pk, "start": now - timedelta(days=WINDOW_DAYS), "end": now + SKEW}


def _newest(filled: Filled, now: datetime, most: int) -> list[str]:
    """Return the lines of the window's newest records, oldest first, as in a conversation."""
    with connection.cursor() as cursor:
        cursor.execute(_NEWEST_SQL, _window(filled, now) | {"limit": most})
        return [line for (line,) in reversed(cursor.fetchall())]
