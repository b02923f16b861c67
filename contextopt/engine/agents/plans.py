"""A plan, read from JSON and summarised as the titles of its steps, and the outcomes of the steps."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from contextopt.engine.text.cleaning import flatten, flatten_to
from contextopt.engine.validation import InvalidValue

PLAN_SUMMARY_CHARS = 500
STEP_TITLE_CHARS = 80

# The kinds of step markers that a plan's text can have. The first kind found marks its steps.
_STEPS = (
    re.compile(r"([ \t]*)(?:\*\*)?(?:step\s+)?\(?\d{1,3}[.):]\s+(?=\S)", re.IGNORECASE),
    re.compile(r"([ \t]*)[-*+•]\s+(?:\[[ xX]\]\s+)?(?=\S)"),
    re.compile(r"()#{1,6}\s+(?=\S)"),
)
_TITLE_END = re.compile(r"(?<=\w)(?:[.;] |: | [-–—] )")


def summarise_plan(plan: str | tuple[str, ...]) -> str:
    """Return the plan's steps as short titles, one per line.

    The steps of a text are the items of its outermost list. A text without a list is shortened.
    """
    steps = list(plan) if isinstance(plan, tuple) else _find_steps(plan)
    if not steps:
        return flatten_to(plan, PLAN_SUMMARY_CHARS) if isinstance(plan, str) else ""
    titles = [title for step in steps if (title := _title(step))]
    ends = list(accumulate(len(line) + 1 for line in titles))
    if not ends or ends[-1] - 1 <= PLAN_SUMMARY_CHARS:
        return "\n".join(titles)
    for kept in range(bisect_right(ends, PLAN_SUMMARY_CHARS), -1, -1):
        rest = f"… {len(titles) - kept} more steps"
        if not kept or ends[kept - 1] + len(rest) <= PLAN_SUMMARY_CHARS:
            break
    return "\n".join([*titles[:kept], rest])


def read_plan(value: object) -> str | tuple[str, ...]:
    """Read a plan from JSON: a text, or a list of steps, each a text or an object with a title.

    Raises:
        InvalidValue: names the invalid step.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if not isinstance(value, list):
        raise InvalidValue("plan", "must be text or a list of steps")
    return tuple(_read_step(f"plan[{position}]", step) for position, step in enumerate(value))


def _read_step(name: str, step: object) -> str:
    if isinstance(step, str):
        return step
    if not isinstance(step, Mapping):
        raise InvalidValue(name, "must be text or an object with a title")
    if not isinstance(step.get("title"), str):
        raise InvalidValue(f"{name}.title", "must be text")
    rest = [value for key, value in step.items() if key != "title" and isinstance(value, str)]
    return "\n".join([step["title"], *rest])


def _find_steps(plan: str) -> list[str]:
    """Return the items of the outermost list of the text, without their markers."""
    lines = plan.split("\n")
    for kind in _STEPS:
        found = [(match, line) for line in lines if (match := kind.match(line))]
        if found:
            outermost = min(len(match[1].expandtabs(4)) for match, _ in found)
            return [line[match.end() :] for match, line in found if len(match[1].expandtabs(4)) == outermost]
    return []


def _title(step: str) -> str:
    """Return the first clause of the step's first line."""
    first = flatten(step.strip().partition("\n")[0]).replace("**", "")
    end = _TITLE_END.search(first)
    return flatten_to((first[: end.start()] if end else first).rstrip(".:"), STEP_TITLE_CHARS)


# A status is the whole result, or something follows that ends it. "Failover configured", "Error handling
# added" and "Rejected invalid input" report no failure.
_STATUS = (
    r"(?:fail(?:s|ed|ure)?|error|exception|abort(?:ed)?|reject(?:ed)?|crash(?:ed)?|time(?:d )?-?out|"
    r"unsuccessful|(?:not|no) (?:ok|success|successful)|"
    r"feil(?:et|er)?|mislyk(?:ket|kes|tes)|avbrutt|avvist|ikke (?:ok|vellykket))"
)
_APART = r"(?=\W*$|\s*[:;,!(–—]|\.\s|\s-\s)"
_CAUSE = (
    r"(?=\s(?:to|at|with|on|in|by|because|due|after|when|while|during|again|"
    r"å|i|på|med|ved|av|fordi|etter|under|igjen)\b)"
)
_DENIAL = (
    r"(?:(?:it|this|that|(?:the )?(?:tests?|build|command|script)|det|dette|testene|bygget) )?"
    r"(?:(?:did|could|can)(?: not|n['’]t) (?!fail|break|crash|need|have to|change|touch|find any)|cannot |"
    r"do(?:es)?(?: not|n['’]t) (?:work|build|compile|run|start|load|pass|finish)\b|(?:was |were )?unable to |"
    r"(?:(?:is |was )?not|(?:isn|wasn)['’]t) (?:done|finished|completed?|working|possible|solved|fixed)\b|"
    r"(?:kunne|kan) ikke |(?:er |ble )?ikke (?:ferdig|gjort|fullført|mulig|løst|rettet)\b|"
    r"(?:virk|funger|gikk|går|klar|lyk|fikk|får|bestod|består)\w* ikke\b)"
)
_UNREPAIRED = r"(?!.*(?<!be )(?<!not )(?<!ikke )\b(?:fixed|solved|resolved|handled|rettet|fikset|løst)\b)"
_BEGINS = re.compile(
    rf"\W*[❌✗✘✖]|\W*(?:{_STATUS}{_APART}|(?:{_STATUS}{_CAUSE}|{_DENIAL}){_UNREPAIRED})",
    re.IGNORECASE | re.DOTALL,
)

# "Tests failed" and "40 passed, 2 failed", but not "No tests failed" or "Retries what failed".
_ENDS = re.compile(
    r"(?:^|[.,;!?\n][ \t]*)"
    r"(?:(?!(?:0|no|none|nothing|not|never|as|that|what|when|where|which|whose|if|why|ingen|ikke|aldri|som|hvis|når)\b"
    r"|\w+n['’]t\b)[^\s.,;!?]+[ \t]+)+"
    r"(?:failed|crashed|timed out|still fails?|feilet|krasjet|feiler fortsatt)\W*$",
    re.IGNORECASE,
)
_SUCCEEDED = re.compile(r"\W*(?:ok(?:ay)?|success\w*|succeeded|pass(?:ed)?|done|completed?)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The outcome of one step of a plan."""

    step_index: int
    result: str
    error: str = ""

    @property
    def has_failed(self) -> bool:
        """Return whether the result reports a failure, or there is an error and no reported success."""
        if _BEGINS.match(self.result) or _ENDS.search(self.result):
            return True
        return bool(self.error.strip()) and not _SUCCEEDED.match(self.result)


def extract_successful_steps(attempt_history: Iterable[StepOutcome], plan_summary: str) -> tuple[str, ...]:
    """Return the plan's non-empty lines, except those whose index (from 0) failed."""
    failed = {outcome.step_index for outcome in attempt_history if outcome.has_failed}
    steps = [stripped for line in plan_summary.splitlines() if (stripped := line.strip())]
    return tuple(step for index, step in enumerate(steps) if index not in failed)


def count_tries(outcomes: Iterable[StepOutcome]) -> dict[int, int]:
    """Return the number of tries per step. Each failure is one try; all successes together are one."""
    failures: Counter[int] = Counter()
    succeeded: set[int] = set()
    for outcome in outcomes:
        if outcome.has_failed:
            failures[outcome.step_index] += 1
        else:
            succeeded.add(outcome.step_index)
    return {step: failures[step] + (step in succeeded) for step in failures.keys() | succeeded}
