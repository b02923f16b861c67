"""The forms to ask questions, to vote, and to review."""

from collections.abc import Mapping
from typing import Any, cast

from django import forms

from contextopt.chat.inputs import ConversationIn, MessageIn
from contextopt.chat.models import MESSAGE_MAX
from contextopt.limits import MODEL_MAX
from contextopt.people.models import Team
from dashboard.kit.filters import STAGES, space_choices
from dashboard.kit.forms import InputForm, NotesField, read_ticks
from memory.feedback.inputs import OpinionIn
from memory.feedback.models import COMMENT_MAX, REASON_MAX
from memory.review.inputs import RulesPatch, VerdictIn
from memory.review.models import NOTE_MAX, VERDICTS_MAX, ReviewRules, Verdict

WITHDRAW = "none"


class MessageForm(InputForm[MessageIn]):
    """The composer: Enter sends, Shift and Enter starts a new line."""

    input_type = MessageIn
    text = NotesField(
        label="Message",
        strip=False,
        max_length=MESSAGE_MAX,
        widget=forms.Textarea(attrs={"rows": 3, "data-enter-sends": True, "placeholder": "Ask a question…"}),
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # With it, a browser silently cuts pasted text.
        del self.fields["text"].widget.attrs["maxlength"]


class AskForm(InputForm[ConversationIn]):
    """A new conversation's space, stage and model."""

    input_type = ConversationIn
    space = forms.ChoiceField()
    stage = forms.ChoiceField(choices=STAGES[::-1])
    model = forms.CharField(
        required=False, max_length=MODEL_MAX, help_text="Leave blank to use the endpoint's default."
    )

    def __init__(self, *args: Any, team: Team, **options: Any) -> None:
        super().__init__(*args, **options)
        cast(forms.ChoiceField, self.fields["space"]).choices = list(space_choices(team))

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        return {**cleaned, "stage": int(cleaned["stage"])}


class VoteForm(InputForm[OpinionIn]):
    """A vote; `none` withdraws it."""

    input_type = OpinionIn
    rating = forms.ChoiceField(choices=[("up", "Good"), ("down", "Bad"), (WITHDRAW, "Withdrawn")])
    reason = forms.CharField(required=False, max_length=REASON_MAX)
    comment = NotesField(required=False, max_length=COMMENT_MAX)

    @property
    def is_withdrawal(self) -> bool:
        return self.data.get("rating") == WITHDRAW


class VerdictForm(InputForm[VerdictIn]):
    """A verdict; related records are ticked in the table of the answer's context."""

    input_type = VerdictIn
    verdict = forms.ChoiceField(choices=Verdict.choices, error_messages={"required": "Choose a verdict."})
    note = NotesField(required=False, max_length=NOTE_MAX)

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        return {**cleaned, "record_ids": self._ticks}

    @property
    def ticked(self) -> list[int]:
        """The ticked records, to show them again if the verdict is refused."""
        return read_ticks(self._ticks)

    @property
    def _ticks(self) -> list[str]:
        data: Any = self.data
        ticks: list[str] = data.getlist("record_ids")
        return ticks[:1_000]


class RulesForm(InputForm[RulesPatch]):
    input_type = RulesPatch
    takes_disliked = forms.BooleanField(required=False, label="All downvoted answers")
    sample_percent = forms.FloatField(
        label="Random sample of other assemblies (%)", min_value=0, max_value=100,
        widget=forms.NumberInput(attrs={"step": "any"}),
    )  # fmt: skip
    verdicts_wanted = forms.TypedChoiceField(
        label="Verdicts per item",
        choices=[(n, str(n)) for n in range(1, VERDICTS_MAX + 1)],
        coerce=int,
    )

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(cleaned)
        share = given.pop("sample_percent") / 100
        return {**given, "sample_share": share}

    @classmethod
    def of(cls, rules: ReviewRules) -> "RulesForm":
        return cls(
            initial={
                "takes_disliked": rules.takes_disliked,
                "sample_percent": f"{rules.sample_share * 100:g}",
                "verdicts_wanted": rules.verdicts_wanted,
            }
        )
