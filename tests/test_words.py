"""The product's English: dropped terms do not return, and sentences begin with their subject."""

import ast
import re
import tokenize
import tomllib
from collections.abc import Iterator
from functools import cache
from io import StringIO
from pathlib import Path

import pytest

from config.settings import BASE_DIR

PACKAGES = ("config", "contextopt", "memory", "dashboard")
# Openings of inverted or elliptical sentences.
_OPENINGS = r"(?:What|Of|Whoever|So (?:many|much))"
STILTED = re.compile(rf"^{_OPENINGS} ")
MAY_BE_STILTED = re.compile(rf"\b{_OPENINGS}\s")


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
    """Yield every string that is a statement: docstrings, and descriptions below constants and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def template_text(path: Path) -> str:
    """Return a template's text between tags, and the attributes that people read or hear."""
    text = re.sub(r"{#.*?#}|{%.*?%}|{{.*?}}", " ", path.read_text(), flags=re.DOTALL)
    return re.sub(r"""\b(?!(?:placeholder|title|aria-label)=)[\w:-]+=(?:"[^"]*"|'[^']*')""", " ", text)


def joined(node: ast.JoinedStr) -> str:
    """Return the text of an f-string, "…" for each value in it."""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of the strings that may be messages: not docstrings, names or SQL."""
    silent = {id(node) for node in docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            silent |= {id(part) for part in node.values}
            text = joined(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            text = node.value
        else:
            continue
        if (" " in text or text[:1].isupper()) and "SELECT" not in text:
            yield node.lineno, text


def test_a_message_is_read_with_its_values() -> None:
    tree = ast.parse("""f" Of {n:,} the text was purged{'.' if n else ''}" 'It fits.'\nx = "A word" """)
    assert [text for _, text in messages(tree)] == [" Of … the text was purged…It fits.", "A word"]


def glossary_texts(value: object) -> Iterator[str]:
    """Yield the descriptions in a glossary of the API."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from glossary_texts(each)


def glossaries() -> Iterator[Path]:
    for name in PACKAGES:
        yield from (BASE_DIR / name).rglob("glossary.toml")


@cache
def visible_texts() -> tuple[tuple[str, str], ...]:
    """Return (place, text) of each template and of each message in the code."""
    templates = (BASE_DIR / "templates").rglob("*.html")
    found = [(str(path.relative_to(BASE_DIR)), template_text(path)) for path in templates]
    for path in python_files():
        name = path.relative_to(BASE_DIR)
        found += [(f"{name}:{line}", text) for line, text in messages(ast.parse(path.read_text()))]
    for path in glossaries():
        name = path.relative_to(BASE_DIR)
        found += [(str(name), text) for text in glossary_texts(tomllib.loads(path.read_text()))]
    return tuple(found)


def as_pattern(term: str) -> re.Pattern[str]:
    """Match the term, even if a line ends between its words."""
    words = map(re.escape, term.split())
    return re.compile(rf"\b{r'[\s#]+'.join(words)}\b", re.IGNORECASE)


def inner_texts_with(pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield module and text of each docstring and comment with a match."""
    for path in python_files():
        source = path.read_text()
        if pattern.search(source):
            name = str(path.relative_to(BASE_DIR))
            yield from ((name, text) for text in prose_of(source) if pattern.search(text))


def test_a_term_is_found_across_lines_of_a_comment() -> None:
    assert as_pattern("like tasks").search("# Compare only like\n# tasks.")
    assert not as_pattern("thumb").search("icon = 'thumbs_up_down'")


def test_there_are_dropped_terms() -> None:
    assert len(dropped_terms()) > 10
    assert len(visible_texts()) > 2_000
    assert sum(place.endswith("glossary.toml") for place, _ in visible_texts()) > 500


@pytest.mark.parametrize("term", dropped_terms())
def test_dropped_term_does_not_come_back(term: str) -> None:
    pattern = as_pattern(term)
    assert [place for place, text in visible_texts() if pattern.search(text)] == []
    assert [*inner_texts_with(pattern)] == []


def comments(source: str) -> Iterator[str]:
    """Yield each comment, with consecutive lines joined."""
    block, last = "", 0
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if token.start[0] != last + 1:
            yield block
            block = ""
        block, last = f"{block} {token.string.lstrip('# ')}".strip(), token.start[0]
    yield block


def prose(path: Path) -> Iterator[str]:
    """Yield the prose of a file: docstrings and comments, or Markdown without its code."""
    source = path.read_text()
    if not MAY_BE_STILTED.search(source):
        return
    if path.suffix == ".md":
        yield re.sub(r"^```.*?^```$", "", source, flags=re.DOTALL | re.MULTILINE)
        return
    yield from prose_of(source)


def prose_of(source: str) -> Iterator[str]:
    """Yield the docstrings and comments of a module."""
    yield from (str(node.value) for node in docstrings(ast.parse(source)))
    yield from comments(source)


def sentences(text: str) -> Iterator[str]:
    """Split paragraphs, list items and table cells into sentences without their markup."""
    for block in re.split(r"\n\s*\n|\n\s*(?=[-*#|]|\d+\. )|\|", text):
        for sentence in re.split(r"(?<=[.!?:]) ", " ".join(block.split())):
            yield sentence.lstrip("-*#>_ ")


def prose_files() -> Iterator[Path]:
    yield from BASE_DIR.glob("*.md")
    for name in (*PACKAGES, "benchmarks", "clients", "docs", "tests"):
        for path in (BASE_DIR / name).rglob("*"):
            if path.suffix in {".md", ".py"} and "migrations" not in path.parts:
                yield path


def is_stilted(sentence: str) -> bool:
    """Return whether a statement begins with a stilted word. The name of the page "What if" is allowed."""
    return bool(STILTED.match(sentence)) and sentence.endswith(".") and not sentence.startswith("What if")


def test_a_stilted_sentence_is_told_from_a_question_and_a_heading() -> None:
    text = "# What is\n\nIt fits. Of the\nrest none. What?\n- **What if** shows it.\n- **What fits** goes."
    assert [*filter(is_stilted, sentences(text))] == ["Of the rest none.", "What fits** goes."]


def test_no_sentence_in_code_or_docs_begins_with_a_stilted_word() -> None:
    found = [
        (str(path.relative_to(BASE_DIR)), sentence)
        for path in prose_files()
        for text in prose(path)
        for sentence in sentences(text)
    ]
    assert len(found) > 1_000
    assert [each for each in found if is_stilted(each[1])] == []


def test_no_visible_sentence_begins_with_a_stilted_word() -> None:
    """Headings such as "What was sent" are allowed. They do not end with a period."""
    found = [
        (place, sentence.strip())
        for place, text in visible_texts()
        for sentence in re.split(r"(?<=[.!?]) |>|<|\n", text)
        if sentence.strip().endswith(".")
    ]
    assert len(found) > 500
    assert [each for each in found if STILTED.match(each[1])] == []


CONFLICTS = ("Conflict", "PurgedRecord")


def conflict_messages(path: Path) -> Iterator[str]:
    """Yield what a module's conflicts say, "…" for each value in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CONFLICTS:
            for said in node.args[:1]:
                if isinstance(said, ast.Constant):
                    yield str(said.value)
                elif isinstance(said, ast.JoinedStr):
                    yield joined(said)


def test_a_conflict_is_told_in_sentences() -> None:
    """Pages put an outcome such as "Not saved." before it."""
    told = [message for path in python_files() for message in conflict_messages(path)]
    assert len(told) > 40
    assert [said for said in told if not re.fullmatch(r"[A-Z…].*[.]", said)] == []
