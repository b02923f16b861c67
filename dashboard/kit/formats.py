"""Formats numbers, settings and reasons for pages."""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from contextopt.assemblies.figures import Figure, Format
from contextopt.assemblies.models import Assembly, Kind
from contextopt.engine.settings import SETTINGS
from contextopt.engine.validation import ALL

MINUS = "\N{MINUS SIGN}"
NONE = "–"
_MAGNITUDES = ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k"))

REASONS = {
    "over_record_limit": "over the record limit",
    "over_budget": "over the token budget",
    "low_relevance": "not worth the tokens",
    "duplicate_of": "near-duplicate",
    "not_loaded": "ranked too low to be read",
    "outside_window": "outside the date window",
    "deleted": "deleted",
    "not_in_phase": "not used in this phase",
    "in_retry": "part of the retry",
    "sent_before": "the agent has a newer version",
    "closed_folder": "in closed folders",
}


def setting_label(name: str) -> str:
    return SETTINGS[name].label if name in SETTINGS else name.replace("_", " ").capitalize()


def setting_words(value: object, name: str = "") -> str:
    """Return a setting as text: a dash for None, or "all" for settings where None means that."""
    if value is None and name in SETTINGS and SETTINGS[name].is_all:
        return ALL
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return whole(value) if isinstance(value, int) else NONE if value is None else str(value)


def kinds_of(kind: str) -> str:
    """Return the plural of a kind of assembly, within a sentence: space contexts."""
    return f"{Kind(kind).label.lower()}s"


def reason_words(reason: str) -> str:
    return REASONS.get(reason, reason.replace("_", " "))


def actor_words(actor: str) -> str:
    """Return the name of whoever made a change; keys are marked as keys."""
    kind, _, name = actor.partition(":")
    if not name:
        return actor
    return f"key {name}" if kind == "key" else name


_ACTIONS = {
    "config.drafted": "Draft config saved",
    "questions.created": "Question set created",
    "questions.deleted": "Question set deleted",
    "questions.minimum": "Minimum recall changed",
    "questions.renamed": "Question set renamed",
    "review.rules": "Review rules changed",
}


def action_words(action: str) -> str:
    """Return the action of a logged change as words."""
    return _ACTIONS.get(action, action.replace(".", " ").replace("_", " ").capitalize())


def code_words(code: str) -> str:
    """Return a warning's code as words."""
    return code.replace("_", " ")


def whole(value: float | None) -> str:
    return NONE if value is None else f"{value:z,.0f}".replace("-", MINUS)


def approximate(value: float, smallest: float, largest: float) -> str:
    """Return a figure from a histogram to two significant digits, all that it is accurate to.

    It is not rounded out of the range of the values seen.
    """
    rounded = float(f"{value:.2g}")
    return f"≈ {whole(rounded if smallest <= rounded <= largest else value)}"


def signed(value: float | None, digits: int = 0) -> str:
    """Return the value with its sign, using a true minus sign; zero has none."""
    if value is None:
        return NONE
    text = f"{abs(value):,.{digits}f}"
    if float(text.replace(",", "")) == 0:
        return text
    return f"{'+' if value > 0 else MINUS}{text}"


def percentage(value: float | None, digits: int = 0) -> str:
    """Return a percentage without its sign. One below 100 is never rounded up to 100."""
    if value is not None and abs(value) < 100 <= round(abs(value), digits):
        scale = 10 ** (digits + 1)
        value, digits = math.trunc(value * scale) / scale, digits + 1
    return decimals(value, digits)


def percent(rate: float | None, digits: int = 0) -> str:
    return NONE if rate is None else f"{percentage(rate * 100, digits)} %"


def decimals(value: float | None, digits: int = 2) -> str:
    return NONE if value is None else f"{value:z,.{digits}f}".replace("-", MINUS)


def ratio(value: float | None) -> str:
    """Return a ratio from 0 to 1: two decimals, or two digits of a smaller one than a tenth."""
    if value is None or not 0 < value < 0.1:
        return decimals(value)
    return f"{Decimal(f'{value:.1e}'):f}"


def tenths(value: float | None) -> str:
    return decimals(value, 1)


def money(dollars: float | None) -> str:
    """Return US dollars: with cents only below ten dollars, and two digits of less than ten cents."""
    if dollars is None:
        return NONE
    sign = MINUS if dollars < 0 else ""
    if 0 < abs(dollars) < 0.1:
        return f"{sign}${Decimal(f'{abs(dollars):.1e}'):f}"
    return f"{sign}${abs(dollars):,.{2 if abs(dollars) < 10 else 0}f}"


def milliseconds(value: float | None) -> str:
    """Return a duration without its unit: one decimal below 100 ms, none above."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def compact(value: float) -> tuple[str, str]:
    """Return a number scaled to its magnitude, and that magnitude: 21_400_000 becomes ("21.4", "M")."""
    for size, letter in _MAGNITUDES:
        if abs(value) >= size:
            return decimals(value / (1_000 if letter == "k" else size), 1), letter
    return whole(value), ""


def cost_words(saved: int) -> str:
    """Describe a saving or a cost in tokens in words: a sign alone is easily missed."""
    if saved == 0:
        return "no difference"
    return f"{whole(abs(saved))} tokens {'fewer' if saved > 0 else 'more'}"


def fewer_words(rate: float | None) -> str:
    """Describe the share saved in words."""
    if rate is None:
        return NONE
    share = percent(abs(rate))
    return "about the same" if share == percent(0.0) else f"{share} {'more' if rate < 0 else 'fewer'}"


_FORMATS: dict[Format, Callable[[Any], str]] = {
    Format.WHOLE: whole,
    Format.SIGNED: signed,
    Format.RATIO: ratio,
    Format.PERCENT: percent,
    Format.MILLISECONDS: milliseconds,
    Format.YES_NO: lambda value: "yes" if value else "no",
}


def figure_words(figure: Figure, row: Assembly) -> str:
    """Return a figure of the row as text, with the figure that it is a part of."""
    text = _FORMATS[figure.format](getattr(row, figure.name))
    return f"{text} of {whole(getattr(row, figure.out_of))}" if figure.out_of else text
