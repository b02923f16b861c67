"""The page of a task: its account, and everything that happened to it, in order of time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Max, Q
from django.http import HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_GET

from contextopt.agents.models import HandoffPhase, TaskState
from contextopt.agents.timeline.account import Account, add_up, read_phase_accounts
from contextopt.agents.timeline.events import EventKind
from contextopt.agents.timeline.sources import EventPage, read_events
from contextopt.engine.prompts.warnings import INSUFFICIENT
from contextopt.engine.wording import plural
from contextopt.errors import InvalidInput
from contextopt.models import Assembly, Task
from dashboard.kit.access import TeamRequest, get_task, team_page
from dashboard.kit.formats import percentage, whole
from dashboard.kit.pages import render_page
from dashboard.pages.agents.marks import build_sections, draw_account

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


@require_GET
@team_page
def task(request: TeamRequest, task_id: int) -> HttpResponse:
    found = get_task(request, task_id)
    asked = request.GET.get("show", "")
    show = asked if asked in SHOWN else ""
    page = _read_page(found, SHOWN[show][1], request.GET.get("after", ""))
    accounts = read_phase_accounts(found)
    total = add_up(accounts.values())
    sums = _measure(found)
    context = {
        "task": found,
        "account": total,
        "bars": draw_account(accounts, total),
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
