from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.agents.contexts import FIELDS, AgentContext, ContextFile
from contextopt.engine.agents.phases import DEFAULT_PROFILES, PhaseProfile, PhaseResult, filter_phase
from contextopt.engine.text.tokens import (
    HeuristicCounter,
    RememberingTokenizer,
    RenderedCounter,
    Unmarked,
    get_counter,
)
from contextopt.engine.validation import InvalidValue
from contextopt.engine.values import OVER_BUDGET, UNKNOWN_PHASE
from tests.contextopt.engine.factories import TOKENIZER
from tests.contextopt.engine.strategies import clean_texts

EXACT = RenderedCounter(TOKENIZER)
HEURISTIC = HeuristicCounter()
PHASES = ("confidence", "planning", "building", "diagnosis", "reviewing", "completing")


def source_context() -> AgentContext:
    """Return the full context of the documented table."""
    return AgentContext(
        tree="t" * 2_000,
        tree_paths=tuple(f"src/module_{number}.py" for number in range(5)),
        package_manifest="m" * 200,
        files=tuple(ContextFile(f"src/module_{number}.py", "f" * 2_000) for number in range(5)),
        memories=tuple("y" * 500 for _ in range(10)),
        docs=tuple("d" * 1_000 for _ in range(3)),
        tools=tuple("o" * 100 for _ in range(5)),
        task="Make the login form remember the user. " * 20,
    )


def make_context(**overrides: Any) -> AgentContext:
    values: dict[str, Any] = {
        "tree": "src/\n  app.py\n  web.py\n",
        "tree_paths": ("src/app.py", "src/web.py"),
        "package_manifest": '{"name": "shop"}',
        "files": (ContextFile("src/app.py", "one = 1\ntwo = 2\n"), ContextFile("src/web.py", "three = 3\n")),
        "memories": ("Use the pool.", {"content": "Never sleep.\nWait for events.", "id": 7}),
        "docs": ("How to deploy.\nFirst build.\nThen push.\n",),
        "tools": ({"name": "grep", "description": "Search files"},),
        "task": "Fix the login",
    }
    return AgentContext(**values | overrides)


def filter_at(context: AgentContext, budget_tokens: int, *fields: str) -> PhaseResult:
    profile = PhaseProfile("any", budget_tokens, fields or FIELDS)
    return filter_phase(context, "any", {"any": profile}, EXACT)


@pytest.mark.parametrize(
    ("phase", "kept", "saved", "percent"),
    [
        ("confidence", 550, 4_625, 89),
        ("planning", 5_175, 0, 0),
        ("building", 2_550, 2_625, 51),
        ("diagnosis", 1_250, 3_925, 76),
        ("reviewing", 1_250, 3_925, 76),
        ("completing", 0, 5_175, 100),
    ],
)
def test_the_documented_table(phase: str, kept: int, saved: int, percent: int) -> None:
    result = filter_phase(source_context(), phase, DEFAULT_PROFILES, HEURISTIC)
    assert (result.full_tokens, result.filtered_tokens) == (5_175, kept)
    assert (result.saved_tokens, result.saved_percent) == (saved, percent)
    assert not result.warnings
    assert not result.trimmed


def test_the_documented_flows() -> None:
    results = {phase: filter_phase(source_context(), phase, DEFAULT_PROFILES, HEURISTIC) for phase in PHASES}
    full = sum(result.full_tokens for result in results.values())
    saved = sum(result.saved_tokens for result in results.values())
    assert (saved, full, round(100 * saved / full)) == (20_275, 31_050, 65)
    assert saved + results["building"].saved_tokens + results["diagnosis"].saved_tokens == 26_825


def test_the_default_profiles() -> None:
    budgets = {phase: profile.budget_tokens for phase, profile in DEFAULT_PROFILES.items()}
    assert budgets == dict(zip(PHASES, (3_000, 20_000, 50_000, 5_000, 12_000, 2_000), strict=True))
    assert DEFAULT_PROFILES["planning"].fields == FIELDS


