"""Token budgets of the hand-off phases: the team's own settings, or else the defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from contextopt.agents.handoffs.models import HandoffSettings
from contextopt.agents.models import HandoffPhase
from contextopt.engine.briefs.settings import BriefSettings, PhaseBrief

BUNDLE_TOKENS = 35_000


@dataclass(frozen=True, slots=True)
class HandoffBudgets:
    """The settings of one phase. `bundle_tokens` is the budget of the context given to the phase."""

    phase: HandoffPhase
    bundle_tokens: int
    settings: BriefSettings

    @property
    def limits(self) -> PhaseBrief:
        return self.settings.for_phase(self.phase)

    @property
    def handed_tokens(self) -> int:
        """The tokens that the phase may hand on, for its brief and its critical findings."""
        return self.limits.budget_tokens + self.limits.critical_tokens

    def to_json(self) -> dict[str, Any]:
        limits = self.limits
        return {
            "bundle_tokens": self.bundle_tokens,
            "findings_tokens": limits.output_tokens,
            "brief_tokens": limits.budget_tokens,
            "critical_tokens": limits.critical_tokens,
            "max_critical": self.settings.max_critical,
            "key_categories": list(limits.key_categories),
            "critical_above": self.settings.critical_above,
            "speculation_below": self.settings.speculation_below,
        }


def default_budgets(phase: HandoffPhase) -> HandoffBudgets:
    return HandoffBudgets(phase, BUNDLE_TOKENS, BriefSettings())


def load_budgets(team_id: int) -> Mapping[HandoffPhase, HandoffBudgets]:
    """Return the settings of every phase, in one query."""
    found = {phase: default_budgets(phase) for phase in HandoffPhase}
    for stored in HandoffSettings.objects.filter(team_id=team_id):
        phase = HandoffPhase(stored.phase)
        found[phase] = _of(stored, found[phase])
    return found


def input_budget(budgets: Mapping[HandoffPhase, HandoffBudgets], phase: HandoffPhase) -> int:
    """Return the tokens a phase may be given: its context, and the hand-off of the phase before it."""
    before = phase.before
    return budgets[phase].bundle_tokens + (budgets[before].handed_tokens if before else 0)


def _of(stored: HandoffSettings, default: HandoffBudgets) -> HandoffBudgets:
    limits = replace(
        default.limits,
        budget_tokens=stored.brief_tokens,
        critical_tokens=stored.critical_tokens,
        output_tokens=stored.findings_tokens,
        key_categories=tuple(stored.key_categories),
    )
    settings = BriefSettings(
        phases={stored.phase: limits},
        critical_above=stored.critical_above,
        speculation_below=stored.speculation_below,
        max_critical=stored.max_critical,
    )
    return HandoffBudgets(default.phase, stored.bundle_tokens, settings)
