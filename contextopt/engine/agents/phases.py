"""The context for each step of a coding agent: the fields of its phase, trimmed to the phase's budget."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from contextopt.engine.agents.contexts import FIELDS, AgentContext
from contextopt.engine.agents.trims import Trimmed, trim
from contextopt.engine.text.tokens import Counter, Unmarked
from contextopt.engine.validation import MAX_INT, InvalidValue, check_int, check_text
from contextopt.engine.values import OVER_BUDGET, UNKNOWN_PHASE, ContextWarning
from contextopt.engine.wording import plural

MAX_PHASE_CHARS = 64


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


DEFAULT_PROFILES: Mapping[str, PhaseProfile] = MappingProxyType(
    {
        profile.phase: profile
        for profile in (
            PhaseProfile("confidence", 3_000, ("tree", "tree_paths", "package_manifest")),
            PhaseProfile("planning", 20_000, FIELDS),
            PhaseProfile("building", 50_000, ("files", "package_manifest")),
            PhaseProfile("diagnosis", 5_000, ("memories",)),
            PhaseProfile("reviewing", 12_000, ("memories",)),
            PhaseProfile("completing", 2_000, ()),
        )
    }
)


ANALYSIS, DESIGN, IMPLEMENTATION = HANDOFF_PHASES = ("analysis", "design", "implementation")
"""The phases whose findings are handed on, in order."""


@dataclass(frozen=True, slots=True)
class PhaseLink:
    """How the name of a phase is read: whose profile it uses, and whose hand-off it receives.

    `receives` is empty if it receives none.
    """

    phase: str
    profile: str
    receives: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"phase": self.phase, "profile": self.profile, "receives": self.receives or None}


DEFAULT_LINKS: Mapping[str, PhaseLink] = MappingProxyType(
    {
        link.phase: link
        for link in (
            PhaseLink("confidence", "confidence"),
            PhaseLink("planning", "planning", ANALYSIS),
            PhaseLink("building", "building", DESIGN),
            PhaseLink("diagnosis", "diagnosis", DESIGN),
            PhaseLink("reviewing", "reviewing", DESIGN),
            PhaseLink("completing", "completing"),
            PhaseLink(ANALYSIS, "planning"),
            PhaseLink(DESIGN, "planning", ANALYSIS),
            PhaseLink(IMPLEMENTATION, "building", DESIGN),
        )
    }
)


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """The context of a phase. `budget_tokens` is None if the phase has no profile.

    `full_tokens` counts the full context without our marks, `filtered_tokens` the text as it is sent.
    """

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
    full_tokens = counter.count(Unmarked(context))
    profile = profiles.get(phase)
    if profile is None:
        message = f"The phase {phase!r:.80} has no profile: the context is unchanged."
        warning = ContextWarning(UNKNOWN_PHASE, message)
        return PhaseResult(phase, context, None, full_tokens, counter.count(context), (warning,))
    kept = context.keeping(profile.fields)
    filtered_tokens = counter.count(kept)
    trimmed: tuple[Trimmed, ...] = ()
    warnings: tuple[ContextWarning, ...] = ()
    if filtered_tokens > profile.budget_tokens:
        kept, trimmed = trim(kept, profile.budget_tokens, counter)
        over = filtered_tokens - profile.budget_tokens
        parts = "; ".join(map(str, trimmed))
        message = f"{plural(over, 'token')} over the budget of {profile.budget_tokens:,}, trimmed: {parts}."
        warnings = (ContextWarning(OVER_BUDGET, message),)
        filtered_tokens = counter.count(kept)
    return PhaseResult(phase, kept, profile.budget_tokens, full_tokens, filtered_tokens, warnings, trimmed)
