"""The forms of spaces, records and settings."""

from collections.abc import Mapping
from typing import Any

from django import forms

from contextopt.engine.settings import (
    MAX_NOTES_CHARS,
    MAX_PART_TOKENS,
    MAX_RECORD_LIMIT,
    MAX_STRICTNESS,
    MAX_TOTAL_TOKENS,
    MAX_WINDOW_DAYS,
    MIN_RECORD_TOKENS,
    MIN_RESPONSE_TOKENS,
)
from contextopt.engine.text.tokens import known_encodings
from contextopt.inputs import Input
from contextopt.models import ContextConfig, Record, Space
from contextopt.spaces.configs import (
    ALL_ALLOWED,
    BUDGET_MODE_CHOICES,
    RECORD_ORDER_CHOICES,
    SETTINGS,
    WINDOW_CHOICES,
)
from contextopt.spaces.inputs import ConfigIn, RecordIn, RecordPatch, SpaceIn, SpacePatch
from contextopt.spaces.models import NOTES_MAX, TITLE_MAX
from dashboard.kit.forms import InputForm, ListField, NotesField, ObjectField, PickedMomentField

UPLOAD_MAX_BYTES = 5 * 2**20
UPLOAD_MAX_LINES = 200_000
# The API and the forms use this value for a setting without a limit.
ALL = "all"


class SpaceForm(InputForm[SpaceIn]):
    input_type = SpaceIn
    name = forms.CharField(widget=forms.TextInput(attrs={"data-names": "id_slug"}))
    slug = forms.SlugField(
        max_length=64,
        help_text="Letters, digits, - and _. Identifies the space in the API.",
        error_messages={"invalid": "Use letters, digits, - and _."},
    )
    description = forms.CharField(required=False)
    categories = ListField(required=False, help_text="Comma-separated.")


class SpaceEditForm(InputForm[SpacePatch]):
    input_type = SpacePatch
    name = forms.CharField()
    description = forms.CharField(required=False)
    categories = ListField(required=False, help_text="Comma-separated.")

    @classmethod
    def of(cls, space: Space) -> "SpaceEditForm":
        return cls(initial={name: getattr(space, name) for name in cls.base_fields})


class RecordFields[Given: Input](InputForm[Given]):
    title = forms.CharField(widget=forms.TextInput(attrs={"maxlength": TITLE_MAX}))
    type = forms.CharField(initial="note")
    date = PickedMomentField(required=False, help_text="Leave blank to use the current time.")
    tags = ListField(required=False, help_text="Comma-separated.")
    notes = NotesField(required=False, strip=False, max_length=NOTES_MAX)
    pinned = forms.BooleanField(required=False, help_text="Always considered first, regardless of date.")
    thread = forms.CharField(required=False, help_text="The conversation that the record belongs to.")
    position = forms.IntegerField(required=False, help_text="The record's place within the thread.")
    metadata = ObjectField(required=False, help_text="Your own data as a JSON object.")


class RecordForm(RecordFields[RecordIn]):
    input_type = RecordIn
    source = forms.CharField(required=False)
    external_id = forms.CharField(
        required=False,
        label="External ID",
        help_text="Together with the source, identifies the record on re-import.",
    )


class RecordEditForm(RecordFields[RecordPatch]):
    """Sends only changed fields, so that edits of other fields made elsewhere are not undone."""

    input_type = RecordPatch

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["date"].help_text = ""

    @classmethod
    def initial_of(cls, record: Record) -> dict[str, Any]:
        return {name: getattr(record, name) for name in cls.base_fields}

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        changed = {name: cleaned[name] for name in self.changed_data}
        # A record always has a date: clearing the field keeps the current one.
        return {name: value for name, value in changed.items() if name != "date" or value is not None}


def _limit(label: str, most: int) -> forms.IntegerField:
    return forms.IntegerField(
        label=label, required=False, min_value=1, max_value=most, help_text="Leave blank for all."
    )


