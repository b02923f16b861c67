"""The curve of an adaptive budget: each candidate's relevance in rank order, and the cut."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contextopt.assemblies.models import EntryJson
from contextopt.engine.budget import LOW_RELEVANCE
from contextopt.engine.details import DUPLICATE_OF
from contextopt.engine.settings import ADAPTIVE
from contextopt.engine.wording import plural

AFTER_THE_CUT = 40
"""Number of bars after the last kept one, so that the cut is always in sight."""
BAR_WIDTH, HEIGHT = 10, 300
APART_FROM_THE_QUESTION = ("recency", "frequency")


@dataclass(frozen=True, slots=True)
class Bar:
    """One candidate's bar, in the units of the drawing."""

    x: int
    y: int
    height: int
    is_kept: bool


@dataclass(frozen=True, slots=True)
class Curve:
    """The bars with the size of the drawing, and the curve in words."""

    bars: tuple[Bar, ...]
    width: int
    height: int
    words: str


def draw_curve(
    entries: Sequence[EntryJson], config: Mapping[str, Any], weights: Mapping[str, float]
) -> Curve | None:
    """Return the curve of a question's context with an adaptive budget; None for any other context."""
    rated = (entry for entry in entries if "semantic" in entry["parts"] and entry["reason"] != DUPLICATE_OF)
    ranked = sorted((entry for entry in rated if not entry["pinned"]), key=lambda entry: -entry["score"])
    if config.get("budget_mode") != ADAPTIVE or not ranked:
        return None
    values = [_relevance(entry, weights) for entry in ranked]
    best = max(values) or 1.0
    last = max((place for place, entry in enumerate(ranked) if entry["kept"]), default=-1)
    bars = tuple(
        Bar(
            x=place * BAR_WIDTH,
            y=HEIGHT - round(HEIGHT * value / best),
            height=round(HEIGHT * value / best),
            is_kept=entry["kept"],
        )
        for place, (entry, value) in enumerate(zip(ranked[: last + 1 + AFTER_THE_CUT], values, strict=False))
    )
    return Curve(bars, len(bars) * BAR_WIDTH, HEIGHT, _words(ranked, values, best))


def _relevance(entry: EntryJson, weights: Mapping[str, float]) -> float:
    """Return the weighted sum of the parts that depend on the question."""
    return sum(
        value * weights[name] for name, value in entry["parts"].items() if name not in APART_FROM_THE_QUESTION
    )


def _words(ranked: Sequence[EntryJson], values: Sequence[float], best: float) -> str:
    cut = [value for entry, value in zip(ranked, values, strict=True) if entry["reason"] == LOW_RELEVANCE]
    kept = [place for place, entry in enumerate(ranked) if entry["kept"]]
    if not cut:
        return "Every record that fits is worth its tokens."
    if not kept:
        return f"No record is worth its tokens. The best has a relevance of {max(cut):.0f}."
    records = plural(len(kept), "record")
    if lone := sum(entry["reason"] == LOW_RELEVANCE for entry in ranked[: kept[-1]]):
        return (
            f"{records} kept. {lone} more that rank among them stand alone in the conversation, so they are "
            "not worth their tokens."
        )
    return (
        f"{records} kept. The next record's relevance is {cut[0]:.0f} (the best one's is {best:.0f}), too "
        "low to be worth its tokens."
    )
