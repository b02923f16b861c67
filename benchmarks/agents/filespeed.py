"""Measure the time to index a large repository, to index it again after a change, and to query it."""

import random
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta

from benchmarks.figures import Figure, Sample, Section, at_most
from contextopt.engine.code.filescores import Change, Reading, RepositoryIndex, read_file
from contextopt.engine.code.graph.parsing import decode
from contextopt.engine.code.packing import Source, pack
from contextopt.engine.text.tokens import get_tokenizer

INDEX_SECONDS = 60.0
AGAIN_SECONDS = 1.0
QUERY_MS = 200.0

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_BUDGET = 8_000
_LIMIT = 200
_QUERIES = 40
_WORDS = (
    "account", "batch", "cache", "client", "config", "cursor", "date", "decode", "delta", "encode",
    "engine", "event", "field", "file", "filter", "flag", "group", "handler", "header", "index", "item",
    "job", "key", "limit", "line", "list", "loader", "lock", "map", "merge", "message", "method", "model",
    "name", "node", "object", "offset", "option", "order", "packet", "page", "parser", "patch", "path",
    "plan", "policy", "pool", "port", "query", "queue", "rate", "record", "region", "render", "reply",
    "request", "result", "retry", "route", "rule", "scan", "schema", "scope", "score", "search",
    "session", "shard", "signal", "size", "slot", "source", "space", "stage", "state", "store", "stream",
    "table", "task", "template", "term", "thread", "token", "tree", "type", "unit", "update", "user",
    "value", "vector", "version", "view", "window", "worker", "writer",
)  # fmt: skip
_ENDINGS = ("py", "py", "py", "ts", "go", "rs", "java", "md")


def measure_speed(files: int) -> Section:
    """Index a generated repository of mixed languages from its bytes, in two processes, and query it."""
    contents = dict(generate(files))
    start = time.perf_counter()
    readings = _read_all(contents)
    index = RepositoryIndex.build(readings)
    index_seconds = time.perf_counter() - start
    again = Sample(tuple(_again(index, contents, number) for number in range(5)))
    rank, show = _ask(index, contents)
    size = sum(map(len, contents.values())) / 1e6
    return Section(
        f"File retrieval: speed on {files:,} generated files ({size:.0f} MB)",
        (
            Figure(
                "index all",
                "s",
                1,
                index_seconds,
                bar=at_most(INDEX_SECONDS, index_seconds, "≤ 60 s, 2 cores"),
            ),
            Figure.of(
                "index again after one changed file",
                again,
                unit="s",
                bar=at_most(AGAIN_SECONDS, again.p95, "≤ 1 s"),
            ),
            Figure.of("query: rank", rank),
            Figure.of(
                "query: rank and pack 8,000 tokens",
                show,
                bar=at_most(QUERY_MS, show.p95, "≤ 200 ms"),
            ),
        ),
        (f"{sum(map(len, index.graph.imports.values())):,} import edges.",),
    )


def generate(files: int) -> Iterator[tuple[str, bytes]]:
    """Yield paths and contents: packages of forty files that import one another and earlier packages."""
    rng = random.Random(7)
    for number in range(files):
        package, place = divmod(number, 40)
        folder = f"{_WORDS[package % len(_WORDS)]}_{package}"
        if number == 0:
            yield "go.mod", b"module example.org/all\n"
        elif place == 0:
            yield f"{folder}/__init__.py", b""
            continue
        ending = _ENDINGS[place % len(_ENDINGS)]
        yield f"{folder}/module_{place}.{ending}", _content(rng, ending, folder, package).encode()


def _content(rng: random.Random, ending: str, folder: str, package: int) -> str:
    other = rng.randrange(package + 1)
    there = f"{_WORDS[other % len(_WORDS)]}_{other}"
    module = f"module_{rng.randrange(1, 40)}"
    head = {
        "py": f"import os\nimport json\nfrom {there} import {module}\nfrom .{module} import {_name(rng)}\n",
        "ts": f'import {{ a }} from "../{there}/{module}";\nimport b from "react";\n',
        "go": f'package {folder}\n\nimport (\n\t"fmt"\n\t"example.org/all/{there}"\n)\n',
        "rs": f"use crate::{there}::{module};\nuse std::fmt;\n",
        "java": f"package {folder};\n\nimport {there}.{module};\n",
        "md": "# Notes\n\n",
    }[ending]
    return head + "".join(_definition(rng, ending) for _ in range(rng.randint(6, 18)))


def _definition(rng: random.Random, ending: str) -> str:
    name, body = (
        _name(rng),
        [f"{_name(rng)}({_name(rng)}, {rng.randrange(99)})" for _ in range(rng.randint(3, 12))],
    )
    if ending == "py":
        return f"\n\ndef {name}(self, {_name(rng)}):\n" + "".join(
            f"    {_name(rng)} = {line}\n" for line in body
        )
    if ending == "md":
        return f"\n## {name}\n\n" + "".join(f"The {line} of the {_name(rng)}.\n" for line in body)
    opening = {"ts": "export function {}() {{", "go": "func {}() {{", "rs": "pub fn {}() {{"}
    lines = "".join(f"    {line};\n" for line in body)
    if ending == "java":
        return f"\nclass {name.title()} {{\n  void {name}() {{\n{lines}  }}\n}}\n"
    return f"\n{opening[ending].format(name)}\n{lines}}}\n"


def _name(rng: random.Random) -> str:
    return f"{rng.choice(_WORDS)}_{rng.choice(_WORDS)}"


def _read_all(contents: Mapping[str, bytes]) -> dict[str, Reading]:
    with ProcessPoolExecutor(2) as pool:
        readings = pool.map(read_file, contents, contents.values(), chunksize=200)
        return dict(zip(contents, readings, strict=True))


def _again(index: RepositoryIndex, contents: Mapping[str, bytes], number: int) -> float:
    path = sorted(contents)[number * 97 + 5]
    start = time.perf_counter()
    index.updated({path: read_file(path, contents[path] + b"\n# changed\n")})
    return time.perf_counter() - start


def _ask(index: RepositoryIndex, contents: Mapping[str, bytes]) -> tuple[Sample, Sample]:
    rng = random.Random(8)
    paths = sorted(contents)
    changes = [
        Change(
            _NOW - timedelta(hours=7 * age), f"Fix {_name(rng)} of {_name(rng)}", tuple(rng.sample(paths, 3))
        )
        for age in range(3_000)
    ]
    ranker = index.ranker(changes)
    sources = {path: Source(decode(contents[path]), index.graph.files[path]) for path in paths}
    tokenizer = get_tokenizer("cl100k_base")
    tokenizer.count("warm")
    ranked_ms, packed_ms = [], []
    for _ in range(_QUERIES):
        query = f"Fix {_name(rng)} when {_name(rng)} is empty\n\n" + " ".join(_name(rng) for _ in range(20))
        start = time.perf_counter()
        ranked = ranker.rank(query, _NOW, limit=_LIMIT)
        ranked_ms.append(1000 * (time.perf_counter() - start))
        packed = pack(ranked, sources, _BUDGET, tokenizer, query=query)
        packed_ms.append(1000 * (time.perf_counter() - start))
        assert packed.tokens <= _BUDGET
    return Sample(tuple(ranked_ms)), Sample(tuple(packed_ms))