class ConfigForm(InputForm[ConfigIn]):
    input_type = ConfigIn
    window_days = forms.TypedChoiceField(
        label="Date window",
        choices=[(days or ALL, label) for days, label in WINDOW_CHOICES],
        coerce=lambda value: value if value == ALL else int(value),
        widget=forms.RadioSelect,
    )
    max_records = forms.IntegerField(
        label="Record limit",
        required=False,
        min_value=1,
        max_value=MAX_RECORD_LIMIT,
        help_text="For requests without a question. Leave blank for all.",
    )
    recency_weight = forms.DecimalField(min_value=0, max_value=10, decimal_places=3)
    frequency_weight = forms.DecimalField(min_value=0, max_value=10, decimal_places=3)
    system_tokens = forms.IntegerField(label="System", min_value=0, max_value=MAX_PART_TOKENS)
    context_tokens = forms.IntegerField(label="Context", min_value=0, max_value=MAX_PART_TOKENS)
    history_tokens = forms.IntegerField(label="History", min_value=0, max_value=MAX_PART_TOKENS)
    response_tokens = forms.IntegerField(
        label="Response (minimum)", min_value=MIN_RESPONSE_TOKENS, max_value=MAX_PART_TOKENS
    )
    stage3_context_tokens = forms.IntegerField(
        label="Context in stage 3", min_value=0, max_value=MAX_PART_TOKENS
    )
    total_tokens = forms.IntegerField(
        label="Total",
        required=False,
        min_value=MIN_RESPONSE_TOKENS,
        max_value=MAX_TOTAL_TOKENS,
        help_text="Leave blank for the sum of the four.",
    )
    semantic_weight = forms.DecimalField(
        label="Meaning", min_value=0, max_value=10, decimal_places=3, help_text="Similarity to the question."
    )
    lexical_weight = forms.DecimalField(
        label="Words",
        min_value=0,
        max_value=10,
        decimal_places=3,
        help_text="Words it shares with the question.",
    )
    neighbour_share = forms.DecimalField(
        label="Neighbours", min_value=0, max_value=1, decimal_places=3,
        help_text="How much the messages around a record count.",
    )  # fmt: skip
    date_weight = forms.DecimalField(
        label="Date", min_value=0, max_value=10, decimal_places=3,
        help_text="For records from the days that the question names.",
    )  # fmt: skip
    who_weight = forms.DecimalField(
        label="Person", min_value=0, max_value=10, decimal_places=3,
        help_text="For records by the one person that the question names.",
    )  # fmt: skip
    question_window_days = _limit("Date window for questions (days)", MAX_WINDOW_DAYS)
    question_max_records = _limit("Record limit for questions", MAX_RECORD_LIMIT)
    question_notes_chars = _limit("Notes limit (characters)", MAX_NOTES_CHARS)
    question_record_tokens = forms.IntegerField(
        label="Record size (tokens)", required=False, min_value=MIN_RECORD_TOKENS, max_value=MAX_PART_TOKENS,
        help_text="Longer records are cut to their best passages. Leave blank to allow each record up to a "
        "quarter of the context.",
    )  # fmt: skip
    encoding = forms.ChoiceField(choices=[(name, name) for name in known_encodings()])
    budget_mode = forms.ChoiceField(
        label="Budget",
        choices=[(mode, mode.capitalize()) for mode, _ in BUDGET_MODE_CHOICES],
        help_text="Adaptive sends only records that are worth their tokens.",
    )
    adaptive_strictness = forms.DecimalField(
        label="Strictness", min_value=-MAX_STRICTNESS, max_value=MAX_STRICTNESS, decimal_places=3,
        help_text="For adaptive budgets. Higher values keep fewer records, lower values more. "
        "The default is 0.",
    )  # fmt: skip
    record_order = forms.ChoiceField(choices=RECORD_ORDER_CHOICES)
    note = forms.CharField(
        required=False, max_length=200, help_text="Reason for the change, shown in the history."
    )

    @classmethod
    def initial_of(cls, config: ContextConfig) -> dict[str, Any]:
        values = {name: getattr(config, name) for name in SETTINGS}
        return {**values, "window_days": values["window_days"] or ALL}

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        empty = {name: ALL for name in ALL_ALLOWED if cleaned[name] is None}
        return {**cleaned, **empty}


class UploadForm(forms.Form):
    # Imports larger files.
    command = "import_records"
    file = forms.FileField(
        help_text="JSONL or CSV, up to 5 MB. Importing the same file twice changes nothing.",
        widget=forms.FileInput(attrs={"accept": ".jsonl,.ndjson,.json,.csv,.tsv"}),
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        too_large = f"The file is larger than 5 MB. Use `manage.py {self.command}` for larger files."
        self.fields["file"].error_messages["too_large"] = too_large

    def clean_file(self) -> Any:
        file = self.cleaned_data["file"]
        if file.size > UPLOAD_MAX_BYTES:
            raise forms.ValidationError(self.fields["file"].error_messages["too_large"])
        # Five megabytes can unpack to five gigabytes.
        if file.read(2) == b"\x1f\x8b":
            raise forms.ValidationError("The file is compressed. Unpack it first.")
        file.seek(0)
        content = file.read()
        # Lines of one character take half a minute.
        if max(content.count(b"\n"), content.count(b"\r")) > UPLOAD_MAX_LINES:
            raise forms.ValidationError(
                f"The file has more than {UPLOAD_MAX_LINES:,} lines. Use `manage.py {self.command}` for it."
            )
        file.seek(0)
        return file
