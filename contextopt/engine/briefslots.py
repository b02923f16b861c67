"""What a finding has to say for a brief: a head of short fields, and sentences that may follow it.

Known fields fill the slots of their kind: where a pattern is and whether it can be used again, a table and
its columns, how severe a risk is. All others are shown under their own names.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from contextopt.engine.entities import find_entities
from contextopt.engine.findings import Finding
from contextopt.engine.sentences import Sentence, split_sentences
from contextopt.engine.text import flatten

SHORT_CHARS = 100
LIST_CHARS = 160
"""A longer list is cut between its items, each part by itself."""

# What a thing is called comes first and needs no label.
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
_QUALIFYING = frozenset({"severity", "likelihood", "probability", "impact", "status", "type", "reusable"})


@dataclass(frozen=True, slots=True)
class Body:
    """A sentence that may follow the head, or a short field with its name, which is never shortened."""

    sentence: Sentence
    is_field: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """All that may be said of one finding. A head of severities alone does not stand alone."""

    finding: Finding
    head: str
    stands_alone: bool
    bodies: tuple[Body, ...]
    verbose: tuple[Sentence, ...]
    """What is explained at length: left out, but for its names."""

    @property
    def text(self) -> str:
        return " ".join([self.head, *(body.sentence.text for body in self.bodies)])

    @property
    def names(self) -> set[str]:
        names = {entity.text for entity in find_entities(self.head)}
        sentences = (*(body.sentence for body in self.bodies), *self.verbose)
        return names.union(*({entity.text for entity in sentence.entities} for sentence in sentences))


def draft(finding: Finding) -> Draft:
    """Sort what the finding says into its slots. One that only explains has its explanation for a text."""
    names: list[str] = []
    heads: list[str] = []
    bodies: list[Body] = []
    verbose: list[Sentence] = []
    stands_alone = False
    for key, text in _in_order(_leaves("", finding.content)):
        slot = key.casefold()
        if slot in _VERBOSE:
            verbose += split_sentences(text)
        elif slot in _SAID or not _is_short(text):
            bodies += [Body(sentence) for sentence in split_sentences(text)]
        elif slot in _NAMES:
            names.append(flatten(text))
        elif slot in _PLACES:
            names.append(f"({flatten(text)})")
        elif slot in _HEADED:
            heads.append(_labelled(key, text))
            stands_alone = stands_alone or slot not in _QUALIFYING
        else:
            bodies.append(Body(Sentence.of(_labelled(key, text)), is_field=True))
    if finding.decision == "open":
        heads.append("decision: open")
    if not bodies and not names and not stands_alone:
        bodies, verbose = [Body(sentence) for sentence in verbose], []
    head = "; ".join(part for part in (" ".join(names), *heads) if part)
    return Draft(finding, head, stands_alone or bool(names) or not bodies, tuple(bodies), tuple(verbose))


def _in_order(leaves: Iterator[tuple[str, str]]) -> list[tuple[str, str]]:
    """Put names first, then places, then what was said, each in the order of the content."""
    ranks = {name: rank for rank, name in enumerate((*_NAMES, *_PLACES, *_HEADED, *_SAID))}
    return sorted(leaves, key=lambda leaf: ranks.get(leaf[0].casefold(), len(ranks)))


def _leaves(key: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the texts of a content with the names that they stand under."""
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
    """Yield short items together, in parts that are short enough, and each long one by itself."""
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
    """Return a value as a few words: the fields of an object without their names but for true and false."""
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
