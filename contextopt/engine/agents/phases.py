"""The context for each step of a coding agent: the fields of its phase, trimmed to the phase's budget."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from contextopt.engine.agents.contexts import FIELDS, AgentContext, ContextFile, Item, cut_item, item_body
from contextopt.engine.prompts.warnings import OVER_BUDGET, UNKNOWN_PHASE, ContextWarning
from contextopt.engine.text.counters import Counter
from contextopt.engine.text.errors import InvalidValue
from contextopt.engine.text.validation import MAX_INT, check_int, check_text

MAX_PHASE_CHARS = 64
TRIM_ORDER = ("docs", "memories", "files", "tree_paths", "tree", "tools", "package_manifest")
"""The least important field first."""


@dataclass(frozen=True, slots=True)
class PhaseProfile:
    """The fields that a phase keeps, and their token budget."""

    phase: str
    budget_tokens: int
    fields: tuple[str, ...]

    def __post_init__(self) -> None:
        check_text("phase", self.phase)
        if not 1 <= len(self.phase) <= MAX_PHASE_CHARS:
            raise InvalidValue("phase", f"must have 1 to {MAX_PHASE_CHARS} characters")
        check_int("budget_tokens", self.budget_tokens, 0, MAX_INT)
        if not isinstance(self.fields, tuple):
            raise InvalidValue("fields", "must be a tuple of names")
        for position, name in enumerate(self.fields):
            if name not in FIELDS:
                raise InvalidValue(f"fields[{position}]", f"must be one of {', '.join(FIELDS)}")
        if len(set(self.fields)) < len(self.fields):
            raise InvalidValue("fields", "must name each field once")

    def to_json(self) -> dict[str, Any]:
        return {"phase": self.phase, "budget_tokens": self.budget_tokens, "fields": list(self.fields)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read the output of `to_json`.

        Raises:
            InvalidValue: names the field that is missing, unknown or wrong.
        """
        names = ("phase", "budget_tokens", "fields")
        for name in (*names, *values):
            if name not in values:
                raise InvalidValue(name, "is missing")
            if name not in names:
                raise InvalidValue(str(name)[:80], "is not a field of a phase profile")
        kept = values["fields"]
        return cls(values["phase"], values["budget_tokens"], tuple(kept) if isinstance(kept, list) else kept)


def _profile(phase: str, budget_tokens: int, *fields: str) -> tuple[str, PhaseProfile]:
    return phase, PhaseProfile(phase, budget_tokens, fields)


DEFAULT_PROFILES: Mapping[str, PhaseProfile] = MappingProxyType(
    dict(
        [
            _profile("confidence", 3_000, "tree", "tree_paths", "package_manifest"),
            _profile("planning", 20_000, *FIELDS),
            _profile("building", 50_000, "files", "package_manifest"),
            _profile("diagnosis", 5_000, "memories"),
            _profile("reviewing", 12_000, "memories"),
            _profile("completing", 2_000),
        ]
    )
)


