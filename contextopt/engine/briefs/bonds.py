"""Decide which sentences of a text must be kept together.

A sentence is never cut. It is never kept without the next one if that limits it ("This does not apply to
refunds."), nor without the previous one if it refers to that, or that limits it ("The following is not
true."). A list item is never kept without the line that introduces its list.
"""

import re
from collections.abc import Sequence
from functools import cached_property

from contextopt.engine.briefs.statements import Wording, content_words, has_predicate
from contextopt.engine.text.sentences import Sentence

MAX_FRAGMENT_WORDS = 12
MAX_REMARK_WORDS = 6
MAX_BONDED = 40
"""Maximum sentences before one that it is compared with."""

# Words at the beginning of a sentence. All refer to the previous sentence, and the pointing ones may refer to
# everything before.
_POINTING = """
this that these those such both neither none nor or same former latter exception exceptions dette disse
slik slike slikt sånn sånt begge ingen samme unntak unntaket
"""
_PRONOUNS = """
it its he his she her they them their det den de dem deres hun han hans hennes
"""
_CONNECTING = """
but and cause seems so then thus hence therefore otherwise else instead however although though yet still
except excepting unless save barring besides only not no never also again because until provided assuming
at nevertheless nonetheless conversely contrary unlike apart which who whose men så da derfor
dermed ellers istedenfor imidlertid likevel derimot omvendt unntatt bortsett med bare kun ikke nei nja
aldri også fordi inntil forutsatt utenom eller som
"""
_OPENING = re.compile(r"[^\w]*(?:(?:and|og|yes|yeah|well|the|an?)\s+)?([^\W\d_]+)", re.IGNORECASE)
_POINTS = frozenset(_POINTING.split())
_REFERS = _POINTS | frozenset(_PRONOUNS.split()) | frozenset(_CONNECTING.split())
_ANNOUNCING_WORDS = """
following follows below next suppose supposing assume assuming imagine consider følgende følger nedenfor
neste anta tenk gitt
"""
_ANNOUNCING = frozenset(_ANNOUNCING_WORDS.split())
_UNDER = re.compile(r"\b(?:punktene|forslagene|ideene|påstandene|det|de|alt) under\b", re.IGNORECASE)
# A label of plain words, and a value that is no name.
_VERDICT = re.compile(r"[^\W\d_][^\W\d_]*(?: [^\W\d_]+)?: [a-zæøå]{2,}")
# A word that is not a name, after the label if there is one.
_PLAIN = re.compile(r"^(?:[^:]*:)?.*?(?<!\w)[a-zæøå]{2,}")


class _Read(Wording):
    """A sentence with the properties that decide which others it is kept with."""

    def __init__(self, sentence: Sentence) -> None:
        super().__init__(sentence.text)
        self.sentence = sentence
        self.block, self.kind = sentence.block, sentence.kind
        match = _OPENING.match(self.text)
        opening = match[1].lower() if match else ""
        self.points, self.refers = opening in _POINTS, opening in _REFERS
        self.length = len(self.text.split())
        self.is_final = sentence.is_final

    @property
    def reaches_far(self) -> bool:
        """Return whether the sentence may limit more than the previous one."""
        return self.refers or self.excepts

    @property
    def announces(self) -> bool:
        """Return whether the sentence introduces what follows."""
        if self.text.endswith((":", "：")) or not self.words.isdisjoint(_ANNOUNCING):
            return True
        return "under" in self.words and bool(_UNDER.search(self.text))

    @cached_property
    def is_fragment(self) -> bool:
        """Return whether the sentence is a few words without a verb."""
        return self.length <= MAX_FRAGMENT_WORDS and not has_predicate(self.text)

    @cached_property
    def is_interjection(self) -> bool:
        return self.length <= MAX_REMARK_WORDS and not self.qualifies and not content_words(self.text)

    @cached_property
    def is_verdict(self) -> bool:
        """Return whether the line is a label and a few words ("Status: unfounded")."""
        return self.kind == "label" and self.length <= MAX_REMARK_WORDS and bool(_VERDICT.match(self.text))

    @cached_property
    def is_remark(self) -> bool:
        """Return whether the sentence is so short that it is about the previous one ("It was shelved.")."""
        return self.length <= (MAX_REMARK_WORDS if self.refers else MAX_REMARK_WORDS // 2) and bool(
            content_words(self.text)
        )

    def limits(self, before: "_Read") -> bool:
        """Return whether the sentence may limit or retract something in the previous one."""
        if self.kind == "heading":
            return False
        if self.kind == "aside":
            return self.takes_back and self.refers
        if self.takes_back or self.points or self.continues(before):
            return True
        if (self.kind == "label" or self.refers) and self.qualifies:
            return True
        if self.block != before.block and not (before.is_final and _PLAIN.search(self.text)):
            return False
        return self.is_fragment or self.is_verdict or (self.block == before.block and self.is_remark)

    def refers_back(self, before: "_Read") -> bool:
        """Return whether the sentence says little without the previous one."""
        if self.continues(before):
            return True
        if self.kind == "item" and self.block != before.block:
            return False
        if before.is_interjection:
            return False
        return self.refers or (self.block == before.block and self.is_fragment)

    def continues(self, before: "_Read") -> bool:
        """Return whether this continues a sentence that a line break split."""
        if before.block == self.block or before.kind == "heading" or before.is_final:
            return False
        return self.kind == "code" and self.text[:1].islower()


