"""Endpoints for review: the queue, reservations, verdicts, and their summary."""

from datetime import datetime
from typing import Any, ClassVar, Literal, TypedDict

from django.db.models import QuerySet
from django.http import HttpResponse, StreamingHttpResponse
from django.utils import timezone
from ninja import Path, Query, Router
from pydantic_core import to_json

from contextopt.api.protocol.authentication import ADMIN, READ, WRITE, ApiRequest, actor
from contextopt.api.protocol.outputs import PageQuery, csv_lines, list_page, page_of, reply
from contextopt.inputs import Id, Input, Slug, show
from contextopt.paging import by_moment
from contextopt.sql import find_one
from memory.api.feedback import rater_of
from memory.feedback.inputs import Rater
from memory.review import reservations, verdicts
from memory.review.inputs import AssignIn, GivenVerdict, ReserveIn, ReviewerIn, RulesPatch, VerdictName
from memory.review.models import ReviewItem, ReviewSlot
from memory.review.queue import rules_of, set_rules

router = Router(tags=["Review"])
BY_TIME = by_moment("review", "created_at")

StateName = Literal["open", "done", "withdrawn"]
OriginName = Literal["disliked", "sample"]


class ReviewOut(TypedDict):
    """An answer to review. `verdicts` counts those given so far, by anyone."""

    id: int
    assembly_id: int
    message_id: int | None
    external_message_id: str | None
    origin: OriginName
    state: StateName
    verdicts: int
    space: str | None
    stage: int | None
    config_version: int | None
    assigned_to: str | None
    is_judged: bool
    created_at: datetime
    done_at: datetime | None


class VerdictOut(TypedDict):
    reviewer: str
    verdict: VerdictName
    note: str
    record_ids: list[int]
    judged_at: datetime


class ReviewDetail(TypedDict):
    """Others' verdicts are hidden until the caller has given one, or the item is done."""

    item: ReviewOut
    given: list[VerdictOut]
    reserved_until: datetime | None


class ReservedOut(TypedDict):
    """The reserved item, or null if none waits for the reviewer."""

    item: ReviewOut | None
    reserved_until: datetime | None


class ReleasedOut(TypedDict):
    """Whether there was a reservation to release."""

    released: bool


class RulesOut(TypedDict):
    takes_disliked: bool
    sample_share: float
    verdicts_wanted: int


class GroupOut(TypedDict):
    space: str
    title: str
    key: int
    counts: dict[str, int]
    worst: str


class SummaryOut(TypedDict):
    """Figures of finished items. `key` is a config version or a record ID."""

    waiting: int
    done: int
    agreement: float | None
    agreement_items: int
    configs: list[GroupOut]
    records: list[GroupOut]


class WhoQuery(Input):
    """The reviewer to act for; without it, the key."""

    reviewer: Rater | None = None


class ReviewQuery(PageQuery):
    """Filters for items. All of them must match."""

    lookups: ClassVar = {"space": "space__slug", "reviewer": None}

    state: StateName | None = None
    origin: OriginName | None = None
    space: Slug | None = None
    reviewer: Rater | None = None

    def select(self, request: ApiRequest) -> QuerySet[ReviewItem]:
        rows = ReviewItem.objects.with_subject().with_own(rater_of(request, self.reviewer))
        return self.where(rows.filter(team_id=request.auth.team_id))


class ExportQuery(WhoQuery):
    format: Literal["csv", "jsonl"] = "jsonl"


def item_json(item: ReviewItem) -> dict[str, Any]:
    return show(
        ReviewOut,
        item,
        space=item.space.slug if item.space else None,
        external_message_id=item.external_message.external_id if item.external_message else None,
        assigned_to=item.assigned_to.get_username() if item.assigned_to else None,
    )


def load_item(request: ApiRequest, item_id: int, reviewer: str) -> ReviewItem:
    """Return the team's item as the reviewer sees it."""
    rows = ReviewItem.objects.of(request.auth.team).with_subject().with_own(reviewer).select_related("team")
    return find_one(rows.filter(pk=item_id), f"review {item_id}")


def detail_json(item: ReviewItem, reviewer: str) -> dict[str, Any]:
    own = item.slots.filter(reviewer=reviewer).first()
    given = [show(VerdictOut, slot) for slot in reservations.visible_verdicts(item, reviewer)]
    return {"item": item_json(item), "given": given, "reserved_until": own.reserved_until if own else None}


@router.get("/reviews", auth=READ, response=page_of(ReviewOut), summary="List reviews")
def list_reviews(request: ApiRequest, query: Query[ReviewQuery]) -> HttpResponse:
    """Returns review items, newest first."""
    return reply(list_page(query.select(request), BY_TIME, query, item_json))


