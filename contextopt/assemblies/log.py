"""Logs what entered a prompt, as a narrow row and its payload, for spaces and for agents."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import structlog
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from psycopg.types.json import Jsonb
from pydantic_core import to_json

from contextopt.assemblies.engineinputs import pack_givens
from contextopt.assemblies.figures import STORED
from contextopt.assemblies.models import NO_QUESTION_KEPT, Assembly, AssemblyPayload, Kind, pack_entries
from contextopt.assemblies.results import AssemblyResult
from contextopt.engine.placement.choice import Placed
from contextopt.engine.settings import SCORED_STAGE
from contextopt.engine.text.tokens import Counter, Measurable
from contextopt.engine.values import Certificate, ContextWarning, warnings_json
from contextopt.errors import Conflict, NotFound
from contextopt.locks import HOLD_SPACE
from contextopt.lookups import find_one
from contextopt.sql import fetch_column, fetch_one, id_array
from contextopt.telemetry import names
from contextopt.telemetry.exporter import Attributes, is_on
from contextopt.telemetry.spans import record_assembly

log = structlog.get_logger(__name__)

ASSEMBLY_COLUMNS = (
    "id", "team_id", "space_id", "config_id", "kind", "stage", "phase", "model", "conversation", "actor",
    "as_of", "created_at", "is_demo", *(figure.name for figure in STORED),
)  # fmt: skip
PAYLOAD_COLUMNS = ("text", "baseline_text", "ledger", "config", "request", "record_ids", "givens")
_PLACEHOLDERS = {
    "id": "coalesce(%(id)s::bigint, nextval('contextopt_assembly_id_seq'))",
    "created_at": "coalesce(%(created_at)s, now())",
    "record_ids": "%(record_ids)s::bigint[]",
    "warning_codes": "%(warning_codes)s::varchar[]",
}


def _placeholders(columns: tuple[str, ...]) -> str:
    return ", ".join(_PLACEHOLDERS.get(name, f"%({name})s") for name in columns)


# Values are passed by column name. One statement takes half the time of two through the ORM.
_STORE_SQL = f"""
WITH held AS MATERIALIZED ({HOLD_SPACE}
), assembly AS (
    INSERT INTO contextopt_assembly ({", ".join(ASSEMBLY_COLUMNS)})
    SELECT {_placeholders(ASSEMBLY_COLUMNS)} FROM held
    RETURNING id
)
INSERT INTO contextopt_assemblypayload (assembly_id, {", ".join(PAYLOAD_COLUMNS)})
SELECT assembly.id, {_placeholders(PAYLOAD_COLUMNS)}
  FROM assembly
RETURNING assembly_id
"""


DELIVERY = timedelta(minutes=10)
"""How long the delivery of a context can be confirmed."""


def draw_ids(number: int) -> list[int]:
    """Reserve ids for assemblies that are logged later. An unused one leaves a gap."""
    statement = "SELECT nextval('contextopt_assembly_id_seq') FROM generate_series(1, %s)"
    return fetch_column(statement, [number])


def log_assembly(
    result: AssemblyResult,
    *,
    is_demo: bool = False,
    created_at: datetime | None = None,
    drawn_id: int | None = None,
    keeps_question: bool = True,
    is_sent: bool = True,
) -> AssemblyResult:
    """Write the narrow row and its payload in one statement; return the result with its id.

    The id may be drawn beforehand, if the caller has to name the assembly before it is decided. Without
    `keeps_question`, it cannot be replayed. Without `is_sent`, it counts neither as a saving nor as a cost.

    Raises:
        NotFound: the space was deleted in the meantime.
    """
    values = {
        "id": drawn_id,
        "created_at": created_at,
        "is_demo": is_demo,
        "is_sent": is_sent and not result.asked.request.awaits_delivery,
        "awaits_delivery": result.asked.request.awaits_delivery,
        **_assembly_values(result),
        **_payload_values(result, keeps_question=keeps_question),
    }
    stored = fetch_one(_STORE_SQL, values)
    if stored is None:
        raise NotFound(f"The space {result.asked.space.slug!r} was deleted in the meantime.")
    logged = replace(result, id=stored[0])
    _log_events(logged)
    if is_on() and not is_demo:
        attributes = {names.ASSEMBLY_ID: stored[0], **_attributes(logged)}
        record_assembly(attributes=attributes, ms=logged.assembly_ms)
    return logged


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


def _attributes(result: AssemblyResult) -> Attributes:
    """Return the attributes of the assembly's span. Texts and questions are not among them."""
    asked, stats = result.asked, result.stats
    saved = stats.tokens_saved
    return {
        names.TEAM_ID: asked.team_id,
        names.SPACE: asked.space.slug,
        names.STAGE: asked.config.stage,
        names.CONTEXT_TOKENS: stats.tokens_used,
        names.TOKENS_AVAILABLE: stats.tokens_available,
        names.RECORDS_INCLUDED: stats.records_included,
        names.RECORDS_FILTERED: stats.records_filtered,
        names.TRUNCATED: stats.truncated,
        names.WARNINGS: [warning.code for warning in result.warnings],
        **({} if saved is None else {names.TOKENS_SAVED: saved}),
    }


