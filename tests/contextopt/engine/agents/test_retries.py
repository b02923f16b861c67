from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.agents.patches import apply_change
from contextopt.engine.agents.contexts import AgentContext, ContextFile
from contextopt.engine.agents.deltas import ChangedFile, SentFile, fully_sent
from contextopt.engine.agents.plans import PLAN_SUMMARY_CHARS, read_plan, summarise_plan
from contextopt.engine.agents.retries import (
    Diagnosis,
    FailedAttempt,
    FullRetry,
    RetryContext,
    RetryLimits,
    RetryPlan,
    plan_retry,
)
from contextopt.engine.text.tokens import HeuristicCounter, RenderedCounter, Unmarked
from contextopt.engine.validation import InvalidValue
from tests.contextopt.engine.factories import TOKENIZER
from tests.contextopt.engine.strategies import clean_texts
from tests.speed import within

EXACT = RenderedCounter(TOKENIZER)
HEURISTIC = HeuristicCounter()
BEFORE = {
    "cart.py": "".join(f"price_{number} = {number}\n" for number in range(80)),
    "web.py": "import cart\n" * 40,
}
AFTER = BEFORE | {"cart.py": BEFORE["cart.py"].replace("price_7 = 7\n", "price_7 = 8\n")}
ERROR = "E   AssertionError: assert 7 == 8"


def make_diagnosis(root_cause: str = "implementation_error") -> Diagnosis:
    return Diagnosis(root_cause, "The price is off by one.", "Count from zero")


def make_attempt(root_cause: str = "implementation_error", **overrides: Any) -> FailedAttempt:
    values: dict[str, Any] = {
        "task": "Fix the cart",
        "plan": ("Read cart.py", "Fix the price", "Run the tests"),
        "error": ERROR,
        "diagnosis": make_diagnosis(root_cause),
        "attempt_number": 2,
    }
    return FailedAttempt(**values | overrides)


def plan(attempt: FailedAttempt, current: dict[str, str] = AFTER, counter: Any = EXACT) -> RetryPlan:
    return plan_retry(attempt, fully_sent(BEFORE), current, counter)


def retry_context(files: int) -> RetryContext:
    """Return the delta of the documented example. The diagnosis has 200 characters in all."""
    changed = tuple(ChangedFile(f"f{number}.py", "d" * 500, "changed") for number in range(files))
    diagnosis = Diagnosis("c" * 20, "r" * 100, "s" * 80)
    return RetryContext("t" * 200, "p" * 500, "e" * 1_000, changed, diagnosis, 1)


def test_the_documented_example() -> None:
    context = AgentContext(
        tree="t" * 2_000,
        files=tuple(ContextFile(f"f{number}.py", "f" * 2_000) for number in range(5)),
        memories=tuple("m" * 500 for _ in range(10)),
        docs=tuple("d" * 1_000 for _ in range(3)),
    )
    full = HEURISTIC.count(FullRetry(context, "p" * 500, "e" * 1_000))
    delta = HEURISTIC.count(retry_context(2))
    assert (full, delta, full - delta) == (5_375, 725, 4_650)
    assert 2 * (full - delta) == 9_300
    assert HEURISTIC.count(retry_context(5)) == 1_100
    for files, tokens, percent in ((2, 725, 86.5), (5, 1_100, 79.5)):
        counted = replace(retry_context(files), estimated_tokens=HEURISTIC.count(retry_context(files)))
        outcome = RetryPlan("retry", "", counted, full, {})
        assert (outcome.delta_tokens, outcome.saved_percent) == (tokens, percent)


@pytest.mark.parametrize("root_cause", ["implementation_error", "cosmic_rays"])
def test_an_implementation_error_and_the_unknown_get_the_delta_alone(root_cause: str) -> None:
    outcome = plan(make_attempt(root_cause))
    assert outcome.action == "retry"
    assert outcome.everything is None
    assert outcome.context.plan_summary == "Read cart.py\nFix the price\nRun the tests"
    assert outcome.context.latest_error == ERROR
    (changed,) = outcome.context.changed_files
    assert changed.diff == "@@ -7,3 +7,3 @@\n price_6 = 6\n-price_7 = 7\n+price_7 = 8\n price_8 = 8\n"
    assert outcome.task == (
        f"Fix the cart\n\n[RETRY 2] Diagnosis: {root_cause} — The price is off by one. "
        "Suggestion: Count from zero"
    )
    assert outcome.delta_tokens == TOKENIZER.count(outcome.context.render()) < outcome.full_context_tokens
    assert outcome.receiver_files == fully_sent(AFTER)


