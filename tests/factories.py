"""What tests are made of. Each factory goes through the product's own way in."""

from datetime import UTC, datetime
from typing import Any

from contextopt.assembling import AssemblyResult, assemble_space
from contextopt.inputs import AssemblyIn, RecordIn, SpaceIn
from contextopt.models import ApiKey, Membership, Record, Role, Scope, Space, Team, User
from contextopt.recording import create_record, create_space

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)


def make_team(slug: str = "platform", **overrides: Any) -> Team:
    return Team.objects.create(slug=slug, **{"name": slug.title(), **overrides})


def make_user(username: str, team: Team | None = None, role: Role = Role.ADMIN, **overrides: Any) -> User:
    user = User.objects.create_user(username, password="correct horse", **overrides)
    if team is not None:
        Membership.objects.create(team=team, user=user, role=role)
    return user


def make_key(team: Team, scope: Scope = Scope.ADMIN, name: str = "test") -> tuple[ApiKey, str]:
    """Return the key and its secret."""
    return ApiKey.objects.create_with_secret(team=team, name=name, scope=scope)


def make_space(team: Team, slug: str = "support", **overrides: Any) -> Space:
    data = {"slug": slug, "name": "Support notes", "description": "What the support team writes down."}
    return create_space(team=team, data=SpaceIn(**{**data, **overrides}), actor="test")


def make_record(space: Space, **overrides: Any) -> Record:
    """Make a record; `view_count` and `deleted_at` may be given too."""
    state = {name: overrides.pop(name) for name in ("view_count", "deleted_at") if name in overrides}
    data = {"title": "Queue stuck after deploy", "date": NOW, "notes": "Workers hold the old lock."}
    record = create_record(space=space, data=RecordIn(**{**data, **overrides}), actor="test")
    if state:
        Record.objects.filter(pk=record.pk).update(**state)
        record.refresh_from_db()
    return record


def make_assembly(space: Space, **overrides: Any) -> AssemblyResult:
    """Assemble a context of the space and log it."""
    created_at = overrides.pop("created_at", None)
    request = AssemblyIn(**{"space": space.slug, "as_of": NOW, **overrides})
    return assemble_space(team_id=space.team_id, request=request, actor="test", created_at=created_at)
