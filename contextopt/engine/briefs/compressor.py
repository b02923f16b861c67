"""The hand-off of a phase: its critical findings in full, and a brief of the rest within a token budget.

The brief is extractive: every name, path, number and sentence in it is copied from the findings.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contextopt.engine.briefs.findings import CRITICAL_TAG, Finding, render_finding
from contextopt.engine.briefs.selection import MENTIONS, Selection, Selector
from contextopt.engine.briefs.settings import BriefSettings, PhaseBrief
from contextopt.engine.briefs.slots import Draft, draft
from contextopt.engine.text.cleaning import flatten
from contextopt.engine.text.entities import find_entities, has_word, words_of
from contextopt.engine.text.tokens import Tokenizer
from contextopt.engine.values import ContextWarning, warnings_json
from contextopt.engine.wording import plural

SPECULATION = "speculation"
ALTERNATIVE = "alternative"
DUPLICATE = "duplicate_of"
NOTHING_SAID = "nothing_said"
NAMES_ONLY = "names_only"
"""The brief mentions names from the finding, but none of its statements."""
OVER_BUDGET = "over_budget"
NO_STATEMENT = "no_statement"
"""Nothing in the finding reads as a statement by itself, so a larger budget would not help."""

LEFT_OUT = "findings_left_out"
EMPTY_BRIEF = "empty_brief"
MANY_CRITICAL = "many_critical"
CRITICAL_OVER_BUDGET = "critical_over_budget"
FINDINGS_OVER_BUDGET = "findings_over_budget"
OPEN_DECISIONS = "open_decisions"

SPECULATIVE_BELOW = 0.4
MAX_FILLS = 4
_ALTERNATIVES = ("alternatives", "alternative")
_CHOICES = ("chosen", "selected", "accepted", "adopted", "recommended")
_OPEN = "open"
_SEVERE = ("blocker", "critical", "severe", "high", "kritisk", "alvorlig", "høy")
_ENDINGS = (".", "!", "?", ":", ";", "。", "！", "？", "؟", "।")


@dataclass(frozen=True, slots=True)
class Kept:
    """A statement in the brief, and the finding it comes from."""

    finding_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Discarded:
    """A finding that is neither critical nor in the brief, with the reason."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Compression:
    """The hand-off of a phase and its saving.

    `tokens_before` counts all findings in full, `tokens_after` the brief and the critical findings.
    """

    phase: str
    brief: str
    brief_tokens: int
    critical: tuple[str, ...]
    critical_tokens: int
    tokens_before: int
    discarded: tuple[Discarded, ...]
    kept: tuple[Kept, ...]
    warnings: tuple[ContextWarning, ...]

    @property
    def tokens_after(self) -> int:
        return self.brief_tokens + self.critical_tokens

    @property
    def in_brief(self) -> tuple[str, ...]:
        """Return the findings that the brief covers."""
        return tuple(dict.fromkeys(kept.finding_id for kept in self.kept))

    def to_json(self) -> dict[str, Any]:
        """Return the stored and handed-on form. `token_count` counts the brief only."""
        return {
            "brief": self.brief,
            "critical_findings": list(self.critical),
            "token_count": self.brief_tokens,
            "discarded": [{"id": each.id, "reason": each.reason} for each in self.discarded],
            "warnings": warnings_json(self.warnings),
        }


def compress(
    findings: Iterable[Finding], *, phase: str, settings: BriefSettings, tokenizer: Tokenizer
) -> Compression:
    """Compress the findings of one phase; their order does not matter."""
    ordered = sorted(findings, key=lambda finding: natural(finding.id))
    limits = settings.for_phase(phase)
    critical_ids = find_critical(ordered, limits=limits, settings=settings)
    critical = [finding for finding in ordered if finding.id in critical_ids]
    reasons = dict(_left_out(ordered, critical_ids, settings))
    drafts = [draft(each) for each in ordered if each.id not in critical_ids and each.id not in reasons]
    brief, kept, offered = _write_brief(drafts, limits, tokenizer)
    said = {each.finding_id for each in kept}
    reasons |= {
        each.finding.id: _why_unsaid(each, brief, is_offered=each.finding.id in offered)
        for each in drafts
        if each.finding.id not in said
    }
    critical_tokens, tokens_before = _total(critical, tokenizer), _total(ordered, tokenizer)
    return Compression(
        phase=phase,
        brief=brief,
        brief_tokens=tokenizer.count(brief),
        critical=tuple(finding.id for finding in critical),
        critical_tokens=critical_tokens,
        tokens_before=tokens_before,
        discarded=tuple(Discarded(each.id, reasons[each.id]) for each in ordered if each.id in reasons),
        kept=kept,
        warnings=(
            *_warn_of_loss(ordered, reasons, brief=brief, critical=critical_ids),
            *_warnings(ordered, critical, critical_tokens, tokens_before, limits, settings),
        ),
    )


