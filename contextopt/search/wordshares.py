"""The share of a question's words that texts hold. Unlike BM25, each word counts the same."""

import re
from collections.abc import Sequence

from contextopt.engine.text.cleaning import normal_form
from contextopt.engine.text.lexical import UNSPACED
from contextopt.search.words import AGENT, AGENT_ENDINGS, without_ends
from contextopt.sql import fetch_column

_UNSPACED = re.compile(f"[{UNSPACED}]")

type Word = frozenset[str]
"""The stems of one word; any of them stands for it."""


def held_shares(question: str, texts: Sequence[tuple[str, str]]) -> list[float]:
    """Return the share of the question's words that each text holds, from 0 to 1.

    Texts are given with their language, whose stemmer and stop words count for both. A single character of a
    script without blanks is also held as part of a pair.
    """
    languages = list(dict.fromkeys(language for language, _ in texts))
    stems = _read_stems([*((language, question) for language in languages), *texts])
    words = {
        language: _words_of(question, language, found)
        for language, found in zip(languages, stems, strict=False)
    }
    held = zip(texts, stems[len(languages) :], strict=True)
    return [_share(words[language], set(found)) for (language, _), found in held]


def _read_stems(texts: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Return the stems of each text's words, without the stop words of its language."""
    return fetch_column(
        """
        SELECT tsvector_to_array(contextopt_search_words(contextopt_search_config(language), content))
          FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS given(language, content, place)
         ORDER BY place
        """,
        [[language for language, _ in texts], [content for _, content in texts]],
    )


def _words_of(question: str, language: str, stems: Sequence[str]) -> tuple[Word, ...]:
    """Return each stem, or in its place all stems of the Norwegian noun in -er that it belongs to."""
    bases = AGENT.findall(normal_form(question).lower()) if language == "no" else ()
    nouns = [frozenset(base + ending for ending in AGENT_ENDINGS) for base in bases]
    found = (
        next((noun for noun in nouns if stem in noun), frozenset([stem])) for stem in without_ends(stems)
    )
    return tuple(dict.fromkeys(found))


def _share(words: Sequence[Word], stems: set[str]) -> float:
    begun = {stem[0] for stem in stems if _UNSPACED.match(stem)}
    held = sum(not word.isdisjoint(stems) or word <= begun for word in words)
    return held / len(words) if words else 0.0
