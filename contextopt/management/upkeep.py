"""What commands that search do first: they ask right after an import, with no worker about."""

from django.core.management.base import OutputWrapper

from contextopt.management.base import Progress
from contextopt.search.embedders import EmbeddingUnavailable
from contextopt.search.registry import Searchable
from contextopt.search.vectors.fill import Work, ensure_embedded
from contextopt.search.wordcounts import ensure_counted

# A corpus with more that was never embedded is searched as far as it is; `embed` does the rest.
EMBED_AT_ONCE = 200_000


def make_searchable(stderr: OutputWrapper, searchable: Searchable, corpus_id: int) -> None:
    """Count the words of a corpus and embed what is not yet, with progress on standard error."""
    progress = Progress(stderr)

    def show(work: Work) -> None:
        progress.show(f"{work.embedded:,} texts embedded")

    ensure_counted(searchable, corpus_id)
    try:
        ensure_embedded(searchable, corpus_id, limit=EMBED_AT_ONCE, on_progress=show)
    except EmbeddingUnavailable as error:
        stderr.write(f"searching by words alone: {error}")
