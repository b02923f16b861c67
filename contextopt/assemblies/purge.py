"""Erases a record's text everywhere: record, revisions, vectors, assemblies and stored responses."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import batched
from typing import Any

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.fields.json import KT
from django.utils import timezone

from contextopt.assemblies.models import AssemblyPayload, Columns, Kind
from contextopt.engine.agents.contexts import heading_line
from contextopt.engine.text.quoting import MARK, mark
from contextopt.people.audit import SYSTEM, note_event
from contextopt.spaces.models import PURGE_KEY_TABLE, PURGED, Record, RecordEmbedding, Space, purged_id_sql
from contextopt.spaces.records import lock_space
from contextopt.spaces.storedresponses import erase_named
from contextopt.sql import execute

# Assemblies are dated by the database's clock, records by the web machine's.
CLOCKS_APART = timedelta(days=1)
PURGED_LINE = f"- {PURGED}\n"
# Only once, because a second purge would hash the hash.
_HASH_ID = f"""
UPDATE contextopt_record r SET external_id = {purged_id_sql("r.space_id", "r.source", "r.external_id")}
  FROM {PURGE_KEY_TABLE} WHERE r.id = %s AND r.purged_at IS NULL AND r.external_id <> ''
"""


type Eraser = Callable[[Record], object]

_erasers: list[Eraser] = []


def register_eraser(eraser: Eraser) -> None:
    """Call this for each purged record, to erase what a higher layer keeps of the contexts that showed it.

    It may be called again for the same record.
    """
    _erasers.append(eraser)


def purge_record(*, record: Record, actor: str = SYSTEM) -> Record:
    """Erase the record's text everywhere. There is no undo.

    Numbers, hashes and the source stay. A keyed hash replaces the external id, so a later import recognises
    the record and cannot bring its text back.
    """
    with transaction.atomic():
        _erase_record(record)
        record.refresh_from_db(fields=["external_id"])
        erase_from_assemblies(record)
        erase_named([record])
        _erase_from_admin(record)
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
    execute(_HASH_ID, [record.pk])
    # A vector reveals what a text was about. If one is just being made from the old text, the job that this
    # write triggers deletes it.
    RecordEmbedding.objects.filter(record=record).delete()
    Record.objects.filter(pk=record.pk).update(
        **erased,
        summary=PURGED_LINE,
        deleted_at=record.deleted_at or now,
        purged_at=record.purged_at or now,
        updated_at=now,
    )


def _erase_from_admin(record: Record) -> None:
    """Erase the title from the admin's own log of edits."""
    entries = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(Record))
    entries.filter(object_id=str(record.pk)).update(object_repr=PURGED)


def erase_from_assemblies(record: Record) -> int:
    """Erase the record's lines and external id from stored payloads; return how many had one.

    An assembly that read the record just before the purge may be stored just after it, so the sweep calls
    this again for recently purged records. Payloads are locked in order, so that two purges never deadlock.
    """
    # Demo assemblies have made-up creation times.
    may_have_read = Q(assembly__created_at__gte=record.created_at - CLOCKS_APART) | Q(assembly__is_demo=True)
    for erase in _erasers:
        erase(record)
    payloads = AssemblyPayload.objects.select_for_update(of=("self",), no_key=True).filter(may_have_read)
    holding = payloads.filter(record_ids__contains=[record.pk]).order_by("pk")
    of_space = holding.filter(assembly__space=record.space)
    # Agent contexts belong to no space, since they show more of the team than one.
    of_agents = holding.filter(assembly__team=record.space.team_id, assembly__kind=Kind.AGENT)
    return sum(
        _erase_from(payload, record)
        for found in (of_space, of_agents)
        for payload in found.iterator(chunk_size=200)
    )


def _erase_from(payload: AssemblyPayload, record: Record) -> bool:
    text = _erase_from_text(payload, record.pk)
    baseline = erase_line(payload.baseline_text or "", payload.ledger["baseline_order"], record.pk)
    is_text_erased = (text, baseline) != (payload.text, payload.baseline_text or "")
    is_id_erased = erase_id(payload.ledger["candidates"], record)
    if is_text_erased:
        payload.text = text
        payload.baseline_text = None if payload.baseline_text is None else baseline
        # Set only if the text was erased: an intact text can still be recounted, whatever happened to ids.
        payload.purged_at = timezone.now()
    if is_text_erased or is_id_erased:
        payload.save(update_fields=["text", "baseline_text", "ledger", "purged_at"])
    return is_text_erased or is_id_erased


