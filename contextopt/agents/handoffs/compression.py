"""Compresses a phase's findings into its hand-off, chooses its brief, and logs the savings."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import structlog
from django.db import transaction
from django.utils import timezone

from contextopt.agents.handoffs.models import (
    BriefState,
    Finding,
    HandoffSettings,
    PhaseCompression,
    finding_key,
    number_of,
)
from contextopt.agents.models import HandoffPhase, Task
from contextopt.assemblies.models import DEMO_ACTOR, Assembly, Kind
from contextopt.assemblies.savings import PlainText, Saving, log_saving
from contextopt.chat import endpoint
from contextopt.engine.briefs import findings as values
from contextopt.engine.briefs.compressor import (
    compress,
    find_critical,
    find_lost,
    is_mentioned,
    with_dependencies,
)
from contextopt.engine.briefs.findings import render_finding
from contextopt.engine.briefs.settings import BriefSettings, PhaseBrief
from contextopt.engine.text.tokens import DEFAULT_ENCODING, RenderedCounter, get_tokenizer
from contextopt.engine.values import warnings_json
from contextopt.errors import Conflict, OpenDecisions
from contextopt.jobs import WRITE_BRIEF, run_after_commit
from contextopt.limits import MODEL_MAX

log = structlog.get_logger(__name__)

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


# Change this when the same findings would give another brief.
WRITER_VERSION = "extract 3"
NOTE_MAX = 500


def make_compression(task: Task, phase: HandoffPhase, *, is_forced: bool, actor: str) -> PhaseCompression:
    """Compress the current or an earlier phase of a task whose row the caller holds.

    Unchanged findings return the stored compression. Otherwise a new version is made.

    Raises:
        OpenDecisions: decisions of the phase are open, and it is not forced.
        Conflict: the phase has no findings.
    """
    findings = _to_hand_on(task, phase)
    undecided = [finding.number for finding in findings if finding.is_open]
    if undecided and not is_forced:
        raise OpenDecisions([finding_key(number) for number in undecided], phase)
    budgets = load_budgets(task.team_id)[phase]
    digest = _digest(findings, budgets)
    stored = PhaseCompression.objects.filter(task=task, phase=phase).latest_versions().first()
    if stored is not None and stored.findings_hash == digest:
        _await_brief(stored)
        return stored
    compression = _compress(task, phase, findings, budgets)
    compression.version = stored.version + 1 if stored else 1
    compression.made_in = "" if phase == task.phase else task.phase
    compression.findings_hash = digest
    compression.undecided = undecided
    compression.is_forced = bool(undecided)
    compression.created_by = actor
    compression.save(force_insert=True)
    # Take earlier versions that nobody read, and nobody will, out of the account.
    rows = PhaseCompression.objects.filter(task=compression.task_id, phase=compression.phase)
    unread = rows.filter(version__lt=compression.version, consumed_at=None)
    Assembly.objects.filter(handoff__in=unread, is_sent=True).update(is_sent=False)
    if compression.brief_state == BriefState.NONE:
        log_handoff(compression)
    _await_brief(compression)
    return compression


def preview_compression(task: Task, phase: HandoffPhase) -> PhaseCompression:
    """Return the hand-off as it would be made now, without storing anything. Unchanged findings return the
    stored one.

    Raises:
        Conflict: the phase has no findings.
    """
    findings = _to_hand_on(task, phase)
    budgets = load_budgets(task.team_id)[phase]
    stored = PhaseCompression.objects.filter(task=task, phase=phase).latest_versions().first()
    if stored is not None and stored.findings_hash == _digest(findings, budgets):
        return stored
    compression = _compress(task, phase, findings, budgets)
    compression.undecided = [finding.number for finding in findings if finding.is_open]
    return compression


def _to_hand_on(task: Task, phase: HandoffPhase) -> list[Finding]:
    findings = [*find_unseen(task, phase), *Finding.objects.filter(task=task, phase=phase).in_order()]
    if not any(finding.phase == phase for finding in findings):
        raise Conflict(f"Task {task.pk} has no findings in {phase}, so there is nothing to hand on.")
    return findings


def _await_brief(compression: PhaseCompression) -> None:
    """Queue the model's brief if it is still to be written. The extract is used until then."""
    if compression.brief_state == BriefState.PENDING:
        run_after_commit(WRITE_BRIEF, compression.pk)


