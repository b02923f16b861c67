"""`python -m benchmarks.agents.files`: predict the files that a commit changes from its message.

Recall is the share of a commit's changed files that are among a ranking's first k, or shown in a packed text.
A file counts as shown if any of its lines or signatures are there; its path alone never counts. Source recall
only considers files in a programming language; "among all files" leaves the others in the ranking. Changed
lines and definitions come from files that no other commit changed before the next snapshot. A definition
counts if its signature or some of it is there. Figures are means over the cases of a repository, then over
the repositories. Weights and shares were chosen on the older three fifths of the releases ("train"); the
figures are from the newer ones ("test"). The last contenders are the product with parts left out.
"""

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.agents.filecases import Case, Snapshot, from_checkout, from_issues, from_releases
from benchmarks.agents.fileparts import ABLATIONS, Setup
from benchmarks.agents.tallies import Recorder, Tally
from benchmarks.figures import Bar, Figure, Section, at_least, at_most
from contextopt.engine.code.filescores import Ranker, Reading, RepositoryIndex, Weights, read_file
from contextopt.engine.code.graph.parsing import CODE_LANGUAGES, decode
from contextopt.engine.code.graph.values import Symbol
from contextopt.engine.code.packing import FULL, HUNKS, PATH, Packed, PackedFile, Policy, Source, pack
from contextopt.engine.text.lexical import Bm25, LexicalIndex, path_terms, terms
from contextopt.engine.text.tokens import get_tokenizer

DEPTHS = (5, 10, 20)
RANKED_TO_PACK = 200
BUDGETS = (8_000, 24_000)
OURS = "contextopt"
BASELINE = "BM25, split identifiers and paths"
AIDER = "Aider's map"

GAIN_AT_10 = 0.04
GAIN_AT_8K = 0.10
TIMES_AIDER = 2.0
WEAK_AIDER = 0.5
NOTED = ("recall@10", "at 8,000", "source recall@10 among all files", "changed lines at 8,000")
OF_PARTS = (*NOTED, "source recall@10", "changed source lines at 8,000")

_TOKENIZER = get_tokenizer("cl100k_base")
_WORD = re.compile(r"\w+")


class Prepared:
    """A snapshot with everything that the contenders need."""

    def __init__(self, snapshot: Snapshot, readings: dict[tuple[str, bytes], Reading]) -> None:
        self.snapshot = snapshot
        self.readings: dict[str, Reading] = {}
        for path, content in snapshot.contents.items():
            key = (path.rpartition("/")[2], content)
            if key not in readings:
                readings[key] = read_file(path, content)
            self.readings[path] = readings[key]
        index = RepositoryIndex.build(self.readings)
        self.ranker: Ranker = index.ranker(snapshot.history)
        self.paths = self.ranker.links.paths
        self.sources = {
            path: Source("" if reading.parsed.skipped else decode(snapshot.contents[path]), reading.parsed)
            for path, reading in self.readings.items()
        }
        self.joint = LexicalIndex.build(
            {
                path: Counter(reading.terms.content) + path_terms(path)
                for path, reading in self.readings.items()
            }
        )
        self.plain = LexicalIndex.build({path: _plain(source.text) for path, source in self.sources.items()})
        self._tokens: dict[str, int] = {}

    def tokens(self, path: str) -> int:
        """Count the tokens of a file shown whole, header included."""
        if path not in self._tokens:
            self._tokens[path] = _TOKENIZER.count(f"## {path}\n{self.sources[path].text}\n")
        return self._tokens[path]

    def is_source(self, path: str) -> bool:
        return self.readings[path].parsed.language in CODE_LANGUAGES

    def rankings(self, case: Case) -> dict[str, list[str]]:
        """Return each contender's order of the files."""
        by_chance = sorted(self.paths)
        random.Random(case.query).shuffle(by_chance)
        split = dict.fromkeys(terms(case.query), 1.0)
        plain = dict.fromkeys(_plain(case.query), 1.0)
        return {
            "random": by_chance,
            "recency": self._ordered(self.ranker.signals("", (), case.now)["recency"]),
            "BM25": self._ordered(self.plain.scores(plain, Bm25())),
            BASELINE: self._ordered(self.joint.scores(split, Bm25())),
            OURS: [ranked.path for ranked in self.ranker.rank(case.query, case.now)],
        }

    def pack(self, case: Case, budget: int, setup: Setup) -> Packed:
        """Rank and pack as the product does."""
        return pack(
            self.ranker.rank(case.query, case.now, weights=setup.weights, limit=RANKED_TO_PACK),
            self.sources,
            budget,
            _TOKENIZER,
            query=case.query,
            rarity=self.ranker.rarity(case.query),
            policy=setup.policy,
        )

    def _ordered(self, scores: Any) -> list[str]:
        return [self.paths[place] for place in np.argsort(-scores, kind="stable")]


