"""Uses of strategies, their ratings, and the resulting changes of trust."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils import timezone

from contextopt.agents.models import Task
from contextopt.assemblies.models import Assembly
from contextopt.limits import ACTOR_MAX
from memory.memories.models import REASON_MAX, Memory


class StrategyUse(models.Model):
    """One plan that was given a strategy as its hint, and how it went."""

    memory = models.ForeignKey(Memory, models.DB_CASCADE, related_name="uses")
    task = models.ForeignKey(Task, models.DB_SET_NULL, null=True, blank=True, related_name="strategy_uses")
    assembly = models.ForeignKey(
        Assembly, models.DB_SET_NULL, null=True, blank=True, related_name="strategy_uses"
    )
    match_score = models.FloatField(help_text="how well the strategy matched the task, 0 to 1")
    similarity = models.FloatField(null=True, blank=True, help_text="cosine; blank without a vector")
    word_share = models.FloatField(
        null=True, blank=True, help_text="share of the task's words that the strategy holds"
    )
    same_pattern = models.BooleanField(default=False, help_text="whether the task had the strategy's pattern")
    asked = models.CharField(max_length=200, help_text="start of the task description")
    tokens_saved = models.BigIntegerField(
        null=True,
        blank=True,
        help_text="compared with similar tasks without the strategy; blank if there are none",
    )
    rating = models.FloatField(null=True, blank=True, help_text="0: it hurt, 1: it helped")
    rated_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    rated_at = models.DateTimeField(null=True, blank=True)
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(rating=None) | Q(rating__gte=0, rating__lte=1), name="strategy_use_rating"
            ),
        ]
        # The latest uses of a strategy.
        indexes: ClassVar = [
            models.Index(fields=["memory", "-created_at", "-id"], name="strategy_use_newest")
        ]

    def __str__(self) -> str:
        return f"use {self.pk} of memory {self.memory_id}"


class TrustChange(models.Model):
    """One change of a strategy's trust: its cause, and the trust after it.

    These rows are enough to compute the trust again: see `strategies.active_ratings`.
    """

    memory = models.ForeignKey(Memory, models.DB_CASCADE, related_name="trust_changes", db_index=False)
    use = models.ForeignKey(
        StrategyUse, models.DB_SET_NULL, null=True, blank=True, related_name="trust_changes"
    )
    trust = models.FloatField()
    weight = models.FloatField(
        null=True, blank=True, help_text="weight of the rating; blank when trust is reset"
    )
    rating = models.FloatField(
        null=True, blank=True, help_text="blank with a weight: the rating was withdrawn"
    )
    reason = models.CharField(max_length=REASON_MAX)
    changed_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    changed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(trust__gte=0, trust__lte=1), name="trust_change_trust"),
        ]
        # A strategy's chart.
        indexes: ClassVar = [models.Index(fields=["memory", "changed_at", "id"], name="trust_change_of")]

    def __str__(self) -> str:
        return f"{self.trust:.2f}: {self.reason}"
