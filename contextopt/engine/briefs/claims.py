"""Check a brief written by a model: find names in it that the findings do not contain."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from contextopt.engine.briefs.findings import Finding, render_finding
from contextopt.engine.text.cleaning import flatten
from contextopt.engine.text.entities import find_entities, has_word

type ClaimKind = Literal["path", "address", "identifier", "number", "table", "severity"]

_SEVERITY = re.compile(
    r"\b(?:critical|severe|high|moderate|medium|low|minor|major|blocker|kritisk|alvorlig|høy|middels|lav)\b",
    re.IGNORECASE,
)
_TABLES = (
    re.compile(r"\btab(?:les?|ell(?:en|er|ene)?)\b:?\s+[`\"']?([^\W\d][\w.]{0,80})", re.IGNORECASE),
    re.compile(r"(?<![\w.])([^\W\d][\w.]{0,80})[`\"']?[ -]tab(?:les?|ell(?:en|er|ene)?)\b", re.IGNORECASE),
)
_PLAIN_WORDS = """
a all an and any are as at be both by can database den denne det each en er et every existing for
from had har has have i in is it its join lookup main may med must need needs new no not ny nye of
og on one or other på same should so som some such than that the their these this those to two was
were which whole will with
"""
_PLAIN = frozenset(_PLAIN_WORDS.split())
"""Words next to "table" that are not table names."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A name in the text that no finding contains."""

    kind: ClaimKind
    text: str


def check_claims(text: str, findings: Iterable[Finding]) -> tuple[Claim, ...]:
    """Return the names that the text contains and the findings do not, each once. An empty tuple is good.

    Case is ignored, and 1,500 equals 1500.
    """
    source = _comparable("\n".join(_source(finding) for finding in findings))
    claims = dict.fromkeys(_claims(text))
    return tuple(claim for claim in claims if not has_word(_comparable(claim.text), source))


def _claims(text: str) -> Iterator[Claim]:
    for entity in find_entities(text):
        if entity.kind != "name":
            # A number's unit may be written differently.
            yield Claim(entity.kind, entity.text.split()[0] if entity.kind == "number" else entity.text)
    for pattern in _TABLES:
        for match in pattern.finditer(text):
            if match[1].casefold() not in _PLAIN:
                yield Claim("table", match[1].rstrip("."))
    for match in _SEVERITY.finditer(text):
        yield Claim("severity", match.group())


def _source(finding: Finding) -> str:
    return "\n".join([render_finding(finding), *_texts(finding.content)])


def _texts(value: object) -> Iterator[str]:
    """Yield names and texts as they appear in a brief. In JSON, quotes and line breaks are escaped."""
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
