"""The cost of conversations after the provider's cache, for each placement of the context.

The questions about a dialogue, in the order of the file, are the turns of conversations.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Bar, Figure, Section, at_least, at_most
from benchmarks.retrieval.dialogues import Dialogue, Question, load_dialogues
from benchmarks.retrieval.evidence import Context, measure_context
from benchmarks.retrieval.recall import row_of, use_model
from benchmarks.spaces import say, space_of
from contextopt.assemblies.placement.rehearsal import (
    Outcome,
    QuestionIn,
    Rehearsal,
    Script,
    load_rehearsal,
    rehearse,
)
from contextopt.engine.placement.choice import AUTO, SYSTEM, CachePrices
from contextopt.people.models import Team
from contextopt.spaces.spaces import delete_space

CONTEXT_TOKENS = 2_000
TURNS = (5, 15)
BEST_TIMES = 1.05
"""The maximum cost of `auto`, as a multiple of the best fixed placement."""

_CONDITIONS = (
    "The questions about every given dialogue, in the order of the file, are cut into conversations of 5 and "
    "of 15 turns; a shorter rest is left out, and nothing is drawn at random. System prompt 800 tokens, "
    "answers 120, context 2,000, history uncut, at most 8,000 in sight, default settings, bundled model. "
    "The cost of a prompt is cached × read + the rest × write, in input tokens at full price; below 1,024 "
    "tokens nothing is cached, and each prompt comes within the cache's lifetime. Recall as in the section "
    "on recall, over what is in sight."
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Prices of cached reads and writes, and the maximum cost of `auto` against `system`, by turns."""

    prices: CachePrices
    bars: Mapping[int, float]

    @property
    def name(self) -> str:
        return f"read {self.prices.read:g}, write {self.prices.write:g}"


SCENARIOS = (
    Scenario(CachePrices(0.1, 1.25), {5: 0.66, 15: 0.52}),
    Scenario(CachePrices(0.5, 1.0), {5: 0.94, 15: 0.82}),
    Scenario(CachePrices(0.1, 1.0), {}),
    Scenario(CachePrices(0.25, 1.0), {}),
    Scenario(CachePrices(), {}),
)


def measure_placement(team: Team, paths: Sequence[Path]) -> Section:
    figures: list[Figure] = []
    known: dict[tuple[str, str], tuple[Dialogue, Question]] = {}
    loaded: list[Rehearsal] = []
    for dialogue in (dialogue for path in paths for dialogue in load_dialogues(path)):
        known |= {(dialogue.name, question.text): (dialogue, question) for question in dialogue.questions}
        loaded.append(_load(team, dialogue))
        say(f"{dialogue.name}: {len(dialogue.questions)} questions")
    asked = {
        id(question): known[rehearsal.name, question.query]
        for rehearsal in loaded
        for question in rehearsal.questions
    }

    def recall(question: QuestionIn, lines: Mapping[str, str]) -> float:
        return measure_context(*asked[id(question)], Context("", lines), CONTEXT_TOKENS).recall

    for turns in TURNS:
        conversations = [part for rehearsal in loaded for part in rehearsal.slices(turns)]
        for scenario in SCENARIOS:
            outcomes = {
                outcome.placement: outcome
                for outcome in rehearse(
                    conversations, scenario.prices, context_tokens=CONTEXT_TOKENS, recall=recall
                )
            }
            figures += _figures(turns, scenario, outcomes, len(conversations))
            say(f"{turns} turns, {scenario.name}: {len(conversations)} conversations")
    return Section("Cost of conversations after the provider's cache", tuple(figures), (_CONDITIONS,))


def _load(team: Team, dialogue: Dialogue) -> Rehearsal:
    """Load the candidates of every question from a temporary space."""
    rows = tuple(map(row_of, dialogue.turns))
    space = space_of(team, f"placement-{dialogue.name}", dialogue.name, rows)
    use_model([space])
    questions = tuple(
        QuestionIn(query=question.text, answer=question.answer, expected=sorted(question.evidence))
        for question in dialogue.questions
    )
    loaded = load_rehearsal(space, Script(dialogue.name, rows, questions), context_tokens=CONTEXT_TOKENS)
    delete_space(space=space)
    return loaded


def _figures(turns: int, scenario: Scenario, outcomes: Mapping[str, Outcome], count: int) -> Iterator[Figure]:
    system, auto = outcomes[SYSTEM], outcomes[AUTO]
    best = min(outcome.cost for outcome in outcomes.values() if outcome.placement != AUTO)
    for name, outcome in outcomes.items():
        label = f"{turns} turns, {scenario.name}: {name}"
        share = outcome.cost / system.cost
        most = scenario.bars.get(turns)
        bar = at_most(most, share, f"≤ {most:g}") if name == AUTO and most else None
        yield Figure(f"{label}, cost against system", "", count, share, bar=bar)
        yield Figure(f"{label}, from the cache", "", count, outcome.hit_rate)
        yield Figure(f"{label}, recall", "", count, outcome.recall or 0.0, bar=_recall_bar(outcome, system))
    label = f"{turns} turns, {scenario.name}: auto, cost against the best fixed placement"
    ratio = auto.cost / best
    yield Figure(label, "", count, ratio, bar=at_most(BEST_TIMES, ratio, f"≤ {BEST_TIMES:g}"))


def _recall_bar(outcome: Outcome, system: Outcome) -> Bar | None:
    if outcome.placement != AUTO:
        return None
    least = system.recall or 0.0
    return at_least(least, outcome.recall or 0.0, f"≥ {least:.3f}")
