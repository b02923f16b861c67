import os
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import pytest

from contextopt.engine.code.filescores import (
    Change,
    Documents,
    FileTerms,
    History,
    RankedFile,
    Ranker,
    RepositoryIndex,
    Weights,
    read_file,
)
from contextopt.engine.code.graph.importgraph import build_graph
from contextopt.engine.code.graph.parsing import parse_file

NOW = datetime(2026, 3, 1, tzinfo=UTC)
FILES = {
    "shop/__init__.py": "",
    "shop/orders.py": "from shop.prices import price_of\n\ndef place_order(basket): ...\n",
    "shop/prices.py": "from shop.taxes import vat\n\ndef price_of(item): ...\n",
    "shop/taxes.py": "def vat(amount): ...\n",
    "shop/emails.py": "def send_receipt(address): ...\n",
    "docs/guide.md": "# Guide\n\nHow to run the server.\n",
    "logo.png": "\0\0",
}


def ranked(
    query: str, seeds: tuple[str, ...] = (), changes: tuple[Change, ...] = (), limit: int | None = None
) -> list[RankedFile]:
    parsed = {path: parse_file(path, text.encode()) for path, text in FILES.items()}
    documents = Documents.build({path: FileTerms.of(parsed[path], text) for path, text in FILES.items()})
    return Ranker.of(build_graph(parsed), documents, changes).rank(query, NOW, seeds, limit=limit)


def change(days: int, message: str, *paths: str) -> Change:
    return Change(NOW - timedelta(days=days), message, paths)


def test_words_find_the_file_and_imports_its_neighbours() -> None:
    order = [file.path for file in ranked("place an order")]
    assert order[0] == "shop/orders.py"
    assert order.index("shop/prices.py") < order.index("shop/emails.py")


def test_seeds_come_first_and_pull_what_they_import() -> None:
    result = ranked("", seeds=("shop/taxes.py", "no/such.py"))
    assert result[0].path == "shop/taxes.py"
    assert result[0].parts["seed"] == Weights().seed
    assert result[1].path == "shop/prices.py"


def test_a_past_change_with_a_similar_message_points_at_its_files() -> None:
    changes = (change(30, "Invoices show the customer number", "shop/emails.py"),)
    result = ranked("customer number missing on invoices", changes=changes)
    assert result[0].path == "shop/emails.py"
    assert result[0].parts["similar"] > 0


def test_files_that_change_together_come_together() -> None:
    changes = tuple(change(days, "Work", "shop/orders.py", "docs/guide.md") for days in (3, 9, 20))
    parts = {file.path: file.parts for file in ranked("place_order", changes=changes)}
    assert parts["docs/guide.md"]["cochange"] > 0
    assert "cochange" not in parts["shop/emails.py"]


def test_a_change_of_most_files_brings_none_together() -> None:
    first = change(3, "Import", *FILES)
    assert not any("cochange" in file.parts for file in ranked("place_order", changes=(first,)))
    both = (first, change(2, "Work", "shop/orders.py", "shop/emails.py"))
    together = {file.path for file in ranked("place_order", changes=both) if "cochange" in file.parts}
    assert together == {"shop/orders.py", "shop/emails.py"}


def test_a_binary_file_is_left_out_unless_it_is_named() -> None:
    def has_logo(query: str, *seeds: str) -> bool:
        changes = (change(1, "Draw it", "logo.png"),)
        return any(file.path == "logo.png" for file in ranked(query, seeds, changes))

    assert not has_logo("place an order")
    assert has_logo("Draw the logos anew")
    assert has_logo("", "logo.png")


def test_the_newer_change_counts_more() -> None:
    changes = (change(1, "Work", "shop/emails.py"), change(400, "Work", "shop/taxes.py"))
    parts = {file.path: file.parts for file in ranked("", changes=changes)}
    assert parts["shop/emails.py"]["recency"] > parts["shop/taxes.py"]["recency"] > 0


def test_a_moved_file_keeps_its_history() -> None:
    history = History.of([change(1, "Work", "old/place/shop/orders.py", "gone.py")], FILES)
    assert [history.paths[place] for place in history.files] == ["shop/orders.py"]


