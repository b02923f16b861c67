"""Decisions of recent assemblies on a record: whether it was sent, and why."""

from dataclasses import dataclass
from datetime import datetime

from contextopt.models import Assembly, AssemblyPayload, Record
from dashboard.kit.formats import reason_words

ASSEMBLIES_SEARCHED = 200
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a record in one assembly.

    `score` is None in a stage that does not score. `reason` is empty if the record was kept, `question` if
    there was none.
    """

    assembly_id: int
    created_at: datetime
    question: str
    score: float | None
    is_kept: bool
    reason: str


def read_decisions(record: Record) -> list[Decision]:
    """Return the newest decisions on a record among the space's newest assemblies.

    A dropped record is found only if it was among the best hundred dropped ones, which the ledger names.
    """
    newest = Assembly.objects.filter(space=record.space_id).newest_first()
    payloads = (
        AssemblyPayload.objects.filter(
            pk__in=newest.values("pk")[:ASSEMBLIES_SEARCHED], record_ids__contains=[record.pk]
        )
        .select_related("assembly")
        .only("ledger", "request", "assembly__created_at")
        .order_by("-assembly__created_at", "-pk")[:SHOWN]
    )
    return [
        Decision(
            assembly_id=payload.pk,
            created_at=payload.assembly.created_at,
            question=payload.request.get("query") or "",
            score=entry["score"] if entry["parts"] else None,
            is_kept=entry["kept"],
            reason=reason_words(entry["reason"]) if entry["reason"] else "",
        )
        for payload in payloads
        for entry in payload.entries
        if entry["id"] == record.pk
    ]
