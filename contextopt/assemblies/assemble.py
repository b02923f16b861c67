"""The one way in for a context: settings → candidates → engine → log.

An assembly takes three statements: the space with its settings, the candidates with their counts, and
one insert of the narrow row with its payload.
"""

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import structlog
from django.db import connection
from django.utils import timezone
from psycopg.types.json import Jsonb
from pydantic_core import to_json

from contextopt import engine
from contextopt.assemblies.candidates import Candidates, SpaceInForce, load_candidates, load_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.ledgers import EntryJson, pack_entries
from contextopt.assemblies.models import LAST_RECORDS
from contextopt.assemblies.questions import load_for_question
from contextopt.assemblies.sufficiency import QUESTION_NOT_EMBEDDED, Emptiness
from contextopt.engine import Assembled, ContextConfig, LedgerEntry
from contextopt.engine.prompts.assembly import NOT_LOADED
from contextopt.engine.prompts.config import LAST_RECORDS_STAGE, SCORED_STAGE
from contextopt.engine.prompts.selection import DUPLICATE_OF
from contextopt.engine.prompts.truncation import OVER_BUDGET, OVER_RECORD_LIMIT
from contextopt.engine.prompts.warnings import INSUFFICIENT, ContextWarning, warnings_json
from contextopt.engine.text.tokens import Tokenizer, get_tokenizer
from contextopt.errors import InvalidInput, NotFound
from contextopt.locks import HOLD_SPACE
from contextopt.search.registry import id_array
from contextopt.workclock import loading, work_seconds

log = structlog.get_logger(__name__)

# So many times the usual candidates are read for a question, the next where all of them went in and there is
# room for more: in vain in nearly all spaces, so the first is small. Past the last the rest is not looked at.
REACHES = (1, 6, 36, 216)

# Settings that a request may set for itself, under the engine's names.
OVERRIDES = (
    "window_days", "max_records", "recency_weight", "frequency_weight", "response_tokens",
    "context_tokens", "total_tokens", "encoding", "record_order", "semantic_weight", "lexical_weight",
    "neighbour_share", "notes_chars",
)  # fmt: skip
# Settings that go by another name where a question is asked, and in stage 3.
QUESTION_SETTINGS = {
    "window_days": "question_window_days",
    "max_records": "question_max_records",
    "notes_chars": "question_notes_chars",
}
STAGE_3_SETTINGS = {"context_tokens": "stage3_context_tokens"}
REQUEST_NAMES = {setting: name for name, setting in (QUESTION_SETTINGS | STAGE_3_SETTINGS).items()}


@dataclass(frozen=True, slots=True)
class AssemblyResult:
    """One decision with its proof. `id` is none for a preview, which is not logged."""

    id: int | None
    space: str
    stage: int
    as_of: datetime
    config_version: int
    overrides: dict[str, Any]
    outcome: Assembled
    entries: tuple[EntryJson, ...]
    assembly_ms: float
    warnings: tuple[ContextWarning, ...] = ()

    @property
    def text(self) -> str:
        return self.outcome.text

    @property
    def allocation(self) -> engine.TokenAllocation:
        return self.outcome.allocation

    @property
    def stats(self) -> engine.ContextStats:
        stats = replace(self.outcome.stats, assembly_ms=self.assembly_ms)
        return stats if self.saving_counts else replace(stats, tokens_saved=None)

    @property
    def saving_counts(self) -> bool:
        """Whether fewer tokens are a saving: not where the context is empty or may lack the answer."""
        is_enough = INSUFFICIENT.isdisjoint(warning.code for warning in self.warnings)
        return is_enough and bool(self.outcome.stats.records_included)

    @property
    def certificate(self) -> engine.Certificate:
        return self.outcome.certificate

    @property
    def ledger(self) -> tuple[LedgerEntry, ...]:
        return self.outcome.ledger

    def baselines(self) -> list[dict[str, Any]]:
        """Return what would have been sent otherwise; `saved` is None where the saving does not count."""
        tokens, saved = self.stats.stage3_tokens, self.stats.tokens_saved
        return [] if tokens is None else [{"name": LAST_RECORDS, "tokens": tokens, "saved": saved}]

    def to_json(self) -> dict[str, Any]:
        """Return the answer of the API and of `assemble --json`."""
        stats = asdict(self.stats)
        counts = stats.pop("dropped_by_reason")
        return {
            "id": self.id,
            "space": self.space,
            "stage": self.stage,
            "as_of": self.as_of.isoformat(),
            "config_version": self.config_version,
            "warnings": warnings_json(self.warnings),
            "overrides": self.overrides,
            "text": self.text,
            "allocation": asdict(self.allocation),
            "stats": stats,
            "baselines": self.baselines(),
            "certificate": asdict(self.certificate),
            "included": [
                _without(entry, "kept", "reason", "duplicate_of") for entry in self.entries if entry["kept"]
            ],
            "dropped": [_without(entry, "kept") for entry in self.entries if not entry["kept"]],
            "counts": {
                **counts,
                "outside_window": self.stats.outside_window,
                "deleted": self.stats.deleted,
            },
        }


