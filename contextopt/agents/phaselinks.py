"""Joins the names of phases: whose profile each uses, and whose hand-off it receives."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Length
from pydantic import Field

from contextopt.agents.inputs import Phase
from contextopt.agents.models import PHASE_MAX, HandoffPhase, PhaseProfile
from contextopt.engine.agents import phases
from contextopt.engine.agents.phases import DEFAULT_LINKS, DEFAULT_PROFILES
from contextopt.errors import Conflict, InvalidInput
from contextopt.inputs import Input, Text
from contextopt.limits import ACTOR_MAX
from contextopt.people.audit import SYSTEM, note_event
from contextopt.people.models import Team
from contextopt.sql import find_one

models.CharField.register_lookup(Length)

LINK_SETTINGS = ("profile", "receives")
LINKS_MAX = 100
"""The most phases that a team may have links for."""


class LinkIn(Input):
    """A phase's next link. Fields you omit are copied from the active one; null for `receives` means none."""

    profile: Phase | None = None
    receives: Literal["analysis", "design", "implementation"] | None = None
    note: Annotated[Text, Field(max_length=200)] = ""


class PhaseLinkQuerySet(models.QuerySet["PhaseLink"]):
    def active(self) -> Self:
        return self.filter(is_active=True)


class PhaseLink(models.Model):
    """One immutable version of a phase's link. A trigger refuses changes to anything but `is_active`.

    A phase without a version in the team uses the engine's default.
    """

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="phase_links")
    phase = models.CharField(max_length=PHASE_MAX)
    version = models.PositiveIntegerField()
    is_active = models.BooleanField(default=False)
    profile = models.CharField(max_length=PHASE_MAX, help_text="The phase whose profile it uses.")
    receives = models.CharField(
        max_length=16,
        choices=HandoffPhase,
        blank=True,
        help_text="The phase whose hand-off its steps are sent. Leave blank for none.",
    )
    note = models.CharField(max_length=200, blank=True)
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = PhaseLinkQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "phase", "version"], name="phase_link_version_once"),
            # Every step reads the active link.
            models.UniqueConstraint(
                fields=["team", "phase"], condition=Q(is_active=True), name="phase_link_active_once"
            ),
            models.CheckConstraint(
                condition=Q(phase__length__gte=1, profile__length__gte=1), name="phase_link_named"
            ),
            models.CheckConstraint(
                condition=Q(receives__in=["", *HandoffPhase.values]), name="phase_link_receives"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.phase} v{self.version}"

    def to_value(self) -> phases.PhaseLink:
        """Return the engine's value."""
        return phases.PhaseLink(self.phase, self.profile, self.receives)


@dataclass(frozen=True, slots=True)
class ActiveLink:
    """How a phase's name is read. `version` is None for a default that the team has not changed."""

    value: phases.PhaseLink
    version: int | None


def load_active_link(team_id: int, phase: str) -> ActiveLink:
    """Return the team's active link, or else the default. Any other phase has its own profile."""
    stored = PhaseLink.objects.active().filter(team_id=team_id, phase=phase).first()
    if stored is not None:
        return ActiveLink(stored.to_value(), stored.version)
    return ActiveLink(DEFAULT_LINKS.get(phase, phases.PhaseLink(phase, phase)), None)


def load_active_links(team_id: int) -> list[ActiveLink]:
    """Return the whole table: the defaults in order, then the team's other phases."""
    found = {name: ActiveLink(value, None) for name, value in DEFAULT_LINKS.items()}
    own = PhaseProfile.objects.active().filter(team_id=team_id).order_by("phase")
    for name in own.values_list("phase", flat=True):
        found.setdefault(name, ActiveLink(phases.PhaseLink(name, name), None))
    for stored in PhaseLink.objects.active().filter(team_id=team_id).order_by("phase"):
        found[stored.phase] = ActiveLink(stored.to_value(), stored.version)
    return list(found.values())


@transaction.atomic
def publish_link(*, team: Team, phase: str, data: LinkIn, created_by: str) -> PhaseLink:
    """Add the next version and make it the active one. Settings not given are carried over.

    Raises:
        InvalidInput: there is no such profile.
        Conflict: the team has as many links as it may.
    """
    given = data.model_dump(exclude_unset=True, exclude={"note"})
    if "profile" in given and given["profile"] is None:
        raise InvalidInput.of("profile", "must not be null; omit it to keep the current value")
    team.lock()
    current = load_active_link(team.pk, phase).value
    values = {name: getattr(current, name) for name in LINK_SETTINGS} | given
    check_link(team.pk, phase, profile=values["profile"])
    versions = PhaseLink.objects.filter(team=team, phase=phase)
    before, latest = versions.active().first(), versions.order_by("-version").first()
    link = PhaseLink(
        team=team,
        phase=phase,
        version=latest.version + 1 if latest else 1,
        is_active=True,
        profile=values["profile"],
        receives=values["receives"] or "",
        note=data.note,
        created_by=created_by,
    )
    versions.active().update(is_active=False)
    link.save(force_insert=True)
    _note(created_by, "phase_link.published", before, link)
    return link


def check_link(team_id: int, phase: str, *, profile: str) -> None:
    """Check that a link may be published.

    Raises:
        InvalidInput: there is no such profile.
        Conflict: the team has as many links as it may.
    """
    profiles = PhaseProfile.objects.active().filter(team_id=team_id, phase=profile)
    if profile not in DEFAULT_PROFILES and not profiles.exists():
        raise InvalidInput.of("profile", f"there is no profile {profile!r:.80}")
    active = PhaseLink.objects.active().filter(team_id=team_id)
    if active.count() >= LINKS_MAX and not active.filter(phase=phase).exists():
        raise Conflict(f"The team already has links for {LINKS_MAX} phases, the maximum.")


def find_link(team_id: int, phase: str, version: int) -> PhaseLink:
    """Return one version of a phase's link.

    Raises:
        NotFound: the team has no such version.
    """
    rows = PhaseLink.objects.filter(team_id=team_id, phase=phase, version=version)
    return find_one(rows, f"version {version} of the link of the phase {phase!r}")


@transaction.atomic
def activate_link(*, team: Team, phase: str, version: int, actor: str = SYSTEM) -> PhaseLink:
    """Make an earlier version the active one again. The version itself does not change.

    Raises:
        NotFound: the team has no such version.
    """
    team.lock()
    link = find_link(team.pk, phase, version)
    others = PhaseLink.objects.active().filter(team=team, phase=phase).exclude(pk=link.pk)
    before = others.first()
    others.update(is_active=False)
    PhaseLink.objects.filter(pk=link.pk).update(is_active=True)
    link.is_active = True
    if before:
        _note(actor, "phase_link.activated", before, link)
    return link


def _note(actor: str, action: str, before: PhaseLink | None, after: PhaseLink) -> None:
    note_event(
        team_id=after.team_id,
        actor=actor,
        action=action,
        subject=str(after),
        before=_settings_of(before) if before else None,
        after=_settings_of(after),
    )


def _settings_of(link: PhaseLink) -> dict[str, Any]:
    return {"version": link.version, **{name: getattr(link, name) for name in LINK_SETTINGS}}
