"""Versioned settings of what each phase of a coding agent is sent."""

from typing import ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Length

from contextopt.engine import phases
from contextopt.engine.agentcontext import FIELDS
from contextopt.models.access import Team

models.CharField.register_lookup(Length)

PHASE_MAX = phases.MAX_PHASE_CHARS
PHASE_BUDGET_MAX = 2_000_000
PHASE_SETTINGS = ("budget_tokens", "fields")


class PhaseProfileQuerySet(models.QuerySet["PhaseProfile"]):
    def active(self) -> Self:
        return self.filter(is_active=True)

    @transaction.atomic
    def publish(
        self, *, team: Team, phase: str, created_by: str, note: str = "", **settings: object
    ) -> "PhaseProfile":
        """Add the next version and make it the active one.

        Settings that are not given are those in force: of the active version, else the defaults.
        """
        Team.objects.select_for_update(no_key=True).get(pk=team.pk)
        versions = self.filter(team=team, phase=phase)
        latest = versions.order_by("-version").first()
        current = versions.active().first() or latest or phases.DEFAULT_PROFILES.get(phase)
        carried = {name: getattr(current, name) for name in PHASE_SETTINGS} if current else {}
        values = {**carried, **settings}
        if "fields" in values:
            values["fields"] = list(values["fields"])
        profile = self.model(
            team=team,
            phase=phase,
            version=latest.version + 1 if latest else 1,
            created_by=created_by,
            note=note,
            is_active=True,
            **values,
        )
        profile.full_clean(validate_constraints=False)
        versions.active().update(is_active=False)
        profile.save(force_insert=True)
        return profile


class PhaseProfile(models.Model):
    """One immutable version of a phase's settings; a trigger refuses any change but of `is_active`.

    A phase of which the team has no version is as the engine's defaults say.
    """

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="phase_profiles")
    phase = models.CharField(max_length=PHASE_MAX)
    version = models.PositiveIntegerField()
    is_active = models.BooleanField(default=False)
    budget_tokens = models.PositiveIntegerField(validators=[MaxValueValidator(PHASE_BUDGET_MAX)])
    fields = ArrayField(
        models.CharField(max_length=32, choices=[(name, name) for name in FIELDS]),
        default=list,
        blank=True,
        help_text=f"Separated by commas: {', '.join(FIELDS)}. The task is always kept.",
    )
    note = models.CharField(max_length=200, blank=True)
    created_by = models.CharField(max_length=160, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = PhaseProfileQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "phase", "version"], name="phase_version_once"),
            # Every filtering reads the profile in force.
            models.UniqueConstraint(
                fields=["team", "phase"], condition=Q(is_active=True), name="phase_active_once"
            ),
            models.CheckConstraint(condition=Q(phase__length__gte=1), name="phase_named"),
            models.CheckConstraint(condition=Q(fields__contained_by=list(FIELDS)), name="phase_fields"),
            models.CheckConstraint(condition=Q(budget_tokens__lte=PHASE_BUDGET_MAX), name="phase_budget"),
        ]

    def __str__(self) -> str:
        return f"{self.phase} v{self.version}"

    def clean(self) -> None:
        """Refuse a field that is named twice."""
        if len(set(self.fields)) < len(self.fields):
            raise ValidationError({"fields": "must name each field once"})

    def to_value(self) -> phases.PhaseProfile:
        """Return the engine's value."""
        return phases.PhaseProfile(self.phase, self.budget_tokens, tuple(self.fields))
