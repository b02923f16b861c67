"""What the API answers about assemblies."""

from datetime import datetime
from typing import Any, NotRequired, TypedDict

from contextopt.api.outputs import pick
from contextopt.api.problems import FieldError
from contextopt.engine.warnings import WarningJson, warnings_json
from contextopt.models import Assembly


class BaselineOut(TypedDict):
    """A context that would have been sent otherwise, by name. `saved` is signed, and null where it does not
    count: the context is empty, or a warning says that it may lack the answer.
    """

    name: str
    tokens: int
    saved: int | None


class AllocationOut(TypedDict):
    """How the total is divided, in tokens."""

    total: int
    system: int
    history: int
    context: int
    response: int


class StatsOut(TypedDict):
    """Figures of one assembly; `tokens_saved` is that of the baseline, and null where it does not count."""

    records_filtered: int
    records_included: int
    records_dropped: int
    tokens_used: int
    tokens_available: int
    utilisation: float | None
    compression_ratio: float | None
    truncated: bool
    outside_window: int
    deleted: int
    stage3_tokens: int | None
    tokens_saved: int | None
    assembly_ms: float | None


class CertificateOut(TypedDict):
    """Tokens counted on the exact text, and its SHA-256."""

    tokens: int
    encoding: str
    tokenizer_version: str
    sha256: str


class IncludedOut(TypedDict):
    id: int
    source: str
    external_id: str
    score: float
    parts: dict[str, float]
    tokens: int
    pinned: bool


class DroppedOut(IncludedOut):
    """`duplicate_of` is the record that this one repeats, where that is the reason."""

    reason: str
    duplicate_of: int | None


class AssemblyOut(TypedDict):
    """One decision with its proof. `id` is null for a preview, which is not logged."""

    id: int | None
    space: str
    stage: int
    as_of: datetime
    config_version: int
    warnings: list[WarningJson]
    overrides: dict[str, Any]
    text: str
    allocation: AllocationOut
    stats: StatsOut
    baselines: list[BaselineOut]
    certificate: CertificateOut
    included: list[IncludedOut]
    dropped: list[DroppedOut]
    counts: dict[str, int]


class AssemblyRow(TypedDict):
    """A logged assembly in numbers. `not_counted` says why `tokens_saved` is null, where it is."""

    id: int
    kind: str
    space: str | None
    stage: int | None
    phase: str
    config_version: int | None
    conversation: str
    model: str
    actor: str
    as_of: datetime
    created_at: datetime
    truncated: bool
    records_filtered: int
    records_included: int
    records_dropped: int
    compression_ratio: float | None
    tokens_before: int | None
    tokens_after: int
    tokens_available: int
    tokens_saved: int | None
    not_counted: str
    utilisation: float | None
    assembly_ms: float
    encoding: str
    tokenizer_version: str
    sha256: str


class AssemblyPage(TypedDict):
    items: list[AssemblyRow]
    next_cursor: str | None


class LedgerEntryOut(IncludedOut):
    kept: bool
    reason: str
    duplicate_of: int | None


class LedgerOut(TypedDict):
    """Every candidate that was kept, the best hundred that were not, and counts of the rest.

    What was sent for a phase or an attempt has `chars`, and what was cut: `trimmed` or `changed_files`.
    """

    entries: list[LedgerEntryOut]
    order: list[int]
    baseline_order: list[int]
    counts: dict[str, int]
    warnings: NotRequired[list[WarningJson]]
    baseline: NotRequired[str]
    chars: NotRequired[dict[str, Any]]
    trimmed: NotRequired[list[dict[str, Any]]]
    changed_files: NotRequired[list[dict[str, Any]]]


class AssemblyDetail(AssemblyRow):
    """A logged assembly with its text, its ledger and the settings that were in force."""

    text: str
    allocation: AllocationOut
    ledger: LedgerOut
    config: dict[str, Any]
    request: dict[str, Any]
    purged_at: datetime | None


class DifferenceOut(TypedDict):
    figure: str
    stored: Any
    recomputed: Any


class VerificationOut(TypedDict):
    """Every stored figure computed again from the stored text and ledger."""

    id: int
    ok: bool
    differences: list[DifferenceOut]


class BatchRow(TypedDict):
    """One answer of a batch: an assembly, or why there is none."""

    id: str
    assembly: NotRequired[AssemblyOut]
    errors: NotRequired[list[FieldError]]


class BatchOut(TypedDict):
    assembled: int
    rejected: int
    results: list[BatchRow]


_ASSEMBLY_FIGURES = tuple(
    name for name in AssemblyRow.__annotations__ if name not in {"space", "config_version"}
)


def assembly_row(assembly: Assembly) -> dict[str, Any]:
    return {
        **pick(assembly, _ASSEMBLY_FIGURES),
        "space": assembly.space.slug if assembly.space else None,
        "config_version": assembly.config.version if assembly.config else None,
    }


def assembly_json(assembly: Assembly) -> dict[str, Any]:
    """Return a logged assembly with its payload, which the caller loaded in the same query."""
    payload = assembly.payload
    return {
        **assembly_row(assembly),
        "text": payload.text,
        "allocation": AllocationOut(
            total=assembly.total_tokens,
            system=assembly.system_tokens,
            history=assembly.history_tokens,
            context=assembly.tokens_available,
            response=assembly.response_tokens,
        ),
        "ledger": {
            "entries": payload.entries,
            **{name: value for name, value in payload.ledger.items() if name != "candidates"},
            "warnings": warnings_json(payload.warnings),
        },
        "config": payload.config,
        "request": payload.request,
        "purged_at": payload.purged_at,
    }
