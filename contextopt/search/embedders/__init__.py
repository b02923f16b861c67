"""Texts become vectors: embedders behind one protocol, each loaded when it is first used."""

from contextopt.search.embedders.choice import configured_embedder, get_embedder
from contextopt.search.embedders.values import Embedder, EmbeddingUnavailable, Vectors

__all__ = ["Embedder", "EmbeddingUnavailable", "Vectors", "configured_embedder", "get_embedder"]