def find_unseen(task: Task, phase: HandoffPhase) -> list[Finding]:
    """Return earlier phases' findings that were added, changed or decided too late for this phase.

    This phase hands them on to the next. Versions made after this phase ended don't count, as nobody in it
    read them.
    """
    before = phase.all_before
    if not before:
        return []
    unseen = list(Finding.objects.filter(task=task, phase__in=before).in_order())
    for compression in PhaseCompression.objects.filter(task=task, phase__in=before):
        if (compression.made_in or compression.phase) in {*before, phase}:
            unseen = compression.missed(unseen)
    return unseen


def _digest(findings: Sequence[Finding], budgets: HandoffBudgets) -> str:
    """Return a hash of everything a compression depends on that can change. A finding's content cannot."""
    states = [
        (finding.number, finding.decision, finding.resolution, finding.tags, finding.depends_on)
        for finding in findings
    ]
    text = json.dumps([states, budgets.to_json(), WRITER_VERSION, DEFAULT_ENCODING])
    return hashlib.sha256(text.encode()).hexdigest()


def _compress(
    task: Task, phase: HandoffPhase, findings: Sequence[Finding], budgets: HandoffBudgets
) -> PhaseCompression:
    tokenizer = get_tokenizer(DEFAULT_ENCODING)
    started = perf_counter()
    handed = with_needed(task, phase, findings, budgets)
    result = compress(handed, phase=phase, settings=budgets.settings, tokenizer=tokenizer)
    # Demo data is not worth a model's tokens.
    is_requested = endpoint.is_configured() and task.created_by != DEMO_ACTOR
    return PhaseCompression(
        task=task,
        phase=phase,
        extract=result.brief,
        extract_tokens=result.brief_tokens,
        brief_state=BriefState.PENDING if is_requested else BriefState.NONE,
        critical=[number_of(key) for key in result.critical],
        critical_tokens=result.critical_tokens,
        tokens_before=result.tokens_before,
        findings_count=sum(finding.phase == phase for finding in findings),
        discarded=[{"id": each.id, "reason": each.reason} for each in result.discarded],
        in_brief=[number_of(key) for key in result.in_brief],
        warnings=warnings_json(result.warnings),
        writer_version=WRITER_VERSION,
        settings=budgets.to_json(),
        encoding=DEFAULT_ENCODING,
        assembly_ms=(perf_counter() - started) * 1_000,
    )


def with_needed(
    task: Task, phase: HandoffPhase, findings: Sequence[Finding], budgets: HandoffBudgets
) -> list[values.Finding]:
    """Return the findings to hand on, with earlier phases' findings that critical ones depend on.

    Other findings of earlier phases were handed on before and are left out.
    """
    own = frozenset(finding.number for finding in findings)
    rows = Finding.objects.filter(task=task, phase__in=phase.all_before).exclude(number__in=own)
    is_linked = any(finding.depends_on for finding in findings)
    earlier = {finding.number: finding for finding in rows.in_order()} if is_linked else {}
    known = own | earlier.keys()
    everything = [finding.to_value(known) for finding in (*earlier.values(), *findings)]
    phase_values = [finding.to_value(own) for finding in findings]
    seeds = find_critical(phase_values, limits=budgets.limits, settings=budgets.settings)
    needed = with_dependencies(everything, seeds)
    kept = [value for value in everything if number_of(value.id) in own or value.id in needed]
    numbers = frozenset(number_of(value.id) for value in kept)
    added = [earlier[number] for number in sorted(numbers - own)]
    return [finding.to_value(numbers) for finding in (*added, *findings)]


def handed_findings(compression: PhaseCompression) -> list[values.Finding]:
    """Return the findings that the compression covers."""
    found = list(Finding.objects.filter(task=compression.task_id, number__in=compression.covered).in_order())
    numbers = frozenset(finding.number for finding in found)
    return [finding.to_value(numbers) for finding in found]


def critical_text(compression: PhaseCompression, findings: Sequence[values.Finding]) -> str:
    """Return the text of the critical findings in full."""
    wanted = set(compression.critical_findings)
    return "".join(render_finding(finding) for finding in findings if finding.id in wanted)


