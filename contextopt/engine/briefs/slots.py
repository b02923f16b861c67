"""The parts of a finding for a brief: a head of short fields, and sentences that may follow it.

Known fields fill the slots of their kind: the location and reusability of a pattern, a table and its columns,
the severity of a risk. Other fields are shown under their own names. A field that limits the finding, such as
an exception or a status, is part of its head.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from contextopt.engine.briefs.bonds import find_bonds
from contextopt.engine.briefs.findings import Finding
from contextopt.engine.briefs.statements import Wording
from contextopt.engine.text.cleaning import flatten
from contextopt.engine.text.sentences import Sentence, split_sentences

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
_SAID = ("description", "summary", "statement", "text", "finding", "content", "claim")
_VERBOSE = frozenset({
    "explanation", "rationale", "reasoning", "details", "background", "discussion", "example", "examples",
    "alternatives_considered", "alternatives", "thoughts", "elaboration", "walkthrough",
})  # fmt: skip
_RISK, _RISKS = "risk", ("risk", "risks")
_SEPARATORS = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")
_LIMITING_KEYS = re.compile(
    r"\b(?:if|when|while|status|state|scope|appl\w+|valid\w*|verif\w+|verdict|certain\w*|confirmed|condition\w*"
    r"|require\w*|hvis|når|dersom|gjelder|gyldig\w*|bekreftet|sikkerhet|krav|omfang)\b",
    re.IGNORECASE,
)
_QUALIFYING = frozenset({"severity", "likelihood", "probability", "impact", "status", "type", "reusable"})


type BodyKind = Literal["sentence", "code", "field", "verbose"]


@dataclass(frozen=True, slots=True)
class Body:
    """A sentence that may follow the head, or a named short field.

    `needs` are the places of the bodies that must come with it, itself included. A verbose body is only used
    if another one needs it, and a body that is not whole is never used.
    """

    text: str
    kind: BodyKind
    needs: frozenset[int]
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Draft:
    """Everything a brief may say about one finding. A head that only rates the finding does not stand alone.

    `head_needs` are the places of the bodies that must come with the head.
    """

    finding: Finding
    head: str
    stands_alone: bool
    bodies: tuple[Body, ...]
    head_needs: frozenset[int] = frozenset()

    @property
    def text(self) -> str:
        """Return all texts of the finding, including verbose ones."""
        return " ".join([self.head, *(body.text for body in self.bodies)])

    @property
    def has_something_to_say(self) -> bool:
        return bool(self.head) or any(body.kind != "verbose" for body in self.bodies)


@dataclass
class _Parts:
    """The parts sorted so far. `names` and `places` hold identifiers, and a risk comes first in `names`."""

    is_risk: bool
    names: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    said: list[Sentence] = field(default_factory=list)
    fields: list[str] = field(default_factory=list)
    verbose: list[Sentence] = field(default_factory=list)
    is_telling: bool = False
    """Whether the head says more than severity, likelihood or status."""
    is_unsayable: bool = False
    """Whether the risk is one endless sentence, so that nothing of the finding can be used."""

    def add(self, key: str, text: str) -> None:
        slot = key.casefold()
        if slot in _VERBOSE:
            _append(self.verbose, text)
        elif slot == _RISK or (self.is_risk and not self.names and slot in _SAID):
            self._lead_with(split_sentences(text))
        elif slot in _SAID:
            _append(self.said, text)
        elif slot in _NAMES and _is_short(text):
            self.names.append(flatten(text))
        elif slot in _PLACES and _is_short(text):
            self.places.append(f"({flatten(text)})")
        elif slot in _HEADED and _is_short(text):
            self.heads.append(_labelled(key, text))
            self.is_telling = self.is_telling or slot not in _QUALIFYING
        elif _is_limiting(key) or text in ("true", "false") or (_is_short(text) and Wording(text).takes_back):
            self.heads.append(_labelled(key, text))
        elif _is_short(text):
            self.fields.append(_labelled(key, text))
        else:
            _append(self.said, text)

    def say_something(self) -> None:
        """Use the long explanation if there is nothing else. A risk leads with it."""
        if not self.said and not self.names and not self.is_telling and (self.is_risk or not self.fields):
            self.said, self.verbose = self.verbose, []
        if self.is_risk and not self.names and self.said:
            said, self.said = self.said, []
            self._lead_with(said)

    def head(self) -> str:
        named = " ".join(self.names)
        if (self.places or self.heads) and not named.endswith(".."):
            named = named.removesuffix(".")
        return "; ".join(filter(None, (" ".join(filter(None, (named, *self.places))), *self.heads)))

    def _lead_with(self, sentences: Sequence[Sentence]) -> None:
        """Put the risk into the head: its first sentence, those kept with it, and short ones that follow."""
        if not sentences:
            return
        bonds = find_bonds(sentences)
        size = max(bonds[0]) + 1
        while size < len(sentences) and len(_joined(sentences[: size + 1])) <= LIST_CHARS:
            size = max(bonds[size]) + 1
        if not all(each.is_whole for each in sentences[:size]):
            self.is_unsayable = True
        self.names.append(_joined(sentences[:size]))
        self.said += [replace(each, intro=None) for each in sentences[size:]]

    def bodies(self, head: str) -> tuple[tuple[Body, ...], frozenset[int]]:
        """Return the bodies, and the places of those that must come with the head."""
        chain = [*self.said, *(replace(each, kind="aside", intro=None) for each in self.verbose)]
        if head:
            chain = [Sentence(head, -1), *(_moved(each, 1) for each in chain)]
        bonds = find_bonds(chain)
        first = len(chain) - len(self.said) - len(self.verbose)
        needs = [frozenset(place - first for place in bond if place >= first) for bond in bonds]
        bodies = [
            Body(each.text, _body_kind(each, place >= len(self.said)), need, each.is_whole)
            for place, (each, need) in enumerate(zip(chain[first:], needs[first:], strict=True))
        ]
        for text in self.fields:
            bodies.append(Body(text, "field", frozenset({len(bodies)})))
        return tuple(bodies), needs[0] if first else frozenset()


def draft(finding: Finding) -> Draft:
    """Sort the finding's content into its slots. The head of a risk states the risk."""
    slots = {str(key).casefold() for key in finding.content}
    is_risk = finding.category.casefold() in _RISKS or bool(slots & {_RISK, "severity"})
    parts = _Parts(is_risk)
    # Names come first, then places, headed fields and statements, each in the order of the content.
    ranks = {name: rank for rank, name in enumerate((*_NAMES, *_PLACES, *_HEADED, *_SAID))}
    leaves = sorted(_leaves("", finding.content), key=lambda leaf: ranks.get(leaf[0].casefold(), len(ranks)))
    for key, text in leaves:
        parts.add(key, text)
    # A question without its answer would mislead.
    decision = "decision: open" if finding.decision == "open" else ""
    if finding.answer:
        decision, parts.is_telling = _labelled("decided", finding.answer), True
    parts.say_something()
    if parts.is_unsayable:
        endless = Body(parts.head(), "sentence", frozenset({0}), is_whole=False)
        rest = (*(each.text for each in (*parts.said, *parts.verbose)), *parts.fields)
        others = (Body(text, "verbose", frozenset({0, place})) for place, text in enumerate(rest, 1))
        return Draft(finding, decision, stands_alone=bool(finding.answer), bodies=(endless, *others))
    parts.heads += [decision] * bool(decision)
    head = parts.head()
    bodies, head_needs = parts.bodies(head)
    stands_alone = parts.is_telling or bool(parts.names) or not bodies
    return Draft(finding, head, stands_alone, bodies, head_needs)


