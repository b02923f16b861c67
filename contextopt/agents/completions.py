"""How tasks ended, and what was learned from each."""

from typing import ClassVar, Self

from django.db import models
from django.db.models import F, Q
from django.db.models.fields.json import KT
from django.utils import timezone

from contextopt.agents.models import Task
from contextopt.limits import ACTOR_MAX
from contextopt.people.models import Team

LEARN_TRIES_MAX = 20


class CompletionQuerySet(models.QuerySet["Completion"]):
    def unlearned(self) -> Self:
        """Return completions that are still to be learned from and have tries left, oldest first."""
        return self.filter(learned_at=None, tries__lt=LEARN_TRIES_MAX).order_by("id")


class Completion(models.Model):
    """The report of one ended task. `learned` says what was stored from it, and why the rest was not.

    The row is written in the same transaction as the task's end. If learning fails, the row stays unlearned
    and is tried again, so nothing is lost and nothing is learned twice.
    """

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="completions")
    task = models.OneToOneField(Task, models.DB_CASCADE, related_name="completion")
    sha256 = models.CharField(
        max_length=64, help_text="hash of the report; the same report again is the same completion"
    )
    report = models.JSONField()
    tries = models.PositiveSmallIntegerField(default=0)
    error = models.TextField(blank=True, max_length=2_000)
    learned = models.JSONField(null=True, blank=True)
    learned_at = models.DateTimeField(null=True, blank=True)
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    objects = CompletionQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "sha256"], name="completion_once"),
            models.CheckConstraint(
                condition=Q(learned_at__isnull=True, learned__isnull=True)
                | Q(learned_at__isnull=False, learned__isnull=False),
                name="completion_learned",
            ),
        ]
        indexes: ClassVar = [
            # The job looks for unlearned rows.
            models.Index(fields=["id"], condition=Q(learned_at=None), name="completion_unlearned"),
            # Strategies are credited by comparing the latest tasks with one pattern.
            models.Index(F("team"), KT("learned__pattern"), F("id").desc(), name="completion_pattern"),
        ]

    def __str__(self) -> str:
        return f"completion of task {self.task_id}"
