import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.text.lexical import (
    BODY_TERMS,
    Bm25,
    LexicalIndex,
    path_terms,
    split_identifier,
    stem,
    terms,
    terms_and_identifiers,
    weigh_task,
    whole_identifier,
    words_of,
)
from contextopt.engine.validation import InvalidValue

WORDS = st.sampled_from(["user", "order", "token", "cache", "index", "graph"])
DOCUMENTS = st.dictionaries(
    st.sampled_from([f"{letter}.py" for letter in "abcdefgh"]),
    st.dictionaries(WORDS, st.integers(1, 9), max_size=6),
    max_size=8,
)


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("getHTTPResponse", ("get", "http", "respons")),
        ("get_http_response", ("get", "http", "respons")),
        ("SQLAlchemy2", ("sql", "alchemy")),
        ("__init__", ("init",)),
        ("parseJSON", ("pars", "json")),
        ("sha256", ("sha", "256")),
        ("x", ()),
        ("größe", ("gröss", "gross")),
        ("direcciones", ("direccion",)),
        ("Ålesund", ("ålesund", "alesund")),
        ("مُحَمَّد", ("مُحَمَّد", "محمد")),
        ("ฐานข้อ", ("ฐา", "าน", "นข", "ข้", "้อ")),
        ("Pythonで書く", ("で書", "書く", "python")),
        ("Straße_Nummer", ("strass", "nummer")),
        ("数据库", ("数据", "据库")),
        ("数", ("数",)),
        ("a" * 81, ()),
    ],
)
def test_split_identifier(word: str, parts: tuple[str, ...]) -> None:
    assert split_identifier(word) == parts


@pytest.mark.parametrize(
    ("word", "whole"),
    [
        ("getHTTPResponse", "get_http_response"),
        ("_get_http_response", "get_http_response"),
        ("GetHttpResponse", "get_http_response"),
        ("response", ""),
        ("__init__", ""),
        ("sha256", ""),
        ("utf8_lines", "utf_8_lines"),
        ("größe_neu", ""),
        ("a_b" * 40, ""),
    ],
)
def test_whole_identifier(word: str, whole: str) -> None:
    assert whole_identifier(word) == whole


@given(st.text(alphabet="aB_1 é.\n", max_size=60))
def test_reading_a_text_once_counts_the_same(text: str) -> None:
    identifiers = filter(None, map(whole_identifier, words_of(text)))
    assert terms_and_identifiers(text) == (terms(text), Counter(identifiers))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("signals", "signal"),
        ("queries", "query"),
        ("parsing", "parsed"),
        ("caches", "cache"),
        ("running", "run"),
        ("classes", "class"),
        ("indexes", "index"),
        ("updated", "updates"),
    ],
)
def test_forms_of_a_word_meet(one: str, other: str) -> None:
    assert stem(one) == stem(other)


@pytest.mark.parametrize("word", ["is", "bus", "class", "red", "king", "this", "as"])
def test_short_words_and_no_plurals_stay(word: str) -> None:
    assert stem(word) == word


def test_prose_meets_code() -> None:
    assert set(terms("fix the user sessions")) & set(terms("def getUserSession(): ...")) == {
        stem("user"),
        stem("session"),
    }


def words_like_none(count: int) -> list[str]:
    """Return this many words of two letters, each its own term."""
    letters = "bcdfghjklmnpqrtvwxyz"
    return [one + other for one in letters for other in letters][:count]


def test_a_title_counts_more_than_each_word_below() -> None:
    weights, identifiers = weigh_task("Lose no order\n\nThe basket of get_order is lost, the basket!")
    assert weights["order"] == pytest.approx(2 + math.log(2))
    assert weights["basket"] == pytest.approx(1 + math.log(2))
    assert identifiers == {"get_order": 1.0}


@pytest.mark.parametrize("count", [BODY_TERMS, BODY_TERMS + 1, 10 * BODY_TERMS])
def test_a_long_text_below_a_title_weighs_as_much_as_a_shorter_one(count: int) -> None:
    body = words_like_none(count)
    weights, identifiers = weigh_task(f"Order is lost\n\n{' '.join(body[:-1])} {body[-1].upper()}_get")
    assert weights["order"] == 2.0
    assert sum(weights[word] for word in body) == pytest.approx(BODY_TERMS, rel=0.05)
    assert identifiers[f"{body[-1]}_get"] == weights[body[0]]