def find_bonds(sentences: Sequence[Sentence]) -> tuple[frozenset[int], ...]:
    """Return, for each sentence, the places of all that must be kept with it, itself included."""
    reads = [_Read(sentence) for sentence in sentences]
    needs = [{place} for place in range(len(reads))]
    for place, read in enumerate(reads):
        if read.sentence.intro is not None:
            needs[place].add(read.sentence.intro)
        if place and read.limits(reads[place - 1]):
            for earlier in range(_reach_back(reads, place), place):
                needs[earlier].update(range(earlier + 1, place + 1))
        if place and read.refers_back(reads[place - 1]):
            needs[place].add(place - 1)
        for later in range(place + 1, _reach_on(reads, place)):
            needs[later].add(place)
    return tuple(_closed(place, needs) for place in range(len(reads)))


def opens_with_reference(text: str) -> bool:
    """Return whether the text begins with a reference to something before it."""
    match = _OPENING.match(text)
    return bool(match and match[1].lower() in _REFERS)


def _reach_on(reads: Sequence[_Read], place: int) -> int:
    """Return the end of the sentences after this place that it denies, announces or puts a condition on."""
    read, end = reads[place], place + 1
    if read.kind == "heading" or end == len(reads):
        return end
    is_title = not read.is_final and (place == 0 or reads[place - 1].block != read.block)
    if is_title and read.takes_back and read.kind == "paragraph":
        while end < len(reads) and reads[end].kind != "heading":
            end += 1
    elif read.announces:
        block = reads[end].block
        while end < len(reads) and reads[end].block == block and (read.takes_back or end == place + 1):
            end += 1
    elif reads[end].block == read.block and read.is_fragment and read.qualifies:
        end += 1
    return end


def _reach_back(reads: Sequence[_Read], place: int) -> int:
    """Return the place of the first sentence that the one at this place may limit."""
    read, first = reads[place], max(0, place - MAX_BONDED)
    is_for_all = read.qualifies and (read.kind == "label" or read.points)
    if read.kind == "aside" or not (is_for_all or (read.takes_back and read.reaches_far)):
        return place - 1
    while first < place - 1 and not _is_within_reach(reads[first].sentence, read.sentence, is_for_all):
        first += 1
    return first


def _is_within_reach(earlier: Sentence, sentence: Sentence, is_for_all: bool) -> bool:
    return earlier.intro == sentence.intro if is_for_all else earlier.block == sentence.block


def _closed(place: int, needs: Sequence[set[int]]) -> frozenset[int]:
    reached, waiting = {place}, needs[place] - {place}
    while waiting:
        current = waiting.pop()
        reached.add(current)
        waiting |= needs[current] - reached
    return frozenset(reached)
