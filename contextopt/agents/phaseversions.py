"""Numbered versions of what a team sets for a phase. One of them is active."""

from typing import Any, ClassVar

from django.db import models, transaction

from contextopt.engine.agents.phases import MAX_PHASE_CHARS
from contextopt.limits import ACTOR_MAX
from contextopt.people.audit import SYSTEM, note_event
from contextopt.people.models import Team
from contextopt.sql import find_one


class PhaseVersion(models.Model):
    """One immutable version of a phase's settings. A trigger refuses changes to anything but `is_active`."""

    SETTINGS: ClassVar[tuple[str, ...]]
    EVENT: ClassVar[str]

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="%(class)ss")
    phase = models.CharField(max_length=MAX_PHASE_CHARS)
    version = models.PositiveIntegerField()
    is_active = models.BooleanField(default=False)
    note = models.CharField(max_length=200, blank=True)
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.phase} v{self.version}"

    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.SETTINGS}


def add_version(added: PhaseVersion) -> None:
    """Save it under the phase's next number and activate it. The caller holds the team's lock."""
    versions = type(added)._default_manager.filter(team=added.team, phase=added.phase)
    before = versions.filter(is_active=True).first()
    latest = versions.order_by("-version").first()
    added.version = latest.version + 1 if latest else 1
    added.is_active = True
    versions.filter(is_active=True).update(is_active=False)
    added.save(force_insert=True)
    _note(added.created_by, "published", before, added)


def find_version[V: PhaseVersion](model: type[V], team_id: int, phase: str, version: int) -> V:
    """Return one version.

    Raises:
        NotFound: the team has no such version.
    """
    rows = model._default_manager.filter(team_id=team_id, phase=phase, version=version)
    return find_one(rows, f"version {version} of the {model._meta.verbose_name} {phase!r}")


@transaction.atomic
def activate_version[V: PhaseVersion](
    model: type[V], *, team: Team, phase: str, version: int, actor: str = SYSTEM
) -> V:
    """Make an earlier version the active one again. The version itself does not change.

    Raises:
        NotFound: the team has no such version.
    """
    team.lock()
    activated = find_version(model, team.pk, phase, version)
    others = model._default_manager.filter(is_active=True, team=team, phase=phase).exclude(pk=activated.pk)
    before = others.first()
    others.update(is_active=False)
    model._default_manager.filter(pk=activated.pk).update(is_active=True)
    activated.is_active = True
    if before:
        _note(actor, "activated", before, activated)
    return activated


def _note(actor: str, change: str, before: PhaseVersion | None, after: PhaseVersion) -> None:
    note_event(
        team_id=after.team_id,
        actor=actor,
        action=f"{after.EVENT}.{change}",
        subject=str(after),
        before={"version": before.version, **before.settings()} if before else None,
        after={"version": after.version, **after.settings()},
    )
