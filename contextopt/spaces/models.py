"""Spaces, their records and revisions, and the counters kept beside them."""

from typing import ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Coalesce, Least, Length
from django.utils import timezone

from contextopt.limits import ACTOR_MAX, DATE_MAX, DATE_MIN, NAME_MAX
from contextopt.locks import hold_space
from contextopt.people.models import Team
from contextopt.search.models import (
    Embedding,
    Language,
    SearchableManager,
    SearchableText,
    generated_search_vector,
)
from contextopt.sql import find_one

models.TextField.register_lookup(Length)
DESCRIPTION_MAX = 1_000
CATEGORIES_MAX = 20
CATEGORY_MAX = 64
TITLE_MAX = 1_000
TYPE_MAX = 64
TAGS_MAX = 50
TAG_MAX = 100
NOTES_MAX = 1_000_000
THREAD_MAX = 200
SOURCE_MAX = 200
EXTERNAL_ID_MAX = 500
VIEWS_MAX = 1_000_000_000_000
VIEWER_MAX = 64
PURGED = "[purged]"


class SpaceQuerySet(models.QuerySet["Space"]):
    def of(self, team: Team) -> Self:
        """Return the team's spaces, by name."""
        return self.filter(team=team).order_by("name", "id")

    def with_counts(self) -> Self:
        """Load the counters in the same query."""
        return self.select_related("counts")

    def find(self, team_id: int, slug: str) -> "Space":
        """Return the team's space with its counters.

        Raises:
            NotFound: the team has no space with this slug, whatever other teams have.
        """
        return find_one(self.with_counts().filter(team_id=team_id, slug=slug), f"space {slug!r}")


class Space(models.Model):
    """A workspace of records. Everything assembled for one prompt comes from one space."""

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="spaces")
    slug = models.SlugField(max_length=64)
    name = models.CharField(max_length=NAME_MAX)
    description = models.CharField(max_length=DESCRIPTION_MAX, blank=True)
    categories = ArrayField(models.CharField(max_length=CATEGORY_MAX), default=list, blank=True)
    is_demo = models.BooleanField(default=False)
    # Set when the active config's encoding changes: summaries past this id must be recounted.
    recount_from = models.BigIntegerField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = SpaceQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["team", "slug"], name="space_slug_once")]

    def __str__(self) -> str:
        return self.name

    def lock(self) -> None:
        """Make others who lock the space, and its deletion, wait until the transaction ends.

        Raises:
            NotFound: the space has been deleted.
        """
        hold_space(self.pk)
        Space.objects.select_for_update(no_key=True).get(pk=self.pk)


class SpaceCounts(models.Model):
    """Totals of a space, which triggers update with every write of a record."""

    space = models.OneToOneField(Space, models.DB_CASCADE, related_name="counts", primary_key=True)
    live = models.BigIntegerField(default=0, help_text="neither deleted nor pinned")
    pinned = models.BigIntegerField(default=0, help_text="pinned and not deleted")
    deleted = models.BigIntegerField(default=0)

    class Meta:
        verbose_name_plural = "space counts"

    def __str__(self) -> str:
        return f"{self.live} live, {self.pinned} pinned, {self.deleted} deleted"


class SpaceHour(models.Model):
    """Live unpinned records of a space by the UTC hour of their date, updated by the same triggers."""

    space = models.ForeignKey(Space, models.DB_CASCADE, related_name="hours")
    hour = models.DateTimeField()
    live = models.BigIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            # Counting the filtered records sums the hours of a window.
            models.UniqueConstraint(fields=["space", "hour"], name="space_hour_once", include=["live"]),
        ]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H}: {self.live}"


class RecordQuerySet(models.QuerySet["Record"]):
    def live(self) -> Self:
        return self.filter(deleted_at=None)

    def newest_first(self) -> Self:
        return self.order_by("-date", "-id")