def log_handoff(compression: PhaseCompression) -> None:
    """Log what the phase hands on with its current brief, and link the log row to the compression.

    Without us, each finding would be sent in full once. So a new version is compared only with findings that
    no version read before it had, and not with those that it loses. Versions that were not read count no
    longer, and nobody receives what the last phase hands on.
    """
    findings = handed_findings(compression)
    counter = RenderedCounter(get_tokenizer(compression.encoding))
    known, lost = _read_before(compression), lost_findings(compression, findings)
    compared = [each for each in findings if number_of(each.id) not in known and each.id not in lost]
    # Findings in full end in a line break, so the brief after them counts the same as alone.
    after = PlainText(critical_text(compression, findings) + compression.brief)
    before = PlainText("".join(map(render_finding, compared))) if after.text else None
    saving = Saving(
        kind=Kind.HANDOFF,
        before=before,
        after=after,
        tokens_before=counter.count(before) if before else None,
        tokens_after=counter.count(after),
        tokens_available=None,
        counter=counter,
        assembly_ms=compression.assembly_ms,
        phase=compression.phase,
        model=compression.written_by if compression.has_written else "",
        task_id=compression.task_id,
        details={
            "critical_findings": compression.critical_findings,
            "discarded": compression.discarded,
            "lost": sorted(lost),
            "warnings": compression.warnings,
        },
        config=compression.settings,
        request={
            "phase": compression.phase,
            "version": compression.version,
            "forced": compression.is_forced,
            "writer": "model" if compression.has_written else "extract",
        },
        is_sent=compression.is_received(),
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


def lost_findings(compression: PhaseCompression, findings: Sequence[values.Finding]) -> frozenset[str]:
    """Return the ids of the findings that the hand-off with its current brief loses."""
    discarded = {item["id"]: item["reason"] for item in compression.discarded}
    lost = find_lost(findings, discarded)
    return lost | _unmentioned(compression, findings) if compression.has_written else lost


def _unmentioned(compression: PhaseCompression, findings: Sequence[values.Finding]) -> frozenset[str]:
    """Return the ids of the findings that the extract covers and the model's brief mentions nowhere."""
    in_brief = {finding_key(number) for number in compression.in_brief}
    left_out = (each for each in findings if not is_mentioned(each, compression.written))
    return frozenset(each.id for each in left_out if each.id in in_brief)


def _read_before(compression: PhaseCompression) -> set[int]:
    """Return the findings of earlier versions that were read."""
    rows = PhaseCompression.objects.filter(task=compression.task_id, phase=compression.phase)
    read = rows.filter(version__lt=compression.version, consumed_at__isnull=False)
    return {number for each in read for number in each.covered}


@dataclass(frozen=True, slots=True)
class WrittenBrief:
    """A brief by a model. `refusal` says why it cannot be used, and is empty if it can."""

    text: str
    tokens: int
    model: str
    refusal: str


def settle_brief(*, compression_id: int, written: WrittenBrief) -> None:
    """Make a model's brief the active one, or note why not. Only the first answer counts.

    An answer that comes after the next phase began to read is kept beside the extract for comparison.
    """
    with transaction.atomic():
        rows = PhaseCompression.objects.select_for_update(no_key=True).filter(pk=compression_id)
        compression = rows.filter(brief_state__in=[BriefState.PENDING, BriefState.LATE], written="").first()
        if compression is None:
            return
        is_awaited = compression.brief_state == BriefState.PENDING
        compression.written = written.text
        compression.written_tokens = written.tokens
        compression.written_by = written.model[:MODEL_MAX]
        if is_awaited:
            compression.brief_state = BriefState.REFUSED if written.refusal else BriefState.IN_FORCE
        if written.refusal:
            compression.brief_note = written.refusal[:NOTE_MAX]
        elif unmentioned := sorted(_unmentioned(compression, handed_findings(compression))):
            compression.brief_note = f"not mentioned in the brief: {', '.join(unmentioned)}"[:NOTE_MAX]
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


def consume(compression: PhaseCompression) -> None:
    """Note that the next phase has read it, so its brief stays. The caller holds its row."""
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
