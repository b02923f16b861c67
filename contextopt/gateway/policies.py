"""Reads and changes how prompts of a space are treated; each change is logged."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from django.db import transaction
from pydantic import Field

from contextopt.assemblies.candidates import ConfiguredSpace
from contextopt.engine.settings import MAX_PART_TOKENS
from contextopt.gateway.models import GatewayPolicy
from contextopt.inputs import Input
from contextopt.locks import hold_space
from contextopt.people.audit import list_events, note_event
from contextopt.people.models import AuditEvent
from contextopt.spaces.models import Space

CHANGED = "gateway.changed"


class PolicyPatch(Input):
    """The fields to change. Only `history_tokens` may be null: then history is never cut."""

    mode: Literal["audit", "insert"] = "audit"
    insert_percent: Annotated[int, Field(ge=0, le=100)] = 100
    placement: Literal["auto", "system", "tail", "append"] = "auto"
    keep: Literal["sizes", "question", "all"] = "sizes"
    history_tokens: Annotated[int, Field(ge=1, le=MAX_PART_TOKENS)] | None = None


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
