"""What all embedders are."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from contextopt.errors import ServiceUnavailable

type Vectors = NDArray[np.float32]

# What a text says at its start stands for it; no embedder reads further.
TEXT_MAX = 16_000


class EmbeddingUnavailable(ServiceUnavailable):
    """The embedder cannot be loaded or reached, or answers what it should not."""


class Embedder(Protocol):
    """`name` is the identity of the vector space: two embedders of one name give comparable vectors."""

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors as rows, (n, d); what cannot be embedded is a row of zeros.

        Raises:
            EmbeddingUnavailable: it cannot be done now.
        """
        ...


def to_unit(rows: Vectors) -> Vectors:
    """Scale each row to length 1, (n, d); rows that are zero or not finite become zeros."""
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0).astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
