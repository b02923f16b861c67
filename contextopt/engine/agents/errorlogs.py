"""The part of a log that explains its failure, in few characters or tokens.

It holds the lines around the first error, the summary, the exit, further errors of other kinds, and the end
of the log, in the order of the log with gaps marked. The start is never included for its own sake.
"""

import heapq
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, groupby, islice

from contextopt.engine.agents.logmarkers import Marker, classify, find_candidates
from contextopt.engine.agents.logwindows import find_surroundings
from contextopt.engine.text.tokens import Tokenizer
from contextopt.engine.validation import MAX_INT, check_int, check_text


def rank_with_repeats(
    values: Mapping[int, float], kind_of: Callable[[int], str], share: float, spared: float
) -> Iterator[int]:
    """Yield the keys, the highest value first, and the lower key first among equals.

    Each yielded key multiplies the values of the others of its kind by `share`. Values of at least `spared`
    are not reduced.
    """
    return _Ranking(values, kind_of, share, spared).ordered()


class _Ranking:
    """Keys of one kind and value are reduced together, so that many of one kind take no longer than few."""

    def __init__(
        self, values: Mapping[int, float], kind_of: Callable[[int], str], share: float, spared: float
    ) -> None:
        self.share = share
        self.spared = spared
        self.seen: Counter[str] = Counter()
        # Heaps of keys by kind, negative value, and number of earlier keys of the kind.
        self.waiting: dict[tuple[str, float, int], list[int]] = {}
        for key, value in sorted(values.items()):
            self.waiting.setdefault((kind_of(key), -value, 0), []).append(key)
        self.heap = [(worth, keys[0], counted, kind) for (kind, worth, counted), keys in self.waiting.items()]
        heapq.heapify(self.heap)

    def ordered(self) -> Iterator[int]:
        while self.heap:
            worth, key, counted, kind = heapq.heappop(self.heap)
            keys = self.waiting.get((kind, worth, counted))
            if not keys or keys[0] != key:
                continue  # Their value has dropped since, or a lower key has joined them and was yielded.
            times = self.seen[kind]
            if counted < times and -self.spared < worth < 0:
                self._fall(kind, worth, counted)
                continue
            self.seen[kind] = times + 1
            yield key
            heapq.heappop(keys)
            if keys:
                heapq.heappush(self.heap, (worth, keys[0], counted, kind))

    def _fall(self, kind: str, worth: float, counted: int) -> None:
        """Reduce keys to their current value. Keys behind one that goes first at this value wait."""
        keys = self.waiting.pop((kind, worth, counted))
        times = self.seen[kind]
        if due := self.waiting.get((kind, worth, times)):
            self._put(sorted(key for key in keys if key > due[0]), kind, worth, counted)
            keys = sorted(key for key in keys if key < due[0])
        self._put(keys, kind, worth * self.share ** (times - counted), times)

    def _put(self, keys: list[int], kind: str, worth: float, counted: int) -> None:
        """Add keys to those of this kind and value. The first key given must be the lowest."""
        if not keys:
            return
        waiting = self.waiting.setdefault((kind, worth, counted), keys)
        if waiting is not keys:
            for key in keys:
                heapq.heappush(waiting, key)
        if waiting[0] == keys[0]:
            heapq.heappush(self.heap, (worth, waiting[0], counted, kind))


ERROR_CHARS = 1_000
MIN_CHARS = 100
ERROR_TOKENS = 450
MIN_TOKENS = 50
MAX_ERROR_TOKENS = 20_000
"""A larger excerpt would be as long as most logs, and choosing its lines would take seconds."""
GAP = "…"
_CLASSIFIED_CHARS = 2_000

_ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|\^\[\[[0-9;]*[A-Za-z]"
)
_TIME = re.compile(
    r"""(?:^|(?<=\r))\ufeff?(?:
        \[?\d{4}-\d\d-\d\d[T\ ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?
      | \[\d\d:\d\d:\d\d(?:[.,]\d+)?\]
    )[ \t]?""",
    re.MULTILINE | re.VERBOSE,
)
# If no quotation or path starts one character earlier, the rest of the word has none either.
_VARIABLE = re.compile(
    r"""(?:["'`]|(?<![“‘])[“‘])[^"'`”’]*+["'`”’] | (?<![^\s"'`”’])(?<![”’]["'`”’])[^\s/\\]*+[/\\]\S*+
      | 0x[0-9a-fA-F]+ | \d+ | [=_.*~-]{3,}""",
    re.VERBOSE,
)
_COMMAND = re.compile(r"^(?:\[command\]|\$ \S|\+ \S|> \S[^\s@]*+@\S++ \w)")
_RUN = re.compile(r"^##\[group\]Run ")
_JOB = re.compile(r"^Complete job name: \S")
_FINAL = re.compile(
    r"^##\[error\]|^ERROR: (?:Job failed|script returned exit code)|^The command .* exited with [1-9]"
    r"|^Exited with code exit status [1-9]"
)
_EXITED = re.compile(r"^##\[error\].*\b(?:exit(?:ed)?|returned) (?:with )?(?:code|status)\b")

_VALUES = {
    Marker.ERROR: 10.0,
    Marker.SUMMARY: 9.0,
    Marker.EXIT: 4.0,
    Marker.TROUBLE: 7.0,
    Marker.DETAIL: 4.0,
    Marker.MENTION: 1.0,
}
_PLAINEST = (Marker.ERROR, Marker.TROUBLE, Marker.SUMMARY, Marker.EXIT, Marker.DETAIL, Marker.MENTION)
_FAILURES = (Marker.ERROR, Marker.TROUBLE)
"""Kept even if a carriage return overwrites them, as a progress bar does after an error."""
_REPEATED = 0.45
"""Value of each further line of one kind, relative to the one before."""
_OUTSIDE = 0.25
"""Value of a line outside the failed step."""
_STEP_END, _LOG_END = 6.0, 2.0
"""Value of the last line. In a failed step it is near the cause; otherwise it is often clean-up."""
_NEAR_LINES, _FALL, _FAR = 20, 0.06, 0.5
"""Lines from the end after which a failure counts less, its loss for each doubling, and the least factor."""
_SPREAD = 20
"""Number of failures at each end of a list whose surroundings count."""
_LIKE = 12
"""Failures whose kinds share this many first characters form one list. All of it counts as near to the end as
its last failure.
"""
_MUST = 1_000.0
_CHARS_PER_END_LINE = 40
_MIN_END_LINES = 30
_MIN_PRICED = 600


def latest_error(text: str, max_chars: int = ERROR_CHARS) -> str:
    """Return the lines that explain the failure, in at most `max_chars` characters."""
    check_int("max_chars", max_chars, MIN_CHARS, MAX_INT)
    return _cut_log(text, max_chars, len, max_chars)


def latest_error_within(text: str, budget_tokens: int, tokenizer: Tokenizer) -> str:
    """Return the lines that explain the failure, in at most `budget_tokens` tokens of the exact text."""
    check_int("budget_tokens", budget_tokens, MIN_TOKENS, MAX_INT)
    return _cut_log(text, budget_tokens, tokenizer.count, budget_tokens * 4)


def _cut_log(text: str, budget: int, cost: Callable[[str], int], chars: int) -> str:
    check_text("text", text)
    log = clean_log(text)
    runs = ((line, sum(1 for _ in run)) for line, run in groupby(log.split("\n")))
    whole = "\n".join(_write_run(line, count) for line, count in runs).strip("\n")
    if len(whole) <= chars * 2 and cost(whole) <= budget:
        return whole
    lines = _Lines(log, max(_MIN_END_LINES, chars // _CHARS_PER_END_LINE))
    line_chars = chars // 4
    order = list(islice(lines.by_value(), max(_MIN_PRICED, chars // 10)))
    chosen: dict[int, str] = {}
    used = 0
    for index in order:
        shown = _shorten(lines.texts[index], line_chars)
        price = cost(shown + "\n") + (0 if {index - 1, index + 1} & chosen.keys() else cost(GAP + "\n"))
        if used + price <= budget:
            chosen[index] = shown
            used += price
    picked = [index for index in order if index in chosen]
    while True:
        numbered = lines.with_blanks({index: chosen[index] for index in picked})
        out = "\n".join(_collapse(numbered))
        if cost(out) <= budget or not picked:
            return out
        picked.pop()


def clean_log(text: str) -> str:
    """Remove colours, time stamps, and text that a carriage return overwrites unless it reports a failure."""
    log = _TIME.sub("", _ANSI.sub("", text).replace("\r\n", "\n"))
    return "\n".join(_visible_lines(log)) if "\r" in log else log


def _visible_lines(log: str) -> Iterator[str]:
    unfolded = log.replace("\r", "\n")
    parts = unfolded.split("\n")
    markers = _mark_lines(unfolded, parts)
    failures = {parts[index] for index, marker in markers.items() if marker in _FAILURES}
    for line in log.split("\n"):
        *overwritten, last = line.rstrip("\r").split("\r")
        yield from (part for part in overwritten if part in failures)
        yield last


def _mark_lines(log: str, lines: Sequence[str]) -> dict[int, Marker]:
    """Return the markers of the log's lines that may report a failure, by index."""
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    indexes = {bisect_right(starts, offset) - 1 for offset in find_candidates(log)}
    classify_start = cache(classify)
    return {index: classify_start(lines[index][:_CLASSIFIED_CHARS]) for index in sorted(indexes)}


def _write_run(line: str, count: int) -> str:
    """Write equal lines once with their count."""
    return f"{line} (×{count})" if count > 1 and line.strip() else line


def _collapse(numbered: Sequence[tuple[int, str]]) -> Iterator[str]:
    """Write each run of equal lines, and a mark for each gap."""
    before = -1
    position = 0
    while position < len(numbered):
        index, line = numbered[position]
        if index > before + 1 and before >= 0:
            yield GAP
        run = position + 1
        while (
            run < len(numbered) and numbered[run][1] == line and numbered[run][0] == numbered[run - 1][0] + 1
        ):
            run += 1
        yield _write_run(line, run - position)
        before = numbered[run - 1][0]
        position = run


def _shorten(line: str, limit: int) -> str:
    """Cut a long line in the middle. It starts with the failing thing and often ends with the reason."""
    line = line.rstrip()
    if len(line) <= limit:
        return line
    tail = limit // 3
    return f"{line[: limit - tail - 3]} {GAP} {line[-tail:]}"


def _kind(line: str) -> str:
    """Return the part that a line shares with lines that differ only in a name, a path or a number."""
    kind = _VARIABLE.sub("#", line).strip()[:80]
    # A line that is only a path or a number is a kind of its own.
    return line if kind.strip("# ") == "" else kind


class _Lines:
    """The lines of a log, each with its value."""

    def __init__(self, log: str, end_lines: int) -> None:
        self.log = log
        self.end_lines = end_lines
        self.texts = log.split("\n")
        self.kinds = cache(_kind)
        markers = _mark_lines(self.log, self.texts)
        for index in self._shown_scripts():
            markers.pop(index, None)
        self.markers = {index: marker for index, marker in markers.items() if marker}

    def _shown_scripts(self) -> Iterator[int]:
        """Yield the lines of steps' scripts, which the CI service prints before running them."""
        inside = False
        for index, line in enumerate(self.texts):
            if line.startswith("##["):
                inside = line.startswith("##[group]Run ") or (inside and not line.startswith("##[endgroup]"))
            if inside:
                yield index

    def by_value(self) -> Iterator[int]:
        """Yield line numbers by value, the highest first. Further lines of the same kind count less."""
        return rank_with_repeats(self._values(), self._kind_of, _REPEATED, _MUST)

    def _kind_of(self, index: int) -> str:
        return self.kinds(self.texts[index][:300])

    def with_blanks(self, chosen: dict[int, str]) -> list[tuple[int, str]]:
        """Return the lines in order. If only a blank line is missing between two, add it."""
        blanks = {
            index + 1: ""
            for index in chosen
            if index + 2 in chosen and index + 1 not in chosen and not self.texts[index + 1].strip()
        }
        return sorted((chosen | blanks).items())

    def _values(self) -> dict[int, float]:
        start, end = self._failed_step()
        step = range(start, end + 1)
        values: dict[int, float] = {}
        for index, marker in self.markers.items():
            if index not in step:
                values[index] = _VALUES[marker] * _OUTSIDE
        for listed in self._lists(step):
            # A step ends soon after its failure.
            nearness = max(_FAR, 1.0 - _FALL * math.log2(1 + (end - listed[-1]) / _NEAR_LINES))
            for index in listed:
                value = _VALUES[self.markers[index]] * nearness
                values[index] = max(values.get(index, 0.0), value)
            for index in {*listed[:_SPREAD], *listed[-_SPREAD:]}:
                value = _VALUES[self.markers[index]] * nearness
                for near_index, share in find_surroundings(self.texts, self.markers, index, step):
                    values[near_index] = max(values.get(near_index, 0.0), value * share)
        near = _STEP_END if self.texts[end].startswith("##[error]") else _LOG_END
        for index in range(max(0, end - self.end_lines), end + 1):
            if self.texts[index].strip():
                values[index] = max(values.get(index, 0.0), 0.5 + near / (1 + end - index))
        for index in self._must(start, end):
            values[index] = values.get(index, 0.0) + _MUST
        return values

    def _lists(self, step: range) -> Iterable[list[int]]:
        """Return the failures of the step, in lists of lines that begin alike."""
        lists: dict[str, list[int]] = {}
        for index in self.markers:
            if index in step:
                lists.setdefault(self._kind_of(index)[:_LIKE], []).append(index)
        return lists.values()

    def _failed_step(self) -> tuple[int, int]:
        """Return the first and last line of the failed step, or the whole log if there are no steps."""
        finals = [index for index in self.markers if _FINAL.match(self.texts[index])]
        exits = (index for index in finals if _EXITED.match(self.texts[index]))
        end = next(exits, finals[0] if finals else len(self.texts) - 1)
        start = next((index for index in range(end, -1, -1) if _RUN.match(self.texts[index])), 0)
        while end > start and not self.texts[end].strip():
            end -= 1
        return start, end

    def _must(self, start: int, end: int) -> Iterator[int]:
        inside = [index for index in self.markers if start <= index <= end]
        first = min(inside, key=lambda index: (_PLAINEST.index(self.markers[index]), index), default=None)
        if first is not None:
            yield first
        yield end
        summaries = [index for index in inside if self.markers[index] is Marker.SUMMARY]
        yield from summaries[-1:]
        if _RUN.match(self.texts[start]):
            yield start
        elif first is not None:
            before = range(first, start - 1, -1)
            yield from islice((index for index in before if _COMMAND.match(self.texts[index])), 1)
        yield from [index for index in range(start) if _JOB.match(self.texts[index])][-1:]
