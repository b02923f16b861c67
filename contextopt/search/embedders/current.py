"""The embedder chosen by the settings, and the loaded ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import Lock
from time import perf_counter

from django.conf import settings

from contextopt.search.embedders.values import MINILM, WORDLLAMA, Embedder, EmbeddingUnavailable

# Each process loads its models and tokenizers once. On a plain clock, the request that happens to load them
# would be logged as slow.
_loading_seconds = ContextVar("loading_seconds", default=0.0)


def work_seconds() -> float:
    """Return the time of a clock that stands still while a model or a tokenizer is loaded.

    Only differences within one thread have a meaning.
    """
    return perf_counter() - _loading_seconds.get()


@contextmanager
def loading() -> Iterator[None]:
    """Stop the clock, even if another thread is loading the same thing."""
    started = work_seconds()
    try:
        yield
    finally:
        _loading_seconds.set(_loading_seconds.get() + work_seconds() - started)


LEAST_MATCHES = {WORDLLAMA: 0.48, MINILM: 0.6}
"""The least match of a space that has a record about the question: the best cosine plus a share for words.
Measured on LoCoMo: about 1 % of the questions about a dialogue match less, and 90 % of those about another
dialogue.
"""

USUAL_SIMILARITIES = {WORDLLAMA: 0.4, MINILM: 0.49}
"""Median cosine of the record that is most similar to a question, measured on LoCoMo."""

_loaded: dict[str, Embedder] = {}
_lock = Lock()


def configured_embedder() -> str:
    """Return the name of the embedder in the settings, without loading it."""
    match settings.EMBEDDING_MODEL:
        case "minilm":
            return MINILM
        case "onnx":
            return f"onnx:{Path(settings.EMBEDDING_MODEL_PATH).name}"
        case "endpoint":
            return f"endpoint:{settings.EMBEDDING_ENDPOINT_MODEL}:{settings.EMBEDDING_DIMENSIONS}"
        case _:
            return WORDLLAMA


def is_remote(name: str) -> bool:
    """Return whether the embedder of this name is an endpoint, called over HTTP."""
    return name.startswith("endpoint:")


def least_match(name: str) -> float | None:
    """Return the least match of a question with a space that has an answer; None if it was not measured."""
    return LEAST_MATCHES.get(name)


def usual_similarity(name: str) -> float | None:
    """Return the cosine that the most similar record usually has; None if it was not measured."""
    return USUAL_SIMILARITIES.get(name)


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
