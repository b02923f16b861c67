"""Joins the names of phases: whose profile each uses, and whose hand-off it receives."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Length
from pydantic import Field

from contextopt.agents.inputs import Phase
from contextopt.agents.models import HandoffPhase, PhaseProfile
from contextopt.agents.phaseversions import PhaseVersion, add_version
from contextopt.engine.agents import phases
from contextopt.engine.agents.phases import DEFAULT_LINKS, DEFAULT_PROFILES, MAX_PHASE_CHARS
from contextopt.errors import Conflict, InvalidInput
from contextopt.inputs import Input, Text
from contextopt.people.models import Team

models.CharField.register_lookup(Length)

LINKS_MAX = 100
"""The most phases that a team may have links for."""


class LinkIn(Input):
    """A phase's next link. Fields you omit are copied from the active one; null for `receives` means none."""

    profile: Phase | None = None
    receives: Literal["analysis", "design", "implementation"] | None = None
    note: Annotated[Text, Field(max_length=200)] = ""


class PhaseLink(PhaseVersion):
    """One version of a phase's link. A phase without one in the team uses the engine's default."""

    SETTINGS = ("profile", "receives")
    EVENT = "phase_link"

    profile = models.CharField(max_length=MAX_PHASE_CHARS, help_text="The phase whose profile it uses.")
    receives = models.CharField(
        max_length=16,
        choices=HandoffPhase,
        blank=True,
        help_text="The phase whose hand-off its steps are sent. Leave blank for none.",
    )

    class Meta(PhaseVersion.Meta):
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
    stored = PhaseLink.objects.filter(is_active=True, team_id=team_id, phase=phase).first()
    if stored is not None:
        return ActiveLink(stored.to_value(), stored.version)
    return ActiveLink(DEFAULT_LINKS.get(phase, phases.PhaseLink(phase, phase)), None)


def load_active_links(team_id: int) -> list[ActiveLink]:
    """Return the whole table: the defaults in order, then the team's other phases."""
    found = {name: ActiveLink(value, None) for name, value in DEFAULT_LINKS.items()}
    own = PhaseProfile.objects.filter(is_active=True, team_id=team_id).order_by("phase")
    for name in own.values_list("phase", flat=True):
        found.setdefault(name, ActiveLink(phases.PhaseLink(name, name), None))
    for stored in PhaseLink.objects.filter(is_active=True, team_id=team_id).order_by("phase"):
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
    values = load_active_link(team.pk, phase).value.to_json() | given
    check_link(team.pk, phase, profile=values["profile"])
    link = PhaseLink(
        team=team,
        phase=phase,
        profile=values["profile"],
        receives=values["receives"] or "",
        note=data.note,
        created_by=created_by,
    )
    add_version(link)
    return link


def check_link(team_id: int, phase: str, *, profile: str) -> None:
    """Check that a link may be published.

    Raises:
        InvalidInput: there is no such profile.
        Conflict: the team has as many links as it may.
    """
    profiles = PhaseProfile.objects.filter(is_active=True, team_id=team_id, phase=profile)
    if profile not in DEFAULT_PROFILES and not profiles.exists():
        raise InvalidInput.of("profile", f"there is no profile {profile!r:.80}")
    active = PhaseLink.objects.filter(is_active=True, team_id=team_id)
    if active.count() >= LINKS_MAX and not active.filter(phase=phase).exists():
        raise Conflict(f"The team already has links for {LINKS_MAX} phases, the maximum.")
