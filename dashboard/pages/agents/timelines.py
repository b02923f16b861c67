"""The page of a task: its account, and everything that happened to it, in order of time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Max, Q
from django.http import HttpResponse
from django.utils import timezone

from contextopt.agents.models import HandoffPhase, Task, TaskState
from contextopt.agents.timeline.account import (
    Account,
    NamedAccounts,
    add_up,
    read_named_accounts,
    read_phase_accounts,
)
from contextopt.agents.timeline.events import Event, EventKind
from contextopt.agents.timeline.eventsources import EventPage, read_events
from contextopt.assemblies.models import Assembly
from contextopt.engine.values import INSUFFICIENT
from contextopt.engine.wording import plural
from contextopt.errors import InvalidInput
from contextopt.people.models import Role
from dashboard.kit.formats import percentage, whole
from dashboard.kit.permissions import TeamRequest, get_task, page_for
from dashboard.kit.responses import render_page

FILLS = {
    HandoffPhase.ANALYSIS: "system",
    HandoffPhase.DESIGN: "history",
    HandoffPhase.IMPLEMENTATION: "context",
}
ICONS = {
    EventKind.HINT: "M8 2a4 4 0 0 0-2.3 7.3V11h4.6V9.3A4 4 0 0 0 8 2zM6.3 13.5h3.4",
    EventKind.CONTEXT: "M2.5 8h10M9 4.5 12.5 8 9 11.5",
    EventKind.FINDING: "M3 3h10v8H7l-3 3v-3H3z",
    EventKind.DECISION: "M3 8.5 6.5 12 13 4.5",
    EventKind.HANDOFF: "M3 5h7l-2-2M13 11H6l2 2",
    EventKind.ATTEMPT: "M4 4l8 8M12 4l-8 8",
    EventKind.RETRY: "M13 8a5 5 0 1 1-1.6-3.7M13 2v3h-3",
    EventKind.COMPLETION: "M4 14V2.5h8l-2 3 2 3H4",
}
MOODS = {
    EventKind.HINT: "hint",
    EventKind.DECISION: "passed",
    EventKind.ATTEMPT: "failed",
    EventKind.COMPLETION: "passed",
}
# The smallest bar that can be seen, in percent of the widest.
BAR_MIN = 0.6
# With more events, the phases before the current one are folded.
UNFOLDED = 40


@dataclass(frozen=True, slots=True)
class Mark:
    """One row: an event, or findings that were added one after the other.

    `sent` and `full` are widths in percent of the task's widest bar.
    """

    event: Event
    title: str
    note: str
    mood: str
    sent: float
    full: float

    @property
    def icon(self) -> str:
        return ICONS[self.event.kind]

    @property
    def label(self) -> str:
        """The bar in words."""
        sent = f"{whole(self.event.sent_tokens)} tokens sent"
        if self.event.full_tokens is None or self.event.kind == EventKind.HINT:
            return sent
        return f"{sent}, {whole(self.event.full_tokens)} otherwise"


@dataclass(frozen=True, slots=True)
class Section:
    """The marks of one phase, its account and how long it took."""

    phase: HandoffPhase
    account: Account
    lasted: str
    marks: tuple[Mark, ...]
    is_open: bool

    @property
    def fill(self) -> str:
        return FILLS[self.phase]


def build_sections(
    task: Task, events: Sequence[Event], accounts: Mapping[HandoffPhase, Account], widest: int, now: datetime
) -> list[Section]:
    """Return the sections of the phases that have events. `widest` is the most tokens of any bar."""
    found = {phase: tuple(run) for phase, run in groupby(events, key=lambda event: event.phase)}
    return [
        Section(
            phase,
            accounts[phase],
            _lasted(task, phase, now),
            tuple(_marks(run, widest)),
            is_open=phase == task.phase or len(events) <= UNFOLDED,
        )
        for phase, run in found.items()
    ]


def _marks(events: Sequence[Event], widest: int) -> Iterator[Mark]:
    for kind, run in groupby(events, key=lambda event: event.kind):
        group = list(run)
        if kind == EventKind.FINDING and len(group) > 1:
            yield _findings(group)
        else:
            yield from (_mark(event, widest) for event in group)


def _mark(event: Event, widest: int) -> Mark:
    is_failure = event.kind == EventKind.COMPLETION and not event.title.startswith("Completed")
    return Mark(
        event,
        event.title,
        event.note,
        "failed" if is_failure else MOODS.get(event.kind, ""),
        sent=_width(event.sent_tokens, widest),
        full=_width(event.full_tokens, widest),
    )


def _findings(events: Sequence[Event]) -> Mark:
    critical = sum("critical" in event.note.split(", ") for event in events)
    undecided = sum("decision open" in event.note.split(", ") for event in events)
    parts = [plural(len(events), "finding") + " added"]
    parts += [f"{critical:,} critical"] * bool(critical)
    parts += [plural(undecided, "decision") + " open"] * bool(undecided)
    return Mark(events[0], ", ".join(parts), f"{events[0].finding} to {events[-1].finding}", "", 0, 0)


def _width(tokens: int | None, widest: int) -> float:
    if not tokens or not widest:
        return 0
    return round(max(BAR_MIN, 100 * tokens / widest), 2)


def _lasted(task: Task, phase: HandoffPhase, now: datetime) -> str:
    """Return how long the task was in the phase, in words."""
    begun = task.entered_at(phase) or task.created_at
    ended = (task.entered_at(phase.after) if phase.after else None) or task.completed_at or now
    return span_words(max(timedelta(), ended - begun))


def span_words(span: timedelta) -> str:
    """Return a span of time in its two largest units."""
    minutes = round(span.total_seconds() / 60)
    if minutes < 1:
        return "under a minute"
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = [(days, "d"), (hours, "h"), (minutes, "min")]
    return " ".join([f"{count:,} {unit}" for count, unit in units if count][:2])


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the bar of everything sent; `x` and `width` in percent."""

    label: str
    tokens: int
    fill: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class AccountBars:
    """The two bars of an account on one scale: what would have been sent, and what was.

    The second has a share for each phase, and one for tokens that could not be compared.
    """

    full: float
    shares: tuple[Share, ...]