def test_parts_add_up_to_the_score() -> None:
    for file in ranked("order price guide", changes=(change(2, "Order", "shop/orders.py"),)):
        assert sum(file.parts.values()) == pytest.approx(file.score)


def test_all_files_are_ranked_once_and_a_limit_takes_the_best() -> None:
    result = ranked("order of the logo")
    assert sorted(file.path for file in result) == sorted(FILES)
    assert ranked("order of the logo", limit=2) == result[:2]
    assert [file.score for file in result] == sorted((file.score for file in result), reverse=True)


def test_an_empty_task_orders_by_path_with_documentation_last() -> None:
    texts = FILES.keys() - {"logo.png"}
    assert [file.path for file in ranked("")] == sorted(
        texts, key=lambda path: (path == "docs/guide.md", path)
    )


def test_a_whole_identifier_counts_more_than_its_parts() -> None:
    parts = {file.path: file.parts for file in ranked("placeOrder fails for a basket")}
    assert parts["shop/orders.py"]["identifiers"] == Weights().identifiers
    assert "identifiers" not in parts["shop/prices.py"]
    assert "identifiers" not in ranked("place an order")[0].parts


def test_a_long_text_does_not_drown_its_title() -> None:
    title, body = "Baskets get lost in orders", "The server sends a receipt to each address, with vat."
    filler = " ".join(f"{one}{other}zq" for one in "abcdefghij" for other in "abcdefghij")

    def lead(task: str) -> float:
        scores = {file.path: file.score for file in ranked(task)}
        return scores["shop/orders.py"] - scores["shop/emails.py"]

    assert lead(f"{title}\n\n{body} {filler}") > lead(f"{title}\n\n{body}")
    assert lead(f"{title}\n{body} {filler}") == pytest.approx(lead(f"{title}\n{body}"))


def test_documentation_is_ranked_lower_unless_the_task_mentions_it() -> None:
    asked = {
        query: next(file for file in ranked(query) if file.path == "docs/guide.md").parts.get("kind", 0.0)
        for query in ("run the server", "document how to run the server", "guide.md", "Run\n\nSee the docs")
    }
    assert list(asked.values()) == [-0.4, 0.0, 0.0, -0.2]


def test_a_seed_is_never_ranked_lower() -> None:
    result = ranked("run the server", seeds=("docs/guide.md",))
    assert (result[0].path, "kind" in result[0].parts) == ("docs/guide.md", False)


def test_a_seed_counts_more_than_all_other_signals() -> None:
    weights = asdict(Weights())
    assert weights.pop("seed") > sum(weights.values())


def test_an_empty_repository_ranks_nothing() -> None:
    assert Ranker.of(build_graph({}), Documents.build({})).rank("order", NOW) == []


def test_a_change_dated_after_now_counts_as_age_zero() -> None:
    assert ranked("x", changes=(change(-5, "Work", "shop/taxes.py"),))[0].path == "shop/taxes.py"


def test_an_updated_index_ranks_as_one_built_anew() -> None:
    contents = {path: text.encode() for path, text in FILES.items()}
    readings = {path: read_file(path, content) for path, content in contents.items()}
    changed = {"shop/emails.py": read_file("shop/emails.py", b"from shop.orders import place_order\n")}
    updated = RepositoryIndex.build(readings).updated(changed, ["logo.png"])
    anew = RepositoryIndex.build({path: r for path, r in (readings | changed).items() if path != "logo.png"})
    query = "place an order by email"
    assert updated.ranker().rank(query, NOW) == anew.ranker().rank(query, NOW)
    assert updated.graph.imports == anew.graph.imports


_SCRIPT = """
from tests.contextopt.engine.code.test_relevance import ranked, change, FILES
from tests.contextopt.engine.code.test_packing import sources, CL100K
from contextopt.engine.code.packing import pack
changes = (change(3, "Order", "shop/orders.py", "shop/taxes.py"),)
result = ranked("place an order and send the receipt", changes=changes)
print(result)
print(pack(result, sources(FILES), 120, CL100K, query="order receipt"))
"""


def test_the_hash_seed_does_not_matter() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(outputs) == 1
