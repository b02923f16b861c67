"""Settings of one context: stage, window, weights, token shares."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, Self

from contextopt.engine.validation import (
    InvalidValue,
    check_choice,
    check_int,
    check_optional_int,
    check_text,
    check_weight,
)

type RecordOrder = Literal["score", "stable"]
type BudgetMode = Literal["fixed", "adaptive"]
type JsonValue = str | int | None

HEADER_STAGE, LAST_RECORDS_STAGE, SCORED_STAGE, SEARCH_STAGE = 2, 3, 4, 5
STAGES = (HEADER_STAGE, LAST_RECORDS_STAGE, SCORED_STAGE, SEARCH_STAGE)
RECORD_ORDERS = ("score", "stable")
FIXED, ADAPTIVE = "fixed", "adaptive"
BUDGET_MODES = (FIXED, ADAPTIVE)
MIN_RESPONSE_TOKENS = 1000
MAX_PART_TOKENS = 200_000
MAX_TOTAL_TOKENS = 4 * MAX_PART_TOKENS
MAX_WINDOW_DAYS = 3650
MAX_RECORD_LIMIT = 1000
MAX_ENCODING_CHARS = 64
MAX_NOTES_CHARS = 100_000
MAX_STRICTNESS = Decimal("0.5")
MIN_RECORD_TOKENS = 64
"""Every record may take this many tokens, whatever the budget and the settings."""

_WEIGHTS = (
    "recency_weight", "frequency_weight", "semantic_weight", "lexical_weight", "date_weight", "who_weight",
)  # fmt: skip
_DECIMALS = (*_WEIGHTS, "neighbour_share", "adaptive_strictness")


@dataclass(frozen=True, slots=True)
class ContextConfig:
    """Settings of one assembly. Sizes are in tokens unless the name says otherwise.

    None means "all" for a window, a record limit or the notes, and a quarter of the room for the size of a
    record. If `total_tokens` is None, the total is the sum of the parts, so raising one part raises it. The
    semantic, lexical, neighbour, date, who and question settings apply to stage 5 only. With an adaptive
    `budget_mode`, a question's context takes only records that are worth their tokens, within the same
    budget. `adaptive_strictness`, from -0.5 to 0.5, requires more relevance than usual, or less if negative.
    """

    stage: int = 4
    window_days: int | None = 14
    max_records: int | None = 20
    recency_weight: Decimal = Decimal("0.7")
    frequency_weight: Decimal = Decimal("0.3")
    system_tokens: int = 800
    history_tokens: int = 1000
    response_tokens: int = MIN_RESPONSE_TOKENS
    context_tokens: int = 2000
    stage3_context_tokens: int = 4000
    total_tokens: int | None = None
    encoding: str = "cl100k_base"
    record_order: RecordOrder = "score"
    semantic_weight: Decimal = Decimal(9)
    lexical_weight: Decimal = Decimal(4)
    neighbour_share: Decimal = Decimal("0.4")
    date_weight: Decimal = Decimal(3)
    who_weight: Decimal = Decimal(4)
    question_window_days: int | None = None
    question_max_records: int | None = None
    question_notes_chars: int | None = None
    question_record_tokens: int | None = 120
    budget_mode: BudgetMode = "fixed"
    adaptive_strictness: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        check_choice("stage", self.stage, STAGES)
        for window in ("window_days", "question_window_days"):
            check_optional_int(window, getattr(self, window), 1, MAX_WINDOW_DAYS)
        for limit in ("max_records", "question_max_records"):
            check_optional_int(limit, getattr(self, limit), 1, MAX_RECORD_LIMIT)
        for weight in _WEIGHTS:
            check_weight(weight, getattr(self, weight))
        for part in ("system_tokens", "history_tokens", "context_tokens", "stage3_context_tokens"):
            check_int(part, getattr(self, part), 0, MAX_PART_TOKENS)
        check_int("response_tokens", self.response_tokens, MIN_RESPONSE_TOKENS, MAX_PART_TOKENS)
        check_optional_int("total_tokens", self.total_tokens, MIN_RESPONSE_TOKENS, MAX_TOTAL_TOKENS)
        check_text("encoding", self.encoding)
        if not 1 <= len(self.encoding) <= MAX_ENCODING_CHARS:
            raise InvalidValue("encoding", f"must have 1 to {MAX_ENCODING_CHARS} characters")
        check_choice("record_order", self.record_order, RECORD_ORDERS)
        check_choice("budget_mode", self.budget_mode, BUDGET_MODES)
        check_weight("neighbour_share", self.neighbour_share, high=1)
        strictness = self.adaptive_strictness
        check_weight("adaptive_strictness", strictness, low=-MAX_STRICTNESS, high=MAX_STRICTNESS)
        check_optional_int("question_notes_chars", self.question_notes_chars, 1, MAX_NOTES_CHARS)
        record_tokens = self.question_record_tokens
        check_optional_int("question_record_tokens", record_tokens, MIN_RECORD_TOKENS, MAX_PART_TOKENS)

    @property
    def effective_window_days(self) -> int | None:
        """Return the maximum record age in days for this stage, None for all. Stage 5 has its own window."""
        return self.question_window_days if self.stage == SEARCH_STAGE else self.window_days

    @property
    def record_limit(self) -> int | None:
        """Return the record limit of this stage; None for no limit. Stage 5 has its own limit."""
        return self.question_max_records if self.stage == SEARCH_STAGE else self.max_records

    def without_question(self) -> Self:
        """Return the settings that apply when nothing is asked: stage 5 then works as stage 4."""
        return self.replace(stage=SCORED_STAGE) if self.stage == SEARCH_STAGE else self

    def context_share(self, stage: int) -> int:
        """Return the maximum tokens of the context in this stage."""
        return self.stage3_context_tokens if stage == LAST_RECORDS_STAGE else self.context_tokens

    def total_for(self, stage: int) -> int:
        """Return the tokens of the whole prompt and its response."""
        if self.total_tokens is not None:
            return self.total_tokens
        return self.system_tokens + self.history_tokens + self.context_share(stage) + self.response_tokens

    def replace(self, **changes: object) -> Self:
        """Return a copy with these fields changed, validated again."""
        _check_names(changes)
        values: dict[str, Any] = dict(changes)
        return replace(self, **values)

    def to_json(self) -> dict[str, JsonValue]:
        """Return a plain JSON object. Decimals are strings, since a float would not be exact."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {name: str(values[name]) for name in _DECIMALS}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read the output of `to_json`. Absent fields keep their default."""
        _check_names(values)
        read: dict[str, Any] = dict(values)
        for name in _DECIMALS:
            if name in read:
                read[name] = _decimal(name, read[name])
        return cls(**read)


def _check_names(values: Mapping[str, Any]) -> None:
    known = {field.name for field in fields(ContextConfig)}
    for name in values:
        if name not in known:
            raise InvalidValue(str(name)[:80], "is not a setting of a context")


def _decimal(field: str, value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise InvalidValue(field, "must be a number, or a number as text")
    try:
        return Decimal(str(value))
    except InvalidOperation:
        raise InvalidValue(field, "must be a number, or a number as text") from None