def draw_account(accounts: Mapping[HandoffPhase, Account], total: Account) -> AccountBars:
    scale = max(total.full_tokens, total.sent_tokens) or 1
    parts = [(phase.label, account.compared_tokens, FILLS[phase]) for phase, account in accounts.items()]
    parts.append(("Not compared", total.uncompared_tokens, "response"))
    shares: list[Share] = []
    x = 0.0
    for label, tokens, fill in parts:
        width = round(100 * tokens / scale, 2)
        if tokens:
            shares.append(Share(label, tokens, fill, round(x, 2), width))
        x += width
    return AccountBars(round(100 * total.full_tokens / scale, 2), tuple(shares))


EVENTS_SHOWN = 200
EVERYTHING = frozenset(EventKind.values)
SHOWN = {
    "": ("Everything", EVERYTHING),
    "contexts": ("Contexts", frozenset({"hint", "context", "handoff", "retry"})),
    "attempts": ("Attempts", frozenset({"attempt", "retry", "completion"})),
    "findings": ("Findings", frozenset({"finding", "decision", "handoff"})),
}


@dataclass(frozen=True, slots=True)
class Check:
    """One sign of whether the task succeeded; `mood` is "good", "bad" or empty."""

    mood: str
    text: str


@page_for(Role.VIEWER, "GET", get_task)
def task(request: TeamRequest, found: Task) -> HttpResponse:
    asked = request.GET.get("show", "")
    show = asked if asked in SHOWN else ""
    page = _read_page(found, SHOWN[show][1], request.GET.get("after", ""))
    accounts, named = read_phase_accounts(found), read_named_accounts(found)
    total = add_up(accounts.values())
    sums = _measure(found)
    context = {
        "task": found,
        "account": total,
        "bars": draw_account(accounts, total),
        "parts": list(_parts(named)),
        "account_text": account_text(found, accounts, total),
        "checks": list(_checks(found, sums)),
        "sections": build_sections(found, page.events, accounts, sums["widest"], timezone.now()),
        "shown": [(name, label) for name, (label, _) in SHOWN.items()],
        "show": show,
        "is_first": not request.GET.get("after"),
        "later": urlencode({"show": show, "after": page.next_cursor}) if page.next_cursor else "",
        "query": request.GET.urlencode(),
    }
    return render_page(request, "dashboard/task.html", context, partials=("timeline",))


