"""What callers may send: one set of types for the API, imports and forms.

Every text refuses NUL and lone surrogates and every number stays within 64 bits, because PostgreSQL
can store neither: what passes here can be written.
"""

import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from contextopt.engine.config import SEARCH_STAGE
from contextopt.errors import FieldProblem
from contextopt.faults import describe_faults
from contextopt.models import spaces as limits
from contextopt.models.configs import TOKENS_MAX
from contextopt.models.spaces import DATE_MAX, DATE_MIN, METADATA_MAX_BYTES, NAME_MAX

PROMPT_TEXT_MAX = 1_000_000
QUERY_MAX = 10_000
METADATA_DEPTH_MAX = 20
YEARS_END = datetime(DATE_MAX.year, 1, 1, tzinfo=UTC)


def refuse_unstorable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("contains a NUL character, which cannot be stored")
    if has_surrogate(text):
        raise ValueError("contains a lone surrogate, which is not a character")
    return text


def has_surrogate(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def refuse_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def read_moment(value: object) -> object:
    """Take a bare date as midnight UTC; everything else is left to the datetime type.

    Numbers are refused: seconds and milliseconds cannot be told apart.
    """
    is_number = isinstance(value, bool | int | float | Decimal)
    if is_number or (isinstance(value, str) and value.strip().replace(".", "", 1).lstrip("+-").isdigit()):
        raise ValueError("give a date-time with an offset, such as 2026-01-31T12:00:00Z")
    if isinstance(value, str) and len(value) == 10:
        value = _read_date(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time(), UTC)
    return value


def _read_date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError("is not a date, such as 2026-01-31") from None


def check_moment(moment: datetime) -> datetime:
    """Return the moment in UTC, which is what is stored and so what must lie in the range."""
    if moment.tzinfo is None:
        raise ValueError("needs an offset from UTC, such as 2026-01-31T12:00:00Z")
    if not DATE_MIN <= moment < YEARS_END:
        raise ValueError("must be in the years 1900 to 2998, counted in UTC")
    return moment.astimezone(UTC)


def check_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Refuse what PostgreSQL cannot store as JSON, or what is too big or too deep to be looked at."""
    check_json(metadata, METADATA_DEPTH_MAX)
    size = len(json.dumps(metadata, ensure_ascii=False).encode())
    if size > METADATA_MAX_BYTES:
        raise ValueError(f"must be at most {METADATA_MAX_BYTES:,} bytes of JSON, it has {size:,}")
    return metadata


def check_json(value: object, depth: int, deepest: int | None = None) -> None:
    """Refuse what PostgreSQL cannot store as JSON, and what is nested deeper than `depth`."""
    deepest = depth if deepest is None else deepest
    if depth < 0:
        raise ValueError(f"must be nested at most {deepest} deep")
    match value:
        case str():
            refuse_unstorable(value)
        case float() if not math.isfinite(value):
            raise ValueError("must not contain NaN or infinity")
        case int() if not -(2**63) <= value < 2**63:
            raise ValueError("must not contain a number past 64 bits")
        case dict():
            for name, inner in value.items():
                refuse_unstorable(name)
                check_json(inner, depth - 1, deepest)
        case list():
            for inner in value:
                check_json(inner, depth - 1, deepest)


def refuse_truth(value: object) -> object:
    """Python takes true for the number 1; a caller who sends it meant something else."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


NUMBER = BeforeValidator(refuse_truth)
"""Stands last in the type of a number, after its limits."""
Text = Annotated[str, AfterValidator(refuse_unstorable)]
Moment = Annotated[datetime, BeforeValidator(read_moment), AfterValidator(check_moment)]
Slug = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_-]+$")]
Id = Annotated[int, Field(ge=1, le=2**63 - 1), NUMBER]
BigInt = Annotated[int, Field(ge=-(2**63), le=2**63 - 1), NUMBER]
Tokens = Annotated[int, Field(ge=0, le=TOKENS_MAX), NUMBER]
Weight = Annotated[Decimal, Field(ge=0, le=10, decimal_places=3)]
Share = Annotated[Decimal, Field(ge=0, le=1, decimal_places=3)]
Tag = Annotated[Text, Field(min_length=1, max_length=limits.TAG_MAX)]
Name = Annotated[Text, Field(max_length=NAME_MAX), AfterValidator(refuse_blank)]
Categories = Annotated[
    list[Annotated[Text, Field(min_length=1, max_length=limits.CATEGORY_MAX)]],
    Field(max_length=limits.CATEGORIES_MAX),
]
Description = Annotated[Text, Field(max_length=limits.DESCRIPTION_MAX)]
Title = Annotated[Text, Field(max_length=limits.TITLE_MAX), AfterValidator(refuse_blank)]
Type = Annotated[Text, Field(max_length=limits.TYPE_MAX), AfterValidator(refuse_blank)]
Tags = Annotated[list[Tag], Field(max_length=limits.TAGS_MAX)]
Notes = Annotated[Text, Field(max_length=limits.NOTES_MAX)]
Thread = Annotated[Text, Field(max_length=limits.THREAD_MAX)]
Language = Literal["en", "no"]
Metadata = Annotated[dict[str, Any], AfterValidator(check_metadata)]


