"""Models of search: the words of each row, word counts of each corpus, and embeddings with their progress."""

from typing import ClassVar, Self

from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import F, Func, Q, Value
from pgvector.django import HalfVectorField

SEARCHABLE_MAX = 32


class Language(models.TextChoices):
    ENGLISH = "en", "English"
    NORWEGIAN = "no", "Norwegian"


def generated_search_vector(
    *, corpus: str, title: str | None, tags: str, body: str, date: str | None = None
) -> models.GeneratedField:
    """Return the column of a row's words, computed by the database on every write of its texts.

    Words of the title weigh A, of the tags B, of the body D. Names of code and version numbers are stored
    whole and in parts. The corpus is a word of its own (`corpus_word`), so one look-up stays inside it, and
    with `date` so is each of its weeks (`week_words`). The first 100,000 characters of the body count.
    """
    dated = () if date is None else (F(date),)
    return models.GeneratedField(
        expression=Func(
            F(corpus),
            F("language"),
            F(title) if title else Value(""),
            F(tags),
            F(body),
            *dated,
            function="contextopt_search_vector",
        ),
        output_field=SearchVectorField(),
        db_persist=True,
    )


class SearchableManager[Row: models.Model](models.Manager[Row]):
    """Doesn't load the search vector, which is as large as the texts and only useful in the database."""

    def get_queryset(self) -> models.QuerySet[Row]:
        return super().get_queryset().defer("search_vector")


class SearchableText(models.Model):
    """A row that full-text search can find.

    A concrete model adds `search_vector = generated_search_vector(…)`, a GIN index on it, and a manager
    `SearchableManager.from_queryset(…)()`.
    """

    # The stemmer used for the words, detected from the texts if none is given.
    language = models.CharField(max_length=2, choices=Language.choices, db_default=Language.ENGLISH)

    class Meta:
        abstract = True


class CorpusQuerySet(models.QuerySet["SearchCorpus"]):
    def of(self, searchable: str, corpus_id: int) -> Self:
        return self.filter(searchable=searchable, corpus_id=corpus_id)


class SearchCorpus(models.Model):
    """Totals of one corpus at the last count."""

    searchable = models.CharField(max_length=SEARCHABLE_MAX)
    corpus_id = models.BigIntegerField()
    documents = models.BigIntegerField()
    mean_length = models.FloatField(help_text="distinct words of a document, on average")
    counted_at = models.DateTimeField()

    objects = CorpusQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "search corpora"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["searchable", "corpus_id"], name="search_corpus_once"),
        ]

    def __str__(self) -> str:
        return f"{self.searchable} {self.corpus_id}: {self.documents}"


class DocumentFrequency(models.Model):
    """The number of documents in a corpus that contain a word. Rare words are not listed."""

    # The constraint's index begins with the corpus.
    corpus = models.ForeignKey(SearchCorpus, models.DB_CASCADE, related_name="frequencies", db_index=False)
    lexeme = models.TextField()
    documents = models.BigIntegerField()

    class Meta:
        verbose_name_plural = "document frequencies"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["corpus", "lexeme"], name="document_frequency_once", include=["documents"]
            ),
        ]

    def __str__(self) -> str:
        return f"{self.lexeme}: {self.documents}"


class EmbeddingState(models.TextChoices):
    BUILDING = "building", "Building"
    ACTIVE = "active", "Active"
    RETIRED = "retired", "Retired"


class EmbeddingModelQuerySet(models.QuerySet["EmbeddingModel"]):
    def active(self) -> Self:
        """Return the model whose vectors searches compare; there is at most one."""
        return self.filter(state=EmbeddingState.ACTIVE)

    def fed(self) -> Self:
        """Return the models that every changed text is embedded with."""
        return self.filter(state__in=(EmbeddingState.ACTIVE, EmbeddingState.BUILDING)).order_by("id")


class EmbeddingModel(models.Model):
    """A vector space. Vectors of different models are never compared."""

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
    """A model's progress through one table, in the order of ids. Later writes are in EmbeddingTodo."""

    model = models.ForeignKey(EmbeddingModel, models.DB_CASCADE, related_name="fills")
    searchable = models.CharField(max_length=SEARCHABLE_MAX)
    total = models.BigIntegerField(default=0, help_text="number of rows when the fill started")
    walked = models.BigIntegerField(default=0, help_text="rows read so far")
    filled_to = models.BigIntegerField(default=0, help_text="last id read")
    is_filled = models.BooleanField(default=False)
    is_indexed = models.BooleanField(default=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["model", "searchable"], name="embedding_fill_once"),
        ]

    def __str__(self) -> str:
        return f"{self.searchable}: {self.walked} of {self.total}"


class EmbeddingTodo(models.Model):
    """A write that changed a text, recorded by the database in the same transaction.

    Lines are only added and, once embedded, deleted by their own id, so a write during the embedding of its
    row has a line of its own. A line without a model is for all current models; a line with one is for a
    model that could not be reached when the others were done.
    """

    model = models.ForeignKey(
        EmbeddingModel, models.DB_CASCADE, null=True, blank=True, related_name="+", db_index=False
    )
    searchable = models.CharField(max_length=SEARCHABLE_MAX)
    corpus_id = models.BigIntegerField()
    row_id = models.BigIntegerField()

    class Meta:
        indexes: ClassVar = [
            # For the next lines to process.
            models.Index(fields=["model", "id"], name="embedding_todo_next"),
            # For the missing vectors of one space, when a command needs it searchable immediately.
            models.Index(fields=["searchable", "corpus_id", "id"], name="embedding_todo_corpus"),
        ]

    def __str__(self) -> str:
        return f"{self.searchable} {self.row_id}"


class Embedding(models.Model):
    """A row's vector under one model, of unit length. A row without one cannot be embedded.

    A concrete table adds the key of its row (deleted with it), a unique constraint on key and model, and an
    index on model and corpus for exact searches of a small corpus. Half precision needs half the space and
    time, and changes a cosine in the fourth decimal.
    """

    model = models.ForeignKey(EmbeddingModel, models.DO_NOTHING, related_name="+", db_index=False)
    corpus_id = models.BigIntegerField()
    embedding = HalfVectorField()
    content_hash = models.BinaryField(max_length=16)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        abstract = True
