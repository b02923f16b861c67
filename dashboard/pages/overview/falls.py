"""Falls in quality beyond chance, and the day on which each began."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import log

from dashboard.kit.charts.tiles import Proportion
from dashboard.kit.formats import percent
from dashboard.kit.periods import Period
from dashboard.pages.overview.quality import PeriodChange
from dashboard.pages.overview.recall import RecallFall
from dashboard.pages.overview.tiles import Compared, Places

type Link = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Fall:
    """One fall. `sentence` answers whether contexts were enough; `title` says what fell and since when.

    `space` is the slug of the only space that it concerns.
    """

    sentence: str
    title: str
    since: datetime
    rows: Link
    space: str = ""


@dataclass(frozen=True, slots=True)
class Alarm:
    """The falls and their days, the last change before, and the addresses of both."""

    titles: tuple[str, ...]
    cause: str
    links: tuple[Link, ...]


def find_falls(found: Compared, recall: RecallFall | None, places: Places) -> list[Fall]:
    """Return the falls, the most telling first: recall, votes, verdicts, empty contexts.

    A recall below its minimum always falls. Other shares fall by Fisher's exact test against the period
    before (`Proportion.is_below`).
    """
    period = found.now.period
    falls = [_recall_fall(recall, period, places)] if recall else []
    now, before = found.votes, found.votes_before
    if now and before and now.total.is_below(before.total):
        since = find_start(before.total, now.total_points, period)
        was = f"{percent(now.total.rate)} of votes are upvotes; it was {percent(before.total.rate)}"
        falls.append(_fall(since, period, was, "Upvotes fell", ("Downvotes", places.downvotes)))
    faults, faults_before = found.quality.faults, found.quality_before.faults
    if faults_before.is_below(faults):
        since = find_start(_misses(faults_before), [*map(_misses, found.quality.fault_points)], period)
        was = f"{percent(faults.rate)} of verdicts blame the context; it was {percent(faults_before.rate)}"
        falls.append(
            _fall(since, period, was, "Verdicts that blame the context rose", ("Reviews", places.reviews))
        )
    empty, empty_before = found.now.total.emptiness, found.before.total.emptiness
    if empty_before.is_below(empty):
        points = [_misses(point.emptiness) for point in found.now.points]
        since = find_start(_misses(empty_before), points, period)
        was = f"{percent(empty.rate, 1)} of contexts are empty; it was {percent(empty_before.rate, 1)}"
        rows = ("Empty contexts", places.rows({"empty": "yes"}))
        falls.append(_fall(since, period, was, "Empty contexts rose", rows))
    return falls


def _fall(since: datetime, period: Period, was: str, title: str, rows: Link) -> Fall:
    when = say_when(since, period)
    return Fall(f"Less since {when}: {was}.", f"{title} beyond chance on {when}.", since, rows)


def _recall_fall(fall: RecallFall, period: Period, places: Places) -> Fall:
    low, when = fall.low, say_when(fall.spell.since, period)
    rows = ("Questions that lost records", places.question_set(low.set_id))
    holds = f"contexts hold {percent(low.recall)} of the expected records"
    if fall.before is not None:
        was = f"{holds}; it was {percent(fall.before)}"
        own = _fall(fall.spell.since, period, was, f"Recall on “{low.name}” fell", rows)
        return replace(own, space=low.space)
    least = f"{holds}; the minimum is {percent(low.minimum)}"
    if fall.spell.was_higher:
        title = f"Recall on “{low.name}” fell below its minimum on {when}."
        return Fall(f"Not since {when}: {least}.", title, fall.spell.since, rows, low.space)
    title = f"Recall on “{low.name}” has been below its minimum since its first evaluation on {when}."
    return Fall(f"Not yet: {least}.", title, fall.spell.since, rows, low.space)


def _misses(share: Proportion) -> Proportion:
    return Proportion(share.count - share.hits, share.count)


def find_start(before: Proportion, points: Sequence[Proportion], period: Period) -> datetime:
    """Return the start of the bucket with which a share most likely fell.

    The maximum-likelihood change point of a binomial sequence that begins with the period before: of all
    buckets after which the share is lower, the one whose two parts fit the counts best.

    Source: D. V. and E. A. Hinkley, "Inference about the change-point in a sequence of binomial variables",
    Biometrika 57 (1970).
    """
    every = sum(points, before)
    best, place, upto = float("-inf"), 0, before
    for number, point in enumerate(points):
        after = Proportion(every.hits - upto.hits, every.count - upto.count)
        is_lower = after.count and after.hits * upto.count < upto.hits * after.count
        # A bucket without counts fits as well as the next one, which has the first that is low.
        if is_lower and point.count and (fit := _likelihood(upto) + _likelihood(after)) > best:
            best, place = fit, number
        upto += point
    return period.edges[place]


def _likelihood(share: Proportion) -> float:
    """Return the logarithm of the counts' likelihood at their own share."""
    parts = (share.hits, share.count - share.hits)
    return sum(part * log(part / share.count) for part in parts if part)


def say_when(moment: datetime, period: Period) -> str:
    """Return a day in the team's zone; within a day or two also the hour."""
    local = moment.astimezone(period.zone)
    day = f"{local.day} {local:%b}"
    return f"{day}, {local:%H:%M}" if period.step == "hour" else day


def _may_explain(change: PeriodChange, fall: Fall) -> bool:
    """Tell whether the change does not concern another space than the fall."""
    return not (change.space and fall.space) or change.space == fall.space


def build_alarm(falls: Sequence[Fall], changes: Sequence[PeriodChange], period: Period) -> Alarm | None:
    """Return the alarm of these falls, with the last change before the first of them."""
    if not falls:
        return None
    first = falls[0]
    # A bucket begins before the changes in it.
    until = next((edge for edge in period.edges if edge > first.since), first.since)
    change = next((each for each in changes if each.at < until and _may_explain(each, first)), None)
    cause = (
        f"Last change before: {change.title}, {say_when(change.at, period)}."
        if change else "No change of settings or model is known before it in this period."
    )  # fmt: skip
    second = ("The change", change.url) if change and change.url else ("What changed", "#changed")
    return Alarm(tuple(fall.title for fall in falls), cause, (first.rows, second))
