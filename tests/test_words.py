"""The product's English: terms that were dropped stay dropped, and sentences begin with their subject."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from config.settings import BASE_DIR

PACKAGES = ("config", "contextopt", "memory", "dashboard")
# Inverted or clipped openings that made readers stop.
STILTED = re.compile(r"^(?:What|Of|Whoever|So (?:many|much)) ")


@cache
def dropped_terms() -> tuple[str, ...]:
    """Return the first column of the last table in docs/terms.md."""
    table = (BASE_DIR / "docs" / "terms.md").read_text().split("## Words we no longer use")[1]
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", table, re.MULTILINE)[1:]
    return tuple(term for row in rows for term in row.split(", "))


def python_files() -> Iterator[Path]:
    for name in PACKAGES:
        yield from (path for path in (BASE_DIR / name).rglob("*.py") if "migrations" not in path.parts)


def docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield every string that stands alone: docstrings, and those below constants and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def template_text(path: Path) -> str:
    """Return a template's words: text between tags, and the attributes that people read or hear."""
    text = re.sub(r"{#.*?#}|{%.*?%}|{{.*?}}", " ", path.read_text(), flags=re.DOTALL)
    return re.sub(r"""\b(?!(?:placeholder|title|aria-label)=)[\w:-]+=(?:"[^"]*"|'[^']*')""", " ", text)


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of the strings in a module that may be messages: no docstrings, names or SQL."""
    tree = ast.parse(path.read_text())
    silent = {id(node) for node in docstrings(tree)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in silent:
            continue
        if (" " in node.value or node.value[:1].isupper()) and "SELECT" not in node.value:
            yield node.lineno, node.value


@cache
def visible_texts() -> tuple[tuple[str, str], ...]:
    """Return (place, text) of each template and of each message in the code."""
    templates = (BASE_DIR / "templates").rglob("*.html")
    found = [(str(path.relative_to(BASE_DIR)), template_text(path)) for path in templates]
    for path in python_files():
        name = path.relative_to(BASE_DIR)
        found += [(f"{name}:{line}", text) for line, text in messages(path)]
    return tuple(found)


def test_there_are_dropped_terms() -> None:
    assert len(dropped_terms()) > 10
    assert len(visible_texts()) > 2_000


@pytest.mark.parametrize("term", dropped_terms())
def test_dropped_term_does_not_come_back(term: str) -> None:
    pattern = re.compile(rf"\b{re.escape(term)}\b", re.IGNORECASE)
    assert [place for place, text in visible_texts() if pattern.search(text)] == []


def test_no_docstring_begins_with_a_stilted_word() -> None:
    modules = [*python_files()]
    for name in ("tests", "benchmarks"):
        modules += (BASE_DIR / name).rglob("*.py")
    stilted = [
        f"{path.relative_to(BASE_DIR)}:{node.lineno}"
        for path in (
            *python_files(),
            *(BASE_DIR / "tests").rglob("*.py"),
            *(BASE_DIR / "benchmarks").rglob("*.py"),
        )
        for node in docstrings(ast.parse(path.read_text()))
        if STILTED.match(str(node.value).strip())
    ]
    assert stilted == []


def test_no_visible_sentence_begins_with_a_stilted_word() -> None:
    """A heading such as "What was sent" is one phrase; a sentence that begins so is inverted."""
    sentences = [
        (place, sentence.strip())
        for place, text in visible_texts()
        for sentence in re.split(r"(?<=[.!?]) |>|<|\n", text)
        if sentence.strip().endswith(".")
    ]
    assert len(sentences) > 500
    assert [each for each in sentences if STILTED.match(each[1])] == []
