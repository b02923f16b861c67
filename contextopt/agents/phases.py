"""The only way to filter a phase's context: active profile → engine → log."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import structlog

from contextopt.agents.profiles import load_active_profile
from contextopt.agents.tasks import check_task
from contextopt.assemblies.log import Saving, log_saving
from contextopt.assemblies.models import Kind
from contextopt.engine.agents.contexts import AgentContext
from contextopt.engine.agents.phases import PhaseResult, filter_phase
from contextopt.engine.prompts.values import Certificate
from contextopt.engine.prompts.warnings import warnings_json
from contextopt.engine.text.counters import Counter, Unmarked

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The context sent to a phase, with its proof. `id` is None if it was not logged."""

    id: int | None
    outcome: PhaseResult
    profile_version: int | None
    certificate: Certificate
    text: str

    def to_json(self) -> dict[str, Any]:
        """Return the response of the API."""
        return {
            "id": self.id,
            "phase": self.outcome.phase,
            "profile_version": self.profile_version,
            "budget_tokens": self.outcome.budget_tokens,
            "text": self.text,
            **figures(self.outcome),
            "trimmed": [cut._asdict() for cut in self.outcome.trimmed],
            "certificate": self.certificate.to_json(),
        }


def figures(outcome: PhaseResult) -> dict[str, Any]:
    """Return the output of `filter_phase --json`."""
    return {
        "context": outcome.context.to_json(),
        "full_tokens": outcome.full_tokens,
        "filtered_tokens": outcome.filtered_tokens,
        "saved_tokens": outcome.saved_tokens,
        "saved_percent": outcome.saved_percent,
        "warnings": warnings_json(outcome.warnings),
    }


def filter_agent_context(
    *,
    team_id: int,
    phase: str,
    context: AgentContext,
    counter: Counter,
    actor: str,
    model: str = "",
    task_id: int | None = None,
    store: bool = True,
) -> FilterResult:
    """Decide which parts of an agent's context the phase is sent, and log it.

    An unknown phase gets the context unchanged, with a warning.

    Raises:
        InvalidInput: the team has no such task.
    """
    check_task(team_id, task_id)
    started = perf_counter()
    active = load_active_profile(team_id, phase)
    profiles = {} if active is None else {phase: active.value}
    outcome = filter_phase(context, phase, profiles, counter)
    config = {**active.value.to_json(), "version": active.version} if active else {}
    saving = saving_of(context, outcome, config, counter, (perf_counter() - started) * 1_000)
    saving = replace(saving, model=model, task_id=task_id)
    assembly = log_saving(team_id=team_id, saving=saving, actor=actor) if store else None
    result = FilterResult(
        id=assembly.pk if assembly else None,
        outcome=outcome,
        profile_version=active.version if active else None,
        certificate=saving.certificate(),
        text=saving.text,
    )
    _log_event(result)
    return result


def saving_of(
    context: AgentContext,
    outcome: PhaseResult,
    config: Mapping[str, Any],
    counter: Counter,
    assembly_ms: float,
) -> Saving:
    """Return the saving of a filtered context; `config` is the profile's settings, empty without one."""
    return Saving(
        kind=Kind.PHASE,
        before=Unmarked(context),
        after=outcome.context,
        tokens_before=outcome.full_tokens,
        tokens_after=outcome.filtered_tokens,
        tokens_available=outcome.budget_tokens,
        counter=counter,
        assembly_ms=assembly_ms,
        phase=outcome.phase,
        truncated=bool(outcome.trimmed),
        details={"trimmed": [cut._asdict() for cut in outcome.trimmed]},
        warnings=outcome.warnings,
        config=config,
        request={"phase": outcome.phase, "task": context.task},
    )


def _log_event(result: FilterResult) -> None:
    outcome = result.outcome
    log.info(
        "phase_context_filtered",
        assembly_id=result.id,
        phase=outcome.phase,
        full_tokens=outcome.full_tokens,
        filtered_tokens=outcome.filtered_tokens,
        saved_tokens=outcome.saved_tokens,
        saved_percent=outcome.saved_percent,
    )
