"""Properties of a brief for any list of findings."""

import random
import re
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from contextopt.engine.briefs.claims import check_claims
from contextopt.engine.briefs.compressor import (
    EMPTY_BRIEF,
    LEFT_OUT,
    SPECULATIVE_BELOW,
    Compression,
    compress,
)
from contextopt.engine.briefs.findings import Finding, render_finding
from contextopt.engine.briefs.selection import MENTIONS
from contextopt.engine.briefs.settings import BriefSettings
from contextopt.engine.text.cleaning import flatten
from tests.contextopt.engine.factories import TOKENIZER
from tests.contextopt.engine.strategies import clean_texts

WORDS = (
    "Redis", "app/cache.py", "users_table", "may", "not", "fails", "2.4.1", "#12", "high", "the", "because",
    "it", "depends,", "on.", "Tabellen", "støtter", "ikke", "系统不支持", "لا", "يدعم", "loadAll()", "90 ms;",
)  # fmt: skip
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
texts = st.one_of(sentences, clean_texts.map(lambda text: text.replace("\0", "")))
values = st.recursive(
    st.one_of(texts, st.integers(-5, 5), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(sentences, inner, max_size=3)),
    max_leaves=5,
)
KEYS = ("description", "pattern_name", "location", "severity", "columns", "explanation", "other")
contents = st.dictionaries(st.sampled_from(KEYS), values, min_size=1, max_size=4)


@st.composite
def findings(draw: st.DrawFn) -> tuple[Finding, ...]:
    ids = [f"F-{number:03}" for number in range(1, draw(st.integers(0, 8)) + 1)]
    return tuple(draw(finding_of(name, [other for other in ids if other != name])) for name in ids)


def finding_of(name: str, others: list[str]) -> st.SearchStrategy[Finding]:
    depends_on = st.lists(st.sampled_from(others), max_size=2, unique=True) if others else st.just([])
    return st.builds(
        Finding,
        id=st.just(name),
        phase=st.just("analysis"),
        category=st.sampled_from(("risks", "constraints", "alternatives", "x")),
        content=contents,
        tags=st.sampled_from(((), (), ("critical",))),
        confidence=st.sampled_from((0.1, 0.4, 0.5, 0.95)),
        depends_on=depends_on.map(tuple),
    )


def run(found: tuple[Finding, ...], budget: int) -> Compression:
    settings = BriefSettings().with_budget("analysis", budget)
    return compress(found, phase="analysis", settings=settings, tokenizer=TOKENIZER)


def source_of(found: tuple[Finding, ...]) -> str:
    return " ".join(" ".join(_texts(finding.content) | {finding.category}) for finding in found)


def _texts(value: object) -> set[str]:
    if isinstance(value, dict):
        return {str(key) for key in value} | {text for item in value.values() for text in _texts(item)}
    if isinstance(value, list):
        return {text for item in value for text in _texts(item)}
    return {str(value), str(value).lower()}


@given(findings(), st.integers(20, 120))
def test_the_budget_is_never_exceeded_and_the_answer_is_one(found: tuple[Finding, ...], budget: int) -> None:
    result = run(found, budget)
    assert result.brief_tokens == TOKENIZER.count(result.brief) <= budget
    assert run(found, budget) == result


@given(findings(), st.integers(20, 120), st.randoms(use_true_random=False))
def test_order_does_not_matter(found: tuple[Finding, ...], budget: int, rng: random.Random) -> None:
    shuffled = list(found)
    rng.shuffle(shuffled)
    assert run(tuple(shuffled), budget) == run(found, budget)


@given(findings(), st.integers(20, 120))
def test_every_finding_is_accounted_for_once(found: tuple[Finding, ...], budget: int) -> None:
    result = run(found, budget)
    places = [*result.critical, *result.in_brief, *(each.id for each in result.discarded)]
    assert sorted(places) == sorted(finding.id for finding in found)


@given(findings(), st.integers(20, 120))
def test_no_finding_is_lost_silently(found: tuple[Finding, ...], budget: int) -> None:
    result = run(found, budget)
    warned = " ".join(warning.message for warning in result.warnings if warning.code == LEFT_OUT)
    handed = {*result.critical, *result.in_brief}
    originals = {each.id: each.reason.removeprefix("duplicate_of ") for each in result.discarded}
    for finding in found:
        if finding.confidence >= SPECULATIVE_BELOW and f"{finding.id} (" not in warned:
            assert finding.id in handed or originals[finding.id] in handed
    is_short = {*result.critical} != {finding.id for finding in found} and not result.brief
    assert is_short == (EMPTY_BRIEF in [warning.code for warning in result.warnings])


@st.composite
def decided(draw: st.DrawFn) -> tuple[Finding, ...]:
    """Findings with answers, of which none is a part of another."""
    return tuple(
        replace(finding, decision="resolved", answer=draw(answers_with(f"A{place}Z")))
        for place, finding in enumerate(draw(findings()))
    )


def answers_with(word: str) -> st.SearchStrategy[str]:
    return st.tuples(sentences, sentences).map(lambda around: f"{around[0]} {word} {around[1]}")


ENDLESS = "The cart in app/cache.py loads users_table" + ", and it loads the next row" * 60


@given(decided(), st.integers(20, 200))
@example(
    (
        Finding(
            id="F-001",
            phase="analysis",
            category="risks",
            content={"risk": ENDLESS},
            decision="resolved",
            answer="A0Z",
        ),
    ),
    100,
)
def test_a_decision_is_never_handed_on_without_its_answer(found: tuple[Finding, ...], budget: int) -> None:
    result = run(found, budget)
    for finding in found:
        text = render_finding(finding) if finding.id in result.critical else result.brief
        if finding.id in (*result.critical, *result.in_brief):
            assert finding.answer in text
    warned = " ".join(warning.message for warning in result.warnings if warning.code == LEFT_OUT)
    lost = {finding.id for finding in found} - {*result.critical, *result.in_brief}
    assert all(f"{each.id} (" in warned for each in found if each.id in lost and each.confidence >= 0.4)


@given(findings())
def test_the_critical_are_closed_over_dependencies(found: tuple[Finding, ...]) -> None:
    critical = set(run(found, 100).critical)
    needed = {other for finding in found if finding.id in critical for other in finding.depends_on}
    assert needed <= critical


@given(findings(), st.integers(20, 120))
def test_nothing_is_said_that_the_findings_lack(found: tuple[Finding, ...], budget: int) -> None:
    result = run(found, budget)
    source = flatten(source_of(found))
    brief = result.brief.replace("decision: open", "").replace(MENTIONS, "")
    assert [word for word in re.findall(r"\w+", brief) if word not in source] == []
    assert check_claims(brief, found) == ()
