"""An event of a task: one value for each thing that happened to it, with its tokens."""

from dataclasses import dataclass
from datetime import datetime

from django.db import models

from contextopt.agents.models import HandoffPhase
from contextopt.assemblies.models import Assembly
from contextopt.engine.agents.retries import percent_of

type Key = tuple[datetime, int, int]


class EventKind(models.TextChoices):
    """The kinds of events, in the order of those that happen at the same moment."""

    HINT = "hint", "Hint"
    CONTEXT = "context", "Context"
    FINDING = "finding", "Finding"
    DECISION = "decision", "Decision"
    HANDOFF = "handoff", "Hand-off"
    ATTEMPT = "attempt", "Attempt"
    RETRY = "retry", "Retry"
    COMPLETION = "completion", "Completion"

    @property
    def rank(self) -> int:
        return list(EventKind).index(self)


@dataclass(frozen=True, slots=True)
class Event:
    """One event. Its tokens are those of its assembly; an event without an assembly sent nothing.

    `number` orders the events of a kind. `unsent` says why a retry sent nothing. `text` is the error of a
    failed attempt, or the resolution of a decision.
    """

    at: datetime
    kind: EventKind
    number: int
    phase: HandoffPhase
    title: str
    note: str = ""
    text: str = ""
    label: str = ""
    assembly: Assembly | None = None
    baseline: str = ""
    unsent: str = ""
    finding: str | None = None
    attempt: int | None = None
    memory_id: int | None = None

    @property
    def rank(self) -> int:
        return self.kind.rank

    @property
    def key(self) -> Key:
        return self.at, self.rank, self.number

    @property
    def sent_tokens(self) -> int | None:
        """Tokens sent, or None if an event of this kind sends nothing."""
        if self.assembly is None:
            return 0 if self.unsent else None
        return self.assembly.tokens_after if self.assembly.is_sent else 0

    @property
    def full_tokens(self) -> int | None:
        """Tokens that would have been sent, or None if they are not compared."""
        return self.assembly.tokens_before if self.assembly and self.assembly.saving_counts else None

    @property
    def saved_tokens(self) -> int | None:
        return self.assembly.tokens_saved if self.assembly else None

    @property
    def saved_percent(self) -> float | None:
        return percent_of(self.saved_tokens, self.full_tokens) if self.full_tokens else None

    @property
    def not_compared(self) -> str:
        """The reason why the event counts neither as a saving nor as a cost; empty if it counts."""
        return self.assembly.not_counted if self.assembly else self.unsent