def test_a_bad_plan_goes_back_to_the_planner() -> None:
    outcome = plan(make_attempt("bad_plan", plan="First.\n\nThen, at length, all else."))
    assert outcome.action == "replan"
    context = outcome.context
    assert (context.task_summary, context.plan_summary) == (
        "Fix the cart",
        "First.\n\nThen, at length, all else.",
    )
    assert (context.latest_error, context.changed_files) == ("", ())
    assert context.diagnosis == make_diagnosis("bad_plan")
    assert outcome.receiver_files == fully_sent(BEFORE)


@pytest.mark.parametrize("counter", [EXACT, HEURISTIC])
def test_a_replan_is_compared_with_a_full_replan(counter: Any) -> None:
    """A planner would otherwise get task, plan and diagnosis in full, but neither error nor files."""
    attempt = make_attempt("bad_plan", task="Fix the cart. " * 40)
    outcome = plan(attempt, counter=counter)
    full = Unmarked(attempt.in_full("replan", AgentContext()))
    for part in (attempt.task, attempt.plan_text, str(attempt.diagnosis)):
        assert part in full.render()
    assert "price_7" not in full.render()
    assert ERROR not in full.render()
    assert outcome.full_context_tokens == counter.count(full)
    assert 0 < outcome.saved_tokens == outcome.full_context_tokens - outcome.delta_tokens
    many = {f"f{number}.py": "x = 1\n" * 500 for number in range(9)}
    assert plan(attempt, current=many, counter=counter).saved_tokens == outcome.saved_tokens
    longer = replace(attempt, error="Traceback\n" * 5_000)
    assert plan(longer, counter=counter).saved_tokens == outcome.saved_tokens


def test_a_replan_that_sends_everything_saves_only_the_rest_of_the_task() -> None:
    attempt = make_attempt("bad_plan", task="x" * 200, plan="Look", error="E\n" * 90_000)
    outcome = plan(attempt, counter=HEURISTIC)
    assert outcome.saved_tokens == 0


def test_marks_are_no_part_of_the_full_context() -> None:
    """A log of nothing but line breaks has a mark for each, which only we would send."""
    log = "\n" * 320_000
    attempt = make_attempt(error=log, context=AgentContext())
    outcome = plan(attempt)
    plan_text = attempt.plan_text
    unmarked = TOKENIZER.count(f"## Plan\n{plan_text}\n\n## Latest error\n{log}")
    assert outcome.full_context_tokens == unmarked < 20_000
    assert outcome.saved_tokens == unmarked - TOKENIZER.count(outcome.context.render())


def test_missing_context_gets_everything_again() -> None:
    outcome = plan(make_attempt("missing_context"))
    assert outcome.action == "refetch"
    assert outcome.everything is not None
    assert outcome.everything.context.files == tuple(ContextFile(path, AFTER[path]) for path in sorted(AFTER))
    assert outcome.delta_tokens == TOKENIZER.count(outcome.everything.render())
    # All of it is sent again, with marks that nobody else would add.
    assert outcome.full_context_tokens == TOKENIZER.count(Unmarked(outcome.everything).render())
    assert outcome.saved_tokens < 0
    assert plan(make_attempt("missing_context"), counter=HEURISTIC).saved_tokens == 0
    assert outcome.receiver_files == fully_sent(AFTER)


def test_an_impossible_task_stops() -> None:
    outcome = plan(make_attempt("impossible_task"))
    assert outcome.action == "stop"
    assert (outcome.full_context_tokens, outcome.delta_tokens) == (0, 0)
    assert (outcome.saved_tokens, outcome.saved_percent) == (None, None)


