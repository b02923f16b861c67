"""Tasks, their findings and their hand-offs, as pages show them."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, Sum

from contextopt.agents.handoffs.compression import preview_compression
from contextopt.agents.handoffs.models import (
    BriefState,
    Decision,
    Finding,
    PhaseCompression,
    finding_key,
    number_of,
)
from contextopt.agents.handoffs.status import PhaseStatus, TaskStatus
from contextopt.agents.models import HandoffPhase, Task
from contextopt.agents.timeline.account import NOTHING, read_accounts
from contextopt.assemblies.models import Assembly, Kind
from contextopt.engine.agents.linediff import diff_text
from contextopt.engine.briefs.compressor import MANY_CRITICAL, OPEN_DECISIONS, find_critical
from contextopt.engine.text.cleaning import flatten_to
from dashboard.kit.charts.shapes import Bar, saving_bar
from dashboard.kit.charts.tiles import Change, Tile, points
from dashboard.kit.diffs import Run, colour_diff
from dashboard.kit.formats import reason_words, whole

CATEGORIES = {
    HandoffPhase.ANALYSIS: (
        "existing_patterns", "dependencies", "risks", "database_needs", "constraints", "open_questions",
    ),
    HandoffPhase.DESIGN: (
        "architecture", "api_contracts", "data_model", "components", "risks", "alternatives",
    ),
    HandoffPhase.IMPLEMENTATION: ("changes", "tests", "follow_ups"),
}  # fmt: skip
BRIEF_WORDS = {
    BriefState.PENDING: "extracted; a model is still writing its own",
    BriefState.IN_FORCE: "written by a model, verified against the findings",
    BriefState.REFUSED: "extracted; the model's brief was rejected",
    BriefState.LATE: "extracted; the model's brief came too late",
}
EXCERPT = 140
VERSIONS_SHOWN = 60
# Warnings that have their own alert.
SHOWN_OTHERWISE = (MANY_CRITICAL, OPEN_DECISIONS)
# The fields of a content that describe it best, in order of preference.
SPEAKING = ("description", "pattern_name", "title", "question", "name", "summary", "table", "location")


@dataclass(frozen=True, slots=True)
class FindingFigures:
    """Sums over a task's findings and hand-offs."""

    findings: int = 0
    undecided: int = 0
    tokens: int = 0
    before: int = 0
    after: int = 0

    @property
    def saved_tokens(self) -> int:
        return self.before - self.after

    @property
    def bar(self) -> Bar:
        return saving_bar(before=self.before, after=self.after)