def _erase_from_text(payload: AssemblyPayload, record_id: int) -> str:
    """Return the payload's text without the record. The ledger of an agent context has its line's number."""
    if "record_lines" not in payload.ledger:
        return erase_line(payload.text, payload.ledger["order"], record_id)
    number = payload.ledger["record_lines"].get(str(record_id))
    lines = payload.text.splitlines(keepends=True)
    if number is not None:
        lines[number] = mark(PURGED_LINE)
    return "".join(lines)


def erase_id(candidates: Columns, record: Record) -> bool:
    """Put the record's current external id into its entry; return whether that changed it."""
    if record.pk not in candidates["id"]:
        return False
    place = candidates["id"].index(record.pk)
    was, candidates["external_id"][place] = candidates["external_id"][place], record.external_id
    return bool(was != record.external_id)


def erase_line(text: str, order: list[int], record_id: int) -> str:
    """Replace a record's line in a rendered text. The text's last lines are the records in `order`."""
    if record_id not in order:
        return text
    lines = text.splitlines(keepends=True)
    lines[len(lines) - len(order) + order.index(record_id)] = PURGED_LINE
    return "".join(lines)


# Payloads that are erased together.
BATCH = 200
ERASED_LINE = f"{MARK}{PURGED}\n"
# The columns of a ledger that name a record outside the product.
NAMES = ("source", "external_id")

type Erase = Callable[[AssemblyPayload], None]


def agent_payloads() -> QuerySet[AssemblyPayload]:
    return AssemblyPayload.objects.filter(assembly__kind=Kind.AGENT)


def erase_space_from_agents(space: Space) -> int:
    """Erase the space from agents' contexts, and return how many had something of it."""
    of_team = agent_payloads().filter(assembly__team=space.team_id, request__space=space.slug)
    return erase_from_payloads(of_team.values_list("pk", flat=True), _erase_space)


def erase_gone_spaces(since: datetime | None = None) -> int:
    """Erase deleted spaces from agents' contexts, or from those built since then; return how many had one.

    A context that was being built during the deletion may be stored just after it.
    """
    found = agent_payloads().annotate(named=KT("request__space")).filter(named__isnull=False)
    if since is not None:
        found = found.filter(assembly__created_at__gte=since)
    there = Space.objects.filter(team=OuterRef("assembly__team"), slug=OuterRef("named"))
    gone = found.exclude(Exists(there))
    return erase_from_payloads(gone.values_list("pk", flat=True), _erase_space)


def erase_from_payloads(ids: Iterable[int], erase: Erase) -> int:
    """Erase from these payloads, a batch at a time; return how many were changed.

    Payloads are locked in order, so that two purges never deadlock.
    """
    changed = 0
    for some in batched(sorted(ids), BATCH):
        with transaction.atomic():
            held = AssemblyPayload.objects.select_for_update(no_key=True).filter(pk__in=some).order_by("pk")
            changed += sum(_erase_one(payload, erase) for payload in held)
    return changed


def _erase_one(payload: AssemblyPayload, erase: Erase) -> bool:
    before = (payload.text, payload.ledger["candidates"].copy())
    erase(payload)
    if before == (payload.text, payload.ledger["candidates"]):
        return False
    payload.purged_at = timezone.now()
    payload.save(update_fields=["text", "ledger", "purged_at"])
    return True


def _erase_space(payload: AssemblyPayload) -> None:
    """Erase all documents: the space's header and records are among those that the agent brought along."""
    payload.text = erase_section(payload.text, "docs")
    candidates = payload.ledger["candidates"]
    for name in NAMES:
        if name in candidates:
            candidates[name] = [value and PURGED for value in candidates[name]]


def erase_section(text: str, field: str) -> str:
    """Replace the contents of a field of an agent's context. Each line keeps its number."""
    return "".join(_erase_between(text, lambda line: line == heading_line(field), lambda line: line == "\n"))


def erase_fence(text: str, label: str) -> str:
    """Replace what stands in fences with this label. Each line keeps its number."""
    opening, closing = f"[{label} ", f"[END {label} "
    return "".join(
        _erase_between(text, lambda line: line.startswith(opening), lambda line: line.startswith(closing))
    )


def _erase_between(text: str, opens: Callable[[str], bool], closes: Callable[[str], bool]) -> Iterator[str]:
    is_inside = False
    for line in text.splitlines(keepends=True):
        is_inside = opens(line) or (is_inside and not closes(line))
        yield ERASED_LINE if is_inside and not opens(line) else line
