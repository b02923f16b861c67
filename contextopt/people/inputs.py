"""Input types for invitations, accounts and keys."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from contextopt.inputs import NUMBER, Input, Moment, Name, Text, refuse_blank
from contextopt.people.models import INVITED_MAX

DAYS_MAX = 90
PASSWORD_MAX = 1_000


class InvitationIn(Input):
    """An invitation: the invited person's name, their role, and the days until it expires."""

    name: Annotated[Text, Field(max_length=INVITED_MAX), AfterValidator(refuse_blank)]
    role: Literal["viewer", "reviewer", "editor", "admin"] = "viewer"
    days: Annotated[int, Field(ge=1, le=DAYS_MAX), NUMBER] = 7


class AccountIn(Input):
    username: Annotated[Text, Field(min_length=1, max_length=150)]
    password: Annotated[Text, Field(min_length=1, max_length=PASSWORD_MAX)]


class KeyIn(Input):
    name: Name
    scope: Literal["read", "write", "admin"] = "write"
    expires_at: Moment | None = None
