"""No sentence loses its exception, condition, negation, doubt or status.

`qualified.txt` holds the sentences, `qualified_fields.json` findings that keep them in fields of their own.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contextopt.engine.briefs.compressor import compress
from contextopt.engine.briefs.findings import Finding
from contextopt.engine.briefs.selection import Selector
from contextopt.engine.briefs.settings import BriefSettings
from contextopt.engine.briefs.slots import draft
from contextopt.engine.text.cleaning import flatten
from tests.contextopt.engine.factories import TOKENIZER
from tests.contextopt.engine.findings import make_finding

FOLDER = Path(__file__).parent
CLAIM, KEEPS = re.compile(r"\[([^\[\]]+)\]"), re.compile(r"\{([^{}]+)\}")
MIN_CASES = 300


@dataclass(frozen=True, slots=True)
class Case:
    """A finding, the claims in it, and the qualifiers without which none of the claims may be said."""

    group: str
    content: dict[str, Any]
    claims: tuple[str, ...]
    keeps: tuple[str, ...]

    def lost(self, brief: str) -> bool:
        said = any(claim in brief for claim in self.claims)
        return said and not all(keep in brief for keep in self.keeps)


def read_cases() -> Iterator[Case]:
    group = ""
    for line in (FOLDER / "qualified.txt").read_text().splitlines():
        if line.startswith("## "):
            group = line[3:]
        elif line and not line.startswith("# Sentences") and not line.startswith("# [claim]"):
            marked = line.replace("\\n", "\n")
            claims, keeps = (
                tuple(flatten(text).strip(" :;,.") for text in pattern.findall(marked))
                for pattern in (CLAIM, KEEPS)
            )
            plain = re.sub(r"[\[\]{}]", "", marked)
            yield Case(group, {"description": plain}, claims, keeps)
    for item in json.loads((FOLDER / "qualified_fields.json").read_text()):
        yield Case("fields", item["content"], (item["claim"],), (item["keeps"],))


CASES = list(read_cases())


def brief_of(findings: Sequence[Finding], budget: int) -> str:
    settings = BriefSettings().with_budget("analysis", budget)
    return flatten(compress(findings, phase="analysis", settings=settings, tokenizer=TOKENIZER).brief)


def sayings_of(content: dict[str, Any], category: str = "x") -> Iterator[str]:
    """Yield every text that may be chosen for itself, whatever the budget."""
    drafts = [draft(make_finding(category=category, content=content))]
    selector = Selector(drafts, [1.0], [category], 1_000, TOKENIZER)
    selector.prepare()
    for choice in (*selector.choices, *selector.terse):
        yield flatten(" ".join(selector.statements[0, place].text for place in choice.places))


def others(count: int) -> list[Finding]:
    text = "Module part_{0} in src/part_{0}.py calls handle_{0}() for {0} rows."
    return [
        make_finding(id=f"F-{place:03}", category="x", content={"description": text.format(place)})
        for place in range(2, count + 2)
    ]


def test_the_corpus_is_large_and_of_both_languages() -> None:
    assert len(CASES) >= MIN_CASES
    assert sum(case.group.startswith("no:") for case in CASES) >= 100
    assert all(case.claims and case.keeps for case in CASES)


@pytest.mark.parametrize("category", ["x", "risks"])
def test_no_qualifier_can_be_lost(category: str) -> None:
    lost = [
        (case.group, said) for case in CASES for said in sayings_of(case.content, category) if case.lost(said)
    ]
    assert lost == []


@pytest.mark.parametrize("key", ["risk", "statement", "details", "note", "title", "remark"])
def test_no_qualifier_can_be_lost_whatever_its_field_is_called(key: str) -> None:
    lost = [
        (case.group, said)
        for case in CASES
        if [*case.content] == ["description"]
        for said in sayings_of({key: case.content["description"]})
        if case.lost(said)
    ]
    assert lost == []


@pytest.mark.parametrize("budget", [60, 300])
def test_no_qualifier_is_lost_among_other_findings(budget: int) -> None:
    lost = [
        (case.group, brief)
        for case in CASES
        if case.lost(
            brief := brief_of([make_finding(category="x", content=case.content), *others(12)], budget)
        )
    ]
    assert lost == []


def test_no_qualifier_is_lost_if_all_compete() -> None:
    for start in range(0, len(CASES), 40):
        cases = CASES[start : start + 40]
        findings = [
            make_finding(id=f"F-{place:03}", category=f"c{place}", content=case.content)
            for place, case in enumerate(cases)
        ]
        settings = BriefSettings().with_budget("analysis", 450)
        compression = compress(findings, phase="analysis", settings=settings, tokenizer=TOKENIZER)
        lines = dict(
            line.split(":\n", 1) for line in re.split(r"\n(?=c\d+:\n)", compression.brief) if ":\n" in line
        )
        lost = [
            (case.group, said)
            for place, case in enumerate(cases)
            if (said := flatten(lines.get(f"c{place}", ""))) and case.lost(said)
        ]
        assert lost == []
        assert len(compression.in_brief) >= 10


def test_nearly_all_statements_are_said_if_there_is_room() -> None:
    """Nothing is lost by saying nothing."""
    unsaid = [
        case.group
        for case in CASES
        if not all(claim in brief_of([make_finding(content=case.content)], 450) for claim in case.claims)
    ]
    assert len(unsaid) <= 0.02 * len(CASES)
