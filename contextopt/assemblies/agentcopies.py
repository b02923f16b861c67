"""Erases what agents' contexts copied from spaces and memories. Their figures and hashes stay.

Only headings, fences and the blank lines between sections are ours. Every line of contents is marked, so the
lines to erase are found whatever they say.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import batched

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.fields.json import KT
from django.utils import timezone

from contextopt.assemblies.models import AssemblyPayload, Kind
from contextopt.engine.agents.contexts import heading_line
from contextopt.engine.text.marks import MARK
from contextopt.spaces.models import PURGED, Space

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
