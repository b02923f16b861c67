"""The input and output values of an assembly, immutable and validated on creation, and its warnings."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, NamedTuple, Protocol, Self, TypedDict

from contextopt.engine.text.modeltokens import LEARNED, find_shipped
from contextopt.engine.text.tokens import FACTOR_SCALE, Measure
from contextopt.engine.validation import MAX_INT, InvalidValue, check_int, check_text, utc
from contextopt.engine.wording import day, plural

CLOCK_SKEW = timedelta(hours=24)
"""How far after `now` a date may be and still count as age 0."""

LINE_START = "- "


@dataclass(frozen=True, slots=True)
class RecordSummary:
    """A record as shown in the prompt: one line, its exact token count, and the inputs of its score.

    `line` starts with "- " and ends with its only line break, so lines can be counted separately and added
    up. `date` is in UTC. `version` tells which of the record's texts this is; it does not affect the score.
    """

    id: int
    date: datetime
    view_count: int
    line: str
    tokens: int
    pinned: bool = False
    deleted: bool = False
    source: str = ""
    external_id: str = ""
    version: int = 1

    def __post_init__(self) -> None:
        check_int("id", self.id, 0, MAX_INT)
        object.__setattr__(self, "date", utc("date", self.date))
        check_int("view_count", self.view_count, 0, MAX_INT)
        check_int("tokens", self.tokens, 1, MAX_INT)
        check_text("line", self.line)
        if not self.line.startswith(LINE_START) or self.line.find("\n") != len(self.line) - 1:
            raise InvalidValue("line", 'must start with "- " and end with its only line break')


@dataclass(frozen=True, slots=True)
class SpaceContext:
    """A space as shown in the prompt, with its candidate records."""

    name: str
    description: str
    categories: tuple[str, ...]
    records: tuple[RecordSummary, ...] = ()

    def __post_init__(self) -> None:
        check_text("name", self.name)
        check_text("description", self.description)
        if not isinstance(self.categories, tuple):
            raise InvalidValue("categories", "must be a tuple of texts")
        for category in self.categories:
            check_text("categories", category)
        check_distinct("records", self.records)


def check_distinct(field: str, records: tuple[RecordSummary, ...]) -> None:
    """Reject a duplicate record, which would be rendered and counted twice."""
    if not isinstance(records, tuple):
        raise InvalidValue(field, "must be a tuple of records")
    seen: set[int] = set()
    for record in records:
        if record.id in seen:
            raise InvalidValue(field, f"must hold each record once; {record.id} occurs twice")
        seen.add(record.id)


@dataclass(frozen=True, slots=True)
class DateRange:
    """From `start` (None: the beginning of time) to `end`, both included, in UTC."""

    start: datetime | None
    end: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "end", utc("end", self.end))
        if self.start is None:
            return
        object.__setattr__(self, "start", utc("start", self.start))
        if self.start > self.end:
            raise InvalidValue("start", "must not be after the end")

    @classmethod
    def ending_at(cls, now: datetime, window_days: int | None) -> Self:
        """Return the window of this many days before `now`. Its end leaves room for clock skew.

        A window that would reach beyond the years 1 to 9999 ends there.
        """
        if window_days is not None:
            check_int("window_days", window_days, 1, MAX_INT)
        now = utc("now", now)
        end = min(now, datetime.max.replace(tzinfo=UTC) - CLOCK_SKEW) + CLOCK_SKEW
        if window_days is None or window_days > (now - datetime.min.replace(tzinfo=UTC)).days:
            return cls(None, end)
        return cls(now - timedelta(days=window_days), end)

    def __contains__(self, moment: datetime) -> bool:
        return (self.start is None or self.start <= moment) and moment <= self.end


@dataclass(frozen=True, slots=True)
class FilterCounts:
    """How many records were filtered. The given records may come from a larger set in a database.

    `filtered` counts every candidate, including pinned records outside the window.
    """

    filtered: int
    outside_window: int = 0
    deleted: int = 0

    def __post_init__(self) -> None:
        check_int("filtered", self.filtered, 0, MAX_INT)
        check_int("outside_window", self.outside_window, 0, MAX_INT)
        check_int("deleted", self.deleted, 0, MAX_INT)


@dataclass(frozen=True, slots=True)
class PartSizes:
    """The tokens of the caller's system and history. None stands for the whole share."""

    system: int | None = None
    history: int | None = None

    @classmethod
    def from_json(cls, request: Mapping[str, Any]) -> "PartSizes":
        return cls(request.get("system_tokens"), request.get("history_tokens"))

    def to_json(self) -> dict[str, int]:
        sizes = {"system_tokens": self.system, "history_tokens": self.history}
        return {name: size for name, size in sizes.items() if size is not None}


