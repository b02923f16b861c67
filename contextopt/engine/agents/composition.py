"""Composes the text of a step from what its phase keeps, within one budget, with a ledger per section.

The changes since a failed attempt, the hand-off of the phase before, the strategy hint and the repository's
standing documents go in first, whatever the phase keeps. The phase's fields share the rest. Tokens that one
field does not use go to the others, the most important first.
"""

from collections import Counter as Multiset
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from contextopt.engine.agents.contexts import AgentContext
from contextopt.engine.agents.deltas import ChangedFile
from contextopt.engine.agents.phases import PhaseProfile
from contextopt.engine.agents.steps import (
    ALWAYS_SENT,
    CUT,
    HANDOFF,
    HINT,
    NAMED_DROPPED,
    RETRY,
    SECTIONS,
    STANDING,
    Candidates,
    HandoffPart,
    LedgerItem,
    LeftOut,
    SectionLedger,
    StandingDocument,
    Step,
    item_text,
    items_in,
)
from contextopt.engine.agents.trims import TRIM_ORDER, Trimmed, items_of, longest, trim, trim_field
from contextopt.engine.budget import OVER_BUDGET
from contextopt.engine.text.tokens import Counter, Measurable, Measure
from contextopt.engine.values import BUDGET_TOO_SMALL, ContextWarning, Remedy

SECTION_WEIGHTS: Mapping[str, int] = {
    "files": 50, "memories": 15, "docs": 15, "tree": 8, "package_manifest": 5, "tools": 5, "tree_paths": 2,
}  # fmt: skip
"""How a phase's fields share its budget if all of them want more than their share."""


