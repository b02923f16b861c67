"""Other ways to rank texts for a question: the turns of a conversation, the records of a space."""

import importlib
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from contextopt.engine.text.lexical import stem
from contextopt.engine.text.tokens import Tokenizer
from contextopt.search.embedders.current import get_embedder

FUSION_K = 60
SMOOTHED_TURNS = 16
"""The smoothed fusion spreads a turn's worth by a normal distribution with this deviation."""
MEM0_SCRIPT = Path(__file__).with_name("mem0search.py")
MEM0_SECONDS = 1_800

type Ranking = list[int]
"""Positions of texts, best first."""


@dataclass(frozen=True, slots=True)
class Rival:
    """`rank` takes texts, oldest first, and questions, and returns a ranking of the texts for each question.

    A rival that does not use words gives the same ranking for all questions.
    """

    name: str
    rank: Callable[[Sequence[str], Sequence[str]], list[Ranking]]
    is_about_words: bool = True


def load_rivals(model: str, mem0: Path | None) -> tuple[list[Rival], list[str]]:
    """Return the rivals that can run, and a note on each that cannot."""
    found, notes = [Rival("recency", by_recency, is_about_words=False)], []
    try:
        importlib.import_module("bm25s")
    except ModuleNotFoundError:
        notes.append("bm25s is not installed, so it and the fusions with it were left out.")
    else:
        found.append(Rival("bm25s", by_words))
        found.append(Rival("reciprocal rank fusion", partial(fused, model=model)))
        found.append(Rival("smoothed fusion", partial(smoothed, model=model)))
    found.insert(2, Rival("embeddings alone", partial(by_meaning, model=model)))
    if mem0:
        found.append(Rival("mem0, infer=False", partial(by_mem0, model=model, python=mem0)))
        notes.append("mem0 gets the same vectors. Its keyword extras would download models.")
    else:
        notes.append("mem0 was left out. Pass --mem0 with the Python of an environment that has it.")
    return found, notes


def by_recency(texts: Sequence[str], questions: Sequence[str]) -> list[Ranking]:
    """Rank by date, as stage 3 does: newest first."""
    newest = list(reversed(range(len(texts))))
    return [newest for _ in questions]


def by_words(texts: Sequence[str], questions: Sequence[str]) -> list[Ranking]:
    """Rank by bm25s with its own weights, English stop words and a stemmer."""
    bm25s: Any = importlib.import_module("bm25s")

    def tokenize(some: Sequence[str]) -> Any:
        return bm25s.tokenize(list(some), stopwords="en", stemmer=_stem_all, show_progress=False)

    index = bm25s.BM25()
    index.index(tokenize(texts), show_progress=False)
    asked = tokenize(questions)
    found, _ = index.retrieve(asked, k=len(texts), show_progress=False)
    return [[int(place) for place in row] for row in found]


def _stem_all(words: Sequence[str]) -> list[str]:
    return [stem(word) for word in words]


def by_meaning(texts: Sequence[str], questions: Sequence[str], *, model: str) -> list[Ranking]:
    """Rank by cosine, exactly."""
    embedder = get_embedder(model)
    said, asked = embedder.embed(texts), embedder.embed(questions)
    return [[int(place) for place in row] for row in (-(asked @ said.T)).argsort(axis=1, kind="stable")]


def fused(texts: Sequence[str], questions: Sequence[str], *, model: str) -> list[Ranking]:
    """Fuse the rankings by words and by meaning by reciprocal ranks."""
    pairs = zip(by_words(texts, questions), by_meaning(texts, questions, model=model), strict=True)
    return [_fuse(words, meaning) for words, meaning in pairs]


def smoothed(texts: Sequence[str], questions: Sequence[str], *, model: str) -> list[Ranking]:
    """Fuse both rankings, and spread each text's worth over the texts before and after it."""
    pairs = zip(by_words(texts, questions), by_meaning(texts, questions, model=model), strict=True)
    apart = np.arange(3 * SMOOTHED_TURNS, -3 * SMOOTHED_TURNS - 1, -1) / SMOOTHED_TURNS
    spread = np.exp(-0.5 * apart**2)
    reach = len(spread) // 2
    found = []
    for words, meaning in pairs:
        worth = _worth(words, meaning)
        wide = np.convolve([worth[place] for place in range(len(texts))], spread)[reach : reach + len(texts)]
        found.append([int(place) for place in (-wide).argsort(kind="stable")])
    return found


def _fuse(words: Ranking, meaning: Ranking) -> Ranking:
    worth = _worth(words, meaning)
    return sorted(worth, key=lambda place: (-worth[place], place))


def _worth(words: Ranking, meaning: Ranking) -> dict[int, float]:
    worth = dict.fromkeys(words, 0.0)
    for ranking in (words, meaning):
        for rank, place in enumerate(ranking, start=1):
            worth[place] += 1 / (FUSION_K + rank)
    return worth


def by_mem0(texts: Sequence[str], questions: Sequence[str], *, model: str, python: Path) -> list[Ranking]:
    """Rank by mem0, which stores each text unchanged and gets our vectors, so it calls no model."""
    embedder = get_embedder(model)
    said = dict.fromkeys([*texts, *questions])
    vectors = dict(zip(said, embedder.embed(list(said)).tolist(), strict=True))
    asked = {"texts": list(texts), "questions": list(questions), "vectors": vectors}
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
    lines: Sequence[str], ranking: Sequence[int], *, header: str, budget_tokens: int, tokenizer: Tokenizer
) -> list[int]:
    """Take lines in order while the next one fits, as the product does, and return their positions."""
    left = budget_tokens - tokenizer.count(header + "\n")
    taken = []
    for place in ranking:
        left -= tokenizer.count(lines[place])
        if left < 0:
            break
        taken.append(place)
    return taken