class Trimmed(NamedTuple):
    """The part of one field that was trimmed: items removed from its end, and lines cut off the last kept
    one.

    The tree and the manifest are one item each. `cut_lines` is 0 if no item was cut.
    """

    field: str
    dropped_items: int
    cut_lines: int

    def __str__(self) -> str:
        parts = []
        if self.dropped_items:
            parts.append(f"{self.dropped_items} left out")
        if self.cut_lines:
            parts.append(f"the last kept one cut by {self.cut_lines} lines")
        return f"{self.field}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """The context of a phase. `budget_tokens` is None if no profile knows the phase."""

    phase: str
    context: AgentContext
    budget_tokens: int | None
    full_tokens: int
    filtered_tokens: int
    warnings: tuple[ContextWarning, ...] = ()
    trimmed: tuple[Trimmed, ...] = ()

    @property
    def saved_tokens(self) -> int:
        return self.full_tokens - self.filtered_tokens

    @property
    def saved_percent(self) -> int:
        """Return the saving as a whole percentage, halves rounded up; 0 if there was nothing to save."""
        if not self.full_tokens:
            return 0
        return (200 * self.saved_tokens + self.full_tokens) // (2 * self.full_tokens)


def filter_phase(
    context: AgentContext,
    phase: str,
    profiles: Mapping[str, PhaseProfile],
    counter: Counter,
) -> PhaseResult:
    """Keep the fields the phase needs and trim them to the budget, the least important first.

    A phase without a profile gets the context unchanged, with a warning. If a field does not fit, whole items
    are removed from its end, and the last remaining one is cut at a line.
    """
    check_text("phase", phase)
    full_tokens = counter.count(context)
    profile = profiles.get(phase)
    if profile is None:
        message = f"The phase {phase!r:.80} has no profile: the context is unchanged."
        warning = ContextWarning(UNKNOWN_PHASE, message)
        return PhaseResult(phase, context, None, full_tokens, full_tokens, (warning,))
    kept = context.keeping(profile.fields)
    filtered_tokens = counter.count(kept)
    trimmed: tuple[Trimmed, ...] = ()
    warnings: tuple[ContextWarning, ...] = ()
    if filtered_tokens > profile.budget_tokens:
        kept, trimmed = _trim(kept, profile.budget_tokens, counter)
        over = filtered_tokens - profile.budget_tokens
        parts = "; ".join(map(str, trimmed))
        message = f"{over} tokens over the budget of {profile.budget_tokens}, trimmed: {parts}."
        warnings = (ContextWarning(OVER_BUDGET, message),)
        filtered_tokens = counter.count(kept)
    return PhaseResult(phase, kept, profile.budget_tokens, full_tokens, filtered_tokens, warnings, trimmed)


def _trim(
    context: AgentContext, budget_tokens: int, counter: Counter
) -> tuple[AgentContext, tuple[Trimmed, ...]]:
    """Empty one field after another until the rest fits, then give the last one as much back as fits."""
    trimmed = []
    for name in TRIM_ORDER:
        items = _items(context, name)
        if not items:
            continue
        without = _with_items(context, name, ())
        if not counter.fits(without, budget_tokens):
            trimmed.append(Trimmed(name, len(items), 0))
            context = without
            continue
        context, cut = _trim_field(context, name, budget_tokens, counter)
        trimmed.append(cut)
        break
    return context, tuple(trimmed)


def _trim_field(
    context: AgentContext, name: str, budget_tokens: int, counter: Counter
) -> tuple[AgentContext, Trimmed]:
    """Keep the longest beginning of the field that fits."""
    items = _items(context, name)
    share = _estimate_share(context, name, budget_tokens, counter)

    def fits(kept: Sequence[Any]) -> bool:
        return counter.fits(_with_items(context, name, kept), budget_tokens)

    sizes = [len(_body(item)) for item in items]
    whole = _longest(len(items), lambda count: fits(items[:count]), _guess(sizes, share * sum(sizes)))
    kept, first_out = list(items[:whole]), items[whole]
    lines = _body(first_out).splitlines(keepends=True) if name != "tree_paths" else []

    def shortened(count: int) -> list[Any]:
        part = _cut(first_out, "".join(lines[:count])) if count else None
        return kept if part is None else [*kept, part]

    room = share * sum(sizes) - sum(sizes[:whole])
    stays = _longest(len(lines) - 1, lambda count: fits(shortened(count)), _guess(map(len, lines), room))
    final = shortened(stays)
    is_cut = len(final) > whole
    outcome = Trimmed(name, len(items) - len(final), len(lines) - stays if is_cut else 0)
    return _with_items(context, name, final), outcome


def _estimate_share(context: AgentContext, name: str, budget_tokens: int, counter: Counter) -> float:
    """Estimate which share of the field's characters fits. A poor estimate only costs time."""
    rest = counter.count(_with_items(context, name, ()))
    field_tokens = counter.count(context) - rest
    return (budget_tokens - rest) / field_tokens if field_tokens > 0 else 0.0


def _guess(sizes: Iterable[int], room: float) -> int:
    used = 0
    for count, size in enumerate(sizes):
        used += size
        if used > room:
            return count
    return 0


def _longest(total: int, fits: Callable[[int], bool], guess: int) -> int:
    """Return a count up to `total` that fits while the next one does not; 0 always fits.

    The search starts at the estimate and moves outwards, so a good one needs two or three steps.
    """
    if total <= 0:
        return 0
    low = high = min(max(guess, 0), total)
    step = 1
    if low == 0 or fits(low):
        while (high := min(low + step, total)) > low and fits(high):
            low, step = high, 2 * step
    else:
        while (low := max(high - step, 0)) > 0 and not fits(low):
            high, step = low, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _items(context: AgentContext, name: str) -> tuple[Any, ...]:
    """Return the field as a list of items. A text is one item, or none if empty."""
    value = getattr(context, name)
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(value)


def _with_items(context: AgentContext, name: str, items: Sequence[Any]) -> AgentContext:
    is_text = isinstance(getattr(context, name), str)
    changes: dict[str, Any] = {name: "".join(items) if is_text else tuple(items)}
    return replace(context, **changes)


def _body(item: ContextFile | Item) -> str:
    return item.content if isinstance(item, ContextFile) else item_body(item)


def _cut(item: ContextFile | Item, body: str) -> ContextFile | Item | None:
    return ContextFile(item.path, body) if isinstance(item, ContextFile) else cut_item(item, body)
