"""Measure which names of the findings a brief keeps, next to other summarisers, at one budget.

The findings are windows of consecutive commits, with title and notes as the description. Names are defined
here, in two ways, and not by the engine.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.agents.briefrivals import Summarise, load_rivals
from benchmarks.figures import Bar, Figure, Sample, Section, at_least, at_most
from contextopt.engine import BriefSettings, Compression, Finding, compress, get_tokenizer, parse_findings
from contextopt.engine.briefs.findings import render_finding

BUDGET_TOKENS = 450
WINDOW = 60
RIVAL_WINDOWS = 5
"""Windows per file, evenly spread, because some of the others take seconds for one."""
MIN_RECALL = 0.75
MIN_SURVIVAL = 0.95
MAX_P95_MS = 50.0
HEADING = "changes"

_STRICT = (
    r"(?:[\w.@~+-]*/)+[\w.@+-]*\w|\b\w+(?:\.\w+)+\b|\b\w*_\w+\b|\b[a-z]+[A-Z]\w*\b|\b[A-Z][a-z0-9]+[A-Z]\w*\b"
    r"|#\d+|\b[vV]?\d+(?:\.\d+)*\b"
)
EXTRACTORS = {
    "strict": re.compile(_STRICT),
    "lenient": re.compile(_STRICT + r"|\b[A-Z][\w'-]+\b"),
}
"""Strict: paths, dotted and other identifiers, references, versions, numbers. Lenient: also capitals."""

_PATH_LIST = re.compile(r"\n*^Files: .*", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*[-*+] )|\n(?=[A-Z][\w-]*:)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(])")
_HEDGE = re.compile(
    r"\b(?:not|no|never|none|without|cannot|\w+n't|may|might|could|would|perhaps|maybe|probably|likely|possibly|"
    r"seems?|appears?|unless|except|only|unclear|should)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Window:
    """Some consecutive commits: their texts, and the same as findings."""

    texts: tuple[str, ...]
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Window":
        values = [{"category": HEADING, "content": {"description": text}} for text in texts]
        return cls(tuple(texts), parse_findings(values, phase="analysis"))

    @property
    def text(self) -> str:
        return "\n\n".join(self.texts)


def measure_briefs(files: Sequence[Path]) -> Section:
    whole = [window for path in files for window in read_windows(path)]
    prose = [window for path in files for window in read_windows(path, with_paths=False)]
    figures = [
        *_recalls("prose", prose, bar=at_least_recall),
        *_recalls("with lists of paths", whole, bar=None),
        *_faithfulness([*prose, *whole]),
        _speed(whole),
    ]
    rivals, notes = load_rivals(EXTRACTORS["strict"])
    sample = [window for path in files for window in _spread(list(read_windows(path, with_paths=False)))]
    figures += _recalls("prose, some windows", sample, bar=None)
    for name, summarise in rivals.items():
        figures += _rival_figures(name, summarise, sample)
    return Section(
        "Briefs",
        tuple(figures),
        (
            f"Windows of {WINDOW} commits, {BUDGET_TOKENS} tokens; distinct names, means over the windows.",
            "Prose means titles and notes without the paths that each commit changed.",
            "The most that fits is a plain list of the strict names, the shortest first.",
            "Plain greedy coverage is given the strict names; the engine has its own definition of a name.",
            *notes,
        ),
    )


def read_windows(path: Path, *, with_paths: bool = True) -> Iterator[Window]:
    lines = path.read_text().splitlines()
    records = [json.loads(line) for line in lines]
    for start in range(0, len(records) - WINDOW + 1, WINDOW):
        texts = [f"{each['title']}\n\n{each['notes']}".strip() for each in records[start : start + WINDOW]]
        yield Window.of(texts if with_paths else [_PATH_LIST.sub("", text) for text in texts])


def at_least_recall(share: float) -> Bar:
    return at_least(MIN_RECALL, share, "≥ 75 %")


def recall(pattern: re.Pattern[str], text: str, brief: str) -> float:
    """Return the share of the text's distinct names that the brief contains."""
    names = set(pattern.findall(text))
    return len(names & set(pattern.findall(brief))) / max(1, len(names))


def surviving(compression: Compression, window: Window) -> Iterator[bool]:
    """Yield, for each kept statement from a hedging or denying sentence, whether it keeps that qualifier."""
    texts = dict(zip((finding.id for finding in window.findings), window.texts, strict=True))
    for kept in compression.kept:
        source = next((each for each in _sentences(texts[kept.finding_id]) if kept.text in each), "")
        if hedges := _HEDGE.findall(source):
            said = _HEDGE.findall(kept.text)
            yield all(said.count(hedge) >= hedges.count(hedge) for hedge in hedges)


def foreign(compression: Compression, window: Window) -> Iterator[bool]:
    """Yield, for each name in the brief, whether the source lacks it."""
    source = " ".join(window.text.split())
    for name in EXTRACTORS["lenient"].findall(compression.brief):
        yield name not in source


