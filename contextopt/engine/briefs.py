"""What a phase hands on: its critical findings whole, and a brief of the rest within a token budget.

The brief is extractive: every name, path, number and sentence in it is one of the findings', as written.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contextopt.engine.briefsettings import BriefSettings, PhaseBrief
from contextopt.engine.findings import CRITICAL_TAG, Finding, render_finding
from contextopt.engine.tokens import Tokenizer

OVER_BUDGET = "over_budget"
SPECULATION = "speculation"
ALTERNATIVE = "alternative"


@dataclass(frozen=True, slots=True)
class Kept:
    """A statement of the brief, as it stands there, and the finding that it is from."""

    finding_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Discarded:
    """A finding that is neither critical nor in the brief, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Compression:
    """What a phase hands on, and what that saves.

    `tokens_before` is all findings in full, `tokens_after` brief and critical findings.
    """

    phase: str
    brief: str
    brief_tokens: int
    critical: tuple[str, ...]
    critical_tokens: int
    tokens_before: int
    discarded: tuple[Discarded, ...]
    kept: tuple[Kept, ...]
    warnings: tuple[str, ...]

    @property
    def tokens_after(self) -> int:
        return self.brief_tokens + self.critical_tokens

    @property
    def in_brief(self) -> tuple[str, ...]:
        """Findings that the brief says something of."""
        return tuple(dict.fromkeys(kept.finding_id for kept in self.kept))

    def to_json(self) -> dict[str, Any]:
        """Return what is stored and handed on; `token_count` is the brief's alone."""
        return {
            "brief": self.brief,
            "critical_findings": list(self.critical),
            "token_count": self.brief_tokens,
            "discarded": [{"id": each.id, "reason": each.reason} for each in self.discarded],
            "warnings": list(self.warnings),
        }


def compress(
    findings: Iterable[Finding], *, phase: str, settings: BriefSettings, tokenizer: Tokenizer
) -> Compression:
    """Compress the findings of one phase; their order does not matter."""
    ordered = sorted(findings, key=lambda finding: natural(finding.id))
    limits = settings.for_phase(phase)
    critical_ids = find_critical(ordered, limits=limits, settings=settings)
    critical = [finding for finding in ordered if finding.id in critical_ids]
    rest = [finding for finding in ordered if finding.id not in critical_ids]
    lines: list[str] = []
    kept: list[Kept] = []
    discarded: list[Discarded] = []
    for finding in rest:
        if finding.confidence < settings.speculation_below:
            discarded.append(Discarded(finding.id, SPECULATION))
            continue
        line = " ".join(str(finding.content.get("description", "")).split())
        if tokenizer.count("\n".join([*lines, line])) > limits.budget_tokens:
            discarded.append(Discarded(finding.id, OVER_BUDGET))
            continue
        lines.append(line)
        kept.append(Kept(finding.id, line))
    brief = "\n".join(lines)
    return Compression(
        phase=phase,
        brief=brief,
        brief_tokens=tokenizer.count(brief),
        critical=tuple(finding.id for finding in critical),
        critical_tokens=_total(critical, tokenizer),
        tokens_before=_total(ordered, tokenizer),
        discarded=tuple(discarded),
        kept=tuple(kept),
        warnings=(),
    )


def find_critical(findings: Sequence[Finding], *, limits: PhaseBrief, settings: BriefSettings) -> set[str]:
    """Return the ids of those that are critical, and of all that these depend on; circles are no harm."""
    by_id: Mapping[str, Finding] = {finding.id: finding for finding in findings}
    waiting = [finding.id for finding in findings if _is_critical(finding, limits, settings)]
    critical: set[str] = set()
    while waiting:
        current = waiting.pop()
        if current in by_id and current not in critical:
            critical.add(current)
            waiting.extend(by_id[current].depends_on)
    return critical


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that puts F-9 before F-10."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", name)
    key = [(0, int(part), part) if part.isascii() and part.isdigit() else (1, 0, part) for part in parts]
    return tuple(key)


def _is_critical(finding: Finding, limits: PhaseBrief, settings: BriefSettings) -> bool:
    if finding.implementation_ready or any(tag.casefold() == CRITICAL_TAG for tag in finding.tags):
        return True
    return finding.category in limits.key_categories and finding.confidence > settings.critical_above


def _total(findings: Sequence[Finding], tokenizer: Tokenizer) -> int:
    return tokenizer.count("".join(render_finding(finding) for finding in findings))
