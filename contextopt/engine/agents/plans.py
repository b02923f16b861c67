"""A plan, read from JSON and summarised as the titles of its steps."""

import re
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate

from contextopt.engine.text.cleaning import flatten, flatten_to
from contextopt.engine.text.errors import InvalidValue

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
    return _join_lines(titles)


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


def _join_lines(lines: list[str]) -> str:
    """Join as many lines as a summary has room for. The last line gives the number of lines left out."""
    ends = list(accumulate(len(line) + 1 for line in lines))
    if not ends or ends[-1] - 1 <= PLAN_SUMMARY_CHARS:
        return "\n".join(lines)
    for kept in range(bisect_right(ends, PLAN_SUMMARY_CHARS), -1, -1):
        rest = f"… {len(lines) - kept} more steps"
        if not kept or ends[kept - 1] + len(rest) <= PLAN_SUMMARY_CHARS:
            break
    return "\n".join([*lines[:kept], rest])