def _compress(window: Window) -> Compression:
    return compress(
        window.findings,
        phase="analysis",
        settings=BriefSettings().with_budget("analysis", BUDGET_TOKENS),
        tokenizer=get_tokenizer("cl100k_base"),
    )


def _recalls(what: str, windows: Sequence[Window], *, bar: Callable[[float], Bar] | None) -> Iterator[Figure]:
    briefs = [_compress(window).brief for window in windows]
    for name, pattern in EXTRACTORS.items():
        shares = [recall(pattern, each.text, brief) for each, brief in zip(windows, briefs, strict=True)]
        mean = sum(shares) / len(shares)
        held = bar(mean) if bar and name == "strict" else None
        yield Figure(f"{name} names kept, {what}: ours", "%", len(shares), 100 * mean, bar=held)
    most = [recall(EXTRACTORS["strict"], window.text, _bare_names(window)) for window in windows]
    yield Figure(
        f"strict names kept, {what}: the most that fits", "%", len(most), 100 * sum(most) / len(most)
    )


def _bare_names(window: Window) -> str:
    count = get_tokenizer("cl100k_base").count
    left, names = BUDGET_TOKENS, []
    found = set(EXTRACTORS["strict"].findall(window.text))
    for price, name in sorted((count(f" {name}"), name) for name in found):
        if price <= left:
            left -= price
            names.append(name)
    return " ".join(names)


def _faithfulness(windows: Sequence[Window]) -> Iterator[Figure]:
    pairs = [(_compress(window), window) for window in windows]
    kept = [survives for compression, window in pairs for survives in surviving(compression, window)]
    share = sum(kept) / max(1, len(kept))
    yield Figure(
        "hedges and negations kept", "%", len(kept), 100 * share, bar=at_least(MIN_SURVIVAL, share, "≥ 95 %")
    )
    names = [is_foreign for compression, window in pairs for is_foreign in foreign(compression, window)]
    yield Figure("names that the source lacks", "", len(names), sum(names), bar=at_most(0, sum(names), "0"))
    over = sum(_compress_over(compression) for compression, _ in pairs)
    yield Figure("briefs over their budget", "", len(pairs), over, bar=at_most(0, over, "0"))
    changed = [broken for window in windows for broken in _broken_criticals(window)]
    yield Figure(
        "critical findings changed", "", len(changed), sum(changed), bar=at_most(0, sum(changed), "0")
    )


def _compress_over(compression: Compression) -> bool:
    return get_tokenizer("cl100k_base").count(compression.brief) > BUDGET_TOKENS


def _broken_criticals(window: Window) -> Iterator[bool]:
    """Yield, for every tenth finding, made critical, whether it is not handed on unchanged."""
    findings = [
        replace(finding, tags=("critical",)) if place % 10 == 0 else finding
        for place, finding in enumerate(window.findings)
    ]
    compression = _compress(replace(window, findings=tuple(findings)))
    for finding in findings[::10]:
        content = json.loads(render_finding(finding).split("\n", 1)[1])
        yield finding.id not in compression.critical or content != finding.content


def _speed(windows: Sequence[Window]) -> Figure:
    times = []
    for window in windows:
        start = time.perf_counter()
        _compress(window)
        times.append(1_000 * (time.perf_counter() - start))
    sample = Sample(tuple(times))
    bar = at_most(MAX_P95_MS, sample.p95, "p95 ≤ 50 ms")
    return Figure.of(f"compress, {WINDOW} findings", sample, bar=bar)


def _rival_figures(name: str, summarise: Summarise, windows: Sequence[Window]) -> Iterator[Figure]:
    texts = [[sentence for text in window.texts for sentence in _sentences(text)] for window in windows]
    times, briefs = [], []
    for sentences in texts:
        start = time.perf_counter()
        briefs.append(summarise(sentences, BUDGET_TOKENS))
        times.append(1_000 * (time.perf_counter() - start))
    for kind, pattern in EXTRACTORS.items():
        shares = [recall(pattern, each.text, brief) for each, brief in zip(windows, briefs, strict=True)]
        yield Figure(
            f"{kind} names kept, prose, some windows: {name}",
            "%",
            len(shares),
            100 * sum(shares) / len(shares),
        )
    yield Figure.of(f"time: {name}", Sample(tuple(times)))


def _sentences(text: str) -> Iterator[str]:
    for block in _BLOCK.split(text):
        flat = " ".join(block.split()).lstrip("-*+ ")
        yield from (sentence for sentence in _SENTENCE.split(flat) if sentence)


def _spread(windows: Sequence[Window]) -> Sequence[Window]:
    return windows[:: max(1, len(windows) // RIVAL_WINDOWS)][:RIVAL_WINDOWS]
