"""Question sets: the team's, and one with its questions and last evaluation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

from django.contrib import messages
from django.db.models import Count
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.text import Truncator

from contextopt.people.models import Role
from contextopt.spaces.importing.files import read_file
from contextopt.spaces.importing.pipeline import ImportReport
from contextopt.spaces.models import Record
from dashboard.kit.filters import read_text
from dashboard.kit.permissions import (
    TeamRequest,
    as_404,
    as_message,
    get_space,
    page_for,
    require_role,
)
from dashboard.kit.responses import newest_page, render_page
from dashboard.kit.uploads import render_import
from dashboard.pages.questions.forms import MinimumForm, QuestionsUploadForm, RenameForm, SetForm
from memory.questions.calibration import begin_calibration, draft_proposed, read_calibration
from memory.questions.evaluationresults import MISSES
from memory.questions.evaluations import (
    last_evaluation,
    reaches,
    request_and_begin,
    settings_key,
)
from memory.questions.importing import import_questions
from memory.questions.inputs import EvaluationIn
from memory.questions.models import EvaluatedQuestion, Evaluation, Question, QuestionSet
from memory.questions.sets import create_set, delete_set, find_set, rename_set, set_minimum

LIST_TEMPLATE = "dashboard/question_sets.html"
TEMPLATE = "dashboard/question_set.html"
IMPORT_TEMPLATE = "dashboard/questions_import.html"
SETS_SHOWN = 200
EVALUATIONS_SHOWN = 20
TITLE_SHOWN = 60


@as_404()
def get_set(request: TeamRequest, set_id: int) -> QuestionSet:
    return find_set(request.team, set_id)


@page_for(Role.VIEWER, "GET")
def question_sets(request: TeamRequest) -> HttpResponse:
    return _render_list(request, SetForm(initial={"space": request.GET.get("space")}, team=request.team))


@page_for(Role.EDITOR, "POST")
def set_create(request: TeamRequest) -> HttpResponse:
    form = SetForm(request.POST, team=request.team)
    if form.is_valid():
        space = get_space(request, form.cleaned_data["space"])
        with form.refusals("name"):
            found = create_set(space=space, name=form.value.name, actor=request.actor)
            messages.success(request, f"Question set “{found.name}” created. Add questions to it.")
            return redirect("dashboard:question_set", found.pk)
    return _render_list(request, form, status=422)


def _render_list(request: TeamRequest, form: SetForm, status: int = 200) -> HttpResponse:
    rows = QuestionSet.objects.of(request.team).select_related("space")
    slug = read_text(request.GET, "space")
    if slug:
        rows = rows.filter(space=get_space(request, slug))
    sets = list(rows.annotate(size=Count("questions")).order_by("space__name", "name", "pk")[:SETS_SHOWN])
    last = Evaluation.objects.done().published().filter(question_set__in=sets).newest_by_set()
    context = {
        "sets": [(each, last.get(each.pk)) for each in sets],
        "form": form,
        "slug": slug,
    }
    return render_page(request, LIST_TEMPLATE, context, status=status)


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question with its result in the evaluation shown, if it was asked there."""

    question: Question
    result: EvaluatedQuestion | None
    titles: Mapping[int, str]

    @property
    def misses(self) -> list[str]:
        """The title of each missed record with the step that lost it."""
        missed = self.result.missed if self.result else []
        return [f"{self._title(each)}: {_reason(each)}" for each in missed]

    def _title(self, outcome: Mapping[str, Any]) -> str:
        title = Truncator(self.titles.get(outcome["id"], "")).chars(TITLE_SHOWN)
        return title or outcome["external_id"] or str(outcome["id"])


def _reason(outcome: Mapping[str, Any]) -> str:
    words = MISSES[outcome["outcome"]]
    if outcome["outcome"] != "dropped":
        return words
    return f"{words} at rank {outcome['rank']}, {str(outcome['reason']).replace('_', ' ')}"


@page_for(Role.VIEWER, "GET", get_set)
def question_set(request: TeamRequest, found: QuestionSet) -> HttpResponse:
    """Show a set; while an evaluation runs, its card polls."""
    return _render_set(request, found)


