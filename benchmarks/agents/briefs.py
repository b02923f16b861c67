"""Measure how many names of the findings a brief makes statements about, and compare other summarisers.

The findings are windows of consecutive commits, with title and notes as the description, and of consecutive
turns of conversations. `briefmaterial` defines names and statements, independently of the engine.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.agents.briefmaterial import (
    BUDGET_TOKENS,
    EXTRACTORS,
    WINDOW,
    Window,
    compress_window,
    read_windows,
    statements_in,
    talk_windows,
)
from benchmarks.agents.briefreadings import count_unchanged
from benchmarks.agents.briefrivals import Summarise, load_rivals
from benchmarks.figures import Figure, Sample, Section, at_least, at_most
from contextopt.engine.briefs.compressor import Compression
from contextopt.engine.briefs.findings import render_finding
from contextopt.engine.text.tokens import get_tokenizer

NOTES = (
    f"Windows of {WINDOW} commits, or of about as many tokens of a conversation with its turns as findings.",
    f"Briefs have {BUDGET_TOKENS} tokens. Names are distinct, figures are means over the windows.",
    "Prose means titles and notes without the paths that each commit changed.",
    "A statement is a line with a verb, one more word or name, and at most three names for each other word.",
    "Headings and the closing list of names do not count as statements.",
    "Strict names are paths, identifiers, references, versions and numbers.",
    "Lenient names include all words with a capital, proper names only those within a sentence.",
)
RIVAL_WINDOWS = 5
"""Windows per file, evenly spread. They are few because some of the others take seconds for one."""
TALK_WINDOWS = 40
MIN_STATEMENTS = 0.5
MIN_SURVIVAL = 0.95
MAX_P95_MS = 50.0

_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*[-*+] )|\n(?=[A-Z][\w-]*:)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9`\"'(])")
_HEDGE = re.compile(
    r"\b(?:not|no|never|none|without|cannot|\w+n't|may|might|could|would|perhaps|maybe|probably|likely|possibly|"
    r"seems?|appears?|unless|except|only|unclear|should)\b",
    re.IGNORECASE,
)


def measure_briefs(files: Sequence[Path], dialogues: Sequence[Path]) -> Section:
    whole = [window for path in files for window in read_windows(path)]
    sets = {path.stem: list(read_windows(path, with_paths=False)) for path in files}
    talks = {path.stem: _spread(list(talk_windows(path)), TALK_WINDOWS) for path in dialogues}
    prose = [window for windows in sets.values() for window in windows]
    figures = [
        *_statements("strict", sets),
        *_statements("proper", sets | talks),
        *_recalls("prose", prose),
        *_recalls("with lists of paths", whole),
        *_faithfulness([*prose, *whole, *(window for windows in talks.values() for window in windows)]),
        count_unchanged(files, dialogues),
        _speed(whole),
    ]
    rivals, notes = load_rivals(EXTRACTORS["strict"])
    sample = [window for windows in sets.values() for window in _spread(windows, RIVAL_WINDOWS)]
    figures += _compared("ours", [compress_window(window).brief for window in sample], sample)
    for name, summarise in rivals.items():
        figures += _rival_figures(name, summarise, sample)
    return Section(
        "Briefs",
        tuple(figures),
        (
            *NOTES,
            "The most that fits is a plain list of the strict names, the shortest first.",
            "Plain greedy coverage is given the strict names; the engine has its own definition of a name.",
            *notes,
        ),
    )


def _statements(kind: str, sets: Mapping[str, Sequence[Window]]) -> Iterator[Figure]:
    """Yield the share of names in statements for each set, and the mean of the sets."""
    shares = {}
    for name, windows in sets.items():
        found = [
            recall(EXTRACTORS[kind], window.text, statements_in(compress_window(window).brief))
            for window in windows
        ]
        shares[name] = sum(found) / max(1, len(found))
        yield Figure(f"{kind} names in statements: {name}", "%", len(found), 100 * shares[name])
    mean = sum(shares.values()) / max(1, len(shares))
    bar = at_least(MIN_STATEMENTS, mean, "≥ 50 %")
    yield Figure(f"{kind} names in statements: mean of the sets", "%", len(shares), 100 * mean, bar=bar)


def recall(pattern: re.Pattern[str], text: str, brief: str) -> float:
    """Return the share of the text's distinct names that the brief contains."""
    names = set(pattern.findall(text))
    return len(names & set(pattern.findall(brief))) / max(1, len(names))


