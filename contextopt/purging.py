"""Erasing a record's text everywhere: the record, its revisions, its vectors and every stored assembly."""

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from contextopt.auditing import SYSTEM, note_event
from contextopt.models import AssemblyPayload, Record, RecordEmbedding, StoredResponse
from contextopt.models.spaces import PURGED
from contextopt.recording import lock_space

# The database's clock dates assemblies, the web machine's dates records.
CLOCKS_APART = timedelta(days=1)
PURGED_LINE = f"- {PURGED}\n"


def purge_record(*, record: Record, actor: str = SYSTEM) -> Record:
    """Erase the record's text everywhere. Numbers and hashes stay, and so do its source and external id,
    so that a later import cannot bring the text back. There is no undo.
    """
    with transaction.atomic():
        _erase_record(record)
        erase_from_assemblies(record)
        # Answers kept for repeated writes may quote the record; without them a repeat is done anew.
        StoredResponse.objects.filter(api_key__team=record.space.team_id).delete()
        subject = f"{record.space.slug}: record {record.pk}"
        note_event(team_id=record.space.team_id, actor=actor, action="record.purged", subject=subject)
    record.refresh_from_db()
    return record


def _erase_record(record: Record) -> None:
    erased: dict[str, Any] = {
        "title": PURGED, "type": "note", "notes": "", "tags": [], "metadata": {}, "thread": "",
    }  # fmt: skip
    lock_space(record.space)
    now = timezone.now()
    record.revisions.update(**erased)
    # A vector tells what a text was about. One that is being made of the old text now is deleted by the job
    # that this write calls for.
    RecordEmbedding.objects.filter(record=record).delete()
    Record.objects.filter(pk=record.pk).update(
        **erased,
        summary=PURGED_LINE,
        deleted_at=record.deleted_at or now,
        purged_at=record.purged_at or now,
        updated_at=now,
    )


def erase_from_assemblies(record: Record) -> int:
    """Replace the record's lines in stored texts; return how many payloads held one.

    An assembly that read the record just before the purge may be stored just after it, so the sweep
    calls this again for records purged a little while ago. Payloads are held in their order, so that two
    purges never wait for each other in a circle.
    """
    # What an assembly of demo data says of its own moment is made up.
    may_have_read = Q(assembly__created_at__gte=record.created_at - CLOCKS_APART) | Q(assembly__is_demo=True)
    payloads = AssemblyPayload.objects.select_for_update(no_key=True).filter(
        may_have_read, assembly__space=record.space
    )
    erased = 0
    holding = payloads.filter(record_ids__contains=[record.pk]).order_by("pk")
    for payload in holding.iterator(chunk_size=200):
        erased += _erase_from(payload, record.pk)
    return erased


def _erase_from(payload: AssemblyPayload, record_id: int) -> bool:
    text = erase_line(payload.text, payload.ledger["order"], record_id)
    baseline = erase_line(payload.baseline_text or "", payload.ledger["baseline_order"], record_id)
    if (text, baseline) == (payload.text, payload.baseline_text or ""):
        return False
    payload.text = text
    payload.baseline_text = None if payload.baseline_text is None else baseline
    payload.purged_at = timezone.now()
    payload.save(update_fields=["text", "baseline_text", "purged_at"])
    return True


def erase_line(text: str, order: list[int], record_id: int) -> str:
    """Replace the line of a record in a rendered text, whose last lines are the records in `order`."""
    if record_id not in order:
        return text
    lines = text.splitlines(keepends=True)
    lines[len(lines) - len(order) + order.index(record_id)] = PURGED_LINE
    return "".join(lines)