def _body_kind(sentence: Sentence, is_verbose: bool) -> BodyKind:
    if is_verbose:
        return "verbose"
    return "code" if sentence.kind == "code" else "sentence"


def _joined(sentences: Sequence[Sentence]) -> str:
    return " ".join(each.text for each in sentences)


def _append(sentences: list[Sentence], text: str) -> None:
    """Add the sentences of another text of the same finding."""
    further = split_sentences(text)
    if sentences:
        further = [_moved(each, len(sentences), sentences[-1].block + 1) for each in further]
    sentences += further


def _moved(sentence: Sentence, places: int, blocks: int = 0) -> Sentence:
    intro = None if sentence.intro is None else sentence.intro + places
    return replace(sentence, intro=intro, block=sentence.block + blocks)


def _is_limiting(key: str) -> bool:
    words = _SEPARATORS.sub(" ", key)
    return Wording(words).takes_back or bool(_LIMITING_KEYS.search(words))


def _leaves(key: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the texts of a content with their field names."""
    match value:
        case Mapping():
            for name, item in value.items():
                yield from _leaves(f"{key} {name}" if key and _is_limiting(key) else str(name), item)
        case list() | tuple():
            yield from _list_leaves(key, value)
        case None | "":
            return
        case _:
            yield key, _scalar(value)


def _list_leaves(key: str, items: list[Any] | tuple[Any, ...]) -> Iterator[tuple[str, str]]:
    """Yield short items joined into parts that are short enough, and each long item by itself."""
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
