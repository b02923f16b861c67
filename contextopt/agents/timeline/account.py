"""The account of a task: the tokens it was sent, and those it would have been sent without us."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from django.db.models import Case, Count, IntegerField, Q, QuerySet, Sum, Value, When

from contextopt.agents.models import HandoffPhase, Task
from contextopt.assemblies.models import COUNTS, Assembly, Kind
from contextopt.engine.agents.retries import percent_of

SUMS = {
    "assemblies": Count("pk"),
    "sent_tokens": Sum("tokens_after", filter=Q(is_sent=True), default=0),
    "compared": Count("pk", filter=COUNTS),
    "compared_tokens": Sum("tokens_after", filter=COUNTS, default=0),
    "full_tokens": Sum("tokens_before", filter=COUNTS, default=0),
}


@dataclass(frozen=True, slots=True)
class Account:
    """Sums over assemblies. Only the `compared` ones have a baseline and count towards the saving.

    `compared_tokens` were sent instead of `full_tokens`. `sent_tokens` counts the others too, except what
    nobody received.
    """

    assemblies: int = 0
    sent_tokens: int = 0
    compared: int = 0
    compared_tokens: int = 0
    full_tokens: int = 0

    @property
    def uncompared_tokens(self) -> int:
        return self.sent_tokens - self.compared_tokens

    @property
    def saved_tokens(self) -> int | None:
        """Tokens saved, negative if it cost more, or None if nothing was compared."""
        return self.full_tokens - self.compared_tokens if self.compared else None

    @property
    def saved_percent(self) -> float | None:
        """The saving in percent of the full contexts, to one decimal, or None if there are none."""
        return percent_of(self.saved_tokens, self.full_tokens) if self.full_tokens else None

    def __add__(self, other: "Account") -> "Account":
        return Account(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Account)))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "saved_tokens": self.saved_tokens, "saved_percent": self.saved_percent}


NOTHING = Account()


def add_up(accounts: Iterable[Account]) -> Account:
    return sum(accounts, NOTHING)


def read_phase_accounts(task: Task) -> dict[HandoffPhase, Account]:
    """Return the account of each phase of the task, in one query. The task's own is their sum."""
    order = list(HandoffPhase)
    entered = [
        When(created_at__gte=moment, then=Value(order.index(phase))) for phase, moment in _entries(task)
    ]
    place = Case(*entered, default=Value(0), output_field=IntegerField())
    rows = Assembly.objects.filter(task=task).annotate(place=place)
    found = {order[index]: account for index, account in _group(rows, "place")}
    return {phase: found.get(phase, NOTHING) for phase in order}


def _entries(task: Task) -> Iterator[tuple[HandoffPhase, datetime]]:
    """Yield the later phases that the task has entered, the last one first."""
    for phase in reversed(HandoffPhase):
        if (moment := task.entered_at(phase)) is not None and phase.before:
            yield phase, moment


def read_accounts(assemblies: QuerySet[Assembly]) -> Mapping[int, Account]:
    """Return the account of each task that the assemblies belong to."""
    return dict(_group(assemblies.filter(task__isnull=False), "task"))


def read_handoff_accounts(task: Task) -> Mapping[str, Account]:
    """Return the account of the hand-offs of each phase, all versions that were received together."""
    return dict(_group(Assembly.objects.filter(task=task, kind=Kind.HANDOFF), "phase"))


def _group(assemblies: QuerySet[Assembly], name: str) -> Iterator[tuple[Any, Account]]:
    """Yield the account of each value of a column."""
    for group, *sums in assemblies.values_list(name).annotate(**SUMS).order_by():
        yield group, Account(*sums)
