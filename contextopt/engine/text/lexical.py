"""Words of prose, code and paths, and their BM25 weight in a collection.

An identifier counts as its parts: `getHTTPResponse`, `get_http_response` and "http response" match. Whole
identifiers can be counted too: the first two are the same one, the third is none. English plural and verb
endings are removed, so "signals" finds `signal`. Scripts without blanks between words (Chinese, Japanese,
Korean, Thai) are split into pairs of neighbouring characters. A word with accents counts without them too.

Source: Robertson and Zaragoza 2009, The Probabilistic Relevance Framework: BM25 and Beyond, equation 3.15,
with the idf of Lucene, which is never negative.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from contextopt.engine.text.cleaning import normal_form
from contextopt.engine.validation import InvalidValue

MAX_WORD_CHARS = 80
"""Longer runs are hashes, encoded data or minified code, not words that anyone searches for."""
BODY_TERMS = 25
"""A text with more terms than this below its title, such as an issue, counts as long. Most of its terms are
not about its subject.
"""

# Marks of the letter before them: accents, and vowels of Hebrew, Arabic, Indic scripts, Thai and Khmer.
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f"
    "\u0981-\u0983\u09bc-\u09cd\u0a01-\u0a4d\u0b82-\u0bcd\u0c00-\u0c4d\u0d00-\u0d4d\u0e31-\u0e4e\u0eb1-\u0ecd\u102b-\u103e"
    "\u17b4-\u17d3"
)
_WORD = re.compile(rf"[\w{_MARKS}]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_OTHER_PART = re.compile(rf"(?:[^\W_]|[{_MARKS}])+")
# A short line above a blank one. Headings of a template, items, addresses, "Steps:" and "Hi," are no titles.
_TITLE = re.compile(r"(?!##|[-*>] |```|[^\n]*://)[^\n]{0,119}[^\s:,;][ \t\r]*\n[ \t\r]*\n")
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\U00020000-\U0003ffff"
)
"""Characters of scripts without blanks between words, as the inside of a set in a regular expression."""
_UNSPACED = re.compile(f"[{UNSPACED}]+")
# The marks are those of Latin, Greek, Cyrillic, Hebrew and Arabic. The letters have no decomposition.
_ACCENTS = re.compile("[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1-\u05c7\u064b-\u065f\u0670]+")
_BARE = str.maketrans(
    dict(zip("øØłŁđĐıħĦ", "oOlLdDihH", strict=True)) | {"æ": "ae", "Æ": "AE", "œ": "oe", "ß": "ss"}
)
_MIN_STEM = 3


def words_of(text: str) -> list[str]:
    """Return the words of a text as written, identifiers whole."""
    return _WORD.findall(normal_form(text))


def without_accents(text: str) -> str:
    """Return the text with plain letters: "Ålesund" as "Alesund", "größer" as "grosser"."""
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", text))
    return unicodedata.normalize("NFC", bare).translate(_BARE)


def terms(text: str) -> Counter[str]:
    """Count the terms of a text."""
    return _count_terms(Counter(words_of(text)))


def terms_and_identifiers(text: str) -> tuple[Counter[str], Counter[str]]:
    """Count the terms, and the whole identifiers of several parts. The text is read once."""
    words = Counter(words_of(text))
    counts: Counter[str] = Counter()
    for word, count in words.items():
        if identifier := whole_identifier(word):
            counts[identifier] += count
    return _count_terms(words), counts


def _count_terms(words: Mapping[str, int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for term in split_identifier(word):
            counts[term] += count
    return counts


def weigh_task(task: str, title: float = 1.0) -> tuple[dict[str, float], dict[str, float]]:
    """Return the terms and the whole identifiers of a task, each with its weight.

    The weight is 1 + ln(count), plus `title` for terms in the first line. If that line is a title and more
    than `BODY_TERMS` other terms follow, their weights shrink, so that they sum to about that many terms.
    """
    task = task.strip()
    in_task = terms_and_identifiers(task)
    in_title = terms_and_identifiers(task.partition("\n")[0])
    others = len(in_task[0].keys() - in_title[0].keys()) if _TITLE.match(task) else 0
    share = BODY_TERMS / max(BODY_TERMS, others)
    terms_weighed, identifiers_weighed = (
        {
            term: 1.0 + math.log(count) + title if term in heading else share * (1.0 + math.log(count))
            for term, count in counts.items()
        }
        for counts, heading in zip(in_task, in_title, strict=True)
    )
    return terms_weighed, identifiers_weighed


def distinct_terms(text: str) -> set[str]:
    """Return the distinct terms of a text."""
    return set().union(*map(split_identifier, set(words_of(text))))


def path_terms(path: str) -> Counter[str]:
    """Count the terms of a path. Folders count once, the file name twice."""
    folder, _, name = path.rpartition("/")
    return terms(folder) + terms(name) + terms(name.rpartition(".")[0] or name)


@lru_cache(maxsize=100_000)
def split_identifier(word: str) -> tuple[str, ...]:
    """Return the parts of an identifier, in lower case and without endings; none if the run is too long."""
    if len(word) > MAX_WORD_CHARS:
        return ()
    if word.isascii():
        return tuple(stem(part.lower()) for part in _PART.findall(word) if len(part) > 1)
    parts: list[str] = []
    for part in _OTHER_PART.findall(word):
        unspaced = _UNSPACED.findall(part)
        parts += [pair for run in unspaced for pair in _pairs(run)]
        for rest in _UNSPACED.split(part):
            parts += dict.fromkeys(stem(form.casefold()) for form in (rest, without_accents(rest)) if form)
    return tuple(parts)


@lru_cache(maxsize=100_000)
def whole_identifier(word: str) -> str:
    """Return the common form of all spellings of an identifier: `get_http` for `get_http` and `getHttp`.

    It is "" if there are not two parts of letters. The separator distinguishes it from single terms.
    """
    if len(word) > MAX_WORD_CHARS or not word.isascii():
        return ""
    parts = _PART.findall(word)
    return "_".join(parts).lower() if sum(map(str.isalpha, parts)) > 1 else ""


def stem(word: str) -> str:
    """Remove the ending of an English plural, -ing or -ed. Short words stay as they are."""
    if word.endswith("ies") and len(word) > _MIN_STEM + 2:
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > _MIN_STEM:
        word = word[:-2] if word.endswith(("sses", "xes", "ches", "shes")) else word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) > _MIN_STEM:
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "lsz":
                return word[:-1]
            return word[:-1] if word.endswith("e") else word
    return word[:-1] if word.endswith("e") and len(word) > _MIN_STEM + 1 else word


def _pairs(run: str) -> list[str]:
    return [run[start : start + 2] for start in range(len(run) - 1)] or [run]


@dataclass(frozen=True, slots=True)
class Bm25:
    """The weight of a repeated term (`k1`) and of a long document (`b`)."""

    k1: float = 1.2
    b: float = 0.75

    def __post_init__(self) -> None:
        if not (self.k1 >= 0 and 0 <= self.b <= 1):
            raise InvalidValue("bm25", "k1 must be at least 0 and b from 0 to 1")

    def idf(self, documents: int, containing: int) -> float:
        """Return the weight of a word that `containing` of the documents have; above 0."""
        return math.log(1 + (documents - containing + 0.5) / (containing + 0.5))


@dataclass(frozen=True, slots=True)
class LexicalIndex:
    """The term counts of a collection in flat arrays, one document after another in the order of `keys`.

    `terms` and `counts` have shape (n_postings,); document i has those from `offsets[i]` to `offsets[i + 1]`.
    A term's number is its place in `vocabulary`, which may hold terms that are no longer used.
    """

    keys: tuple[str, ...]
    vocabulary: Mapping[str, int]
    offsets: NDArray[np.int64]
    terms: NDArray[np.int32]
    counts: NDArray[np.int32]
    lengths: NDArray[np.float64]

    @classmethod
    def build(cls, documents: Mapping[str, Mapping[str, int]]) -> Self:
        return cls._of({}, sorted(documents.items()))

    def updated(self, changed: Mapping[str, Mapping[str, int]], removed: Iterable[str] = ()) -> Self:
        """Return the collection with some documents replaced, added or removed. The others are copied."""
        gone = set(removed) | set(changed)
        fresh = self._of(dict(self.vocabulary), sorted(changed.items()))
        sources = [(key, self, position) for position, key in enumerate(self.keys) if key not in gone]
        sources += [(key, fresh, position) for position, key in enumerate(fresh.keys)]
        sources.sort(key=lambda source: source[0])
        spans = [(index, index.offsets[at], index.offsets[at + 1]) for _, index, at in sources]
        return type(self)(
            keys=tuple(key for key, _, _ in sources),
            vocabulary=fresh.vocabulary,
            offsets=np.cumsum([0, *(end - start for _, start, end in spans)], dtype=np.int64),
            terms=_joined([index.terms[start:end] for index, start, end in spans]),
            counts=_joined([index.counts[start:end] for index, start, end in spans]),
            lengths=np.array([index.lengths[at] for _, index, at in sources], dtype=np.float64),
        )

    def scores(self, query: Mapping[str, float], bm25: Bm25) -> NDArray[np.float64]:
        """Return the BM25 score of every document, shape (n,); 0 if no term is shared."""
        numbers = {self.vocabulary[term]: weight for term, weight in query.items() if term in self.vocabulary}
        if not numbers or not self.keys:
            return np.zeros(len(self.keys))
        wanted = np.zeros(len(self.vocabulary), dtype=np.bool_)
        wanted[list(numbers)] = True
        found = np.flatnonzero(wanted[self.terms])
        found_terms, counts = self.terms[found], self.counts[found].astype(np.float64)
        per_document = np.diff(np.searchsorted(found, self.offsets))
        norm = bm25.k1 * (1 - bm25.b + bm25.b * self.lengths / (self.lengths.mean() or 1.0))
        containing = np.bincount(found_terms, minlength=len(self.vocabulary))
        value = np.zeros(len(self.vocabulary))
        for number, weight in numbers.items():
            value[number] = weight * bm25.idf(len(self.keys), int(containing[number]))
        saturated = counts * (bm25.k1 + 1) / (counts + np.repeat(norm, per_document))
        # A document's terms are in alphabetical order, so its sum is the same to the last bit however the
        # collection was built.
        rows = np.repeat(np.arange(len(self.keys)), per_document)
        return np.bincount(rows, weights=value[found_terms] * saturated, minlength=len(self.keys))

    def containing(self) -> NDArray[np.int64]:
        """Return the number of documents with each term of the vocabulary."""
        return np.bincount(self.terms, minlength=len(self.vocabulary))

    @classmethod
    def _of(cls, vocabulary: dict[str, int], documents: Sequence[tuple[str, Mapping[str, int]]]) -> Self:
        terms: list[int] = []
        counts: list[int] = []
        offsets = [0]
        for _, document in documents:
            for term, count in sorted(document.items()):
                terms.append(vocabulary.setdefault(term, len(vocabulary)))
                counts.append(count)
            offsets.append(len(terms))
        return cls(
            keys=tuple(key for key, _ in documents),
            vocabulary=vocabulary,
            offsets=np.array(offsets, dtype=np.int64),
            terms=np.array(terms, dtype=np.int32),
            counts=np.array(counts, dtype=np.int32),
            lengths=np.array([sum(document.values()) for _, document in documents], dtype=np.float64),
        )


def _joined(arrays: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int32)


type LanguageCode = Literal["en", "no"]

READ_MAX = 400
"""Only this many characters of each text are read, since the first sentences are enough."""

_LETTERS = re.compile(r"[^\W\d_]+")
# Words that both languages have (for, i, at, over, under, den, her, men, far) are left out.
_ENGLISH_WORDS = """
the of and to is are was were with that this it its from by on as be been has have had not or an which will
would when after before they we you he she there their than then into should could can do does did if but no
all any each about what who why how our your my me us these those while where because so
"""
_NORWEGIAN_WORDS = """
og ikke det som på til av er med har jeg vi et ei fra kan skal vil må når også bare eller etter ble blir blitt
være vært denne dette disse hva hvordan hvorfor hvem hvis hvor mot inn ut opp seg sin vår vårt våre før noe
noen alle mange så nå ved om hos mellom uten fordi mens både enten enn skulle ville kunne måtte gjør gjøre
gjort får fikk gikk går lag legg fiks feil feilen ny nye nytt dere deg meg oss dem deres aldri alltid igjen
siden derfor slik sånn ingen af hvad blev efter nogle mod kun altid
"""
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_NORWEGIAN = frozenset(_NORWEGIAN_WORDS.split())
_NORDIC_LETTER = re.compile("[æøå]")


def detect_language(*texts: str) -> LanguageCode:
    """Return "no" for text that reads more like Norwegian or Danish than English, else "en"."""
    text = " ".join([text[:READ_MAX] for text in texts]).lower()
    words = set(_LETTERS.findall(text))
    nordic = len(words & _NORWEGIAN)
    if not text.isascii():
        nordic += sum(1 for word in words - _NORWEGIAN if _NORDIC_LETTER.search(word))
    return "no" if nordic > len(words & _ENGLISH) else "en"
