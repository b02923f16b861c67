"""The parts of a finding for a brief: a head of short fields, and sentences that may follow it.

Known fields fill the slots of their kind: the location and reusability of a pattern, a table and its columns,
the severity of a risk. Other fields are shown under their own names.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from contextopt.engine.briefs.findings import Finding
from contextopt.engine.text.cleaning import flatten
from contextopt.engine.text.entities import find_entities
from contextopt.engine.text.sentences import Sentence, lead_of, shorten_sentence, split_sentences

SHORT_CHARS = 100
LIST_CHARS = 160
"""A longer list is split between its items into separate parts."""

# The name comes first and needs no label.
_NAMES = (
    "pattern_name", "pattern", "name", "title", "risk", "constraint", "question", "decision", "component",
    "method", "endpoint", "path", "api", "service", "table", "entity", "model", "dependency", "package",
    "version", "file", "test", "change",
)  # fmt: skip
_PLACES = ("location", "locations", "file_path", "files", "module")
_HEADED = (
    "severity", "likelihood", "probability", "impact", "status", "reusability", "reusable", "type", "columns",
    "fields", "keys", "primary_key", "indexes", "tables", "apis", "services", "packages", "dependencies",
)  # fmt: skip
_SAID = ("description", "summary", "statement", "text", "finding", "content")
_VERBOSE = frozenset({
    "explanation", "rationale", "reasoning", "details", "background", "discussion", "example", "examples",
    "alternatives_considered", "alternatives", "thoughts", "elaboration", "walkthrough",
})  # fmt: skip
_RISK, _RISKS = "risk", ("risk", "risks")
_QUALIFYING = frozenset({"severity", "likelihood", "probability", "impact", "status", "type", "reusable"})


@dataclass(frozen=True, slots=True)
class Body:
    """A sentence that may follow the head, or a named short field, which is never shortened."""

    sentence: Sentence
    is_field: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """Everything a brief may say about one finding. A head with severities only is not used alone."""

    finding: Finding
    head: str
    stands_alone: bool
    bodies: tuple[Body, ...]
    verbose: tuple[Sentence, ...]
    """Long explanations: left out, except for the names in them."""

    @property
    def text(self) -> str:
        return " ".join([self.head, *(body.sentence.text for body in self.bodies)])

    @property
    def names(self) -> set[str]:
        names = {entity.text for entity in find_entities(self.head)}
        sentences = (*(body.sentence for body in self.bodies), *self.verbose)
        return names.union(*({entity.text for entity in sentence.entities} for sentence in sentences))


@dataclass
class _Parts:
    """The parts sorted so far. `names` and `places` hold identifiers, and a risk comes first in `names`."""

    is_risk: bool
    names: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=list)
    verbose: list[Sentence] = field(default_factory=list)
    is_telling: bool = False
    """Return whether the head says more than severity, likelihood or status."""

    def add(self, key: str, text: str) -> None:
        slot = key.casefold()
        if slot in _VERBOSE:
            self.verbose += split_sentences(text)
        elif slot == _RISK or (self.is_risk and not self.names and slot in _SAID):
            self._add_risk(text)
        elif slot in _SAID or not _is_short(text):
            self.bodies += [Body(sentence) for sentence in split_sentences(text)]
        elif slot in _NAMES:
            self.names.append(flatten(text))
        elif slot in _PLACES:
            self.places.append(f"({flatten(text)})")
        elif slot in _HEADED:
            self.heads.append(_labelled(key, text))
            self.is_telling = self.is_telling or slot not in _QUALIFYING
        else:
            self.bodies.append(Body(Sentence.of(_labelled(key, text)), is_field=True))

    def say_something(self) -> None:
        """Use the long explanation if there is nothing else. A risk leads with it."""
        if self.is_risk and not self.names:
            told = next((body for body in self.bodies if not body.is_field), None)
            lead = told.sentence if told else next(iter(self.verbose), None)
            if lead is not None:
                self.names.append(shorten_sentence(lead, LIST_CHARS))
                self.bodies = [body for body in self.bodies if body is not told]
                self.verbose = [each for each in self.verbose if each is not lead]
        if not self.bodies and not self.names and not self.is_telling:
            self.bodies, self.verbose = [Body(sentence) for sentence in self.verbose], []

    def head(self) -> str:
        named = " ".join(self.names)
        if (self.places or self.heads) and not named.endswith(".."):
            named = named.removesuffix(".")
        return "; ".join(filter(None, (" ".join(filter(None, (named, *self.places))), *self.heads)))

    def _add_risk(self, text: str) -> None:
        """Put the risk into the head; the part that does not fit may follow it."""
        lead, rest = lead_of(text, LIST_CHARS)
        self.names.append(lead)
        self.bodies += [Body(sentence) for sentence in rest]


def draft(finding: Finding) -> Draft:
    """Sort the finding's content into its slots. The head of a risk states the risk."""
    slots = {str(key).casefold() for key in finding.content}
    is_risk = finding.category.casefold() in _RISKS or bool(slots & {_RISK, "severity"})
    parts = _Parts(is_risk)
    for key, text in _in_order(_leaves("", finding.content)):
        parts.add(key, text)
    if finding.decision == "open":
        parts.heads.append("decision: open")
    parts.say_something()
    stands_alone = parts.is_telling or bool(parts.names) or not parts.bodies
    return Draft(finding, parts.head(), stands_alone, tuple(parts.bodies), tuple(parts.verbose))


def _in_order(leaves: Iterator[tuple[str, str]]) -> list[tuple[str, str]]:
    """Put names first, then places, headed fields and statements, each in the order of the content."""
    ranks = {name: rank for rank, name in enumerate((*_NAMES, *_PLACES, *_HEADED, *_SAID))}
    return sorted(leaves, key=lambda leaf: ranks.get(leaf[0].casefold(), len(ranks)))


def _leaves(key: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the texts of a content with their field names."""
    match value:
        case Mapping():
            for name, item in value.items():
                yield from _leaves(str(name), item)
        case list() | tuple():
            yield from _list_leaves(key, value)
        case None | "":
            return
        case _:
            yield key, _scalar(value)


def _list_leaves(key: str, items: list[Any] | tuple[Any, ...]) -> Iterator[tuple[str, str]]:
    """Yield short items together, in parts that are short enough, and each long item alone."""
    part = ""
    for item in items:
        text = _inline(item)
        if not _is_short(text):
            yield from _leaves(key, item)
        elif text and part and len(part) + len(text) > LIST_CHARS:
            yield key, part
            part = text
        elif text:
            part = f"{part}, {text}" if part else text
    if part:
        yield key, part


def _inline(value: object) -> str:
    """Return a value as a few words. Field names of an object are left out, except for true and false."""
    match value:
        case Mapping():
            parts = (
                f"{name}: {_scalar(item)}" if isinstance(item, bool) else _inline(item)
                for name, item in value.items()
            )
            return " ".join(part for part in parts if part)
        case list() | tuple():
            return ", ".join(_inline(item) for item in value)
        case None:
            return ""
    return _scalar(value)


def _scalar(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _labelled(key: str, text: str) -> str:
    return f"{flatten(key)}: {flatten(text)}" if key else flatten(text)


def _is_short(text: str) -> bool:
    return len(text) <= LIST_CHARS and (len(text) <= SHORT_CHARS or ". " not in text) and "\n" not in text
