"""Counts the savings of earlier versions as they count now, and notes each that changes as a `Correction`.

Marks that only we add are no part of a full context, a planner is not sent the error of a replan, and a
hand-off saves only what the next phase receives less of.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from math import ceil
from typing import Any, ClassVar, NamedTuple

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from contextopt.engine.agents.retries import Diagnosis
from contextopt.engine.briefs.compressor import find_lost, is_mentioned
from contextopt.engine.briefs.findings import Finding
from contextopt.engine.text.tokens import HeuristicCounter
from contextopt.engine.text.quoting import without_marks
from contextopt.engine.text.quoting import marked_block
from contextopt.engine.validation import UnknownEncoding
from contextopt.engine.text.tokens import get_tokenizer

FULL_REPLAN = "the task, plan and diagnosis in full"
LAST_PHASE = "implementation"
REPLAN_PARTS = 4
"""The fields that the baseline of a replan had: task, plan, error and diagnosis."""
CONTEXT_PARTS = 8
"""Those of a full context with plan and error."""
CHUNK = 100
# A line of a rendered context that is not marked is blank, a heading, or a line that only we write.
UNMARKED = re.compile(r"^(?!> |$|##+ |\[(?:END )?EXTERNAL DATA |\\ No newline)", re.MULTILINE)
BLOCK = re.compile(r"^(?=F-[0-9]{3,} \[)", re.MULTILINE)


class Baseline(NamedTuple):
    """A corrected baseline; its text is None if there is nothing to compare with."""

    text: str | None
    chars: list[int]
    reason: str
    is_sent: bool = True
    details: dict[str, Any] = {}  # noqa: RUF012  (never changed)


@cache
def _tokenizer(encoding: str) -> Any:
    return get_tokenizer(encoding)


def _count(encoding: str, text: str, chars: list[int]) -> int | None:
    """Count as the row was counted, or return None if its tokenizer is no longer available."""
    if encoding == HeuristicCounter().name:
        return sum(ceil(count / 4) for count in chars)
    try:
        return int(_tokenizer(encoding).count(text))
    except UnknownEncoding:
        return None


def _plain(payload: Any) -> Baseline:
    text = payload.baseline_text
    # Baselines from before texts were marked are as the caller had them.
    text = text if UNMARKED.search(text) else without_marks(text)
    return Baseline(text, payload.ledger["chars"]["before"], "marks")


def _replan(payload: Any) -> Baseline:
    """Leave the error out of a replan's baseline: its fields have known lengths, in a known order."""
    chars = payload.ledger["chars"]["before"]
    details = {"baseline": FULL_REPLAN}
    if len(chars) != REPLAN_PARTS:
        # The full context, from before a replan had a baseline of its own.
        return Baseline(None, [], "replan", details=details)
    task, plan, error, diagnosis = chars
    start = sum(len(f"## {name}\n\n") + size for name, size in (("Task", task), ("Plan", plan)) if size)
    length = len("## Latest error\n\n") + error if error else 0
    text = payload.baseline_text
    return Baseline(text[:start] + text[start + length :], [task, plan, diagnosis], "replan", details=details)


def _agent_replan(payload: Any, attempt: Any) -> Baseline:
    """Replace the error at the end of the baseline by the task and the diagnosis."""
    plain = _plain(payload)
    *context, plan, error = plain.chars
    text = plain.text or ""
    for end in (len(text) - error, len(text) - error - 1):
        if error and text[:end].endswith("## Latest error\n"):
            text = text[:end].removesuffix("## Latest error\n").removesuffix("\n")
            break
    diagnosis = Diagnosis.from_json(attempt.diagnosis)
    parts = (text, f"## Task\n{attempt.task.description}\n", f"## Diagnosis\n{diagnosis}\n")
    chars = [*context, len(attempt.task.description), plan, sum(map(len, attempt.diagnosis.values()))]
    return Baseline("\n".join(filter(None, parts)), chars, "replan")


def _corrected(payload: Any, attempt: Any) -> Baseline | None:
    kind, is_replan = payload.assembly.kind, payload.request.get("action") == "replan"
    if kind == "retry" and not payload.assembly.tokens_after:
        return None
    if kind == "retry" and is_replan:
        return None if payload.ledger.get("baseline") == FULL_REPLAN else _replan(payload)
    if kind == "agent" and attempt is not None and attempt.action == "replan":
        is_old = len(payload.ledger["chars"]["before"]) == CONTEXT_PARTS
        return _agent_replan(payload, attempt) if is_old else None
    return _plain(payload)


def _handoffs(apps: Apps) -> Iterator[tuple[Any, Baseline]]:
    """Yield the payload of each logged hand-off, with its baseline as it is now."""
    rows = apps.get_model("contextopt", "PhaseCompression").objects.order_by("task_id", "phase", "version")
    for (task_id, phase), versions in groupby(
        rows.select_related("assembly__payload").iterator(CHUNK), key=lambda row: (row.task_id, row.phase)
    ):
        yield from _versions(apps, task_id, phase, list(versions))


