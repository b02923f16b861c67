"""The marks that a task's timeline draws: one for each event or run of findings, by phase."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from contextopt.agents.models import HandoffPhase, Task
from contextopt.agents.timeline.account import Account
from contextopt.agents.timeline.events import Event, EventKind
from contextopt.engine.wording import plural
from dashboard.kit.formats import whole

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
