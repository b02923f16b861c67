"""The headline and the tiles of a backtest, from its figures."""

from contextopt.engine.wording import plural
from dashboard.kit.charts.tiles import Change, Tile
from dashboard.kit.formats import NONE, money, percent, whole
from memory.backtests.costs import BacktestCosts
from memory.backtests.figures import BacktestFigures

# Changes below half a per cent are none.
NO_CHANGE = 0.005


def headline(figures: BacktestFigures) -> str:
    """Say in one sentence what the version would do."""
    if not figures.replayed:
        return "No context could be replayed"
    return f"{_tokens(figures)}{_evidence(figures)}"


def _tokens(figures: BacktestFigures) -> str:
    share = figures.share or 0.0
    if abs(share) < NO_CHANGE:
        return "The same number of tokens"
    return f"{percent(abs(share))} {'fewer' if share < 0 else 'more'} tokens"


def _evidence(figures: BacktestFigures) -> str:
    if not figures.evidence:
        return ""
    gained = figures.evidence_kept - figures.evidence_before
    if gained == 0:
        return ", and the same evidence kept"
    return ", and more evidence kept" if gained > 0 else ", but less evidence kept"


def tiles_of(figures: BacktestFigures, costs: BacktestCosts) -> list[Tile]:
    """Return the tiles, each with the change from the logged contexts."""
    gained = figures.evidence_kept - figures.evidence_before
    emptied = figures.empty_after - figures.empty_before
    return [
        Tile(
            "tokens", "Tokens per context", whole(figures.mean_after), "",
            _change(figures.tokens_after - figures.tokens_before, percent(abs(figures.share or 0.0))),
            f"from {whole(figures.mean_before)}; median {whole(figures.median_after)}, "
            f"from {whole(figures.median_before)}",
        ),
        _cost_tile(costs),
        Tile(
            "evidence", "Evidence kept", whole(figures.evidence_kept), f"of {whole(figures.evidence)}",
            _change(gained, whole(abs(gained)), good="▲"),
            f"{plural(figures.gained, 'context')} gained, {whole(figures.lost)} lost some"
            if figures.evidence else "no records are known to matter",
            link="?show=lost#rows" if figures.lost else "",
        ),
        Tile(
            "empty", "Empty contexts", whole(figures.empty_after), "",
            _change(emptied, whole(abs(emptied))),
            f"{whole(figures.newly_empty) if figures.newly_empty else 'none'} newly empty",
            link="?show=empty#rows" if figures.newly_empty else "",
        ),
        Tile(
            "replayed", "Replayed", whole(figures.replayed), f"of {whole(figures.assemblies)}",
            Change("", ""),
            f"{whole(figures.not_replayable)} could not be replayed"
            if figures.not_replayable else "all of them",
            link="?show=skipped#rows" if figures.not_replayable else "",
        ),
    ]  # fmt: skip


def _cost_tile(costs: BacktestCosts) -> Tile:
    """Return what the prompts with a known conversation and price would cost after the provider's cache."""
    label, unknown = "Input cost after the cache", Change("", "")
    if not costs.priced:
        fact = "no context names a conversation" if not costs.prompts else "no price is known"
        return Tile("cost", label, NONE, "", unknown, fact)
    return Tile(
        "cost", label, money(costs.after), "",
        _change(_cents(costs.after - costs.before), percent(abs(costs.share or 0.0))),
        f"from {money(costs.before)}, for {plural(costs.priced, 'context')} with a price",
    )  # fmt: skip


def _cents(dollars: float) -> int:
    """Return the sign of an amount, in millionths so that a small one is not nothing."""
    return round(dollars * 1_000_000)


def _change(by: int, amount: str, *, good: str = "▼") -> Change:
    if not by:
        return Change("", "no change")
    arrow = "▲" if by > 0 else "▼"
    return Change(arrow, amount, "good" if arrow == good else "bad")
