"""Candidates for one section of a step: its items, their ids, and what was dropped while looking."""

from collections import Counter as Multiset
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from contextopt.engine.agents.steps import NAMED_DROPPED, LeftOut

LOW_RELEVANCE = "low_relevance"


@dataclass(frozen=True, slots=True)
class Found:
    """Items with the best first. `names` has the id of each."""

    items: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    left_out: LeftOut = field(default_factory=LeftOut)

    def after(self, items: tuple[Any, ...], names: Iterable[str]) -> "Found":
        """Return these items after those that the caller gave."""
        return Found((*items, *self.items), (*names, *self.names), self.left_out)


def leave_out(dropped: Iterable[tuple[str, str]]) -> LeftOut:
    """Return dropped items, given as id and reason, with all of them counted and the best named."""
    named = list(dropped)
    return LeftOut(tuple(named[:NAMED_DROPPED]), dict(Multiset(reason for _, reason in named)))
