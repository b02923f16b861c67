"""`POST /api/v1/search`."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from contextopt.people.models import Team
from contextopt.search import registry
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.search.wordcounts import count_words
from contextopt.spaces.models import Record, Space
from memory.search.search import CONTENT_SHOWN
from tests.contextopt.api.conftest import Caller
from tests.factories import NOW, make_record, make_space

FIELDS = {
    "id", "kind", "title", "content", "content_cut", "similarity", "lexical_score", "fused_score",
    "relevance_score", "match_score", "below_min_relevance", "decayed_score", "access_count", "type",
    "memory_type", "category", "tags", "date", "created_at", "source", "external_id", "thread", "repository",
    "trust_level", "parts",
}  # fmt: skip


def ask(caller: Caller, query: str = "queue", **fields):
    return caller.post("/search", {"query": query, "space": "support", **fields})


def test_a_result_has_every_field(reader: Caller, space: Space) -> None:
    record = make_record(space, tags=["ops"], source="wiki", external_id="7", view_count=3)
    ensure_embedded(registry.get("record"), space.pk, limit=9)
    response = ask(reader)
    assert response.status_code == 200
    (result,) = response.json()["results"]
    assert result.keys() == FIELDS
    assert (result["id"], result["kind"], result["access_count"]) == (record.pk, "record", 3)
    assert (result["trust_level"], result["memory_type"], result["tags"]) == ("user", None, ["ops"])
    assert 0 < result["similarity"] <= 1
    assert result["relevance_score"] == result["decayed_score"] == 1
    assert result["parts"]["lexical_rank"] == result["parts"]["vector_rank"] == 1
    assert Record.objects.get(pk=record.pk).view_count == 3


def test_weak_matches_are_marked(reader: Caller, space: Space) -> None:
    for title in ("Printer", "Printer and scanner", "Scanner"):
        make_record(space, title=title, notes="")
    ensure_embedded(registry.get("record"), space.pk, limit=9)
    found = {least: ask(reader, query="printer", min_relevance=least).json()["results"] for least in (0, 1)}
    assert [len(results) for results in found.values()] == [3, 3]
    assert {result["below_min_relevance"] for result in found[0]} == {False}
    assert [result["below_min_relevance"] for result in found[1]] == [False, True, True]


@pytest.mark.parametrize(
    ("query", "fits"),
    [("automobile motor failure", True), ("zxqv blorp", False), ("the of", False)],
)
@pytest.mark.parametrize("method", ["rrf", "weighted"])
def test_a_match_is_told_from_noise(
    reader: Caller, space: Space, query: str, fits: bool, method: str
) -> None:
    make_record(space, title="Our car broke down", notes="The engine of our car failed on the motorway.")
    ensure_embedded(registry.get("record"), space.pk, limit=9)
    (result,) = ask(reader, query=query, min_relevance=0.4, method=method).json()["results"]
    assert result["below_min_relevance"] is not fits
    assert (result["match_score"] >= 0.4) is fits


def test_a_share_of_the_words_is_a_match_without_vectors(reader: Caller, space: Space) -> None:
    for title in ("Printer and scanner", "Printer", "Lamp"):
        make_record(space, title=title, notes="")
    results = ask(reader, query="scanner printer", min_relevance=0.8).json()["results"]
    assert [result["title"] for result in results] == ["Printer and scanner", "Printer"]
    assert [result["below_min_relevance"] for result in results] == [False, True]
    assert results[0]["match_score"] > 0.8 > results[1]["match_score"] > 0


def test_a_stop_word_and_nothing_at_all(reader: Caller, space: Space) -> None:
    make_record(space)
    assert ask(reader, "").json() == {"results": [], "degraded": False}
    assert ask(reader, "the").status_code == 200


def test_a_long_text_is_cut_and_says_so(reader: Caller, space: Space) -> None:
    make_record(space, notes="queue " * 5_000)
    (result,) = ask(reader).json()["results"]
    assert len(result["content"]) == CONTENT_SHOWN
    assert result["content_cut"]


def test_filters_limit_and_methods(reader: Caller, space: Space) -> None:
    make_record(space, title="one", type="commit")
    make_record(space, title="two", type="note")
    ensure_embedded(registry.get("record"), space.pk, limit=9)
    titles = lambda **asked: [r["title"] for r in ask(reader, "lock", **asked).json()["results"]]  # noqa: E731
    assert titles(types=["note"]) == ["two"]
    assert len(titles(limit=1)) == 1
    assert len(titles(method="weighted", hybrid_alpha=0)) == 2
    assert titles(min_similarity=1) == []
    assert titles(kinds=["memory"]) == []
    assert titles(date_from=NOW.isoformat(), date_to=NOW.isoformat()) != []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "query"),
        ({"query": "x" * 100_001}, "query"),
        ({"query": "a\x00b"}, "query"),
        ({"query": "x", "limit": 0}, "limit"),
        ({"query": "x", "limit": 101}, "limit"),
        ({"query": "x", "hybrid_alpha": 1.5}, "hybrid_alpha"),
        ({"query": "x", "min_similarity": -1}, "min_similarity"),
        ({"query": "x", "min_relevance": 1.1}, "min_relevance"),
        ({"query": "x", "method": "magic"}, "method"),
        ({"query": "x", "types": []}, "types"),
        ({"query": "x", "tags": ["a"] * 51}, "tags"),
        ({"query": "x", "date_from": "yesterday"}, "date_from"),
        ({"query": "x", "date_from": "2026-05-02", "date_to": "2026-05-01"}, "date_to"),
        ({"query": "x", "kinds": ["file"]}, "kinds.0"),
        ({"query": "x", "colour": "red"}, "colour"),
        ({"query": "x", "kinds": ["record"]}, "space"),
    ],
)
def test_a_refusal_names_the_field(reader: Caller, team: Team, body, field: str) -> None:
    response = reader.post("/search", body)
    assert response.status_code == 422
    assert response["Content-Type"] == "application/problem+json"
    assert [error["field"] for error in response.json()["errors"]] == [field]


def test_another_space_keeps_its_own(reader: Caller, space: Space, team: Team) -> None:
    make_record(make_space(team, "other"), title="queue elsewhere")
    assert ask(reader).json()["results"] == []


@pytest.mark.parametrize("records", [2, 20])
def test_queries(reader: Caller, space: Space, records: int) -> None:
    for number in range(records):
        make_record(space, title=f"queue {number}")
    table = registry.get("record")
    ensure_embedded(table, space.pk, limit=99)
    count_words(table, space.pk)
    ask(reader)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert len(ask(reader, limit=100).json()["results"]) == records
    # Key, team, space, stems, model; for each kind: frequencies, best by words, number of vectors, nearest,
    # rows.
    assert len([q for q in queries if "SAVEPOINT" not in q["sql"]]) <= 18
