"""Gives, changes and takes back votes on answers, one per person and answer."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Avg, Case, FloatField, Q, Value, When
from django.dispatch import Signal
from django.utils import timezone

from contextopt.assemblies.models import Assembly
from contextopt.chat.models import Author, Message
from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.gateway.models import GatewayRequest
from contextopt.limits import ACTOR_MAX
from contextopt.locks import hold_team, unless_deleted
from contextopt.people.models import Team
from contextopt.sql import find_one
from memory.feedback.inputs import OpinionIn, SubjectIn
from memory.feedback.models import ExternalMessage, Rating, Vote
from memory.strategies.credits import lock_strategies
from memory.strategies.models import StrategyUse
from memory.strategies.strategies import rate_use

log = structlog.get_logger(__name__)


def find_request(team_id: int, answer_id: str) -> GatewayRequest | None:
    """Return the newest prompt of the team whose answer has this id and that has a context."""
    rows = GatewayRequest.objects.filter(team_id=team_id, answer_id=answer_id, assembly__isnull=False)
    # The second condition lets the index be used.
    return rows.exclude(answer_id="").newest_first().first()


def find_kept(assembly: Assembly, external: ExternalMessage | None = None) -> GatewayRequest | None:
    """Return the prompt of an assembly whose texts were kept, if any: of that answer, or else the newest."""
    rows = GatewayRequest.objects.filter(assembly=assembly).exclude(question="", answer="")
    if external is not None:
        rows = rows.filter(answer_id=external.external_id)
    return rows.newest_first().first()


USES_MAX = 50


def rate_strategies(*, team_id: int, assembly_id: int, rater: str) -> None:
    """Rate the strategies that an answer was made with by the share of the votes that are up: on it, and on
    all other contexts of its task.

    Each use has one rating, which follows the votes and is taken back with the last of them. Call this in the
    vote's transaction, so that a stored vote always shows in the ratings.
    """
    with unless_deleted(), transaction.atomic():
        hold_team(team_id)
        uses = uses_of(team_id, assembly_id)
        # A transaction that waits here counts the votes afterwards, so the last to write sees all of them.
        lock_strategies({use.memory_id for use in uses})
        for use in uses:
            rate_use(use=use, rating=_share_up(team_id, use), actor=rater[:ACTOR_MAX])


def _share_up(team_id: int, use: StrategyUse) -> float | None:
    """Return the share of the votes that are up; None without votes."""
    contexts = Q(pk=use.assembly_id) | Q(task__isnull=False, task=use.task_id)
    votes = Vote.objects.filter(team_id=team_id, assembly__in=Assembly.objects.filter(contexts))
    is_up = Case(When(rating=Rating.UP, then=Value(1.0)), default=Value(0.0), output_field=FloatField())
    share: float | None = votes.aggregate(mean=Avg(is_up))["mean"]
    return share


def uses_of(team_id: int, assembly_id: int) -> list[StrategyUse]:
    """Return the uses of strategies in an assembly, or in the task that the assembly was made for."""
    task_id = Assembly.objects.filter(pk=assembly_id).values_list("task_id", flat=True).first()
    named = Q(assembly_id=assembly_id) | Q(task__isnull=False, task=task_id)
    return list(
        StrategyUse.objects.select_related("memory")
        .filter(named, memory__team_id=team_id)
        .order_by("memory_id", "id")[:USES_MAX]
    )


# Sent when a vote was stored, changed or taken back, after the commit. It carries `team_id`, `assembly_id`,
# `rater`, and the rating `before` and `after` ("up", "down", or "" for none).
feedback_changed = Signal()


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a vote: the assembly, and the answer made with it if known."""

    assembly: Assembly
    message: Message | None = None
    external_message: ExternalMessage | None = None

    @property
    def lookup(self) -> dict[str, Any]:
        """Return the fields that distinguish the subject's votes from all others."""
        if self.message or self.external_message:
            return {"message": self.message, "external_message": self.external_message}
        return {"assembly": self.assembly, "message": None, "external_message": None}


