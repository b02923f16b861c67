"""Findings are parsed strictly, and errors name the place."""

import json
import math
from typing import Any

import pytest

from contextopt.engine.briefs.findings import MAX_FINDINGS, parse_findings, render_finding
from contextopt.engine.validation import InvalidValue
from tests.contextopt.engine.findings import make_finding, make_findings


def parse(*values: dict[str, Any], phase: str) -> Any:
    return parse_findings([{"category": "risks", "content": "x", **value} for value in values], phase=phase)


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"end": 1}
    for _ in range(depth):
        value = {"in": value}
    return value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("confidence", 1.2),
        ("confidence", -0.1),
        ("confidence", math.nan),
        ("confidence", True),
        ("confidence", "0.5"),
        ("content", {}),
        ("content", 3),
        ("content", {"description": "x" * 2_000_000}.copy()),
        ("content", "x" * 2_000_000),
        ("content.size", {"size": math.inf}),
        ("content.size", {"size": 2**63}),
        ("content.text", {"text": "\0"}),
        ("content.text", {"text": "\ud800"}),
        ("content.in", nested(100)),
        ("tags", "critical"),
        ("tags[0]", [""]),
        ("tags[1]", ["a", 3]),
        ("depends_on", ["F-001"]),
        ("depends_on", ["F-777"]),
        ("depends_on", "F-001"),
        ("implementation_ready", "yes"),
        ("decision", "maybe"),
        ("category", ""),
        ("category", "two\nlines"),
        ("id", " F-001"),
        ("phase", "design"),
        ("confidense", 0.5),
    ],
)
def test_what_is_refused_is_named(field: str, value: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse({field.split(".")[0].split("[")[0]: value}, phase="analysis")
    assert caught.value.field == f"findings[0].{field}"


@pytest.mark.parametrize("value", [None, {}, "findings", 3, [{}] * (MAX_FINDINGS + 1)])
def test_findings_are_a_list(value: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_findings(value, phase="analysis")
    assert caught.value.field == "findings"


@pytest.mark.parametrize("missing", ["category", "content"])
def test_what_is_missing_is_named(missing: str) -> None:
    value = {"category": "risks", "content": "x"}
    del value[missing]
    with pytest.raises(InvalidValue, match=rf"^findings\[0\]\.{missing}: is missing$"):
        parse_findings([value], phase="analysis")


def test_an_id_is_given_once() -> None:
    with pytest.raises(InvalidValue) as caught:
        parse({"id": "F-002"}, {}, phase="analysis")
    assert caught.value.field == "findings[1].id"
    assert caught.value.message == "F-002 is already the ID of findings[0]"


def test_an_absent_id_is_that_of_the_place_and_text_is_a_description() -> None:
    first, second = parse({}, {"content": "It may fail."}, phase="design")
    assert (first.id, second.id, second.phase) == ("F-001", "F-002", "design")
    assert second.content == {"description": "It may fail."}


def test_dependencies_may_be_circular() -> None:
    first, second = parse({"depends_on": ["F-002"]}, {"depends_on": ["F-001"]}, phase="design")
    assert (first.depends_on, second.depends_on) == (("F-002",), ("F-001",))


def test_what_is_written_is_read_again() -> None:
    findings = make_findings()
    written = json.loads(json.dumps([finding.to_json() for finding in findings]))
    assert parse_findings(written, phase="analysis") == findings


def test_a_finding_is_rendered_whole() -> None:
    content = {"b": 1, "a": ["æ 漢字", None, 1.50, {"quoted": 'say "x"\n'}]}
    text = render_finding(make_finding(content=content, tags=("critical",), depends_on=("F-002",)))
    heading, body = text.rstrip("\n").split("\n")
    assert heading == "F-001 [risks] confidence 0.5; tags critical; depends on F-002"
    assert body == json.dumps(content, ensure_ascii=False)