def read_finding_figures(tasks: Sequence[Task]) -> dict[int, FindingFigures]:
    """Return the figures of each of these tasks, in two queries."""
    found = (
        Finding.objects.filter(task__in=tasks)
        .values("task_id")
        .annotate(
            findings=Count("pk"),
            undecided=Count("pk", filter=Q(decision=Decision.OPEN)),
            tokens=Sum("tokens"),
        )
    )
    handed = read_accounts(Assembly.objects.filter(task__in=tasks, kind=Kind.HANDOFF))
    accounts = {row["task_id"]: handed.get(row["task_id"], NOTHING) for row in found}
    return {
        row["task_id"]: FindingFigures(
            row["findings"], row["undecided"], row["tokens"],
            accounts[row["task_id"]].full_tokens, accounts[row["task_id"]].compared_tokens,
        )
        for row in found
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding and its fate.

    The fate is "critical", "in the brief", "left out", "added since", or "" before a hand-off.
    """

    finding: Finding
    excerpt: str
    fate: str
    reason: str

    @property
    def mood(self) -> str:
        return {"critical": "demo", "in the brief": "kept", "left out": "drop"}.get(self.fate, "")


@dataclass(frozen=True, slots=True)
class Alert:
    """A problem in a phase, and what to do about it."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class PhaseColumn:
    """One phase on the board. `place` is "done", "now" or "later"."""

    status: PhaseStatus
    place: str
    rows: tuple[FindingRow, ...]
    alerts: tuple[Alert, ...]
    brief_words: str
    difference: tuple[Run, ...]
    versions: tuple[PhaseCompression, ...]

    @property
    def phase(self) -> HandoffPhase:
        return self.status.phase

    @property
    def compression(self) -> PhaseCompression | None:
        return self.status.compression

    @property
    def bar(self) -> Bar | None:
        account = self.status.account
        if not account.compared:
            return None
        return saving_bar(before=account.full_tokens, after=account.compared_tokens)

    @property
    def next_without(self) -> int:
        """The most tokens that the next phase would get with every finding in full."""
        compression = self.compression
        return self.next_context + (compression.tokens_before if compression else 0)

    @property
    def next_with(self) -> int:
        compression = self.compression
        return self.next_context + (compression.tokens_after if compression else 0)

    @property
    def next_context(self) -> int:
        return self.status.budgets.bundle_tokens

    @property
    def carried(self) -> list[str]:
        """Findings of earlier phases that are handed on too."""
        own = {row.finding.number for row in self.rows}
        covered = self.compression.covered if self.compression else frozenset()
        return [finding_key(number) for number in sorted(covered - own)]


def build_columns(status: TaskStatus) -> list[PhaseColumn]:
    versions = read_versions(status.task)
    order = list(HandoffPhase)
    now = order.index(HandoffPhase(status.task.phase))
    critical = {number for each in status.phases for number in _critical_now(each)}
    return [
        PhaseColumn(
            status=each,
            place="done" if place < now else "now" if place == now else "later",
            rows=tuple(
                FindingRow(finding, excerpt(finding), *_fate(finding, each, critical))
                for finding in each.rows
            ),
            alerts=tuple(_alerts(each, is_now=place == now)),
            brief_words=BRIEF_WORDS.get(BriefState(each.compression.brief_state), "")
            if each.compression
            else "",
            difference=_difference(each.compression),
            versions=tuple(version for version in versions if version.phase == each.phase),
        )
        for place, each in enumerate(status.phases)
    ]


def read_versions(task: Task) -> list[PhaseCompression]:
    """Return the latest versions of the task's hand-offs, newest first."""
    rows = PhaseCompression.objects.filter(task=task).order_by("-id")
    return list(rows.defer("written", "discarded", "settings", "warnings")[:VERSIONS_SHOWN])


def _critical_now(status: PhaseStatus) -> set[int]:
    """Return the phase's findings that are critical, whether it was compressed since or not."""
    numbers = frozenset(finding.number for finding in status.rows)
    values = [finding.to_value(numbers) for finding in status.rows]
    budgets = status.budgets
    return set(map(number_of, find_critical(values, limits=budgets.limits, settings=budgets.settings)))


def _fate(finding: Finding, status: PhaseStatus, critical: Collection[int]) -> tuple[str, str]:
    """Return the finding's fate and the reason for it. A critical one is marked before it is handed on."""
    compression = status.compression
    is_new = compression is None or finding.key in status.late
    if is_new and finding.number in critical:
        return "critical", why_critical(finding, status.budgets.to_json())
    if compression is None:
        return "", ""
    if finding.number in compression.critical:
        return "critical", why_critical(finding, compression.settings)
    for item in compression.discarded:
        if item["id"] == finding.key:
            return "left out", reason_words(item["reason"])
    if finding.number in compression.in_brief:
        return "in the brief", ""
    return "", "added since"


def why_critical(finding: Finding, settings: Mapping[str, Any]) -> str:
    if finding.is_tagged_critical:
        return "tagged critical"
    if finding.implementation_ready:
        return "ready to implement"
    is_key = finding.category in settings["key_categories"]
    if is_key and finding.confidence > settings["critical_above"]:
        return f"{finding.category.replace('_', ' ')}, confidence {finding.confidence:g}"
    return "a critical finding depends on it"


@dataclass(frozen=True, slots=True)
class HandoffPreview:
    """The hand-off that the next phase would get if the task advanced now. `left_out` are findings that no
    warning names.
    """

    compression: PhaseCompression
    critical: Sequence[FindingRow]
    undecided: Sequence[FindingRow]
    left_out: Sequence[tuple[str, str]]

    @property
    def is_rewritten(self) -> bool:
        """Whether a model writes a brief of its own afterwards."""
        return self.compression.brief_state == BriefState.PENDING

    @property
    def warnings(self) -> list[str]:
        shown = (each for each in self.compression.read_warnings() if each.code not in SHOWN_OTHERWISE)
        return [each.message for each in shown]


def read_preview(task: Task) -> HandoffPreview:
    """Return what advancing would hand on now.

    Raises:
        Conflict: the task's phase has no findings.
    """
    compression = preview_compression(task, HandoffPhase(task.phase))
    critical, undecided = set(compression.critical), set(compression.undecided)
    rows = task.findings.filter(number__in=critical | undecided).in_order()
    shown = [FindingRow(each, excerpt(each), "", why_critical(each, compression.settings)) for each in rows]
    warned = " ".join(each.message for each in compression.read_warnings())
    return HandoffPreview(
        compression,
        [row for row in shown if row.finding.number in critical],
        [row for row in shown if row.finding.number in undecided],
        [
            (item["id"], reason_words(item["reason"]))
            for item in compression.discarded
            if item["id"] not in warned
        ],
    )


def excerpt(finding: Finding) -> str:
    """Return a one-line description of the finding."""
    content = finding.content
    said = next((str(content[key]) for key in SPEAKING if content.get(key)), "")
    return flatten_to(said or json.dumps(content, ensure_ascii=False), EXCERPT)


def _alerts(status: PhaseStatus, *, is_now: bool) -> Iterator[Alert]:
    compression = status.compression
    if status.undecided and is_now:
        yield Alert(
            "Open decisions",
            f"{', '.join(status.undecided[:8])}: resolve these before handing on the phase.",
        )
    if compression is not None and compression.is_forced:
        keys = ", ".join(finding_key(number) for number in compression.undecided)
        yield Alert("Handed on with open decisions", f"Forced with open decisions: {keys}.")
    if compression is None:
        if status.is_over:
            limit = whole(status.budgets.limits.output_tokens)
            yield Alert("Many findings", f"{whole(status.findings_tokens)} tokens; {limit} are expected.")
        return
    if status.late:
        yield Alert(
            "Changed since",
            f"Added, tagged or linked after this was compressed: {', '.join(status.late[:8])}. The next "
            "bundle includes the change; compress again to make it now.",
        )
    settings = compression.settings
    if len(compression.critical) > settings["max_critical"]:
        keys = ", ".join(compression.critical_findings)
        yield Alert(
            "Too many critical findings", f"{keys}. Does each of them have to be handed on word for word?"
        )
    lost = [item["id"] for item in compression.discarded if item["reason"] in {"over_budget", "no_statement"}]
    if lost:
        yield Alert(
            "Information lost",
            f"{', '.join(lost[:8])} did not fit into the brief. To keep a finding, tag it critical or make a "
            "critical finding depend on it.",
        )
    for warning in compression.read_warnings():
        if warning.code not in SHOWN_OTHERWISE:
            yield Alert("Size exceeded", warning.message)


def _difference(compression: PhaseCompression | None) -> tuple[Run, ...]:
    """Compare the extracted brief with the model's, line by line, if a model wrote one."""
    if compression is None or not compression.written:
        return ()
    before, after = f"{compression.extract.rstrip()}\n", f"{compression.written.rstrip()}\n"
    return colour_diff(diff_text(before, after, context_lines=before.count("\n")), "changed")


def build_handoff_tiles(status: TaskStatus) -> list[Tile]:
    """Return the task's figures over all its phases."""
    handed = [each.compression for each in status.phases if each.compression]
    account = status.account
    before, after = account.full_tokens, account.compared_tokens
    rate = (before - after) / before if before else None
    undecided = sum(len(each.undecided) for each in status.phases)
    tokens = sum(finding.tokens for finding in status.findings)
    critical = sum(len(each.critical) for each in handed)
    return [
        Tile("findings", "Findings", whole(len(status.findings)), "", Change(), f"{whole(tokens)} tokens"),
        Tile(
            "handed", "Handed on", whole(after if account.compared else None), "", Change(),
            f"of {whole(before)} tokens",
        ),
        Tile(
            "share", "Share saved", points(rate), "%" if rate is not None else "", Change(),
            "by briefs and critical findings",
        ),
        Tile("critical", "Critical", whole(critical), "", Change(), f"open decisions: {whole(undecided)}"),
    ]  # fmt: skip
