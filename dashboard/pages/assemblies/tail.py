"""Follows a growing list: polls often while there is news, rarely while there is none."""

from collections.abc import Mapping
from dataclasses import dataclass

from contextopt.inputs import read_digits
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
    is_news = (read_digits(asked.get("newest", "")) or 0) != newest
    return Tail(newest, 0 if is_news else (read_digits(asked.get("quiet", "")) or 0) + 1)
