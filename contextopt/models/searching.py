"""What full-text search keeps: a row's words in its language, and how many rows have each word."""

from typing import ClassVar, Self

from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import F, Func, Value


class Language(models.TextChoices):
    ENGLISH = "en", "English"
    NORWEGIAN = "no", "Norwegian"


def generated_search_vector(
    *, corpus: str, title: str | None, tags: str, body: str, date: str | None = None
) -> models.GeneratedField:
    """Return the column of a row's words, made by the database with every write of its texts.

    The words of the title weigh A, of the tags B, of the body D; names of code and version numbers are
    there as a whole and in parts. The corpus is a word of its own (`corpus_word`), so that one look-up stays
    inside it, and with `date` so is each of its weeks (`week_words`). The first 100,000 characters of the
    body count.
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
    """Leaves the search vector in the database: it is as big as the texts and of use there alone."""

    def get_queryset(self) -> models.QuerySet[Row]:
        return super().get_queryset().defer("search_vector")


class SearchableText(models.Model):
    """A row that full-text search finds.

    A concrete model adds `search_vector = generated_search_vector(…)`, a GIN index on it, and a manager
    `SearchableManager.from_queryset(…)()`.
    """

    # Which stemmer the words went through; found out from the texts when none is given.
    language = models.CharField(max_length=2, choices=Language.choices, db_default=Language.ENGLISH)

    class Meta:
        abstract = True


class CorpusQuerySet(models.QuerySet["SearchCorpus"]):
    def of(self, searchable: str, corpus_id: int) -> Self:
        return self.filter(searchable=searchable, corpus_id=corpus_id)


class SearchCorpus(models.Model):
    """Totals of one corpus, as the last count found them."""

    searchable = models.CharField(max_length=32)
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
    """How many documents of a corpus have a word; a word that few have is not listed."""

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
