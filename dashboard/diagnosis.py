"""Worth a look: what the figures suggest, each with its cause and a remedy."""

from dataclasses import dataclass

from dashboard.formats import milliseconds, percent, whole
from dashboard.metrics import Figures, ScoreSpread, StageFigures
from dashboard.tiles import TARGET_MS

LOW_UTILISATION = 0.5
MOST_REQUESTS = 0.5


@dataclass(frozen=True, slots=True)
class Observation:
    """Something to look at. `slug` names it in tests and links."""

    slug: str
    title: str
    cause: str
    remedy: str


def observe(total: Figures, stages: list[StageFigures], spread: ScoreSpread) -> list[Observation]:
    """Return what stands out, the most urgent first."""
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
    if total.p95_ms is None or total.p95_ms <= TARGET_MS:
        return None
    return Observation(
        "slow",
        f"Assembly time p95 is {milliseconds(total.p95_ms)} ms",
        "The database is short of memory or connections, or an encoding had to be loaded first.",
        "See whether the slow ones belong to one space or hour; give the database more memory, or the web "
        "process a larger pool.",
    )


def _costly(stages: list[StageFigures]) -> Observation | None:
    costly = next((row for row in stages if row.stage > 3 and row.tokens_saved < 0), None)
    if costly is None:
        return None
    return Observation(
        "costly",
        f"Stage {costly.stage} costs {whole(-costly.tokens_saved)} tokens more than the last 10 records",
        "Up to 20 records are sent instead of the last 10: more context, not less.",
        "Lower the record limit or the context budget, if the answers stay good with less.",
    )


def _half_empty(total: Figures) -> Observation | None:
    if total.utilisation is None or total.utilisation >= LOW_UTILISATION:
        return None
    return Observation(
        "half-empty",
        f"Only {percent(total.utilisation)} of the context budget is used",
        "Few records lie inside the date window, or the record limit is reached long before the budget.",
        "Widen the window, raise the record limit, or lower the context budget to what is used.",
    )


def _truncated(total: Figures) -> Observation | None:
    if total.truncation_rate is None or total.truncation_rate <= MOST_REQUESTS:
        return None
    return Observation(
        "truncated",
        f"{percent(total.truncation_rate)} of the assemblies dropped something",
        "More records pass the window than the limit or the budget takes. Past 20 records this is normal.",
        "Look at what a few assemblies dropped; if it was missed, narrow the window or raise the limit.",
    )


def _flat(spread: ScoreSpread) -> Observation | None:
    if not spread.has_records or spread.is_viewed:
        return None
    if spread.has_ages:
        return Observation(
            "unviewed",
            "No record has been viewed",
            "The frequency part of every score is 0, so that age alone decides.",
            "Read records through the page or the API, so that what is used counts; or set the frequency "
            "weight to 0.",
        )
    return Observation(
        "flat",
        "All scores are alike",
        "Nothing has been viewed and all records are of one age: nothing tells them apart.",
        "Give imported records their own dates, and read records through the page or the API.",
    )