WHOLE_SHARES = PartSizes()


@dataclass(frozen=True, slots=True)
class TokenAllocation:
    """The division of the total; the four parts add up to it."""

    total: int
    system: int
    history: int
    context: int
    response: int


class LedgerEntry(NamedTuple):
    """One candidate and its outcome. A kept one may have the reason `in_sight`: an earlier block shows it.

    A named tuple, since an assembly creates over a hundred, and a frozen dataclass takes four times as long.
    `parts` are the unweighted parts of the score, each 0 to 10. `reason` is empty if the record was kept.
    Stage 3 does not score: its score is 0 and it has no parts.
    """

    id: int
    source: str
    external_id: str
    score: float
    parts: dict[str, float]
    tokens: int
    kept: bool
    reason: str
    pinned: bool
    duplicate_of: int | None = None
    """The record that this one repeats, if that is the reason."""


@dataclass(frozen=True, slots=True)
class ContextStats:
    """Figures of one assembly.

    `records_included + records_dropped == records_filtered`, and the reasons add up to the dropped ones.
    Records outside the window and deleted records are counted separately. `tokens_saved` is signed: below
    zero, this stage cost more than stage 3.
    """

    records_filtered: int
    records_included: int
    records_dropped: int
    tokens_used: int
    tokens_available: int
    utilisation: float | None
    """Used divided by available; None if nothing was available."""
    compression_ratio: float | None
    """Included divided by filtered; None if nothing was filtered."""
    truncated: bool
    """Something was dropped or cut for the record limit or the budget, including the description. Records
    that were not worth their tokens do not count.
    """
    outside_window: int
    deleted: int
    dropped_by_reason: dict[str, int]
    stage3_tokens: int | None = None
    tokens_saved: int | None = None
    assembly_ms: float | None = None
    """Set by the caller, since the engine has no clock."""


