"""The forms of spaces, records and settings."""

from collections.abc import Mapping
from typing import Any

from django import forms

from contextopt.engine.settings import SETTINGS, Section
from contextopt.inputs import Input
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.forms import read_settings, setting_fields, shown_settings
from contextopt.spaces.inputs import ConfigIn, RecordIn, RecordPatch, SpaceIn, SpacePatch
from contextopt.spaces.models import NOTES_MAX, TITLE_MAX, Record, Space
from dashboard.kit.forms import InputForm, ListField, NotesField, ObjectField, PickedMomentField

UPLOAD_MAX_BYTES = 5 * 2**20
UPLOAD_MAX_LINES = 200_000


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


class ConfigForm(InputForm[ConfigIn]):
    """The settings of a space, and a note for the history."""

    input_type = ConfigIn
    note = forms.CharField(
        required=False, max_length=200, help_text="Reason for the change, shown in the history."
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields = {**setting_fields(), **self.fields}

    @classmethod
    def initial_of(cls, config: ContextConfig) -> dict[str, Any]:
        return shown_settings(config.settings)

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        return read_settings(cleaned)

    @property
    def changed_settings(self) -> list[str]:
        return [name for name in self.changed_data if name in SETTINGS]

    @property
    def sections(self) -> dict[str, list[forms.BoundField]]:
        """The fields below each heading, by the heading's name."""
        found: dict[str, list[forms.BoundField]] = {section.name.lower(): [] for section in Section}
        for name, setting in SETTINGS.items():
            found[Section(setting.section).name.lower()].append(self[name])
        return found


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
