"""Telling statements from names and interjections."""

import pytest

from contextopt.engine.briefs.statements import content_words, tells
from contextopt.engine.text.entities import find_entities


@pytest.mark.parametrize(
    "text",
    [
        "Fix typo in app/cart.py",
        "The cache is shared between tenants.",
        "Tabellen kjøre_plan støtter ikke soner.",
        "Our budget's twelve point five , I said .",
        "Der Cache wird von allen Mandanten geteilt",
        "系统使用 users_table 表",
    ],
)
def test_statements(text: str) -> None:
    assert tells(text, list(find_entities(text)))


@pytest.mark.parametrize(
    "text",
    [
        "Refs #12, #13",
        "Closes #12",
        "[Release notes](https://example.org/x)",
        "Yeah .",
        "I see .",
        "app/cart.py app/user.py",
        "We need to {disfmarker}",
        "twelve point five",
        "",
    ],
)
def test_texts_that_are_no_statements(text: str) -> None:
    assert not tells(text, list(find_entities(text)))


def test_numbers_alone_are_no_content() -> None:
    assert content_words("twenty eight , thirty eight") == frozenset()
    assert content_words("twenty eight euros") == {"twenty", "eight", "euros"}
