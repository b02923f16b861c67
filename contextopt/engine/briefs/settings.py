"""How the findings of each phase are compressed: sizes in tokens, categories, thresholds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from contextopt.engine.validation import InvalidValue, check_int, check_text

MAX_BUDGET_TOKENS = 200_000
MIN_BUDGET_TOKENS = 20
MAX_CATEGORIES = 50


@dataclass(frozen=True, slots=True)
class PhaseBrief:
    """The hand-off of one phase.

    `critical_tokens` and `output_tokens` only trigger warnings: critical findings and findings are never cut.
    `priorities` orders categories in the brief, the most important first; others follow by name.
    """

    budget_tokens: int = 450
    critical_tokens: int = 1_350
    output_tokens: int = 7_200
    key_categories: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_int("budget_tokens", self.budget_tokens, MIN_BUDGET_TOKENS, MAX_BUDGET_TOKENS)
        for name in ("critical_tokens", "output_tokens"):
            check_int(name, getattr(self, name), 0, MAX_BUDGET_TOKENS)
        for name in ("key_categories", "priorities"):
            values = getattr(self, name)
            if len(values) > MAX_CATEGORIES:
                raise InvalidValue(name, f"must have at most {MAX_CATEGORIES} items")
            for value in values:
                check_text(name, value)


DEFAULT_PHASES: Mapping[str, PhaseBrief] = {
    "analysis": PhaseBrief(
        key_categories=("constraints", "database_needs", "existing_patterns"),
        priorities=(
            "constraints",
            "existing_patterns",
            "database_needs",
            "dependencies",
            "risks",
            "open_questions",
        ),
    ),
    "design": PhaseBrief(
        budget_tokens=600,
        critical_tokens=2_000,
        output_tokens=4_800,
        key_categories=("api_contracts", "data_model", "components"),
        priorities=("api_contracts", "data_model", "components", "architecture", "risks", "alternatives"),
    ),
    "implementation": PhaseBrief(
        budget_tokens=600,
        critical_tokens=2_000,
        output_tokens=4_800,
        priorities=("changes", "tests", "follow_ups"),
    ),
}


@dataclass(frozen=True, slots=True)
class BriefSettings:
    """Settings of compression. `other` applies to phases that are not named."""

    phases: Mapping[str, PhaseBrief] = field(default_factory=lambda: dict(DEFAULT_PHASES), hash=False)
    other: PhaseBrief = PhaseBrief()
    critical_above: float = 0.9
    """A finding in a key category with a higher confidence is critical."""
    speculation_below: float = 0.4
    max_critical: int = 5
    """More critical findings trigger a warning."""

    def __post_init__(self) -> None:
        for name in ("critical_above", "speculation_below"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise InvalidValue(name, "must be a number from 0 to 1")
        check_int("max_critical", self.max_critical, 0, 1_000)

    def for_phase(self, phase: str) -> PhaseBrief:
        return self.phases.get(phase, self.other)

    def with_budget(self, phase: str, budget_tokens: int) -> Self:
        """Return a copy that limits this phase's brief to this many tokens."""
        changed = replace(self.for_phase(phase), budget_tokens=budget_tokens)
        return replace(self, phases={**self.phases, phase: changed})