def surviving(compression: Compression, window: Window) -> Iterator[bool]:
    """Yield, for each kept statement from a sentence with hedges or negations, whether it has them too."""
    texts = dict(zip((finding.id for finding in window.findings), window.texts, strict=True))
    for kept in compression.kept:
        if " " not in kept.text:
            continue
        source = next((each for each in _sentences(texts[kept.finding_id]) if kept.text in each), "")
        if hedges := _HEDGE.findall(source):
            said = _HEDGE.findall(kept.text)
            yield all(said.count(hedge) >= hedges.count(hedge) for hedge in hedges)


def foreign(compression: Compression, window: Window) -> Iterator[bool]:
    """Yield, for each name in the brief, whether the source lacks it."""
    source = " ".join(window.text.split())
    for name in EXTRACTORS["lenient"].findall(compression.brief):
        yield name not in source


def _recalls(what: str, windows: Sequence[Window]) -> Iterator[Figure]:
    briefs = [compress_window(window).brief for window in windows]
    for name in ("strict", "lenient"):
        mean = _mean_recall(name, briefs, windows)
        yield Figure(f"{name} names kept, {what}: ours", "%", len(windows), 100 * mean)
    mean = _mean_recall("strict", list(map(_bare_names, windows)), windows)
    yield Figure(f"strict names kept, {what}: the most that fits", "%", len(windows), 100 * mean)


def _mean_recall(kind: str, briefs: Sequence[str], windows: Sequence[Window]) -> float:
    pairs = zip(windows, briefs, strict=True)
    shares = [recall(EXTRACTORS[kind], window.text, brief) for window, brief in pairs]
    return sum(shares) / max(1, len(shares))


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
    pairs = [(compress_window(window), window) for window in windows]
    kept = [survives for compression, window in pairs for survives in surviving(compression, window)]
    share = sum(kept) / max(1, len(kept))
    yield Figure(
        "hedges and negations kept", "%", len(kept), 100 * share, bar=at_least(MIN_SURVIVAL, share, "≥ 95 %")
    )
    names = [is_foreign for compression, window in pairs for is_foreign in foreign(compression, window)]
    yield Figure("names that the source lacks", "", len(names), sum(names), bar=at_most(0, sum(names), "0"))
    over = sum(_is_over_budget(compression) for compression, _ in pairs)
    yield Figure("briefs over their budget", "", len(pairs), over, bar=at_most(0, over, "0"))
    changed = [broken for window in windows for broken in _broken_criticals(window)]
    yield Figure(
        "critical findings changed", "", len(changed), sum(changed), bar=at_most(0, sum(changed), "0")
    )


def _is_over_budget(compression: Compression) -> bool:
    return get_tokenizer("cl100k_base").count(compression.brief) > BUDGET_TOKENS


def _broken_criticals(window: Window) -> Iterator[bool]:
    """Make every tenth finding critical, and yield for each whether it was lost or changed."""
    findings = [
        replace(finding, tags=("critical",)) if place % 10 == 0 else finding
        for place, finding in enumerate(window.findings)
    ]
    compression = compress_window(replace(window, findings=tuple(findings)))
    for finding in findings[::10]:
        content = json.loads(render_finding(finding).split("\n", 1)[1])
        yield finding.id not in compression.critical or content != finding.content


def _speed(windows: Sequence[Window]) -> Figure:
    times = []
    for window in windows:
        start = time.perf_counter()
        compress_window(window)
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
    yield from _compared(name, briefs, windows)
    yield Figure.of(f"time: {name}", Sample(tuple(times)))


def _compared(name: str, briefs: Sequence[str], windows: Sequence[Window]) -> Iterator[Figure]:
    said = list(map(statements_in, briefs))
    for kind in ("strict", "proper"):
        mean = _mean_recall(kind, said, windows)
        yield Figure(f"{kind} names in statements, some windows: {name}", "%", len(windows), 100 * mean)
    mean = _mean_recall("strict", briefs, windows)
    yield Figure(f"strict names kept, some windows: {name}", "%", len(windows), 100 * mean)


def _sentences(text: str) -> Iterator[str]:
    for block in _BLOCK.split(text):
        flat = " ".join(block.split()).lstrip("-*+ ")
        yield from (sentence for sentence in _SENTENCE.split(flat) if sentence)


def _spread(windows: Sequence[Window], count: int) -> Sequence[Window]:
    return windows[:: max(1, len(windows) // count)][:count]
