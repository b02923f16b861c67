"""Retries: what agents that try again are sent, and why they had to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, F, Func, Q, QuerySet, Sum, TextField, Value
from django.db.models.functions import Length
from django.http import HttpResponse
from django.utils import timezone
from django.utils.text import Truncator

from contextopt.agents.models import COMPARED_TOKENS, Action, Attempt, AttemptState, Task
from contextopt.engine.agents.plans import PLAN_SUMMARY_CHARS, read_plan, summarise_plan
from contextopt.inputs import read_digits
from contextopt.people.models import Role
from dashboard.kit.charts.shapes import Bar, Segment, saving_bar, stack_parts
from dashboard.kit.charts.tiles import Change, Tile, points, unit
from dashboard.kit.diffs import Run, colour_diff
from dashboard.kit.formats import NONE, compact, decimals, percent, whole
from dashboard.kit.permissions import TeamRequest, get_task, page_for
from dashboard.kit.responses import newest_page, render_page
from dashboard.pages.agents.filters import TasksForm

CAUSES = {
    "bad_plan": "the plan was wrong",
    "implementation_error": "the plan was right, the code was wrong",
    "missing_context": "information was missing",
    "impossible_task": "the task is impossible",
    "environment_error": "the environment failed",
}
# The agent's next action and the content sent for it.
ACTION_WORDS = {
    Action.REPLAN: "Plan again from the task, plan and diagnosis",
    Action.RETRY: "Retry with the changes",
    Action.REFETCH: "Retry with the full context",
    Action.STOP: "Stop: the task is impossible",
    Action.WAIT: "Wait, then repeat the same plan",
}


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """Sums over a task's attempts. Attempts that wait or stop send nothing and are in no sum of tokens."""

    attempts: int = 0
    full_tokens: int = 0
    sent_tokens: int = 0
    causes: tuple[str, ...] = ()

    @property
    def saved_tokens(self) -> int:
        return self.full_tokens - self.sent_tokens

    @property
    def rate(self) -> float | None:
        return self.saved_tokens / self.full_tokens if self.full_tokens else None

    @property
    def bar(self) -> Bar:
        return saving_bar(before=self.full_tokens, after=self.sent_tokens)


def read_task_figures(tasks: Sequence[Task]) -> dict[int, TaskFigures]:
    """Return the figures of each of these tasks, in one query."""
    rows = (
        Attempt.objects.filter(task__in=tasks)
        .values("task_id")
        .annotate(
            attempts=Count("pk"),
            full=COMPARED_TOKENS,
            sent=Sum("delta_tokens"),
            causes=ArrayAgg("root_cause", distinct=True, order_by="root_cause"),
        )
    )
    return {
        row["task_id"]: TaskFigures(row["attempts"], row["full"], row["sent"], tuple(row["causes"]))
        for row in rows
    }


@dataclass(frozen=True, slots=True)
class CauseRow:
    """A root cause, its frequency and its saving. Callers may name any cause, so only some have a
    description.
    """

    root_cause: str
    words: str
    attempts: int
    saved_tokens: int | None
    share: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class RetrySummary:
    total: TaskFigures
    tasks: int
    waiting: int
    stopped: int
    causes: tuple[CauseRow, ...]


CAUSES_SHOWN = 12


def summarise(attempts: QuerySet[Attempt]) -> RetrySummary:
    """Add up some attempts: once over all, once by root cause."""
    sums = attempts.aggregate(
        attempts=Count("pk"),
        tasks=Count("task", distinct=True),
        full=COMPARED_TOKENS,
        sent=Sum("delta_tokens", default=0),
        waiting=Count("pk", filter=Q(state=AttemptState.WAITING)),
        stopped=Count("pk", filter=Q(action=Action.STOP)),
    )
    by_cause = (
        attempts.values("root_cause")
        .annotate(attempts=Count("pk"), full=COMPARED_TOKENS, sent=Sum("delta_tokens"))
        .order_by("-attempts", "root_cause")[:CAUSES_SHOWN]
    )
    causes = tuple(
        CauseRow(
            root_cause=row["root_cause"],
            words=cause_words(row["root_cause"]),
            attempts=row["attempts"],
            saved_tokens=row["full"] - row["sent"] if row["full"] else None,
            share=stack_parts([("context", row["attempts"])], sums["attempts"]),
        )
        for row in by_cause
    )
    total = TaskFigures(sums["attempts"], sums["full"], sums["sent"])
    return RetrySummary(total, sums["tasks"], sums["waiting"], sums["stopped"], causes)


def build_retry_tiles(found: RetrySummary) -> list[Tile]:
    total = found.total
    saved, magnitude = compact(total.saved_tokens) if total.full_tokens else (NONE, "")
    each = decimals(total.attempts / found.tasks if found.tasks else None, 1)
    return [
        Tile("saved", "Tokens saved", saved, magnitude, Change(), f"of {whole(total.full_tokens)} in full"),
        Tile("share", "Share saved", points(total.rate), unit(total.rate), Change(), "by sending diffs"),
        Tile("attempts", "Retries", *compact(total.attempts), Change(), f"{each} per task"),
        Tile("stopped", "Stopped", *compact(found.stopped), Change(), f"{whole(found.waiting)} waiting"),
    ]  # fmt: skip


