"""The bundled embedder: mean token vectors, with a model that `make setup` installs.

Source: https://github.com/dleemiller/WordLlama (model `l2_supercat`, 256 dimensions).
"""

import sys
from collections.abc import Sequence
from itertools import batched
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from contextopt.search.embedders.values import TEXT_MAX, WORDLLAMA, EmbeddingUnavailable, Vectors, to_unit

DIMENSIONS = 256
MODEL_FOLDER = Path(sys.prefix) / "share" / "wordllama" / "wordllama"
# Texts whose tokens are looked up at once. The look-up takes 1 KB per token.
BATCH_TEXTS = 256
PART_TOKENS = 32_768


class WordLlamaEmbedder:
    """Embeds some ten thousand texts per second on one core. It knows words, but not their order."""

    name = WORDLLAMA
    dimensions = DIMENSIONS

    def __init__(self) -> None:
        """Load the model. Raises `EmbeddingUnavailable` if its files are missing or damaged."""
        try:
            weights = load_file(MODEL_FOLDER / "weights" / "l2_supercat_256.safetensors")
            described = (MODEL_FOLDER / "tokenizers" / "l2_supercat_tokenizer_config.json").read_bytes()
        except (OSError, SafetensorError) as error:
            raise EmbeddingUnavailable(f"{WORDLLAMA} is not installed; run `make setup`: {error}") from error
        self._table: Vectors = weights["embedding.weight"].astype(np.float32)
        self._tokenizer = Tokenizer.from_buffer(described)
        self._tokenizer.no_padding()
        # Its cache would keep up to ten thousand whole texts, which hardly ever occur again.
        self._tokenizer.model._resize_cache(0)

    def embed(self, texts: Sequence[str]) -> Vectors:
        means = [self._means([text[:TEXT_MAX] for text in some]) for some in batched(texts, BATCH_TEXTS)]
        return to_unit(np.concatenate(means)) if means else np.zeros((0, DIMENSIONS), np.float32)

    def _means(self, texts: Sequence[str]) -> Vectors:
        """Return the sum of each text's token vectors, (n, d). Its direction is that of their mean."""
        filled = [place for place, text in enumerate(texts) if text.strip()]
        encoded = self._tokenizer.encode_batch_fast(
            [texts[place] for place in filled], add_special_tokens=False
        )
        sums = np.zeros((len(texts), DIMENSIONS), np.float32)
        for place, encoding in zip(filled, encoded, strict=True):
            ids = encoding.ids
            for start in range(0, len(ids), PART_TOKENS):
                sums[place] += self._table[ids[start : start + PART_TOKENS]].sum(axis=0)
        return sums
