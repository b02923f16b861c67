"""Imports from pages: their uploads, which are deleted when they end, and their reports."""

from typing import ClassVar, Self

from django.db import models
from django.db.models import Q
from django.utils import timezone

from contextopt.limits import ACTOR_MAX, NAME_MAX
from contextopt.people.models import Team
from contextopt.spaces.models import Space

FORMAT_MAX = 20


class ImportState(models.TextChoices):
    """The steps of an import. The first three and `running` are worked on by a process."""

    UPLOADING = "uploading", "Uploading"
    FETCHING = "fetching", "Fetching"
    PREPARING = "preparing", "Reading the first rows"
    READY = "ready", "Ready"
    RUNNING = "running", "Importing"
    DONE = "done", "Finished"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


WORKING = (ImportState.FETCHING, ImportState.PREPARING, ImportState.RUNNING)
WAITING = (ImportState.UPLOADING, ImportState.READY)


class ImportRunQuerySet(models.QuerySet["ImportRun"]):
    def of(self, team: Team) -> Self:
        return self.filter(team=team)

    def into(self, place: Space | Team) -> Self:
        """Return the imports of records into a space, or those that index repositories of a team."""
        if isinstance(place, Team):
            return self.filter(team=place, space=None)
        return self.filter(space=place)

    def working(self) -> Self:
        """Return the imports that a process works on."""
        return self.filter(state__in=WORKING)

    def newest_first(self) -> Self:
        return self.order_by("-created_at", "-id")


class ImportRun(models.Model):
    """An import that a person started from a page. Without a space, it indexes the files of a repository.

    `options` says how the upload is read, `preview` holds its first rows until the import ends, and `report`
    what became of it. A token for a git address is never stored.
    """

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="import_runs", db_index=False)
    space = models.ForeignKey(Space, models.DB_CASCADE, null=True, related_name="import_runs", db_index=False)
    name = models.CharField(max_length=NAME_MAX * 4, help_text="name of the file, or the git address")
    is_git = models.BooleanField(default=False)
    newest = models.PositiveIntegerField(null=True, help_text="newest commits of a git address to fetch")
    state = models.CharField(max_length=9, choices=ImportState, default=ImportState.UPLOADING)
    format = models.CharField(max_length=FORMAT_MAX, blank=True, help_text="empty: it is recognised")
    options = models.JSONField(default=dict)
    preview = models.JSONField(default=dict)
    report = models.JSONField(default=dict)
    error = models.TextField(blank=True)
    created_by = models.CharField(max_length=ACTOR_MAX)
    created_at = models.DateTimeField(default=timezone.now)
    worked_at = models.DateTimeField(default=timezone.now, help_text="last sign of life of its process")
    finished_at = models.DateTimeField(null=True)

    objects = ImportRunQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(state__in=ImportState.values), name="import_run_state"),
        ]
        indexes: ClassVar = [
            # The pages of a space and of the team's repositories.
            models.Index(fields=["space", "-created_at", "-id"], name="import_run_newest"),
            models.Index(fields=["team", "-created_at", "-id"], name="import_run_team"),
            # Imports that were left or lost.
            models.Index(
                fields=["worked_at"], condition=Q(state__in=[*WORKING, *WAITING]), name="import_run_open"
            ),
        ]

    def __str__(self) -> str:
        return f"import of {self.name}"

    @property
    def is_index(self) -> bool:
        """Whether it indexes the files of a repository."""
        return self.space_id is None

    @property
    def is_working(self) -> bool:
        return self.state in WORKING

    @property
    def is_over(self) -> bool:
        return self.state not in (*WORKING, *WAITING)


class ImportPart(models.Model):
    """A part of an upload. Parts are numbered from 0."""

    run = models.ForeignKey(ImportRun, models.DB_CASCADE, related_name="parts", db_index=False)
    number = models.PositiveIntegerField()
    content = models.BinaryField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "number"], name="import_part_once"),
        ]

    def __str__(self) -> str:
        return f"part {self.number} of {self.run_id}"
