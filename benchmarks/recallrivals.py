"""Other ways to choose the turns of a conversation for a question: each ranks, all are rendered alike."""

import importlib
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.dialogues import Dialogue
from contextopt.embedding import get_embedder
from contextopt.engine.lexical import stem
from contextopt.engine.tokens import Tokenizer

FUSION_K = 60
MEM0_SCRIPT = Path(__file__).with_name("mem0search.py")
MEM0_SECONDS = 1_800

type Ranking = list[int]
"""Places of turns in their conversation, best first."""


@dataclass(frozen=True, slots=True)
class Rival:
    """`rank` gives for each question of a conversation the ranking of its turns."""

    name: str
    rank: Callable[[Dialogue], list[Ranking]]


def load_rivals(model: str, mem0: Path | None) -> tuple[list[Rival], list[str]]:
    """Return those that can run, and a note on each that cannot."""
    found, notes = [Rival("recency", by_recency)], []
    try:
        importlib.import_module("bm25s")
    except ModuleNotFoundError:
        notes.append("bm25s is not installed; it and the fusion with it were left out.")
    else:
        found.append(Rival("bm25s", by_words))
        found.append(Rival("reciprocal rank fusion", lambda dialogue: fused(dialogue, model)))
    found.insert(2, Rival("embeddings alone", lambda dialogue: by_meaning(dialogue, model)))
    if mem0:
        found.append(Rival("mem0, infer=False", lambda dialogue: by_mem0(dialogue, model, mem0)))
        notes.append("mem0 is given the same vectors; its extras for keywords would fetch models.")
    else:
        notes.append("mem0 was left out: --mem0 names the python of an environment that has it.")
    return found, notes


def by_recency(dialogue: Dialogue) -> list[Ranking]:
    """Rank by date, as stage 3 does: the last first."""
    newest = list(reversed(range(len(dialogue.turns))))
    return [newest for _ in dialogue.questions]


def by_words(dialogue: Dialogue) -> list[Ranking]:
    """Rank by bm25s with its own weights, English stop words and a stemmer."""
    bm25s: Any = importlib.import_module("bm25s")

    def tokenize(texts: list[str]) -> Any:
        return bm25s.tokenize(texts, stopwords="en", stemmer=_stem_all, show_progress=False)

    texts = [turn.said for turn in dialogue.turns]
    index = bm25s.BM25()
    index.index(tokenize(texts), show_progress=False)
    asked = tokenize([question.text for question in dialogue.questions])
    found, _ = index.retrieve(asked, k=len(texts), show_progress=False)
    return [[int(place) for place in row] for row in found]


def _stem_all(words: Sequence[str]) -> list[str]:
    return [stem(word) for word in words]


def by_meaning(dialogue: Dialogue, model: str) -> list[Ranking]:
    """Rank by cosine, exactly."""
    embedder = get_embedder(model)
    turns = embedder.embed([turn.said for turn in dialogue.turns])
    questions = embedder.embed([question.text for question in dialogue.questions])
    return [[int(place) for place in row] for row in (-(questions @ turns.T)).argsort(axis=1, kind="stable")]


def fused(dialogue: Dialogue, model: str) -> list[Ranking]:
    """Fuse both by reciprocal ranks."""
    pairs = zip(by_words(dialogue), by_meaning(dialogue, model), strict=True)
    return [_fuse(words, meaning) for words, meaning in pairs]


def _fuse(words: Ranking, meaning: Ranking) -> Ranking:
    worth = dict.fromkeys(words, 0.0)
    for ranking in (words, meaning):
        for rank, place in enumerate(ranking, start=1):
            worth[place] += 1 / (FUSION_K + rank)
    return sorted(worth, key=lambda place: (-worth[place], place))


def by_mem0(dialogue: Dialogue, model: str, python: Path) -> list[Ranking]:
    """Rank by mem0, which stores each turn as it is and is given our vectors: it asks no model."""
    embedder = get_embedder(model)
    texts = [turn.said for turn in dialogue.turns]
    questions = [question.text for question in dialogue.questions]
    said = dict.fromkeys([*texts, *questions])
    vectors = dict(zip(said, embedder.embed(list(said)).tolist(), strict=True))
    asked = {"texts": texts, "questions": questions, "vectors": vectors}
    done = subprocess.run(
        [str(python), str(MEM0_SCRIPT)],
        input=json.dumps(asked).encode(),
        stdout=subprocess.PIPE,
        timeout=MEM0_SECONDS,
        check=True,
    )
    rankings: list[Ranking] = json.loads(done.stdout)
    return rankings


def fill_room(
    lines: Sequence[str], ranking: Ranking, *, header: str, budget_tokens: int, tokenizer: Tokenizer
) -> str:
    """Take the lines in their order while the next one fits, as the product does."""
    left = budget_tokens - tokenizer.count(header + "\n")
    taken = []
    for place in ranking:
        left -= tokenizer.count(lines[place])
        if left < 0:
            break
        taken.append(lines[place])
    return f"{header}\n{''.join(taken)}"
