"""Adds and changes the findings of a task's phases, and hands them on from phase to phase."""

from collections.abc import Sequence
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from contextopt.agents.handoffs.compression import make_compression
from contextopt.agents.handoffs.inputs import AdvanceIn, CompressIn, FindingIn, FindingPatch, ResolutionIn
from contextopt.agents.handoffs.models import (
    FINDINGS_MAX,
    PHASE_TOKENS_MAX,
    Decision,
    Finding,
    PhaseCompression,
    Resolution,
    finding_key,
    number_of,
)
from contextopt.agents.inputs import naming
from contextopt.agents.models import HandoffPhase, Task
from contextopt.agents.tasks import lock_task
from contextopt.engine.briefs.findings import render_finding
from contextopt.engine.text.tokens import DEFAULT_ENCODING, get_tokenizer
from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.people.audit import note_event

log = structlog.get_logger(__name__)

IF_CLOSED = "its findings can no longer change"


def add_finding(*, team_id: int, task_id: int, data: FindingIn, actor: str) -> Finding:
    """Add a finding to the task's current phase, or to the earlier phase that it names.

    The task's row is locked, so that two findings added at once get different numbers.

    Raises:
        NotFound: the team has no such task.
        Conflict: the task is closed, or its phase has as many findings as it may.
        InvalidInput: names the field that does not fit the task.
    """
    with transaction.atomic():
        finding = _build(lock_task(team_id, task_id, if_closed=IF_CLOSED), data, actor)
        finding.save(force_insert=True)
    log.info(
        "finding_added",
        task_id=task_id,
        finding=finding.key,
        phase=finding.phase,
        category=finding.category,
        tokens=finding.tokens,
    )
    return finding


def check_finding(*, task: Task, data: FindingIn) -> Finding:
    """Return the finding as it would be added now, without storing it.

    Raises:
        Conflict: the task's phase has as many findings as it may.
        InvalidInput: names the field that does not fit the task.
    """
    return _build(task, data, "")


def _build(task: Task, data: FindingIn, actor: str) -> Finding:
    latest: int | None = task.findings.aggregate(latest=Max("number"))["latest"]
    number = (latest or 0) + 1
    if data.id is not None and number_of(data.id) < number:
        raise InvalidInput.of("id", f"{data.id} already exists; the next is {finding_key(number)}")
    if data.id is not None and number_of(data.id) > number:
        raise InvalidInput.of("id", f"must be {finding_key(number)}, the next number in sequence")
    if data.phase is not None and _is_ahead(task, data.phase):
        message = f"must be {task.phase}, the current phase, or an earlier one"
        raise InvalidInput.of("phase", message)
    finding = Finding(
        task=task,
        number=number,
        phase=data.phase or task.phase,
        category=data.category,
        content=_in_stored_order(data.content),
        tags=list(dict.fromkeys(data.tags)),
        confidence=data.confidence,
        depends_on=_check_dependencies(task, data.depends_on, number),
        implementation_ready=data.implementation_ready,
        decision=data.decision or "",
        created_by=actor,
    )
    finding.tokens = _count(finding)
    _check_room(task, HandoffPhase(finding.phase), finding.tokens)
    return finding


def _count(finding: Finding) -> int:
    with naming():
        return get_tokenizer(DEFAULT_ENCODING).count(render_finding(finding.to_value()))


def _in_stored_order(value: Any) -> Any:
    """Return JSON with its keys in PostgreSQL's order, so that counting and reading see the same text."""
    if isinstance(value, list):
        return [_in_stored_order(item) for item in value]
    if not isinstance(value, dict):
        return value
    keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
    return {key: _in_stored_order(value[key]) for key in keys}


def _is_ahead(task: Task, phase: str) -> bool:
    return phase != task.phase and phase not in HandoffPhase(task.phase).all_before


def _check_dependencies(task: Task, keys: Sequence[str], number: int) -> list[int]:
    numbers = [number_of(key) for key in keys]
    known = set(task.findings.filter(number__in=numbers).values_list("number", flat=True))
    for place, needed in enumerate(numbers):
        if needed == number:
            raise InvalidInput.of(f"depends_on.{place}", f"{finding_key(number)} would depend on itself")
        if needed not in known:
            raise InvalidInput.of(f"depends_on.{place}", f"the task has no finding {finding_key(needed)}")
    return list(dict.fromkeys(numbers))


def _check_room(task: Task, phase: HandoffPhase, tokens: int) -> None:
    present = task.findings.filter(phase=phase)
    if present.count() >= FINDINGS_MAX:
        raise Conflict(f"Task {task.pk} already has {FINDINGS_MAX} findings in {phase}, the maximum.")
    if (total := present.measure() + tokens) > PHASE_TOKENS_MAX:
        raise InvalidInput.of(
            "content",
            f"would bring the findings of {phase} to {total:,} tokens; the maximum is {PHASE_TOKENS_MAX:,}",
        )


def find_finding(task: Task, number: int) -> Finding:
    """Return a finding of the task.

    Raises:
        NotFound: it has no finding with this number.
    """
    finding = Finding.objects.filter(task=task, number=number).first()
    if finding is None:
        raise NotFound(f"Task {task.pk} has no finding {finding_key(number)}.")
    return finding