def find_lost(findings: Collection[Finding], discarded: Mapping[str, str]) -> frozenset[str]:
    """Return the ids of findings that a hand-off loses: leaving them out saves nothing.

    `discarded` gives the reasons of those left out. Repetition, speculation and alternatives that were not
    chosen are no loss.
    """
    kept = {finding.id for finding in findings} - discarded.keys()
    left_out = [finding for finding in findings if finding.id in discarded]
    return frozenset(each.id for each in left_out if _is_loss(each, discarded[each.id], kept))


def _is_loss(finding: Finding, reason: str, kept: Collection[str]) -> bool:
    if reason == SPECULATION:
        # A team may leave out more as speculation than counts as such here.
        return finding.confidence >= SPECULATIVE_BELOW
    if reason.startswith(DUPLICATE):
        return reason.removeprefix(f"{DUPLICATE} ") not in kept
    return reason != ALTERNATIVE


def is_mentioned(finding: Finding, text: str) -> bool:
    """Return whether a text has a name of the finding's content, or one of its words if it has no names."""
    content = " ".join(_said(finding.content))
    names = {entity.text for entity in find_entities(content)} or words_of(content)
    return any(has_word(name, text) for name in names) or bool(names & words_of(text))


def _said(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _said(each)
    elif value is not None:
        yield str(value)


def find_critical(findings: Sequence[Finding], *, limits: PhaseBrief, settings: BriefSettings) -> set[str]:
    """Return the ids of critical findings and of everything they depend on."""
    critical = [finding.id for finding in findings if _is_critical(finding, limits, settings)]
    return with_dependencies(findings, critical)


def with_dependencies(findings: Iterable[Finding], ids: Iterable[str]) -> set[str]:
    """Return the ids, and those of all findings they depend on, directly or indirectly.

    Unknown ids are left out. Circles are harmless.
    """
    by_id: Mapping[str, Finding] = {finding.id: finding for finding in findings}
    waiting, reached = list(ids), set[str]()
    while waiting:
        current = waiting.pop()
        if current in by_id and current not in reached:
            reached.add(current)
            waiting.extend(by_id[current].depends_on)
    return reached


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that puts F-9 before F-10."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", name)
    key = [(0, int(part), part) if part.isascii() and part.isdigit() else (1, 0, part) for part in parts]
    return tuple(key)


def _is_critical(finding: Finding, limits: PhaseBrief, settings: BriefSettings) -> bool:
    if finding.implementation_ready or any(tag.casefold() == CRITICAL_TAG for tag in finding.tags):
        return True
    return finding.category in limits.key_categories and finding.confidence > settings.critical_above


def _left_out(
    findings: Sequence[Finding], critical: Collection[str], settings: BriefSettings
) -> Iterator[tuple[str, str]]:
    """Yield the findings that never enter the brief, regardless of its budget, and why."""
    first: dict[str, str] = {}
    for finding in sorted(findings, key=lambda each: each.id not in critical):
        contents = " ".join(re.findall(r"\w+", f"{finding.content_json()} {finding.answer}".casefold()))
        original = first.setdefault(contents, finding.id)
        if finding.id in critical:
            continue
        if finding.confidence < settings.speculation_below:
            yield finding.id, SPECULATION
        elif _is_rejected_alternative(finding):
            yield finding.id, ALTERNATIVE
        elif original != finding.id:
            yield finding.id, f"{DUPLICATE} {original}"


def _is_rejected_alternative(finding: Finding) -> bool:
    tags = {tag.casefold() for tag in finding.tags}
    if finding.category.casefold() not in _ALTERNATIVES and not tags & {*_ALTERNATIVES, "rejected"}:
        return False
    if finding.decision == _OPEN or tags & set(_CHOICES):
        return False
    content = {str(key).casefold(): value for key, value in finding.content.items()}
    if any(content.get(choice) in (True, "true", "yes") for choice in _CHOICES):
        return False
    return not any(str(content.get(key)).casefold() in _CHOICES for key in ("status", "decision", "outcome"))


def _write_brief(
    drafts: Sequence[Draft], limits: PhaseBrief, tokenizer: Tokenizer
) -> tuple[str, tuple[Kept, ...], frozenset[str]]:
    """Return the brief, its statements, and the ids of the findings that it could have used.

    Its exact text is within the budget.
    """
    priorities = {name: rank for rank, name in enumerate(limits.priorities)}
    drafts = sorted(
        drafts,
        key=lambda each: (priorities.get(each.finding.category, len(priorities)), each.finding.category),
    )
    weights = [_weight(priorities.get(each.finding.category)) for each in drafts]
    headings = [flatten(each.finding.category) for each in drafts]
    selector = Selector(drafts, weights, headings, limits.budget_tokens, tokenizer)
    selector.prepare()
    selector.take_whole()
    selector.lead(_leaders(drafts, priorities, selector))
    used = tokenizer.count(_render(selector.selection(), drafts)[0])
    # Joined parts take fewer tokens than separate ones, which leaves room for more.
    for _ in range(MAX_FILLS):
        if not selector.fill(used):
            break
        used = tokenizer.count(_render(selector.selection(), drafts)[0])
    if selector.cut_long(used):
        used = tokenizer.count(_render(selector.selection(), drafts)[0])
    selector.mention(used)
    while True:
        selection = selector.selection()
        brief, kept = _render(selection, drafts)
        if tokenizer.count(brief) <= limits.budget_tokens:
            return brief, kept, frozenset(drafts[number].finding.id for number in selector.offers)
        selector.shrink()


