"""Counts, lists and days as they are written in sentences."""

from collections.abc import Iterable
from datetime import date


def plural(count: int, noun: str, many: str = "") -> str:
    """Return a count with its noun: 1 file, 2 files. `many` is the plural if it isn't the noun with an s."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def listed(words: Iterable[str]) -> str:
    """Join words as in a sentence: a, b and c."""
    *most, last = list(words) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def day(moment: date) -> str:
    """Return the day of a moment: 2 March 2026."""
    return f"{moment.day} {moment:%B %Y}"
