"""Follows a growing list: polls often while there is news, rarely while there is none."""

from collections.abc import Mapping
from dataclasses import dataclass

from contextopt.models import Assembly
from dashboard.kit.paging import Page

FASTEST_SECONDS = 2
SLOWEST_SECONDS = 15
# About an hour without news. Then the page says that it has stopped.
MAX_QUIET = 240


@dataclass(frozen=True, slots=True)
class Tail:
    """When to poll next: `newest` is the last id seen, `quiet` the number of polls without anything newer."""

    newest: int
    quiet: int

    @property
    def seconds(self) -> int:
        return min(SLOWEST_SECONDS, FASTEST_SECONDS + self.quiet)

    @property
    def is_over(self) -> bool:
        return self.quiet >= MAX_QUIET


def follow(page: Page[Assembly], asked: Mapping[str, str]) -> Tail:
    """Compare the current list with what the polling page had seen."""
    newest = page.rows[0].pk if page.rows else 0
    is_news = _number(asked.get("newest", "")) != newest
    return Tail(newest, 0 if is_news else _number(asked.get("quiet", "")) + 1)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0