def assemble_space(
    *,
    team_id: int,
    request: AssemblyIn,
    actor: str,
    store: bool = True,
    is_demo: bool = False,
    created_at: datetime | None = None,
) -> AssemblyResult:
    """Decide what of a space enters one prompt; log it unless it is a preview.

    `created_at` dates the log row: demo data is spread over past days by it.

    Raises:
        NotFound: the team has no such space.
        InvalidInput, InvalidValue: a setting is outside its range; the error names it.
        BudgetExceeded: system and history leave the response less than its reservation.
        UnknownEncoding: the tokenizer is not at hand.
    """
    started = work_seconds()
    as_of = request.as_of or timezone.now()
    space = load_space(team_id, request.space)
    config, overrides = config_in_force(space, request)
    with loading():
        tokenizer = get_tokenizer(config.encoding)
    system, history = prompt_sizes(request, tokenizer)
    for reach in REACHES:
        found = _find(space.id, request, config, as_of, tokenizer, reach)
        candidates = found.candidates
        outcome = engine.assemble(
            space.to_value(candidates.records),
            config,
            as_of,
            tokenizer,
            system_tokens=system,
            history_tokens=history,
            counts=candidates.counts,
            baseline=candidates.baseline,
            query=found.query,
        )
        if found.is_all or not outcome.wants_more_candidates:
            break
    emptiness = Emptiness(space.id, space.to_value(()), found.config, as_of, tokenizer, outcome)
    warnings = (*found.warnings, *emptiness.warnings())
    assembly_ms = (work_seconds() - started) * 1_000
    result = AssemblyResult(
        id=None,
        space=space.slug,
        stage=config.stage,
        as_of=as_of,
        config_version=space.config_version,
        overrides=overrides,
        outcome=outcome,
        entries=tuple(map(_entry_json, outcome.ledger)),
        assembly_ms=assembly_ms,
        warnings=warnings,
    )
    if not store:
        return result
    row = _LogRow(team_id, space, config, request, actor, is_demo, created_at, system, history)
    result = replace(result, id=_store(result, row))
    _log_events(result)
    return result


@dataclass(frozen=True, slots=True)
class _Found:
    """Candidates, the settings they were found under, and the question if there is one."""

    candidates: Candidates
    config: ContextConfig
    query: engine.Query | None = None
    warnings: tuple[ContextWarning, ...] = ()
    is_all: bool = True


