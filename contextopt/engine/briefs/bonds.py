"""Decide which sentences of a text may only stand together.

A sentence is never cut. It also never stands without the next one if that limits it ("This does not apply to
refunds."), nor without the one before if it refers to it or if that limits it ("The following is not true.").
A list item never stands without the line that introduces its list.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from contextopt.engine.briefs.predicates import has_predicate
from contextopt.engine.briefs.qualifiers import qualifies, takes_back
from contextopt.engine.text.sentences import Sentence

MAX_BONDED = 40
"""Maximum sentences before one that it is compared with."""

_POINTING = """
this that these those such both neither none nor or same former latter exception exceptions
dette disse slik slike slikt sånn sånt begge ingen samme unntak unntaket
"""
_PRONOUNS = """
it its he his she her they them their one some others another each either all
de dem deres hun han hans hennes noen andre en ett
"""
_CONNECTING = """
but and then thus hence therefore otherwise else instead however although though yet still except excepting
unless save barring besides only not no never also again because since until provided assuming if when where
once while meanwhile nevertheless nonetheless conversely contrary unlike apart other which who whose
men og da derfor dermed ellers istedenfor imidlertid likevel derimot unntatt bortsett med bare kun ikke nei nja
aldri også fordi siden inntil forutsatt hvis dersom når der mens utenom eller som
"""
_OPENING = re.compile(r"[^\w]*(?:(?:and|og|yes|yeah|well|the|an?)\s+)?([^\W\d_]+)", re.IGNORECASE)
_POINTS = frozenset(_POINTING.split())
_REFERS = _POINTS | frozenset(_PRONOUNS.split()) | frozenset(_CONNECTING.split())
_ANNOUNCES = re.compile(
    r"\b(?:following|follows|below|next|suppose|supposing|assume|assuming|imagine|consider|følgende|følger|nedenfor"
    r"|neste|anta|tenk|gitt)\b|[:：]$",
    re.IGNORECASE,
)
# A word that is not a name, after the label if there is one.
_PLAIN = re.compile(r"^(?:[^:]*:)?.*?(?<!\w)[a-zæøå]{2,}")
_FINAL = re.compile(r"[.!?…。！？؟।][\"'”’)\]]*$")
MAX_FRAGMENT_WORDS = 12


def find_bonds(sentences: Sequence[Sentence]) -> tuple[frozenset[int], ...]:
    """Return for each sentence the places of all that must come with it, itself included."""
    needs = [{place} for place in range(len(sentences))]
    for place, sentence in enumerate(sentences):
        if sentence.intro is not None:
            needs[place].add(sentence.intro)
        if place and limits(sentence, sentences[place - 1]):
            for earlier in range(_reach_back(sentences, place), place):
                needs[earlier].add(place)
        if place and refers_back(sentence, sentences[place - 1]):
            needs[place].add(place - 1)
        for later in range(place + 1, _reach_on(sentences, place)):
            needs[later].add(place)
    return tuple(_closed(place, needs) for place in range(len(sentences)))


def limits(sentence: Sentence, before: Sentence) -> bool:
    """Return whether the sentence may take back something of the one before."""
    if sentence.kind == "heading":
        return False
    if takes_back(sentence.text) or _points(sentence.text) or _is_continued(before, sentence):
        return True
    if (sentence.kind == "label" or _refers(sentence.text)) and qualifies(sentence.text):
        return True
    if not is_fragment(sentence.text):
        return False
    return sentence.block == before.block or bool(_FINAL.search(before.text) and _PLAIN.search(sentence.text))


def refers_back(sentence: Sentence, before: Sentence) -> bool:
    """Return whether the sentence says little without the one before."""
    if _is_continued(before, sentence):
        return True
    if sentence.kind == "item" and sentence.block != before.block:
        return False
    return _refers(sentence.text) or (sentence.block == before.block and is_fragment(sentence.text))


@lru_cache(maxsize=10_000)
def is_fragment(text: str) -> bool:
    """Return whether the text is a few words without a verb."""
    return len(text.split()) <= MAX_FRAGMENT_WORDS and not has_predicate(text)


def opens_in_the_air(text: str) -> bool:
    """Return whether the text begins with a reference to something before it."""
    return _refers(text)


def _reach_on(sentences: Sequence[Sentence], place: int) -> int:
    """Return the end of the sentences after the one at this place for which it sets a condition or a denial."""
    sentence, end = sentences[place], place + 1
    if sentence.kind == "heading" or end == len(sentences):
        return end
    is_denial = takes_back(sentence.text)
    is_title = not _FINAL.search(sentence.text) and (place == 0 or sentences[place - 1].block != sentence.block)
    if is_title and is_denial and sentence.kind == "paragraph":
        while end < len(sentences) and sentences[end].kind != "heading":
            end += 1
    elif _ANNOUNCES.search(sentence.text):
        block = sentences[end].block
        while end < len(sentences) and sentences[end].block == block and (is_denial or end == place + 1):
            end += 1
    elif sentences[end].block == sentence.block and is_fragment(sentence.text) and qualifies(sentence.text):
        end += 1
    return end


def _reach_back(sentences: Sequence[Sentence], place: int) -> int:
    """Return the first sentence that the one at this place may limit."""
    sentence, first = sentences[place], max(0, place - MAX_BONDED)
    if not takes_back(sentence.text) and not (qualifies(sentence.text) and _points(sentence.text)):
        return place - 1
    is_for_all = sentence.kind == "label" or _points(sentence.text)
    while first < place - 1 and not _is_within_reach(sentences[first], sentence, is_for_all):
        first += 1
    return first


def _is_within_reach(earlier: Sentence, sentence: Sentence, is_for_all: bool) -> bool:
    return earlier.intro == sentence.intro if is_for_all else earlier.block == sentence.block


def _is_continued(before: Sentence, sentence: Sentence) -> bool:
    """Return whether a sentence that a line break tore apart goes on here."""
    if before.block == sentence.block or before.kind == "heading" or _FINAL.search(before.text):
        return False
    return sentence.kind == "code" and sentence.text[:1].islower()


def _points(text: str) -> bool:
    match = _OPENING.match(text)
    return bool(match and match[1].lower() in _POINTS)


def _refers(text: str) -> bool:
    match = _OPENING.match(text)
    return bool(match and match[1].lower() in _REFERS)


def _closed(place: int, needs: Sequence[set[int]]) -> frozenset[int]:
    waiting, reached = [place], set[int]()
    while waiting:
        current = waiting.pop()
        if current not in reached:
            reached.add(current)
            waiting.extend(needs[current])
    return frozenset(reached)