@transaction.atomic
def give_feedback(
    *, team: Team, subject: SubjectIn, opinion: OpinionIn, rater: str, answer: str = ""
) -> Vote:
    """Store the rater's vote on an answer, replacing their previous one, and rate its strategies by it.

    `answer` is the text of an answer made elsewhere; it is kept with the answer.

    `rater` includes the kind of person: `user:ann`, `key:laptop`, `rater:4711`.

    Raises:
        NotFound: the team has no such message or assembly.
        InvalidInput: the external message is not known yet, no assembly is named, and it is not the
            provider's id of an answer that came through the gateway.
        Conflict: the external message is known with another assembly.
    """
    # Deleting a team locks it before its votes, so lock it first here too.
    hold_team(team.pk)
    found = find_subject(team, subject, remember=True)
    if answer and found.external_message is not None:
        ExternalMessage.objects.filter(pk=found.external_message.pk).update(answer=answer)
    # Lock the rater's previous vote: listeners are told its rating.
    before = Vote.objects.select_for_update(no_key=True).filter(rater=rater, **found.lookup).first()
    assembly = found.assembly
    vote, _ = Vote.objects.update_or_create(
        rater=rater,
        **found.lookup,
        defaults={"rating": opinion.rating, "reason": opinion.reason, "comment": opinion.comment},
        create_defaults={
            "team": team,
            "assembly": assembly,
            "rating": opinion.rating,
            "reason": opinion.reason,
            "comment": opinion.comment,
            "space_id": assembly.space_id,
            "stage": assembly.stage,
            "config_version": assembly.config_version,
            "phase": assembly.phase,
            "created_at": timezone.now(),
        },
    )
    rate_strategies(team_id=team.pk, assembly_id=assembly.pk, rater=rater)
    _tell(vote, before=before.rating if before else "", after=vote.rating)
    return vote


@transaction.atomic
def withdraw_feedback(*, team: Team, subject: SubjectIn, rater: str) -> bool:
    """Take the rater's vote back and rate its strategies again; return whether there was a vote.

    Raises:
        NotFound: the team has no such message or assembly.
    """
    hold_team(team.pk)
    found = find_subject(team, subject, remember=False)
    vote = Vote.objects.select_for_update(no_key=True).filter(rater=rater, **found.lookup).first()
    if vote is None:
        return False
    _tell(vote, before=vote.rating, after="")
    vote.delete()
    rate_strategies(team_id=team.pk, assembly_id=vote.assembly_id, rater=rater)
    return True


def find_subject(team: Team, subject: SubjectIn, *, remember: bool) -> Subject:
    """Find the subject of a vote.

    If a conversation's answer was made with the assembly, the vote goes to that answer, so that a person
    votes once whichever of the two is shown. `remember` stores an external message that is not known yet.
    """
    if subject.message_id is not None:
        return _find_message(team, subject.message_id)
    if subject.external_message_id is not None:
        return _find_external(team, subject.external_message_id, subject.assembly_id, remember=remember)
    return _find_assembly(team, subject.assembly_id or 0)


def _find_message(team: Team, message_id: int) -> Subject:
    rows = Message.objects.of(team).filter(author=Author.ASSISTANT).select_related("assembly__config")
    message = find_one(rows.filter(pk=message_id), f"answer {message_id}")
    if message.assembly is None:
        raise Conflict("The answer's assembly is no longer stored.")
    return Subject(message.assembly, message=message)


def _find_external(team: Team, external_id: str, assembly_id: int | None, *, remember: bool) -> Subject:
    rows = ExternalMessage.objects.select_related("assembly__config")
    known = rows.filter(team=team, external_id=external_id).first()
    if known is None:
        if not remember:
            raise NotFound(f"There is no external message {external_id!r}.")
        if assembly_id is None:
            assembly_id = _find_gateway_assembly(team, external_id)
        assembly = _load_assembly(team, assembly_id)
        known, _ = rows.get_or_create(team=team, external_id=external_id, defaults={"assembly": assembly})
    if assembly_id is not None and known.assembly_id != assembly_id:
        raise Conflict(f"This external message already belongs to assembly {known.assembly_id}.")
    return Subject(known.assembly, external_message=known)


def _find_gateway_assembly(team: Team, answer_id: str) -> int:
    """Return the assembly of an answer that came through the gateway.

    Raises:
        InvalidInput: no answer with this id came through it.
    """
    request = find_request(team.pk, answer_id)
    if request is None or request.assembly_id is None:
        raise InvalidInput.of(
            "assembly_id",
            "is required the first time you vote on this external message, unless its answer came through "
            "the gateway",
        )
    return request.assembly_id


def _find_assembly(team: Team, assembly_id: int) -> Subject:
    assembly = _load_assembly(team, assembly_id)
    return Subject(assembly, message=assembly.messages.filter(author=Author.ASSISTANT).first())


def _load_assembly(team: Team, assembly_id: int) -> Assembly:
    rows = Assembly.objects.of(team).select_related("config").filter(pk=assembly_id)
    return find_one(rows, f"assembly {assembly_id}")


def _tell(vote: Vote, *, before: str, after: str) -> None:
    """Log the change, and notify listeners after the commit; none of them can undo it."""
    log.info("feedback_changed", assembly_id=vote.assembly_id, stage=vote.stage, before=before, after=after)
    tell = partial(
        feedback_changed.send_robust,
        sender=Vote,
        team_id=vote.team_id,
        assembly_id=vote.assembly_id,
        rater=vote.rater,
        before=before,
        after=after,
    )
    transaction.on_commit(tell, robust=True)
