"""The text of a step: within its budget by exact count, with everything that was dropped in its ledger."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.agents.composition import Composed, compose
from contextopt.engine.agents.contexts import FIELDS, AgentContext, ContextFile, WholeText
from contextopt.engine.agents.deltas import ChangedFile
from contextopt.engine.agents.phases import DEFAULT_PROFILES, PhaseProfile
from contextopt.engine.agents.retries import Diagnosis, RetryContext
from contextopt.engine.agents.steps import (
    ALWAYS_SENT,
    CUT,
    NOT_IN_PHASE,
    RETRY,
    STANDING,
    Candidates,
    Handoff,
    HandoffPart,
    LeftOut,
    StandingDocument,
    Step,
    items_in,
)
from contextopt.engine.budget import OVER_BUDGET
from contextopt.engine.text.quoting import MARK, STRATEGY_HINT, fence
from contextopt.engine.text.tokens import RenderedCounter
from contextopt.engine.validation import InvalidValue
from contextopt.engine.values import BUDGET_TOO_SMALL
from tests.contextopt.engine.factories import TOKENIZER
from tests.contextopt.engine.strategies import clean_texts

EXACT = RenderedCounter(TOKENIZER)
CONTEXT = AgentContext(
    tree="src/\n  app.py\n  web.py\n",
    package_manifest='{"name": "shop"}\n',
    files=(ContextFile("src/app.py", "one = 1\ntwo = 2\n"), ContextFile("src/web.py", "three = 3\n")),
    memories=("Use the pool.", {"content": "Never sleep.", "id": 7, "trust_level": "external"}),
    docs=("How to deploy.\nFirst build.\n", "How to roll back.\n"),
    tools=({"name": "grep", "description": "Search files"},),
    task="Fix the login",
)
CHANGES = tuple(
    ChangedFile(f"src/{name}.py", f"@@ -1 +1 @@\n-{name} = 1\n+{name} = 2\n", "changed")
    for name in ("app", "web")
)
FAILED = RetryContext("Fix the login", "1. Read", "E  assert 1", CHANGES, Diagnosis("unknown"), 2)
STEP = Step(
    context=CONTEXT,
    standing=(StandingDocument("Style", "Two spaces.\n"), StandingDocument("Tests", "Write one first.\n")),
    retry=FAILED,
    hint=fence("Strategy: look → fix", STRATEGY_HINT, "inspiration"),
)


def compose_at(step: Step, budget: int, *fields: str, **options: Any) -> Composed:
    profile = PhaseProfile("any", budget, fields or FIELDS)
    return compose(Candidates(step, **options), profile, EXACT)


def section(composed: Composed, name: str) -> Any:
    return next(each for each in composed.sections if each.name == name)


def test_everything_that_fits_is_sent_in_a_fixed_order() -> None:
    composed = compose_at(STEP, 5_000)
    text = composed.step.render()
    assert composed.step == STEP
    assert composed.tokens == TOKENIZER.count(text)
    marks = ("## Standing", "## Package", "## Tree", "## Tools", "## Files", "## Memories", "## Docs")
    places = [text.index(mark) for mark in (*marks, "[STRATEGY HINT", "## Task", "## Latest error")]
    assert places == sorted(places)
    assert (composed.trimmed, composed.warnings) == ((), ())
    assert [each.dropped for each in composed.sections] == [0] * 9
    assert sum(each.tokens for each in composed.sections) == composed.tokens


def test_the_delta_and_the_standing_documents_are_sent_whatever_the_phase_keeps() -> None:
    composed = compose(Candidates(STEP), DEFAULT_PROFILES["completing"], EXACT)
    sent = composed.step
    assert (sent.standing, sent.retry, sent.hint) == (STEP.standing, STEP.retry, STEP.hint)
    assert sent.context == AgentContext(task="Fix the login")
    assert section(composed, "files").counts == {NOT_IN_PHASE: 2}
    assert [item.id for item in section(composed, "files").items] == ["src/app.py", "src/web.py"]
    assert not composed.warnings


def test_the_text_ends_with_the_retry() -> None:
    assert compose_at(STEP, 5_000).step.render().endswith(FAILED.render())


def test_the_smaller_budget_holds() -> None:
    composed = compose(Candidates(STEP), PhaseProfile("any", 5_000, FIELDS), EXACT, asked_tokens=200)
    assert composed.budget_tokens == 200
    assert composed.tokens <= 200
    assert compose(Candidates(STEP), PhaseProfile("any", 90, FIELDS), EXACT, asked_tokens=200).tokens <= 90


def test_a_budget_that_is_too_small_says_so_with_numbers() -> None:
    composed = compose(Candidates(STEP), PhaseProfile("any", 5_000, FIELDS), EXACT, asked_tokens=100)
    (warning,) = composed.warnings
    assert warning.code == BUDGET_TOO_SMALL
    assert "budget of 100 tokens" in warning.message
    assert f"{EXACT.count(STEP):,} tokens" in warning.message
    assert warning.remedy
    assert (warning.remedy.setting, warning.remedy.value) == ("budget", 5_000)


def test_items_dropped_before_are_not_said_to_take_tokens() -> None:
    left_out = {"docs": LeftOut(counts={OVER_BUDGET: 3})}
    composed = compose(Candidates(Step(), left_out=left_out), PhaseProfile("any", 20, FIELDS), EXACT)
    (warning,) = composed.warnings
    assert warning.message == "The budget of 20 tokens has no room for 3 of 3 docs."


def test_a_text_that_is_sent_whole_is_never_cut() -> None:
    step = Step(AgentContext(docs=(WholeText("Space\nOne record"), "Another")))
    tokens = EXACT.count(step)
    for budget in range(tokens):
        kept = compose(Candidates(step), PhaseProfile("any", budget, ("docs",)), EXACT).step.context.docs
        assert kept in ((), step.context.docs[:1])


def test_changes_are_dropped_one_by_one_and_named() -> None:
    bare = Step(retry=replace(FAILED, changed_files=CHANGES[:1]))
    composed = compose_at(Step(retry=FAILED), EXACT.count(bare))
    assert composed.step == bare
    ledger = section(composed, RETRY)
    assert [item.id for item in ledger.items] == ["attempt 2", "src/app.py", "src/web.py"]
    assert [item.kept for item in ledger.items] == [True, True, False]
    assert [warning.code for warning in composed.warnings] == [BUDGET_TOO_SMALL]


def test_remaining_room_goes_to_the_most_important_field() -> None:
    lines = "".join(f"value_{number} = {number}\n" for number in range(400))
    step = Step(AgentContext(files=(ContextFile("a.py", lines),), memories=("m\n" * 2_000,)))
    composed = compose_at(step, 1_000)
    assert 980 <= composed.tokens <= 1_000
    assert section(composed, "files").items[0].reason == CUT
    cuts = {cut.field: cut for cut in composed.trimmed}
    assert cuts["files"].dropped_items == 0
    assert 0 < cuts["files"].cut_lines < 400
    assert composed.whole_files == frozenset()


def test_items_dropped_before_are_named_last() -> None:
    left_out = {"files": LeftOut((("z.py", OVER_BUDGET),), {OVER_BUDGET: 40})}
    composed = compose_at(STEP, 5_000, left_out=left_out, names={"memories": ("memory 4", "memory 7")})
    files = section(composed, "files")
    assert (files.kept, files.dropped) == (2, 40)
    assert [item.id for item in files.items] == ["src/app.py", "src/web.py", "z.py"]
    assert [item.id for item in section(composed, "memories").items] == ["memory 4", "memory 7"]
    assert composed.trimmed == ()
    assert composed.whole_files == {"src/app.py", "src/web.py"}


def test_lines_of_items_are_found_in_the_text() -> None:
    lines = STEP.render().splitlines()
    assert [lines[place] for place in STEP.last_lines_of("docs")] == ["> First build.", "> How to roll back."]
    standing = [lines[place] for place in STEP.last_lines_of(STANDING)]
    assert standing == ["> Two spaces.", "> Write one first."]
    assert Step().last_lines_of("docs") == []


def test_foreign_text_is_marked() -> None:
    ours = ("## ", "### ", "@@ ", "[STRATEGY HINT", "[END STRATEGY", "[EXTERNAL", "[END EXTERNAL")
    for line in STEP.render().splitlines():
        assert not line or line.startswith((MARK, *ours))


items = st.lists(clean_texts.filter(str.strip), max_size=4).map(tuple)
paths = st.lists(st.sampled_from(("a.py", "b.py", "src/c.py", "d/e/f.py")), unique=True, max_size=4)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    contents = draw(st.lists(clean_texts, min_size=8, max_size=8))
    names = draw(paths)
    context = AgentContext(
        tree=contents[0],
        tree_paths=tuple(names),
        package_manifest=contents[1],
        files=tuple(map(ContextFile, names, contents[2:6])),
        memories=draw(items),
        docs=draw(items),
        tools=draw(items),
    )
    changes = tuple(
        ChangedFile(path, f"@@ -1 +1 @@\n+{text}\n", "changed")
        for path, text in zip(names, contents, strict=False)
    )
    retry = RetryContext(contents[6], contents[7], contents[0], changes, Diagnosis("unknown"), 1)
    standing = tuple(StandingDocument(f"T{place}", text) for place, text in enumerate(draw(items)))
    handed = tuple(HandoffPart(f"F-{place}", text) for place, text in enumerate(draw(items)))
    return Step(
        context,
        standing,
        draw(st.sampled_from((None, retry))),
        draw(st.sampled_from(("", STEP.hint))),
        Handoff("design", handed) if handed else None,
    )


@given(steps(), st.integers(0, 600), st.integers(0, 600), st.sets(st.sampled_from(FIELDS)))
def test_the_budget_holds_and_nothing_is_lost_without_a_line_in_the_ledger(
    step: Step, budget: int, asked: int, fields: set[str]
) -> None:
    candidates = Candidates(step)
    composed = compose(
        candidates, PhaseProfile("any", budget, tuple(sorted(fields))), EXACT, asked_tokens=asked
    )
    text = composed.step.render()
    assert composed.tokens == TOKENIZER.count(text) <= min(budget, asked)
    assert sum(each.tokens for each in composed.sections) == composed.tokens
    for ledger in composed.sections:
        sent = items_in(composed.step, ledger.name)
        wanted = items_in(step, ledger.name)
        assert (ledger.kept, ledger.dropped) == (len(sent), len(wanted) - len(sent))
        dropped = [item.id for item in ledger.items if not item.kept]
        assert dropped == candidates.ids(ledger.name)[len(sent) :]
        is_open = ledger.name in fields or ledger.name in ALWAYS_SENT
        assert set(ledger.counts) <= {OVER_BUDGET if is_open else NOT_IN_PHASE}
        cut = [a != b for a, b in zip(sent, wanted, strict=False)]
        assert ledger.name == RETRY or not any(cut[:-1])
    named = {ledger.name for ledger in composed.sections}
    assert all(name in named for name in (*FIELDS, *ALWAYS_SENT) if items_in(step, name))


@pytest.mark.parametrize("title", ["", " \n"])
def test_a_standing_document_has_a_title(title: str) -> None:
    with pytest.raises(InvalidValue, match="title"):
        StandingDocument(title, "x")
