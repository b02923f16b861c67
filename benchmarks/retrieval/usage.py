"""Estimate which records an answer used, compared with random marks, on dialogues with known evidence."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure, Section, at_least
from benchmarks.retrieval.dialogues import Dialogue, load_dialogues
from benchmarks.retrieval.recall import row_of, use_model
from benchmarks.spaces import say, space_of
from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.engine.evidence import estimate_use
from contextopt.people.models import Team
from contextopt.spaces.spaces import delete_space

BUDGET_TOKENS = 2_000
MIN_RATIO = 2.0
_CONDITIONS = (
    "Each question of a conversation that gives its answer: the product assembles 2,000 tokens, and the "
    "estimate marks the records that the expected answer probably used. Precision is the share of marked "
    "records that are evidence. Random marks as many records of each context, so its precision is the "
    "evidence's share of them. Found is the share of the evidence in the contexts that is marked."
)


class _Marks:
    """Counts of marked records, right ones, and those that random marks would get right."""

    def __init__(self) -> None:
        self.marked = self.right = self.evidence = self.questions = 0
        self.by_chance = 0.0

    def add(self, marked: set[str], evidence: frozenset[str], size: int) -> None:
        self.questions += 1
        self.marked += len(marked)
        self.right += len(marked & evidence)
        self.evidence += len(evidence)
        self.by_chance += len(marked) * len(evidence) / size


def measure_use(team: Team, paths: Sequence[Path]) -> Section:
    figures: list[Figure] = []
    for path in paths:
        dialogues = [each for each in load_dialogues(path) if any(asked.answer for asked in each.questions)]
        if dialogues:
            marks = _Marks()
            for dialogue in dialogues:
                _mark(team, dialogue, marks)
            figures += _figures(path.stem, marks)
    return Section("Use in answers: which records an answer probably used", tuple(figures), (_CONDITIONS,))


def _mark(team: Team, dialogue: Dialogue, marks: _Marks) -> None:
    space = space_of(team, f"used-{dialogue.name}", dialogue.name, map(row_of, dialogue.turns))
    use_model([space])
    for asked in dialogue.questions:
        request = AssemblyIn(
            space=space.slug, query=asked.text, as_of=dialogue.ended_at, context_tokens=BUDGET_TOKENS
        )
        result = assemble_space(team_id=team.pk, request=request, actor="benchmarks", store=False)
        names = {entry.id: entry.external_id for entry in result.ledger}
        lines = {names[pk]: line for pk, line in result.record_lines.items()}
        evidence = asked.evidence & lines.keys()
        if asked.answer and lines:
            use = estimate_use(asked.answer, asked.text, lines)
            marks.add({name for name, each in use.items() if each.is_used}, evidence, len(lines))
    say(f"{dialogue.name}: {len(dialogue.questions)} questions")
    delete_space(space=space)


def _figures(name: str, marks: _Marks) -> list[Figure]:
    precision, chance = marks.right / marks.marked, marks.by_chance / marks.marked
    ratio = precision / chance
    return [
        Figure(
            f"{name}: precision of the estimate", "", marks.questions, precision, ratio=ratio,
            bar=at_least(MIN_RATIO, ratio, f"≥ {MIN_RATIO:g} × random"),
        ),
        Figure(f"{name}: precision of random marks", "", marks.questions, chance),
        Figure(f"{name}: evidence found", "", marks.questions, marks.right / marks.evidence),
    ]  # fmt: skip
