"""Everything that an agent is sent for one step of a task, as one text with a ledger per section."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, NamedTuple

from contextopt.engine.agents.contexts import AgentContext, ContextFile, render_item
from contextopt.engine.agents.deltas import ChangedFile
from contextopt.engine.agents.retries import RetryContext
from contextopt.engine.text.cleaning import flatten
from contextopt.engine.text.quoting import marked_block
from contextopt.engine.text.tokens import Measurable
from contextopt.engine.validation import InvalidValue, check_text

STANDING = "standing_documents"
RETRY = "retry"
HINT = "strategy_hint"
HANDOFF = "handoff"
_IN_ORDER = ("package_manifest", "tree", "tree_paths", "tools", "files", "memories", "docs")
SECTIONS = (STANDING, *_IN_ORDER, HANDOFF, HINT, RETRY)
"""All sections in their order in the text. Those that change least come first, so prompts share a prefix."""

ALWAYS_SENT = frozenset({STANDING, HANDOFF, HINT, RETRY})
"""Sections that no phase's profile leaves out."""

NOT_IN_PHASE = "not_in_phase"
NOT_IN_RETRY = "not_in_retry"
"""A retry is only sent what changed, and a replan the plan and its diagnosis."""
CUT = "cut"
"""A kept item that lost its last lines."""
NAMED_DROPPED = 100
"""At most this many dropped items of a section are named. The rest is counted by reason."""


@dataclass(frozen=True, slots=True)
class StandingDocument:
    """A document that every task of a repository is given, such as its conventions."""

    title: str
    content: str

    def __post_init__(self) -> None:
        check_text("title", self.title)
        if not flatten(self.title):
            raise InvalidValue("title", "must not be empty")
        check_text("content", self.content)

    def render(self) -> str:
        return f"### {flatten(self.title)}\n{marked_block(self.content)}"


class HandoffPart(NamedTuple):
    """A critical finding in full, or the brief of the others, which has a heading."""

    name: str
    text: str
    heading: str = ""

    def render(self) -> str:
        heading = f"### {self.heading}\n" if self.heading else ""
        return heading + marked_block(self.text)


@dataclass(frozen=True, slots=True)
class Handoff:
    """The hand-off of a phase: its critical findings, and after them its brief."""

    phase: str
    parts: tuple[HandoffPart, ...]

    def render(self) -> str:
        return f"## Hand-off from {self.phase}\n" + "".join(part.render() for part in self.parts)

    def field_chars(self) -> Iterator[int]:
        yield sum(len(part.text) for part in self.parts)


@dataclass(frozen=True, slots=True)
class WithHandoff:
    """A baseline with a hand-off, whose own saving is logged when it is made."""

    rest: Measurable
    handoff: Handoff

    def render(self) -> str:
        return "\n".join(filter(None, (self.rest.render(), self.handoff.render())))

    def field_chars(self) -> Iterator[int]:
        yield from self.rest.field_chars()
        yield from self.handoff.field_chars()


@dataclass(frozen=True, slots=True)
class Step:
    """The contents of all sections. Each list has the best first. `hint` is a fenced text."""

    context: AgentContext = field(default_factory=AgentContext)
    standing: tuple[StandingDocument, ...] = ()
    retry: RetryContext | None = None
    hint: str = ""
    handoff: Handoff | None = None

    def render(self) -> str:
        return "\n".join(text for _, text in self.sections())

    def sections(self) -> Iterator[tuple[str, str]]:
        """Yield the name and text of each section that is not empty, in the text's order."""
        if self.standing:
            documents = "".join(document.render() for document in self.standing)
            yield STANDING, f"## Standing documents\n{documents}"
        for name in _IN_ORDER:
            if getattr(self.context, name):
                yield name, self.context.keeping([name]).render()
        if self.handoff:
            yield HANDOFF, self.handoff.render()
        if self.hint:
            yield HINT, f"{self.hint}\n"
        if self.retry:
            yield RETRY, self.retry.render()

    def last_lines_of(self, section: str) -> list[int]:
        """Return the number of each item's last line in the text, counted from 0."""
        line = 0
        for name, text in self.sections():
            if name == section:
                sizes = [len(item_text(name, item).splitlines()) for item in items_in(self, name)]
                return [line + used for used in accumulate(sizes)]
            # Sections end in a line break, and another comes between two of them.
            line += len(text.splitlines()) + 1
        return []

    def field_chars(self) -> Iterator[int]:
        yield sum(len(document.content) for document in self.standing)
        yield from self.context.field_chars()
        if self.handoff:
            yield from self.handoff.field_chars()
        yield len(self.hint)
        if self.retry:
            yield from self.retry.field_chars()


class LedgerItem(NamedTuple):
    """One item that was kept or dropped. `tokens` counts a kept one by itself, as the text shows it."""

    id: str
    kept: bool
    reason: str = ""
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class SectionLedger:
    """The contents of one section, and the items that it lost.

    `tokens` is the section's part of the text's tokens, so the sections add up to the certificate. `items`
    names all kept items and the best dropped ones; `counts` counts all dropped ones by reason.
    """

    name: str
    tokens: int
    kept: int
    items: tuple[LedgerItem, ...]
    counts: Mapping[str, int]

    @property
    def dropped(self) -> int:
        return sum(self.counts.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "tokens": self.tokens,
            "kept": self.kept,
            "dropped": self.dropped,
            "items": [item._asdict() for item in self.items],
            "counts": dict(self.counts),
        }


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Items dropped before a step was composed: the best with their reasons, and all counted by reason."""

    items: tuple[tuple[str, str], ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Everything that may be sent: the step as if there were no limits, and the items dropped before.

    `names` has the ids of items without a name of their own, such as memories, by section. `partial` maps the
    path of a file that is not shown whole to the way it is shown. `unsent` is the reason of fields that the
    profile does not keep.
    """

    step: Step
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)
    partial: Mapping[str, str] = field(default_factory=dict)
    unsent: str = NOT_IN_PHASE

    def ids(self, section: str) -> list[str]:
        """Return the id of each item of a section."""
        known = self.names.get(section, ())
        own = _own_names(self.step, section)
        return [*known[: len(own)], *own[len(known) :]]


def items_in(step: Step, section: str) -> Sequence[Any]:
    """Return a section's items. A text is one item. A retry's first is all of it except the changed files."""
    if section == STANDING:
        return step.standing
    if section == RETRY:
        return (step.retry, *step.retry.changed_files) if step.retry else ()
    if section == HANDOFF:
        return step.handoff.parts if step.handoff else ()
    value = step.hint if section == HINT else getattr(step.context, section)
    if isinstance(value, str):
        return (value,) if value else ()
    items: Sequence[Any] = value
    return items


def item_text(section: str, item: Any) -> str:
    """Return the text of one item as the section shows it."""
    if section == RETRY and isinstance(item, RetryContext):
        return replace(item, changed_files=()).render()
    if isinstance(item, StandingDocument | HandoffPart | ContextFile | ChangedFile):
        return item.render()
    return str(item) if section == HINT else render_item(item)


def _own_names(step: Step, section: str) -> list[str]:
    items = items_in(step, section)
    if section == STANDING:
        return [document.title for document in items]
    if section == HANDOFF:
        return [part.name for part in items]
    if section == RETRY and items:
        return [f"attempt {items[0].attempt_number}", *(file.path for file in items[1:])]
    if section == "files":
        return [file.path for file in items]
    if section == "tree_paths":
        return list(items)
    if section in ("memories", "docs", "tools"):
        return [f"{section}.{place}" for place in range(len(items))]
    return [section] * len(items)