def _versions(apps: Apps, task_id: int, phase: str, versions: list[Any]) -> Iterator[tuple[Any, Baseline]]:
    findings = {
        row.number: Finding(
            id=f"F-{row.number:03d}", phase=row.phase, category=row.category, content=row.content,
            confidence=row.confidence,
        )
        for row in apps.get_model("contextopt", "Finding").objects.filter(task=task_id)
    }  # fmt: skip
    blocks: dict[str, str] = {}
    read: set[int] = set()
    was_replaced = False
    for row in versions:
        payload = getattr(row.assembly, "payload", None) if row.assembly else None
        for block in BLOCK.split((payload.baseline_text if payload else "") or "")[1:]:
            blocks[block.split(" ", 1)[0]] = block
        covered = {*row.critical, *row.in_brief, *(int(each["id"][2:]) for each in row.discarded)}
        lost = _lost(row, [findings[number] for number in sorted(covered) if number in findings])
        is_sent = phase != LAST_PHASE and (row.consumed_at is not None or row is versions[-1])
        if payload is not None and payload.baseline_text is not None:
            names = [f"F-{number:03d}" for number in sorted(covered - read)]
            text = "".join(blocks.get(name, "") for name in names if name not in lost)
            reason = "unreceived" if not is_sent else "replaced" if was_replaced else "lost"
            details = {"lost": sorted(lost)}
            if payload.text:
                yield payload, Baseline(text, [len(text)], reason, is_sent, details)
            else:
                yield payload, Baseline(None, [], reason, is_sent, details)
        was_replaced = was_replaced or row.consumed_at is None
        read |= covered if row.consumed_at else set()


def _lost(row: Any, findings: list[Finding]) -> frozenset[str]:
    lost = find_lost(findings, {each["id"]: each["reason"] for each in row.discarded})
    if row.brief_state != "in_force":
        return lost
    in_brief = {f"F-{number:03d}" for number in row.in_brief}
    return lost | {
        each.id for each in findings if each.id in in_brief and not is_mentioned(each, row.written)
    }


def _store(apps: Apps, payload: Any, new: Baseline) -> bool:
    """Store a corrected baseline; return whether a figure changed."""
    assembly, ledger = payload.assembly, payload.ledger
    was = before = assembly.tokens_before
    if new.text != payload.baseline_text:
        before = None if new.text is None else _count(assembly.encoding, new.text, new.chars)
    ledger = {**ledger, **new.details, "chars": {**ledger["chars"], "before": new.chars}}
    if before is None or new.text != payload.baseline_text or ledger != payload.ledger:
        payload.baseline_text, payload.ledger = None if before is None else new.text, ledger
        payload.save(update_fields=["baseline_text", "ledger"])
    if (before, new.is_sent) == (was, assembly.is_sent):
        return False
    apps.get_model("contextopt", "Correction").objects.create(
        assembly_id=assembly.pk, reason=new.reason, tokens_before=was
    )
    assembly.tokens_before, assembly.is_sent = before, new.is_sent
    if "budget_tokens" not in payload.config:
        assembly.tokens_available = max(before or 0, assembly.tokens_after)
    assembly.save(update_fields=["tokens_before", "is_sent", "tokens_available"])
    return True


def _store_attempt(attempt: Any, was: int | None, before: int | None) -> None:
    """Correct the attempt's own figure, which repeats that of its log entry."""
    if attempt is not None and attempt.full_tokens == was:
        attempt.full_tokens = attempt.delta_tokens if before is None else before
        attempt.save(update_fields=["full_tokens"])


def _correct_part(attempt: Any) -> None:
    """Correct the figure of an attempt whose retry is a part of an agent's context, which has the log entry.

    Its files are not stored, so their marks are still counted. No sum of the log contains this figure.
    """
    full: int | None = None
    if attempt.action == "replan":
        diagnosis = str(Diagnosis.from_json(attempt.diagnosis))
        parts = (("Task", attempt.task.description), ("Plan", attempt.plan), ("Diagnosis", diagnosis))
        text = "\n".join(f"## {name}\n{part}\n" for name, part in parts if part)
        full = _count(attempt.encoding, text, [len(part) for _, part in parts])
    else:
        marked = marked_block(attempt.plan) + marked_block(attempt.error)
        with_marks = _count(attempt.encoding, marked, [])
        without = _count(attempt.encoding, without_marks(marked), [])
        if with_marks is not None and without is not None:
            full = attempt.full_tokens - with_marks + without
    if full is not None and full != attempt.full_tokens:
        attempt.full_tokens = full
        attempt.save(update_fields=["full_tokens"])


def _in_chunks(rows: Any) -> Iterator[Any]:
    last = 0
    while chunk := list(rows.filter(pk__gt=last).order_by("pk")[:CHUNK]):
        yield from chunk
        last = chunk[-1].pk


def correct(apps: Apps) -> None:
    """Correct the log of all teams."""
    payloads = apps.get_model("contextopt", "AssemblyPayload").objects.select_related(
        "assembly__attempt__task"
    )
    compared = payloads.filter(
        assembly__kind__in=["phase", "retry", "agent"], baseline_text__isnull=False
    )
    for payload in _in_chunks(compared):
        assembly = payload.assembly
        attempt = getattr(assembly, "attempt", None)
        was, new = assembly.tokens_before, _corrected(payload, attempt)
        if new is not None and _store(apps, payload, new) and assembly.kind == "retry":
            _store_attempt(attempt, was, assembly.tokens_before)
    attempts = apps.get_model("contextopt", "Attempt").objects.select_related("task")
    for attempt in attempts.filter(assembly__kind="agent", delta_tokens__gt=0).iterator(CHUNK):
        _correct_part(attempt)
    for payload, new in _handoffs(apps):
        _store(apps, payload, new)


TABLES = ("assembly", "attempt")


def forwards(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    def switch(state: str) -> None:
        for table in TABLES:
            schema_editor.execute(
                f"ALTER TABLE contextopt_{table} {state} TRIGGER contextopt_{table}_immutable"
            )

    # Deferred checks would block the change of the tables.
    schema_editor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    switch("DISABLE")
    correct(apps)
    switch("ENABLE")


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0060_abandoned_prompts")]

    operations: ClassVar = [migrations.RunPython(forwards, migrations.RunPython.noop)]