def test_an_unknown_phase_gets_everything_and_a_warning() -> None:
    context = make_context()
    result = filter_phase(context, "dreaming", DEFAULT_PROFILES, EXACT)
    assert result.context is context
    assert result.budget_tokens is None
    assert result.filtered_tokens == EXACT.count(context)
    (warning,) = result.warnings
    assert (warning.code, warning.remedy) == (UNKNOWN_PHASE, None)
    assert "dreaming" in warning.message


def test_the_count_is_that_of_the_rendered_text_without_the_task() -> None:
    result = filter_phase(make_context(), "building", DEFAULT_PROFILES, EXACT)
    text = result.context.render()
    assert "### src/app.py" in text
    assert "Fix the login" not in text
    assert result.context.task == "Fix the login"
    assert result.filtered_tokens == TOKENIZER.count(text)


def test_trimming_goes_from_docs_to_the_manifest() -> None:
    context = make_context()
    emptied: list[str] = []
    for budget in range(EXACT.count(context), -1, -1):
        kept = filter_at(context, budget).context
        emptied += [name for name in FIELDS if not getattr(kept, name) and name not in emptied]
    assert emptied == ["docs", "memories", "files", "tree_paths", "tree", "tools", "package_manifest"]


def test_whole_items_go_from_the_end_and_the_last_is_cut_at_a_line() -> None:
    files = tuple(
        ContextFile(f"f{number}.py", "".join(f"x{line} = {line}\n" for line in range(30)))
        for number in range(4)
    )
    context = AgentContext(files=files)
    result = filter_at(context, EXACT.count(context) // 2)
    kept = result.context.files
    assert kept[:-1] == files[: len(kept) - 1]
    last = kept[-1]
    assert files[len(kept) - 1].content.startswith(last.content)
    assert last.content.endswith("\n")
    (cut,) = result.trimmed
    assert (cut.field, cut.dropped_items) == ("files", 4 - len(kept))
    assert cut.cut_lines == 30 - last.content.count("\n")
    (warning,) = result.warnings
    assert (warning.code, warning.remedy) == (OVER_BUDGET, None)
    assert warning.message.startswith(
        f"{EXACT.count(context) - result.budget_tokens:,} tokens over the budget of "
    )
    assert "files" in warning.message


def test_a_cut_takes_what_fits() -> None:
    lines = [f"line {number} of the tree\n" for number in range(500)]
    context = AgentContext(tree="".join(lines))
    result = filter_at(context, 700)
    kept = result.context.tree.count("\n")
    assert result.filtered_tokens <= 700 < EXACT.count(AgentContext(tree="".join(lines[: kept + 1])))


def test_an_object_is_cut_in_its_content_and_keeps_the_rest() -> None:
    memory = {"id": 1, "content": "".join(f"fact {number}\n" for number in range(100))}
    result = filter_at(AgentContext(memories=(memory,)), 120)
    (kept,) = result.context.memories
    assert isinstance(kept, dict)
    assert kept["id"] == 1
    assert memory["content"].startswith(kept["content"])
    assert 0 < len(kept["content"]) < len(memory["content"])


def test_an_object_without_content_is_sent_whole_or_not_at_all() -> None:
    tool = {"name": "grep", "description": "word " * 200}
    assert filter_at(AgentContext(tools=(tool,)), 50).context.tools == ()


items = st.one_of(
    clean_texts, st.dictionaries(st.sampled_from(["content", "title", "n"]), clean_texts, max_size=2)
)
contexts = st.builds(
    AgentContext,
    tree=clean_texts,
    tree_paths=st.lists(clean_texts, max_size=4).map(tuple),
    package_manifest=clean_texts,
    files=st.lists(clean_texts, max_size=5).map(
        lambda contents: tuple(ContextFile(f"f{number}", text) for number, text in enumerate(contents))
    ),
    memories=st.lists(items, max_size=4).map(tuple),
    docs=st.lists(items, max_size=4).map(tuple),
    tools=st.lists(items, max_size=3).map(tuple),
    task=clean_texts,
)


@given(context=contexts, budget=st.integers(0, 400), counter=st.sampled_from([EXACT, HEURISTIC]))
def test_never_over_budget(context: AgentContext, budget: int, counter: Any) -> None:
    profile = PhaseProfile("any", budget, FIELDS)
    result = filter_phase(context, "any", {"any": profile}, counter)
    assert result.filtered_tokens == counter.count(result.context) <= budget
    assert result.context.task == context.task
    again = filter_phase(result.context, "any", {"any": profile}, counter)
    assert again.context == result.context


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"tree": 1}, "tree"),
        ({"tree_paths": ("a", 2)}, "tree_paths[1]"),
        ({"files": (ContextFile("a", ""), ContextFile("a", ""))}, "files[1].path"),
        ({"memories": (1,)}, "memories[0]"),
        ({"docs": ({"n": float("nan")},)}, "docs[0]"),
        ({"task": "\ud800"}, "task"),
    ],
)
def test_what_is_wrong_is_named(values: Any, field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        AgentContext(**values)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("path", "content", "field"), [("", "", "path"), (1, "", "path"), ("a", 3, "content")]
)
def test_a_wrong_file_is_named(path: Any, content: Any, field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        ContextFile(path, content)
    assert caught.value.field == field


def test_deep_nesting_is_refused() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(InvalidValue, match="nested"):
        AgentContext(memories=(deep,))
    # Taken apart level by level: deleting it at once would recurse as deep.
    while deep:
        deep = deep.pop("a", None)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"phase": ""}, "phase"),
        ({"budget_tokens": -1}, "budget_tokens"),
        ({"fields": ("tree", "forest")}, "fields[1]"),
        ({"fields": ("tree", "tree")}, "fields"),
        ({"fields": "tree"}, "fields"),
    ],
)
def test_a_wrong_profile_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        replace(DEFAULT_PROFILES["building"], **changes)
    assert caught.value.field == field


