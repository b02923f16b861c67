"""The records known to matter for logged contexts: from upvoted answers, verdicts and question sets."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from contextopt.models import Assembly, Space
from memory.feedback.models import Rating, Vote
from memory.feedback.use import answer_text, read_use
from memory.questions.growth import WANTED
from memory.questions.models import ExpectedRecord
from memory.review.models import ItemState, ReviewSlot

type Evidence = Mapping[int, frozenset[int]]


def read_evidence(space: Space, assemblies: Sequence[Assembly]) -> Evidence:
    """Return the ids of records that matter, by assembly. The assemblies come with their payloads."""
    found: dict[int, set[int]] = defaultdict(set)
    _add_upvoted(assemblies, found)
    _add_verdicts(assemblies, found)
    _add_questions(space, assemblies, found)
    return {assembly_id: frozenset(ids) for assembly_id, ids in found.items()}


def _add_upvoted(assemblies: Sequence[Assembly], found: dict[int, set[int]]) -> None:
    """Add the records that upvoted answers probably used, unless someone downvoted the answer as well."""
    votes = Vote.objects.filter(assembly__in=assemblies).values_list("assembly_id", "rating")
    ratings: dict[int, set[str]] = defaultdict(set)
    for assembly_id, rating in votes:
        ratings[assembly_id].add(rating)
    for assembly in assemblies:
        if ratings.get(assembly.pk) == {Rating.UP} and assembly.stored_payload:
            used = read_use(assembly.payload, answer_text(assembly))
            found[assembly.pk].update(record_id for record_id, use in used.items() if use.is_used)


def _add_verdicts(assemblies: Sequence[Assembly], found: dict[int, set[int]]) -> None:
    """Add the records that reviewers missed, once a review is complete."""
    slots = ReviewSlot.objects.filter(
        item__assembly__in=assemblies, item__state=ItemState.DONE, verdict__in=WANTED
    )
    for assembly_id, record_ids in slots.values_list("item__assembly_id", "record_ids"):
        found[assembly_id].update(record_ids)


def _add_questions(space: Space, assemblies: Sequence[Assembly], found: dict[int, set[int]]) -> None:
    """Add the records expected by questions with the same words as the request."""
    asked: dict[str, list[int]] = defaultdict(list)
    for assembly in assemblies:
        payload = assembly.stored_payload
        if payload is not None and (text := str(payload.request.get("query") or "").strip()):
            asked[text].append(assembly.pk)
    expected = ExpectedRecord.objects.filter(
        question__question_set__space=space, question__text__in=list(asked)
    )
    for text, record_id in expected.values_list("question__text", "record_id"):
        for assembly_id in asked[text]:
            found[assembly_id].add(record_id)
