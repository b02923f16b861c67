"""Erases what is kept of prompts and answers, if their context showed a record that was purged."""

from django.db.models import Case, Value, When

from contextopt.gateway.models import GatewayRequest
from contextopt.spaces.models import PURGED, Record


def erase_from_requests(record: Record) -> int:
    """Erase the kept texts of the conversations that a context with the record was in; return how many.

    Earlier blocks of a conversation stay in sight, so each of its later answers may repeat them.
    """
    shown = GatewayRequest.objects.filter(
        space=record.space_id,
        assembly__payload__record_ids__contains=[record.pk],
        assembly__payload__ledger__order__contains=[record.pk],
    )
    kept = GatewayRequest.objects.filter(
        team=record.space.team_id, conversation__in=shown.values("conversation")
    ).exclude(question="", answer="")
    return kept.update(
        **{
            name: Case(When(**{name: ""}, then=Value("")), default=Value(PURGED))
            for name in ("question", "answer")
        }
    )
