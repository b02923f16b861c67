"""One search over any searchable table: by words and by meaning, fused, inside one corpus."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from contextopt.searchables import Searchable, SearchFilters

type Method = Literal["rrf", "weighted"]


@dataclass(frozen=True, slots=True)
class Query:
    """A question made ready once: its words under each language's stemmer, and its vector.

    `vector` is None where the text cannot be embedded; `degraded` says that it could not be this time.
    """

    text: str
    lexemes: tuple[tuple[str, tuple[str, ...]], ...]
    vector: NDArray[np.float32] | None
    degraded: bool = False


@dataclass(frozen=True, slots=True)
class Parts:
    """BM25, 0 where no word matched, and cosine from 0 to 1, None where there is no vector."""

    lexical: float
    similarity: float | None


@dataclass(frozen=True, slots=True)
class Hit:
    """A found row. `fused` orders; `relevance` is `fused` from 0 to 1; `decay` from 0 to 1."""

    id: int
    lexical: float
    similarity: float | None
    fused: float
    relevance: float
    decay: float
    lexical_rank: int | None
    vector_rank: int | None

    @property
    def decayed(self) -> float:
        return self.relevance * self.decay


def prepare_query(text: str) -> Query:
    """Stem and embed the text once, for any number of searches."""
    raise NotImplementedError


def gather(
    searchable: Searchable,
    corpus_id: int,
    query: Query,
    *,
    filters: SearchFilters,
    limit: int,
    also: Sequence[int] = (),
) -> dict[int, Parts]:
    """Return the best `limit` by words, the best `limit` by meaning and the rows `also`, each with both.

    All of them pass the filters. The work is bounded whatever the size of the corpus.
    """
    raise NotImplementedError


def search(
    searchable: Searchable,
    corpus_id: int,
    query: Query,
    *,
    filters: SearchFilters,
    limit: int,
    method: Method = "rrf",
    hybrid_alpha: float = 0.5,
    min_similarity: float | None = None,
) -> list[Hit]:
    """Return the best `limit`, best first."""
    raise NotImplementedError