@pytest.mark.parametrize(
    "head",
    [
        "Order is lost\n",
        "### Expected behavior\n\n",
        "- [x] I searched first\n\n",
        "Steps to reproduce:\n\n",
        "Hi,\n\n",
        "Seen on https://shop.example\n\n",
        f"{'Order is lost ' * 20}\n\n",
    ],
)
def test_without_a_title_every_word_counts_in_full(head: str) -> None:
    weights, _ = weigh_task(head + " ".join(words_like_none(200)))
    assert {weights[word] for word in words_like_none(200)} == {1.0}


@pytest.mark.parametrize("between", ["\n\n", "\r\n\r\n", " \n\t\n", "\n\n\n"])
def test_any_blank_line_sets_a_title_apart(between: str) -> None:
    body = " ".join(words_like_none(200))
    assert weigh_task(f"\nOrder is lost{between}{body}\n") == weigh_task(f"Order is lost\n\n{body}")


def test_a_file_name_counts_more_than_its_folders() -> None:
    counted = path_terms("flask/app.py")
    assert counted["app"] > counted["flask"]


def test_a_rare_term_outweighs_a_common_one() -> None:
    index = LexicalIndex.build({"a": {"common": 1, "rare": 1}, "b": {"common": 1}, "c": {"common": 1}})
    scores = index.scores({"common": 1.0, "rare": 1.0}, Bm25())
    assert scores[0] > scores[1] == scores[2] > 0


def test_unknown_terms_and_empty_collections_score_nothing() -> None:
    assert LexicalIndex.build({}).scores({"a": 1.0}, Bm25()).tolist() == []
    assert LexicalIndex.build({"x": {}}).scores({"a": 1.0}, Bm25()).tolist() == [0.0]


@pytest.mark.parametrize(("k1", "b"), [(-1, 0.5), (1, -0.1), (1, 1.1), (float("nan"), 0.5)])
def test_parameters_are_checked(k1: float, b: float) -> None:
    with pytest.raises(InvalidValue):
        Bm25(k1, b)


@given(DOCUMENTS, st.dictionaries(WORDS, st.floats(0.1, 3), max_size=4))
def test_the_index_scores_as_documents_one_by_one(
    documents: dict[str, dict[str, int]], query: dict[str, float]
) -> None:
    index = LexicalIndex.build(documents)
    frequencies = Counter(term for document in documents.values() for term in document)
    lengths = [sum(document.values()) for document in documents.values()]
    mean = sum(lengths) / len(lengths) if lengths else 0.0
    bm25 = Bm25()

    def score(document: dict[str, int]) -> float:
        norm = bm25.k1 * (1 - bm25.b + bm25.b * sum(document.values()) / (mean or 1.0))
        return sum(
            weight
            * bm25.idf(len(documents), frequencies[term])
            * document[term]
            * (bm25.k1 + 1)
            / (document[term] + norm)
            for term, weight in query.items()
            if term in document
        )

    assert np.allclose(index.scores(query, bm25), [score(documents[key]) for key in sorted(documents)])


@given(DOCUMENTS, DOCUMENTS, st.sets(st.sampled_from(["a.py", "b.py", "z.py"])))
def test_an_update_equals_building_anew(
    before: dict[str, dict[str, int]], changed: dict[str, dict[str, int]], removed: set[str]
) -> None:
    updated = LexicalIndex.build(before).updated(changed, removed)
    anew = LexicalIndex.build({k: v for k, v in before.items() if k not in removed} | changed)
    query = {"user": 1.0, "graph": 0.5, "token": 2.0, "cache": 1.5}
    assert updated.keys == anew.keys
    assert updated.scores(query, Bm25()).tolist() == anew.scores(query, Bm25()).tolist()


@given(st.text())
def test_any_text_has_terms(text: str) -> None:
    assert all(count > 0 and term for term, count in terms(text).items())
