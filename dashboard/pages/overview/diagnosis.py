"""Points out unusual figures, the rows behind them, and possible causes.

The figures show what happened but not why, so causes are only suggested.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from contextopt.assemblies.models import SLOW_MS
from contextopt.engine.prompts.config import SCORED_STAGE
from dashboard.kit.formats import milliseconds, percent, whole
from dashboard.pages.overview.figures import Figures, ScoreSpread, StageFigures
from dashboard.pages.overview.tiles import Rows

LOW_UTILISATION = 0.5
MOST_REQUESTS = 0.5


@dataclass(frozen=True, slots=True)
class Observation:
    """Something worth a look. `slug` names it in tests and links; `rows` are the filters that select it."""

    slug: str
    title: str
    seen: str
    causes: tuple[str, ...]
    remedy: str
    rows: Mapping[str, str] | None = None


def point_out(found: list[Observation], rows: Rows) -> list[tuple[Observation, str]]:
    """Return each observation with the URL of the rows behind it, empty if there are none."""
    return [(each, "" if each.rows is None else rows(each.rows)) for each in found]


def observe(total: Figures, stages: list[StageFigures], spread: ScoreSpread) -> list[Observation]:
    """Return the unusual findings, most urgent first."""
    if not total.assemblies:
        return []
    found = [
        _slow(total),
        _costly(stages),
        _half_empty(total),
        _truncated(total),
        _flat(spread),
    ]
    return [observation for observation in found if observation]


def _slow(total: Figures) -> Observation | None:
    if total.p95_ms is None or total.p95_ms <= SLOW_MS:
        return None
    return Observation(
        "slow",
        f"Assembly time p95 is {milliseconds(total.p95_ms)} ms",
        f"Half of {whole(total.assemblies)} assemblies took up to {milliseconds(total.p50_ms)} ms, 5 % took "
        f"over {milliseconds(total.p95_ms)} ms. The target is {SLOW_MS} ms.",
        (
            "a database low on memory or connections",
            "other work on the machine, such as an import",
            "one very large space or text",
            "a slow embedding endpoint",
        ),
        "Check whether the slow assemblies share a space or an hour.",
        {"slow": "yes"},
    )


def _costly(stages: list[StageFigures]) -> Observation | None:
    # A question's context may cost more: it pays for the answer.
    costly = next((row for row in stages if row.stage == SCORED_STAGE and row.tokens_saved < 0), None)
    if costly is None:
        return None
    return Observation(
        "costly",
        f"Stage {costly.stage} costs {whole(-costly.tokens_saved)} tokens more than the last 10 records",
        f"These contexts took {whole(costly.tokens_before - costly.tokens_saved)} tokens; the last 10 "
        f"records would have taken {whole(costly.tokens_before)}.",
        ("a record limit above 10", "longer records than the last 10"),
        "Lower the record limit or the context budget if answers stay good with less.",
        {"stage": str(costly.stage)},
    )


def _half_empty(total: Figures) -> Observation | None:
    if total.utilisation is None or total.utilisation >= LOW_UTILISATION:
        return None
    return Observation(
        "half-empty",
        f"Only {percent(total.utilisation)} of the context budget is used",
        f"This is the mean. Contexts hold {_records(total)} on average.",
        (
            "few records in the date window",
            "a record limit reached long before the budget",
            "a budget larger than the space",
        ),
        "Widen the date window, raise the record limit, or lower the context budget.",
        {"kind": "space"},
    )


def _records(total: Figures) -> str:
    return (
        "an unknown number of records"
        if total.records_included is None
        else f"{total.records_included:.1f} records"
    )


def _truncated(total: Figures) -> Observation | None:
    if total.truncation_rate is None or total.truncation_rate <= MOST_REQUESTS:
        return None
    return Observation(
        "truncated",
        f"{percent(total.truncation_rate)} of assemblies dropped a record",
        f"{whole(round(total.truncation_rate * total.assemblies))} of {whole(total.assemblies)} left out "
        "something that passed the filters.",
        (
            "more records in the date window than the record limit allows",
            "a budget too small for the records",
        ),
        "Check a few of them. If a needed record was dropped, narrow the window or raise the limit. In a "
        "large space this is normal.",
        {"truncated": "yes"},
    )


def _flat(spread: ScoreSpread) -> Observation | None:
    if not spread.has_records or spread.is_viewed:
        return None
    if spread.has_ages:
        return Observation(
            "unviewed",
            "No record has been viewed",
            "The frequency part of every score is 0, so without a question, records are ranked by age alone.",
            ("records that are imported and assembled but never opened", "an import without view counts"),
            "Open records here or through the API to count views, or set the frequency weight to 0.",
        )
    return Observation(
        "flat",
        "All records score about the same",
        "No record has been viewed, and all dates lie within one day.",
        ("an import that dated every record on the day of the import",),
        "Import records with their own dates, and open records in the dashboard or through the API.",
    )
