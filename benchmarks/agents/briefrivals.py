"""Other ways to shorten sentences to a budget: plain greedy coverage, the first sentences, and sumy."""

import importlib
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from contextopt.engine.text.tokens import get_tokenizer

type Summarise = Callable[[Sequence[str], int], str]

_SUMY = {
    "LexRank": ("lex_rank", "LexRankSummarizer"),
    "TextRank": ("text_rank", "TextRankSummarizer"),
    "SumBasic": ("sum_basic", "SumBasicSummarizer"),
}


def load_rivals(names: re.Pattern[str]) -> tuple[dict[str, Summarise], list[str]]:
    """Return the rivals whose packages are installed, and a note if sumy is not."""
    rivals: dict[str, Summarise] = {"plain greedy coverage": partial(greedy, names), "lead": take_in_order}
    try:
        rivals |= {f"sumy {name}": _sumy(*place) for name, place in _SUMY.items()}
    except ModuleNotFoundError:
        return rivals, ["sumy is not installed and was left out."]
    return rivals, []


def take_in_order(sentences: Sequence[str], budget_tokens: int) -> str:
    """Take sentences in the given order while they fit."""
    count = get_tokenizer("cl100k_base").count
    taken: list[str] = []
    left = budget_tokens
    for sentence in dict.fromkeys(sentences):
        if (price := count(f"{sentence}\n")) <= left:
            taken.append(sentence)
            left -= price
    return "\n".join(taken)


def greedy(pattern: re.Pattern[str], sentences: Sequence[str], budget_tokens: int) -> str:
    """Repeatedly take the sentence with the most new names per token."""
    count = get_tokenizer("cl100k_base").count
    waiting = {sentence: (set(pattern.findall(sentence)), count(f"{sentence}\n")) for sentence in sentences}
    covered: set[str] = set()
    taken: list[str] = []
    left = budget_tokens
    while waiting:
        best = max(waiting, key=lambda sentence: len(waiting[sentence][0] - covered) / waiting[sentence][1])
        names, price = waiting.pop(best)
        if price <= left and names - covered:
            taken.append(best)
            covered |= names
            left -= price
    return "\n".join(taken)


class _Words:
    """A tokenizer for sumy. Its own would download data."""

    def to_sentences(self, text: str) -> list[str]:
        return text.split("\n")

    def to_words(self, sentence: str) -> list[str]:
        return re.findall(r"\w+", sentence.lower())


def _sumy(module: str, name: str) -> Summarise:
    dom: Any = importlib.import_module("sumy.models.dom")
    summarizer: Any = getattr(importlib.import_module(f"sumy.summarizers.{module}"), name)()
    words = _Words()

    def summarise(sentences: Sequence[str], budget_tokens: int) -> str:
        paragraph = dom.Paragraph([dom.Sentence(sentence, words) for sentence in sentences])
        document = dom.ObjectDocumentModel([paragraph])
        count = get_tokenizer("cl100k_base").count
        low, high, best = 1, len(sentences), ""
        while low <= high:
            middle = (low + high) // 2
            text = "\n".join(str(sentence) for sentence in summarizer(document, middle))
            if count(text) <= budget_tokens:
                low, best = middle + 1, text
            else:
                high = middle - 1
        return best

    return summarise
