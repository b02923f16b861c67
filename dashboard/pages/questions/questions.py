"""One question: by hand, from a review or an upvoted answer, its records, and its deletion."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from contextopt.assemblies.models import Assembly
from contextopt.errors import Conflict
from contextopt.people.models import Role
from contextopt.spaces.models import Record, Space
from dashboard.kit.filters import read_text
from dashboard.kit.permissions import (
    TeamRequest,
    as_404,
    get_assembly,
    get_review,
    page_for,
    require_role,
)
from dashboard.kit.responses import render_page
from dashboard.pages.questions.forms import RECORDS_FOUND, QuestionForm, read_ticked
from dashboard.pages.questions.sets import get_set
from memory.questions.growth import (
    SET_NAME,
    Proposal,
    add_proposal,
    propose_from_assembly,
    propose_from_review,
)
from memory.questions.inputs import QuestionPatch
from memory.questions.models import Question, QuestionSet
from memory.questions.sets import add_question, change_question, delete_question, ensure_set, find_question
from memory.review.models import ReviewItem
from memory.review.reservations import visible_verdicts
from memory.search.inputs import SearchIn
from memory.search.search import find

TEMPLATE = "dashboard/question.html"
KEPT_OFFERED = 30
OVERTAKEN = "The question was changed in the meantime. Save again to replace those changes."


@as_404()
def get_question(request: TeamRequest, question_id: int) -> Question:
    return find_question(request.team, question_id)


@page_for(Role.EDITOR, "GET POST", get_set)
def question_new(request: TeamRequest, found: QuestionSet) -> HttpResponse:
    if request.method == "GET":
        return _render(request, found.space, QuestionForm(), {"set": found})
    form = QuestionForm(request.POST)
    if form.is_valid() and _add(request, found, form):
        messages.success(request, "Question added.")
        return redirect("dashboard:question_set", found.pk)
    return _render(request, found.space, form, {"set": found}, status=422)


def _add(
    request: TeamRequest, found: QuestionSet, form: QuestionForm, proposal: Proposal | None = None
) -> Question | None:
    """Add the question; return None, with errors in the form, if it was refused."""
    given: dict[str, Any] = {}
    if proposal is not None:
        given = {"source": proposal.source, "assembly_id": proposal.assembly.pk}
    with form.refusals():
        return add_question(question_set=found, data=form.value, actor=request.actor, **given)
    return None


@page_for(Role.VIEWER, "GET POST", get_question, to_post=Role.EDITOR)
def question(request: TeamRequest, found: Question) -> HttpResponse:
    """Show a question to change it."""
    context = {"set": found.question_set, "question": found}
    space = found.question_set.space
    initial = QuestionForm.initial_of(found)
    if request.method == "GET":
        return _render(request, space, QuestionForm(initial=initial), context)
    form = QuestionForm(request.POST, initial=initial)
    if form.is_overtaken:
        form.add_error(None, OVERTAKEN)
        return _render(request, space, form, context, status=409)
    if form.is_valid():
        changes = QuestionPatch(**form.value.model_dump(exclude={"id"}))
        with form.refusals():
            change_question(question=found, changes=changes)
            messages.success(request, "Question saved.")
            return redirect("dashboard:question_set", found.question_set_id)
    return _render(request, space, form, context, status=422)


@page_for(Role.VIEWER, "POST", get_question)
def question_delete(request: TeamRequest, found: Question) -> HttpResponse:
    require_role(request, Role.REVIEWER if found.assembly_id else Role.EDITOR)
    delete_question(question=found)
    messages.success(request, "Question deleted.")
    return redirect("dashboard:question_set", found.question_set_id)


@page_for(Role.VIEWER, "GET", get_set)
def question_records(request: TeamRequest, found: QuestionSet) -> HttpResponse:
    """Search the records that could answer a question; ticked ones stay."""
    return _render(request, found.space, QuestionForm(request.GET), {"set": found}, partial="#records")


@page_for(Role.REVIEWER, "POST", get_review)
def review_question(request: TeamRequest, item: ReviewItem) -> HttpResponse:
    """Add the answer's question with the records that the verdicts miss."""
    return add_proposal_of(request, item)


