"""What people fill in. A form parses the browser's text; the product's own input types have the last word."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, cast
from zoneinfo import available_timezones

from django import forms
from pydantic import ValidationError

from contextopt.agentinputs import ProfileIn
from contextopt.engine.agentcontext import FIELDS
from contextopt.errors import FieldProblem
from contextopt.inputs import (
    ConfigIn,
    Input,
    KeyIn,
    RecordIn,
    RecordPatch,
    SpaceIn,
    SpacePatch,
    field_problems,
)
from contextopt.models import ApiKey, ContextConfig, Record, Role, Scope, Space
from contextopt.models.configs import ALL_ALLOWED, RECORD_ORDERS, SETTINGS, WINDOW_CHOICES
from contextopt.models.invitations import INVITED_MAX
from contextopt.models.phases import PHASE_BUDGET_MAX
from contextopt.models.spaces import NOTES_MAX, TITLE_MAX
from contextopt.peopleinputs import DAYS_MAX, AccountIn, InvitationIn
from contextopt.strictjson import DuplicateKey, NotFinite, read_json
from dashboard.models.savedviews import NAME_MAX, QUERY_MAX, ViewPage

KEY_NAME_MAX = ApiKey._meta.get_field("name").max_length
UPLOAD_MAX_BYTES = 5 * 2**20
# How the API and the forms say that a setting knows no limit.
ALL = "all"


class ListField(forms.CharField):
    """Words with commas between them, as a list without blanks and doubles."""

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(self.to_python(data) != (initial or []))


class NotesField(forms.CharField):
    """Text of many lines; browsers send them with carriage returns, which nobody typed."""

    widget = forms.Textarea(attrs={"rows": 10})

    def to_python(self, value: Any) -> Any:
        return (super().to_python(value) or "").replace("\r\n", "\n")

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(self.to_python(data) != (initial or ""))


class ObjectField(forms.CharField):
    """A JSON object."""

    widget = forms.Textarea(attrs={"rows": 4, "spellcheck": "false"})

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return {}
        try:
            parsed = read_json(text)
        except DuplicateKey as error:
            raise forms.ValidationError(f"The object {error}.") from None
        except NotFinite as error:
            raise forms.ValidationError(f"{error}.") from None
        except (ValueError, RecursionError):
            raise forms.ValidationError('Give a JSON object, such as {"author": "Ann"}.') from None
        if not isinstance(parsed, dict):
            raise forms.ValidationError('Give a JSON object, such as {"author": "Ann"}.')
        return parsed

    def prepare_value(self, value: Any) -> Any:
        return json.dumps(value, indent=2, ensure_ascii=False) if isinstance(value, dict) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool(self.to_python(data) != (initial or {}))
        except forms.ValidationError:
            return True


class InputForm(forms.Form):
    """A form whose cleaned data must also pass an input type; its value is then in `value`."""

    input_type: ClassVar[type[Input]]
    value: Input

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        """Return what goes into the input type."""
        return dict(cleaned)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        try:
            self.value = self.input_type.model_validate(self.values(cleaned))
        except ValidationError as error:
            self.add_problems(field_problems(error))
        return cleaned

    def add_problems(self, problems: Iterable[FieldProblem]) -> None:
        """Put each problem at its field, or at the top where it has none here."""
        for problem in problems:
            name = problem.field.partition(".")[0]
            if name in self.fields:
                self.add_error(name, problem.message)
            else:
                self.add_error(None, f"{problem.field}: {problem.message}")


class SpaceForm(InputForm):
    input_type = SpaceIn
    name = forms.CharField()
    slug = forms.CharField(help_text="Letters, digits, - and _. It names the space in the API.")
    description = forms.CharField(required=False)
    categories = ListField(required=False, help_text="With commas between them.")


class SpaceEditForm(InputForm):
    input_type = SpacePatch
    name = forms.CharField()
    description = forms.CharField(required=False)
    categories = ListField(required=False, help_text="With commas between them.")

    @classmethod
    def of(cls, space: Space) -> "SpaceEditForm":
        return cls(initial={name: getattr(space, name) for name in cls.base_fields})


class RecordFields(InputForm):
    title = forms.CharField(widget=forms.TextInput(attrs={"maxlength": TITLE_MAX}))
    type = forms.CharField(initial="note")
    date = forms.DateTimeField(
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", "step": 1}, format="%Y-%m-%dT%H:%M:%S"),
        help_text="Empty: now.",
    )
    tags = ListField(required=False, help_text="With commas between them.")
    notes = NotesField(required=False, strip=False, max_length=NOTES_MAX)
    pinned = forms.BooleanField(required=False, help_text="A candidate whatever its date, and first.")
    thread = forms.CharField(required=False)
    position = forms.IntegerField(required=False)
    metadata = ObjectField(required=False)


class RecordForm(RecordFields):
    input_type = RecordIn
    source = forms.CharField(required=False)
    external_id = forms.CharField(
        required=False, label="External id", help_text="With the source, what an import knows it by."
    )


class RecordEditForm(RecordFields):
    """Only what was changed is sent, so that an edit elsewhere of another field is not undone."""

    input_type = RecordPatch

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["date"].help_text = ""

    @classmethod
    def initial_of(cls, record: Record) -> dict[str, Any]:
        return {name: getattr(record, name) for name in cls.base_fields}

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        changed = {name: cleaned[name] for name in self.changed_data}
        # A record always has a date: an emptied field keeps the one it has.
        return {name: value for name, value in changed.items() if name != "date" or value is not None}


def _limit(label: str, most: int) -> forms.IntegerField:
    return forms.IntegerField(
        label=label, required=False, min_value=1, max_value=most, help_text="Leave empty for all."
    )


class ConfigForm(InputForm):
    input_type = ConfigIn
    window_days = forms.TypedChoiceField(
        label="Date range",
        choices=[(days or ALL, label) for days, label in WINDOW_CHOICES],
        coerce=lambda value: value if value == ALL else int(value),
        widget=forms.RadioSelect,
    )
    max_records = forms.IntegerField(label="Records at most", min_value=1, max_value=1_000)
    recency_weight = forms.DecimalField(min_value=0, max_value=10, decimal_places=3)
    frequency_weight = forms.DecimalField(min_value=0, max_value=10, decimal_places=3)
    system_tokens = forms.IntegerField(label="System", min_value=0, max_value=200_000)
    context_tokens = forms.IntegerField(label="Context", min_value=0, max_value=200_000)
    history_tokens = forms.IntegerField(label="History", min_value=0, max_value=200_000)
    response_tokens = forms.IntegerField(label="Response, at least", min_value=1_000, max_value=200_000)
    stage3_context_tokens = forms.IntegerField(label="Context in stage 3", min_value=0, max_value=200_000)
    total_tokens = forms.IntegerField(
        label="Total",
        required=False,
        min_value=1_000,
        max_value=2_000_000,
        help_text="Empty: the sum of the four.",
    )
    semantic_weight = forms.DecimalField(
        label="Meaning", min_value=0, max_value=10, decimal_places=3, help_text="How near the question it is."
    )
    lexical_weight = forms.DecimalField(
        label="Words", min_value=0, max_value=10, decimal_places=3, help_text="Words of the question in it."
    )
    neighbour_share = forms.DecimalField(
        label="Neighbours", min_value=0, max_value=1, decimal_places=3,
        help_text="What a hit lends to the next in its thread.",
    )  # fmt: skip
    question_window_days = _limit("Days a question looks back", 3_650)
    question_max_records = _limit("Records for a question", 1_000)
    question_notes_chars = _limit("Characters of notes", 100_000)
    encoding = forms.CharField(max_length=64)
    record_order = forms.ChoiceField(choices=RECORD_ORDERS)
    note = forms.CharField(required=False, max_length=200, help_text="Why; shown in the history.")

    @classmethod
    def initial_of(cls, config: ContextConfig) -> dict[str, Any]:
        values = {name: getattr(config, name) for name in SETTINGS}
        return {**values, "window_days": values["window_days"] or ALL}

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        empty = {name: ALL for name in ALL_ALLOWED if cleaned[name] is None}
        return {**cleaned, **empty}


class ProfileForm(InputForm):
    input_type = ProfileIn
    budget_tokens = forms.IntegerField(label="Budget in tokens", min_value=0, max_value=PHASE_BUDGET_MAX)
    # Django takes declared fields out of the class: nothing of the form is hidden by this one.
    fields = forms.MultipleChoiceField(  # type: ignore[assignment]
        label="Fields kept",
        choices=[(name, name.replace("_", " ")) for name in FIELDS],
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="The task is always kept.",
    )
    note = forms.CharField(required=False, max_length=200, help_text="Why; shown in the history.")


class KeyForm(InputForm):
    input_type = KeyIn
    # It stands on one page with other forms that have a name.
    ids = "key_%s"
    name = forms.CharField(max_length=KEY_NAME_MAX)
    scope = forms.ChoiceField(choices=Scope.choices, initial=Scope.WRITE)


class InvitationForm(InputForm):
    input_type = InvitationIn
    ids = "invitation_%s"
    name = forms.CharField(max_length=INVITED_MAX, label="For")
    role = forms.ChoiceField(choices=Role.choices, initial=Role.REVIEWER)
    days = forms.IntegerField(label="Days it holds", initial=7, min_value=1, max_value=DAYS_MAX)


class AccountForm(InputForm):
    input_type = AccountIn
    username = forms.CharField(
        label="User name",
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none"}),
    )
    password = forms.CharField(
        strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=Role.choices)


class TeamForm(forms.Form):
    name = forms.CharField(max_length=120)
    time_zone = forms.CharField(max_length=64, widget=forms.TextInput(attrs={"list": "time-zones"}))

    def clean_time_zone(self) -> str:
        name = cast(str, self.cleaned_data["time_zone"])
        if name not in available_timezones():
            raise forms.ValidationError(f"{name!r} is not a time zone; give a name such as Europe/Oslo.")
        return name


class UploadForm(forms.Form):
    file = forms.FileField(
        help_text="JSONL or CSV, 5 MB at most. Importing the same twice changes nothing.",
        widget=forms.FileInput(attrs={"accept": ".jsonl,.ndjson,.json,.csv,.tsv"}),
    )

    def clean_file(self) -> Any:
        file = self.cleaned_data["file"]
        if file.size > UPLOAD_MAX_BYTES:
            raise forms.ValidationError(
                "The file is past 5 MB; use `manage.py import_records` for larger ones."
            )
        # Five megabytes can unpack to five gigabytes.
        if file.read(2) == b"\x1f\x8b":
            raise forms.ValidationError("The file is compressed; unpack it first.")
        file.seek(0)
        return file


class SavedViewForm(forms.Form):
    """A page's filters and the name to keep them under."""

    page = forms.ChoiceField(choices=ViewPage.choices)
    query = forms.CharField(max_length=QUERY_MAX, required=False)
    name = forms.CharField(
        max_length=NAME_MAX,
        error_messages={"required": "Give the view a name."},
    )
    is_shared = forms.BooleanField(required=False)
