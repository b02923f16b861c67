"""Reads and changes how prompts of a space are treated, and erases what was kept of them.

Each change is logged. Texts are erased if their context showed a purged record or a deleted space.
"""

from collections.abc import Mapping
from itertools import batched
from typing import Annotated, Any, Literal

from django.db import transaction
from django.db.models import Case, QuerySet, Value, When
from pydantic import Field, StringConstraints

from contextopt.assemblies.candidates import ConfiguredSpace
from contextopt.engine.settings import MAX_PART_TOKENS
from contextopt.gateway.models import (
    PHRASE_MAX,
    PHRASE_MIN,
    PHRASES_MAX,
    TIME_LIMIT_MAX_MS,
    TIME_LIMIT_MIN_MS,
    TIME_LIMIT_MS,
    GatewayPolicy,
    GatewayRequest,
)
from contextopt.inputs import Input
from contextopt.locks import hold_space
from contextopt.people.audit import list_events, note_event
from contextopt.people.models import AuditEvent
from contextopt.spaces.models import PURGED, Record, Space

CHANGED = "gateway.changed"
EDITORS_FIELDS = frozenset({"time_limit_ms"})
"""Editors and keys with scope write may change these. The rest takes an admin."""
# Requests that are erased together.
BATCH = 500


type Phrase = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=PHRASE_MIN, max_length=PHRASE_MAX)
]


class PolicyPatch(Input):
    """The fields to change. Only `history_tokens` may be null: then history is never cut."""

    mode: Literal["audit", "insert"] = "audit"
    insert_percent: Annotated[int, Field(ge=0, le=100)] = 100
    placement: Literal["auto", "system", "tail", "append"] = "auto"
    keep: Literal["sizes", "question", "all"] = "sizes"
    history_tokens: Annotated[int, Field(ge=1, le=MAX_PART_TOKENS)] | None = None
    time_limit_ms: Annotated[int, Field(ge=TIME_LIMIT_MIN_MS, le=TIME_LIMIT_MAX_MS)] = TIME_LIMIT_MS
    internal_phrases: Annotated[list[Phrase], Field(default_factory=list, max_length=PHRASES_MAX)]


def read_policy(space: Space | ConfiguredSpace) -> GatewayPolicy:
    """Return the space's policy, or the defaults if it has none."""
    return GatewayPolicy.objects.filter(space=space.id).first() or GatewayPolicy(space_id=space.id)


@transaction.atomic
def change_policy(*, space: Space, changes: PolicyPatch, actor: str) -> GatewayPolicy:
    """Change the given fields. They take effect within 5 seconds.

    Raises:
        NotFound: the space was deleted in the meantime.
    """
    hold_space(space.pk)
    rows = GatewayPolicy.objects.select_for_update(no_key=True)
    policy, _ = rows.get_or_create(space=space)
    before = policy_values(policy)
    given = changes.model_dump(exclude_unset=True)
    if all(before[name] == value for name, value in given.items()):
        return policy
    for name, value in given.items():
        setattr(policy, name, value)
    policy.save(update_fields=[*given, "updated_at"])
    note_event(
        team_id=space.team_id,
        actor=actor,
        action=CHANGED,
        subject=space.slug,
        before=before,
        after=policy_values(policy),
    )
    return policy


def last_change(space: Space) -> AuditEvent | None:
    """Return the newest entry of the space's policy in the change log."""
    rows = list_events(space.team, action=CHANGED).filter(subject=space.slug)
    return rows.order_by("-at", "-id").first()


def policy_values(policy: GatewayPolicy) -> Mapping[str, Any]:
    return {name: getattr(policy, name) for name in PolicyPatch.model_fields}


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
