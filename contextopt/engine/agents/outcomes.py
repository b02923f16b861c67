"""The outcomes of a plan's steps, read from results that agents report in their own words."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

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
