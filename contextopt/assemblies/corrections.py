"""Savings that an upgrade corrected, because earlier versions counted them wrongly."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from django.db import models
from django.db.models import Count, F, Q, Sum
from django.utils import timezone

from contextopt.assemblies.models import COUNTS, Assembly, Kind
from contextopt.engine.values import INSUFFICIENT
from contextopt.engine.wording import plural
from contextopt.people.models import Team


class CorrectionReason(models.TextChoices):
    """Why a saving that an earlier version logged counts differently now."""

    MARKS = "marks", "marks that only Contextopt adds are not part of the full context"
    REPLAN = "replan", "a planner is not sent the error of a replan"
    LOST = "lost", "a hand-off saves nothing by losing findings"
    UNRECEIVED = "unreceived", "no phase receives it"
    REPLACED = "replaced", "nobody read the version before it"


class Correction(models.Model):
    """A logged saving that an upgrade corrected. Log entry, account and rollups have the right figures."""

    assembly = models.OneToOneField(Assembly, models.DB_CASCADE, related_name="correction", primary_key=True)
    reason = models.CharField(max_length=10, choices=CorrectionReason)
    tokens_before = models.PositiveIntegerField(null=True, help_text="baseline before the correction")
    corrected_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"correction of assembly {self.pk}: {self.reason}"


@dataclass(frozen=True, slots=True)
class CorrectedSavings:
    """A team's corrected savings of one kind and reason, in tokens before and after the correction."""

    team: str
    kind: str
    reason: str
    assemblies: int
    saved_before: int
    saved_after: int

    def __str__(self) -> str:
        corrected = plural(self.assemblies, Kind(self.kind).label.lower())
        return (
            f"Corrected by an upgrade: {corrected}, {self.saved_after:,} tokens saved instead of "
            f"{self.saved_before:,}, since {CorrectionReason(self.reason).label}."
        )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "why": CorrectionReason(self.reason).label}


# Only baselines and whether a text was received are corrected, so the rest of the rule held before too.
_COUNTED_THEN = Q(correction__tokens_before__isnull=False) & ~Q(warning_codes__overlap=sorted(INSUFFICIENT))
_SAVED_THEN = F("correction__tokens_before") - F("tokens_after")
_SAVED_NOW = F("tokens_before") - F("tokens_after")


def list_corrections(teams: Iterable[Team]) -> list[CorrectedSavings]:
    """Return the corrected savings of these teams, by kind and reason."""
    groups = ("team__slug", "kind", "correction__reason")
    rows = Assembly.objects.filter(team__in=list(teams), correction__isnull=False).values_list(*groups)
    summed = rows.annotate(
        Count("pk"),
        then=Sum(_SAVED_THEN, filter=_COUNTED_THEN, default=0),
        now=Sum(_SAVED_NOW, filter=COUNTS, default=0),
    )
    return [CorrectedSavings(*row) for row in summed.order_by(*groups)]
