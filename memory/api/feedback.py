"""Endpoints for feedback on answers, from conversations or from other applications."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, TypedDict, cast

from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils import timezone
from ninja import Query, Router
from pydantic import Field

from contextopt.api.protocol.authentication import (
    NEEDS_SPACE,
    READ,
    WRITE,
    ApiRequest,
    actor,
    in_reach,
    is_reached,
    within_spaces,
)
from contextopt.api.protocol.outputs import PageQuery, list_page, page_of, reply
from contextopt.engine.agents.phases import MAX_PHASE_CHARS
from contextopt.errors import InvalidInput
from contextopt.inputs import INT_MAX, Id, Input, Moment, Slug, Text, show
from contextopt.limits import DATE_MIN
from contextopt.paging import by_moment
from contextopt.people.models import ApiKey
from memory.feedback import votes
from memory.feedback.inputs import FeedbackBack, FeedbackIn, Rater
from memory.feedback.models import ExternalMessage, Vote
from memory.feedback.trends import Group, RecordTrend, VoteFilter, read_record_trends, read_vote_groups
from memory.feedback.votes import find_request

router = Router(tags=["Feedback"])
BY_TIME = by_moment("vote", "created_at")

RatingName = Literal["up", "down"]


class VoteOut(TypedDict):
    """One person's vote on one answer, with the stage and config that the answer was made with."""

    id: int
    assembly_id: int
    message_id: int | None
    external_message_id: str | None
    rater: str
    rating: RatingName
    reason: str
    comment: str
    space: str | None
    stage: int | None
    config_version: int | None
    phase: str
    created_at: datetime
    updated_at: datetime


class WithdrawnOut(TypedDict):
    """Whether there was a vote to withdraw."""

    withdrawn: bool


class TrendOut(TypedDict):
    """Votes of one group. `key` is a stage, config version, phase, reason or record ID, as a string."""

    key: str
    space: str
    title: str
    up: int
    down: int
    liked_rate: float | None


class TrendsOut(TypedDict):
    by: Literal["stage", "config", "phase", "reason", "record"]
    items: list[TrendOut]


class VoteQuery(PageQuery):
    """Filters for votes. All of them must match."""

    lookups: ClassVar = {"rater": None, "since": "created_at__gte", "until": "created_at__lt"}

    rating: RatingName | None = None
    assembly_id: Id | None = None
    message_id: Id | None = None
    rater: Rater | None = None
    since: Annotated[Moment | None, Field(description="Votes given at or after this time.")] = None
    until: Annotated[Moment | None, Field(description="Votes given before this time.")] = None

    def select(self, team_id: int) -> QuerySet[Vote]:
        rows = Vote.objects.with_subject().filter(team_id=team_id)
        if self.rater is not None:
            rows = rows.filter(rater=f"rater:{self.rater}")
        return self.where(rows)


class TrendQuery(Input):
    """Which votes to count, and how to group them."""

    by: Literal["stage", "config", "phase", "reason", "record"] = "stage"
    space: Slug | None = None
    stage: Annotated[int | None, Field(ge=2, le=5)] = None
    config_version: Annotated[int | None, Field(ge=1, le=INT_MAX)] = None
    phase: Annotated[Text | None, Field(max_length=MAX_PHASE_CHARS)] = None
    since: Moment | None = None
    until: Moment | None = None

    def to_filter(self, request: ApiRequest) -> VoteFilter:
        space_id = None
        if self.space is not None:
            space_id = request.auth.team.spaces.filter(slug=self.space).values_list("pk", flat=True).first()
            if space_id is None:
                raise InvalidInput.of("space", "there is no such space")
        return VoteFilter(
            team_id=request.auth.team_id,
            start=self.since or DATE_MIN,
            until=self.until or timezone.now(),
            space_id=space_id,
            stage=self.stage,
            config_version=self.config_version,
            phase=self.phase,
        )


def vote_json(vote: Vote) -> dict[str, Any]:
    return show(
        VoteOut,
        vote,
        space=vote.space.slug if vote.space else None,
        external_message_id=vote.external_message.external_id if vote.external_message else None,
    )


def trend_json(found: Group | RecordTrend) -> dict[str, Any]:
    key, title = (str(found.record_id), found.title) if isinstance(found, RecordTrend) else (found.key, "")
    return show(TrendOut, found.figures, key=key, space=found.space, title=title)


def rater_of(request: ApiRequest, given: str | None) -> str:
    """Return the rater's name: the given rater, or else the key. Neither can be mistaken for a user."""
    return actor(request) if given is None else f"rater:{given}"


def _has_external_message(key: ApiKey, external_id: str) -> bool:
    """Return whether the message is of a space that the key reaches, or not known yet."""
    known = ExternalMessage.objects.filter(team_id=key.team_id, external_id=external_id)
    if known.exists():
        return is_reached(key, known, "assembly__space_id")
    request = find_request(key.team_id, external_id)
    return request is None or request.space_id in (key.space_ids or ())


@router.post("/feedback", auth=WRITE, response=VoteOut, summary="Vote on an answer")
@within_spaces(external_message_id=_has_external_message)
def give_feedback(request: ApiRequest, data: FeedbackIn) -> HttpResponse:
    """Records a vote. Each person has one vote per answer; a new one replaces the old one.

    Identify the answer by `message_id` (an answer in a conversation), by `external_message_id` (your own ID
    of an answer made elsewhere; the first time with the `assembly_id` of its context), or by `assembly_id`
    alone. For an answer that came through the gateway, `external_message_id` is the provider's ID, such as
    `chatcmpl-…`, `resp_…` or `msg_…`, and no `assembly_id` is needed.
    """
    vote = votes.give_feedback(
        team=request.auth.team,
        subject=data,
        opinion=data,
        rater=rater_of(request, data.rater),
        answer=data.answer,
    )
    return reply(vote_json(vote))


@router.post("/feedback/withdraw", auth=WRITE, response=WithdrawnOut, summary="Withdraw a vote")
@within_spaces(external_message_id=_has_external_message)
def withdraw_feedback(request: ApiRequest, data: FeedbackBack) -> HttpResponse:
    """Withdraws a vote, identified by answer and rater as in the vote. Withdrawing again has no effect."""
    was_there = votes.withdraw_feedback(
        team=request.auth.team, subject=data, rater=rater_of(request, data.rater)
    )
    return reply({"withdrawn": was_there})


@router.get("/feedback", auth=READ, response=page_of(VoteOut), summary="List votes")
@within_spaces()
def list_feedback(request: ApiRequest, query: Query[VoteQuery]) -> HttpResponse:
    """Returns votes, newest first."""
    rows = in_reach(request, query.select(request.auth.team_id))
    return reply(list_page(rows, BY_TIME, query, vote_json))


@router.get("/feedback/trends", auth=READ, response=TrendsOut, summary="Read vote trends")
@within_spaces()
def read_trends(request: ApiRequest, query: Query[TrendQuery]) -> HttpResponse:
    """Counts votes by group. By record: the records most often in the context of downvoted answers, among the
    newest 500 votes.
    """
    if request.auth.is_limited and query.space is None:
        raise InvalidInput.of("space", NEEDS_SPACE)
    wanted = query.to_filter(request)
    found = read_record_trends(wanted) if query.by == "record" else read_vote_groups(wanted, query.by)
    items = [trend_json(item) for item in cast("list[Group | RecordTrend]", found)]
    return reply({"by": query.by, "items": items})
