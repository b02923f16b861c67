"""Endpoints for question sets: their questions, evaluations, and the guard on publishing."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal, TypedDict

from django.db.models import Count, QuerySet
from django.http import HttpResponse
from ninja import Path, Query, Router
from pydantic import Field

from contextopt.api.protocol.authentication import (
    ADMIN,
    READ,
    WRITE,
    ApiRequest,
    actor,
    find_space,
    is_reached,
    within_spaces,
)
from contextopt.api.protocol.outputs import PageQuery, created, list_page, page_of, reply
from contextopt.assemblies.models import Assembly
from contextopt.errors import Conflict
from contextopt.inputs import Id, Input, Slug, show
from contextopt.paging import by_moment, by_number
from contextopt.spaces.importing.pipeline import ImportReport
from contextopt.spaces.importing.rows import RawRow
from contextopt.sql import find_one
from memory.questions import sets
from memory.questions.evaluationresults import EvaluatedOut, result_json, result_rows
from memory.questions.evaluations import find_evaluation, request_and_begin
from memory.questions.growth import Proposal, add_proposal, propose_from_assembly, propose_from_review
from memory.questions.importing import import_questions
from memory.questions.inputs import EvaluationIn, MinimumIn, QuestionIn, QuestionPatch, QuestionSetIn
from memory.questions.models import Evaluation, Question, QuestionSet
from memory.review.reservations import find_item

router = Router(tags=["Question sets"])
BY_TIME = by_moment("question set", "created_at")
QUESTIONS_BY_TIME = by_moment("question", "created_at")
EVALUATIONS_BY_TIME = by_moment("evaluation", "created_at")
BY_QUESTION = by_number("evaluated question", "question_id")
BULK_MAX = 1_000

StateName = Literal["running", "done", "failed"]
SourceName = Literal["hand", "file", "verdict", "vote"]


class QuestionSetOut(TypedDict):
    """A named set of questions about one space."""

    id: int
    space: str
    name: str
    questions: int
    min_recall: float | None
    changed_at: datetime
    created_at: datetime


class QuestionOut(TypedDict):
    """A question, with the records that answer it."""

    id: int
    external_id: str
    query: str
    answer: str
    as_of: datetime | None
    record_ids: list[int]
    source: SourceName
    assembly_id: int | None
    created_at: datetime


class AddedQuestion(TypedDict):
    """The question, and whether it was added now."""

    question: QuestionOut
    question_set_id: int
    is_new: bool


class RejectedOut(TypedDict):
    line: int
    field: str
    error: str


class QuestionsWritten(TypedDict):
    """Counts of the questions by outcome; `line` counts them from 1."""

    read: int
    created: int
    updated: int
    unchanged: int
    rejected: list[RejectedOut]
    ignored: list[str]


class EvaluationOut(TypedDict):
    """All questions of a set asked under some settings. Figures are null until it is done."""

    id: int
    config_version: int | None
    context_tokens: int | None
    state: StateName
    error: str
    questions: int
    asked: int
    recall: float | None
    precision: float | None
    evidence_shown: float | None
    tokens_mean: float | None
    empty: int
    created_by: str
    created_at: datetime
    finished_at: datetime | None


class QuestionsIn(Input):
    """Questions in the form of a file's lines; a faulty one does not reject the others."""

    questions: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=BULK_MAX)]


IN_SET = "question_set__space_id"
in_own_sets = within_spaces(
    set_id=lambda key, pk: is_reached(key, QuestionSet.objects.filter(pk=pk)),
    question_id=lambda key, pk: is_reached(key, Question.objects.filter(pk=pk), IN_SET),
    evaluation_id=lambda key, pk: is_reached(key, Evaluation.objects.filter(pk=pk), IN_SET),
)


def _sets() -> QuerySet[QuestionSet]:
    return QuestionSet.objects.select_related("space").annotate(size=Count("questions"))


def set_json(found: QuestionSet) -> dict[str, Any]:
    return show(QuestionSetOut, found, space=found.space.slug, questions=getattr(found, "size"))  # noqa: B009 - annotated


def _load_set(set_id: int) -> dict[str, Any]:
    return set_json(_sets().get(pk=set_id))


def question_json(question: Question) -> dict[str, Any]:
    ids = sorted(row.record_id for row in question.expected.all())
    return show(QuestionOut, question, query=question.text, record_ids=ids)


evaluation_json = partial(show, EvaluationOut)


def _find_set(request: ApiRequest, set_id: int) -> QuestionSet:
    return sets.find_set(request.auth.team, set_id)


