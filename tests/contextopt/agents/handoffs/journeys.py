"""Short helpers for working with a task's findings."""

from typing import Any

from contextopt.agents.handoffs.bundles import Bundle, build_bundle
from contextopt.agents.handoffs.findings import change_finding, compress_phase, resolve_finding
from contextopt.agents.handoffs.inputs import BundleIn, CompressIn, FindingPatch, ResolutionIn
from contextopt.agents.handoffs.models import Finding, PhaseCompression
from contextopt.agents.handoffs.status import task_status
from contextopt.agents.models import Task


def compress(task: Task, **options: Any) -> PhaseCompression:
    data = CompressIn(**options)
    return compress_phase(team_id=task.team_id, task_id=task.pk, data=data, actor="test")


def resolve(task: Task, number: int, answer: str = "Whole cents.") -> Finding:
    data = ResolutionIn(answer=answer)
    return resolve_finding(team_id=task.team_id, task_id=task.pk, number=number, data=data, actor="user:olga")


def bundle_of(task: Task, **options: Any) -> Bundle:
    return build_bundle(team_id=task.team_id, task_id=task.pk, data=BundleIn(**options))


def change(task: Task, number: int, **options: Any) -> Finding:
    data = FindingPatch(**options)
    return change_finding(team_id=task.team_id, task_id=task.pk, number=number, data=data, actor="user:olga")


def status(task: Task) -> dict[str, Any]:
    return task_status(team_id=task.team_id, task_id=task.pk).to_json()
