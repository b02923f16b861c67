"""Review: the queue, and one answer beside the context that produced it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse, QueryDict, StreamingHttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django_htmx.http import push_url

from contextopt.errors import Conflict, InvalidInput
from contextopt.people.models import Role
from dashboard.kit.filters import read_text, space_choices
from dashboard.kit.permissions import TeamRequest, as_message, get_review, page_for
from dashboard.kit.responses import STOP_POLLING, newest_page, render_page, stream_csv, stream_jsonl
from dashboard.pages.answers.filters import QueueForm
from dashboard.pages.answers.forms import RulesForm, VerdictForm
from dashboard.pages.answers.reviewitems import (
    SKIPPED,
    ReviewedAnswer,
    own_slot,
    read_answer,
    read_holders,
    remember,
    skip,
    skipped_ids,
    suggest_records,
    suggest_settings,
)
from dashboard.pages.questions.forms import read_ticked
from dashboard.pages.questions.questions import add_proposal_of, search_records
from memory.review.models import ItemState, ReviewItem, Verdict
from memory.review.queue import rules_of, set_rules
from memory.review.reservations import (
    assign_item,
    give_verdict,
    release_item,
    reserve_item,
    reserve_next,
    visible_verdicts,
    withdraw_verdict,
)
from memory.review.verdicts import (
    HEADER,
    csv_rows,
    export_verdicts,
    read_agreement,
    read_config_verdicts,
    read_progress,
    read_record_verdicts,
)

TEMPLATE = "dashboard/reviews.html"
ITEM_TEMPLATE = "dashboard/review.html"
MEMBERS_SHOWN = 200


@page_for(Role.VIEWER, "GET")
def reviews(request: TeamRequest) -> HttpResponse:
    """Show progress to every member, and the queue and its lessons to reviewers."""
    return _render_queue(request)


def _render_queue(
    request: TeamRequest, rules_form: RulesForm | None = None, status: int = 200
) -> HttpResponse:
    rules = rules_of(request.team.pk)
    context: dict[str, Any] = {
        "progress": read_progress(request.team, _midnight()),
        "agreement": read_agreement(request.team),
        "rules": rules,
        "skipped": len(skipped_ids(request)),
    }
    if request.membership.allows(Role.REVIEWER):
        form = QueueForm(request.GET)
        rows = form.select(request.team, request.actor, request.user.pk)
        context |= {
            "form": form,
            "query": form.query(),
            "page": newest_page(rows, "created_at", request.GET.get("before", "")),
            "spaces": space_choices(request.team, form["space"].value() or ""),
            "configs": suggest_settings(request.team, read_config_verdicts(request.team)),
            "records": suggest_records(read_record_verdicts(request.team)),
        }
    if request.membership.allows(Role.ADMIN):
        context["rules_form"] = rules_form or RulesForm.of(rules)
    return render_page(request, TEMPLATE, context, partials=("queue",), status=status)


def _midnight() -> datetime:
    return timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)


@page_for(Role.ADMIN, "POST")
def review_rules(request: TeamRequest) -> HttpResponse:
    form = RulesForm(request.POST)
    if not form.is_valid():
        return _render_queue(request, form, status=422)
    set_rules(team=request.team, changes=form.value, actor=request.actor)
    messages.success(request, "Review rules saved.")
    return redirect("dashboard:reviews")


@page_for(Role.REVIEWER, "POST")
def review_next(request: TeamRequest) -> HttpResponse:
    """Reserve the next item and go there; `again` starts over with the skipped ones."""
    if request.POST.get("again"):
        request.session[SKIPPED] = []
    return _to_next(request)


def _to_next(request: TeamRequest) -> HttpResponse:
    slot = reserve_next(team=request.team, reviewer=request.actor, skip=skipped_ids(request))
    if slot is None:
        return redirect("dashboard:reviews")
    address = reverse("dashboard:review", args=[slot.item_id])
    if request.htmx.boosted:
        # The next item comes at once, without another round trip.
        return push_url(_render_item(request, get_review(request, slot.item_id)), address)
    return redirect(address)


@page_for(Role.REVIEWER, "GET", get_review)
def review(request: TeamRequest, item: ReviewItem) -> HttpResponse:
    withdrawn = request.session.pop(_withdrawn(item), None)
    return _render_item(request, item, VerdictForm(QueryDict(withdrawn)) if withdrawn else None)


def _withdrawn(item: ReviewItem) -> str:
    """Return the session's key of the item's withdrawn verdict, which its page shows again."""
    return f"withdrawn:{item.pk}"


def _render_item(
    request: TeamRequest, item: ReviewItem, form: VerdictForm | None = None, status: int = 200
) -> HttpResponse:
    slot = own_slot(item, request.actor)
    form = form or VerdictForm(initial={"verdict": slot.verdict, "note": slot.note} if slot else {})
    given = visible_verdicts(item, request.actor)
    related = form.ticked if form.is_bound else slot.record_ids if slot else []
    is_open = item.state == ItemState.OPEN
    looked_at = read_answer(item, related)
    context = {
        **_further_records(request, item, looked_at, related),
        "item": item,
        "assembly": item.assembly,
        "slot": slot,
        "form": form,
        "chosen": form["verdict"].value(),
        "verdicts": list(enumerate(Verdict.choices, start=1)),
        "looked_at": looked_at,
        "others": [row for row in given if row.reviewer != request.actor],
        "is_hidden": item.verdicts > len(given),
        "wanted": item.slots.count(),
        "progress": read_progress(request.team, _midnight()),
        "previous": remember(request, item.pk),
        "members": _reviewers(request),
        "is_open": is_open,
        "can_add_question": bool(given) and item.space is not None,
        "holders": read_holders(item, request.actor, timezone.now()) if is_open and not slot else [],
    }
    return render_page(request, ITEM_TEMPLATE, context, partials=("reserved",), status=status)


def _further_records(
    request: TeamRequest, item: ReviewItem, looked_at: ReviewedAnswer, related: Sequence[int]
) -> dict[str, Any]:
    """Return the space's records that the table of the context lacks: the ticked ones, and those searched."""
    if item.space is None:
        return {}
    in_table = {given.row.id for given in looked_at.rows}
    ticked = read_ticked(item.space, [pk for pk in related if pk not in in_table])
    words = read_text(request.GET, "words")
    found = search_records(request, item.space, words) if words else []
    shown = in_table.union(record.pk for record in ticked)
    return {"words": words, "ticked": ticked, "offered": [each for each in found if each.pk not in shown]}


