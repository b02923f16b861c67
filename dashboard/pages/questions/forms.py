"""The forms of question sets and questions."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from django import forms

from contextopt.inputs import QUERY_MAX
from contextopt.limits import NAME_MAX
from contextopt.people.models import Team
from contextopt.spaces.models import Record, Space
from dashboard.kit.filters import space_choices
from dashboard.kit.forms import InputForm, ListField, NotesField, PickedMomentField, read_ticks
from dashboard.pages.spaces.forms import UploadForm
from memory.feedback.models import ANSWER_MAX
from memory.questions.inputs import EXPECTED_MAX, MinimumIn, QuestionIn, QuestionSetIn
from memory.questions.models import Question

RECORDS_FOUND = 10


class SetForm(InputForm[QuestionSetIn]):
    input_type = QuestionSetIn
    space = forms.ChoiceField()
    name = forms.CharField(max_length=NAME_MAX)

    def __init__(self, *args: Any, team: Team, **options: Any) -> None:
        super().__init__(*args, **options)
        cast(forms.ChoiceField, self.fields["space"]).choices = list(space_choices(team))

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        return {"name": cleaned["name"]}


class RenameForm(InputForm[QuestionSetIn]):
    input_type = QuestionSetIn
    name = forms.CharField(max_length=NAME_MAX)


class MinimumForm(InputForm[MinimumIn]):
    input_type = MinimumIn
    min_recall = forms.FloatField(
        label="Minimum recall (%)",
        required=False,
        min_value=0,
        max_value=100,
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text="Settings with a lower recall cannot be published. Leave blank for no minimum.",
    )

    @classmethod
    def initial_of(cls, share: float | None) -> dict[str, Any]:
        return {"min_recall": None if share is None else round(share * 100, 4)}

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        share = cleaned["min_recall"]
        return {"min_recall": None if share is None else share / 100}


class QuestionForm(InputForm[QuestionIn]):
    input_type = QuestionIn
    query = NotesField(label="Question", max_length=QUERY_MAX, widget=forms.Textarea(attrs={"rows": 2}))
    answer = NotesField(
        label="Expected answer",
        required=False,
        max_length=ANSWER_MAX,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="A record then counts only if the context shows at least half of the answer's words in it.",
    )
    as_of = PickedMomentField(
        required=False, label="As of", help_text="Leave blank to ask as of the current time."
    )
    expected = ListField(
        label="External IDs",
        required=False,
        help_text="Comma-separated. Or search below and tick the records that answer the question.",
    )

    def clean(self) -> dict[str, Any]:
        if "expected" in self.cleaned_data and not (self.cleaned_data["expected"] or self.ticked):
            self.add_error("expected", "Tick or name at least one record that answers the question.")
        return super().clean()

    @property
    def ticked(self) -> list[int]:
        """The ids of the ticked records."""
        values = (
            cast(Any, self.data).getlist("record_ids") if self.is_bound else self.initial.get("ticked", [])
        )
        return read_ticks(map(str, values))

    @classmethod
    def initial_of(cls, question: Question) -> dict[str, Any]:
        return {
            "query": question.text,
            "answer": question.answer,
            "as_of": question.as_of,
            "ticked": sorted(question.records.values_list("pk", flat=True)),
        }

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        return {**cleaned, "record_ids": self.ticked[: EXPECTED_MAX + 1]}


class QuestionsUploadForm(UploadForm):
    """A file of questions."""

    command = "import_questions"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        field = self.fields["file"]
        field.help_text = "JSONL, up to 5 MB. Importing the same file twice changes nothing."
        field.widget.attrs["accept"] = ".jsonl,.ndjson,.json"


def read_ticked(space: Space, ids: Sequence[int]) -> list[Record]:
    """Return the space's records with these ids, for a list of ticked ones."""
    rows = Record.objects.filter(space=space, pk__in=ids).only("pk", "summary", "date", "external_id")
    return list(rows.order_by("-date", "-pk")[:EXPECTED_MAX])
