"""Input types for invitations, accounts and keys."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from contextopt.inputs import NUMBER, Input, Moment, Name, Slug, Text, refuse_blank
from contextopt.people.models import INVITED_MAX, MACHINE_MAX

DAYS_MAX = 90
PASSWORD_MAX = 1_000
SPACES_MAX = 100
REQUESTS_MAX = 1_000_000
OVERLAP_MAX_HOURS = 720


class InvitationIn(Input):
    """An invitation: the invited person's name, their role, and the days until it expires."""

    name: Annotated[Text, Field(max_length=INVITED_MAX), AfterValidator(refuse_blank)]
    role: Literal["viewer", "reviewer", "editor", "admin"] = "viewer"
    days: Annotated[int, Field(ge=1, le=DAYS_MAX), NUMBER] = 7


class AccountIn(Input):
    username: Annotated[Text, Field(min_length=1, max_length=150)]
    password: Annotated[Text, Field(min_length=1, max_length=PASSWORD_MAX)]


RequestsPerMinute = Annotated[int, Field(ge=1, le=REQUESTS_MAX), NUMBER]


class KeyIn(Input):
    """A new key. `spaces` limits it to some of the team's spaces. Without it, the key reaches all of them.

    A key with scope `gateway` can stand in the path of the gateway's address. It opens nothing else, and
    needs `spaces` and `expires_at`.
    """

    name: Name
    scope: Literal["gateway", "read", "write", "admin"] = "write"
    expires_at: Moment | None = None
    spaces: Annotated[list[Slug] | None, Field(min_length=1, max_length=SPACES_MAX)] = None
    requests_per_minute: RequestsPerMinute | None = None


class CodeIn(Input):
    """A connect code, and the space of its tool's contexts. `spaces` limits its key, and includes it."""

    space: Slug
    spaces: Annotated[list[Slug] | None, Field(min_length=1, max_length=SPACES_MAX)] = None


class GatewayKeyIn(Input):
    """A key of one's own for the gateway: its name, and the only space that it reaches."""

    name: Name
    space: Slug


class RedemptionIn(Input):
    """A tool's request for its key: the code, its name, and that of its machine."""

    code: Annotated[Text, Field(min_length=1, max_length=40)]
    tool: Literal["aider", "claude", "codex", "cursor", "opencode"]
    machine: Annotated[Text, Field(max_length=MACHINE_MAX)] = ""


class RotationIn(Input):
    """How long the old secret stays valid, and when the new one expires."""

    overlap_hours: Annotated[int, Field(ge=0, le=OVERLAP_MAX_HOURS), NUMBER] = 24
    expires_at: Moment | None = None
