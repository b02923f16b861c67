"""Logs what an agent saved, in the same two tables as the contexts of spaces, and what hooks delivered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from contextopt.assemblies.models import Assembly, AssemblyPayload, Kind, pack_entries
from contextopt.engine.text.tokens import Counter, Measurable
from contextopt.engine.values import Certificate, ContextWarning, warnings_json
from contextopt.errors import Conflict
from contextopt.sql import find_one

DELIVERY = timedelta(minutes=10)
"""How long the delivery of a context can be confirmed."""


@dataclass(frozen=True)
class Saving:
    """One saving: the baseline, what was sent instead, and why.

    `before` and `tokens_before` are None without a baseline. `tokens_available` is None without a budget; the
    larger of the two token counts is then stored instead. A text that is not sent counts nothing.
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
    task_id: int | None = None
    truncated: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[ContextWarning, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)
    record_ids: tuple[int, ...] = ()
    is_sent: bool = True

    @cached_property
    def text(self) -> str:
        return self.after.render() if self.after else ""

    def certificate(self) -> Certificate:
        return Certificate.of(self.text, self.tokens_after, self.counter)

    def ledger(self) -> dict[str, Any]:
        """Return the ledger in the form that all kinds share; its candidate list is empty here.

        `chars` holds the length of each field's contents. The heuristic counter needs them, and they cannot
        be read from the text.
        """
        sides = {"before": self.before, "after": self.after}
        chars = {name: list(side.field_chars()) if side else [] for name, side in sides.items()}
        shared = {"candidates": pack_entries([]), "order": [], "baseline_order": [], "counts": {}}
        warned = {"warnings": warnings_json(self.warnings)} if self.warnings else {}
        factors = self.counter.factors_json()
        scaled = {"token_factors": factors} if factors else {}
        return {**shared, "chars": chars, **warned, **scaled, **self.details}


@dataclass(frozen=True, slots=True)
class PlainText:
    """A text that is sent unchanged."""

    text: str

    def render(self) -> str:
        return self.text

    def field_chars(self) -> list[int]:
        return [len(self.text)]


@transaction.atomic
def log_saving(*, team_id: int, saving: Saving, actor: str, is_demo: bool = False) -> Assembly:
    """Store the narrow row and its payload."""
    certificate = saving.certificate()
    before, after, available = saving.tokens_before, saving.tokens_after, saving.tokens_available
    assembly = Assembly.objects.create(
        team_id=team_id,
        kind=saving.kind,
        task_id=saving.task_id,
        phase=saving.phase,
        model=saving.model,
        actor=actor,
        as_of=timezone.now(),
        tokens_before=before,
        tokens_after=after,
        tokens_available=max(before or 0, after) if available is None else available,
        truncated=saving.truncated,
        is_sent=saving.is_sent,
        warning_codes=[warning.code for warning in saving.warnings],
        assembly_ms=saving.assembly_ms,
        encoding=certificate.encoding,
        tokenizer_version=certificate.tokenizer_version,
        sha256=certificate.sha256,
        counted_tokens=None if certificate.factor is None else certificate.tokens,
        factor=certificate.factor,
        factor_mean=certificate.factor_mean,
        factor_source=certificate.factor_source or "",
        factor_prompts=certificate.factor_prompts,
        is_demo=is_demo,
    )
    AssemblyPayload.objects.create(
        assembly=assembly,
        text=saving.text,
        baseline_text=saving.before.render() if saving.before else None,
        ledger=saving.ledger(),
        config=dict(saving.config),
        request={**saving.request, **({"task_id": saving.task_id} if saving.task_id else {})},
        record_ids=list(saving.record_ids),
    )
    return assembly


def confirm_delivery(rows: QuerySet[Assembly], assembly_id: int) -> None:
    """Note that the context of a hook has arrived, so that it counts. Confirming it again does nothing.

    Raises:
        NotFound: it is not among the rows.
        Conflict: it awaits no confirmation, or is older than 10 minutes.
    """
    assembly = find_one(rows.filter(pk=assembly_id), f"assembly {assembly_id}")
    if not assembly.awaits_delivery:
        raise Conflict(f"Assembly {assembly_id} awaits no confirmation: it counts since it was answered.")
    if assembly.is_sent:
        return
    if timezone.now() - assembly.created_at > DELIVERY:
        minutes = DELIVERY // timedelta(minutes=1)
        raise Conflict(f"Assembly {assembly_id} is older than {minutes} minutes, so it stays not delivered.")
    Assembly.objects.filter(pk=assembly_id, is_sent=False).update(is_sent=True)