def test_an_environment_error_waits_and_sends_nothing_new() -> None:
    outcome = plan(make_attempt("environment_error"))
    assert (outcome.action, outcome.wait_seconds) == ("wait", 30)
    assert (outcome.saved_tokens, outcome.saved_percent) == (None, None)
    assert outcome.delta_tokens == 0
    assert outcome.context.changed_files == ()
    assert outcome.receiver_files == fully_sent(BEFORE)


def test_everything_is_sent_if_the_delta_would_be_larger() -> None:
    attempt = make_attempt(plan="", error="no", diagnosis=Diagnosis("unknown", "r" * 900))
    outcome = plan_retry(attempt, {"a": SentFile("1\n")}, {"a": "2\n"}, EXACT)
    assert outcome.action == "retry"
    assert outcome.everything is not None
    assert outcome.delta_tokens == TOKENIZER.count(outcome.everything.render())


def test_the_full_context_is_what_the_caller_would_have_sent() -> None:
    context = AgentContext(tree="src/\n" * 300, files=(ContextFile("cart.py", AFTER["cart.py"]),))
    outcome = plan(make_attempt(context=context))
    plan_text = "Read cart.py\nFix the price\nRun the tests"
    assert outcome.full_context_tokens == EXACT.count(Unmarked(FullRetry(context, plan_text, ERROR)))


def test_a_receiver_that_never_saw_a_file_gets_it_as_new() -> None:
    outcome = plan_retry(make_attempt(), {}, AFTER, EXACT)
    assert {changed.kind for changed in outcome.context.changed_files} == {"new"}


@given(
    before=st.dictionaries(st.sampled_from("abc"), clean_texts, max_size=3),
    after=st.dictionaries(st.sampled_from("abc"), clean_texts, max_size=3),
    task=clean_texts,
    error=clean_texts,
    root_cause=st.sampled_from(
        ["bad_plan", "implementation_error", "missing_context", "environment_error", "other"]
    ),
    counter=st.sampled_from([EXACT, HEURISTIC]),
)
def test_limits_hold_and_no_retry_costs_more_than_everything(
    before: dict[str, str], after: dict[str, str], task: str, error: str, root_cause: str, counter: Any
) -> None:
    attempt = make_attempt(root_cause, task=task, error=error)
    outcome = plan_retry(attempt, fully_sent(before), after, counter)
    assert len(outcome.context.task_summary) <= 200
    assert len(outcome.context.latest_error) <= 1_000
    # A summary cut inside a word may cost a token more than the whole word.
    if outcome.is_sent and outcome.action != "replan":
        files = tuple(ContextFile(path, after[path]) for path in sorted(after))
        everything = FullRetry(AgentContext(files=files), attempt.plan_text, error)
        assert outcome.delta_tokens <= max(counter.count(everything), outcome.full_context_tokens)
    if outcome.everything is None and outcome.delta_tokens:
        assert outcome.delta_tokens == counter.count(outcome.context)


@pytest.mark.parametrize(
    ("given_plan", "titles"),
    [
        (
            "1. Read the code. It is long.\n   - cart.py\n2) **Fix it**: now\n3. Test",
            ["Read the code", "Fix it", "Test"],
        ),
        ("Do this:\n- [ ] one\n  - inner\n- two\n", ["one", "two"]),
        ("# Find\ntext\n# Mend\ntext", ["Find", "Mend"]),
        ("Step 1: look\nStep 2: leap", ["look", "leap"]),
        ("just a sentence\nor two", ["just a sentence or two"]),
        (("A step\nwith its text", "B" * 200), ["A step", "B" * 79 + "…"]),
        ("", []),
    ],
)
def test_the_plan_becomes_short_titles(given_plan: str | tuple[str, ...], titles: list[str]) -> None:
    assert summarise_plan(given_plan).split("\n") == (titles or [""])


def test_a_long_plan_says_how_many_steps_are_missing() -> None:
    summary = summarise_plan(tuple(f"Step {number} does a thing of some length" for number in range(100)))
    assert len(summary) <= 500
    assert summary.endswith(f"… {101 - len(summary.split(chr(10)))} more steps")


