"""Strategies: ways of working that succeeded, their results, and the hints made from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.db.models import Count
from django.http import HttpResponse
from django.shortcuts import redirect
from pydantic import ValidationError

from contextopt.agents.completions import Completion
from contextopt.errors import Conflict, InvalidInput, NotFound, ServiceUnavailable
from contextopt.inputs import field_problems, read_digits
from contextopt.people.models import Role
from dashboard.kit.charts.plots import ACCENT, COSTLY, Plot, bare_layout, plain, scatter
from dashboard.kit.permissions import TeamRequest, as_message, get_strategy, page_for
from dashboard.kit.responses import newest_page, render_page
from dashboard.pages.memories.forms import CompletionForm, PlanForm, StrategiesForm
from memory.memories.inputs import RetireIn
from memory.memories.models import Memory
from memory.strategies.hints import preview_hint
from memory.strategies.reports import CompletionResult, complete_task
from memory.strategies.strategies import (
    COMPLETED,
    ENDED,
    SUCCESS,
    policy_of,
    reinstate_strategy,
    retire_strategy,
    success_rates,
)

# A single moment has no width to draw on.
MARGIN = timedelta(hours=6)
# For steps of a day or more the hour is always midnight, so it is not shown.
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class TrustPoint:
    """The trust from a moment on, in the team's local time, and why it changed."""

    moment: datetime
    trust: float
    reason: str


def trust_figure(points: Sequence[TrustPoint], retire_below: float) -> Plot:
    """Draw trust in steps from 0 to 1, and the line below which a strategy is retired."""
    trace = scatter(
        name="trust", x=[point.moment for point in points], y=[point.trust for point in points],
        text=[plain(point.reason) for point in points], hovertemplate="%{y:.2f}, %{text}<extra></extra>",
        mode="lines+markers", line={"color": ACCENT, "width": 2, "shape": "hv"},
        marker={"color": ACCENT, "size": 7},
    )  # fmt: skip
    plot = Plot([trace], bare_layout())
    plot.update_layout(margin={"l": 40, "r": 16, "t": 10, "b": 42}, showlegend=False)
    plot.update_xaxes(
        type="date", zeroline=False, nticks=5, tickangle=0, hoverformat="%-d %b %H:%M",
        tickformat="%-d %b<br>%H:%M", tickformatstops=[{"dtickrange": [DAY_MS, None], "value": "%-d %b"}],
    )  # fmt: skip
    plot.update_yaxes(range=[-0.02, 1.04], tickformat=".2~f")
    if points:
        plot.update_xaxes(range=[points[0].moment - MARGIN, points[-1].moment + MARGIN])
    threshold = {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": retire_below, "y1": retire_below,
        "line": {"color": COSTLY, "width": 1, "dash": "dot"},
    }  # fmt: skip
    plot.update_layout(shapes=[threshold])
    return plot


TRUST_CHANGES_SHOWN = 200
USES_SHOWN = 25


@page_for(Role.VIEWER, "GET")
def strategies(request: TeamRequest) -> HttpResponse:
    form = StrategiesForm(request.GET, team=request.team)
    page = newest_page(form.select(), "created_at", request.GET.get("before", ""))
    rates = success_rates(list(page.rows))
    plan = PlanForm(request.GET if "task" in request.GET else None)
    context: dict[str, Any] = {
        "form": form,
        "query": form.query(),
        "page": page,
        "rows": [(row, rates.get(row.pk)) for row in page.rows],
        "plan": plan,
        **_hint(request, plan),
    }
    return render_page(request, "dashboard/strategies.html", context, partials=("strategies", "hint"))


def _hint(request: TeamRequest, plan: PlanForm) -> dict[str, Any]:
    """Return the hint that the task would be given, without counting it."""
    if not plan.is_valid():
        return {}
    try:
        return {"hint": preview_hint(team=request.team, data=plan.to_request())}
    except ValidationError as error:
        return {"hint_problem": "; ".join(problem.message for problem in field_problems(error))}
    except ServiceUnavailable as error:
        return {"hint_problem": str(error)}


@page_for(Role.VIEWER, "GET", get_strategy)
def strategy(request: TeamRequest, found: Memory) -> HttpResponse:
    changes = list(reversed(found.trust_changes.order_by("-id")[:TRUST_CHANGES_SHOWN]))
    zone = ZoneInfo(request.team.time_zone)
    points = [
        TrustPoint(change.changed_at.astimezone(zone).replace(tzinfo=None), change.trust, change.reason)
        for change in changes
    ]
    policy = policy_of(request.team.pk)
    context = {
        "strategy": found,
        "steps": found.payload.get("steps") or [],
        "pattern": found.payload.get("pattern") or next(iter(found.tags), ""),
        "figures": found.uses.aggregate(
            uses=Count("pk"),
            rated=Count("rating"),
            ended=ENDED,
            completed=COMPLETED,
            mean=SUCCESS,
        ),
        "uses": found.uses.select_related("task").order_by("-created_at", "-id")[:USES_SHOWN],
        "changes": list(reversed(changes)),
        "charts": {"trust": trust_figure(points, policy.retire_below).to_plotly_json()},
        "policy": policy,
    }
    return render_page(request, "dashboard/strategy.html", context)


@page_for(Role.EDITOR, "POST", get_strategy)
def strategy_retire(request: TeamRequest, found: Memory) -> HttpResponse:
    try:
        reason = RetireIn(reason=request.POST.get("reason", "")).reason
    except ValidationError as error:
        messages.error(request, f"Not retired: the reason {field_problems(error)[0].message}.")
    else:
        retire_strategy(memory=found, reason=reason, actor=request.actor)
        messages.success(request, "Strategy retired. Agents will no longer receive it.")
    return redirect("dashboard:strategy", found.pk)


@page_for(Role.EDITOR, "POST", get_strategy)
def strategy_reinstate(request: TeamRequest, found: Memory) -> HttpResponse:
    with as_message(request):
        reinstate_strategy(memory=found, actor=request.actor)
        messages.success(request, "Strategy reinstated.")
    return redirect("dashboard:strategy", found.pk)


@page_for(Role.EDITOR, "GET POST")
def strategy_complete(request: TeamRequest) -> HttpResponse:
    """Report an ended task; the answer says what was stored, and what was not and why."""
    form = CompletionForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            result = complete_task(team=request.team, data=form.value, actor=request.actor)
        except InvalidInput as error:
            form.add_problems(error.problems)
        except (Conflict, NotFound) as error:
            form.add_error("task_id", str(error))
        else:
            if not result.is_new:
                messages.info(request, "This report was already recorded. Nothing was changed.")
            return redirect(f"{request.path}?completion={result.completion.pk}")
    context = {"form": form, "answer": _find_answer(request)}
    return render_page(
        request, "dashboard/strategy_complete.html", context, status=422 if form.is_bound else 200
    )


def _find_answer(request: TeamRequest) -> dict[str, Any] | None:
    """Return the result of the completion named in the URL, where a new report redirects to."""
    rows = Completion.objects.filter(team=request.team).select_related("task")
    found = rows.filter(pk=read_digits(request.GET.get("completion", "")) or 0).first()
    return CompletionResult(found, is_new=False).to_json() if found else None