def _parts(named: NamedAccounts) -> Iterator[tuple[str, Account]]:
    """Yield what each phase of the agent was sent, and what each phase handed on."""
    yield from ((name.capitalize(), account) for name, account in named.agent_phases.items())
    if named.without_phase.assemblies:
        yield "Retries and hints outside a step", named.without_phase
    yield from (
        (f"Hand-off from {phase.label.lower()}", account) for phase, account in named.handoffs.items()
    )


def _read_page(found: Task, kinds: frozenset[str], cursor: str) -> EventPage:
    """Return a page of events. An unreadable cursor is ignored, since links get cut off."""
    try:
        return read_events(found, kinds=kinds, cursor=cursor or None, limit=EVENTS_SHOWN)
    except InvalidInput:
        return read_events(found, kinds=kinds, cursor=None, limit=EVENTS_SHOWN)


def _measure(found: Task) -> dict[str, Any]:
    """Return the widest bar of the task, and how many of its contexts lack something or were trimmed."""
    sums = Assembly.objects.filter(task=found).aggregate(
        sent=Max("tokens_after", default=0),
        full=Max("tokens_before", default=0),
        lacking=Count("pk", filter=Q(warning_codes__overlap=sorted(INSUFFICIENT))),
        trimmed=Count("pk", filter=Q(truncated=True)),
        contexts=Count("pk", filter=Q(tokens_after__gt=0)),
    )
    return {**sums, "widest": max(sums["sent"], sums["full"] or 0)}


def _checks(found: Task, sums: Mapping[str, Any]) -> Iterator[Check]:
    attempts = found.attempts.count()
    yield _outcome(found, attempts)
    if found.quality_score is not None:
        yield Check("", f"Quality {found.quality_score:g} of 10")
    latest = list(found.compressions.latest_versions())
    critical = sum(len(each.critical) for each in latest)
    if critical:
        yield Check("good", f"{plural(critical, 'critical finding')} handed on in full")
    if forced := sum(len(each.undecided) for each in latest):
        yield Check("bad", f"Handed on with {plural(forced, 'open decision')}")
    if sums["contexts"]:
        yield _sufficiency(sums)


def _outcome(found: Task, attempts: int) -> Check:
    if found.state == TaskState.COMPLETED:
        return Check("good", f"Completed at attempt {attempts + 1:,}")
    if found.state != TaskState.OPEN:
        after = f" after {plural(attempts, 'failed attempt')}" if attempts else ""
        return Check("bad", f"{found.get_state_display()}{after}")
    return Check("", f"Open, {plural(attempts, 'failed attempt')}")


def _sufficiency(sums: Mapping[str, Any]) -> Check:
    if sums["lacking"]:
        return Check("bad", f"{plural(sums['lacking'], 'context')} may lack the answer")
    if sums["trimmed"]:
        return Check("", f"{plural(sums['trimmed'], 'context')} trimmed to the budget")
    return Check("good", "No context empty or trimmed")


def account_text(found: Task, accounts: Mapping[HandoffPhase, Account], total: Account) -> str:
    """Return the account as text, to paste into a report."""
    title = " ".join(found.description.split())[:120]
    lines = [f"Task {found.pk}: {title}", f"Sent: {whole(total.sent_tokens)} tokens"]
    if total.saved_tokens is not None:
        assemblies = f"{total.compared:,} of {plural(total.assemblies, 'assembly', 'assemblies')}"
        lines += [
            f"Full contexts: {whole(total.full_tokens)} tokens",
            f"Compared: {whole(total.compared_tokens)} tokens in {assemblies}",
            saved_words(total),
        ]
    lines += [
        f"{phase.label}: {_compared_words(account)}"
        for phase, account in accounts.items()
        if account.assemblies
    ]
    return "\n".join(lines)


def _compared_words(account: Account) -> str:
    words = f"{whole(account.compared_tokens)} of {whole(account.full_tokens)}"
    more = account.uncompared_tokens
    return f"{words}, {whole(more)} more not compared" if more else words


def saved_words(total: Account) -> str:
    """Return the saving as a sentence, or the cost if there is none."""
    saved = total.saved_tokens or 0
    share = "" if total.saved_percent is None else f" ({percentage(abs(total.saved_percent))} %)"
    return f"{'Saved' if saved >= 0 else 'Cost'}: {whole(abs(saved))} tokens{share}"