class Input(BaseModel):
    """A body or row: unknown fields are refused, so that a misspelt one is not lost in silence."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class SpaceIn(Input):
    slug: Slug
    name: Name | None = None
    description: Description = ""
    categories: Categories = Field(default_factory=list)


class SpacePatch(Input):
    name: Name = ""
    description: Description = ""
    categories: Categories = Field(default_factory=list)


class RecordIn(Input):
    """A record as it comes. Views and deletion are of the moment it is made: a later import of the same
    record leaves them as they have become. Its language, unless given, is found out from its texts.
    """

    title: Title
    type: Type = "note"
    date: Moment | None = None
    tags: Tags = Field(default_factory=list)
    notes: Notes = ""
    pinned: bool = False
    thread: Thread = ""
    position: BigInt | None = None
    source: Annotated[Text, Field(max_length=limits.SOURCE_MAX)] = ""
    external_id: Annotated[Text, Field(max_length=limits.EXTERNAL_ID_MAX)] = ""
    metadata: Metadata = Field(default_factory=dict)
    language: Language | None = None
    view_count: Annotated[int, Field(ge=0, le=limits.VIEWS_MAX), NUMBER] = 0
    last_viewed_at: Moment | None = None
    deleted_at: Moment | None = None


class RecordPatch(Input):
    """Changes of a record; what is not given stays. Only `position` may be null."""

    title: Title = ""
    type: Type = ""
    date: Moment = DATE_MIN
    tags: Tags = Field(default_factory=list)
    notes: Notes = ""
    pinned: bool = False
    thread: Thread = ""
    position: BigInt | None = None
    metadata: Metadata = Field(default_factory=dict)
    language: Language = "en"


WindowDays = Annotated[int, Field(ge=1, le=3_650), NUMBER] | Literal["all"]
NotesChars = Annotated[int, Field(ge=1, le=100_000), NUMBER] | Literal["all"]
MaxRecords = Annotated[int, Field(ge=1, le=1_000), NUMBER] | Literal["all"]


class PromptIn(Input):
    """What should go into one prompt? Settings given here win over the space's own.

    `query` is what the prompt asks; stage 5 ranks by it, and is the default where it is given.
    """

    query: Annotated[Text, Field(max_length=QUERY_MAX)] = ""
    stage: Literal[2, 3, 4, 5] | None = None
    as_of: Moment | None = None
    window_days: WindowDays | None = None
    max_records: MaxRecords | None = None
    context_tokens: Tokens | None = None
    system_tokens: Tokens | None = None
    history_tokens: Tokens | None = None
    response_tokens: Annotated[int, Field(ge=1_000, le=TOKENS_MAX), NUMBER] | None = None
    total_tokens: Annotated[int, Field(ge=1_000, le=4 * TOKENS_MAX), NUMBER] | None = None
    recency_weight: Weight | None = None
    frequency_weight: Weight | None = None
    semantic_weight: Weight | None = None
    lexical_weight: Weight | None = None
    neighbour_share: Share | None = None
    notes_chars: NotesChars | None = None
    encoding: Annotated[Text, Field(max_length=64)] | None = None
    record_order: Literal["score", "stable"] | None = None
    system: Annotated[Text, Field(max_length=PROMPT_TEXT_MAX)] | None = None
    history: Annotated[Text, Field(max_length=PROMPT_TEXT_MAX)] | None = None
    conversation: Annotated[Text, Field(max_length=200)] = ""
    model: Annotated[Text, Field(max_length=120)] = ""

    @property
    def stage_in_force(self) -> int:
        """The stage asked for; else 5 for a question and 4 without one."""
        return self.stage or (5 if self.query.strip() else 4)

    @property
    def asks(self) -> bool:
        """Whether a question decides. Without one stage 5 is stage 4."""
        return self.stage_in_force == SEARCH_STAGE and bool(self.query.strip())


class AssemblyIn(PromptIn):
    """What of a space should go into one prompt? Settings given here win over the space's own.

    `query` is what the prompt asks; stage 5 ranks by it, and is the default where it is given.
    """

    space: Slug


class ConfigIn(Input):
    """Settings of the next version; what is not given is carried over from the active one."""

    window_days: Literal[7, 14, 30, "all"] | None = None
    max_records: Annotated[int, Field(ge=1, le=1_000), NUMBER] | None = None
    recency_weight: Weight | None = None
    frequency_weight: Weight | None = None
    system_tokens: Tokens | None = None
    history_tokens: Tokens | None = None
    response_tokens: Annotated[int, Field(ge=1_000, le=TOKENS_MAX), NUMBER] | None = None
    context_tokens: Tokens | None = None
    stage3_context_tokens: Tokens | None = None
    total_tokens: Annotated[int, Field(ge=1_000, le=4 * TOKENS_MAX), NUMBER] | None = None
    semantic_weight: Weight | None = None
    lexical_weight: Weight | None = None
    neighbour_share: Share | None = None
    question_window_days: WindowDays | None = None
    question_max_records: MaxRecords | None = None
    question_notes_chars: NotesChars | None = None
    encoding: Annotated[Text, Field(max_length=64)] | None = None
    record_order: Literal["score", "stable"] | None = None
    note: Annotated[Text, Field(max_length=200)] = ""


class KeyIn(Input):
    name: Name
    scope: Literal["read", "write", "admin"] = "write"
    expires_at: Moment | None = None


def field_problems(error: ValidationError) -> list[FieldProblem]:
    """Name each refused field, dotted for nested ones, with the rules it broke."""
    return describe_faults(error.errors(include_url=False))
