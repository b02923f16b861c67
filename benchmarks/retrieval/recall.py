"""Stage 5 on conversations: does the context for a question contain the turns that answer it?

A conversation is a space, a turn is a record, and the product assembles and logs a context for each question.
The others rank the same turns, with the same lines and budgets.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from django.test import override_settings

from benchmarks.figures import Bar, Figure, Section, at_least
from benchmarks.retrieval.dialogues import TURN_TYPE, Dialogue, Turn, load_dialogues, share_in
from benchmarks.retrieval.recallrivals import fill_room, load_rivals
from benchmarks.service.recount import Recount
from benchmarks.spaces import ENCODING, say
from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.engine.prompts.rendering import header
from contextopt.engine.prompts.values import SpaceContext
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.models import EmbeddingModel, EmbeddingState, Space, Team
from contextopt.search import registry
from contextopt.search.embedders import configured_embedder
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.search.wordcounts import count_words
from contextopt.spaces.inputs import RecordIn, SpaceIn
from contextopt.spaces.records import upsert_records
from contextopt.spaces.spaces import create_space, delete_space

BUDGETS = (1_000, 2_000, 4_000)
BARS = {"minilm": (0.79, 0.87, 0.93), "wordllama": (0.73, 0.82, 0.88)}
OURS = "Contextopt, stage 5"

_CONDITIONS = (
    "The share of a question's evidence turns that are whole in the context, averaged over questions. "
    "Questions that the conversation does not answer are left out. Default settings with the given budget."
)
_OTHERS = (
    "The others take the best of their ranking while they fit. bm25s has its defaults, embeddings are "
    "compared exactly, and the fusion combines these two with k = 60."
)

type Shares = dict[tuple[str, int], list[float]]


@dataclass(slots=True)
class _Run:
    """The shares of all questions so far, by contender and budget, for one conversation or all."""

    recount: Recount
    shares: Shares = field(default_factory=lambda: defaultdict(list))
    notes: list[str] = field(default_factory=list)


def measure_recall(team: Team, path: Path, *, mem0: Path | None, recount: Recount) -> Section:
    dialogues = load_dialogues(path)
    spaces = [_import(team, dialogue) for dialogue in dialogues]
    figures: list[Figure] = []
    notes = [_CONDITIONS, _OTHERS]
    for setting, bars in BARS.items():
        with override_settings(EMBEDDING_MODEL=setting):
            use_model(spaces)
            run = _Run(recount)
            notes += _measure(run, dialogues, spaces, mem0, setting)
        figures += _figures(run, setting, bars)
    for space in spaces:
        delete_space(space=space)
    return Section("Recall: what a context for a question holds", tuple(figures), tuple(dict.fromkeys(notes)))


def use_model(spaces: Sequence[Space]) -> None:
    """Activate the configured model and embed these spaces, whatever others the database holds."""
    records = registry.get("record")
    others = EmbeddingModel.objects.exclude(name=configured_embedder())
    others.update(state=EmbeddingState.RETIRED)
    for space in spaces:
        ensure_embedded(records, space.pk, limit=space.records.count())
        count_words(records, space.pk)


def _import(team: Team, dialogue: Dialogue) -> Space:
    slug = f"dialogue-{dialogue.name}"
    Space.objects.filter(team=team, slug=slug).delete()
    space = create_space(team=team, data=SpaceIn(slug=slug, name=dialogue.name), actor="benchmarks")
    upsert_records(space=space, rows=[row_of(turn) for turn in dialogue.turns], actor="benchmarks")
    return space


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


def _measure(
    run: _Run, dialogues: Sequence[Dialogue], spaces: Sequence[Space], mem0: Path | None, setting: str
) -> Iterator[str]:
    """Ask everyone every question. Yield notes, including one for each conversation."""
    rivals, notes = load_rivals(configured_embedder(), mem0)
    yield from notes
    for dialogue, space in zip(dialogues, spaces, strict=True):
        own = _Run(run.recount)
        _ask_ours(own, dialogue, space)
        turns = [turn.said for turn in dialogue.turns]
        asked = [question.text for question in dialogue.questions]
        for rival in rivals:
            _ask(own, rival.name, dialogue, rival.rank(turns, asked))
        for key, shares in own.shares.items():
            run.shares[key] += shares
        say(f"{setting}, {dialogue.name}: {len(dialogue.questions)} questions")
        yield f"{setting}, {dialogue.name}, {len(dialogue.questions)} questions: {_describe(own.shares)}."


def _ask_ours(run: _Run, dialogue: Dialogue, space: Space) -> None:
    for question in dialogue.questions:
        for budget in BUDGETS:
            request = AssemblyIn(
                space=space.slug,
                query=question.text,
                as_of=dialogue.ended_at,
                context_tokens=budget,
            )
            result = assemble_space(team_id=space.team_id, request=request, actor="benchmarks")
            certificate = {"tokens": result.certificate.tokens, "sha256": result.certificate.sha256}
            run.recount.check(result.text, budget=budget, certificate=certificate)
            run.shares[OURS, budget].append(share_in(result.text, question.evidence))


def _ask(run: _Run, name: str, dialogue: Dialogue, rankings: Sequence[list[int]]) -> None:
    tokenizer = get_tokenizer(ENCODING)
    title = header(SpaceContext(dialogue.name, "", (), ()))
    lines = [turn.line for turn in dialogue.turns]
    for question, ranking in zip(dialogue.questions, rankings, strict=True):
        for budget in BUDGETS:
            text = fill_room(lines, ranking, header=title, budget_tokens=budget, tokenizer=tokenizer)
            run.shares[name, budget].append(share_in(text, question.evidence))


def _describe(shares: Shares) -> str:
    names = dict.fromkeys(name for name, _ in shares)
    return "; ".join(
        f"{name} {' / '.join(f'{fmean(shares[name, budget]):.3f}' for budget in BUDGETS)}" for name in names
    )


def _figures(run: _Run, setting: str, bars: tuple[float, ...]) -> Iterator[Figure]:
    for (name, budget), shares in run.shares.items():
        share = fmean(shares)
        bar = _bar(bars[BUDGETS.index(budget)], share) if name == OURS else None
        yield Figure(f"{setting}, {budget:,} tokens: {name}", "", len(shares), share, bar=bar)


def _bar(least: float, share: float) -> Bar:
    return at_least(least, share, f"≥ {least:.2f}")