def _find(
    space_id: int,
    request: AssemblyIn,
    config: ContextConfig,
    as_of: datetime,
    tokenizer: Tokenizer,
    reach: int,
) -> _Found:
    """Load the candidates; without a question stage 5 is stage 4."""
    if not request.asks:
        stage = min(config.stage, SCORED_STAGE)
        plain = config if config.stage == stage else config.replace(stage=stage)
        return _Found(load_candidates(space_id, config=plain, now=as_of, tokenizer=tokenizer), plain)
    asked = load_for_question(
        space_id, request.query.strip(), config=config, now=as_of, tokenizer=tokenizer, reach=reach
    )
    warnings = (QUESTION_NOT_EMBEDDED,) if asked.is_degraded else ()
    return _Found(asked.candidates, config, asked.query, warnings, asked.is_all)


def config_in_force(space: SpaceInForce, request: AssemblyIn) -> tuple[ContextConfig, dict[str, Any]]:
    """Return the engine's config and what of it the request set for itself, as JSON."""
    given = {name: getattr(request, name) for name in OVERRIDES if getattr(request, name) is not None}
    names = _setting_names(request)
    changes = {names.get(name, name): None if value == "all" else value for name, value in given.items()}
    if not request.asks:
        # Without a question no notes are rendered but the summaries'.
        changes.pop("notes_chars", None)
    config = ContextConfig(stage=request.stage_in_force, **{**space.settings, **changes})
    shown = {name: str(value) if isinstance(value, Decimal) else value for name, value in given.items()}
    return config, shown


def _setting_names(request: AssemblyIn) -> dict[str, str]:
    if request.asks:
        return QUESTION_SETTINGS
    return STAGE_3_SETTINGS if request.stage == LAST_RECORDS_STAGE else {}


def prompt_sizes(request: AssemblyIn, tokenizer: Tokenizer) -> tuple[int | None, int | None]:
    """Return the tokens of the caller's system and history, given as texts or as sizes."""
    sizes = []
    for name in ("system", "history"):
        text, size = getattr(request, name), getattr(request, f"{name}_tokens")
        if text is not None and size is not None:
            raise InvalidInput.of(f"{name}_tokens", f"give {name} or {name}_tokens, not both")
        sizes.append(tokenizer.count(text) if text is not None else size)
    return sizes[0], sizes[1]


def _entry_json(entry: LedgerEntry) -> EntryJson:
    return {
        "id": entry.id,
        "source": entry.source,
        "external_id": entry.external_id,
        "score": round(entry.score, 6),
        "parts": {name: round(value, 6) for name, value in entry.parts.items()},
        "tokens": entry.tokens,
        "pinned": entry.pinned,
        "kept": entry.kept,
        "reason": entry.reason,
        "duplicate_of": entry.duplicate_of,
    }


def _without(entry: EntryJson, *names: str) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in names}


@dataclass(frozen=True, slots=True)
class _LogRow:
    """What the log needs beside the result."""

    team_id: int
    space: SpaceInForce
    config: ContextConfig
    request: AssemblyIn
    actor: str
    is_demo: bool
    created_at: datetime | None
    system: int | None
    history: int | None

    def request_json(self) -> dict[str, Any]:
        """Return what was asked, less the caller's texts: their sizes are kept, they are not ours."""
        asked = self.request.model_dump(mode="json", exclude_unset=True, exclude={"system", "history"})
        if self.system is not None:
            asked["system_tokens"] = self.system
        if self.history is not None:
            asked["history_tokens"] = self.history
        return asked


