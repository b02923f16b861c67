"""A parsed file is the same after it was stored and loaded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.code.filescores import read_file
from contextopt.repositories.storedfiles import StoredReading, load_parsed, load_terms

PYTHON = b"from .x import (a, b as c)\n\n@deco\nclass A(B):\n    def m(self) -> int: ...\n"


def assert_stored(path: str, content: bytes) -> StoredReading:
    reading = read_file(path, content)
    stored = StoredReading.of(reading)
    if reading.parsed.skipped:
        assert stored == StoredReading(reading.parsed.skipped)
    else:
        assert load_parsed(stored.parsed, stored.definitions) == reading.parsed
        assert load_terms(stored.terms) == reading.terms
    return stored


def test_imports_definitions_and_terms_survive() -> None:
    assert assert_stored("a.py", PYTHON).symbols == 2


def test_definitions_may_be_left_out() -> None:
    stored = StoredReading.of(read_file("a.py", PYTHON))
    parsed = load_parsed(stored.parsed, "")
    assert parsed.symbols == ()
    assert parsed.imports[0].names == ("a", "b")


@pytest.mark.parametrize("name", ["a.py", "a.ts", "a.go", "a.rs", "a.java", "a.md", "tsconfig.json", "a"])
@given(content=st.binary(max_size=400) | st.text(max_size=100).map(str.encode))
def test_any_content_survives(name: str, content: bytes) -> None:
    assert_stored(name, content)


@pytest.mark.parametrize("name", ["package.json", "tsconfig.json", "Cargo.toml", "go.mod", "pyproject.toml"])
@given(content=st.text(alphabet='{}[]":,\\/*=ab1.\n', max_size=60))
def test_any_manifest_survives(name: str, content: str) -> None:
    assert_stored(name, content.encode())
