"""Backtests of settings, and the contexts that they compute again."""

from typing import ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone

from contextopt.assemblies.models import Assembly
from contextopt.engine.placement.choice import Split
from contextopt.limits import ACTOR_MAX
from contextopt.people.models import Team
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.models import Space

REASON_MAX = 32


class BacktestState(models.TextChoices):
    RUNNING = "running", "Running"
    DONE = "done", "Finished"
    CANCELLED = "cancelled", "Cancelled"


class BacktestQuerySet(models.QuerySet["Backtest"]):
    def of(self, team: Team) -> Self:
        return self.filter(space__team=team)

    def running(self) -> Self:
        return self.filter(state=BacktestState.RUNNING)

    def newest_first(self) -> Self:
        return self.order_by("-created_at", "-id")


class Backtest(models.Model):
    """The last `last` contexts of a space, computed again under one version of its settings.

    The contexts are chosen when it starts, so it has a row for each of them from then on.
    """

    space = models.ForeignKey(Space, models.DB_CASCADE, related_name="backtests", db_index=False)
    config = models.ForeignKey(ContextConfig, models.DB_CASCADE, related_name="backtests")
    last = models.PositiveIntegerField(help_text="contexts asked for")
    state = models.CharField(max_length=9, choices=BacktestState, default=BacktestState.RUNNING)
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    worked_at = models.DateTimeField(default=timezone.now, help_text="last context computed")
    finished_at = models.DateTimeField(null=True)

    objects = BacktestQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(state__in=BacktestState.values), name="backtest_state"),
        ]
        indexes: ClassVar = [
            # Lists of a space.
            models.Index(fields=["space", "-created_at", "-id"], name="backtest_newest"),
            # Backtests that a worker must go on with.
            models.Index(fields=["id"], condition=Q(state=BacktestState.RUNNING), name="backtest_running"),
        ]

    def __str__(self) -> str:
        return f"backtest {self.pk}"

    @property
    def is_running(self) -> bool:
        return self.state == BacktestState.RUNNING


class BacktestRowQuerySet(models.QuerySet["BacktestRow"]):
    def waiting(self) -> Self:
        return self.filter(is_done=False)

    def replayed(self) -> Self:
        return self.filter(tokens_after__isnull=False)

    def not_replayable(self) -> Self:
        return self.exclude(reason="")


class BacktestRow(models.Model):
    """One context as it was logged, and under the settings of the backtest.

    `evidence` holds the ids of records known to matter for its question, `lost` and `gained` those of them
    that only the logged or only the new context has. Without `tokens_after`, `reason` and `message` say why
    it could not be computed.
    """

    backtest = models.ForeignKey(Backtest, models.DB_CASCADE, related_name="rows", db_index=False)
    assembly = models.ForeignKey(Assembly, models.DB_CASCADE, related_name="backtest_rows")
    is_done = models.BooleanField(default=False)
    tokens_before = models.PositiveIntegerField()
    tokens_after = models.PositiveIntegerField(null=True)
    # The absolute change in tokens, by which lists are sorted.
    change = models.PositiveIntegerField(default=0)
    empty_before = models.BooleanField(default=False)
    empty_after = models.BooleanField(default=False)
    is_reconstructed = models.BooleanField(default=False)
    added = ArrayField(models.BigIntegerField(), default=list)
    removed = ArrayField(models.BigIntegerField(), default=list)
    evidence = ArrayField(models.BigIntegerField(), default=list)
    evidence_before = models.PositiveIntegerField(default=0, help_text="evidence in the logged context")
    evidence_after = models.PositiveIntegerField(default=0, help_text="evidence in the new context")
    lost = ArrayField(models.BigIntegerField(), default=list)
    gained = ArrayField(models.BigIntegerField(), default=list)
    # How the provider's cache would divide the prompt. None outside of a conversation.
    prompt_after = models.PositiveIntegerField(
        null=True, help_text="tokens of the prompt with the new context"
    )
    cached_after = models.PositiveIntegerField(null=True)
    cacheable_after = models.PositiveIntegerField(null=True)
    reason = models.CharField(max_length=REASON_MAX, blank=True)
    message = models.TextField(blank=True)

    objects = BacktestRowQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["backtest", "assembly"], name="backtest_row_once"),
            models.CheckConstraint(
                condition=Q(is_done=False, tokens_after=None, reason="")
                | Q(is_done=True, tokens_after=None) & ~Q(reason="")
                | Q(is_done=True, tokens_after__isnull=False, reason=""),
                name="backtest_row_outcome",
            ),
        ]
        indexes: ClassVar = [
            # Lists, the largest change first.
            models.Index(fields=["backtest", "-change", "-id"], name="backtest_row_change"),
            # The contexts that are still to be computed.
            models.Index(fields=["backtest", "-id"], condition=Q(is_done=False), name="backtest_row_waiting"),
        ]

    def __str__(self) -> str:
        return f"assembly {self.assembly_id} in backtest {self.backtest_id}"

    @property
    def split_after(self) -> Split | None:
        """The prompt's tokens by what the provider's cache would do with them."""
        return Split.of(self.prompt_after, self.cached_after, self.cacheable_after)
