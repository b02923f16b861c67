"""The preset Lean against the defaults and the last 10 records, without the search for a question."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean

from benchmarks.figures import Bar, Figure, Section, at_most
from benchmarks.retrieval.dialogues import Dialogue, load_dialogues
from benchmarks.retrieval.evidence import Context, measure_context
from benchmarks.retrieval.finding import make_questions
from benchmarks.retrieval.recall import row_of
from benchmarks.spaces import say, space_of
from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.results import AssemblyResult
from contextopt.engine.evidence import Evidence, line_frame, shows_evidence
from contextopt.engine.settings import ContextConfig
from contextopt.people.models import Team
from contextopt.spaces.inputs import RecordIn
from contextopt.spaces.models import Space
from contextopt.spaces.presets import LEAN
from contextopt.spaces.spaces import delete_space
from dashboard.demo import demo_spaces, load_demo, remove_demo
from memory.questions.models import Question

DEFAULTS = ContextConfig()
LIMITED = "a record limit of 8"
SETTINGS = {
    "defaults": DEFAULTS,
    LIMITED: DEFAULTS.replace(max_records=8),
    LEAN.label: DEFAULTS.replace(**LEAN.settings),
}
WINDOW = timedelta(days=14)
FEWER, MOST_FEWER = 0.2, 0.3
MOST_LOST = 0.01
"""Recall that Lean may lose against the defaults."""
BUDGET_TOKENS = 2_000
DEMO_DAYS = 20
DEMO_ASSEMBLIES_A_DAY = 10
SEED = 3
_CONDITIONS = (
    "Stage 4 as it is used: the question is not looked up. Tokens are those of the contexts, as a share of "
    "the last 10 records at the same moments. Dialogues: at their end. Commits: at random commits whose "
    "window of 14 days has 20 records or more. Demo: each space, once a day on 20 days."
)
_RECALL = (
    "Recall as in the section on recall, for QMSum of what was said. For commits, the known-item questions "
    "of the section on finding are asked at the newest commit of each file, all files together. Few of these "
    "questions are about the last records, so the recalls are low."
)
_DEMO = (
    "The demo's question set is about its newest records and spread evenly over them, so without the "
    "question any context loses about as much of its recall as it leaves out records."
)


@dataclass(slots=True)
class _Set:
    """The sums of one data set: tokens of contexts and of the last 10 records, and the recalls."""

    name: str
    contexts: int = 0
    last: int = 0
    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SETTINGS, 0))
    recalls: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in SETTINGS})

    def add(self, results: dict[str, AssemblyResult], times: int = 1) -> None:
        self.contexts += 1
        self.last += times * (results["defaults"].outcome.stats.stage3_tokens or 0)
        for name, result in results.items():
            self.tokens[name] += times * result.outcome.stats.tokens_used

    def figures(self) -> Iterator[Figure]:
        for name, tokens in self.tokens.items():
            share = tokens / self.last - 1
            bar = _saving_bar(share) if name == LEAN.label else None
            what = f"{self.name}, {name}: tokens against the last 10"
            yield Figure(what, "%", self.contexts, 100 * share, bar=bar)
        yield from self.recall_figures()

    def recall_figures(self) -> Iterator[Figure]:
        before = fmean(self.recalls["defaults"] or [0.0])
        for name, recalls in self.recalls.items():
            if recalls:
                recall = fmean(recalls)
                least = f"≥ {100 * (before - MOST_LOST):.2f} %"
                bar = at_most(MOST_LOST, before - recall, least) if name == LEAN.label else None
                yield Figure(f"{self.name}, {name}: recall", "%", len(recalls), 100 * recall, bar=bar)


def _saving_bar(share: float) -> Bar:
    return Bar(f"-{FEWER:.0%} to -{MOST_FEWER:.0%}", -MOST_FEWER <= share <= -FEWER)


def measure_lean(team: Team, dialogues: Sequence[Path], commits: Sequence[Path], *, moments: int) -> Section:
    """Compare tokens and recall at the ends of dialogues, among commits, and in the demo."""
    figures: list[Figure] = []
    for path in dialogues:
        figures += _dialogues(team, path).figures()
    asked = _Set("commits")
    for path in commits:
        figures += _commits(team, path, moments, asked).figures()
    figures += asked.recall_figures()
    figures += _demo(team).figures()
    return Section("Lean: fewer tokens without a question", tuple(figures), (_CONDITIONS, _RECALL, _DEMO))


def _assemble(space: Space, at: datetime) -> dict[str, AssemblyResult]:
    request = AssemblyIn(space=space.slug, stage=4, as_of=at)
    return {
        name: assemble_space(
            team_id=space.team_id, request=request, actor="benchmarks", store=False, settings=settings
        )
        for name, settings in SETTINGS.items()
    }


def _shown(result: AssemblyResult) -> dict[str, str]:
    """Return the lines of a context by the external ids of their records."""
    names = {entry.id: entry.external_id for entry in result.ledger}
    return {names[record_id]: line for record_id, line in result.record_lines.items()}


def _dialogues(team: Team, path: Path) -> _Set:
    found = _Set(path.stem)
    for dialogue in load_dialogues(path):
        space = space_of(team, f"lean-{dialogue.name}", dialogue.name, map(row_of, dialogue.turns))
        results = _assemble(space, dialogue.ended_at)
        found.add(results, len(dialogue.questions))
        for name, result in results.items():
            found.recalls[name] += _recalls(dialogue, result)
        delete_space(space=space)
    say(f"{path.stem}: {found.contexts} dialogues")
    return found


def _recalls(dialogue: Dialogue, result: AssemblyResult) -> list[float]:
    context = Context(result.text, _shown(result))
    return [measure_context(dialogue, each, context, BUDGET_TOKENS).said for each in dialogue.questions]


def _commits(team: Team, path: Path, moments: int, asked: _Set) -> _Set:
    with path.open(encoding="utf-8") as lines:
        rows = [RecordIn.model_validate(json.loads(line)) for line in lines]
    dates = sorted(date for row in rows if (date := row.date) is not None)
    space = space_of(team, f"lean-{path.stem}", path.stem, rows)
    found = _Set(path.stem)
    full = [at for place, at in enumerate(dates[19:]) if at - dates[place] <= WINDOW]
    for at in random.Random(SEED).sample(full, min(moments, len(full))):
        found.add(_assemble(space, at))
    newest = {name: _shown(result).keys() for name, result in _assemble(space, dates[-1]).items()}
    for question in make_questions(rows):
        answers = {rows[place].external_id for place in question.places}
        for name, shown in newest.items():
            asked.recalls[name].append(float(not answers.isdisjoint(shown)))
    delete_space(space=space)
    say(f"{path.stem}: {found.contexts} moments")
    return found


def _demo(team: Team) -> _Set:
    now = datetime.now(UTC)
    load_demo(team, now=now, actor="benchmarks", assemblies_a_day=DEMO_ASSEMBLIES_A_DAY)
    found = _Set("demo")
    for space in demo_spaces(team):
        for days in range(DEMO_DAYS):
            found.add(_assemble(space, now - timedelta(days=days)))
        today = _assemble(space, now)
        for question in Question.objects.filter(question_set__space=space).prefetch_related("records"):
            for name, result in today.items():
                found.recalls[name].append(_recall_of(question, result))
    remove_demo(team, actor="benchmarks")
    say(f"demo: {found.contexts} moments")
    return found


def _recall_of(question: Question, result: AssemblyResult) -> float:
    lines = result.record_lines
    return fmean(
        shows_evidence(
            Evidence(each.notes, line_frame(each.title, each.type, each.date, each.tags)),
            lines.get(each.pk),
            question.answer,
        )
        for each in question.records.all()
    )