def measure_files(
    snapshots: Iterable[Snapshot],
    *,
    part: str = "test",
    aider: Path | None = None,
    policy: Policy | None = None,
) -> tuple[Section, Tally]:
    """Rank and pack the files for every case in one part of the snapshots, or in all."""
    tally = Tally()
    readings: dict[tuple[str, bytes], Reading] = {}
    for snapshot in snapshots:
        if part not in ("all", snapshot.part) or not snapshot.cases:
            continue
        prepared = Prepared(snapshot, readings)
        for case in snapshot.cases:
            _measure_case(prepared, case, tally, policy or Policy())
        if aider:
            _measure_aider(prepared, aider, tally)
        print(f"  {snapshot.repository} {snapshot.name}: {len(snapshot.cases)} cases", file=sys.stderr)
    return _section(tally, part), tally


def _measure_case(prepared: Prepared, case: Case, tally: Tally, policy: Policy) -> None:
    repository = prepared.snapshot.repository
    wanted = [path for path in case.changed if not prepared.readings[path].parsed.skipped]
    if not wanted:
        return
    for name, setup in ABLATIONS.items():
        _measure_setup(prepared, case, wanted, setup, tally.recorder(f"{OURS}, {name}", repository))
    for contender, order in prepared.rankings(case).items():
        recorder = tally.recorder(contender, repository)
        _measure_ranking(prepared, order, wanted, recorder)
        for budget in BUDGETS:
            if contender == OURS:
                packed = prepared.pack(case, budget, Setup(policy=policy))
                _measure_packed(prepared, packed, case, wanted, budget, recorder)
            else:
                whole = _whole_files(prepared, order, budget)
                recorder.add(f"at {budget:,}", _share(wanted, whole))
                for path in case.lines:
                    recorder.add(f"changed lines at {budget:,}", float(path in whole))


def _measure_setup(
    prepared: Prepared, case: Case, wanted: Sequence[str], setup: Setup, recorder: Recorder
) -> None:
    ranked = prepared.ranker.rank(case.query, case.now, weights=setup.weights)
    _measure_ranking(prepared, [file.path for file in ranked], wanted, recorder)
    packed = prepared.pack(case, BUDGETS[0], setup)
    _measure_packed(prepared, packed, case, wanted, BUDGETS[0], recorder)


def _measure_ranking(
    prepared: Prepared, order: Sequence[str], wanted: Sequence[str], recorder: Recorder
) -> None:
    source = [path for path in wanted if prepared.is_source(path)]
    sources = [path for path in order if prepared.is_source(path)]
    for depth in DEPTHS:
        recorder.add(f"recall@{depth}", _share(wanted, order[:depth]))
        if source:
            recorder.add(f"source recall@{depth}", _share(source, sources[:depth]))
            recorder.add(f"source recall@{depth} among all files", _share(source, order[:depth]))


