import pytest

from contextopt.engine.text.cleaning import cut, flatten, flatten_to, grapheme_boundary

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
NORWAY = "\U0001f1f3\U0001f1f4"
SCOTLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"


@pytest.mark.parametrize(
    "separator",
    [*"\r\n\t\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029\u00a0\u3000", "\r\n", " \n "],
)
def test_separators_become_one_space(separator: str) -> None:
    assert flatten(f"{separator}a{separator}{separator}b{separator}") == "a b"


@pytest.mark.parametrize(
    ("text", "flat"),
    [
        ("a\0b\x07c\x1b[1m\x7f", "abc[1m"),
        ("a \0 b", "a b"),
        ("\ufeffTitle", "Title"),
        ("\u202egnp.exe\u202c", "gnp.exe"),
        ("\u2066a\u2069", "a"),
        ("\u05d0\u200f!", "\u05d0\u200f!"),
        ("hi\U000e0041\U000e0042", "hi"),
        (SCOTLAND, SCOTLAND),
        ("a\ud800b", "a\ufffdb"),
        (FAMILY, FAMILY),
        ("", ""),
        ("\0", ""),
    ],
)
def test_flatten(text: str, flat: str) -> None:
    assert flatten(text) == flat


@pytest.mark.parametrize(
    ("flat", "limit", "shown"),
    [
        ("abcde", 5, "abcde"),
        ("abcdef", 5, "abcd…"),
        ("abc def", 5, "abc…"),
        ("ab" + FAMILY, 5, "ab…"),
        (FAMILY + "abc", 6, FAMILY + "…"),
        (FAMILY + "abc", 5, "…"),
        (NORWAY + NORWAY, 3, NORWAY + "…"),
        (NORWAY + NORWAY, 2, "…"),
        ("e\u0301e\u0301", 3, "e\u0301…"),
        ("e\u0301e\u0301", 2, "…"),
        ("\u0928\u092e\u0938\u094d\u0924\u0947", 5, "\u0928\u092e…"),
        (SCOTLAND + "a", 7, "…"),
        ("\u00e6\u00f8\u00e5\u00e6\u00f8", 4, "\u00e6\u00f8\u00e5…"),
        ("abc", 1, "…"),
    ],
)
def test_cut(flat: str, limit: int, shown: str) -> None:
    assert cut(flat, limit) == shown


def test_grapheme_boundary_at_the_ends() -> None:
    assert [grapheme_boundary("abc", position) for position in (-1, 0, 2, 3, 9)] == [0, 0, 2, 3, 3]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" " * 1_000_000, ""),
        (" " * 1_000_000 + "end", "end"),
        ("x" * 1_000_000, "x" * 99 + "…"),
        ("x" + "\u0301" * 1_000_000, "…"),
        ("a" + "\n" * 1_000_000, "a"),
        ("ab" + "\n" * 1_000_000 + "c", "a…"),
        ("a b\n" * 250_000, "a b " * 24 + "a b…"),
        ("\0" * 1_000_000, "…"),
    ],
)
def test_a_megabyte(text: str, shown: str) -> None:
    assert flatten_to(text, 100) == shown


def test_indented_text_fills_its_limit() -> None:
    assert flatten_to(("word" + " " * 50) * 100, 20) == "word word word word…"
