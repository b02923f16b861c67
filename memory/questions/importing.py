"""Imports questions, one JSON object per line. Importing the same file twice changes nothing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import batched

from django.db import transaction
from pydantic import ValidationError

from contextopt.errors import InvalidInput
from contextopt.inputs import field_problems
from contextopt.locks import hold_space
from contextopt.spaces.importing.pipeline import ImportReport
from contextopt.spaces.importing.rows import RawRow, Rejection
from contextopt.spaces.records import Status
from memory.questions.inputs import QuestionIn
from memory.questions.models import Question, QuestionSet, QuestionSource
from memory.questions.sets import QUESTIONS_MAX, ExpectedRecords, store_expected, touch

BATCH = 500
FIELDS = frozenset(QuestionIn.model_fields)


@dataclass(frozen=True, slots=True)
class _Line:
    raw: RawRow
    data: QuestionIn


def import_questions(
    *, question_set: QuestionSet, rows: Iterable[RawRow | Rejection], actor: str, report: ImportReport
) -> set[str]:
    """Write the rows in batches and add their results to the report; return the names of ignored fields.

    A question is matched by its id; a line without one by its text.
    """
    ignored: set[str] = set()
    seen: dict[tuple[str, str], QuestionIn] = {}
    lines = (row if isinstance(row, Rejection) else _check(row, ignored, seen) for row in rows)
    for batch in batched(lines, BATCH):
        _write(question_set, batch, actor, report)
    return ignored


def _check(row: RawRow, ignored: set[str], seen: dict[tuple[str, str], QuestionIn]) -> _Line | Rejection:
    """Validate a line. Null means not given, and fields that questions do not have are ignored."""
    ignored |= {name[:100] for name in row.fields.keys() - FIELDS}
    fields = {name: value for name, value in row.fields.items() if name in FIELDS and value is not None}
    try:
        data = QuestionIn.model_validate(fields)
    except ValidationError as error:
        return _reject(row, InvalidInput(field_problems(error)))
    if seen.setdefault(_key(data.id, data.query), data) != data:
        return Rejection(row.line, "id", "is given twice with different contents; the first line counts")
    return _Line(row, data)


def _reject(row: RawRow, error: InvalidInput) -> Rejection:
    first, *rest = error.problems
    also = [f"{problem.field}: {problem.message}" for problem in rest[:5]]
    name = "expected" if first.message.startswith("give expected or") else first.field.split(".")[0]
    return Rejection(row.line, name, "; ".join([first.message, *also]), row.file)


@transaction.atomic
def _write(
    question_set: QuestionSet, batch: Sequence[_Line | Rejection], actor: str, report: ImportReport
) -> None:
    """Write the lines of a batch and report them in order, the rejected ones too."""
    hold_space(question_set.space_id)
    lines = [line for line in batch if isinstance(line, _Line)]
    named = {name for line in lines for name in line.data.expected}
    ids = {pk for line in lines for pk in line.data.record_ids}
    records = ExpectedRecords(question_set.space, named, ids)
    known = _known(question_set, lines)
    room = QUESTIONS_MAX - question_set.questions.count()
    changed = False
    for line in batch:
        if isinstance(line, Rejection):
            report.add(line)
            continue
        try:
            expected = records.resolve(line.data.expected, line.data.record_ids)
        except InvalidInput as error:
            report.add(_reject(line.raw, error))
            continue
        key = _key(line.data.id, line.data.query)
        question = known.get(key)
        if question is None and room <= 0:
            limit = f"the set already has {QUESTIONS_MAX:,} questions, the maximum"
            report.add(Rejection(line.raw.line, "row", limit, line.raw.file))
            continue
        status, known[key] = _store(question_set, question, line.data, expected, actor)
        room -= status == "created"
        changed = changed or status != "unchanged"
        report.add(status)
    if changed:
        touch(question_set)


def _key(external_id: str | None, text: str) -> tuple[str, str]:
    return (external_id, "") if external_id else ("", text)


def _known(question_set: QuestionSet, batch: Sequence[_Line]) -> dict[tuple[str, str], Question]:
    """Return the set's questions that the lines stand for, with their records."""
    rows = question_set.questions.prefetch_related("expected")
    ids = [line.data.id for line in batch if line.data.id]
    texts = [line.data.query for line in batch if not line.data.id]
    found = [*rows.filter(external_id__in=ids), *rows.filter(external_id="", text__in=texts)]
    return {_key(question.external_id, question.text): question for question in found}


def _store(
    question_set: QuestionSet, question: Question | None, data: QuestionIn, expected: list[int], actor: str
) -> tuple[Status, Question]:
    values = {"text": data.query, "answer": data.answer, "as_of": data.as_of}
    if question is None:
        question = Question.objects.create(
            question_set=question_set,
            external_id=data.id or "",
            source=QuestionSource.FILE,
            created_by=actor,
            **values,
        )
        store_expected(question.pk, expected)
        return "created", question
    is_same = all(getattr(question, name) == value for name, value in values.items())
    if is_same and {row.record_id for row in question.expected.all()} == set(expected):
        return "unchanged", question
    for name, value in values.items():
        setattr(question, name, value)
    question.save(update_fields=list(values))
    store_expected(question.pk, expected)
    return "updated", question