def _leaders(drafts: Sequence[Draft], priorities: Mapping[str, int], selector: Selector) -> list[int]:
    """Return the drafts that enter the brief before all others, in order.

    They are the finding of highest confidence in each of the phase's categories, and all severe ones. A
    severe finding precedes those of other categories and, in its own category, those of higher confidence.
    """
    severe = {number for number, each in enumerate(drafts) if _is_severe(each.finding)}
    ranked = sorted(
        (number not in severe, -each.finding.confidence, -selector.worth(number), number)
        for number, each in enumerate(drafts)
        if each.finding.category in priorities
    )
    firsts: dict[str, int] = {}
    for *_, number in ranked:
        firsts.setdefault(drafts[number].finding.category, number)
    leaders = sorted(firsts.values(), key=lambda number: (number not in severe, number))
    return list(dict.fromkeys([*leaders, *sorted(severe)]))


def _is_severe(finding: Finding) -> bool:
    return any(
        str(key).casefold() == "severity" and str(value).casefold() in _SEVERE
        for key, value in finding.content.items()
    )


def _weight(rank: int | None) -> float:
    """Return the weight of a category: most for the phase's first, least for unnamed ones."""
    return 1.0 if rank is None else 1.5 - 0.05 * min(rank, 9)


def _render(selection: Selection, drafts: Sequence[Draft]) -> tuple[str, tuple[Kept, ...]]:
    lines: list[str] = []
    kept: list[Kept] = []
    heading = None
    for number, statements in selection.statements.items():
        each = drafts[number]
        if each.finding.category != heading:
            heading = each.finding.category
            lines.append(f"{heading}:")
        said = [statement.text for statement in statements if statement.place >= 0]
        kept += [Kept(each.finding.id, text) for text in (each.head, *said) if text]
        parts = ([each.head] if each.head else []) + ([_join(said)] if said else [])
        lines.append(" — ".join(parts))
    if selection.mentions:
        # Sorting puts similar names next to each other.
        lines.append(MENTIONS + " ".join(sorted(selection.mentions)))
    return "\n".join(lines), tuple(kept)


def _join(sentences: Sequence[str]) -> str:
    text = sentences[0]
    for sentence in sentences[1:]:
        text += f" {sentence}" if text.endswith(_ENDINGS) else f"; {sentence}"
    return text


def _why_unsaid(each: Draft, brief: str, *, is_offered: bool) -> str:
    if not each.has_something_to_say:
        return NOTHING_SAID
    mentions = brief.rpartition(MENTIONS)[2].split() if MENTIONS in brief else []
    if any(has_word(name, each.text) for name in mentions):
        return NAMES_ONLY
    return OVER_BUDGET if is_offered else NO_STATEMENT


def _warn_of_loss(
    findings: Sequence[Finding], reasons: Mapping[str, str], *, brief: str, critical: Collection[str]
) -> Iterator[ContextWarning]:
    """Name every finding that is no speculation and that is neither handed on in full nor in the brief.

    The content of a repeated one is handed on with its original.
    """
    if not brief and len(critical) < len(findings):
        count = plural(len(findings) - len(critical), "finding is", "findings are")
        yield ContextWarning(EMPTY_BRIEF, f"the brief is empty, although {count} not critical")
    kept = {finding.id for finding in findings} - reasons.keys()
    named = [
        f"{finding.id} ({reasons[finding.id].replace('_', ' ')})"
        for finding in findings
        if finding.id in reasons
        and finding.confidence >= SPECULATIVE_BELOW
        and reasons[finding.id].removeprefix(f"{DUPLICATE} ") not in kept
    ]
    if named:
        yield ContextWarning(LEFT_OUT, f"not handed on: {', '.join(named)}")


def _warnings(
    findings: Sequence[Finding],
    critical: Sequence[Finding],
    critical_tokens: int,
    tokens_before: int,
    limits: PhaseBrief,
    settings: BriefSettings,
) -> Iterator[ContextWarning]:
    if len(critical) > settings.max_critical:
        names = ", ".join(finding.id for finding in critical)
        text = f"{len(critical)} findings are critical, more than {settings.max_critical}: {names}"
        yield ContextWarning(MANY_CRITICAL, text)
    if critical_tokens > limits.critical_tokens:
        text = f"critical findings take {critical_tokens:,} tokens, more than {limits.critical_tokens:,}"
        yield ContextWarning(CRITICAL_OVER_BUDGET, text)
    if tokens_before > limits.output_tokens:
        text = f"the findings take {tokens_before:,} tokens, more than the phase's {limits.output_tokens:,}"
        yield ContextWarning(FINDINGS_OVER_BUDGET, text)
    if undecided := [finding.id for finding in findings if finding.decision == _OPEN]:
        yield ContextWarning(OPEN_DECISIONS, f"decisions are open: {', '.join(undecided)}")


def _total(findings: Sequence[Finding], tokenizer: Tokenizer) -> int:
    return tokenizer.count("".join(render_finding(finding) for finding in findings))
