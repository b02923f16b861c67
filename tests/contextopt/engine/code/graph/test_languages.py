"""Imports resolved to files, language by language."""

import pytest

from contextopt.engine.code.graph.parsing import parse_file
from tests.contextopt.engine.code.graph.test_graph import graph_of
from tests.speed import within


def imports(files: dict[str, str], path: str) -> tuple[str, ...]:
    return graph_of(files).imports[path]


PYTHON = {
    "src/shop/__init__.py": "from .models import Order",
    "src/shop/models.py": "class Order: ...",
    "src/shop/api/__init__.py": "",
    "src/shop/api/views.py": "",
    "src/shop/api/forms.pyi": "",
    "tests/__init__.py": "",
    "tests/test_shop.py": "",
    "tools/run.py": "",
    "tools/lib.py": "",
}


@pytest.mark.parametrize(
    ("path", "statement", "found"),
    [
        ("tests/test_shop.py", "import shop.models", ("src/shop/models.py",)),
        ("tests/test_shop.py", "from shop import models", ("src/shop/models.py",)),
        ("tests/test_shop.py", "from shop import Order", ("src/shop/__init__.py", "src/shop/models.py")),
        ("tests/test_shop.py", "from shop.models import *", ("src/shop/models.py",)),
        (
            "tests/test_shop.py",
            "import importlib\nimportlib.import_module('shop.models')",
            ("src/shop/models.py",),
        ),
        ("src/shop/api/views.py", "from ..models import Order", ("src/shop/models.py",)),
        ("src/shop/api/views.py", "from .. import models", ("src/shop/models.py",)),
        ("src/shop/api/views.py", "from . import forms", ("src/shop/api/forms.pyi",)),
        ("src/shop/api/views.py", "from .forms import Form as F", ("src/shop/api/forms.pyi",)),
        (
            "src/shop/api/views.py",
            "try:\n    import shop.models\nexcept ImportError:\n    pass",
            ("src/shop/models.py",),
        ),
        ("src/shop/api/views.py", "def f():\n    from shop.models import Order", ("src/shop/models.py",)),
        (
            "src/shop/api/views.py",
            "if TYPE_CHECKING:\n    from shop.models import Order",
            ("src/shop/models.py",),
        ),
        ("src/shop/api/views.py", "import shop.models as m, os", ("src/shop/models.py",)),
        ("tools/run.py", "import lib", ("tools/lib.py",)),
        ("tools/run.py", "import os.path", ()),
    ],
)
def test_python(path: str, statement: str, found: tuple[str, ...]) -> None:
    assert imports(PYTHON | {path: statement}, path) == found


def test_python_names_what_misses() -> None:
    graph = graph_of(
        PYTHON | {"tests/test_shop.py": "import shop.gone\nfrom .lost import x\nfrom ....far import y"}
    )
    assert {(item.target, item.line) for item in graph.unresolved} == {
        ("shop.gone", 1),
        (".lost", 2),
        ("....far", 3),
    }


def test_python_takes_the_nearest_of_two_packages() -> None:
    files = {
        "one/app/__init__.py": "",
        "one/app/x.py": "",
        "one/main.py": "import app.x",
        "two/app/__init__.py": "",
        "two/app/x.py": "",
        "two/main.py": "import app.x",
    }
    graph = graph_of(files)
    assert graph.imports["one/main.py"] == ("one/app/x.py",)
    assert graph.imports["two/main.py"] == ("two/app/x.py",)