def add_proposal_of(request: TeamRequest, item: ReviewItem) -> HttpResponse:
    """Add a reviewed answer's question, and return to its review."""
    proposal = propose_from_review(item, visible_verdicts(item, request.actor))
    return _add_proposal(request, proposal, ("dashboard:review", item.pk))


@page_for(Role.REVIEWER, "GET POST", get_assembly)
def assembly_question(request: TeamRequest, found: Assembly) -> HttpResponse:
    """Add an assembly's question: by one click, or by a form in which its records are chosen."""
    proposal = propose_from_assembly(found)
    if request.method == "POST" and "one_click" in request.POST:
        return _add_proposal(request, proposal, ("dashboard:assembly", found.pk))
    if proposal is None:
        raise Http404("This assembly was not asked a question.")
    question_set, _ = ensure_set(space=proposal.space, name=SET_NAME, actor=request.actor)
    payload = found.stored_payload
    kept = payload.ledger["order"][:KEPT_OFFERED] if payload else []
    context = {"set": question_set, "assembly": found, "offered": read_ticked(proposal.space, kept)}
    if request.method == "GET":
        initial = {
            "query": proposal.text,
            "answer": proposal.answer,
            "as_of": proposal.assembly.as_of,
            "ticked": proposal.record_ids,
        }
        return _render(request, proposal.space, QuestionForm(initial=initial), context)
    form = QuestionForm(request.POST)
    if form.is_valid() and _add(request, question_set, form, proposal):
        messages.success(request, f"Added to “{question_set.name}”.")
        return redirect("dashboard:question_set", question_set.pk)
    return _render(request, proposal.space, form, context, status=422)


def _add_proposal(request: TeamRequest, proposal: Proposal | None, back: tuple[str, int]) -> HttpResponse:
    """Add the question, or let the visitor choose its records if none are known."""
    if request.htmx and not request.htmx.boosted:
        return _add_in_place(request, proposal)
    if proposal is None:
        messages.error(request, "Not added: this context was not asked a question.")
        return redirect(*back)
    try:
        found, is_new = add_proposal(proposal=proposal, actor=request.actor)
    except Conflict as error:
        messages.info(request, str(error))
        return redirect("dashboard:assembly_question", proposal.assembly.pk)
    name = found.question_set.name
    if is_new:
        undo = reverse("dashboard:question_delete", args=[found.pk])
        messages.success(request, f"Added to “{name}”.", extra_tags=undo)
    else:
        messages.info(request, f"Already in “{name}”.")
    return redirect(*back)


def _add_in_place(request: TeamRequest, proposal: Proposal | None) -> HttpResponse:
    """Answer the button below an upvoted answer by saying whether its question was added."""
    context: dict[str, Any] = {}
    if proposal is not None:
        try:
            added, is_new = add_proposal(proposal=proposal, actor=request.actor)
            context = {"added": added, "is_new": is_new}
        except Conflict:
            context = {"assembly": proposal.assembly}
    return render_page(request, "dashboard/_question_added.html", context)


def _render(
    request: TeamRequest,
    space: Space,
    form: QuestionForm,
    context: dict[str, Any],
    *,
    partial: str = "",
    status: int = 200,
) -> HttpResponse:
    ticked = read_ticked(space, form.ticked)
    words = read_text(request.POST if request.method == "POST" else request.GET, "words")
    offered = search_records(request, space, words) if words else context.get("offered", [])
    chosen = {record.pk for record in ticked}
    shown = {
        **context,
        "space": space,
        "form": form,
        "ticked": ticked,
        "words": words,
        "offered": [record for record in offered if record.pk not in chosen],
    }
    return render_page(request, f"{TEMPLATE}{partial}", shown, status=status)


def search_records(request: TeamRequest, space: Space, words: str) -> list[Record]:
    """Return the space's records that suit the words best, for a list to tick."""
    search = SearchIn(query=words[:1_000], space=space.slug, kinds=["record"], limit=RECORDS_FOUND)
    results = find(team=request.team, request=search, now=timezone.now()).results
    found = {record.pk: record for record in read_ticked(space, [each["id"] for each in results])}
    return [found[each["id"]] for each in results if each["id"] in found]