def share_out(budget_tokens: int, wants: Mapping[str, int]) -> dict[str, int]:
    """Return each section's tokens: at most what it wants, and together at most the budget.

    A section that wants less than its weight's share gets all it wants. The others divide the rest by weight.
    """
    left = {name: tokens for name, tokens in wants.items() if tokens > 0}
    shares = dict.fromkeys(wants, 0)
    room = max(budget_tokens, 0)
    while left:
        total = sum(SECTION_WEIGHTS[name] for name in left)
        modest = [name for name, tokens in left.items() if tokens * total <= room * SECTION_WEIGHTS[name]]
        if not modest:
            return shares | {name: room * SECTION_WEIGHTS[name] // total for name in left}
        for name in modest:
            shares[name] = left.pop(name)
        room = budget_tokens - sum(shares.values())
    return shares


_WORDS = {
    STANDING: "standing documents",
    HANDOFF: "parts of the hand-off",
    RETRY: "parts of the retry",
    HINT: "strategy hint",
    "package_manifest": "package manifest",
    "tree_paths": "paths",
}


@dataclass(frozen=True, slots=True)
class Composed:
    """The step that is sent, with its exact size and the ledger of all sections that had candidates.

    `trimmed` names the sections that lost candidates, or lines of one, to the budget.
    """

    step: Step
    tokens: int
    budget_tokens: int
    sections: tuple[SectionLedger, ...]
    trimmed: tuple[Trimmed, ...]
    warnings: tuple[ContextWarning, ...]

    @property
    def whole_files(self) -> frozenset[str]:
        """The paths of files that the text shows in full."""
        return frozenset(
            item.id
            for section in self.sections
            if section.name == "files"
            for item in section.items
            if item.kept and not item.reason
        )

    def kept(self, section: str) -> frozenset[str]:
        """Return the ids of a section's items that are in the text, whole or cut."""
        ledgers = [ledger for ledger in self.sections if ledger.name == section]
        return frozenset(item.id for ledger in ledgers for item in ledger.items if item.kept)


def compose(
    candidates: Candidates, profile: PhaseProfile, counter: Counter, *, asked_tokens: int | None = None
) -> Composed:
    """Choose what is sent. The budget is the smaller of the phase's and the requested one.

    The text never exceeds the budget, counted exactly.
    """
    budget = profile.budget_tokens if asked_tokens is None else min(asked_tokens, profile.budget_tokens)
    fields = set(profile.fields)
    whole = replace(candidates.step, context=candidates.step.context.keeping(profile.fields))
    step = _fixed_parts(whole, budget, counter)
    around = _Around(counter, step)
    wants = {
        name: counter.count(whole.context.keeping([name]))
        for name in profile.fields
        if items_of(whole.context, name)
    }
    shares = share_out(budget - counter.count(step), wants)
    kept = {name: _within(whole.context.keeping([name]), name, shares[name], counter) for name in wants}
    context = replace(whole.context.keeping([]), **{name: getattr(part, name) for name, part in kept.items()})
    if not around.fits(context, budget):
        context, _ = trim(context, budget, around)
    for name in reversed(TRIM_ORDER):
        value = getattr(whole.context, name)
        if value != getattr(context, name):
            context = _within(replace(context, **{name: value}), name, budget, around)
    step = replace(step, context=context)
    sections = tuple(_ledgers(candidates, step, fields, counter))
    warning = _too_small(sections, whole, budget, profile.budget_tokens, counter)
    trimmed = tuple(_trimmed(whole, step))
    return Composed(step, counter.count(step), budget, sections, trimmed, tuple(warning))


@dataclass(frozen=True, slots=True)
class _Around:
    """Counts a context as a part of its step."""

    counter: Counter
    step: Step

    @property
    def name(self) -> str:
        return self.counter.name

    @property
    def version(self) -> str:
        return self.counter.version

    def count(self, measured: Measurable) -> int:
        return self.counter.count(self._whole(measured))

    def count_text(self, text: str) -> int:
        return self.counter.count_text(text)

    def measure(self, text: str, counted: int) -> Measure:
        return self.counter.measure(text, counted)

    def factors_json(self) -> dict[str, list[int]] | None:
        return self.counter.factors_json()

    def fits(self, measured: Measurable, budget_tokens: int) -> bool:
        return self.counter.fits(self._whole(measured), budget_tokens)

    def _whole(self, measured: Measurable) -> Measurable:
        return replace(self.step, context=measured) if isinstance(measured, AgentContext) else measured


def _fixed_parts(whole: Step, budget: int, counter: Counter) -> Step:
    """Return the step with only the parts that are sent in every phase, as far as they fit."""
    step = Step(AgentContext(task=whole.context.task))
    if whole.retry:
        bare = replace(step, retry=replace(whole.retry, changed_files=()))
        if counter.fits(bare, budget):
            step = _with_most(bare, whole.retry.changed_files, _with_files, budget, counter)
    if whole.handoff:
        step = _with_most(step, whole.handoff.parts, partial(_with_handoff, whole), budget, counter)
    if whole.hint and counter.fits(replace(step, hint=whole.hint), budget):
        step = replace(step, hint=whole.hint)
    return _with_most(step, whole.standing, _with_standing, budget, counter)


def _with_most[Item](
    step: Step,
    items: tuple[Item, ...],
    add: Callable[[Step, tuple[Item, ...]], Step],
    budget: int,
    counter: Counter,
) -> Step:
    """Return the step with as many of the first items as fit."""
    count = longest(len(items), lambda size: counter.fits(add(step, items[:size]), budget), len(items))
    return add(step, items[:count])


def _with_files(step: Step, files: tuple[ChangedFile, ...]) -> Step:
    return replace(step, retry=step.retry and replace(step.retry, changed_files=files))


def _with_handoff(whole: Step, step: Step, parts: tuple[HandoffPart, ...]) -> Step:
    return replace(step, handoff=whole.handoff and replace(whole.handoff, parts=parts) if parts else None)


def _with_standing(step: Step, documents: tuple[StandingDocument, ...]) -> Step:
    return replace(step, standing=documents)


def _within(context: AgentContext, name: str, budget: int, counter: Counter) -> AgentContext:
    """Return the context with the longest beginning of the field that fits."""
    if counter.fits(context, budget):
        return context
    return trim_field(context, name, budget, counter)[0]


def _trimmed(whole: Step, step: Step) -> Iterator[Trimmed]:
    for name in SECTIONS:
        wanted, kept = items_in(whole, name), items_in(step, name)
        # Only the last kept item can be cut. A retry's first item is everything except its changed files.
        lines = [
            len(item_text(name, each[len(kept) - 1]).splitlines()) if kept else 0 for each in (wanted, kept)
        ]
        cut_lines = lines[0] - lines[1]
        if len(kept) < len(wanted) or cut_lines:
            yield Trimmed(name, len(wanted) - len(kept), cut_lines)


def _ledgers(
    candidates: Candidates, step: Step, fields: set[str], counter: Counter
) -> Iterator[SectionLedger]:
    tokens = _section_tokens(step, counter)
    for section in SECTIONS:
        wanted = items_in(candidates.step, section)
        left_out = candidates.left_out.get(section, LeftOut())
        if not wanted and not left_out.counts:
            continue
        reason = OVER_BUDGET if section in fields | ALWAYS_SENT else candidates.unsent
        kept = items_in(step, section)
        ids = candidates.ids(section)
        counts = Multiset(left_out.counts)
        counts[reason] += len(wanted) - len(kept)
        dropped = [(name, reason) for name in ids[len(kept) :]]
        named = [*dropped, *left_out.items][:NAMED_DROPPED]
        yield SectionLedger(
            name=section,
            tokens=tokens.get(section, 0),
            kept=len(kept),
            items=(
                *_kept_items(section, candidates, wanted, kept, counter),
                *(LedgerItem(name, kept=False, reason=why) for name, why in named),
            ),
            counts=dict(+counts),
        )


def _section_tokens(step: Step, counter: Counter) -> dict[str, int]:
    """Count each section with the blank line after it. Together they are exactly the whole text's tokens.

    No token of the known encodings spans the end of a section. If one did, the last section would absorb the
    difference.
    """
    parts = list(step.sections())
    tokens = {name: counter.count_text(f"{text}\n") for name, text in parts[:-1]}
    for name, _ in parts[-1:]:
        tokens[name] = counter.count(step) - sum(tokens.values())
    return tokens


def _kept_items(
    section: str,
    candidates: Candidates,
    wanted: Sequence[object],
    kept: Sequence[object],
    counter: Counter,
) -> Iterator[LedgerItem]:
    if section == "tree_paths":
        # There may be one for each file of a repository, and the text lists all that were kept.
        return
    partial = candidates.partial if section == "files" else {}
    for name, before, item in zip(candidates.ids(section), wanted, kept, strict=False):
        is_cut = before != item and section != RETRY
        tokens = counter.count_text(item_text(section, item))
        yield LedgerItem(name, kept=True, reason=CUT if is_cut else partial.get(name, ""), tokens=tokens)


def _too_small(
    sections: Sequence[SectionLedger], whole: Step, budget: int, most: int, counter: Counter
) -> Iterator[ContextWarning]:
    """Warn if a part that is sent in every phase is incomplete, or a section with candidates is empty."""
    missing = [
        _describe(section)
        for section in sections
        if section.counts.get(OVER_BUDGET) and (not section.kept or section.name in ALWAYS_SENT)
    ]
    if not missing:
        return
    message = f"The budget of {budget:,} tokens has no room for {', '.join(missing)}."
    # This does not count items that were dropped before composition.
    if (tokens := counter.count(whole)) > budget:
        message += f" All that was found takes {tokens:,} tokens."
    yield ContextWarning(BUDGET_TOO_SMALL, message, raise_budget(budget, most))


def raise_budget(budget: int, most: int) -> Remedy | None:
    """Propose the phase's budget if a smaller one was requested."""
    return Remedy("budget", most, f"Use the phase's budget of {most:,} tokens") if budget < most else None


def _describe(section: SectionLedger) -> str:
    words = _WORDS.get(section.name, section.name)
    over, total = section.counts[OVER_BUDGET], section.kept + section.dropped
    if section.name in (HINT, "package_manifest", "tree"):
        return f"the {words}"
    return f"{over:,} of {total:,} {words}"
