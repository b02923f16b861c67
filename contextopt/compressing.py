"""From a phase's findings to what the next phase is handed: the engine's brief, a model's, and the log."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import structlog
from django.db import transaction
from django.utils import timezone

from contextopt import completions
from contextopt.engine import findings as values
from contextopt.engine.briefs import compress, find_critical, with_dependencies
from contextopt.engine.counters import RenderedCounter
from contextopt.engine.findings import render_finding
from contextopt.engine.tokens import get_tokenizer
from contextopt.errors import Conflict, OpenDecisions
from contextopt.findinginputs import number_of
from contextopt.handoffbudgets import HandoffBudgets, budgets_in_force
from contextopt.models import BriefState, Finding, HandoffPhase, Kind, PhaseCompression, Task
from contextopt.models.assemblies import DEMO_ACTOR
from contextopt.models.findings import finding_key
from contextopt.savings import Saving, log_saving

log = structlog.get_logger(__name__)

# The budgets of hand-offs are counted with it.
ENCODING = "cl100k_base"
# Changes when the same findings would give another brief.
WRITER_VERSION = "extract 1"
NOTE_MAX = 500


@dataclass(frozen=True, slots=True)
class PlainText:
    """A text that is sent as it is."""

    text: str

    def render(self) -> str:
        return self.text

    def field_chars(self) -> list[int]:
        return [len(self.text)]


def make_compression(task: Task, *, is_forced: bool, actor: str) -> PhaseCompression:
    """Compress the present phase of a task whose row the caller holds.

    Findings that have not changed give the stored compression again; else the new one takes its place, for
    nothing was handed on yet.

    Raises:
        OpenDecisions: decisions of the phase are open, and it is not forced.
        Conflict: the phase has no findings.
    """
    findings = list(Finding.objects.filter(task=task, phase=task.phase).in_order())
    if not findings:
        raise Conflict(f"Task {task.pk} has no findings in {task.phase}: there is nothing to hand on.")
    undecided = [finding.number for finding in findings if finding.is_open]
    if undecided and not is_forced:
        raise OpenDecisions([finding_key(number) for number in undecided], task.phase)
    budgets = budgets_in_force(task.team_id)[HandoffPhase(task.phase)]
    digest = _digest(findings, budgets)
    stored = PhaseCompression.objects.filter(task=task, phase=task.phase).first()
    if stored is not None and stored.findings_hash == digest:
        return stored
    if stored is not None:
        stored.delete()
    compression = _compress(task, findings, budgets)
    compression.findings_hash = digest
    compression.undecided = undecided
    compression.is_forced = bool(undecided)
    compression.created_by = actor[:160]
    compression.save(force_insert=True)
    if compression.brief_state == BriefState.NONE:
        log_handoff(compression)
    return compression


def _digest(findings: Sequence[Finding], budgets: HandoffBudgets) -> str:
    """Return a hash of all that can change of what a compression depends on; what a finding says cannot."""
    states = [(finding.number, finding.decision, finding.resolution) for finding in findings]
    text = json.dumps([states, budgets.to_json(), WRITER_VERSION, ENCODING])
    return hashlib.sha256(text.encode()).hexdigest()


def _compress(task: Task, findings: Sequence[Finding], budgets: HandoffBudgets) -> PhaseCompression:
    tokenizer = get_tokenizer(ENCODING)
    started = perf_counter()
    handed = with_needed(task, findings, budgets)
    result = compress(handed, phase=task.phase, settings=budgets.settings, tokenizer=tokenizer)
    return PhaseCompression(
        task=task,
        phase=task.phase,
        extract=result.brief,
        extract_tokens=result.brief_tokens,
        brief_state=BriefState.PENDING if completions.is_configured() else BriefState.NONE,
        critical=[number_of(key) for key in result.critical],
        critical_tokens=result.critical_tokens,
        tokens_before=result.tokens_before,
        findings_count=len(findings),
        discarded=[{"id": each.id, "reason": each.reason} for each in result.discarded],
        in_brief=[number_of(key) for key in result.in_brief],
        warnings=list(result.warnings),
        writer_version=WRITER_VERSION,
        settings=budgets.to_json(),
        encoding=ENCODING,
        assembly_ms=(perf_counter() - started) * 1_000,
    )


def with_needed(task: Task, findings: Sequence[Finding], budgets: HandoffBudgets) -> list[values.Finding]:
    """Return the phase's findings, and those of earlier phases that its critical ones depend on.

    What no critical finding needs of an earlier phase was handed on then, and stays where it is.
    """
    own = frozenset(finding.number for finding in findings)
    earlier = {finding.number: finding for finding in _earlier(task, findings)}
    known = own | earlier.keys()
    everything = [finding.to_value(known) for finding in (*earlier.values(), *findings)]
    phase_values = [finding.to_value(own) for finding in findings]
    seeds = find_critical(phase_values, limits=budgets.limits, settings=budgets.settings)
    needed = with_dependencies(everything, seeds)
    kept = [value for value in everything if number_of(value.id) in own or value.id in needed]
    numbers = frozenset(number_of(value.id) for value in kept)
    rows = [earlier[number] for number in sorted(numbers - own)]
    return [finding.to_value(numbers) for finding in (*rows, *findings)]


def _earlier(task: Task, findings: Sequence[Finding]) -> list[Finding]:
    if not any(finding.depends_on for finding in findings):
        return []
    return list(Finding.objects.filter(task=task).exclude(phase=task.phase).in_order())


def handed_findings(compression: PhaseCompression) -> list[values.Finding]:
    """Return the findings that the compression is of, as it saw them."""
    rows = Finding.objects.filter(task=compression.task_id)
    wanted = rows.filter(phase=compression.phase) | rows.filter(number__in=compression.critical)
    found = list(wanted.in_order())
    numbers = frozenset(finding.number for finding in found)
    return [finding.to_value(numbers) for finding in found]


def critical_text(compression: PhaseCompression, findings: Sequence[values.Finding]) -> str:
    """Return the critical findings whole."""
    wanted = set(compression.critical_findings)
    return "".join(render_finding(finding) for finding in findings if finding.id in wanted)


def log_handoff(compression: PhaseCompression) -> None:
    """Log what the phase hands on, with the brief in force, and tie the log to the compression."""
    findings = handed_findings(compression)
    counter = RenderedCounter(get_tokenizer(compression.encoding))
    before = PlainText("".join(render_finding(finding) for finding in findings))
    # Whole findings end in a line break, so the brief after them is counted as it is alone.
    after = PlainText(critical_text(compression, findings) + compression.brief)
    saving = Saving(
        kind=Kind.HANDOFF,
        before=before,
        after=after,
        tokens_before=counter.count(before),
        tokens_after=counter.count(after),
        tokens_available=None,
        counter=counter,
        assembly_ms=compression.assembly_ms,
        phase=compression.phase,
        model=compression.written_by if compression.has_written else "",
        details={
            "critical_findings": compression.critical_findings,
            "discarded": compression.discarded,
            "warnings": list(compression.warnings),
        },
        config=compression.settings,
        request={
            "task_id": compression.task_id,
            "phase": compression.phase,
            "forced": compression.is_forced,
            "writer": "model" if compression.has_written else "extract",
        },
    )
    team_id = Task.objects.values_list("team_id", flat=True).get(pk=compression.task_id)
    actor = compression.created_by
    compression.assembly = log_saving(
        team_id=team_id, saving=saving, actor=actor, is_demo=actor == DEMO_ACTOR
    )
    compression.save(update_fields=["assembly"])
    log.info(
        "phase_compressed",
        assembly_id=compression.assembly_id,
        task_id=compression.task_id,
        phase=compression.phase,
        tokens_before=saving.tokens_before,
        tokens_after=saving.tokens_after,
        critical=len(compression.critical),
        discarded=len(compression.discarded),
        forced=compression.is_forced,
    )


@dataclass(frozen=True, slots=True)
class WrittenBrief:
    """What a model wrote. `refusal` says why it is not to be used; empty where it is good."""

    text: str
    tokens: int
    model: str
    refusal: str


def settle_brief(*, compression_id: int, written: WrittenBrief) -> PhaseCompression | None:
    """Put a model's brief in force, or note why it is not; the first answer counts.

    One that comes after the next phase has begun to read is kept beside the other, to compare.
    """
    with transaction.atomic():
        rows = PhaseCompression.objects.select_for_update(no_key=True).filter(pk=compression_id)
        compression = rows.filter(brief_state__in=[BriefState.PENDING, BriefState.LATE], written="").first()
        if compression is None:
            return None
        is_awaited = compression.brief_state == BriefState.PENDING
        compression.written = written.text
        compression.written_tokens = written.tokens
        compression.written_by = written.model[:120]
        if is_awaited:
            compression.brief_state = BriefState.REFUSED if written.refusal else BriefState.IN_FORCE
        if written.refusal:
            compression.brief_note = written.refusal[:NOTE_MAX]
        compression.save(
            update_fields=["written", "written_tokens", "written_by", "brief_state", "brief_note"]
        )
        if is_awaited:
            log_handoff(compression)
    log.info(
        "brief_written",
        task_id=compression.task_id,
        phase=compression.phase,
        state=compression.brief_state,
        note=compression.brief_note,
    )
    return compression


def consume(compression: PhaseCompression) -> None:
    """Note that the next phase has read it: from now on its brief stays. The caller holds its row."""
    if compression.consumed_at is not None:
        return
    compression.consumed_at = timezone.now()
    changed = ["consumed_at"]
    if was_pending := compression.brief_state == BriefState.PENDING:
        compression.brief_state = BriefState.LATE
        compression.brief_note = "the next phase began to read before it was written"
        changed += ["brief_state", "brief_note"]
    compression.save(update_fields=changed)
    if was_pending:
        log_handoff(compression)
