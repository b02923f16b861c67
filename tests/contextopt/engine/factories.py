"""Makes values for the engine's tests."""

from datetime import UTC, datetime, timedelta
from typing import Any

from contextopt.engine.text.tokens import get_tokenizer
from contextopt.engine.values import RecordSummary, SpaceContext

NOW = datetime(2026, 3, 15, 12, 0, tzinfo=UTC)
TOKENIZER = get_tokenizer("cl100k_base")


def make_record(id: int = 1, *, days_old: float = 0, **overrides: Any) -> RecordSummary:
    line = overrides.pop("line", f"- [note] Record {id} (2026-03-01)\n")
    values: dict[str, Any] = {
        "id": id,
        "date": NOW - timedelta(days=days_old),
        "view_count": 0,
        "line": line,
        "tokens": TOKENIZER.count(line),
    }
    return RecordSummary(**values | overrides)


def make_space(*records: RecordSummary, **overrides: Any) -> SpaceContext:
    values: dict[str, Any] = {"name": "Platform", "description": "", "categories": (), "records": records}
    return SpaceContext(**values | overrides)