def resolve_finding(*, team_id: int, task_id: int, number: int, data: ResolutionIn, actor: str) -> Finding:
    """Answer a finding's decision, or correct its answer. Earlier answers stay, and the newest is handed on.

    Raises:
        NotFound: the team has no such task, or the task no such finding.
        Conflict: the task is closed, or the finding is not a decision.
    """
    with transaction.atomic():
        task = lock_task(team_id, task_id, if_closed=IF_CLOSED)
        finding = find_finding(task, number)
        if not finding.decision:
            raise Conflict(f"{finding.key} is not a decision.")
        before = finding.resolution
        if finding.decision == Decision.RESOLVED and before == data.answer:
            return finding
        latest: int = finding.resolutions.aggregate(latest=Max("number", default=0))["latest"]
        Resolution.objects.create(finding=finding, number=latest + 1, answer=data.answer, created_by=actor)
        finding.decision, finding.resolution = Decision.RESOLVED, data.answer
        finding.resolved_by, finding.resolved_at = actor, timezone.now()
        finding.tokens = _count(finding)
        finding.save(update_fields=["decision", "resolution", "resolved_by", "resolved_at", "tokens"])
        note_event(
            team_id=team_id,
            actor=actor,
            action="finding.corrected" if before else "finding.resolved",
            subject=f"{finding.key} of task {task.pk}",
            before={"answer": before} if before else None,
            after={"answer": data.answer},
        )
    log.info("decision_resolved", task_id=task.pk, finding=finding.key, actor=actor)
    return finding


def change_finding(*, team_id: int, task_id: int, number: int, data: FindingPatch, actor: str) -> Finding:
    """Set a finding's tags and dependencies; its content stays. The next bundle uses them.

    Raises:
        NotFound: the team has no such task, or the task no such finding.
        Conflict: the task is closed.
        InvalidInput: a dependency is missing, or would close a circle.
    """
    with transaction.atomic():
        task = lock_task(team_id, task_id, if_closed=IF_CLOSED)
        finding = find_finding(task, number)
        before = {"tags": finding.tags, "depends_on": finding.dependencies}
        given = data.model_fields_set
        if "tags" in given:
            finding.tags = list(dict.fromkeys(data.tags))
        if "depends_on" in given:
            finding.depends_on = _check_dependencies(task, data.depends_on, number)
            _refuse_circle(task, finding)
        after = {"tags": finding.tags, "depends_on": finding.dependencies}
        if after == before:
            return finding
        finding.tokens = _count(finding)
        finding.relabelled_by, finding.relabelled_at = actor, timezone.now()
        finding.save(update_fields=["tags", "depends_on", "tokens", "relabelled_by", "relabelled_at"])
        subject = f"{finding.key} of task {task.pk}"
        note_event(
            team_id=team_id,
            actor=actor,
            action="finding.changed",
            subject=subject,
            before=before,
            after=after,
        )
    log.info("finding_changed", task_id=task.pk, finding=finding.key, actor=actor)
    return finding


def _refuse_circle(task: Task, finding: Finding) -> None:
    """Refuse a dependency that depends on the finding itself, directly or not."""
    links = dict(task.findings.exclude(pk=finding.pk).values_list("number", "depends_on"))
    for place, needed in enumerate(finding.depends_on):
        waiting, reached = [needed], set[int]()
        while waiting:
            current = waiting.pop()
            if current == finding.number:
                message = f"would be circular: {finding_key(needed)} depends on {finding.key}"
                raise InvalidInput.of(f"depends_on.{place}", message)
            if current not in reached:
                reached.add(current)
                waiting.extend(links.get(current, ()))


def compress_phase(*, team_id: int, task_id: int, data: CompressIn, actor: str) -> PhaseCompression:
    """Compress the findings of the task's current phase, or of an earlier one again.

    Unchanged findings return the same compression. Otherwise a new version is made, and the others stay.

    Raises:
        NotFound: the team has no such task.
        OpenDecisions: decisions of the phase are open, and it was not forced.
        Conflict: the task is closed, not in this phase yet, or has no findings in it.
    """
    with transaction.atomic():
        task = lock_task(team_id, task_id, if_closed=IF_CLOSED)
        phase = HandoffPhase(data.phase or task.phase)
        if _is_ahead(task, phase):
            raise Conflict(f"Task {task_id} is in {task.phase}: {phase} cannot be compressed yet.")
        return make_compression(task, phase, is_forced=data.force, actor=actor)


def advance_phase(*, team_id: int, task_id: int, data: AdvanceIn, actor: str) -> Task:
    """Compress the current phase and enter the next one. Phases are never skipped or repeated.

    Raises:
        NotFound: the team has no such task.
        OpenDecisions: decisions of the phase are open, and it was not forced.
        Conflict: the task is closed, in its last phase, without findings, or not before the expected phase.
    """
    with transaction.atomic():
        task = lock_task(team_id, task_id, if_closed=IF_CLOSED)
        following = HandoffPhase(task.phase).after
        if following is None:
            raise Conflict(f"Task {task_id} is in {task.phase}, the last phase. Complete the task instead.")
        if data.to not in {None, following}:
            raise Conflict(
                f"Task {task_id} is in {task.phase}: the next phase is {following}, not {data.to}."
            )
        phase = HandoffPhase(task.phase)
        compression = make_compression(task, phase, is_forced=data.force, actor=actor)
        task.enter(following)
        task.save(update_fields=["phase", f"{following}_at", "updated_at"])
    log.info(
        "phase_advanced", task_id=task.pk, phase=task.phase, tokens=compression.tokens_after, actor=actor
    )
    return task