@router.get("/reviews/summary", auth=READ, response=SummaryOut, summary="Summarise verdicts")
def read_summary(request: ApiRequest) -> HttpResponse:
    """Returns progress, Krippendorff's alpha, and verdicts by config and by record."""
    team = request.auth.team
    progress, agreement = verdicts.read_progress(team, timezone.now()), verdicts.read_agreement(team)
    return reply(
        {
            "waiting": progress.waiting,
            "done": progress.done,
            "agreement": agreement.alpha,
            "agreement_items": agreement.items,
            "configs": [show(GroupOut, group) for group in verdicts.read_config_verdicts(team)],
            "records": [show(GroupOut, group) for group in verdicts.read_record_verdicts(team)],
        }
    )


@router.get("/reviews/export", auth=READ, summary="Export verdicts")
def export(request: ApiRequest, query: Query[ExportQuery]) -> StreamingHttpResponse:
    """Streams all verdicts on finished items, and the reviewer's own, as JSON Lines or CSV."""
    rows = verdicts.export_verdicts(request.auth.team, rater_of(request, query.reviewer))
    if query.format == "csv":
        return StreamingHttpResponse(
            csv_lines(verdicts.HEADER, verdicts.csv_rows(rows)), content_type="text/csv; charset=utf-8"
        )
    lines = (to_json(row) + b"\n" for row in rows)
    return StreamingHttpResponse(lines, content_type="application/jsonl")


@router.get("/reviews/rules", auth=READ, response=RulesOut, summary="Read the review rules")
def read_rules(request: ApiRequest) -> HttpResponse:
    """Returns the team's review rules."""
    return reply(show(RulesOut, rules_of(request.auth.team_id)))


@router.patch("/reviews/rules", auth=ADMIN, response=RulesOut, summary="Change the review rules")
def change_rules(request: ApiRequest, data: RulesPatch) -> HttpResponse:
    """Changes the review rules. From then on, open items need the new number of verdicts."""
    rules = set_rules(team=request.auth.team, changes=data, actor=actor(request))
    return reply(show(RulesOut, rules))


@router.post("/reviews/reserve", auth=WRITE, response=ReservedOut, summary="Reserve a review")
def reserve(request: ApiRequest, data: ReserveIn) -> HttpResponse:
    """Reserves the named item, or the next one, for ten minutes. Repeating the request extends the
    reservation.

    Two reviewers never get the same slot. An item the reviewer already holds comes first.
    """
    team, reviewer = request.auth.team, rater_of(request, data.reviewer)
    slot: ReviewSlot | None
    if data.item_id is None:
        slot = reservations.reserve_next(team=team, reviewer=reviewer, skip=data.skip)
    else:
        slot = reservations.reserve_item(item=load_item(request, data.item_id, reviewer), reviewer=reviewer)
    if slot is None:
        return reply({"item": None, "reserved_until": None})
    item = load_item(request, slot.item_id, reviewer)
    return reply({"item": item_json(item), "reserved_until": slot.reserved_until})


@router.get("/reviews/{review_id}", auth=READ, response=ReviewDetail, summary="Read a review")
def read_review(request: ApiRequest, review_id: Path[Id], query: Query[WhoQuery]) -> HttpResponse:
    """Returns a review item. Read its answer and context by `message_id` and `assembly_id`."""
    reviewer = rater_of(request, query.reviewer)
    return reply(detail_json(load_item(request, review_id, reviewer), reviewer))


@router.post("/reviews/{review_id}/verdict", auth=WRITE, response=ReviewDetail, summary="Give a verdict")
def judge(request: ApiRequest, review_id: Path[Id], data: GivenVerdict) -> HttpResponse:
    """Gives a verdict. Each person has one per item; a new one replaces the old one unless others have given
    verdicts too.
    """
    reviewer = rater_of(request, data.reviewer)
    item = load_item(request, review_id, reviewer)
    reservations.give_verdict(item=item, reviewer=reviewer, data=data)
    return reply(detail_json(load_item(request, review_id, reviewer), reviewer))


@router.post("/reviews/{review_id}/release", auth=WRITE, response=ReleasedOut, summary="Release a review")
def release(request: ApiRequest, review_id: Path[Id], data: ReviewerIn) -> HttpResponse:
    """Releases the reviewer's reservation. Releasing again has no effect."""
    reviewer = rater_of(request, data.reviewer)
    item = load_item(request, review_id, reviewer)
    return reply({"released": reservations.release_item(item=item, reviewer=reviewer)})


@router.post("/reviews/{review_id}/assign", auth=ADMIN, response=ReviewDetail, summary="Assign a review")
def assign(request: ApiRequest, review_id: Path[Id], data: AssignIn) -> HttpResponse:
    """Assigns the item to one member, or to anyone."""
    reviewer = actor(request)
    item = load_item(request, review_id, reviewer)
    reservations.assign_item(item=item, username=data.username, actor=reviewer)
    return reply(detail_json(load_item(request, review_id, reviewer), reviewer))
