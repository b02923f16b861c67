"""Texts become vectors: embedders behind one protocol, each loaded when it is first used."""

from contextopt.embedding.choice import configured_embedder, get_embedder
from contextopt.embedding.values import Embedder, EmbeddingUnavailable, Vectors

__all__ = ["Embedder", "EmbeddingUnavailable", "Vectors", "configured_embedder", "get_embedder"]
