"""The forms to ask questions and to vote."""

from collections.abc import Mapping
from typing import Any, cast

from django import forms

from contextopt.chat.inputs import ConversationIn, MessageIn
from contextopt.chat.models import MESSAGE_MAX
from contextopt.limits import MODEL_MAX
from contextopt.models import Team
from dashboard.kit.filters import STAGES, space_choices
from dashboard.kit.forms import InputForm, NotesField
from memory.feedback.inputs import OpinionIn
from memory.feedback.models import COMMENT_MAX, REASON_MAX

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
