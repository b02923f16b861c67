"""Vectors of texts: which model made them, how far each model has come, and what waits to be embedded."""

from typing import ClassVar, Self

from django.db import models
from django.db.models import Q
from pgvector.django import HalfVectorField

from contextopt.models.spaces import Record

SEARCHABLE_MAX = 32


class EmbeddingState(models.TextChoices):
    BUILDING = "building", "Building"
    ACTIVE = "active", "In force"
    RETIRED = "retired", "Retired"


class EmbeddingModelQuerySet(models.QuerySet["EmbeddingModel"]):
    def active(self) -> Self:
        """The model whose vectors searches compare; there is one at most."""
        return self.filter(state=EmbeddingState.ACTIVE)

    def fed(self) -> Self:
        """The models that every changed text is embedded with."""
        return self.filter(state__in=(EmbeddingState.ACTIVE, EmbeddingState.BUILDING)).order_by("id")


class EmbeddingModel(models.Model):
    """A vector space. Vectors of two of them are never compared."""

    name = models.CharField(max_length=200, unique=True)
    dimensions = models.PositiveIntegerField()
    state = models.CharField(max_length=8, choices=EmbeddingState, default=EmbeddingState.BUILDING)
    created_at = models.DateTimeField(auto_now_add=True)
    activated_at = models.DateTimeField(null=True, blank=True)
    retired_at = models.DateTimeField(null=True, blank=True)

    objects = EmbeddingModelQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["state"], condition=~Q(state="retired"), name="embedding_model_one_of_a_state"
            ),
            models.CheckConstraint(
                condition=Q(dimensions__gte=1, dimensions__lte=4_000), name="embedding_model_dimensions"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class EmbeddingFill(models.Model):
    """How far a model has come through one table, in the order of ids; later writes are in EmbeddingTodo."""

    model = models.ForeignKey(EmbeddingModel, models.DB_CASCADE, related_name="fills")
    searchable = models.CharField(max_length=SEARCHABLE_MAX)
    total = models.BigIntegerField(default=0, help_text="rows when the fill began")
    walked = models.BigIntegerField(default=0, help_text="rows seen so far")
    filled_to = models.BigIntegerField(default=0, help_text="the last id seen")
    is_filled = models.BooleanField(default=False)
    is_indexed = models.BooleanField(default=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["model", "searchable"], name="embedding_fill_once"),
        ]

    def __str__(self) -> str:
        return f"{self.searchable}: {self.walked} of {self.total}"


class EmbeddingTodo(models.Model):
    """A write that changed a text, noted by the database in the same transaction.

    Lines are only added and, once embedded, deleted by their own id: a write that comes while its row is
    being embedded has a line of its own. Without a model it is for all that are fed; with one, for the one
    that could not be reached when the others were done.
    """

    model = models.ForeignKey(
        EmbeddingModel, models.DB_CASCADE, null=True, blank=True, related_name="+", db_index=False
    )
    searchable = models.CharField(max_length=SEARCHABLE_MAX)
    corpus_id = models.BigIntegerField()
    row_id = models.BigIntegerField()

    class Meta:
        indexes: ClassVar = [
            # The next to do.
            models.Index(fields=["model", "id"], name="embedding_todo_next"),
            # What one space lacks, when a command wants it searchable at once.
            models.Index(fields=["searchable", "corpus_id", "id"], name="embedding_todo_corpus"),
        ]

    def __str__(self) -> str:
        return f"{self.searchable} {self.row_id}"


class Embedding(models.Model):
    """A row's vector under one model, of unit length; a row without one cannot be embedded.

    A concrete table adds the key of its row (deleted with it), the pair of key and model once, and an index
    on model and corpus, which exact searches of a small corpus use. Half precision: half the space and
    time, and what it changes in a cosine is in the fourth decimal.
    """

    model = models.ForeignKey(EmbeddingModel, models.DO_NOTHING, related_name="+", db_index=False)
    corpus_id = models.BigIntegerField()
    embedding = HalfVectorField()
    content_hash = models.BinaryField(max_length=16)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        abstract = True


class RecordEmbedding(Embedding):
    """A record's vector."""

    record = models.ForeignKey(Record, models.DB_CASCADE, related_name="embeddings", db_index=False)
    # The record's, as it was when that was last embedded or dated: a window is compared in this order.
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
