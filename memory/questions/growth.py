"""Turns a reviewer's verdict or an upvoted answer into a question, so that a set grows from use."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.errors import Conflict
from contextopt.inputs import QUERY_MAX
from contextopt.spaces.models import Record, Space
from memory.feedback.models import ANSWER_MAX
from memory.feedback.recordusage import answer_text, read_use
from memory.questions.inputs import EXPECTED_MAX, QuestionIn
from memory.questions.models import Question, QuestionSource
from memory.questions.sets import add_question, ensure_set
from memory.review.models import ReviewItem, ReviewSlot, Verdict

SET_NAME = "From reviews and votes"
# Verdicts whose related records should have been in the context.
WANTED = (Verdict.CONTEXT_MISSING, Verdict.CONTEXT_CUT)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A question that an assembly was asked, with the records that probably answer it."""

    space: Space
    assembly: Assembly
    text: str
    answer: str
    record_ids: tuple[int, ...]
    source: QuestionSource


def propose_from_review(item: ReviewItem, slots: Sequence[ReviewSlot]) -> Proposal | None:
    """Return the question of an item with the records that its verdicts miss; None without a question."""
    assembly = Assembly.objects.select_related("space__team").get(pk=item.assembly_id)
    missed = [pk for slot in slots if slot.verdict in WANTED for pk in slot.record_ids]
    payload = AssemblyPayload.objects.filter(assembly=assembly.pk).first()
    return _propose(assembly, payload, QuestionSource.VERDICT, "", missed)


def propose_from_assembly(assembly: Assembly) -> Proposal | None:
    """Return the question of an assembly with the records that its answer used; None without a question."""
    payload = AssemblyPayload.objects.filter(assembly=assembly.pk).first()
    answer = answer_text(assembly)
    used = read_use(payload, answer) if payload else {}
    record_ids = [record_id for record_id, use in used.items() if use.is_used]
    return _propose(assembly, payload, QuestionSource.VOTE, answer, record_ids)


def _propose(
    assembly: Assembly,
    payload: AssemblyPayload | None,
    source: QuestionSource,
    answer: str,
    record_ids: Sequence[int],
) -> Proposal | None:
    text = str((payload.request if payload else {}).get("query") or "").strip()
    if not text or assembly.space is None:
        return None
    known = Record.objects.filter(space=assembly.space, pk__in=record_ids, purged_at=None)
    ids = tuple(sorted(known.values_list("pk", flat=True)))[:EXPECTED_MAX]
    return Proposal(assembly.space, assembly, text[:QUERY_MAX], answer[:ANSWER_MAX], ids, source)


@transaction.atomic
def add_proposal(*, proposal: Proposal, actor: str) -> tuple[Question, bool]:
    """Add the question to the space's set of such questions; return it, and whether it is new.

    Raises:
        Conflict: no record is known that answers it.
    """
    question_set, _ = ensure_set(space=proposal.space, name=SET_NAME, actor=actor)
    known = question_set.questions.filter(assembly=proposal.assembly).first()
    if known is not None:
        return known, False
    if not proposal.record_ids:
        raise Conflict("No known record answers this question. Choose the records yourself.")
    data = QuestionIn(
        query=proposal.text,
        answer=proposal.answer,
        as_of=proposal.assembly.as_of,
        record_ids=list(proposal.record_ids),
    )
    question = add_question(
        question_set=question_set, data=data, actor=actor, source=proposal.source,
        assembly_id=proposal.assembly.pk,
    )  # fmt: skip
    return question, True
