import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.text import tokens
from contextopt.engine.text.encodings import load_encoding
from contextopt.engine.text.tokens import (
    PIECE_CHARS,
    RUN_CHARS,
    HeuristicTokenizer,
    RememberingTokenizer,
    Splitter,
    TiktokenTokenizer,
    get_tokenizer,
)
from tests.contextopt.engine.factories import TOKENIZER
from tests.contextopt.engine.strategies import texts

ENCODING = load_encoding("cl100k_base")
ENCODINGS = {name: load_encoding(name) for name in ("cl100k_base", "o200k_base")}


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


@pytest.mark.parametrize("name", ENCODINGS)
@given(parts=st.lists(st.sampled_from(PARTS) | texts, max_size=80))
def test_splits_do_not_change_the_count(name: str, parts: list[str]) -> None:
    encoding, text = ENCODINGS[name], "".join(parts) * 5
    pieces = list(Splitter.of(encoding._pat_str).split(text, 64))
    assert "".join(pieces) == text
    assert all(pieces)
    exact = len(encoding.encode_ordinary(text))
    assert sum(len(encoding.encode_ordinary(piece)) for piece in pieces) == exact


@pytest.mark.parametrize(
    "lines", ["> \n", "| a\t| b\t\n", "\tx\n", "{1,2}", "ab.cd", "=\t", "don't'll", "/\n"]
)
def test_text_of_short_lines_is_cut_into_small_pieces(lines: str) -> None:
    """Larger pieces were found by walking half a million characters word by word."""
    pieces = list(Splitter.of(ENCODING._pat_str).split(lines * 100_000, PIECE_CHARS))
    assert max(map(len, pieces)) <= PIECE_CHARS


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize(
    "run", ["\n", " ", "a", "=", "\u0301", "\U0001f600", "/\n", "e\u0301", " \n", "\u6f22"]
)
def test_no_piece_is_longer_than_the_cap(name: str, run: str) -> None:
    pieces = list(Splitter.of(ENCODINGS[name]._pat_str).split(run * 300_000, PIECE_CHARS))
    assert "".join(pieces) == run * 300_000
    assert max(map(len, pieces)) <= RUN_CHARS


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("run", ["\n", "=", "-", "a", "7"])
def test_a_cut_run_of_one_character_is_counted_exactly(name: str, run: str) -> None:
    """Or with one token more, where its end has a token together with what was cut off before it."""
    for chars, more in ((3 * RUN_CHARS, 0), (3 * RUN_CHARS + 17, 1)):
        exact = len(ENCODINGS[name].encode_ordinary(run * chars))
        assert exact <= get_tokenizer(name).count(run * chars) <= exact + more


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

    listing = TiktokenTokenizer("listing", "1", is_additive=True, encode=encode, splitter=Splitter.of("."))
    remembering = RememberingTokenizer(listing)
    assert remembering.count("one\ntwo\none\nlast") == remembering.count("two\none\none\nlast") == 4
    assert sorted(counted) == ["last", "last", "one\n", "two\n"]


def test_heuristic_rounds_up() -> None:
    heuristic = get_tokenizer("heuristic")
    assert isinstance(heuristic, HeuristicTokenizer)
    assert [heuristic.count("x" * chars) for chars in (0, 1, 4, 5)] == [0, 1, 1, 2]