SCRIPT = {
    "tsconfig.json": (
        "{ // a comment\n"
        ' "compilerOptions": {"baseUrl": ".", "paths": {"@/*": ["src/*"], "#lib": ["lib/main.ts"],}}}'
    ),
    "package.json": '{"name": "root"}',
    "src/app.ts": "",
    "src/util/index.ts": "",
    "src/util/date.tsx": "",
    "src/data.json": "{}",
    "lib/main.ts": "",
    "packages/core/package.json": '{"name": "@acme/core", "main": "dist/index.js"}',
    "packages/core/src/index.ts": "",
    "packages/core/src/deep.ts": "",
    "old/legacy.js": "",
}


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("import x from './util'", ("src/util/index.ts",)),
        ("import './util/date'", ("src/util/date.tsx",)),
        ("import type { D } from './util/date.js'", ("src/util/date.tsx",)),
        ("export * from './util'", ("src/util/index.ts",)),
        ("export { a } from './util/date'", ("src/util/date.tsx",)),
        ("const l = require('../old/legacy')", ("old/legacy.js",)),
        ("const l = await import('../old/legacy.js')", ("old/legacy.js",)),
        ("import l = require('../old/legacy')", ("old/legacy.js",)),
        ("import d from './data.json'", ("src/data.json",)),
        ("import x from '@/util/date'", ("src/util/date.tsx",)),
        ("import x from '#lib'", ("lib/main.ts",)),
        ("import x from 'src/util'", ("src/util/index.ts",)),
        ("import x from '@acme/core'", ("packages/core/src/index.ts",)),
        ("import x from '@acme/core/deep'", ("packages/core/src/deep.ts",)),
        ("import React from 'react'", ()),
    ],
)
def test_typescript(statement: str, found: tuple[str, ...]) -> None:
    assert imports(SCRIPT | {"src/app.ts": statement}, "src/app.ts") == found


def test_typescript_names_what_misses() -> None:
    graph = graph_of(
        SCRIPT | {"src/app.ts": "import './gone'\nimport '@/lost'\nimport '../../../far'\nimport 'vue'"}
    )
    assert {item.target for item in graph.unresolved} == {"./gone", "@/lost", "../../../far"}
    assert graph.external == {"vue": 1}


def test_a_tsconfig_may_extend_another() -> None:
    files = {
        "tsconfig.base.json": '{"compilerOptions": {"baseUrl": ".", "paths": {"~/*": ["web/*"]}}}',
        "web/tsconfig.json": '{"extends": "../tsconfig.base.json"}',
        "web/a.ts": "import '~/b'",
        "web/b.ts": "",
    }
    assert imports(files, "web/a.ts") == ("web/b.ts",)


def test_tsconfigs_that_extend_each_other_do_not_stop_it() -> None:
    files = {"tsconfig.json": '{"extends": "./tsconfig.json"}', "a.ts": "import 'x'"}
    assert imports(files, "a.ts") == ()


GO = {
    "go.mod": "module example.org/shop // comment\n\ngo 1.22\n",
    "main.go": (
        'package main\n\nimport (\n\t"fmt"\n\tm "example.org/shop/models"\n)\n\nfunc main() { helper() }\n'
    ),
    "helper.go": "package main\n\nfunc helper() {}\n",
    "models/order.go": (
        "package models\n\ntype Order struct {\n\tItem Item\n}\n\nfunc (o *Order) Total() int { return 0 }\n"
    ),
    "models/item.go": "package models\n\ntype Item struct{}\n",
    "models/order_test.go": "package models\n",
}


def test_go() -> None:
    graph = graph_of(GO | {"x/a.go": 'package x\nimport "example.org/shop/gone"\n'})
    assert graph.imports["main.go"] == ("helper.go", "models/item.go", "models/order.go")
    assert graph.imports["models/order.go"] == ("models/item.go",)
    assert graph.external == {"fmt": 1}
    assert [item.target for item in graph.unresolved] == ["example.org/shop/gone"]
    assert [(s.name, s.kind, s.signature) for s in graph.files["models/order.go"].symbols] == [
        ("Order", "type", "type Order struct"),
        ("Total", "method", "func (o *Order) Total() int"),
    ]


