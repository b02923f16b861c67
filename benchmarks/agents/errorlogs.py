"""Measure how many of the important signals in a log an excerpt keeps, compared with tail and grep.

Reads a folder of `NAME.log.gz` with `truth.json`. That has an ID and signals for each log. A signal has an
importance, a type, a value with aliases or a file, and the lines of its evidence.
"""

import gzip
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, Sample, Section, at_least
from contextopt.engine.agents.errorlogs import ERROR_CHARS, clean_log, latest_error, latest_error_within
from contextopt.engine.agents.retries import Diagnosis, FailedAttempt, plan_retry
from contextopt.engine.text.tokens import RenderedCounter, Tokenizer, get_tokenizer

BUDGET_TOKENS = 450
BY_DEFAULT = "a retry, by default"
MIN_KEPT = 0.85
ERROR_TYPES = ("assertion", "compile_error", "exception", "failed_test", "panic")
_MENTION = re.compile(r"error|fail|fatal|exception|panic|traceback", re.IGNORECASE)
_FIRST = re.compile(r"^##\[error\]|\berror\b[:\[]|^E  |FAILED|Traceback|fatal:")

type Cut = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Log:
    name: str
    text: str
    signals: tuple[dict[str, Any], ...]


def measure_error_logs(folder: Path) -> Section:
    logs = read_logs(folder)
    tokenizer = get_tokenizer("cl100k_base")
    contenders: dict[str, Cut] = {
        "ours, 450 tokens": lambda text: latest_error_within(text, BUDGET_TOKENS, tokenizer),
        BY_DEFAULT: lambda text: _sent_by_default(text, RenderedCounter(tokenizer)),
        f"ours, {ERROR_CHARS:,} characters": latest_error,
        "tail, 450 tokens": lambda text: _tail(clean_log(text).split("\n"), tokenizer),
        "grep, 450 tokens": lambda text: _head(_mentions(clean_log(text).split("\n")), tokenizer),
        "from the first marker, 450 tokens": lambda text: _head(
            _around(clean_log(text).split("\n")), tokenizer
        ),
    }
    figures = [_kept_figure(name, logs, cut) for name, cut in contenders.items()]
    ours = contenders["ours, 450 tokens"]
    firsts = [keeps(signal, ours(log.text)) for log in logs if (signal := first_error(log))]
    share = sum(firsts) / max(1, len(firsts))
    first = Figure("first error kept: ours", "%", len(firsts), 100 * share, bar=at_least(1.0, share, "100 %"))
    by_log = ", ".join(f"{log.name} {share_kept([log], ours):.2f}" for log in logs)
    notes = (f"Ours, 450 tokens, log by log: {by_log}.", "Shares are means over the logs.")
    return Section("Errors out of logs", (*figures, first, _speed(logs)), notes)


def read_logs(folder: Path) -> list[Log]:
    truth = json.loads((folder / "truth.json").read_text())
    return [
        Log(entry["id"], _read(folder / f"{entry['id']}.log.gz"), tuple(entry["signals"])) for entry in truth
    ]


def _read(path: Path) -> str:
    with gzip.open(path, "rt", errors="replace", newline="") as log:
        return log.read()


def share_kept(logs: Sequence[Log], cut: Cut) -> float:
    """Return the mean share, over the logs, of critical signals that the excerpt keeps."""
    shares = []
    for log in logs:
        text = cut(log.text)
        critical = [keeps(signal, text) for signal in log.signals if signal["importance"] == "critical"]
        if critical:
            shares.append(sum(critical) / len(critical))
    return sum(shares) / max(1, len(shares))


def keeps(signal: dict[str, Any], text: str) -> bool:
    """Return whether the text has the signal, ignoring whitespace. An exit code must be named as one."""
    flat = _flat(text)
    value = signal.get("value", "")
    if signal["type"] == "exit_code" and value.isdigit():
        return re.search(rf"\b(?:code|status)[ :=]*{value}\b", flat) is not None
    wanted = [value, *signal.get("aliases", [])]
    if signal["type"] == "stack_location":
        wanted.append(signal.get("file", ""))
    return any(_flat(each) in flat for each in wanted if each)


def first_error(log: Log) -> dict[str, Any] | None:
    """Return the critical error whose evidence comes first in the log."""
    errors = [
        signal
        for signal in log.signals
        if signal["importance"] == "critical" and signal["type"] in ERROR_TYPES
    ]
    return min(errors, key=lambda signal: min(signal["evidence_lines"]), default=None)


def _kept_figure(name: str, logs: Sequence[Log], cut: Cut) -> Figure:
    share = share_kept(logs, cut)
    is_ours = name in ("ours, 450 tokens", BY_DEFAULT)
    bar = at_least(MIN_KEPT, share, f"≥ {MIN_KEPT:.0%}".replace("%", " %")) if is_ours else None
    return Figure(f"critical signals kept: {name}", "%", len(logs), 100 * share, bar=bar)


def _sent_by_default(text: str, counter: RenderedCounter) -> str:
    """Return the error that a receiver is sent with the default limits."""
    failed = FailedAttempt("Mend the build", "", text, Diagnosis("implementation_error"), 1)
    return plan_retry(failed, {}, {}, counter).context.latest_error


def _speed(logs: Sequence[Log]) -> Figure:
    rates = []
    for log in logs:
        start = time.perf_counter()
        latest_error(log.text)
        rates.append(len(log.text) / 1e6 / (time.perf_counter() - start))
    return Figure.of("latest_error, a second", Sample(tuple(rates)), unit="MB")


def _mentions(lines: list[str]) -> list[str]:
    return [line for line in lines if _MENTION.search(line)]


def _around(lines: list[str]) -> list[str]:
    first = next((index for index, line in enumerate(lines) if _FIRST.search(line)), 0)
    return lines[max(0, first - 5) :]


def _head(lines: list[str], tokenizer: Tokenizer) -> str:
    kept: list[str] = []
    for line in lines:
        if tokenizer.count("\n".join([*kept, line])) > BUDGET_TOKENS:
            break
        kept.append(line)
    return "\n".join(kept)


def _tail(lines: list[str], tokenizer: Tokenizer) -> str:
    kept: list[str] = []
    for line in reversed(lines):
        if tokenizer.count("\n".join([line, *kept])) > BUDGET_TOKENS:
            break
        kept.insert(0, line)
    return "\n".join(kept)


def _flat(text: str) -> str:
    return " ".join(clean_log(text).split())
