"""Hesitations, sounds and broken sentences in transcripts of speech."""

import re
from itertools import pairwise

_MARK = (
    r"\{(?:disfmarker|vocalsound|nonvocalsound|pause|gap|comment)\}"
    r"|\[(?:laughter|inaudible|crosstalk|pause)\]"
)
# "Um" is a word in other languages, so it only counts before a comma or an English word.
_SOUND = (
    r"(?:uh+|uh?m+(?=\s*,|\s+(?:I|so|and|the|we|yeah)\b)|eh+m*|erm+|ah+|oh+|h+m+|mm+\W?hmm*|uh\W?huh|øhm?)"
    r"(?![\w'’])"
)
_BEGINNING = re.compile(rf"(?:[\s,.;–—-]*(?:{_MARK}|{_SOUND}))+[\s,.;?!–—-]*", re.IGNORECASE)
_END = re.compile(rf"(?:[\s,]*(?:{_MARK}))+$")
_MARK_OR_SOUND = re.compile(rf"{_MARK}|(?<![\w'’]){_SOUND}", re.IGNORECASE)
_WORD = re.compile(r"[\w'’]+")
# Short words that may begin the next one ("the theme") or stand alone.
_SHORT_WORDS_WORDS = """
a i an to in the is on for of it so no be re un at as or and det en er av på å e
"""
_SHORT_WORDS = frozenset(_SHORT_WORDS_WORDS.split())
# Only this many characters at the end of a sentence show whether it broke off.
_UNFINISHED_CHARS = 40
_UNFINISHED = re.compile(
    rf"(?:[,–—-]|{_MARK})\s*[.!?]?$|\b(?:and|or|the|a|an|to|of|og|eller|som|å)\s*[.…]?$", re.IGNORECASE
)


def trim_sounds(sentence: str) -> str:
    """Return the sentence without sounds at its beginning and end; an empty text if it has nothing else."""
    if beginning := _BEGINNING.match(sentence):
        sentence = sentence[beginning.end() :]
    # Keep the mark of a sentence that broke off, since `is_unfinished` looks for it.
    end = sentence.rstrip()
    if end.endswith("{disfmarker}") or not end.endswith(("}", "]")):
        return sentence
    return _END.sub("", sentence)


def count_stumbles(text: str) -> int:
    """Count sounds, marks, repeated words, and word beginnings that the whole word follows."""
    words = _WORD.findall(text.lower())
    twice = sum(
        1
        for word, after in pairwise(words)
        if after.startswith(word) and (word == after or word not in _SHORT_WORDS) and not word.isdigit()
    )
    return twice + sum(1 for _ in _MARK_OR_SOUND.finditer(text))


def is_unfinished(sentence: str) -> bool:
    """Return whether the sentence broke off."""
    return bool(_UNFINISHED.search(sentence, max(0, len(sentence) - _UNFINISHED_CHARS)))