def test_counters_by_name() -> None:
    assert get_counter("heuristic", TOKENIZER) == HEURISTIC
    assert get_counter("tokenizer", TOKENIZER) == RenderedCounter(RememberingTokenizer(TOKENIZER))
    with pytest.raises(InvalidValue):
        get_counter("guess", TOKENIZER)


def test_what_only_we_add_is_no_part_of_the_full_context() -> None:
    """Marks, fences and the note on a file's end are sent, and so they cost; they save nothing."""
    page = {"content": "> quoted by the page\nSecond line", "trust_level": "external"}
    context = make_context(docs=(page,), files=(ContextFile("a.py", "no = 'line break'"),))
    plain = Unmarked(context).render()
    assert "> quoted by the page\nSecond line\n" in plain
    assert "### a.py\nno = 'line break'\n\n" in plain
    assert "[EXTERNAL DATA" in context.render()
    assert not any(ours in plain for ours in ("EXTERNAL DATA", "No newline", "\n> src", "> > "))
    outcome = filter_phase(context, "planning", DEFAULT_PROFILES, EXACT)
    assert outcome.full_tokens == TOKENIZER.count(plain)
    assert outcome.filtered_tokens == TOKENIZER.count(context.render())
    assert outcome.saved_tokens == outcome.full_tokens - outcome.filtered_tokens < 0
    unknown = filter_phase(context, "sleeping", DEFAULT_PROFILES, EXACT)
    assert (unknown.full_tokens, unknown.filtered_tokens) == (outcome.full_tokens, outcome.filtered_tokens)


@given(st.lists(st.text(alphabet="a> \n\r\x0b\x85\u2028", max_size=30), max_size=4))
def test_every_line_of_the_full_context_is_as_given(texts: list[str]) -> None:
    context = AgentContext(memories=tuple(f"m{text}" for text in texts))
    shown = "".join(item if item.endswith("\n") else f"{item}\n" for item in context.memories)
    assert Unmarked(context).render() == (f"## Memories\n{shown}" if texts else "")