class Counts(Protocol):
    """A tokenizer, or a counter that uses one."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def measure(self, text: str, counted: int) -> Measure: ...


@dataclass(frozen=True, slots=True)
class Certificate:
    """Proof of size: tokens counted on the exact text, and the SHA-256 of its UTF-8 bytes.

    `tokens` are counted with the encoding. The model is billed for `tokens_at_most`: the same if the encoding
    is its own, else the tokens times `factor`, rounded up. The factor is `learned` from a team's own prompts,
    or `shipped`. On average it is `factor_mean`. `carried_tokens` is the size of the conversation's earlier
    blocks that stay in the prompt.
    """

    tokens: int
    encoding: str
    tokenizer_version: str
    sha256: str
    carried_tokens: int = 0
    model: str = ""
    factor: float | None = None
    factor_mean: float | None = None
    factor_source: Literal["learned", "shipped"] | None = None
    factor_prompts: int | None = None
    tokens_at_most: int = 0

    @classmethod
    def of(cls, text: str, tokens: int, counts: Counts, carried_tokens: int = 0) -> Self:
        """Certify a text for which these counts gave this number of tokens."""
        measured = counts.measure(text, tokens)
        return cls(
            measured.tokens,
            counts.name,
            counts.version,
            hashlib.sha256(text.encode()).hexdigest(),
            carried_tokens,
            measured.model,
            _fraction(measured.factor),
            _fraction(measured.mean),
            measured.source,
            measured.prompts,
            measured.at_most,
        )

    @property
    def total_tokens(self) -> int:
        return self.tokens_at_most + self.carried_tokens

    @property
    def statement(self) -> str:
        """Say in words what was counted, how, and what the model is billed for."""
        if self.factor is None:
            return f"{self.tokens:,} tokens, counted with {self.encoding}"
        return (
            f"{self.tokens:,} counted with {self.encoding}, ×{self.factor:.2f} for {self.model} from "
            f"{self._source}: at most {self.tokens_at_most:,}"
        )

    @property
    def _source(self) -> str:
        """Say where the factor comes from."""
        if self.factor_source == LEARNED:
            return plural(self.factor_prompts or 0, "prompt")
        shipped = find_shipped(self.model)
        told = f" ({shipped.source}, {day(shipped.measured)})" if shipped else ""
        return f"shipped factors{told}"

    def to_json(self) -> dict[str, int | str | float | None]:
        return {**asdict(self), "total_tokens": self.total_tokens}


def _fraction(scaled: int | None) -> float | None:
    return None if scaled is None else scaled / FACTOR_SCALE


@dataclass(frozen=True, slots=True)
class Assembled:
    """The result of one assembly.

    `order` holds the ids as rendered. `ledger` lists all kept records and the best hundred dropped ones in
    rank order. `baseline_text` is the text of stage 3 (stages 4 and 5). `wants_more_candidates` means that
    the caller loaded too few: all loaded records were kept although more were counted, or a kept record lacks
    the texts that others have. With an adaptive budget, `fixed_tokens` is the size of the same context with a
    fixed one. `day` is the day of all candidates if the header shows it instead of their lines.
    """

    text: str
    allocation: TokenAllocation
    stats: ContextStats
    certificate: Certificate
    ledger: tuple[LedgerEntry, ...]
    order: tuple[int, ...]
    baseline_text: str | None = None
    baseline_order: tuple[int, ...] = ()
    fixed_tokens: int | None = None
    day: date | None = None
    wants_more_candidates: bool = False


ENGINE_VERSION = 13
"""Raise it with every change after which the same inputs may give another text, ledger or count: scoring,
ranking, duplicates, passages, rendering, packing, and how the caller reads texts for it. Then record the
golden contexts again; a test fails until both are done.
"""
PLAIN_ENGINE_VERSION = 12
"""Since this version, contexts without a question are the same. Raise it to ENGINE_VERSION with a change that
affects them too.
"""


EMPTY_WINDOW = "empty_window"
NOTHING_RELEVANT = "nothing_relevant"
BUDGET_TOO_SMALL = "budget_too_small"
NOT_EMBEDDED = "not_embedded"
UNKNOWN_PHASE = "unknown_phase"
UNKNOWN_MODEL = "unknown_model"
OVER_BUDGET = "over_budget"
NOT_INDEXED = "not_indexed"
TASK_WAITS = "task_waits"
TASK_STOPPED = "task_stopped"
NOTE = "note"
"""Code of warnings that were stored as plain text, before warnings had codes."""

INSUFFICIENT = frozenset({EMPTY_WINDOW, NOTHING_RELEVANT, BUDGET_TOO_SMALL, NOT_EMBEDDED})
"""With one of these warnings the answer may be missing, so the context never counts as a saving."""


class RemedyJson(TypedDict):
    """A setting to change, its new value, and the label of the button that changes it."""

    setting: str
    value: str | int
    label: str


class WarningJson(TypedDict):
    """A warning in the API, in commands and in stored ledgers."""

    code: str
    message: str
    remedy: RemedyJson | None


@dataclass(frozen=True, slots=True)
class Remedy:
    """A setting to change, its new value, and the label of the button that changes it."""

    setting: str
    value: str | int
    label: str


@dataclass(frozen=True, slots=True)
class ContextWarning:
    """A notice for the reader of a result. `code` is stable; `message` is for people."""

    code: str
    message: str
    remedy: Remedy | None = None

    def __str__(self) -> str:
        return self.message

    def to_json(self) -> WarningJson:
        remedy = self.remedy
        shown: RemedyJson | None = (
            {"setting": remedy.setting, "value": remedy.value, "label": remedy.label} if remedy else None
        )
        return {"code": self.code, "message": self.message, "remedy": shown}

    @classmethod
    def from_json(cls, stored: str | Mapping[str, Any]) -> Self:
        """Read a stored warning. Rows from before warnings had codes hold text, which becomes a note."""
        if isinstance(stored, str):
            return cls(NOTE, stored)
        remedy = stored["remedy"]
        return cls(stored["code"], stored["message"], Remedy(**remedy) if remedy else None)


def warnings_json(warnings: Iterable[ContextWarning]) -> list[WarningJson]:
    """Return the warnings as JSON objects, in their order."""
    return [warning.to_json() for warning in warnings]


def read_warnings(stored: Iterable[str | Mapping[str, Any]]) -> list[ContextWarning]:
    """Read the warnings of a stored row, of any version."""
    return [ContextWarning.from_json(warning) for warning in stored]
