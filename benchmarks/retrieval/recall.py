"""Stage 5 on conversations: does the context for a question contain the turns that answer it?

A conversation is a space, a turn is a record, and the product assembles and logs a context for each question.
The others rank the same turns, with the same lines and budgets.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from django.test import override_settings

from benchmarks.figures import Figure, Section, at_least, at_most
from benchmarks.retrieval.dialogues import Dialogue, Turn, load_dialogues
from benchmarks.retrieval.evidence import Context, Measured, measure_context
from benchmarks.retrieval.recallrivals import fill_room, load_rivals
from benchmarks.service.recount import Recount
from benchmarks.spaces import ENCODING, say, space_of
from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.results import AssemblyResult
from contextopt.engine.rendering import header
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.engine.values import SpaceContext
from contextopt.people.models import Team
from contextopt.search import registry
from contextopt.search.embedders.current import configured_embedder
from contextopt.search.models import EmbeddingModel, EmbeddingState
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.search.wordcounts import count_words
from contextopt.spaces.importing.dialogues import TURN_TYPE
from contextopt.spaces.inputs import RecordIn
from contextopt.spaces.models import Space
from contextopt.spaces.spaces import delete_space

BUNDLED = "wordllama"
OURS = "Contextopt, stage 5"
ADAPTIVE = "Contextopt, adaptive"
WITHOUT_TOPICS = "without topics"
BARE = ", bare lines"
VARIANT_TOKENS = 2_000
"""Budget at which the variants are measured."""
VARIANTS: dict[str, dict[str, Any]] = {
    ADAPTIVE: {"budget_mode": "adaptive"},
    "without neighbours": {"neighbour_share": 0},
    "without dates": {"date_weight": 0},
    "without persons": {"who_weight": 0},
    "without recency": {"recency_weight": 0},
    "records of any length": {"record_tokens": "all"},
}
"""Request settings of our variants: the adaptive budget, and the default settings without one part each.

Topics need the positions of turns in their thread, so the variant without topics uses a space without them.
"""

_CONDITIONS = (
    "The share of a question's evidence in the context, averaged over questions. A turn counts if the "
    "context shows at least half of the answer's content words that the turn holds. QMSum has no answers, so "
    "the tokens of the evidence's lines count, of those that could fit, and in a second figure the tokens of "
    "what was said alone, of those that could fit. Precision is the share of the turns in a context that are "
    "evidence. Questions that the conversation does not answer are left out. Default settings with the given "
    "budget."
)
_OTHERS = (
    "The others take the best of their ranking while they fit, with our lines and with bare ones: a name, a "
    "colon and the text. bm25s has its defaults, embeddings are compared exactly, the fusion combines these "
    "two with k = 60, and the smoothed fusion spreads it over the turns around by a normal distribution with "
    "a deviation of 16 turns."
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of conversation: the budgets to measure at, and the minimum recall at each, by model."""

    name: str
    prefix: str
    budgets: tuple[int, ...]
    bars: Mapping[str, tuple[float, ...]]
    adaptive: tuple[float, float]
    """The recall that an adaptive budget may lose, and the share of the fixed budget's tokens it may take."""
    has_topics: bool = False


KINDS = (
    Kind(
        "LoCoMo",
        "conv-",
        (1_000, 2_000, 4_000),
        {BUNDLED: (0.81, 0.87, 0.91), "minilm": (0.82, 0.88, 0.925)},
        (0.015, 0.70),
    ),
    Kind("BEAM", "beam-", (1_000, 2_000, 4_000, 8_000), {BUNDLED: (0.48, 0.54, 0.62, 0.70)}, (0.02, 0.90)),
    Kind("QMSum", "qmsum-", (450, 1_000), {BUNDLED: (0.40, 0.48)}, (0.02, 0.90), has_topics=True),
)

type _Asked = tuple[str, Space, int, dict[str, Any]]
type Results = dict[tuple[str, int], list[Measured]]


@dataclass(frozen=True, slots=True)
class _Run:
    """The results for one model and kind of conversation so far, by contender and budget."""

    model: str
    kind: Kind
    mem0: Path | None
    recount: Recount
    results: Results = field(default_factory=lambda: defaultdict(list))


