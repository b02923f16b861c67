"""The account of a task: the tokens it was sent, and those it would have been sent without us."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from django.db.models import Case, Count, IntegerField, Q, QuerySet, Sum, Value, When

from contextopt.agents.handoffs.compression import handed_findings, lost_findings
from contextopt.agents.handoffs.models import PhaseCompression
from contextopt.agents.models import HandoffPhase, Task
from contextopt.agents.phaselinks import load_active_links
from contextopt.assemblies.models import COUNTS, Assembly, AssemblyPayload, Kind
from contextopt.assemblies.verify import Difference, recompute
from contextopt.engine.agents.phases import DEFAULT_PROFILES
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


@dataclass(frozen=True, slots=True)
class NamedAccounts:
    """A task's account by what was sent: to each phase of an agent, without one, and as hand-offs.

    They add up to the task's account. Retries and hints that are no part of a step belong to no phase.
    """

    agent_phases: Mapping[str, Account]
    without_phase: Account
    handoffs: Mapping[HandoffPhase, Account]


def read_named_accounts(task: Task) -> NamedAccounts:
    """Return the account of each phase of an agent and of each hand-off, in two queries.

    Contexts logged under the name of a hand-off phase count for the phase whose profile it uses.
    """
    links = {link.value.phase: link.value.profile for link in load_active_links(task.team_id)}
    agent = dict.fromkeys(DEFAULT_PROFILES, NOTHING)
    handoffs = dict.fromkeys(HandoffPhase, NOTHING)
    rows = Assembly.objects.filter(task=task).values_list("kind", "phase").annotate(**SUMS).order_by()
    for kind, phase, *sums in rows:
        account = Account(*sums)
        if kind == Kind.HANDOFF:
            handoffs[HandoffPhase(phase)] += account
        else:
            name = links[phase] if phase in HandoffPhase.values else phase
            agent[name] = agent.get(name, NOTHING) + account
    return NamedAccounts(agent, agent.pop("", NOTHING), handoffs)


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


type Figures = Mapping[str, object]

FINDING_LINE = re.compile(r"^(F-[0-9]{3,}) \[", re.MULTILINE)
"""The first line of a finding in full. Its content is one line of JSON."""


@dataclass(slots=True)
class Accounts:
    """The accounts of tasks, added up from the figures that payloads give."""

    by_task: dict[int, Account] = field(default_factory=lambda: defaultdict(Account))

    def add(self, payload: AssemblyPayload, figures: Figures) -> None:
        """Add an assembly to the task that its request names, whatever its row says."""
        if task_id := payload.request.get("task_id"):
            self.by_task[task_id] += _account_of(payload.assembly, figures)

    def differing(self, team_id: int) -> list[int]:
        """Return the existing tasks whose account is not the sum of their assemblies."""
        shown = read_accounts(Assembly.objects.filter(team_id=team_id))
        ids = [
            task_id
            for task_id in self.by_task.keys() | shown.keys()
            if self.by_task.get(task_id, NOTHING) != shown.get(task_id, NOTHING)
        ]
        return list(
            Task.objects.filter(team_id=team_id, pk__in=ids).order_by("pk").values_list("pk", flat=True)
        )


def verify_account(task_id: int, payloads: Iterable[AssemblyPayload]) -> Iterator[Difference]:
    """Yield the figures of the task's account that differ from the sum of these payloads of its team."""
    accounts = Accounts()
    for payload in payloads:
        accounts.add(payload, recompute(payload))
    shown = read_accounts(Assembly.objects.filter(task=task_id)).get(task_id, NOTHING)
    added = accounts.by_task[task_id]
    for each in fields(Account):
        stored, recomputed = getattr(shown, each.name), getattr(added, each.name)
        if stored != recomputed:
            yield Difference(each.name, stored, recomputed)


def verify_handoffs(team_id: int) -> Iterator[tuple[int, Difference]]:
    """Yield the log entries of hand-offs that count although nobody received them, or that save by losing
    findings.
    """
    rows = PhaseCompression.objects.filter(task__team=team_id).select_related("assembly__payload")
    for compression in rows.exclude(assembly=None).order_by("pk").iterator(chunk_size=200):
        assembly = compression.assembly
        assert assembly is not None
        if assembly.is_sent != compression.is_received():
            yield assembly.pk, Difference("is_sent", assembly.is_sent, compression.is_received())
        payload = assembly.stored_payload
        lost = lost_findings(compression, handed_findings(compression))
        compared = set(FINDING_LINE.findall((payload.baseline_text if payload else "") or ""))
        if compared & lost:
            yield assembly.pk, Difference("compared findings", sorted(compared), sorted(compared - lost))


def _account_of(assembly: Assembly, figures: Figures) -> Account:
    """Return the account of one assembly. After a purge, the row alone knows the size of its text."""
    after = _number(figures.get("tokens_after", assembly.tokens_after)) if assembly.is_sent else 0
    before = figures.get("tokens_before", assembly.tokens_before)
    if figures["tokens_saved"] is None:
        return Account(1, after)
    return Account(1, after, 1, after, _number(before))


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
