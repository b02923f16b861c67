"""Feedback: the vote buttons below answers, and trends in the votes."""

from dataclasses import replace
from typing import Any

from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from contextopt.assemblies.models import Assembly
from contextopt.chat.models import Message
from contextopt.people.models import Role
from dashboard.kit.charts.panels import stream_columns
from dashboard.kit.filters import STAGES, space_choices
from dashboard.kit.permissions import TeamRequest, as_404, get_assembly, page_for
from dashboard.kit.responses import newest_page, render_page
from dashboard.pages.answers.charts import VOTE_CHARTS, VoteData
from dashboard.pages.answers.figures import (
    Links,
    build_vote_tiles,
    config_rows,
    named_rows,
    read_series,
    reason_rows,
    record_rows,
    stage_rows,
)
from dashboard.pages.answers.filters import FeedbackForm, VotesForm
from dashboard.pages.answers.forms import VoteForm
from dashboard.pages.assemblies.votebox import message_boxes, read_assembly_feedback
from memory.feedback.inputs import SubjectIn
from memory.feedback.models import Vote
from memory.feedback.trends import VoteFilter, read_record_trends, read_vote_groups
from memory.feedback.votes import give_feedback, withdraw_feedback

TEMPLATE = "dashboard/feedback.html"
VOTES_TEMPLATE = "dashboard/_votes.html"
FEEDBACK_TEMPLATE = "dashboard/_feedback.html"


def _get_answer(request: TeamRequest, answer_id: int) -> Message:
    answer = Message.objects.of(request.team).filter(pk=answer_id, reply_to__isnull=False).first()
    if answer is None:
        raise Http404("No such answer.")
    return answer


@page_for(Role.REVIEWER, "POST", _get_answer)
def chat_vote(request: TeamRequest, answer: Message) -> HttpResponse:
    """Vote on an answer of a conversation."""
    form = _vote(request, SubjectIn(message_id=answer.pk))
    address = (
        f"{reverse('dashboard:chat_conversation', args=[answer.conversation_id])}#turn-{answer.reply_to_id}"
    )
    if not request.htmx:
        return redirect(address)
    box = message_boxes([answer], request.actor)[answer.reply_to_id or 0]
    vote_url = reverse("dashboard:chat_vote", args=[answer.pk])
    context = {"box": box, "vote_url": vote_url, "form": form}
    return render_page(request, VOTES_TEMPLATE, context)


@page_for(Role.REVIEWER, "POST", get_assembly)
def assembly_vote(request: TeamRequest, found: Assembly) -> HttpResponse:
    """Vote on an assembly, or on its answer if it was made for a conversation."""
    form = _vote(request, SubjectIn(assembly_id=found.pk))
    if not request.htmx:
        return redirect("dashboard:assembly", found.pk)
    shown = read_assembly_feedback(found, request.actor)
    context = {"assembly": found, "feedback": shown, "vote_form": form}
    return render_page(request, FEEDBACK_TEMPLATE, context)


def _vote(request: TeamRequest, subject: SubjectIn) -> VoteForm:
    """Store, change or take back the visitor's vote; return the form, with errors if it was refused.

    A blank one after a withdrawal, which the form's input would refuse.
    """
    form = VoteForm(request.POST)
    with as_404(), form.refusals("rating"):
        if form.is_withdrawal:
            withdraw_feedback(team=request.team, subject=subject, rater=request.actor)
            return VoteForm()
        if form.is_valid():
            give_feedback(team=request.team, subject=subject, opinion=form.value, rater=request.actor)
    return form


@page_for(Role.VIEWER, "GET")
def feedback(request: TeamRequest) -> HttpResponse:
    form = FeedbackForm(request.GET, team=request.team)
    form.is_valid()
    now = timezone.now()
    wanted, period = form.to_votes(now), form.period(now)
    series = read_series(wanted, period)
    earlier = period.before()
    before = read_series(replace(wanted, start=earlier.start, until=earlier.until), earlier)
    links = Links.of(form, wanted)
    data = VoteData(series, before, links.bucket)
    urls = [
        links.bucket(bucket) if point.votes else ""
        for bucket, point in zip(period.buckets, series.points, strict=True)
    ]
    context = {
        "form": form,
        "query": form.query(),
        "ranges": form.ranges(),
        "period": period,
        "total": series.total,
        "has_any": bool(series.total.votes) or Vote.objects.of(request.team).exists(),
        "tiles": build_vote_tiles(series.total, before.total),
        "panels": [chart.panel(period, series.points, urls) for chart in VOTE_CHARTS.values()],
        "charts": {slug: chart.build(data).to_plotly_json() for slug, chart in VOTE_CHARTS.items()},
        "groups": _groups(wanted, links, series.total.down),
        "records": record_rows(read_record_trends(wanted), links),
        "votes_url": links.to(),
    }
    return render_page(request, TEMPLATE, context, partials=("feedback",), query=form.query())


def _groups(wanted: VoteFilter, links: Links, downvotes: int) -> list[dict[str, Any]]:
    """Return the tables of groups, each with its heading."""
    return [
        {"slug": "stage", "title": "By stage", "rows": stage_rows(read_vote_groups(wanted, "stage"), links)},
        {
            "slug": "phase",
            "title": "By phase",
            "rows": named_rows(read_vote_groups(wanted, "phase"), links, "phase"),
        },
        {
            "slug": "reason",
            "title": "Downvotes by reason",
            "rows": reason_rows(read_vote_groups(wanted, "reason"), links, downvotes),
            "is_of_downvotes": True,
        },
        {
            "slug": "config",
            "title": "By config",
            "rows": config_rows(read_vote_groups(wanted, "config"), links),
        },
    ]


@page_for(Role.VIEWER, "GET")
def feedback_csv(request: TeamRequest, slug: str) -> StreamingHttpResponse:
    if slug not in VOTE_CHARTS:
        raise Http404("No such chart.")
    form = FeedbackForm(request.GET, team=request.team)
    form.refuse_errors()
    now = timezone.now()
    series = read_series(form.to_votes(now), form.period(now))
    columns, votes = VOTE_CHARTS[slug].cells(series.points), [point.votes for point in series.points]
    return stream_columns(f"contextopt-feedback-{slug}", columns, series.period, "votes", votes)


@page_for(Role.VIEWER, "GET")
def feedback_votes(request: TeamRequest) -> HttpResponse:
    """Show the votes behind a figure, newest first."""
    form = VotesForm(request.GET)
    context = {
        "form": form,
        "query": form.query(),
        "page": newest_page(form.select(request.team), "created_at", request.GET.get("before", "")),
        "spaces": space_choices(request.team, form["space"].value() or ""),
        "stages": STAGES,
    }
    return render_page(request, "dashboard/votes.html", context, partials=("votes",))