def measure_recall(
    team: Team, paths: Sequence[Path], *, models: Sequence[str], mem0: Path | None, recount: Recount
) -> Section:
    dialogues = [dialogue for path in paths for dialogue in load_dialogues(path)]
    spaces = {dialogue.name: _Spaces.of(team, dialogue) for dialogue in dialogues}
    figures: list[Figure] = []
    notes = [_CONDITIONS, _OTHERS]
    for model in models:
        for kind in KINDS:
            own = [dialogue for dialogue in dialogues if dialogue.name.startswith(kind.prefix)]
            if own:
                run = _Run(model, kind, mem0, recount)
                notes += _measure(run, own, spaces)
                figures += _figures(run)
                notes += _describe_kinds(run)
    for each in spaces.values():
        for space in each.all:
            delete_space(space=space)
    return Section("Recall: what a context for a question holds", tuple(figures), tuple(dict.fromkeys(notes)))


def use_model(spaces: Sequence[Space]) -> None:
    """Activate the configured model and embed these spaces, but no others in the database."""
    records = registry.get("record")
    others = EmbeddingModel.objects.exclude(name=configured_embedder())
    others.update(state=EmbeddingState.RETIRED)
    for space in spaces:
        ensure_embedded(records, space.pk, limit=space.records.count())
        count_words(records, space.pk)


class _Spaces(NamedTuple):
    """A dialogue as a space and, if it may have topics, as a second space without the records' positions."""

    placed: Space
    unplaced: Space | None

    @classmethod
    def of(cls, team: Team, dialogue: Dialogue) -> "_Spaces":
        rows = [row_of(turn) for turn in dialogue.turns]
        slug = f"dialogue-{dialogue.name}"
        placed = space_of(team, f"{slug}-placed", dialogue.name, rows)
        if not _kind(dialogue).has_topics:
            return cls(placed, None)
        unplaced = [row.model_copy(update={"position": None}) for row in rows]
        return cls(placed, space_of(team, f"{slug}-unplaced", dialogue.name, unplaced))

    @property
    def all(self) -> list[Space]:
        return [space for space in self if space is not None]


def _kind(dialogue: Dialogue) -> Kind:
    return next(kind for kind in KINDS if dialogue.name.startswith(kind.prefix))


def row_of(turn: Turn) -> RecordIn:
    """Return a turn as a record."""
    return RecordIn(
        title=turn.speaker,
        type=TURN_TYPE,
        date=turn.said_at,
        notes=turn.text,
        thread=f"session-{turn.session}",
        position=turn.position,
        source="dialogue",
        external_id=turn.id,
    )


def _measure(run: _Run, dialogues: Sequence[Dialogue], spaces: Mapping[str, _Spaces]) -> Iterator[str]:
    """Ask all contenders every question. Yield notes on rivals that cannot run, and on each conversation."""
    with override_settings(EMBEDDING_MODEL=run.model):
        use_model([space for dialogue in dialogues for space in spaces[dialogue.name].all])
        rivals, notes = load_rivals(configured_embedder(), run.mem0)
        yield from notes
        for dialogue in dialogues:
            results: Results = defaultdict(list)
            _ask_ours(run, results, dialogue, spaces[dialogue.name])
            asked = [question.text for question in dialogue.questions]
            for rival in rivals:
                rankings = rival.rank([turn.said for turn in dialogue.turns], asked)
                _ask(run, results, rival.name, dialogue, rankings)
            for key, measured in results.items():
                run.results[key] += measured
            say(f"{run.model}, {dialogue.name}: {len(asked)} questions")
            yield f"{run.model}, {dialogue.name}, {len(asked)} questions: {_describe(results)}."


def _ask_ours(run: _Run, results: Results, dialogue: Dialogue, spaces: _Spaces) -> None:
    fixed = dict.fromkeys((*run.kind.budgets, VARIANT_TOKENS))
    asked: list[_Asked] = [(OURS, spaces.placed, budget, {}) for budget in fixed]
    asked += [(name, spaces.placed, VARIANT_TOKENS, changes) for name, changes in VARIANTS.items()]
    if spaces.unplaced:
        asked += [(WITHOUT_TOPICS, spaces.unplaced, budget, {}) for budget in fixed]
    for question in dialogue.questions:
        for name, space, budget, changes in asked:
            request = AssemblyIn(
                space=space.slug,
                query=question.text,
                as_of=dialogue.ended_at,
                context_tokens=budget,
                **changes,
            )
            result = assemble_space(team_id=space.team_id, request=request, actor="benchmarks")
            run.recount.check(result.text, budget=budget, certificate=result.certificate.to_json())
            results[name, budget].append(measure_context(dialogue, question, context_of(result), budget))