_ASSEMBLY_COLUMNS = (
    "team_id", "space_id", "config_id", "kind", "stage", "phase", "model", "conversation", "actor",
    "as_of", "created_at", "records_filtered", "records_included", "over_record_limit", "over_budget",
    "duplicates", "outside_window", "deleted", "tokens_before", "tokens_after", "tokens_available",
    "total_tokens", "system_tokens", "history_tokens", "response_tokens", "truncated", "warning_codes",
    "assembly_ms",
    "encoding", "tokenizer_version", "sha256", "is_demo",
)  # fmt: skip
_PLACEHOLDERS = {
    "created_at": "coalesce(%s, now())",
    "record_ids": "%s::bigint[]",
    "warning_codes": "%s::varchar[]",
}
_PAYLOAD_COLUMNS = ("text", "baseline_text", "ledger", "config", "request", "record_ids")
_STORE_SQL = f"""
WITH held AS MATERIALIZED ({HOLD_SPACE}
), assembly AS (
    INSERT INTO contextopt_assembly ({", ".join(_ASSEMBLY_COLUMNS)})
    SELECT {", ".join(_PLACEHOLDERS.get(name, "%s") for name in _ASSEMBLY_COLUMNS)} FROM held
    RETURNING id
)
INSERT INTO contextopt_assemblypayload (assembly_id, {", ".join(_PAYLOAD_COLUMNS)})
SELECT assembly.id, {", ".join(_PLACEHOLDERS.get(name, "%s") for name in _PAYLOAD_COLUMNS)}
  FROM assembly
RETURNING assembly_id
"""


def _store(result: AssemblyResult, row: _LogRow) -> int:
    """Write the narrow row and its payload in one statement; return the id."""
    values = [row.space.id, *_assembly_values(result, row), *_payload_values(result, row)]
    with connection.cursor() as cursor:
        cursor.execute(_STORE_SQL, values)
        stored = cursor.fetchone()
    if stored is None:
        raise NotFound(f"The space {row.space.slug!r} was deleted meanwhile.")
    return int(stored[0])


def _assembly_values(result: AssemblyResult, row: _LogRow) -> list[Any]:
    stats, allocation, request = result.stats, result.allocation, row.request
    dropped = stats.dropped_by_reason
    return [
        row.team_id, row.space.id, row.space.config_id, "space", result.stage, "", request.model,
        request.conversation, row.actor[:160], result.as_of, row.created_at, stats.records_filtered,
        stats.records_included, dropped.get(OVER_RECORD_LIMIT, 0) + dropped.get(NOT_LOADED, 0),
        dropped.get(OVER_BUDGET, 0), dropped.get(DUPLICATE_OF, 0),
        stats.outside_window, stats.deleted,
        stats.stage3_tokens, stats.tokens_used, stats.tokens_available, allocation.total,
        allocation.system, allocation.history, allocation.response, stats.truncated,
        [warning.code for warning in result.warnings], result.assembly_ms,
        result.certificate.encoding, result.certificate.tokenizer_version, result.certificate.sha256,
        row.is_demo,
    ]  # fmt: skip


def _payload_values(result: AssemblyResult, row: _LogRow) -> list[Any]:
    baseline = result.outcome.baseline_order
    named = {entry.id for entry in result.ledger} | set(baseline)
    ledger = {
        "candidates": pack_entries(result.entries),
        "order": list(result.outcome.order),
        "baseline_order": list(baseline),
        "counts": dict(result.stats.dropped_by_reason),
        # Most have none, so they go without.
        **({"warnings": warnings_json(result.warnings)} if result.warnings else {}),
    }
    config = {**row.config.to_json(), "version": row.space.config_version, "overrides": result.overrides}
    return [
        result.text,
        result.outcome.baseline_text,
        _jsonb(ledger),
        _jsonb(config),
        _jsonb(row.request_json()),
        id_array(sorted(named)),
    ]


def _jsonb(value: dict[str, Any]) -> Jsonb:
    # The standard library takes five times as long, which is a twentieth of a whole assembly at stage 4.
    return Jsonb(value, dumps=to_json)


def _log_events(result: AssemblyResult) -> None:
    stats, allocation = result.stats, result.allocation
    bound = log.bind(assembly_id=result.id, space=result.space, stage=result.stage)
    bound.info(
        "context_filtering_complete",
        filtered=stats.records_filtered,
        outside_window=stats.outside_window,
        deleted=stats.deleted,
    )
    bound.info("records_scored_by_relevance", scored=len(result.ledger))
    bound.info("token_budget_allocated", **asdict(allocation))
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
        sha256=result.certificate.sha256,
    )
