"""Who calls a tool: a key over HTTP, or the person who started the server on standard input."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from django.db.models import QuerySet

from contextopt.assemblies.models import Assembly, AssemblyQuerySet
from contextopt.errors import ContextoptError, NotFound
from contextopt.people.keys import Allowance, count_request
from contextopt.people.models import ApiKey, Scope, Team
from contextopt.spaces.models import Record


class NotAllowed(ContextoptError):
    """The key's scope does not include this."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The team that a call works in, the name for its logs, and what it may do."""

    team: Team
    actor: str
    scope: Scope
    key: ApiKey | None = None
    allowance: Allowance | None = None

    @classmethod
    def of_key(cls, key: ApiKey) -> "Caller":
        """Count a request of the key and return its caller.

        Raises:
            TooManyRequests: the key has reached its limit.
        """
        return cls(key.team, f"key:{key.name}", Scope(key.scope), key, count_request(key))

    @property
    def limited_to(self) -> list[str] | None:
        """The slugs of the only spaces that the caller reaches; None for all of the team."""
        return self.key.space_slugs if self.key is not None and self.key.is_limited else None

    def check_space(self, slug: str) -> None:
        """Raises: NotFound, as for a space that is missing."""
        if self.limited_to is not None and slug not in self.limited_to:
            raise NotFound(f"There is no space {slug!r}.")

    def check_team(self) -> None:
        """Raises: NotAllowed, because memories are the whole team's."""
        if self.limited_to is not None:
            raise NotAllowed(f"Name a space. This key is limited to: {', '.join(self.limited_to)}.")

    def contexts(self) -> AssemblyQuerySet:
        """Return the logged contexts of spaces that the caller reaches."""
        rows = Assembly.objects.filter(team=self.team, space__isnull=False, payload__isnull=False)
        return rows if self.limited_to is None else rows.filter(space__slug__in=self.limited_to)

    def records(self) -> QuerySet[Record]:
        """Return the records of spaces that the caller reaches."""
        rows = Record.objects.filter(space__team=self.team).select_related("space")
        return rows if self.limited_to is None else rows.filter(space__slug__in=self.limited_to)

    @property
    def may_write(self) -> bool:
        return self.scope.includes(Scope.WRITE)

    def check_write(self) -> None:
        """Raises: NotAllowed."""
        if not self.may_write:
            raise NotAllowed(f"This requires a key with scope write. Yours has scope {self.scope}.")


_find: ContextVar[Callable[[], Caller]] = ContextVar("find_mcp_caller")
_team_id: ContextVar[int | None] = ContextVar("mcp_team_id", default=None)


def enter(find: Callable[[], Caller], team_id: int | None = None) -> None:
    """Set the function that identifies the caller of all later tool calls in this request or process, and the
    team that shares the threads with others.
    """
    _find.set(find)
    _team_id.set(team_id)


def current_team_id() -> int | None:
    return _team_id.get()


def current() -> Caller:
    return _find.get()()