def context_of(result: AssemblyResult) -> Context:
    """Return the text of a context, and its lines by the ids of their turns."""
    names = {entry.id: entry.external_id for entry in result.outcome.ledger}
    return Context(result.text, {names[pk]: line for pk, line in result.record_lines.items()})


def _ask(
    run: _Run, results: Results, name: str, dialogue: Dialogue, rankings: Sequence[Sequence[int]]
) -> None:
    tokenizer = get_tokenizer(ENCODING)
    has_dates = dialogue.day is None
    title = header(SpaceContext(dialogue.name, "", (), ()), dialogue.day)
    forms = {name: [turn.line_after(turn.frame(has_date=has_dates)) for turn in dialogue.turns]}
    forms[name + BARE] = [turn.line_after(turn.bare_frame) for turn in dialogue.turns]
    for (form, lines), budget in product(forms.items(), run.kind.budgets):
        for question, ranking in zip(dialogue.questions, rankings, strict=True):
            taken = fill_room(lines, ranking, header=title, budget_tokens=budget, tokenizer=tokenizer)
            text = f"{title}\n{''.join(lines[place] for place in taken)}"
            shown = {dialogue.turns[place].id: lines[place] for place in taken}
            context = Context(text, shown, is_bare=form != name)
            results[form, budget].append(measure_context(dialogue, question, context, budget))


def _describe(results: Results) -> str:
    """Return each contender's recall at each budget."""
    found: dict[str, list[str]] = defaultdict(list)
    for (name, _), measured in results.items():
        found[name].append(f"{_recall(measured):.3f}")
    return "; ".join(f"{name} {' / '.join(shares)}" for name, shares in found.items())


def _describe_kinds(run: _Run) -> Iterator[str]:
    """Yield a note for each contender and budget: precision, tokens, empties, recall by kind of question."""
    for (name, budget), measured in run.results.items():
        kinds = Counter(each.kind for each in measured)
        shares = ", ".join(
            f"{kind} ({count}) {_recall([each for each in measured if each.kind == kind]):.2f}"
            for kind, count in sorted(kinds.items())
        )
        precision = fmean(each.precision for each in measured)
        tokens = fmean(each.tokens for each in measured)
        empty = sum(each.is_empty for each in measured)
        yield (
            f"{run.kind.name}, {run.model}, {budget:,} tokens, {name}: recall {_recall(measured):.3f}, "
            f"of what was said {fmean(each.said for each in measured):.3f}, precision {precision:.3f}, "
            f"{tokens:,.0f} tokens, {empty} empty; {shares}."
        )


def _figures(run: _Run) -> Iterator[Figure]:
    bars = dict(zip(run.kind.budgets, run.kind.bars.get(run.model, ()), strict=False))
    for (name, budget), measured in run.results.items():
        share, least = _recall(measured), bars.get(budget)
        bar = at_least(least, share, f"≥ {least:g}") if name == OURS and least else None
        yield Figure(
            f"{run.kind.name}, {run.model}, {budget:,} tokens: {name}", "", len(measured), share, bar=bar
        )
    yield from _adaptive_figures(run)


def _adaptive_figures(run: _Run) -> Iterator[Figure]:
    """Compare the adaptive budget with the fixed one: recall lost, and tokens taken."""
    fixed, adaptive = run.results[OURS, VARIANT_TOKENS], run.results[ADAPTIVE, VARIANT_TOKENS]
    lost = _recall(fixed) - _recall(adaptive)
    share = sum(each.tokens for each in adaptive) / sum(each.tokens for each in fixed)
    most_lost, most_tokens = run.kind.adaptive
    name = f"{run.kind.name}, {run.model}, adaptive"
    yield Figure(
        f"{name}: recall lost", "", len(adaptive), lost, bar=at_most(most_lost, lost, f"≤ {most_lost:g}")
    )
    yield Figure(
        f"{name}: share of the tokens", "", len(adaptive), share,
        bar=at_most(most_tokens, share, f"≤ {most_tokens:g}"),
    )  # fmt: skip


def _recall(measured: Sequence[Measured]) -> float:
    return fmean(each.recall for each in measured)