def _measure_packed(
    prepared: Prepared, packed: Packed, case: Case, wanted: Sequence[str], budget: int, recorder: Recorder
) -> None:
    shown = {file.path: file for file in packed.files if file.mode != PATH}
    recorder.add(f"at {budget:,}", _share(wanted, shown))
    recorder.add(
        f"whole or hunks at {budget:,}",
        _share(wanted, {p for p, f in shown.items() if f.mode in (FULL, HUNKS)}),
    )
    recorder.add(
        f"whole at {budget:,}", _share(wanted, {path for path, file in shown.items() if file.mode == FULL})
    )
    recorder.add(
        "over budget", float(packed.tokens > budget or _TOKENIZER.count(packed.text) != packed.tokens)
    )
    for path, lines in case.lines.items():
        file = shown.get(path, PackedFile(path, PATH, 0))
        there = sum(any(start <= line <= end for start, end in file.spans) for line in lines)
        recorder.add(f"changed lines at {budget:,}", there / len(lines))
        if prepared.is_source(path):
            recorder.add(f"changed source lines at {budget:,}", there / len(lines))
        if touched := {symbol for line in lines if (symbol := _around(prepared, path, line))}:
            named = sum(
                symbol.start in file.heads
                or any(start <= symbol.end and symbol.start <= end for start, end in file.spans)
                for symbol in touched
            )
            recorder.add(f"changed definitions at {budget:,}", named / len(touched))


def _around(prepared: Prepared, path: str, line: int) -> Symbol | None:
    """Return the innermost definition around a line."""
    symbols = prepared.readings[path].parsed.symbols
    around = [symbol for symbol in symbols if symbol.start <= line <= symbol.end]
    return max(around, key=lambda symbol: (symbol.depth, symbol.start), default=None)


def _whole_files(prepared: Prepared, order: Sequence[str], budget: int) -> set[str]:
    """Take whole files in order, and skip those that do not fit. Stopping there would show fewer."""
    taken, used = set(), 0
    for path in order:
        if prepared.readings[path].parsed.skipped or len(prepared.sources[path].text) > 12 * (budget - used):
            continue
        if used + prepared.tokens(path) <= budget:
            taken.add(path)
            used += prepared.tokens(path)
    return taken


def _measure_aider(prepared: Prepared, python: Path, tally: Tally) -> None:
    """Run Aider's map in its own environment on the files, written to disk."""
    repository = prepared.snapshot.repository
    with tempfile.TemporaryDirectory() as folder:
        for path, source in prepared.sources.items():
            if not prepared.readings[path].parsed.skipped:
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / path).write_text(source.text)
        request = {
            "root": folder,
            "budgets": BUDGETS,
            "queries": [case.query for case in prepared.snapshot.cases],
        }
        command = [str(python), str(Path(__file__).with_name("aidermap.py"))]
        answer = subprocess.run(
            command, input=json.dumps(request), capture_output=True, text=True, check=True
        )
    for case, found in zip(prepared.snapshot.cases, json.loads(answer.stdout), strict=True):
        wanted = [path for path in case.changed if not prepared.readings[path].parsed.skipped]
        if wanted:
            recorder = tally.recorder(AIDER, repository)
            _measure_ranking(prepared, found["ranked"], wanted, recorder)
            for budget in BUDGETS:
                recorder.add(f"at {budget:,}", _share(wanted, found["shown"][str(budget)]))


def _share(wanted: Sequence[str], found: Iterable[str]) -> float:
    found = set(found)
    return sum(path in found for path in wanted) / len(wanted)


def _plain(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.lower()))


def _section(tally: Tally, part: str) -> Section:
    bars = _bars(tally)
    figures = [
        Figure(
            f"{contender}: {metric}",
            "",
            tally.count(contender, metric),
            tally.mean(contender, metric),
            bar=bars.get((contender, metric)),
        )
        for contender, metric in tally.values
        if metric in OF_PARTS or not contender.startswith(f"{OURS},")
    ]
    notes = [f"{OURS}: {metric} {_describe(tally.by_repository(OURS, metric))}" for metric in NOTED]
    if ratios := _times_aider(tally):
        notes.append(f"source recall@10, times Aider's map: {_describe(ratios)}")
    return Section(f"File retrieval ({part})", tuple(figures), tuple(notes))


def _describe(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in values.items())