def _assembly_values(result: AssemblyResult) -> dict[str, Any]:
    asked, request = result.asked, result.asked.request
    measured = {figure.name: figure.measure(result) for figure in STORED if figure.measure}
    sizes = result.prompt_sizes.figures()
    return {
        "team_id": asked.team_id,
        "space_id": asked.space.id,
        "config_id": asked.space.config_id,
        "kind": Kind.SPACE.value,
        "stage": asked.config.stage,
        "phase": "",
        "model": request.model,
        "conversation": request.conversation,
        "actor": asked.actor,
        "as_of": asked.as_of,
        # Empty if the request asks for no placement, and unknown outside of a conversation.
        "placement": result.placed.placement if request.placement or request.conversation else "",
        **(sizes if request.is_in_conversation else dict.fromkeys(sizes)),
        **measured,
    }


def _prompt_json(placed: Placed) -> dict[str, Any]:
    """Return the other inputs of the prompt's sizes, so that the sizes can be verified."""
    before, last = placed.conversation, placed.conversation.last
    return {
        "history_tokens": before.history_tokens,
        "last": last.block_id if last else None,
        "idle_seconds": before.idle_seconds,
        "minimum_tokens": placed.prices.minimum_tokens,
        "lifetime_seconds": placed.prices.lifetime_seconds,
    }


def _payload_values(result: AssemblyResult, *, keeps_question: bool) -> dict[str, Any]:
    asked, placed, outcome = result.asked, result.placed, result.outcome
    named = {entry.id for entry in outcome.ledger} | set(outcome.baseline_order)
    question_tokens = placed.conversation.question_tokens
    ledger = {
        "candidates": pack_entries(result.entries),
        "order": list(outcome.order),
        "baseline_order": list(outcome.baseline_order),
        "counts": dict(outcome.stats.dropped_by_reason),
        # Most have no earlier blocks and no warnings, so these keys are left out.
        **({"question_tokens": question_tokens} if question_tokens else {}),
        **({} if outcome.fixed_tokens is None else {"fixed_tokens": outcome.fixed_tokens}),
        **({"carried": [block.id for block in placed.kept]} if placed.kept else {}),
        **({"prompt": _prompt_json(placed)} if asked.request.is_in_conversation else {}),
        **({"warnings": warnings_json(result.warnings)} if result.warnings else {}),
    }
    config = {**asked.config.to_json(), "version": asked.space.config_version, "overrides": asked.overrides}
    # Only the sizes of the caller's system and history may be kept.
    left_out = {"system", "history"} | (set() if keeps_question else {"query"})
    request = asked.request.model_dump(mode="json", exclude_unset=True, exclude=left_out)
    if not keeps_question:
        request[NO_QUESTION_KEPT] = True
    return {
        "text": outcome.text,
        "baseline_text": outcome.baseline_text,
        "ledger": _jsonb(ledger),
        "config": _jsonb(config),
        "request": _jsonb(request | asked.sizes.to_json()),
        "record_ids": id_array(sorted(named)),
        "givens": pack_givens(asked.space.shown, result.found, placed.sight),
    }


def _jsonb(value: dict[str, Any]) -> Jsonb:
    # The standard library takes five times as long: a twentieth of a whole assembly at stage 4.
    return Jsonb(value, dumps=to_json)


def _log_events(result: AssemblyResult) -> None:
    stats, outcome, stage = result.stats, result.outcome, result.asked.config.stage
    bound = log.bind(assembly_id=result.id, space=result.asked.space.slug, stage=stage)
    bound.info(
        "context_filtering_complete",
        filtered=stats.records_filtered,
        outside_window=stats.outside_window,
        deleted=stats.deleted,
    )
    scored = stats.records_filtered if stage >= SCORED_STAGE else 0
    bound.info("records_scored_by_relevance", scored=scored)
    bound.info("token_budget_allocated", **asdict(outcome.allocation))
    bound.info(
        "context_truncation_complete",
        included=stats.records_included,
        dropped=stats.records_dropped,
        reasons=stats.dropped_by_reason,
    )
    bound.info(
        "context_assembled",
        tokens_used=stats.tokens_used,
        tokens_available=stats.tokens_available,
        tokens_saved=stats.tokens_saved,
        truncated=stats.truncated,
        warnings=[warning.code for warning in result.warnings],
        assembly_ms=round(result.assembly_ms, 3),
        sha256=outcome.certificate.sha256,
    )


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
        digest = hashlib.sha256(self.text.encode()).hexdigest()
        return Certificate(self.tokens_after, self.counter.name, self.counter.version, digest)

    def ledger(self) -> dict[str, Any]:
        """Return the ledger in the form that all kinds share; its candidate list is empty here.

        `chars` holds the length of each field's contents. The heuristic counter needs them, and they cannot
        be read from the text.
        """
        sides = {"before": self.before, "after": self.after}
        chars = {name: list(side.field_chars()) if side else [] for name, side in sides.items()}
        shared = {"candidates": pack_entries([]), "order": [], "baseline_order": [], "counts": {}}
        warned = {"warnings": warnings_json(self.warnings)} if self.warnings else {}
        return {**shared, "chars": chars, **warned, **self.details}


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
