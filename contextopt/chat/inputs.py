"""Input types for conversations."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from contextopt.chat.models import CONVERSATION_TITLE_MAX, MESSAGE_MAX
from contextopt.inputs import Input, Slug, Text, refuse_blank
from contextopt.limits import MODEL_MAX


class ConversationIn(Input):
    """A conversation about a space. Fields you omit get their default."""

    space: Slug
    title: Annotated[Text, Field(max_length=CONVERSATION_TITLE_MAX)] = ""
    stage: Literal[2, 3, 4, 5] = 5
    model: Annotated[Text, Field(max_length=MODEL_MAX)] = ""


class MessageIn(Input):
    text: Annotated[Text, Field(max_length=MESSAGE_MAX), AfterValidator(refuse_blank)]
