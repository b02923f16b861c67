"""Repositories: their files as last read, parsed contents, and recent history."""

from pathlib import Path
from typing import ClassVar, Self
from uuid import uuid4

from django.db import models
from django.db.models import Q
from django.db.models.functions import Length
from django.utils import timezone

from contextopt.limits import ACTOR_MAX
from contextopt.people.models import Team

models.CharField.register_lookup(Length)

REPOSITORY_NAME_MAX = 120
# A path is part of an index row, which has 2,704 bytes.
REPOSITORY_PATH_MAX = 600
SOURCE_MAX = 4_096
OID_MAX = 64
KIND_MAX = 80
SKIPPED_MAX = 80


class RepositoryQuerySet(models.QuerySet["Repository"]):
    def of(self, team: Team) -> Self:
        """Return the team's repositories, by name."""
        return self.filter(team=team).order_by("name")


class Repository(models.Model):
    """A tree of files that tasks are about: read from a folder of this machine, imported, or posted.

    `state` changes with every change of the files, so that results computed from them are known to be
    outdated. The counts belong to the current state.
    """

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="repositories")
    name = models.CharField(max_length=REPOSITORY_NAME_MAX)
    source = models.CharField(
        max_length=SOURCE_MAX,
        blank=True,
        help_text="folder on this machine, git address, or name of an archive; blank if posted",
    )
    revision = models.CharField(max_length=OID_MAX, blank=True, help_text="the indexed commit, if any")
    revision_at = models.DateTimeField(null=True, blank=True, help_text="date of that commit")
    state = models.UUIDField(default=uuid4, editable=False)
    files = models.PositiveIntegerField(default=0)
    symbols = models.PositiveIntegerField(default=0)
    imports = models.PositiveIntegerField(default=0)
    unresolved = models.PositiveIntegerField(default=0)
    skipped = models.PositiveIntegerField(default=0)
    parsed = models.PositiveIntegerField(default=0, help_text="files parsed by the last indexing")
    seconds = models.FloatField(default=0, help_text="duration of the last indexing")
    indexed_at = models.DateTimeField(null=True, blank=True)
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    objects = RepositoryQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "repositories"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "name"], name="repository_name_once"),
            models.CheckConstraint(condition=Q(name__length__gte=1), name="repository_name"),
            models.CheckConstraint(condition=Q(seconds__gte=0), name="repository_seconds"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_posted(self) -> bool:
        return not self.source

    @property
    def is_address(self) -> bool:
        """Whether it was fetched from a git address."""
        return self.source.startswith(("http://", "https://"))

    @property
    def is_archive(self) -> bool:
        """Whether it was imported from an archive, of which only the name is known."""
        return bool(self.source) and not self.is_address and not Path(self.source).is_absolute()

    @property
    def origin(self) -> str:
        """Where its files come from, in words."""
        if self.is_posted:
            return "API"
        return "git address" if self.is_address else "archive" if self.is_archive else "server folder"


class RepositoryHistory(models.Model):
    """The recent commits of a repository: their dates, messages and changed files."""

    repository = models.OneToOneField(Repository, models.DB_CASCADE, related_name="history", primary_key=True)
    revision = models.CharField(max_length=OID_MAX)
    commits = models.PositiveIntegerField()
    # JSON as text, because jsonb refuses a NUL in a message and takes longer to read.
    changes = models.TextField()

    class Meta:
        verbose_name_plural = "repository histories"

    def __str__(self) -> str:
        return f"history of repository {self.pk}"


class CodeBlob(models.Model):
    """One content with its parsed form, stored once for all files, repositories and revisions that have it.

    How it is parsed depends on its kind: its language, or which manifest it is. `oid` is git's name of the
    content. `parser` is the version of the parser that read it; another version reads it again.
    """

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="code_blobs")
    kind = models.CharField(max_length=KIND_MAX, blank=True)
    oid = models.CharField(max_length=OID_MAX)
    parser = models.PositiveSmallIntegerField()
    symbols = models.PositiveIntegerField(default=0)
    content = models.BinaryField()
    # JSON as text, as above. Definitions are the larger part and needed less often.
    parsed = models.TextField()
    definitions = models.TextField()
    terms = models.TextField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "kind", "oid"], name="code_blob_once"),
            models.CheckConstraint(condition=Q(oid__length__gte=1), name="code_blob_oid"),
        ]

    def __str__(self) -> str:
        return f"{self.kind or 'text'} {self.oid[:12]}"


class RepositoryFileQuerySet(models.QuerySet["RepositoryFile"]):
    def of(self, repository: Repository) -> Self:
        """Return the repository's files, by path."""
        return self.filter(repository=repository).order_by("path")


class RepositoryFile(models.Model):
    """A file as last read. A skipped file has a reason and no blob."""

    repository = models.ForeignKey(Repository, models.DB_CASCADE, related_name="paths")
    path = models.CharField(max_length=REPOSITORY_PATH_MAX)
    oid = models.CharField(max_length=OID_MAX, blank=True)
    size = models.PositiveBigIntegerField(default=0, help_text="bytes")
    skipped = models.CharField(max_length=SKIPPED_MAX, blank=True)
    # A blob is dropped once no file has it; the database refuses to drop it earlier.
    blob = models.ForeignKey(CodeBlob, models.DO_NOTHING, null=True, blank=True, related_name="files")

    objects = RepositoryFileQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["repository", "path"], name="repository_path_once"),
            models.CheckConstraint(
                condition=Q(skipped="", blob__isnull=False) | (~Q(skipped="") & Q(blob=None)),
                name="repository_file_read_or_skipped",
            ),
        ]

    def __str__(self) -> str:
        return self.path