@page_for(Role.REVIEWER, "GET", get_review)
def review_records(request: TeamRequest, item: ReviewItem) -> HttpResponse:
    """Search the records that a context should have had; ticked ones stay."""
    context = _further_records(request, item, read_answer(item, ()), VerdictForm(request.GET).ticked)
    return render_page(request, f"{ITEM_TEMPLATE}#further", {"item": item, **context})


def _reviewers(request: TeamRequest) -> list[str]:
    """Return the members to whom an admin may assign an item."""
    if not request.membership.allows(Role.ADMIN):
        return []
    rows = request.team.memberships.exclude(role=Role.VIEWER).order_by("user__username")
    return list(rows.values_list("user__username", flat=True)[:MEMBERS_SHOWN])


@page_for(Role.REVIEWER, "POST", get_review)
def review_verdict(request: TeamRequest, item: ReviewItem) -> HttpResponse:
    """Store the verdict and go on to the next item."""
    form = VerdictForm(request.POST)
    if not form.is_valid():
        return _render_item(request, item, form, status=422)
    try:
        given = give_verdict(item=item, reviewer=request.actor, data=form.value)
    except Conflict as error:
        form.add_error(None, str(error))
        return _render_item(request, get_review(request, item.pk), form, status=409)
    except InvalidInput as error:
        form.add_problems(error.problems)
        return _render_item(request, item, form, status=422)
    if "add_question" in request.POST:
        return add_proposal_of(request, item)
    undo = reverse("dashboard:review_undo", args=[item.pk])
    messages.success(request, f"Saved: {given.get_verdict_display().lower()}.", extra_tags=undo)
    return _to_next(request)


@page_for(Role.REVIEWER, "POST", get_review)
def review_skip(request: TeamRequest, item: ReviewItem) -> HttpResponse:
    """Leave the item to others and go on to the next."""
    release_item(item=item, reviewer=request.actor)
    skip(request, item.pk)
    return _to_next(request)


@page_for(Role.REVIEWER, "POST", get_review)
def review_take(request: TeamRequest, item: ReviewItem) -> HttpResponse:
    """Reserve this item."""
    with as_message(request):
        reserve_item(item=item, reviewer=request.actor)
    return redirect("dashboard:review", item.pk)


@page_for(Role.REVIEWER, "POST", get_review)
def review_renew(request: TeamRequest, item: ReviewItem) -> HttpResponse:
    """Keep the reservation while the page is open; once it is lost, say so and stop polling."""
    slot, status = None, 200
    try:
        slot = reserve_item(item=item, reviewer=request.actor)
    except Conflict:
        status = STOP_POLLING
    if request.htmx.target != "reserved":
        return redirect("dashboard:review", item.pk)
    context = {"item": item, "slot": slot, "is_lost": slot is None}
    return render_page(request, ITEM_TEMPLATE, context, partials=("reserved",), status=status)


@page_for(Role.REVIEWER, "POST", get_review)
def review_undo(request: TeamRequest, item: ReviewItem) -> HttpResponse:
    slot = own_slot(item, request.actor)
    with as_message(request):
        withdraw_verdict(item=item, reviewer=request.actor)
        assert slot
        request.session[_withdrawn(item)] = urlencode(
            {"verdict": slot.verdict, "note": slot.note, "record_ids": slot.record_ids}, doseq=True
        )
        messages.success(request, "Verdict withdrawn.")
    return redirect("dashboard:review", item.pk)


@page_for(Role.ADMIN, "POST", get_review)
def review_assign(request: TeamRequest, item: ReviewItem) -> HttpResponse:
    username = request.POST.get("username", "").strip()[:150]
    try:
        assign_item(item=item, username=username or None, actor=request.actor)
    except InvalidInput as error:
        messages.error(request, "; ".join(f"{username} {problem.message}" for problem in error.problems))
    else:
        messages.success(request, f"Assigned to {username}." if username else "Anyone can review it now.")
    return redirect("dashboard:review", item.pk)


@page_for(Role.REVIEWER, "GET")
def reviews_csv(request: TeamRequest) -> StreamingHttpResponse:
    return stream_csv("contextopt-verdicts", HEADER, csv_rows(export_verdicts(request.team, request.actor)))


@page_for(Role.REVIEWER, "GET")
def reviews_jsonl(request: TeamRequest) -> StreamingHttpResponse:
    return stream_jsonl("contextopt-verdicts", export_verdicts(request.team, request.actor))
