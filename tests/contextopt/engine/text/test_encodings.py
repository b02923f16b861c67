import threading
import time
from typing import Any

import pytest
import tiktoken
from tiktoken_ext import openai_public

from contextopt.engine.text import encodings, tokens
from contextopt.engine.text.encodings import INCLUDED, known_encodings, load_encoding, read_included
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.engine.validation import UnknownEncoding
from tests.contextopt.engine.factories import TOKENIZER


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Forget the loaded encodings, and return those of installed plugins for the test to replace."""
    constructors: dict[str, Any] = dict(tiktoken.registry.ENCODING_CONSTRUCTORS or {})
    monkeypatch.setattr(tiktoken.registry, "ENCODING_CONSTRUCTORS", constructors)
    monkeypatch.setattr(encodings, "_loadings", {})
    monkeypatch.setattr(tokens, "_tokenizers", {})
    return constructors


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base"])
def test_included_encodings_have_tiktokens_own_pattern_and_hash(name: str) -> None:
    """Its constructors would fetch the data, so the constants in them are read."""
    constants = getattr(openai_public, name).__code__.co_consts
    told = {text for each in constants for text in (each if isinstance(each, tuple) else [each])}
    assert INCLUDED[name].sha256 in told
    patterns = [text for text in told if (isinstance(text, str) and "\\p{L}" in text) or text == r"\s+"]
    assert all(pattern in INCLUDED[name].pattern for pattern in patterns)
    assert len(patterns) == (1 if name == "cl100k_base" else 4)


@pytest.mark.parametrize("name", sorted(INCLUDED))
def test_an_unusable_cache_folder_does_no_harm(
    name: str, fresh: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "/proc/nowhere")
    assert get_tokenizer(name).count("No network, no cache.") == 6


def test_the_included_encodings_know_all_tokens() -> None:
    assert load_encoding("o200k_base").n_vocab == 199_998
    assert load_encoding("cl100k_base").n_vocab == 100_256
    # Known counts from OpenAI's cookbook.
    assert get_tokenizer("o200k_base").count("お誕生日おめでとう") == 8
    assert get_tokenizer("cl100k_base").count("お誕生日おめでとう") == 9


def test_changed_data_are_refused(fresh: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    changed = INCLUDED["cl100k_base"]._replace(sha256="0" * 64)
    monkeypatch.setattr(encodings, "INCLUDED", {**INCLUDED, "cl100k_base": changed})
    with pytest.raises(ValueError, match="is not tiktoken's"):
        read_included("cl100k_base")
    with pytest.raises(UnknownEncoding, match="ValueError"):
        get_tokenizer("cl100k_base")


@pytest.mark.parametrize("name", ["", "cl200k", "../etc", "x" * 500])
def test_an_unknown_encoding_names_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownEncoding, match="the known ones are cl100k_base") as caught:
        get_tokenizer(name)
    assert caught.value.field == "encoding"
    assert len(caught.value.message) < 500


def test_known_encodings_name_each_once() -> None:
    names = known_encodings()
    assert len(names) == len(set(names))
    assert {"cl100k_base", "o200k_base", "heuristic"} <= set(names)


def test_an_encoding_that_cannot_be_fetched_says_what_to_do(fresh: dict[str, Any]) -> None:
    def unreachable() -> dict[str, Any]:
        raise OSError("no route")

    fresh["far_base"] = unreachable
    with pytest.raises(UnknownEncoding, match=r"could not be fetched \(OSError\).*TIKTOKEN_CACHE_DIR"):
        get_tokenizer("far_base")


def test_a_hanging_download_does_not_block_callers(
    fresh: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encodings, "LOAD_TIMEOUT_SECONDS", 0.05)
    arrived = threading.Event()

    def hanging() -> dict[str, Any]:
        arrived.wait(5)
        return {"name": "slow", "pat_str": r"\S+|\s+", "mergeable_ranks": {b"a": 0}, "special_tokens": {}}

    fresh["slow_base"] = hanging
    with pytest.raises(UnknownEncoding, match=r"no answer within 0\.05 seconds"):
        get_tokenizer("slow_base")
    arrived.set()
    monkeypatch.setattr(encodings, "LOAD_TIMEOUT_SECONDS", 5)
    tokenizer = get_tokenizer("slow_base")
    assert (tokenizer.name, tokenizer.is_additive, tokenizer.count("aa")) == ("slow_base", False, 2)


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base"])
def test_included_data_are_waited_for(
    name: str, fresh: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, loading them takes longer than a download may."""
    monkeypatch.setattr(encodings, "LOAD_TIMEOUT_SECONDS", 0.01)

    def loading(wanted: str) -> dict[str, Any]:
        time.sleep(0.1)
        return read_included(wanted)

    monkeypatch.setattr(encodings, "read_included", loading)
    assert get_tokenizer(name).count("a late start") == TOKENIZER.count("a late start") == 3