RUST = {
    "Cargo.toml": '[workspace]\nmembers = ["core", "app"]\n',
    "core/Cargo.toml": '[package]\nname = "shop-core"\n',
    "core/src/lib.rs": "pub mod models;\nmod gone;\n",
    "core/src/models/mod.rs": "pub mod order;\nuse self::order::Order;\n",
    "core/src/models/order.rs": (
        "use super::Base;\nuse crate::models::item::{Item, self as it};\nuse std::fmt;\n"
    ),
    "core/src/models/item.rs": "mod tests { use super::*; }\n",
    "app/Cargo.toml": '[package]\nname = "app"\n',
    "app/src/main.rs": (
        "mod cli;\nuse shop_core::models::{order::Order, item};\nuse cli::run;\nuse serde::Serialize;\n"
    ),
    "app/src/cli.rs": "pub mod args;\n",
    "app/tests/api.rs": "mod common;\n",
    "app/tests/common/mod.rs": "",
    "app/src/cli/args.rs": "use super::super::main;\n",
}


def test_rust() -> None:
    graph = graph_of(RUST)
    assert graph.imports["core/src/lib.rs"] == ("core/src/models/mod.rs",)
    assert graph.imports["core/src/models/mod.rs"] == ("core/src/models/order.rs",)
    assert graph.imports["core/src/models/order.rs"] == ("core/src/models/item.rs", "core/src/models/mod.rs")
    assert graph.imports["core/src/models/item.rs"] == ()
    assert graph.imports["app/src/main.rs"] == (
        "app/src/cli.rs",
        "core/src/models/item.rs",
        "core/src/models/order.rs",
    )
    assert graph.imports["app/tests/api.rs"] == ("app/tests/common/mod.rs",)
    assert graph.imports["app/src/cli.rs"] == ("app/src/cli/args.rs",)
    assert [(item.path, item.target) for item in graph.unresolved] == [("core/src/lib.rs", "gone")]
    assert graph.external == {"serde::Serialize": 1, "std::fmt": 1}


JAVA = {
    "src/main/java/org/shop/Order.java": (
        "package org.shop;\nimport org.shop.model.Item;\nimport java.util.List;\n"
        "class Order { Price price; List<Item> items; }\n"
    ),
    "src/main/java/org/shop/Price.java": "package org.shop;\nclass Price {}\n",
    "src/main/java/org/shop/model/Item.java": (
        "package org.shop.model;\npublic class Item { public static class Kind {} }\n"
    ),
    "src/main/java/org/shop/model/Unused.java": "package org.shop.model;\nclass Unused {}\n",
    "src/test/java/org/shop/OrderTest.java": (
        "package org.shop;\nimport org.shop.model.*;\nimport static org.shop.model.Item.Kind;\n"
        "import org.shop.model.Gone;\n"
        "class OrderTest { Item item; void test() { Order o = new Order(); } }\n"
    ),
}


def test_java() -> None:
    graph = graph_of(JAVA)
    assert graph.imports["src/main/java/org/shop/Order.java"] == (
        "src/main/java/org/shop/Price.java",
        "src/main/java/org/shop/model/Item.java",
    )
    assert graph.imports["src/test/java/org/shop/OrderTest.java"] == (
        "src/main/java/org/shop/Order.java",
        "src/main/java/org/shop/model/Item.java",
    )
    assert [item.target for item in graph.unresolved] == ["org.shop.model.Gone"]
    assert graph.external == {"java.util.List": 1}


