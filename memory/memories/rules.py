"""A team's rules for the decay of memories, hints and ratings."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from contextopt.people.models import Team
from memory.memories.models import TYPE_MAX

HALF_LIFE_DAYS_MAX = 36_500


class HalfLife(models.Model):
    """A team's own half-life for one type of memory; other types have the defaults."""

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="half_lives", db_index=False)
    memory_type = models.CharField(max_length=TYPE_MAX)
    days = models.FloatField(help_text="days without access after which a memory counts half")

    class Meta:
        verbose_name_plural = "half-lives"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "memory_type"], name="half_life_once", include=["days"]),
            models.CheckConstraint(
                condition=Q(days__gt=0, days__lte=HALF_LIFE_DAYS_MAX), name="half_life_days"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.memory_type}: {self.days:g} days"


class MemoryPolicy(models.Model):
    """A team's rules for hints and ratings; a team without a row has the defaults."""

    team = models.OneToOneField(Team, models.DB_CASCADE, related_name="memory_policy", primary_key=True)
    hints_across_repositories = models.BooleanField(
        default=False, help_text="allow hints from the team's other repositories"
    )
    rating_weight = models.FloatField(default=0.3, help_text="weight of one rating in the trust, 0 to 1")
    retire_below = models.FloatField(
        default=0.25, help_text="retire a strategy when its trust falls below this"
    )
    retire_after = models.PositiveIntegerField(
        default=3, help_text="minimum number of ratings before a strategy is retired"
    )

    class Meta:
        verbose_name_plural = "memory policies"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(
                    rating_weight__gt=0, rating_weight__lte=1, retire_below__gte=0, retire_below__lte=1
                ),
                name="memory_policy_shares",
            ),
        ]

    def __str__(self) -> str:
        return f"rules of {self.team_id}"
