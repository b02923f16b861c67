"""Input types for spaces, records and settings."""

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from contextopt.engine.settings import (
    MAX_ENCODING_CHARS,
    MAX_NOTES_CHARS,
    MAX_PART_TOKENS,
    MAX_RECORD_LIMIT,
    MAX_STRICTNESS,
    MAX_TOTAL_TOKENS,
    MAX_WINDOW_DAYS,
    MIN_RECORD_TOKENS,
    MIN_RESPONSE_TOKENS,
)
from contextopt.inputs import (
    NUMBER,
    BigInt,
    Input,
    Metadata,
    Moment,
    Name,
    Share,
    Slug,
    Text,
    Tokens,
    Weight,
    refuse_blank,
    refuse_breaks,
)
from contextopt.limits import DATE_MIN
from contextopt.spaces import models as limits

Tag = Annotated[Text, Field(min_length=1, max_length=limits.TAG_MAX)]
Category = Annotated[Text, Field(min_length=1, max_length=limits.CATEGORY_MAX), AfterValidator(refuse_breaks)]
Categories = Annotated[list[Category], Field(max_length=limits.CATEGORIES_MAX)]
Description = Annotated[Text, Field(max_length=limits.DESCRIPTION_MAX)]
Title = Annotated[Text, Field(max_length=limits.TITLE_MAX), AfterValidator(refuse_blank)]
Type = Annotated[Text, Field(max_length=limits.TYPE_MAX), AfterValidator(refuse_blank)]
Tags = Annotated[list[Tag], Field(max_length=limits.TAGS_MAX)]
Notes = Annotated[Text, Field(max_length=limits.NOTES_MAX)]
Thread = Annotated[Text, Field(max_length=limits.THREAD_MAX)]
Language = Literal["en", "no"]


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
    """A record. Views and deletion are set when it is created; a later import of the same record does not
    change them, nor the pin if the row omits `pinned`. The language is detected from the texts unless given.
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
    """Changes to a record. Fields you omit stay unchanged. Only `position` may be null."""

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


WindowDays = Annotated[int, Field(ge=1, le=MAX_WINDOW_DAYS), NUMBER] | Literal["all"]
NotesChars = Annotated[int, Field(ge=1, le=MAX_NOTES_CHARS), NUMBER] | Literal["all"]
Strictness = Annotated[Decimal, Field(ge=-MAX_STRICTNESS, le=MAX_STRICTNESS, decimal_places=3)]
RecordTokens = Annotated[int, Field(ge=MIN_RECORD_TOKENS, le=MAX_PART_TOKENS), NUMBER] | Literal["all"]
MaxRecords = Annotated[int, Field(ge=1, le=MAX_RECORD_LIMIT), NUMBER] | Literal["all"]
ResponseTokens = Annotated[int, Field(ge=MIN_RESPONSE_TOKENS, le=MAX_PART_TOKENS), NUMBER]
TotalTokens = Annotated[int, Field(ge=MIN_RESPONSE_TOKENS, le=MAX_TOTAL_TOKENS), NUMBER]
Encoding = Annotated[Text, Field(max_length=MAX_ENCODING_CHARS)]


class SettingsIn(Input):
    """Settings of a space. Fields you omit keep their value."""

    window_days: Literal[7, 14, 30, "all"] | None = None
    max_records: MaxRecords | None = None
    recency_weight: Weight | None = None
    frequency_weight: Weight | None = None
    system_tokens: Tokens | None = None
    history_tokens: Tokens | None = None
    response_tokens: ResponseTokens | None = None
    context_tokens: Tokens | None = None
    stage3_context_tokens: Tokens | None = None
    total_tokens: TotalTokens | None = None
    semantic_weight: Weight | None = None
    lexical_weight: Weight | None = None
    neighbour_share: Share | None = None
    date_weight: Weight | None = None
    who_weight: Weight | None = None
    budget_mode: Literal["fixed", "adaptive"] | None = None
    adaptive_strictness: Strictness | None = None
    question_window_days: WindowDays | None = None
    question_max_records: MaxRecords | None = None
    question_notes_chars: NotesChars | None = None
    question_record_tokens: RecordTokens | None = None
    encoding: Encoding | None = None
    record_order: Literal["score", "stable"] | None = None


class ConfigIn(SettingsIn):
    """Settings of the next config. Fields you omit are copied from the active config."""

    note: Annotated[Text, Field(max_length=200)] = ""
    draft: bool = False
