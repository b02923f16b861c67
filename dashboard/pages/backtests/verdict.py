"""The headline and the tiles of a backtest, from its figures."""

from collections.abc import Sequence

from contextopt.engine.wording import plural
from dashboard.kit.charts.tiles import Change, Tile
from dashboard.kit.formats import NONE, money, percent, whole
from dashboard.pages.spaces.proofs import Proof
from memory.backtests.figures import BacktestCosts, BacktestFigures
from memory.questions.models import Evaluation

# Changes below half a per cent are none.
NO_CHANGE = 0.005


def headline(figures: BacktestFigures, proofs: Sequence[Proof] = ()) -> str:
    """Say what the version would do: to the contexts, and to recall on the question sets."""
    replayed = (
        f"{_tokens(figures)}{_evidence(figures)}" if figures.replayed else "No context could be replayed"
    )
    recall = _recall([proof for proof in proofs if proof.is_compared])
    return f"{replayed}. {recall}" if recall else replayed


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


def _recall(compared: Sequence[Proof]) -> str:
    """Say how recall changes over all questions; an empty text if no set was evaluated under both."""
    before = _mean_recall([proof.before for proof in compared])
    after = _mean_recall([proof.draft for proof in compared])
    if before is None or after is None:
        return ""
    sets = "the question set" if len(compared) == 1 else f"{len(compared)} question sets"
    was, now = percent(before, 1), percent(after, 1)
    change = f"stays at {now}" if was == now else f"goes from {was} to {now}"
    return f"Recall on {sets} {change}{_minimum(compared)}"


def _mean_recall(evaluations: Sequence[Evaluation | None]) -> float | None:
    rated = [(one.recall, one.questions) for one in evaluations if one and one.recall is not None]
    questions = sum(count for _, count in rated)
    return sum(recall * count for recall, count in rated) / questions if questions else None


def _minimum(compared: Sequence[Proof]) -> str:
    """Say whether each set's minimum is reached; an empty text if none has one."""
    limits = [proof for proof in compared if proof.question_set.min_recall is not None]
    if not limits:
        return ""
    below = [proof for proof in limits if proof.is_below]
    if not below:
        return f" and reaches the minimum{'s' * (len(limits) > 1)}"
    return f", below the minimum of “{below[0].question_set.name}”"


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
            Change(),
            f"{whole(figures.not_replayable)} could not be replayed"
            if figures.not_replayable else "all of them",
            link="?show=skipped#rows" if figures.not_replayable else "",
        ),
    ]  # fmt: skip


def _cost_tile(costs: BacktestCosts) -> Tile:
    """Return what the prompts with a known conversation and price would cost after the provider's cache."""
    label = "Input cost after the cache"
    if not costs.priced:
        fact = "no context names a conversation" if not costs.prompts else "no price is known"
        return Tile("cost", label, NONE, "", Change(), fact)
    return Tile(
        "cost", label, money(costs.after), "",
        _change(round((costs.after - costs.before) * 1_000_000), percent(abs(costs.share or 0.0))),
        f"from {money(costs.before)}, for {plural(costs.priced, 'context')} with a price",
    )  # fmt: skip


def _change(by: int, amount: str, *, good: str = "▼") -> Change:
    if not by:
        return Change("", "no change")
    arrow = "▲" if by > 0 else "▼"
    return Change(arrow, amount, "good" if arrow == good else "bad")