def _bars(tally: Tally) -> dict[tuple[str, str], Bar]:
    reached = {metric: tally.mean(OURS, metric) for metric in ("recall@10", "at 8,000", "over budget")}
    at_10, at_8k = tally.mean(BASELINE, "recall@10"), tally.mean(BASELINE, "at 8,000")
    bars = {
        (OURS, "recall@10"): at_least(at_10 + GAIN_AT_10, reached["recall@10"], f"≥ BM25 + {GAIN_AT_10}"),
        (OURS, "at 8,000"): at_least(at_8k + GAIN_AT_8K, reached["at 8,000"], f"≥ BM25 + {GAIN_AT_8K}"),
        (OURS, "over budget"): at_most(0, reached["over budget"], "0"),
    }
    aider = tally.mean(AIDER, "source recall@10")
    if 0 < aider < WEAK_AIDER:
        ours = tally.mean(OURS, "source recall@10")
        bars[OURS, "source recall@10"] = at_least(
            TIMES_AIDER * aider, ours, f"≥ {TIMES_AIDER:g} × Aider's map"
        )
    return bars


def _times_aider(tally: Tally) -> dict[str, float]:
    """Return our recall as a multiple of Aider's, for each repository."""
    ours = tally.by_repository(OURS, "source recall@10")
    theirs = tally.by_repository(AIDER, "source recall@10")
    return {name: ours[name] / value for name, value in theirs.items() if value}


def tune(snapshots: Iterable[Snapshot]) -> Iterator[str]:
    """Choose weights on the training part, also with each repository left out; report on the test part."""
    from benchmarks.agents.filetuning import Tuning

    tuning = Tuning.of(snapshots, Prepared)
    yield f"train, all: {tuning.describe(tuning.best('train'), 'train')}"
    yield f"test, by those weights: {tuning.describe(tuning.best('train'), 'test')}"
    yield f"test, as built in: {tuning.describe(Weights(), 'test')}"
    for repository in tuning.repositories:
        weights = tuning.best("train", without=repository)
        yield f"test of {repository}, tuned without it: {tuning.describe(weights, 'test', only=repository)}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agents.files", description=__doc__)
    parser.add_argument("--listing", type=Path, nargs="*", default=[], help="commits of a repository (JSON)")
    parser.add_argument("--packages", type=Path, help="folder for the released source packages")
    parser.add_argument("--checkout", type=Path, nargs="*", default=[], help="git checkouts")
    parser.add_argument("--issues", type=Path, help="use texts of issues of the checkouts as tasks (JSON)")
    parser.add_argument("--aider", type=Path, help="python of an environment that has aider-chat")
    parser.add_argument("--part", choices=("train", "test", "all"), default="test")
    parser.add_argument("--releases", type=int, default=10)
    parser.add_argument("--cases", type=int, default=40, help="maximum tasks of a release or a checkout")
    parser.add_argument("--tune", action="store_true", help="choose weights and print them")
    parser.add_argument("--policy", type=float, nargs=2, metavar=("DENSITY", "TAIL"))
    arguments = parser.parse_args()
    snapshots = _snapshots(arguments)
    if arguments.tune:
        for line in tune(snapshots):
            print(line, flush=True)
        return
    policy = Policy(*arguments.policy) if arguments.policy else None
    section, tally = measure_files(snapshots, part=arguments.part, aider=arguments.aider, policy=policy)
    print(section.title)
    for figure in section.figures:
        bar = f"  {figure.bar.text} {'met' if figure.bar.is_met else 'MISSED'}" if figure.bar else ""
        who, metric = figure.what.split(": ", 1)
        each = " ".join(f"{value:.3f}" for value in tally.by_repository(who, metric).values())
        print(f"  {figure.what:60} {figure.runs:5} {figure.median:.3f}  ({each}){bar}")
    for note in section.notes:
        print(f"  {note}")


def _snapshots(arguments: argparse.Namespace) -> Iterator[Snapshot]:
    for listing in arguments.listing:
        yield from from_releases(
            listing, arguments.packages, releases=arguments.releases, cases=arguments.cases
        )
    if arguments.issues:
        yield from from_issues(arguments.issues, arguments.checkout)
        return
    for checkout in arguments.checkout:
        yield from from_checkout(checkout, cases=arguments.cases)


if __name__ == "__main__":
    main()
