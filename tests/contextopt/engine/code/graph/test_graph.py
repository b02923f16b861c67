import random
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.code.graph.importgraph import Links, build_graph
from contextopt.engine.code.graph.parsing import parse_file
from contextopt.engine.code.graph.values import CodeGraph, Skipped


def graph_of(files: dict[str, str | bytes]) -> CodeGraph:
    return build_graph(
        {
            path: parse_file(path, content.encode() if isinstance(content, str) else content)
            for path, content in files.items()
        }
    )


def test_circles_do_not_stop_it() -> None:
    graph = graph_of({"a.py": "import b\nimport a", "b.py": "from a import x"})
    assert graph.imports == {"a.py": ("b.py",), "b.py": ("a.py",)}


def test_a_missing_target_is_listed_and_another_package_is_not() -> None:
    graph = graph_of(
        {
            "app/__init__.py": "",
            "app/a.py": "import os, requests\nfrom app.gone import x\nfrom . import x\nfrom .. import up",
        }
    )
    assert [(item.target, item.line) for item in graph.unresolved] == [("app.gone", 2), ("..", 4)]
    assert graph.external == {"os": 1, "requests": 1}


@pytest.mark.parametrize(
    ("path", "content", "reason"),
    [
        ("a.py", b"\x00\x01binary", "binary"),
        ("logo.png", b"\x89PNG\x00\x00", "binary"),
        ("big.js", b"let a = 1;\n" * 50_000, "too large"),
        ("app.min.js", b"var a=1;" * 2_000, "minified"),
    ],
)
def test_skipped_files_have_a_reason(path: str, content: bytes, reason: str) -> None:
    graph = graph_of({path: content})
    assert graph.skipped == (Skipped(path, reason),)
    assert graph.imports == {path: ()}


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("a.py", "import b\ndef broken(:\n    pass\nclass Fine:\n    pass\n"),
        ("a.ts", "import './b';\nfunction ( {{{\nclass Fine {}\n"),
        ("a.go", 'package a\nimport "x/b"\nfunc ((\n'),
        ("a.rs", "mod b;\nfn ((( \n"),
        ("a.java", "import x.B;\nclass { ((\n"),
    ],
)
def test_a_syntax_error_is_reported_and_the_rest_is_read(path: str, content: str) -> None:
    graph = graph_of({path: content})
    (skipped,) = graph.skipped
    assert (skipped.path, skipped.reason) == (path, "syntax error")
    assert skipped.line >= 1
    assert graph.files[path].imports


@pytest.mark.parametrize(
    "ending", ["py", "js", "ts", "tsx", "go", "rs", "java", "md", "rst", "json", "txt", ""]
)
@given(content=st.binary(max_size=400))
def test_no_content_makes_it_fail(ending: str, content: bytes) -> None:
    parsed = parse_file(f"a.{ending}", content)
    build_graph({f"x/a.{ending}": parsed})


@pytest.mark.parametrize("name", ["package.json", "tsconfig.json", "Cargo.toml", "go.mod", "pyproject.toml"])
@given(content=st.text(alphabet='{}[]":,\\/*=ab\n', max_size=60))
def test_no_manifest_makes_it_fail(name: str, content: str) -> None:
    graph_of({name: content, "a.ts": "import 'x'", "b.rs": "use x::y;"})


@pytest.mark.parametrize("opening", ["(", "[", "{", "a.", "if x:\n ", "f(lambda: "])
def test_deep_nesting_does_not_stop_it(opening: str) -> None:
    for ending in ("py", "ts", "go", "rs", "java"):
        parse_file(f"a.{ending}", (opening * 10_000).encode())


def test_a_grammar_that_takes_too_long_gives_up() -> None:
    parsed = parse_file("a.rs", b"if x:\n " * 40_000)
    assert (parsed.imports, parsed.problems) == ((), (1,))


def test_imports_and_definitions_are_read() -> None:
    parsed = parse_file(
        "a.py", b"from .x import (a, b as c)\n\n@deco\nclass A(B):\n    def m(self) -> int: ...\n"
    )
    assert parsed.imports[0].names == ("a", "b")
    assert [(s.name, s.kind, s.start, s.end, s.depth) for s in parsed.symbols] == [
        ("A", "class", 3, 5, 0),
        ("m", "method", 5, 5, 1),
    ]


def test_the_path_of_a_blob_does_not_matter() -> None:
    assert parse_file("a/b.py", b"import x\n") == parse_file("c.py", b"import x\n")


def test_byte_order_mark_and_line_ends() -> None:
    graph = graph_of({"a.py": b"\xef\xbb\xbfimport b\r\nimport c\r\n", "b.py": "", "c.py": ""})
    assert graph.imports["a.py"] == ("b.py", "c.py")


def test_relevance_falls_with_distance_and_goes_both_ways() -> None:
    chain = {f"m{n}.py": f"import m{n + 1}" for n in range(6)} | {"alone.py": ""}
    links = Links.of(graph_of(chain))
    start = np.zeros(len(links.paths))
    start[links.paths.index("m2.py")] = 1.0
    rank = dict(zip(links.paths, links.spread(start, 0.5), strict=True))
    assert rank["m2.py"] > rank["m3.py"] > rank["m4.py"] > rank["m5.py"] > 0
    assert rank["m2.py"] > rank["m1.py"] > rank["m0.py"] > 0
    assert rank["alone.py"] == 0
    assert sum(rank.values()) == pytest.approx(1.0)


def test_no_start_spreads_nothing() -> None:
    links = Links.of(graph_of({"a.py": "import b", "b.py": ""}))
    assert links.spread(np.zeros(2), 0.5).tolist() == [0.0, 0.0]
    assert Links.of(graph_of({})).spread(np.zeros(0), 0.5).tolist() == []


def test_the_order_of_the_files_does_not_matter() -> None:
    rng = random.Random(1)
    names = list(string.ascii_lowercase)
    files = {f"{name}.py": f"import {rng.choice(names)}\nimport {rng.choice(names)}\n" for name in names}
    shuffled = list(files.items())
    rng.shuffle(shuffled)
    assert graph_of(dict(shuffled)).imports == graph_of(files).imports
    assert list(graph_of(dict(shuffled)).imports) == sorted(files)
