"""The log of what was made smaller for agents: phases and retries, beside the contexts of spaces."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.db import transaction
from django.utils import timezone

from contextopt.assemblies.ledgers import pack_entries
from contextopt.assemblies.models import Assembly, AssemblyPayload, Kind
from contextopt.engine.prompts.values import Certificate
from contextopt.engine.prompts.warnings import ContextWarning, warnings_json
from contextopt.engine.text.counters import Counter, Measurable, get_counter
from contextopt.engine.text.tokens import get_tokenizer


def choose_counter(name: str, encoding: str) -> Counter:
    """Return the counter of that name; the encoding is that of the real one.

    Raises:
        UnknownEncoding: the tokenizer is not at hand.
    """
    return get_counter(name, get_tokenizer(encoding))


@dataclass(frozen=True)
class Saving:
    """What would have been sent, what was sent instead, and why.

    `before` and `tokens_before` none say that there is nothing to compare with. `tokens_available` none says
    that there was no budget: then it is the larger of the two.
    """

    kind: Kind
    before: Measurable | None
    after: Measurable | None
    tokens_before: int | None
    tokens_after: int
    tokens_available: int | None
    counter: Counter
    assembly_ms: float
    phase: str = ""
    model: str = ""
    truncated: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[ContextWarning, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def text(self) -> str:
        return self.after.render() if self.after else ""

    def certificate(self) -> Certificate:
        digest = hashlib.sha256(self.text.encode()).hexdigest()
        return Certificate(self.tokens_after, self.counter.name, self.counter.version, digest)

    def ledger(self) -> dict[str, Any]:
        """Return the ledger in the form that all kinds share; no records are candidates here.

        `chars` are those of each field's contents: what the heuristic counts, which the text cannot tell.
        """
        sides = {"before": self.before, "after": self.after}
        chars = {name: list(side.field_chars()) if side else [] for name, side in sides.items()}
        shared = {"candidates": pack_entries([]), "order": [], "baseline_order": [], "counts": {}}
        warned = {"warnings": warnings_json(self.warnings)} if self.warnings else {}
        return {**shared, "chars": chars, **warned, **self.details}


@transaction.atomic
def log_saving(*, team_id: int, saving: Saving, actor: str, is_demo: bool = False) -> Assembly:
    """Write the narrow row and its payload."""
    certificate = saving.certificate()
    before, after, available = saving.tokens_before, saving.tokens_after, saving.tokens_available
    assembly = Assembly.objects.create(
        team_id=team_id,
        kind=saving.kind,
        phase=saving.phase,
        model=saving.model,
        actor=actor[:160],
        as_of=timezone.now(),
        tokens_before=before,
        tokens_after=after,
        tokens_available=max(before or 0, after) if available is None else available,
        truncated=saving.truncated,
        warning_codes=[warning.code for warning in saving.warnings],
        assembly_ms=saving.assembly_ms,
        encoding=certificate.encoding,
        tokenizer_version=certificate.tokenizer_version,
        sha256=certificate.sha256,
        is_demo=is_demo,
    )
    AssemblyPayload.objects.create(
        assembly=assembly,
        text=saving.text,
        baseline_text=saving.before.render() if saving.before else None,
        ledger=saving.ledger(),
        config=dict(saving.config),
        request=dict(saving.request),
    )
    return assembly
