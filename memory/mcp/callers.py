"""Who calls a tool: a key over HTTP, or the person who started the server on standard input."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from contextopt.errors import ContextoptError
from contextopt.models import ApiKey, Scope, Team


class NotAllowed(ContextoptError):
    """The key's scope does not include this."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The team that a call works in, the name for its logs, and what it may do."""

    team: Team
    actor: str
    scope: Scope

    @classmethod
    def of_key(cls, key: ApiKey) -> "Caller":
        return cls(key.team, f"key:{key.name}", Scope(key.scope))

    @property
    def may_write(self) -> bool:
        return self.scope.includes(Scope.WRITE)

    def check_write(self) -> None:
        """Raises: NotAllowed."""
        if not self.may_write:
            raise NotAllowed(f"This requires a key with scope write. Yours has scope {self.scope}.")


_find: ContextVar[Callable[[], Caller]] = ContextVar("find_mcp_caller")


def enter(find: Callable[[], Caller]) -> None:
    """Let this tell who calls, for all tools called from here on, in this request or process."""
    _find.set(find)


def current() -> Caller:
    return _find.get()()
