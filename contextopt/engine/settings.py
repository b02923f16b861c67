"""The settings of a context: each is declared once, as a field of `ContextConfig`.

Inputs, forms, options of commands and tables of the docs read `SETTINGS`, so a new setting is one field here
and the code that uses it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Literal, Self

from contextopt.engine.validation import (
    MAX_WEIGHT,
    InvalidValue,
    JsonValue,
    Setting,
    check_choice,
    read_settings,
)

type RecordOrder = Literal["score", "stable"]
type BudgetMode = Literal["fixed", "adaptive"]

HEADER_STAGE, LAST_RECORDS_STAGE, SCORED_STAGE, SEARCH_STAGE = 2, 3, 4, 5
STAGES = (HEADER_STAGE, LAST_RECORDS_STAGE, SCORED_STAGE, SEARCH_STAGE)
FIXED, ADAPTIVE = "fixed", "adaptive"
MIN_RESPONSE_TOKENS = 1000
MAX_PART_TOKENS = 200_000
MAX_TOTAL_TOKENS = 4 * MAX_PART_TOKENS
MAX_WINDOW_DAYS = 3650
MAX_RECORD_LIMIT = 1000
MAX_NOTES_CHARS = 100_000
MAX_PATTERNS_CHARS = 2_000
MIN_RECORD_TOKENS = 64
"""Every record may take this many tokens, whatever the budget and the settings."""


class Section(StrEnum):
    """A heading of the settings, in the order in which they are shown."""

    RECORDS = "Records"
    BUDGET = "Token budgets"
    QUESTIONS = "For questions (stage 5)"
    TEXT = "Text"


_of_records = partial(Setting, section=Section.RECORDS)
_of_text = partial(Setting, section=Section.TEXT)
_of_budget = partial(Setting, section=Section.BUDGET, high=MAX_PART_TOKENS)
_of_question = partial(Setting, section=Section.QUESTIONS, stages=(SEARCH_STAGE,), low=1)
_weight_of_question = partial(_of_question, low=0, high=MAX_WEIGHT)


@dataclass(frozen=True, slots=True)
class ContextConfig:
    """Settings of one assembly. Sizes are in tokens unless the name says otherwise.

    None means "all" for a window, a record limit or the notes, and a quarter of the room for the size of a
    record. If `total_tokens` is None, the total is the sum of the parts, so raising one part raises it. The
    semantic, lexical, neighbour, date, who and question settings apply to stage 5 only. With an adaptive
    `record_budget`, stage 4 takes the records that say the most in fewer tokens than the last 10 records.
    With an adaptive `budget_mode`, a question's context takes only records that are worth their tokens,
    within the same budget. `adaptive_strictness`, from -0.5 to 0.5, requires more relevance than usual, or
    less if negative.
    """

    stage: int = SCORED_STAGE
    window_days: Annotated[
        int | None,
        _of_records(
            "Date window",
            "Date window in days, or `all`.",
            low=1,
            high=MAX_WINDOW_DAYS,
            choices={7: "7 days", 14: "14 days", 30: "30 days", None: "All"},
            stages=(SCORED_STAGE,),
            is_basic=True,
        ),
    ] = 14
    max_records: Annotated[
        int | None,
        _of_records(
            "Record limit",
            "Record limit: maximum number of records, or `all`.",
            help="For requests without a question.",
            low=1,
            high=MAX_RECORD_LIMIT,
            stages=(LAST_RECORDS_STAGE, SCORED_STAGE),
            is_basic=True,
        ),
    ] = 20
    record_budget: Annotated[
        BudgetMode,
        _of_records(
            "Record budget",
            "`fixed` takes the best records by score; `adaptive` takes those of the best 100 that say the "
            "most for their length, in at most 80 % of the tokens of the last 10 records.",
            help="For requests without a question. Adaptive sends fewer records: those that say the most.",
            choices={FIXED: "Fixed", ADAPTIVE: "Adaptive"},
            stages=(SCORED_STAGE,),
            is_basic=True,
            example=ADAPTIVE,
        ),
    ] = "fixed"
    recency_weight: Annotated[
        Decimal,
        _of_records(
            "Recency weight",
            "Weight of the age in the score, 0 to 10 with three decimals.",
            high=MAX_WEIGHT,
            stages=(SCORED_STAGE, SEARCH_STAGE),
        ),
    ] = Decimal("0.7")
    frequency_weight: Annotated[
        Decimal,
        _of_records(
            "Frequency weight",
            "Weight of the view count in the score, 0 to 10 with three decimals.",
            high=MAX_WEIGHT,
            stages=(SCORED_STAGE, SEARCH_STAGE),
        ),
    ] = Decimal("0.3")
    system_tokens: Annotated[
        int, _of_budget("System tokens", "Tokens of the system prompt.", request_name="")
    ] = 800
    context_tokens: Annotated[
        int,
        _of_budget(
            "Context tokens",
            "Maximum tokens of the context: the space and its records.",
            stages=(HEADER_STAGE, SCORED_STAGE, SEARCH_STAGE),
            is_basic=True,
        ),
    ] = 2000
    history_tokens: Annotated[
        int, _of_budget("History tokens", "Tokens of the conversation so far.", request_name="")
    ] = 1000
    response_tokens: Annotated[
        int,
        _of_budget(
            "Response tokens (minimum)",
            "Tokens reserved for the response, at least 1,000.",
            low=MIN_RESPONSE_TOKENS,
        ),
    ] = MIN_RESPONSE_TOKENS
    total_tokens: Annotated[
        int | None,
        _of_budget(
            "Total tokens",
            "Tokens of the whole prompt with its response; null for the sum of the parts.",
            low=MIN_RESPONSE_TOKENS,
            high=MAX_TOTAL_TOKENS,
            blank="the sum of the four",
            is_null=True,
        ),
    ] = None
    stage3_context_tokens: Annotated[
        int,
        _of_budget(
            "Context tokens in stage 3",
            "Maximum tokens of the context in stage 3.",
            stages=(LAST_RECORDS_STAGE,),
            request_name="context_tokens",
            example=1500,
        ),
    ] = 4000
    semantic_weight: Annotated[
        Decimal,
        _weight_of_question(
            "Meaning weight",
            "Weight of similar meaning in the score, 0 to 10.",
            help="Similarity to the question.",
        ),
    ] = Decimal(9)
    lexical_weight: Annotated[
        Decimal,
        _weight_of_question(
            "Words weight",
            "Weight of matching words in the score, 0 to 10.",
            help="Words it shares with the question.",
        ),
    ] = Decimal(4)
    neighbour_share: Annotated[
        Decimal,
        _weight_of_question(
            "Neighbours",
            "How much the messages around a record in its thread count, 0 to 1.",
            help="How much the messages around a record count.",
            high=1,
        ),
    ] = Decimal("0.4")
    date_weight: Annotated[
        Decimal,
        _weight_of_question(
            "Date weight",
            "Weight of records from the days that the question names, 0 to 10.",
            help="For records from the days that the question names.",
            example="3",
        ),
    ] = Decimal(3)
    who_weight: Annotated[
        Decimal,
        _weight_of_question(
            "Person weight",
            "Weight of records by the one person that the question names, 0 to 10.",
            help="For records by the one person that the question names.",
            example="1.2",
        ),
    ] = Decimal(4)
    question_window_days: Annotated[
        int | None,
        _of_question(
            "Date window for questions (days)",
            "Date window for questions in days (stage 5), or `all`.",
            high=MAX_WINDOW_DAYS,
            request_name="window_days",
            is_basic=True,
        ),
    ] = None
    question_max_records: Annotated[
        int | None,
        _of_question(
            "Record limit for questions",
            "Record limit for questions (stage 5), or `all`.",
            high=MAX_RECORD_LIMIT,
            request_name="max_records",
            is_basic=True,
        ),
    ] = None
    question_notes_chars: Annotated[
        int | None,
        _of_question(
            "Notes limit (characters)",
            "Maximum characters of notes per record for questions (stage 5), or `all`.",
            high=MAX_NOTES_CHARS,
            request_name="notes_chars",
            request_about="Maximum characters of notes per record in stage 5, or `all`.",
        ),
    ] = None
    question_record_tokens: Annotated[
        int | None,
        _of_question(
            "Record size (tokens)",
            "Tokens of a record for questions (stage 5). Longer records are shown as their best "
            "passages, and larger if all fit. `all` allows a quarter of the context.",
            help="Longer records are cut to their best passages.",
            low=MIN_RECORD_TOKENS,
            high=MAX_PART_TOKENS,
            blank="a quarter of the context",
            request_name="record_tokens",
            request_about="Tokens of a record in stage 5. Longer records are shown as their best passages, "
            "and larger if all fit. `all` allows a quarter of the context.",
        ),
    ] = 120
    budget_mode: Annotated[
        BudgetMode,
        _of_question(
            "Budget",
            "`fixed` fills the budget of a question; `adaptive` stops at the first record that is not "
            "worth its tokens.",
            help="Adaptive sends only records that are worth their tokens.",
            choices={FIXED: "Fixed", ADAPTIVE: "Adaptive"},
            is_basic=True,
            example=ADAPTIVE,
        ),
    ] = "fixed"
    adaptive_strictness: Annotated[
        Decimal,
        _of_question(
            "Strictness",
            "Raises the share of the best record's relevance that a record needs in an adaptive "
            "budget, or lowers it: -0.5 to 0.5, 0 as calibrated.",
            help="For adaptive budgets. Higher values keep fewer records, lower values more. "
            "The default is 0.",
            low=Decimal("-0.5"),
            high=Decimal("0.5"),
            example="0.1",
        ),
    ] = Decimal(0)
    tool_patterns: Annotated[
        str | None,
        _of_question(
            "Blocks of tools",
            "Patterns of what your tools add to prompts, one a line: `BEGIN … END`, or the beginning of a "
            "line. It is left out of the question.",
            help="Patterns of what your tools add to prompts, one a line: BEGIN … END, or the beginning of "
            "a line. Tagged blocks are recognised without.",
            high=MAX_PATTERNS_CHARS,
            blank="none",
            is_null=True,
            request_name="",
            example="<<EDITOR … EDITOR>>",
        ),
    ] = None
    encoding: Annotated[
        str, _of_text("Encoding", "Tokenizer of requests that name no model, such as `cl100k_base`.", high=64)
    ] = "cl100k_base"
    record_order: Annotated[
        RecordOrder,
        _of_text(
            "Record order",
            "Order in the text: `score`, or `stable` (oldest first).",
            choices={"score": "By score", "stable": "Stable: oldest first"},
            stages=(LAST_RECORDS_STAGE, SCORED_STAGE, SEARCH_STAGE),
        ),
    ] = "score"

    def __post_init__(self) -> None:
        check_choice("stage", self.stage, STAGES)
        for name, setting in SETTINGS.items():
            setting.check(getattr(self, name))

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
        return {name: str(value) if isinstance(value, Decimal) else value for name, value in values.items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read the output of `to_json` or `to_stored`. Absent fields have their default."""
        return cls(**read_values(values))

    def to_stored(self) -> dict[str, JsonValue]:
        """Return the settings of a space as a JSON object. Each request has its own stage."""
        return {name: SETTINGS[name].write(value) for name, value in self.values().items()}

    def values(self) -> dict[str, Any]:
        """Return the settings of a space by name."""
        return {name: getattr(self, name) for name in SETTINGS}


def read_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values from JSON, by name."""
    _check_names(values)
    return {name: SETTINGS[name].read(value) if name in SETTINGS else value for name, value in values.items()}


def _check_names(values: Mapping[str, Any]) -> None:
    for name in values:
        if name not in SETTINGS and name != "stage":
            raise InvalidValue(str(name)[:80], "is not a setting of a context")


SETTINGS: Mapping[str, Setting] = read_settings(ContextConfig)
"""The settings of a space by name, in the order in which they are shown."""


REQUESTED: Mapping[str, Setting] = {
    setting.request_name: SETTINGS.get(setting.request_name, setting)
    for setting in SETTINGS.values()
    if setting.request_name
}
"""The settings that a request may override, by the name there. Several settings may share one."""


def setting_of_request(name: str, stage: int) -> Setting | None:
    """Return the setting that a request overrides by this name in this stage, if any.

    A name that means nothing in the stage is the setting's own.
    """
    for setting in SETTINGS.values():
        if setting.request_name == name and setting.decides_in(stage):
            return setting
    return SETTINGS.get(name)


def name_in_request(name: str) -> str:
    """Return the name by which a request overrides the setting. Other names stay as they are."""
    return (SETTINGS[name].request_name or name) if name in SETTINGS else name
