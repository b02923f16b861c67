"""Memories: notes that a team and its agents keep of their work."""

from typing import ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Length
from django.utils import timezone

from contextopt.agents.models import REPOSITORY_MAX, Task
from contextopt.limits import ACTOR_MAX
from contextopt.people.models import Team
from contextopt.search.models import Embedding, SearchableManager, SearchableText, generated_search_vector
from contextopt.spaces.models import Space

models.TextField.register_lookup(Length)

CONTENT_MAX = 10_000
TITLE_MAX = 200
TYPE_MAX = 64
CATEGORY_MAX = 64
TAG_MAX = 100
TAGS_MAX = 50
REASON_MAX = 200
STRATEGY = "strategy"
MEMORY_TYPES = ("general", "decision", "error_pattern", "code_pattern", STRATEGY)
NEW_TRUST = 0.5


class TrustLevel(models.TextChoices):
    """A memory's origin. External content is shown to models as data only."""

    USER = "user", "Team member"
    AGENT = "agent", "Agent"
    EXTERNAL = "external", "External"


class MemoryQuerySet(models.QuerySet["Memory"]):
    def of(self, team: Team) -> Self:
        return self.filter(team=team)

    def live(self) -> Self:
        """Memories that search may find: neither deleted nor retired."""
        return self.filter(deleted_at=None, retired_at=None)

    def strategies(self) -> Self:
        """Ways of working that succeeded, including retired ones."""
        return self.filter(memory_type=STRATEGY, deleted_at=None)


class Memory(SearchableText):
    """Something worth remembering: a note, a decision, an error and its fix, a way of working.

    `title` is the subject; a strategy's title is the task it comes from. Ratings move `trust`; `trust_level`
    says who wrote it. Search no longer finds a retired memory, which may be reinstated.
    """

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="memories", db_index=False)
    space = models.ForeignKey(Space, models.DB_SET_NULL, null=True, blank=True, related_name="memories")
    task = models.ForeignKey(Task, models.DB_SET_NULL, null=True, blank=True, related_name="memories")
    title = models.CharField(max_length=TITLE_MAX, blank=True)
    content = models.TextField(max_length=CONTENT_MAX)
    memory_type = models.CharField(max_length=TYPE_MAX, default="general")
    category = models.CharField(max_length=CATEGORY_MAX, blank=True)
    tags = ArrayField(models.CharField(max_length=TAG_MAX), default=list, blank=True)
    repository = models.CharField(max_length=REPOSITORY_MAX, blank=True)
    trust_level = models.CharField(max_length=8, choices=TrustLevel, default=TrustLevel.USER)
    trust = models.FloatField(default=NEW_TRUST, help_text="0 to 1, adjusted by ratings")
    payload = models.JSONField(default=dict, blank=True)
    access_count = models.PositiveBigIntegerField(default=0)
    last_accessed_at = models.DateTimeField(null=True, blank=True)
    use_count = models.PositiveIntegerField(default=0, help_text="number of plans that received it as a hint")
    evidence_count = models.PositiveIntegerField(
        default=1, db_default=1, help_text="number of tasks that succeeded with it"
    )
    tokens_saved = models.BigIntegerField(
        null=True,
        blank=True,
        help_text="by tasks that used it, compared with similar tasks without it; blank if there are none",
    )
    retired_at = models.DateTimeField(null=True, blank=True)
    retired_reason = models.CharField(max_length=REASON_MAX, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)
    purged_at = models.DateTimeField(null=True, blank=True)
    search_vector = generated_search_vector(corpus="team", title="title", tags="tags", body="content")
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(auto_now=True)

    objects = SearchableManager.from_queryset(MemoryQuerySet)()

    class Meta:
        verbose_name_plural = "memories"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(content__length__gte=1, content__length__lte=CONTENT_MAX), name="memory_content"
            ),
            models.CheckConstraint(condition=Q(memory_type__length__gte=1), name="memory_type"),
            models.CheckConstraint(condition=Q(trust__gte=0, trust__lte=1), name="memory_trust"),
            models.CheckConstraint(condition=Q(trust_level__in=TrustLevel.values), name="memory_trust_level"),
        ]
        indexes: ClassVar = [
            # Lists of a team, newest first.
            models.Index(
                fields=["team", "-created_at", "-id"], condition=Q(deleted_at=None), name="memory_newest"
            ),
            # The trash of a team.
            models.Index(
                fields=["team", "-created_at", "-id"], condition=Q(deleted_at__isnull=False),
                name="memory_deleted",
            ),
            # Memories that are due to be purged, and those that were purged recently.
            models.Index(
                fields=["purged_at", "deleted_at"], condition=Q(deleted_at__isnull=False),
                name="memory_purged",
            ),
            # Strategies and other types of a team, by repository.
            models.Index(
                fields=["team", "memory_type", "repository"], condition=Q(deleted_at=None),
                name="memory_of_type",
            ),
            # Full-text search.
            GinIndex(
                fields=["search_vector"], condition=Q(deleted_at=None, retired_at=None), name="memory_search",
                gin_pending_list_limit=512,
            ),
        ]  # fmt: skip

    def __str__(self) -> str:
        return self.content[:80]

    @property
    def is_strategy(self) -> bool:
        return self.memory_type == STRATEGY


class MemoryEmbedding(Embedding):
    """A memory's vector."""

    memory = models.ForeignKey(Memory, models.DB_CASCADE, related_name="embeddings", db_index=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["memory", "model"], name="memory_embedding_once"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["model", "corpus_id"], name="memory_embedding_corpus"),
        ]

    def __str__(self) -> str:
        return f"memory {self.memory_id} under model {self.model_id}"
