"""Filters a phase's context with the active profile, logs it, and publishes profiles."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import structlog
from django.core.exceptions import ValidationError
from django.db import transaction

from contextopt.agents.inputs import ProfileIn
from contextopt.agents.models import PhaseProfile
from contextopt.agents.phaselinks import load_active_link
from contextopt.agents.phaseversions import add_version
from contextopt.agents.tasks import check_task
from contextopt.assemblies.models import Kind
from contextopt.assemblies.savings import Saving, log_saving
from contextopt.assemblies.tokenfactors import model_warnings
from contextopt.engine.agents.contexts import AgentContext
from contextopt.engine.agents.phases import DEFAULT_PROFILES, PhaseResult, filter_phase
from contextopt.engine.agents.phases import PhaseProfile as ProfileValue
from contextopt.engine.text.tokens import Counter, Unmarked
from contextopt.engine.values import Certificate, warnings_json
from contextopt.errors import Conflict, FieldProblem, InvalidInput
from contextopt.people.models import Team

log = structlog.get_logger(__name__)

# The most phases that a team may have profiles for.
PHASES_MAX = 100


@dataclass(frozen=True, slots=True)
class ActiveProfile:
    """A phase's settings. `version` is None for a default that the team has not changed."""

    value: ProfileValue
    version: int | None


def load_active_profile(team_id: int, phase: str) -> ActiveProfile | None:
    """Return the team's active profile of the phase, or else the default; None for an unknown phase."""
    stored = PhaseProfile.objects.filter(is_active=True, team_id=team_id, phase=phase).first()
    if stored is not None:
        return ActiveProfile(stored.to_value(), stored.version)
    default = DEFAULT_PROFILES.get(phase)
    return None if default is None else ActiveProfile(default, None)


def load_active_profiles(team_id: int) -> list[ActiveProfile]:
    """Return the profile of every phase known to the team: the defaults in order, then its own."""
    found = {name: ActiveProfile(value, None) for name, value in DEFAULT_PROFILES.items()}
    for stored in PhaseProfile.objects.filter(is_active=True, team_id=team_id).order_by("phase"):
        found[stored.phase] = ActiveProfile(stored.to_value(), stored.version)
    return list(found.values())


@transaction.atomic
def publish_profile(*, team: Team, phase: str, data: ProfileIn, created_by: str) -> PhaseProfile:
    """Add the next version and make it the active one. Settings not given are carried over.

    Raises:
        InvalidInput: a setting is null, or a phase without a profile lacks one.
        Conflict: the team has as many phases as it may.
    """
    given = data.model_dump(exclude_unset=True, exclude={"note"})
    for name, value in given.items():
        if value is None:
            raise InvalidInput.of(name, "must not be null; omit it to keep the current value")
    team.lock()
    check_phase(team.pk, phase, given=given)
    current = load_active_profile(team.pk, phase)
    values = {name: getattr(current.value, name) for name in PhaseProfile.SETTINGS if current} | given
    profile = PhaseProfile(
        team=team,
        phase=phase,
        version=1,
        budget_tokens=values["budget_tokens"],
        fields=list(values["fields"]),
        note=data.note,
        created_by=created_by,
    )
    try:
        profile.full_clean(validate_constraints=False)
    except ValidationError as error:
        raise InvalidInput.of_model(error) from error
    add_version(profile)
    return profile


def check_phase(team_id: int, phase: str, *, given: Collection[str]) -> None:
    """Refuse a new phase that lacks a setting or exceeds the limit.

    Raises:
        InvalidInput: a setting is not given, and there is no profile to carry it over from.
        Conflict: the team has as many phases as it may.
    """
    if load_active_profile(team_id, phase) is not None:
        return
    rule = "is required: the phase has no profile to take it from"
    missing = [FieldProblem(name, rule) for name in PhaseProfile.SETTINGS if name not in given]
    if missing:
        raise InvalidInput(missing)
    if PhaseProfile.objects.filter(is_active=True, team_id=team_id).count() >= PHASES_MAX:
        raise Conflict(f"The team already has {PHASES_MAX} phases, the maximum.")


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

    The phase may have any name that is linked to a profile. An unknown one gets the context unchanged, with a
    warning.

    Raises:
        InvalidInput: the team has no such task.
    """
    check_task(team_id, task_id)
    started = perf_counter()
    phase = load_active_link(team_id, phase).value.profile
    active = load_active_profile(team_id, phase)
    profiles = {} if active is None else {phase: active.value}
    outcome = filter_phase(context, phase, profiles, counter)
    outcome = replace(outcome, warnings=(*outcome.warnings, *model_warnings(counter)))
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