@pytest.mark.parametrize(
    ("path", "content", "symbols"),
    [
        (
            "a.py",
            (
                "@cache\ndef f(a: int,\n      b=1) -> str:\n    return ''\n\nclass A:\n    x = 1\n\n"
                "    async def m(self):\n        pass\n"
            ),
            [
                ("f", "function", 1, 4, "def f(a: int, b=1) -> str"),
                ("A", "class", 6, 10, "class A"),
                ("m", "method", 9, 10, "async def m(self)"),
            ],
        ),
        (
            "a.ts",
            (
                "export class A {\n  m(x: number): void {\n  }\n}\nexport const f = (a: string) => {\n"
                "  return a;\n};\ninterface I { a: string }\n"
            ),
            [
                ("A", "class", 1, 4, "class A"),
                ("m", "method", 2, 3, "m(x: number): void"),
                ("f", "function", 5, 7, "const f = (a: string)"),
                ("I", "interface", 8, 8, "interface I"),
            ],
        ),
        (
            "a.rs",
            "pub struct S { a: u8 }\nimpl S {\n    pub fn new() -> S { S { a: 1 } }\n}\n",
            [
                ("S", "struct", 1, 1, "pub struct S"),
                ("S", "impl", 2, 4, "impl S"),
                ("new", "method", 3, 3, "pub fn new() -> S"),
            ],
        ),
        (
            "a.java",
            "class A {\n  int f(int a) {\n    return a;\n  }\n}\n",
            [("A", "class", 1, 5, "class A"), ("f", "method", 2, 4, "int f(int a)")],
        ),
        (
            "a.md",
            "# Title\n\n```\n# no heading\n```\n## Part\ntext\n",
            [("Title", "heading", 1, 7, "Title"), ("Part", "heading", 6, 7, "Part")],
        ),
        (
            "a.rst",
            "Title\n=====\n\ntext\n\nPart\n----\n\ntext\n",
            [("Title", "heading", 1, 9, "Title"), ("Part", "heading", 6, 9, "Part")],
        ),
    ],
)
def test_symbols(path: str, content: str, symbols: list[tuple[object, ...]]) -> None:
    found = graph_of({path: content}).files[path].symbols
    assert [(s.name, s.kind, s.start, s.end, s.signature) for s in found] == symbols


def test_headings_reach_to_the_next_of_their_depth_or_higher() -> None:
    content = "# A\n### B\n## C\n### D\n## E\n# F\n"
    symbols = parse_file("a.md", content.encode()).symbols
    assert [(each.name, each.end) for each in symbols] == [
        ("A", 5),
        ("B", 2),
        ("C", 4),
        ("D", 4),
        ("E", 5),
        ("F", 6),
    ]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("a.md", "# a\n" * 120_000),
        ("a.md", "# a\n" + "## b\n" * 90_000),
        ("a.rst", "a\n===\n" * 80_000),
    ],
)
def test_a_document_of_many_headings_is_quick(path: str, content: str) -> None:
    # Half a second on a slow machine; copying all later headings for each one took 6 to 20.
    with within(3):
        symbols = parse_file(path, content.encode()).symbols
    assert len(symbols) >= 80_000


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("tsconfig.json", "/*\n" * 150_000),
        ("tsconfig.json", '\\"\n' * 150_000),
        ("tsconfig.json", '{"a": "' + '\\"\n' * 150_000 + "\\"),
        ("go.mod", "\n" * 450_000),
    ],
)
def test_a_manifest_without_an_end_is_quick(path: str, content: str) -> None:
    # A tenth of a second; searching the rest of the text again at each line took minutes.
    with within(3):
        assert parse_file(path, content.encode()).settings == {}


@pytest.mark.parametrize(
    "content",
    [
        '{"compilerOptions": {"baseUrl": "a"}} /*',
        '{"compilerOptions": {"baseUrl": "a"}} "',
        '{"compilerOptions": {"baseUrl": "a"}} "\\',
    ],
)
def test_a_tsconfig_without_an_end_says_nothing(content: str) -> None:
    assert parse_file("tsconfig.json", content.encode()).settings == {}


def test_a_tsconfig_keeps_what_looks_like_a_comment_in_a_string() -> None:
    content = '{/* a "b */ "compilerOptions": {"baseUrl": "/*x\\"//", // c\n},}'
    assert parse_file("tsconfig.json", content.encode()).settings == {"base": '/*x"//', "paths": {}}


def test_the_module_of_go_may_stand_after_blank_lines() -> None:
    assert parse_file("go.mod", b'// a\n\n \t\n  module\n"x/y"\n').settings == {"module": "x/y"}
