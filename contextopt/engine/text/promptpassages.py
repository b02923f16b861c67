"""The passages of a prompt that a space is searched for.

The candidates are what the person may have asked: short paragraphs, sentences that ask, the first and the
last sentence. Those with words that the space knows are compared with it (`most_likely`), and which of them
count depends on how near they come to what it holds (`choose`). If the prose says nothing by itself, as in
"why does this fail?", the lines that report errors are candidates too.

Measured on dialogues, chats and meetings (benchmarks, section `pastes`): the space's best cosine chooses the
right passage more often than place and form do, and halving or doubling their worth changes little. An
encoder's time grows with what it reads, so only a few passages are compared. Chosen by their words, eight
held the question as often as all of them; by place and form alone, a long chat or mail hid it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from contextopt.engine.agents.logmarkers import Marker, classify, find_candidates
from contextopt.engine.text.linekinds import PartKind, is_asking
from contextopt.engine.text.promptparts import BlockPattern, Part, Span, split_prompt
from contextopt.engine.text.sentences import sentence_spans

PLAIN_MAX = 240
"""A single line of at most this many characters is the question as a whole."""
CANDIDATES_MAX = 60
COMPARED_MAX, COMPARED_CHARS = 8, 800
"""This many candidates are compared with the space by meaning, and together this many of their characters."""
PASSAGES_MAX = 3
PASSAGE_CHARS = 400
"""A paragraph longer than this has only its sentences as candidates. A longer sentence is cut."""
MARGIN = 0.2
"""A passage that is worth less than the best one by more than this does not count."""
AT_END, ASKS, OWN_LINES = 0.2, 0.15, 0.05
"""The worth of being the first or last sentence, of asking, and of having lines of its own, in cosine."""
REPEATS = 0.2
"""A passage that is nearer to a record than questions usually are, by more than this, repeats it. It is worth
no more, or a pasted message of the space would hide the question about it.
"""
KNOWN = 0.15
"""The worth of words that the space knows, if it knows all of a candidate's."""
ERRORS_MAX = 3
_CUT = "\n[…]\n"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that the space may be searched for. `worth` is for its place and form, 0 to .45 in cosine.

    `asks` means that it asks something, or reports the error that is asked about.
    """

    span: Span
    worth: float = 0.0
    asks: bool = False


def is_plain(text: str) -> bool:
    """Return whether a text is the question as a whole: a short, single line."""
    return len(text) <= PLAIN_MAX and "\n" not in text.strip()


def candidates(text: str, patterns: str | None = None) -> list[Candidate]:
    """Return at most `CANDIDATES_MAX` candidates, the worthiest first.

    `patterns` are those of a space's settings. The only candidate is the whole text if nothing in it can be
    looked up by itself.
    """
    whole = [Candidate(Span(0, len(text)))]
    parts = split_prompt(text, BlockPattern.parse_all(patterns))
    prose = [part for part in parts if part.kind == PartKind.PROSE]
    found = list(_said(text, prose))
    is_thin = all(_says_nothing(text[each.span.start : each.span.end]) for each in found)
    if is_thin or any(_POINTS.search(text, part.start, part.end) for part in prose):
        if is_thin:
            found = [replace(each, worth=0.0) for each in found]
        found += [Candidate(span, asks=True) for span in _errors(text, parts)]
    return sorted(found, key=lambda each: -each.worth)[:CANDIDATES_MAX] or whole


def _said(text: str, prose: Iterable[Part]) -> Iterator[Candidate]:
    """Yield the paragraphs and sentences of the prose that may be the question."""
    paragraphs = [[Span(*each) for each in sentence_spans(text, part.start, part.end)] for part in prose]
    sentences = [span for paragraph in paragraphs for span in paragraph]
    ends = {*sentences[:1], *sentences[-1:]}
    for paragraph in paragraphs:
        asking = {span for span in paragraph if is_asking(text[span.start : span.end])}
        whole = Span(paragraph[0].start, paragraph[-1].end)
        is_short = whole.end - whole.start <= PASSAGE_CHARS
        if is_short:
            # Twice if it only asks.
            own = OWN_LINES * (1 + (len(asking) == len(paragraph)))
            worth = own + AT_END * (not ends.isdisjoint(paragraph)) + ASKS * bool(asking)
            yield Candidate(whole, worth, bool(asking))
        for span in paragraph:
            asks, is_end = span in asking, span in ends
            if (asks or is_end) and not (is_short and span == whole):
                own = 2 * OWN_LINES * (asks and _has_own_lines(text, span))
                cut = Span(span.start, min(span.end, span.start + PASSAGE_CHARS))
                yield Candidate(cut, own + AT_END * is_end + ASKS * asks, asks)


def _has_own_lines(text: str, span: Span) -> bool:
    """Return whether nothing else stands in the lines of a sentence."""
    begin, end = text.rfind("\n", 0, span.start) + 1, text.find("\n", span.end)
    return not text[begin : span.start].strip() and not text[span.end : end if end >= 0 else None].strip()


_POINTS = re.compile(
    r"""\b(?:this|that|these|those|above|below|following|here|attached|log|trace(?:back)?|stack\s?trace|output
      | error|dette|denne|disse|over|under|følgende|her|vedlagt|loggen|feilen|feilmeldingen?)\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words that point at what was pasted."""
_WORD = re.compile(r"[^\W\d_]{3,}")
_GENERIC_WORDS = """
the and for with not but you your are was were has have had does did doing done can could would should will
what when where which who why how this that these those there here from into about again still just now any
some please help fix fixed solve debug explain tell show see look check find know understand idea ideas
problem problems issue issues error errors fail fails failed failing failure wrong broken break breaks crash
crashes crashed work works working worked happen happens happened happening cause causes caused causing mean
means meant going get gets getting got keep keeps try tried code log logs trace output following above below
hva hvorfor hvordan hvor når hvem det den dette denne disse her der kan kunne skal vil jeg meg deg oss har
hadde feil feilen feiler galt hjelp hjelpe fikse løse forklare betyr skjer skjedde virker fungerer ikke men
som med til fra for igjen fortsatt være
"""
_GENERIC = frozenset(_GENERIC_WORDS.split())


def _says_nothing(text: str) -> bool:
    """Return whether no word of a text can be looked up, as in "why does this fail?"."""
    return all(word.lower() in _GENERIC for word in _WORD.findall(text))


def _errors(text: str, parts: Iterable[Part]) -> list[Span]:
    """Return the lines of what was pasted that report an error, the clearest first, then the latest."""
    found: list[tuple[Marker, Span]] = []
    for part in parts:
        if part.kind not in {PartKind.PROSE, PartKind.WRAPPED}:
            found += _error_lines(text, part)
    clear = [each for each in found if each[0] >= Marker.TROUBLE and each[0] != Marker.SUMMARY]
    best = sorted(clear, key=lambda each: (-each[0], -each[1].start))
    return [span for _, span in best[:ERRORS_MAX]]


def _error_lines(text: str, part: Part) -> Iterator[tuple[Marker, Span]]:
    pasted = text[part.start : part.end]
    end = -1
    for offset in find_candidates(pasted):
        if offset > end:
            begin, end = pasted.rfind("\n", 0, offset) + 1, pasted.find("\n", offset)
            end = len(pasted) if end < 0 else end
            line = pasted[begin : min(end, begin + PASSAGE_CHARS)]
            yield classify(line), Span(part.start + begin, part.start + begin + len(line))


def are_few(found: Sequence[Candidate]) -> bool:
    """Return whether all candidates can be compared with the space."""
    return len(found) <= COMPARED_MAX and sum(map(_chars, found)) <= COMPARED_CHARS


def most_likely(found: Sequence[Candidate], known: Sequence[float]) -> list[Candidate]:
    """Return the candidates to compare with the space, the likeliest first.

    `known` is how much of each one's words the space knows, from 0 to 1. One that is too long for the
    characters left gives way to the next.
    """
    rated = sorted(zip(found, known, strict=True), key=lambda pair: -(pair[0].worth + KNOWN * pair[1]))
    taken: list[Candidate] = []
    left = COMPARED_CHARS
    for each, _ in rated:
        if len(taken) < COMPARED_MAX and _chars(each) <= left:
            taken.append(each)
            left -= _chars(each)
    return taken or [rated[0][0]]


def _chars(candidate: Candidate) -> int:
    return candidate.span.end - candidate.span.start


def choose(
    found: Sequence[Candidate], cosines: Sequence[float | None], usual: float | None = None
) -> list[Span]:
    """Return the at most `PASSAGES_MAX` passages to search for, the best first.

    `cosines` are the best that the space has for each candidate, None without one, and `usual` is that of
    most questions, if it is known. Beside a passage that asks, only others that ask count. A passage that
    overlaps a better one adds nothing.
    """
    most = 1.0 if usual is None else usual + REPEATS
    worth = [each.worth + min(most, cosine or 0.0) for each, cosine in zip(found, cosines, strict=True)]
    best, *others = sorted(range(len(found)), key=lambda place: (-worth[place], found[place].span))
    chosen = [found[best].span]
    for place in others:
        span = found[place].span
        if worth[place] < worth[best] - MARGIN or len(chosen) == PASSAGES_MAX:
            break
        counts = found[place].asks or not found[best].asks
        if counts and all(span.end <= other.start or other.end <= span.start for other in chosen):
            chosen.append(span)
    return chosen


def searched_text(text: str, spans: Sequence[Span]) -> str:
    """Return the passages of a text, one a line; the whole text if no passages were chosen."""
    return "\n".join(text[start:end] for start, end in spans) if spans else text


def shortened(text: str, most: int) -> str:
    """Return a text of at most `most` characters. A longer one keeps its beginning and its end, because a
    question stands before what is pasted or after it.
    """
    if len(text) <= most:
        return text
    half = (most - len(_CUT)) // 2
    return f"{text[:half]}{_CUT}{text[len(text) - half :]}"
