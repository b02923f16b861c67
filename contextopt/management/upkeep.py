"""Prepares a search: commands often search right after an import, with no worker running."""

from django.core.management.base import OutputWrapper

from contextopt.engine.wording import plural
from contextopt.management.base import Progress
from contextopt.search.embedders.values import EmbeddingUnavailable
from contextopt.search.registry import Searchable
from contextopt.search.vectors.fill import Work, ensure_embedded
from contextopt.search.wordcounts import ensure_counted

# The most texts embedded before a search, which uses what there is; `embed` does the rest.
EMBED_AT_ONCE = 200_000


def make_searchable(stderr: OutputWrapper, searchable: Searchable, corpus_id: int) -> None:
    """Count the words of a corpus and embed its missing texts, with progress on standard error."""
    progress = Progress(stderr)

    def show(work: Work) -> None:
        progress.show(f"{plural(work.embedded, 'text')} embedded")

    ensure_counted(searchable, corpus_id)
    try:
        ensure_embedded(searchable, corpus_id, limit=EMBED_AT_ONCE, on_progress=show)
    except EmbeddingUnavailable as error:
        stderr.write(f"searching by words only: {error}")
