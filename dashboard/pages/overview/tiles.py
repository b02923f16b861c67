"""The overview's tiles: a value, its change against the period before, and one more fact."""

from collections.abc import Iterable

from contextopt.assemblies.models import BASELINES, SLOW_MS
from contextopt.models import Kind
from dashboard.kit.charts.tiles import Change, Tile, describe_change, describe_growth, in_points, points, unit
from dashboard.kit.formats import NONE, compact, decimals, fewer_words, milliseconds, money, percent, whole
from dashboard.pages.overview.figures import Figures
from dashboard.pages.overview.projections import MonthProjection
from dashboard.pages.overview.votes import Feedback, Votes


def build_tiles(
    now: Figures, before: Figures, *, kinds: Iterable[str] = (), empty_link: str = ""
) -> list[Tile]:
    """Return the tiles; `kinds` are those in the figures, `empty_link` lists the empty contexts."""
    saved, magnitude = compact(now.tokens_saved) if now.tokens_before else (NONE, "")
    return [
        Tile(
            "saved", "Tokens saved", saved, magnitude,
            describe_growth(*_saved(now, before), "higher"),
            f"{_compared(now, kinds)}{_worth(now)}", "target 20–30 %",
        ),
        Tile(
            "ratio", "Compression ratio", decimals(now.ratio), "",
            describe_change(now.ratio, before.ratio, "lower", decimals),
            f"mean of included ÷ filtered, median {decimals(now.median_ratio)}", "target 0.2–0.4",
        ),
        Tile(
            "time", "Assembly time, p95", milliseconds(now.p95_ms), "ms" if now.p95_ms is not None else "",
            describe_change(now.p95_ms, before.p95_ms, "lower", lambda d: f"{milliseconds(d)} ms"),
            f"p50 {milliseconds(now.p50_ms)}, p99 {milliseconds(now.p99_ms)}", f"target < {SLOW_MS} ms",
        ),
        Tile(
            "truncation", "Truncation rate", points(now.truncation_rate), unit(now.truncation_rate),
            describe_change(now.truncation_rate, before.truncation_rate, "none", in_points),
            f"of {whole(now.assemblies)} assemblies dropped a record",
        ),
        Tile(
            "utilisation", "Budget utilisation", points(now.utilisation), unit(now.utilisation),
            describe_change(now.utilisation, before.utilisation, "none", in_points),
            f"mean; median {percent(now.median_utilisation)}", "target 80–95 %",
        ),
        Tile(
            "records", "Records per request", decimals(now.records_included, 1), "",
            describe_change(
                now.records_included, before.records_included, "none", lambda d: decimals(d, 1)
            ),
            "of space contexts", "target 10–20",
        ),
        empty_tile(now, before, empty_link),
        Tile(
            "assemblies", "Assemblies", *compact(now.assemblies),
            describe_growth(now.assemblies, before.assemblies, "none"),
            "of all kinds",
        ),
    ]  # fmt: skip


def empty_tile(now: Figures, before: Figures, link: str) -> Tile:
    value, magnitude = compact(now.empties) if now.contexts else (NONE, "")
    return Tile(
        "empty", "Empty contexts", value, magnitude,
        describe_growth(now.empties, before.empties, "lower"),
        f"{percent(now.empty_rate, 1)} of {whole(now.contexts)} space contexts",
        "never counted as savings", link if now.empties else "",
    )  # fmt: skip


def month_tile(month: MonthProjection) -> Tile:
    """Return the tile of the month's projected savings; there is nothing to compare it with yet."""
    so_far, letter = compact(month.so_far.tokens)
    worth = f", ≈ {money(month.projected.dollars)}" if month.projected.dollars is not None else ""
    return Tile(
        "month", "Projected this month", *compact(month.projected.tokens), Change("", ""),
        f"tokens saved{worth}; {so_far} {letter}".rstrip() + " so far",
    )  # fmt: skip


def votes_tile(now: Feedback, before: Feedback | None) -> Tile:
    earlier = before.total if before else Votes()
    return Tile(
        "liked", "Liked answers", points(now.total.rate), unit(now.total.rate),
        describe_change(now.total.rate, earlier.rate, "higher", in_points),
        f"of {whole(now.total.votes)} votes",
    )  # fmt: skip


def _compared(figures: Figures, kinds: Iterable[str]) -> str:
    """Describe the saving's share, and its baseline."""
    if figures.saving_rate is None:
        return "nothing to compare with"
    names = {BASELINES[Kind(kind)] for kind in kinds}
    baseline = names.pop() if len(names) == 1 else "without Contextopt"
    words = fewer_words(figures.saving_rate)
    return f"{words} {'as' if words.startswith('about') else 'than'} {baseline}"


def _worth(figures: Figures) -> str:
    """Describe the saving in dollars, and the share of requests if not every model has a price."""
    if figures.dollars_saved is None:
        return ""
    share = figures.priced / figures.assemblies
    of = "" if share > 0.995 else f" for {percent(share)} of requests"
    return f", ≈ {money(figures.dollars_saved)}{of}"


def _saved(now: Figures, before: Figures) -> tuple[int, int]:
    """Return the savings to compare; zeros if nothing was assembled in this period."""
    return (now.tokens_saved, before.tokens_saved) if now.tokens_before else (0, 0)
