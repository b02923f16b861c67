"""Validation of a finding's input."""

from typing import Any

import pytest
from pydantic import ValidationError

from contextopt.agents.handoffs.inputs import FindingIn


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"confidence": 1.2}, "confidence"),
        ({"confidence": -0.1}, "confidence"),
        ({"confidence": float("nan")}, "confidence"),
        ({"content": {}}, "content"),
        ({"content": {"x": " ", "y": [None, {"z": ""}]}}, "content"),
        ({"content": {"x": "y" * 2_000_000}}, "content"),
        ({"content": {"x": float("nan")}}, "content"),
        ({"content": {"x": 2**70}}, "content"),
        ({"content": {"x": "\x00"}}, "content"),
        ({"content": {"x": "\ud800"}}, "content"),
        ({"category": " "}, "category"),
        ({"category": "a\nb"}, "category"),
        ({"category": "c" * 65}, "category"),
        ({"tags": ["a\nb"]}, "tags"),
        ({"tags": ["t" * 65]}, "tags"),
        ({"tags": ["t"] * 51}, "tags"),
        ({"depends_on": ["7"]}, "depends_on"),
        ({"depends_on": ["F-99999999999"]}, "depends_on"),
        ({"decision": "maybe"}, "decision"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_bad_input_names_its_field(overrides: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        FindingIn(**{"category": "risks", "content": {"x": "y"}, **overrides})
    assert {error["loc"][0] for error in refused.value.errors()} == {field}


def test_a_number_or_a_boolean_says_something() -> None:
    for value in (0, False, [{"n": 1.5}]):
        assert FindingIn(category="risks", content={"x": value}).content == {"x": value}


def test_content_that_is_too_deep_is_refused() -> None:
    content: dict[str, Any] = {}
    for _ in range(30):
        content = {"x": content}
    with pytest.raises(ValidationError, match="nested"):
        FindingIn(category="risks", content=content)
