"""Errors that the product raises on purpose. The engine imports nothing from here and has its own errors.

ContextoptError
├── Busy                  too many of the same team wait already; trying later may help
├── InvalidInput          a field is missing, malformed or past its limit
├── NotFound              the thing does not exist, or the caller may not see it
├── Conflict              the thing's state does not allow this
│   ├── BelowMinimum      settings miss the recall that a question set demands
│   ├── DuplicateRecord   a record with this source and external id exists
│   ├── OpenDecisions     findings wait for someone to decide
│   └── PurgedRecord      the record's text was erased for good
├── ServiceUnavailable    a service that the answer needs is down; trying later may help
├── TooManyAttempts       too many failed log-ins or wrong keys; even the right password waits
└── TooManyRequests       the key has sent as many requests as it may in a minute

EngineError               see `contextopt/engine/validation.py`
"""

from dataclasses import dataclass

from django.core.exceptions import ValidationError

from contextopt.engine.validation import EngineError
from contextopt.engine.wording import plural


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """A refused field and the rule it broke."""

    field: str
    message: str


class ContextoptError(Exception):
    """Base of all errors outside the engine that a caller may want to catch."""


PRODUCT_ERRORS = (ContextoptError, EngineError)
"""For `except`: everything that the product raises on purpose."""


class Busy(ContextoptError):
    """Others of the same team, or from the same address, keep busy what this request needs."""

    def __init__(self, detail: str = "Too many of your requests are waiting already. Try again.") -> None:
        super().__init__(detail)


class InvalidInput(ContextoptError):
    """Some fields were refused; nothing was written."""

    def __init__(self, problems: list[FieldProblem]) -> None:
        super().__init__("; ".join(f"{problem.field}: {problem.message}" for problem in problems))
        self.problems = problems

    @classmethod
    def of(cls, field: str, message: str) -> "InvalidInput":
        return cls([FieldProblem(field, message)])

    @classmethod
    def of_model(cls, error: ValidationError, *, field: str = "body") -> "InvalidInput":
        """Read a model's error. One that names no fields is about `field`."""
        if hasattr(error, "error_dict"):
            return cls([FieldProblem(name, " ".join(rules)) for name, rules in error.message_dict.items()])
        return cls([FieldProblem(field, message) for message in error.messages])


class NotFound(ContextoptError):
    """The named thing does not exist, or belongs to someone else."""


class Conflict(ContextoptError):
    """The state of the named thing does not allow this. The message is in sentences."""


class BelowMinimum(Conflict):
    """Settings cannot be published: they miss the recall that a question set of the space demands."""


class DuplicateRecord(Conflict):
    """The space has a record with this source and external id."""

    def __init__(self, record_id: int) -> None:
        super().__init__(f"Record {record_id} already has this source and external_id.")
        self.record_id = record_id


class OpenDecisions(Conflict):
    """The phase has open decisions, so it cannot be handed on unless forced."""

    def __init__(self, findings: list[str], phase: str) -> None:
        named = ", ".join(findings[:20]) + (f" and {len(findings) - 20} more" if len(findings) > 20 else "")
        super().__init__(
            f"Decisions of {phase} are open: {named}. Resolve them, or use force to hand them on undecided."
        )
        self.findings = findings


class PurgedRecord(Conflict):
    """The record's text was erased for good."""


class ServiceUnavailable(ContextoptError):
    """A service that the answer needs is down."""


class TooManyAttempts(ContextoptError):
    """Too many attempts failed or came at once. The next one is allowed after `seconds`."""

    def __init__(self, seconds: int, reason: str = "Too many failed attempts.") -> None:
        super().__init__(f"{reason} Try again in {plural(seconds, 'second')}.")
        self.seconds = seconds


class TooManyRequests(ContextoptError):
    """The key may send its next request after `seconds`, and its whole `limit` after `reset` seconds."""

    def __init__(self, seconds: int, limit: int, reset: int) -> None:
        again = f"Try again in {plural(seconds, 'second')}."
        super().__init__(f"This key may send {plural(limit, 'request')} a minute. {again}")
        self.seconds = seconds
        self.limit = limit
        self.reset = reset
