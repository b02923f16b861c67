"""Check a brief written by a model: find names in it that the findings do not contain."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from contextopt.engine.briefs.findings import Finding, render_finding
from contextopt.engine.text.cleaning import flatten
from contextopt.engine.text.entities import find_entities, has_word

type ClaimKind = Literal["path", "address", "identifier", "number", "table", "severity"]

_SEVERITY = re.compile(
    r"\b(?:critical|severe|high|moderate|medium|low|minor|major|blocker|kritisk|alvorlig|høy|middels|lav)\b",
    re.IGNORECASE,
)
_NAME = r"[`\"']?[^\W\d][\w.]{0,80}(?!\w)[`\"']?"
_AND = r"(?:and|or|og|eller)"
_LIST = rf"{_NAME}(?:(?:\s*,\s*(?:{_AND}\s+)?|\s+{_AND}\s+){_NAME}){{0,20}}"
_AFTER = (
    re.compile(rf"\btab(?:le|ell(?:en)?)\b:?\s+({_NAME})", re.IGNORECASE),
    re.compile(rf"\btab(?:les|eller|ellene)\b:?\s+\(?({_LIST})", re.IGNORECASE),
)
_ELSEWHERE = (
    re.compile(rf"(?<![\w.])({_NAME})[ -]tab(?:le|ell(?:en)?)\b", re.IGNORECASE),
    re.compile(rf"(?<![\w.])({_LIST})[ -]tab(?:les|eller|ellene)\b", re.IGNORECASE),
    re.compile(rf"\b(?:JOIN|FROM|INTO)\s+({_LIST})"),
    re.compile(rf"\bjoin(?:s|ed|ing)?\s+({_NAME}\s+(?:with|to|and|med|og)\s+{_NAME})", re.IGNORECASE),
)
_ITEM = re.compile(r"[^\W\d][\w.]*")
_QUOTED = re.compile(r"`([^\W\d][\w-]*)`")
_PLAIN_WORDS = """
a add affected all alle also alter an and andre any are as at be both but by can create database den denne
det drop each else en er et every everything existing following for forces from følgende had har has have
hele hver i in is it its join large lock lookup main may med must need needs new no noen not ny nye of og on
once one only opprett or other our per på read related relevant same samme see separate should so some
such temporary than that the their them then these they this those to two update us use was we were which
while whole will with without write you
"""
_PLAIN = frozenset(_PLAIN_WORDS.split())
"""Words next to "table" or "join" that are not table names."""
_FOLLOWING_WORDS = """
above after because before belongs below changes column columns contains data definition definitions etter
exists finnes før gets grows here holds ikke index indexes inneholder into keeps lacks level locks mangler
name names over partition partitions reads remains row rows scan scans schema schemas show shows size skal
space stays stores structure takes there til under up uses vises
"""
_FOLLOWING = _PLAIN | frozenset(_FOLLOWING_WORDS.split())


@dataclass(frozen=True, slots=True)
class Claim:
    """A name in the text that no finding contains."""

    kind: ClaimKind
    text: str


def check_claims(text: str, findings: Iterable[Finding]) -> tuple[Claim, ...]:
    """Return the names in the text that no finding contains, each once.

    Case is ignored, and 1,500 equals 1500.
    """
    said = ((render_finding(each), *_texts(each.content), *_texts(each.answer)) for each in findings)
    source = _comparable("\n".join(chain.from_iterable(said)))
    claims: dict[str, Claim] = {}
    for claim in _claims(text):
        claims.setdefault(claim.text, claim)
    return tuple(claim for name, claim in claims.items() if not has_word(_comparable(name), source))


def _claims(text: str) -> Iterator[Claim]:
    for entity in find_entities(text):
        if entity.kind != "name":
            # A number's unit may be written differently.
            yield Claim(entity.kind, entity.text.split()[0] if entity.kind == "number" else entity.text)
    for patterns, plain in ((_AFTER, _FOLLOWING), (_ELSEWHERE, _PLAIN)):
        lists = [match[1] for pattern in patterns for match in pattern.finditer(text)]
        for item in _ITEM.findall("\n".join(lists)):
            if (name := item.rstrip(".")).casefold() not in plain:
                yield Claim("table", name)
    for match in _QUOTED.finditer(text):
        yield Claim("identifier", match[1])
    for match in _SEVERITY.finditer(text):
        yield Claim("severity", match.group())


def _texts(value: object) -> Iterator[str]:
    """Yield names and texts as a brief shows them. In JSON, their quotes and line breaks are escaped."""
    match value:
        case str():
            yield flatten(value)
        case Mapping():
            for name, item in value.items():
                yield flatten(name)
                yield from _texts(item)
        case list() | tuple():
            for item in value:
                yield from _texts(item)


def _comparable(text: str) -> str:
    return re.sub(r"(?<=\d),(?=\d{3}\b)", "", text).casefold()
