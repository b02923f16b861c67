"""Creates, changes and deletes question sets and their questions."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from contextopt.errors import Conflict, FieldProblem, InvalidInput
from contextopt.locks import hold_space
from contextopt.people.audit import note_event
from contextopt.people.models import Team
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import split_identity
from contextopt.sql import find_one
from memory.questions.inputs import QuestionIn, QuestionPatch
from memory.questions.models import ExpectedRecord, Question, QuestionSet, QuestionSource

SHOWN = 3


class ExpectedRecords:
    """The records of a space that some questions name, read in two queries."""

    def __init__(self, space: Space, names: Collection[str], ids: Collection[int]) -> None:
        rows = Record.objects.filter(space=space, purged_at=None)
        wanted = {part for name in names for part in _possible_ids(name)}
        found = rows.filter(external_id__in=wanted).exclude(external_id="")
        self._by_name: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for external_id, source, pk in found.values_list("external_id", "source", "pk"):
            self._by_name[external_id].append((source, pk))
        known = rows.filter(pk__in=list(ids)) if ids else Record.objects.none()
        self._ids = set(known.values_list("pk", flat=True))

    def resolve(self, names: Sequence[str], ids: Sequence[int]) -> list[int]:
        """Return the ids of the named records, each once.

        Raises:
            InvalidInput: a name stands for no record, or for several.
        """
        found, problems = list(ids), []
        for name in names:
            matches = self._find(name)
            if len(matches) == 1:
                found += matches
            else:
                problems.append(_explain(name, len(matches)))
        faults = [FieldProblem("expected", _list(problems))] if problems else []
        if strange := sorted(set(ids) - self._ids):
            faults.append(FieldProblem("record_ids", f"record {strange[0]} is not in this space"))
        if faults:
            raise InvalidInput(faults)
        return list(dict.fromkeys(found))

    def _find(self, name: str) -> list[int]:
        """Return the records with this external id, or else with this source and external id."""
        if exact := [pk for _, pk in self._by_name.get(name, ())]:
            return exact
        return [
            pk
            for source, external_id in split_identity(name)
            for known, pk in self._by_name.get(external_id, ())
            if known == source
        ]


def _possible_ids(name: str) -> Iterator[str]:
    yield name
    for _, external_id in split_identity(name):
        yield external_id


def _explain(name: str, matches: int) -> str:
    if matches:
        return f"{name[:80]!r} names {matches} records; write SOURCE:EXTERNAL_ID"
    return f"no record of this space has the external ID {name[:80]!r}"


def _list(problems: list[str]) -> str:
    more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    return "; ".join(problems[:SHOWN]) + more


def store_expected(question_id: int, record_ids: Iterable[int]) -> None:
    """Make these the records that a question expects."""
    wanted = set(record_ids)
    rows = ExpectedRecord.objects.filter(question_id=question_id)
    rows.exclude(record_id__in=wanted).delete()
    known = set(rows.values_list("record_id", flat=True))
    ExpectedRecord.objects.bulk_create(
        ExpectedRecord(question_id=question_id, record_id=pk) for pk in sorted(wanted - known)
    )


SETS_MAX = 100
QUESTIONS_MAX = 10_000
# Names in an error.
NAMES_SHOWN = 10


def find_set(team: Team, set_id: int) -> QuestionSet:
    """Return the team's question set with its space.

    Raises:
        NotFound: the team has no such set.
    """
    rows = QuestionSet.objects.of(team).select_related("space__team")
    return find_one(rows.filter(pk=set_id), f"question set {set_id}")


def find_named_set(space: Space, name: str | None) -> QuestionSet:
    """Return the set of this name, or without a name the space's only one.

    Raises:
        NotFound: the space has no such set.
        InvalidInput: it has several, and none was named.
    """
    rows = QuestionSet.objects.in_space(space).select_related("space__team")
    if name is not None:
        return find_one(rows.filter(name=name), f"question set {name!r} in space {space.slug!r}")
    names = list(rows.order_by("name").values_list("name", flat=True)[: NAMES_SHOWN + 1])
    if len(names) > 1:
        known = ", ".join(map(repr, names[:NAMES_SHOWN])) + (" and more" if len(names) > NAMES_SHOWN else "")
        raise InvalidInput.of("questions", f"the space has several question sets; name one of {known}")
    return find_one(rows, f"question set in space {space.slug!r}")


def find_question(team: Team, question_id: int) -> Question:
    """Return the team's question with its set and space.

    Raises:
        NotFound: the team has no such question.
    """
    rows = Question.objects.filter(question_set__space__team=team).select_related("question_set__space__team")
    return find_one(rows.filter(pk=question_id), f"question {question_id}")


def create_set(*, space: Space, name: str, actor: str) -> QuestionSet:
    """Add an empty set to the space.

    Raises:
        Conflict: the space has a set of this name, or as many as it may have.
    """
    question_set, is_new = ensure_set(space=space, name=name, actor=actor)
    if not is_new:
        raise Conflict(f"This space already has a question set named {name!r}.")
    return question_set


@transaction.atomic
def ensure_set(*, space: Space, name: str, actor: str) -> tuple[QuestionSet, bool]:
    """Return the space's set of this name, and whether it was made now.

    Raises:
        Conflict: the space has as many sets as it may have.
    """
    hold_space(space.pk)
    rows = QuestionSet.objects.filter(space=space)
    if found := rows.filter(name=name).first():
        return found, False
    if rows.count() >= SETS_MAX:
        raise Conflict(f"A space may have at most {SETS_MAX} question sets.")
    question_set, is_new = rows.get_or_create(name=name, defaults={"space": space, "created_by": actor})
    if is_new:
        _note(question_set, actor, "questions.created")
    return question_set, is_new


@transaction.atomic
def rename_set(*, question_set: QuestionSet, name: str, actor: str) -> QuestionSet:
    """Rename the set.

    Raises:
        Conflict: the space has another set of this name.
    """
    hold_space(question_set.space_id)
    before = question_set.name
    others = QuestionSet.objects.filter(space=question_set.space_id, name=name).exclude(pk=question_set.pk)
    if others.exists():
        raise Conflict(f"This space already has a question set named {name!r}.")
    question_set.name = name
    question_set.save(update_fields=["name"])
    if before != name:
        _note(question_set, actor, "questions.renamed", before={"name": before}, after={"name": name})
    return question_set


@transaction.atomic
def set_minimum(*, question_set: QuestionSet, min_recall: float | None, actor: str) -> QuestionSet:
    """Set the minimum recall of settings to be published; None removes it."""
    hold_space(question_set.space_id)
    before, question_set.min_recall = question_set.min_recall, min_recall
    question_set.save(update_fields=["min_recall"])
    if before != min_recall:
        _note(
            question_set, actor, "questions.minimum",
            before={"min_recall": before}, after={"min_recall": min_recall},
        )  # fmt: skip
    return question_set


@transaction.atomic
def delete_set(*, question_set: QuestionSet, actor: str) -> None:
    """Delete the set with its questions and evaluations."""
    hold_space(question_set.space_id)
    if QuestionSet.objects.filter(pk=question_set.pk).delete()[0]:
        _note(question_set, actor, "questions.deleted")


@transaction.atomic
def add_question(
    *,
    question_set: QuestionSet,
    data: QuestionIn,
    actor: str,
    source: QuestionSource = QuestionSource.HAND,
    assembly_id: int | None = None,
) -> Question:
    """Add a question to the set.

    Raises:
        InvalidInput: a record that it names is not in the space.
        Conflict: the set has a question with this id, or as many questions as it may have.
    """
    hold_space(question_set.space_id)
    if question_set.questions.count() >= QUESTIONS_MAX:
        raise Conflict(f"A question set may have at most {QUESTIONS_MAX:,} questions.")
    expected = _resolve(question_set, data.expected, data.record_ids)
    if data.id is not None and question_set.questions.filter(external_id=data.id).exists():
        raise Conflict(f"This set already has a question with the ID {data.id!r}.")
    question = Question.objects.create(
        question_set=question_set,
        external_id=data.id or "",
        text=data.query,
        answer=data.answer,
        as_of=data.as_of,
        source=source,
        assembly_id=assembly_id,
        created_by=actor,
    )
    store_expected(question.pk, expected)
    touch(question_set)
    return question


@transaction.atomic
def change_question(*, question: Question, changes: QuestionPatch) -> Question:
    """Change the given fields.

    Raises:
        InvalidInput: a record that it names is not in the space, or no record is left.
    """
    question_set = question.question_set
    hold_space(question_set.space_id)
    given = changes.model_dump(exclude_unset=True)
    fields = {"query": "text", "answer": "answer", "as_of": "as_of"}
    for name, field in fields.items():
        if name in given:
            setattr(question, field, given[name])
    question.save(update_fields=[field for name, field in fields.items() if name in given])
    if given.keys() & {"expected", "record_ids"}:
        expected = _resolve(question_set, changes.expected, changes.record_ids)
        if not expected:
            raise InvalidInput.of("expected", "must name at least one record")
        store_expected(question.pk, expected)
    touch(question_set)
    return question


@transaction.atomic
def delete_question(*, question: Question) -> None:
    hold_space(question.question_set.space_id)
    Question.objects.filter(pk=question.pk).delete()
    touch(question.question_set)


def touch(question_set: QuestionSet) -> None:
    """Note that a question of the set changed: evaluations from before no longer describe it."""
    question_set.changed_at = timezone.now()
    QuestionSet.objects.filter(pk=question_set.pk).update(changed_at=question_set.changed_at)


def _resolve(question_set: QuestionSet, names: Sequence[str], ids: Sequence[int]) -> list[int]:
    return ExpectedRecords(question_set.space, names, ids).resolve(names, ids)


def _note(question_set: QuestionSet, actor: str, action: str, **values: Any) -> None:
    space = question_set.space
    subject = f"{space.slug}: {question_set.name}"
    note_event(team_id=space.team_id, actor=actor, action=action, subject=subject, **values)
