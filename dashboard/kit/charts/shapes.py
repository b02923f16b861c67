"""Geometry of the small pictures, in units of an SVG view box. Pure; colours are in the stylesheet."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from contextopt.assemblies.models import Assembly
from contextopt.assemblies.results import AssemblyResult
from dashboard.kit.formats import whole

BAR_WIDTH = 1_000
PARTS_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Segment:
    """A rectangle: `kind` names its colour class; `x` and `width` are ready for the markup."""

    kind: str
    x: str
    width: str


@dataclass(frozen=True, slots=True)
class Bar:
    """The allocation bar with its legend and a text for those who cannot see it."""

    segments: tuple[Segment, ...]
    legend: tuple[tuple[str, str], ...]
    label: str


def allocation_bar(*, system: int, context: int, used: int, history: int, response: int) -> Bar:
    """Draw the four shares of the total; of the context's share, fill only the used part."""
    total = max(1, system + context + history + response)
    widths = {"system": system, "context": context, "history": history, "response": response}
    segments: list[Segment] = []
    position = 0.0
    for kind, tokens in widths.items():
        width = tokens / total * BAR_WIDTH
        filled = used / total * BAR_WIDTH if kind == "context" else width
        # Leave a thin gap between neighbours, unless the share is no wider than that.
        segments.append(
            Segment(kind, _number(position), _number(max(0.0, filled - (2 if filled > 4 else 0))))
        )
        position += width
    legend = (
        ("system", f"System {whole(system)}"),
        ("context", f"Context {whole(used)} of {whole(context)}"),
        ("history", f"History {whole(history)}"),
        ("response", f"Response {whole(response)}"),
    )
    return Bar(tuple(segments), legend, f"{whole(total)} tokens: " + ", ".join(text for _, text in legend))


def bar_of_assembly(row: Assembly) -> Bar:
    return allocation_bar(
        system=row.system_tokens,
        context=row.tokens_available,
        used=row.tokens_after,
        history=row.history_tokens,
        response=row.response_tokens,
    )


def bar_of_result(result: AssemblyResult) -> Bar:
    shares = result.allocation
    return allocation_bar(
        system=shares.system,
        context=shares.context,
        used=result.stats.tokens_used,
        history=shares.history,
        response=shares.response,
    )


def saving_bar(*, before: int, after: int) -> Bar:
    """Draw the sent tokens as a share of the tokens before; any excess is drawn as over."""
    total = max(1, before, after)
    sent = min(before, after) / total * BAR_WIDTH
    segments = [Segment("context", "0", _number(sent))]
    legend = [("context", f"Sent {whole(after)}"), ("empty", f"Not sent {whole(max(0, before - after))}")]
    if after > before:
        segments.append(Segment("over", _number(sent), _number(BAR_WIDTH - sent)))
        legend = [
            ("context", f"Without Contextopt {whole(before)}"),
            ("over", f"Extra {whole(after - before)}"),
        ]
    return Bar(tuple(segments), tuple(legend), f"{whole(after)} of {whole(before)} tokens sent")


# The colour and label of each part of a score, in the order of the bars.
PARTS = {
    "recency": ("context", "Recency"),
    "frequency": ("history", "Frequency"),
    "semantic": ("system", "Meaning"),
    "lexical": ("phase-6", "Words"),
    "neighbour": ("neighbour", "Neighbours"),
    "date": ("date", "Date"),
    "who": ("phase-5", "Person"),
    "topic": ("topic", "Topic"),
}


def part_legend(names: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Return the colour and label of each of the named parts of a score."""
    return tuple(shown for name, shown in PARTS.items() if name in names)


def score_parts(parts: Mapping[str, float], weights: Mapping[str, float], best: float) -> tuple[Segment, ...]:
    """Draw the weighted parts of a score; a score of `best` fills the bar."""
    weighted = [
        (kind, parts[name] * weights.get(name, 0.0)) for name, (kind, _) in PARTS.items() if name in parts
    ]
    return stack_parts(weighted, best)


def stack_parts(parts: Iterable[tuple[str, float]], best: float) -> tuple[Segment, ...]:
    """Draw parts side by side, each in its colour; `best` fills the bar. A negative part covers the end."""
    segments: list[Segment] = []
    position = 0.0
    for kind, value in parts:
        width = value / (best or 1.0) * PARTS_WIDTH
        segments.append(Segment(kind, _number(max(0.0, position + min(0.0, width))), _number(abs(width))))
        position += width
    return tuple(segments)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