@router.get(
    "/spaces/{slug}/question-sets", auth=READ, response=page_of(QuestionSetOut), summary="List question sets"
)
@within_spaces()
def list_sets(request: ApiRequest, slug: Path[Slug], page: Query[PageQuery]) -> HttpResponse:
    """Returns the space's question sets, newest first."""
    return reply(list_page(_sets().filter(space=find_space(request, slug)), BY_TIME, page, set_json))


@router.post(
    "/spaces/{slug}/question-sets", auth=WRITE, response={201: QuestionSetOut},
    summary="Create a question set",
)  # fmt: skip
@within_spaces()
def create_set(request: ApiRequest, slug: Path[Slug], data: QuestionSetIn) -> HttpResponse:
    """Creates an empty question set."""
    found = sets.create_set(space=find_space(request, slug), name=data.name, actor=actor(request))
    return created(_load_set(found.pk), f"/api/v1/question-sets/{found.pk}")


@router.get("/question-sets/{set_id}", auth=READ, response=QuestionSetOut, summary="Read a question set")
@in_own_sets
def read_set(request: ApiRequest, set_id: Path[Id]) -> HttpResponse:
    """Returns a question set without its questions."""
    return reply(_load_set(_find_set(request, set_id).pk))


@router.patch("/question-sets/{set_id}", auth=WRITE, response=QuestionSetOut, summary="Rename a question set")
@in_own_sets
def rename_set(request: ApiRequest, set_id: Path[Id], data: QuestionSetIn) -> HttpResponse:
    """Renames a question set."""
    found = _find_set(request, set_id)
    sets.rename_set(question_set=found, name=data.name, actor=actor(request))
    return reply(_load_set(found.pk))


@router.delete("/question-sets/{set_id}", auth=ADMIN, response={204: None}, summary="Delete a question set")
def delete_set(request: ApiRequest, set_id: Path[Id]) -> HttpResponse:
    """Deletes a question set with its questions and evaluations, and with it the minimum it demands."""
    sets.delete_set(question_set=_find_set(request, set_id), actor=actor(request))
    return HttpResponse(status=204)


@router.put(
    "/question-sets/{set_id}/minimum", auth=ADMIN, response=QuestionSetOut, summary="Set a minimum recall"
)
def set_minimum(request: ApiRequest, set_id: Path[Id], data: MinimumIn) -> HttpResponse:
    """Sets the recall that settings of the space must reach to be published or activated; null removes it.

    Publishing below it is a conflict that names both figures.
    """
    found = _find_set(request, set_id)
    sets.set_minimum(question_set=found, min_recall=data.min_recall, actor=actor(request))
    return reply(_load_set(found.pk))


@router.get(
    "/question-sets/{set_id}/questions", auth=READ, response=page_of(QuestionOut), summary="List questions"
)
@in_own_sets
def list_questions(request: ApiRequest, set_id: Path[Id], page: Query[PageQuery]) -> HttpResponse:
    """Returns the set's questions, newest first."""
    rows = _find_set(request, set_id).questions.prefetch_related("expected")
    return reply(list_page(rows, QUESTIONS_BY_TIME, page, question_json))


@router.post(
    "/question-sets/{set_id}/questions", auth=WRITE, response={201: QuestionOut}, summary="Add a question"
)
@in_own_sets
def add_question(request: ApiRequest, set_id: Path[Id], data: QuestionIn) -> HttpResponse:
    """Adds a question with the records that answer it, by external ID or by ID."""
    found = _find_set(request, set_id)
    question = sets.add_question(question_set=found, data=data, actor=actor(request))
    return created(question_json(question), f"/api/v1/questions/{question.pk}")


@router.post(
    "/question-sets/{set_id}/questions/bulk", auth=WRITE, response=QuestionsWritten,
    summary="Write up to 1,000 questions",
)  # fmt: skip
@in_own_sets
def write_questions(request: ApiRequest, set_id: Path[Id], data: QuestionsIn) -> HttpResponse:
    """Creates or updates questions, matched by ID or else by query. Each has the fields of a line of
    `import_questions`. Faulty questions are reported and do not reject the others.
    """
    report = ImportReport()
    rows = [RawRow(number, fields, 0) for number, fields in enumerate(data.questions, start=1)]
    found = _find_set(request, set_id)
    ignored = import_questions(question_set=found, rows=rows, actor=actor(request), report=report)
    return reply({**report.to_json(), "ignored": sorted(ignored)})