class RecordState(models.Model):
    """The fields of a record whose changes are kept as revisions."""

    title = models.CharField(max_length=TITLE_MAX)
    type = models.CharField(max_length=TYPE_MAX, default="note")
    date = models.DateTimeField(default=timezone.now)
    tags = ArrayField(models.CharField(max_length=TAG_MAX), default=list, blank=True)
    notes = models.TextField(blank=True, max_length=NOTES_MAX)
    pinned = models.BooleanField(default=False)
    thread = models.CharField(max_length=THREAD_MAX, blank=True)
    position = models.BigIntegerField(null=True, blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    view_count = models.PositiveBigIntegerField(default=0)
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True


class Record(RecordState, SearchableText):
    """A dated note, document, message or commit.

    `summary` is the line that stands for the record in a prompt, including its line break. `summary_tokens`
    is its size under `summary_encoding`. Both are computed on every write. `version` rises with each
    revision, so it stands for one content of the record. Views do not raise it.
    """

    space = models.ForeignKey(Space, models.DB_CASCADE, related_name="records")
    source = models.CharField(max_length=SOURCE_MAX, blank=True)
    external_id = models.CharField(max_length=EXTERNAL_ID_MAX, blank=True)
    last_viewed_at = models.DateTimeField(null=True, blank=True)
    purged_at = models.DateTimeField(null=True, blank=True)
    content_hash = models.BinaryField(max_length=16)
    summary = models.TextField()
    summary_tokens = models.PositiveIntegerField()
    summary_encoding = models.CharField(max_length=64)
    # Frequency has eleven values; within one of them newer always scores higher (assemblies/candidates.py).
    frequency = models.GeneratedField(
        expression=Least("view_count", 10), output_field=models.SmallIntegerField(), db_persist=True
    )
    search_vector = generated_search_vector(
        corpus="space", title="title", tags="tags", body="notes", date="date"
    )
    version = models.IntegerField(default=1, db_default=1, editable=False)
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = SearchableManager.from_queryset(RecordQuerySet)()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["space", "source", "external_id"],
                condition=~Q(external_id=""),
                name="record_imported_once",
            ),
            models.CheckConstraint(
                condition=Q(date__gte=DATE_MIN, date__lte=DATE_MAX), name="record_date_range"
            ),
            models.CheckConstraint(condition=Q(notes__length__lte=NOTES_MAX), name="record_notes_length"),
        ]
        indexes: ClassVar = [
            # The best candidates: the newest of each of the eleven frequencies.
            models.Index(
                fields=["space", "frequency", "-date", "-id"],
                condition=Q(deleted_at=None, pinned=False), name="record_stratum",
            ),
            # Lists, the last ten records, and the exact count in a window's first and last hours.
            models.Index(
                fields=["space", "-date", "-id"], condition=Q(deleted_at=None), name="record_newest",
                include=["pinned"],
            ),
            # Pinned records are candidates regardless of date.
            models.Index(
                fields=["space", "-date", "-id"],
                condition=Q(deleted_at=None, pinned=True), name="record_pinned",
            ),
            # The trash of a space.
            models.Index(
                fields=["space", "-date", "-id"],
                condition=Q(deleted_at__isnull=False), name="record_deleted",
            ),
            # Finds spaces with purged records, and recent purges that a late assembly may have missed.
            models.Index(
                fields=["space", "purged_at"], condition=Q(purged_at__isnull=False), name="record_purged",
            ),
            # Full-text search. Every search reads the list of pending entries, so keep it short.
            GinIndex(
                fields=["search_vector"], condition=Q(deleted_at=None), name="record_search",
                gin_pending_list_limit=512,
            ),
            # Records that pass a search's filters, without reading the table.
            models.Index(
                fields=["space", "type", "source"], condition=Q(deleted_at=None), name="record_kinds",
            ),
            GinIndex(
                fields=["tags"], condition=Q(deleted_at=None), name="record_tags",
                gin_pending_list_limit=512,
            ),
            # Neighbours in a conversation or file.
            models.Index(
                "space", "thread", Coalesce("position", 0), "date", "id",
                condition=Q(deleted_at=None) & ~Q(thread=""), name="record_thread",
            ),
        ]  # fmt: skip

    def __str__(self) -> str:
        return self.title

    @property
    def is_deleted(self) -> bool:
        return self.deleted_at is not None


class RecordView(models.Model):
    """A record opened by someone on a day. Kept until the day is over, so that it is counted once."""

    record = models.ForeignKey(Record, models.DB_CASCADE, related_name="views", db_index=False)
    viewer = models.CharField(max_length=VIEWER_MAX)
    day = models.DateField(help_text="in the team's time zone")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["record", "viewer", "day"], name="record_view_once"),
        ]
        # The sweep deletes days that are over.
        indexes: ClassVar = [models.Index(fields=["day"], name="record_view_day")]

    def __str__(self) -> str:
        return f"{self.viewer} on {self.day}"


class RecordRevision(RecordState):
    """A record before a change, with who changed it and when, and the version that this was."""

    record = models.ForeignKey(Record, models.DB_CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    # None and "" in revisions that were stored before these columns existed.
    version = models.IntegerField(null=True, editable=False)
    language = models.CharField(max_length=2, choices=Language.choices, blank=True, db_default="")
    changed_at = models.DateTimeField(default=timezone.now)
    changed_by = models.CharField(max_length=ACTOR_MAX)
    change = models.CharField(max_length=16)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["record", "number"], name="revision_number_once"),
            # Finds the content of a version, and refuses a change that did not raise it.
            models.UniqueConstraint(
                fields=["record", "version"], condition=Q(version__isnull=False), name="revision_version_once"
            ),
        ]
        # Finds what changed since a context that is replayed under other settings.
        indexes: ClassVar = [models.Index(fields=["changed_at"], name="revision_changed")]

    def __str__(self) -> str:
        return f"{self.title}, revision {self.number}"


class RecordEmbedding(Embedding):
    """A record's vector."""

    record = models.ForeignKey(Record, models.DB_CASCADE, related_name="embeddings", db_index=False)
    # The record's date when it was last embedded or dated. A window is searched in this order.
    date = models.DateTimeField(editable=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["record", "model"], name="record_embedding_once"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["model", "corpus_id"], name="record_embedding_corpus"),
        ]

    def __str__(self) -> str:
        return f"record {self.record_id} under model {self.model_id}"


PURGE_KEY_TABLE = "contextopt_purgekey"
PURGED_ID_PREFIX = "purged:"
PURGED_ID_CHARS = 32


def purged_id_sql(space: str, source: str, external_id: str) -> str:
    """Return the SQL expression that hashes the external id of a purged record. Join the key's table.

    Callers who know an external id can still be told that its record was purged, but nobody can read the id.
    A migration creates the key and keeps it in the database, so the hashes stay valid as long as the data,
    even if `SECRET_KEY` changes. The table holds the key as the two blocks that HMAC derives from it. Source:
    RFC 2104, section 2.
    """
    message = f"{space}::text || ':' || length({source})::text || ':' || {source} || {external_id}"
    inner = f"sha256({PURGE_KEY_TABLE}.inner_block || convert_to({message}, 'UTF8'))"
    digest = f"encode(sha256({PURGE_KEY_TABLE}.outer_block || {inner}), 'hex')"
    return f"'{PURGED_ID_PREFIX}' || left({digest}, {PURGED_ID_CHARS})"