def cause_words(root_cause: str) -> str:
    return CAUSES.get(root_cause, "")


@dataclass(frozen=True, slots=True)
class FileRow:
    """A changed file as the receiver was sent it."""

    path: str
    kind: str
    renamed_from: str
    is_truncated: bool
    added: int
    removed: int
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """An attempt with its drawings and descriptions."""

    attempt: Attempt
    action: str
    cause: str
    bar: Bar | None
    wait_left: int
    plan: tuple[str, ...]
    files: tuple[FileRow, ...]
    error_chars: int

    @property
    def latest_error(self) -> str:
        return str(self.attempt.retry_context["latest_error"])

    @property
    def saved_words(self) -> str:
        share = self.attempt.saved_percent
        return "" if share is None else percent(share / 100, 1)


def attempt_rows(attempts: Iterable[Attempt], now: datetime) -> list[AttemptRow]:
    """Return rows for attempts that were loaded with `error_chars`, the length of their stripped error."""
    return [_attempt_row(attempt, now) for attempt in attempts]


def _attempt_row(attempt: Any, now: datetime) -> AttemptRow:
    left = (attempt.available_at - now).total_seconds() if attempt.state == AttemptState.WAITING else 0
    return AttemptRow(
        attempt=attempt,
        action=ACTION_WORDS[attempt.action],
        cause=cause_words(attempt.root_cause),
        bar=saving_bar(before=attempt.full_tokens, after=attempt.delta_tokens) if attempt.is_sent else None,
        wait_left=max(0, ceil(left)),
        plan=_plan_steps(attempt.plan),
        files=tuple(_file_row(file) for file in attempt.retry_context["changed_files"]),
        error_chars=attempt.error_chars,
    )


def _plan_steps(value: object) -> tuple[str, ...]:
    """Return the titles of a plan's steps, or the lines of a text without a list."""
    plan = read_plan(value)
    steps = summarise_plan(plan).splitlines()
    if isinstance(plan, str) and len(steps) == 1:
        steps = Truncator(plan).chars(PLAN_SUMMARY_CHARS).splitlines()
    return tuple(step for step in steps if step.strip())


def _file_row(file: Mapping[str, Any]) -> FileRow:
    runs = colour_diff(file["diff"], file["kind"])
    lines = {
        state: sum(run.text.count("\n") for run in runs if run.state == state) for state in ("added", "gone")
    }
    return FileRow(
        path=file["path"],
        kind=file["kind"],
        renamed_from=file.get("renamed_from", ""),
        is_truncated=file["is_truncated"],
        added=lines["added"],
        removed=lines["gone"],
        runs=runs,
    )


SUMMARY_DAYS = 30
ATTEMPTS_SHOWN = 20
# An error that lost only the whitespace around it is not cut.
STRIPPED_ERROR = Func(F("error"), Value(" \r\n"), function="btrim", output_field=TextField())


@page_for(Role.VIEWER, "GET")
def retries(request: TeamRequest) -> HttpResponse:
    form = TasksForm(request.GET, team=request.team)
    page = newest_page(form.select(), "created_at", request.GET.get("before", ""))
    figures = read_task_figures(page.rows)
    since = timezone.now() - timedelta(days=SUMMARY_DAYS)
    found = summarise(Attempt.objects.filter(task__team=request.team, created_at__gte=since))
    context = {
        "form": form,
        "query": form.query(),
        "page": page,
        "rows": [(task, figures.get(task.pk, TaskFigures())) for task in page.rows],
        "summary": found,
        "tiles": build_retry_tiles(found),
        "days": SUMMARY_DAYS,
    }
    return render_page(request, "dashboard/retries.html", context, partials=("tasks",))


@page_for(Role.VIEWER, "GET", get_task)
def retry(request: TeamRequest, task: Task) -> HttpResponse:
    """Show a task's latest attempts up to a number, in order, without the full text of their errors."""
    figures = read_task_figures([task]).get(task.pk, TaskFigures())
    until = read_digits(request.GET.get("until", "")) or 0
    found: QuerySet[Attempt] = task.attempts.defer("error").annotate(error_chars=Length(STRIPPED_ERROR))
    if until:
        found = found.filter(number__lte=until)
    attempts = list(reversed(found.order_by("-number")[:ATTEMPTS_SHOWN]))
    rows = attempt_rows(attempts, timezone.now())
    context = {
        "task": task,
        "figures": figures,
        "rows": rows,
        "first": rows[0].attempt.number if rows else 0,
        # A page of past attempts does not change.
        "is_waiting": not until and any(row.attempt.state == AttemptState.WAITING for row in rows),
    }
    return render_page(request, "dashboard/retry.html", context, partials=("attempts",))