@router.patch("/questions/{question_id}", auth=WRITE, response=QuestionOut, summary="Change a question")
@in_own_sets
def change_question(request: ApiRequest, question_id: Path[Id], changes: QuestionPatch) -> HttpResponse:
    """Changes a question. Fields you omit stay unchanged; `expected` and `record_ids` together replace its
    records.
    """
    question = sets.find_question(request.auth.team, question_id)
    return reply(question_json(sets.change_question(question=question, changes=changes)))


@router.delete("/questions/{question_id}", auth=WRITE, response={204: None}, summary="Delete a question")
@in_own_sets
def delete_question(request: ApiRequest, question_id: Path[Id]) -> HttpResponse:
    """Deletes a question."""
    sets.delete_question(question=sets.find_question(request.auth.team, question_id))
    return HttpResponse(status=204)


@router.get(
    "/question-sets/{set_id}/evaluations",
    auth=READ,
    response=page_of(EvaluationOut),
    summary="List evaluations",
)
@in_own_sets
def list_evaluations(request: ApiRequest, set_id: Path[Id], page: Query[PageQuery]) -> HttpResponse:
    """Returns the set's evaluations, newest first. The last hundred are kept."""
    rows = Evaluation.objects.filter(question_set=_find_set(request, set_id))
    return reply(list_page(rows, EVALUATIONS_BY_TIME, page, evaluation_json))


@router.post(
    "/question-sets/{set_id}/evaluations", auth=WRITE, response={201: EvaluationOut},
    summary="Evaluate a question set",
)  # fmt: skip
@in_own_sets
def evaluate(request: ApiRequest, set_id: Path[Id], data: EvaluationIn) -> HttpResponse:
    """Asks all questions under the active config, another version, or changes to the active one, and logs no
    prompts.

    A small set is done in the response. For a larger one, read the evaluation until its `state` is `done`.
    """
    evaluation = request_and_begin(question_set=_find_set(request, set_id), data=data, actor=actor(request))
    return created(evaluation_json(evaluation), f"/api/v1/evaluations/{evaluation.pk}")


@router.get("/evaluations/{evaluation_id}", auth=READ, response=EvaluationOut, summary="Read an evaluation")
@in_own_sets
def read_evaluation(request: ApiRequest, evaluation_id: Path[Id]) -> HttpResponse:
    """Returns an evaluation's figures, or how far it is."""
    return reply(evaluation_json(find_evaluation(request.auth.team, evaluation_id)))


@router.get(
    "/evaluations/{evaluation_id}/questions", auth=READ, response=page_of(EvaluatedOut),
    summary="List evaluated questions",
)  # fmt: skip
@in_own_sets
def list_results(request: ApiRequest, evaluation_id: Path[Id], page: Query[PageQuery]) -> HttpResponse:
    """Returns each question's result, the latest question first."""
    rows = result_rows(find_evaluation(request.auth.team, evaluation_id))
    return reply(list_page(rows, BY_QUESTION, page, result_json))


def _added(request: ApiRequest, proposal: Proposal | None) -> HttpResponse:
    if proposal is None:
        raise Conflict("This context was not asked a question.")
    question, is_new = add_proposal(proposal=proposal, actor=actor(request))
    answer = {
        "question": question_json(question), "question_set_id": question.question_set_id, "is_new": is_new,
    }  # fmt: skip
    return reply(answer)


@router.post(
    "/reviews/{review_id}/question", auth=WRITE, response=AddedQuestion, summary="Add a review's question"
)
def add_from_review(request: ApiRequest, review_id: Path[Id]) -> HttpResponse:
    """Adds the question of a reviewed answer, with the records that verdicts say were missing or cut, to the
    set "From reviews and votes". Repeating the request has no effect.
    """
    item = find_item(request.auth.team, review_id)
    return _added(request, propose_from_review(item, list(item.slots.judged())))


@router.post(
    "/assemblies/{assembly_id}/question", auth=WRITE, response=AddedQuestion,
    summary="Add an answer's question",
)  # fmt: skip
@within_spaces()
def add_from_assembly(request: ApiRequest, assembly_id: Path[Id]) -> HttpResponse:
    """Adds the question of a good answer, with the records that the answer probably used, to the set "From
    reviews and votes". Repeating the request has no effect.
    """
    rows = Assembly.objects.of(request.auth.team).select_related("space__team")
    found = find_one(rows.filter(pk=assembly_id), f"assembly {assembly_id}")
    return _added(request, propose_from_assembly(found))