def _render_set(
    request: TeamRequest,
    found: QuestionSet,
    *,
    rename_form: RenameForm | None = None,
    minimum_form: MinimumForm | None = None,
    status: int = 200,
) -> HttpResponse:
    evaluations = list(found.evaluations.newest_first()[:EVALUATIONS_SHOWN])
    active = found.space.configs.active().get()
    key = settings_key(active.settings)
    last = last_evaluation(found, key)
    running = next((each for each in evaluations if each.is_running and each.settings_key == key), None)
    done = [each for each in evaluations if each.is_done]
    named = next((each for each in done if str(each.pk) == request.GET.get("evaluation", "")), None)
    shown = named or last or next((each for each in done if not each.is_draft), None)
    questions = found.questions.annotate(expects=Count("expected"))
    page = newest_page(questions, "created_at", request.GET.get("before", ""))
    context = {
        "set": found,
        "size": found.questions.count(),
        "evaluations": evaluations,
        "running": running,
        "shown": shown,
        "is_of_active": shown is not None and shown.settings_key == key,
        "calibration": read_calibration(found),
        "is_stale": last is None or last.created_at < found.changed_at,
        "active": active,
        "page": page,
        "rows": _rows(page.rows, shown),
        "rename_form": rename_form or RenameForm(initial={"name": found.name}),
        "minimum_form": minimum_form or MinimumForm(initial=MinimumForm.initial_of(found.min_recall)),
        "is_below": shown is not None
        and found.min_recall is not None
        and not reaches(shown.recall, found.min_recall),
    }
    return render_page(request, TEMPLATE, context, partials=("evaluation", "calibration"), status=status)


def _rows(questions: Sequence[Question], shown: Evaluation | None) -> list[QuestionRow]:
    results: dict[int, EvaluatedQuestion] = {}
    if shown is not None:
        rows = EvaluatedQuestion.objects.filter(evaluation=shown, question__in=[q.pk for q in questions])
        results = {row.question_id: row for row in rows}
    missed = [each["id"] for result in results.values() for each in result.missed]
    titles = dict(Record.objects.live().filter(pk__in=missed).values_list("pk", "title"))
    return [QuestionRow(question, results.get(question.pk), titles) for question in questions]


@page_for(Role.REVIEWER, "POST", get_set)
def set_evaluate(request: TeamRequest, found: QuestionSet) -> HttpResponse:
    """Evaluate the active settings: small sets at once, the rest by the worker."""
    return _evaluate(request, found, partial(request_and_begin, data=EvaluationIn()))


@page_for(Role.REVIEWER, "POST", get_set)
def set_calibrate(request: TeamRequest, found: QuestionSet) -> HttpResponse:
    """Have a worker compare a fixed budget with adaptive ones."""
    return _evaluate(request, found, begin_calibration)


def _evaluate(request: TeamRequest, found: QuestionSet, begin: Callable[..., object]) -> HttpResponse:
    with as_message(request, "Not evaluated."):
        begin(question_set=found, actor=request.actor)
    if request.htmx:
        return _render_set(request, found)
    return redirect("dashboard:question_set", found.pk)


@page_for(Role.EDITOR, "POST", get_set)
def set_draft(request: TeamRequest, found: QuestionSet) -> HttpResponse:
    """Save the proposed budget as a draft of the space's settings."""
    with as_message(request, "Not saved."):
        draft = draft_proposed(question_set=found, actor=request.actor)
        messages.success(request, f"Saved as draft v{draft.version}. Backtest or publish it here.")
        address = reverse("dashboard:space_settings", args=[found.space.slug])
        return redirect(f"{address}#version-{draft.version}")
    return redirect("dashboard:question_set", found.pk)


@page_for(Role.EDITOR, "POST", get_set)
def set_rename(request: TeamRequest, found: QuestionSet) -> HttpResponse:
    form = RenameForm(request.POST)
    if form.is_valid():
        with form.refusals("name"):
            rename_set(question_set=found, name=form.value.name, actor=request.actor)
            messages.success(request, "Renamed.")
            return redirect("dashboard:question_set", found.pk)
    return _render_set(request, found, rename_form=form, status=422)


@page_for(Role.ADMIN, "POST", get_set)
def set_guard(request: TeamRequest, found: QuestionSet) -> HttpResponse:
    """Set the recall that published settings must reach."""
    form = MinimumForm(request.POST)
    if not form.is_valid():
        return _render_set(request, found, minimum_form=form, status=422)
    set_minimum(question_set=found, min_recall=form.value.min_recall, actor=request.actor)
    messages.success(request, "Minimum saved.")
    return redirect("dashboard:question_set", found.pk)


@page_for(Role.EDITOR, "POST", get_set)
def set_delete(request: TeamRequest, found: QuestionSet) -> HttpResponse:
    if found.min_recall is not None:
        # It guards what is published, so deleting it takes the role that may change the minimum.
        require_role(request, Role.ADMIN)
    delete_set(question_set=found, actor=request.actor)
    messages.success(request, f"Question set “{found.name}” deleted.")
    return redirect("dashboard:question_sets")


@page_for(Role.EDITOR, "GET POST", get_set)
def set_import(request: TeamRequest, found: QuestionSet) -> HttpResponse:

    def import_file(stream: BinaryIO, name: str, report: ImportReport) -> dict[str, Any]:
        rows = read_file(stream, name, format="jsonl")
        ignored = import_questions(question_set=found, rows=rows, actor=request.actor, report=report)
        return {"ignored": sorted(ignored)}

    return render_import(request, IMPORT_TEMPLATE, {"set": found}, QuestionsUploadForm, import_file)
