"""Create, change and revoke API keys; each change is logged."""

from collections.abc import Mapping

from django.db import transaction
from django.utils import timezone

from contextopt.errors import InvalidInput
from contextopt.people.audit import note_event
from contextopt.people.inputs import KeyIn
from contextopt.people.models import ApiKey, Team


@transaction.atomic
def create_key(*, team: Team, data: KeyIn, actor: str) -> tuple[ApiKey, str]:
    """Create a key and return it with its secret. Only a hash of the secret is stored.

    Raises:
        InvalidInput: the expiry is not in the future.
    """
    if data.expires_at is not None and data.expires_at <= timezone.now():
        raise InvalidInput.of("expires_at", "must be in the future")
    key, secret = ApiKey.objects.create_with_secret(
        team=team, name=data.name, scope=data.scope, created_by=actor, expires_at=data.expires_at
    )
    after = {"scope": key.scope, "prefix": key.prefix, "expires_at": key.expires_at}
    note_event(team_id=team.pk, actor=actor, action="key.created", subject=key.name, after=after)
    return key, secret


@transaction.atomic
def change_key(*, key: ApiKey, before: Mapping[str, object], actor: str) -> None:
    """Store a key's new name or expiry. `before` holds the old values of the changed fields."""
    if not before:
        return
    key.save(update_fields=list(before))
    after = {name: getattr(key, name) for name in before}
    note_event(
        team_id=key.team_id, actor=actor, action="key.changed", subject=key.name, before=before, after=after
    )


@transaction.atomic
def revoke_key(*, key: ApiKey, actor: str) -> None:
    """Revoke the key. Revoking it again does nothing."""
    if ApiKey.objects.select_for_update(no_key=True).get(pk=key.pk).revoked_at is not None:
        return
    key.revoke()
    note_event(
        team_id=key.team_id,
        actor=actor,
        action="key.revoked",
        subject=key.name,
        before={"prefix": key.prefix},
    )