def test_a_plan_of_many_steps_is_quick() -> None:
    # A third of a second on a slow machine; joining again for every omitted step took four.
    with within(1.5):
        summary = summarise_plan("- a\n" * 25_000)
    assert summary.endswith("\na\n… 24759 more steps")


@given(titles=st.lists(st.text("ab", min_size=1, max_size=30), min_size=1, max_size=60))
def test_as_many_titles_as_fit_are_kept(titles: list[str]) -> None:
    joins = [
        "\n".join([*titles[:kept], f"… {len(titles) - kept} more steps"] if kept < len(titles) else titles)
        for kept in range(len(titles), -1, -1)
    ]
    assert summarise_plan(tuple(titles)) == next(join for join in joins if len(join) <= PLAN_SUMMARY_CHARS)


def test_plans_are_read_strictly() -> None:
    assert read_plan(None) == ""
    assert read_plan([{"title": "A", "detail": "b", "n": 1}, "B"]) == ("A\nb", "B")
    for value, field in ((1, "plan"), ([1], "plan[0]"), (["a", {"name": "b"}], "plan[1].title")):
        with pytest.raises(InvalidValue) as caught:
            read_plan(value)
        assert caught.value.field == field


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"root_cause": ""}, "root_cause"),
        ({"root_cause": 1}, "root_cause"),
        ({"root_cause": "a", "reason": "x" * 1_001}, "reason"),
    ],
)
def test_a_wrong_diagnosis_is_named(values: Any, field: str) -> None:
    assert Diagnosis(**make_diagnosis().to_json()) == make_diagnosis()
    with pytest.raises(InvalidValue) as caught:
        Diagnosis(**values)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"attempt_number": 0}, "attempt_number"),
        ({"plan": ["a"]}, "plan"),
        ({"plan": ("a", 1)}, "plan[1]"),
        ({"task": 1}, "task"),
    ],
)
def test_a_wrong_attempt_is_named(overrides: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        make_attempt(**overrides)
    assert caught.value.field == field


@pytest.mark.parametrize("tokens", [50, 450, 900])
def test_the_error_has_its_own_limit(tokens: int) -> None:
    attempt = make_attempt(error="\n".join(f"a{n}.py:{n}: error: bad {n}" for n in range(900)))
    limits = RetryLimits(error_tokens=tokens)
    exact = plan_retry(attempt, {}, {}, EXACT, limits=limits).context.latest_error
    assert 0.7 * tokens < EXACT.count_text(exact) <= tokens
    chars = tokens * 1_000 // 450
    heuristic = plan_retry(attempt, {}, {}, HEURISTIC, limits=limits).context.latest_error
    assert 0.6 * chars < len(heuristic) <= chars


@given(before=clean_texts, after=clean_texts)
def test_an_uncut_plan_applies(before: str, after: str) -> None:
    context = AgentContext(tree="src/\n" * 5_000)
    outcome = plan_retry(
        make_attempt(context=context), fully_sent({"a": before}), {"a": after}, EXACT,
        limits=RetryLimits(None, None),
    )  # fmt: skip
    for change in outcome.context.changed_files:
        if "\0" in before + after:
            assert not change.is_truncated
            continue
        assert apply_change(change, before) == after
    assert outcome.context.changed_files or before == after or outcome.everything


def test_a_wrong_limit_is_named() -> None:
    for tokens in (49, 20_001):
        with pytest.raises(InvalidValue) as caught:
            RetryLimits(error_tokens=tokens)
        assert caught.value.field == "error_tokens"


def test_as_json() -> None:
    values = plan(make_attempt()).context.to_json()
    assert values["changed_files"][0]["path"] == "cart.py"
    assert values["diagnosis"]["root_cause"] == "implementation_error"
    assert values["attempt_number"] == 2
    moved = plan_retry(
        make_attempt(), fully_sent({"a.py": BEFORE["cart.py"]}), {"b.py": BEFORE["cart.py"]}, EXACT
    )
    assert moved.context.to_json()["changed_files"][0]["renamed_from"] == "a.py"
