"""Erases what is kept of prompts and answers whose context showed a purged record or a deleted space."""

from itertools import batched

from django.db.models import Case, QuerySet, Value, When

from contextopt.gateway.models import GatewayRequest
from contextopt.spaces.models import PURGED, Record, Space

# Requests that are erased together.
BATCH = 500


def erase_from_requests(record: Record) -> int:
    """Erase the kept texts of the conversations that a context with the record was in; return how many.

    Earlier blocks of a conversation stay in sight, so each of its later answers may repeat them.
    """
    shown = GatewayRequest.objects.filter(
        space=record.space_id,
        assembly__payload__record_ids__contains=[record.pk],
        assembly__payload__ledger__order__contains=[record.pk],
    )
    kept = _kept(record.space.team_id).filter(conversation__in=shown.values("conversation"))
    return _erase_texts(kept)


def erase_space_from_requests(space: Space) -> int:
    """Erase the kept texts of conversations that were given a context of the space; return how many.

    The requests of the space itself are deleted with it. A conversation may have others, of another space.
    """
    shown = GatewayRequest.objects.filter(space=space).exclude(assembly=None).exclude(conversation="")
    kept = _kept(space.team_id).exclude(space=space).filter(conversation__in=shown.values("conversation"))
    erased = 0
    for some in batched(list(kept.order_by("pk").values_list("pk", flat=True)), BATCH):
        erased += _erase_texts(GatewayRequest.objects.filter(pk__in=some))
    return erased


def _kept(team_id: int) -> QuerySet[GatewayRequest]:
    return GatewayRequest.objects.filter(team=team_id).exclude(question="", answer="")


def _erase_texts(kept: QuerySet[GatewayRequest]) -> int:
    return kept.update(
        **{
            name: Case(When(**{name: ""}, then=Value("")), default=Value(PURGED))
            for name in ("question", "answer")
        }
    )
