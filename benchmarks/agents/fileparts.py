"""Variants of the ranking and packing, each without one part."""

from dataclasses import dataclass, replace

from contextopt.engine.code.filescores import Weights
from contextopt.engine.code.hunks import HunkWeights
from contextopt.engine.code.packing import Policy

_PLAIN = HunkWeights(title=0.0, identifiers=0.0, rarity=0.0, heads=0.0, neighbours=0.0, edges=0.0)


@dataclass(frozen=True, slots=True)
class Setup:
    """How files are ranked and packed."""

    weights: Weights = Weights()  # noqa: RUF009 - frozen
    policy: Policy = Policy()  # noqa: RUF009 - frozen


def _hunks(**changed: float) -> Setup:
    return Setup(policy=Policy(hunks=replace(HunkWeights(), **changed)))


ABLATIONS = {
    "no whole identifiers": Setup(weights=Weights(identifiers=0.0)),
    "no kinds that step back": Setup(weights=Weights(kind=0.0)),
    "no title weight in hunks": _hunks(title=0.0),
    "no whole identifiers in hunks": _hunks(identifiers=0.0),
    "no rarity in hunks": _hunks(rarity=0.0),
    "no weight of heads in hunks": _hunks(heads=0.0),
    "no neighbours in hunks": _hunks(neighbours=0.0),
    "no edges in hunks": _hunks(edges=0.0),
    "shares of density 6 and tail .15": Setup(policy=Policy(density=6.0, tail=0.15, score_power=0.0)),
    "shares by rank alone, tail .05": Setup(policy=Policy(tail=0.05, score_power=0.0)),
    "no use of leftover room": Setup(policy=Policy(uses_leftover=False)),
    "none of these": Setup(
        Weights(identifiers=0.0, kind=0.0, seed=4.0),
        Policy(density=6.0, tail=0.15, score_power=0.0, paths=0.03, hunks=_PLAIN, uses_leftover=False),
    ),
}
