"""Recomputes every stored figure of an assembly from its payload, as proof."""

from collections import Counter as Multiset
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from contextopt.assemblies.models import Assembly, AssemblyPayload, Kind
from contextopt.assemblies.placement.state import block_tokens, measure_again
from contextopt.engine.assembly import NOT_LOADED
from contextopt.engine.budget import LOW_RELEVANCE, OVER_BUDGET, OVER_RECORD_LIMIT, allocate
from contextopt.engine.details import DUPLICATE_OF
from contextopt.engine.rendering import record_lines
from contextopt.engine.settings import HEADER_STAGE, ContextConfig
from contextopt.engine.text.tokens import Counter, HeuristicCounter, RenderedCounter, Tokenizer
from contextopt.engine.values import INSUFFICIENT, Certificate, Counts, PartSizes, read_warnings

type Figure = tuple[str, object]

ALL_SECTIONS = "tokens of all sections"
CONFIG_VERSION = "config version"


@dataclass(frozen=True, slots=True)
class Difference:
    """A stored figure that differs from the one recomputed from the payload."""

    figure: str
    stored: object
    recomputed: object


def verify_assembly(payload: AssemblyPayload) -> list[Difference]:
    """Recompute every figure of the assembly; an empty list means that all are right.

    If a record was purged, the text is no longer the one that was sent, so figures counted on it are left
    out.

    Raises:
        UnknownEncoding: the tokenizer used then is not available.
    """
    return compare(payload, recompute(payload))


def compare(payload: AssemblyPayload, figures: Mapping[str, object]) -> list[Difference]:
    """Return the recomputed figures that differ from the stored ones."""
    assembly = payload.assembly
    return [
        Difference(name, stored, value)
        for name, value in figures.items()
        if (stored := _stored(assembly, payload, name)) != value
    ]


def recompute(payload: AssemblyPayload) -> dict[str, object]:
    """Return every figure of the assembly, computed from its payload.

    Raises:
        UnknownEncoding: the tokenizer used then is not available.
    """
    is_space = payload.assembly.kind == Kind.SPACE
    figures = _from_space(payload) if is_space else _from_saving(payload)
    return dict(chain(figures, _from_warnings(payload), _from_rule(payload)))


def _from_space(payload: AssemblyPayload) -> Iterator[Figure]:
    tokenizer = payload.tokenizer
    carried = _carried_tokens(payload, tokenizer)
    yield from _from_ledger(payload)
    yield from _from_config(payload, carried)
    yield from _from_conversation(payload, tokenizer)
    if payload.purged_at is None:
        yield from _from_text(payload, tokenizer, carried)


def _from_conversation(payload: AssemblyPayload, tokenizer: Tokenizer) -> Iterator[Figure]:
    """Yield the sizes of the prompt that decide its cost."""
    if sizes := measure_again(payload, tokenizer):
        yield from ((name, tokens) for name, tokens in sizes.figures().items() if tokens is not None)


def _from_warnings(payload: AssemblyPayload) -> Iterator[Figure]:
    """Yield the codes of the warnings.

    Rows from before warnings had codes, and hand-offs, whose warnings are about findings, store none.
    """
    stored = payload.ledger.get("warnings", ())
    if payload.assembly.kind != Kind.HANDOFF and not any(isinstance(warning, str) for warning in stored):
        yield "warning_codes", [warning.code for warning in read_warnings(stored)]


def _from_rule(payload: AssemblyPayload) -> Iterator[Figure]:
    """Compute from the payload whether a sent context saves. Other figures check the tokens."""
    before, after = payload.assembly.tokens_before, payload.assembly.tokens_after
    codes = {found.code for found in read_warnings(payload.ledger.get("warnings", ()))}
    counts = payload.assembly.is_sent and not _lacks_content(payload) and not codes & INSUFFICIENT
    yield "tokens_saved", before - after if before is not None and counts else None


def _lacks_content(payload: AssemblyPayload) -> bool:
    """Return whether a context has no record although its stage takes records, or a retry sent nothing."""
    assembly = payload.assembly
    if assembly.kind == Kind.SPACE:
        return (assembly.stage or 0) > HEADER_STAGE and not any(entry["kept"] for entry in payload.entries)
    return assembly.kind == Kind.RETRY and not payload.text


def _stored(assembly: Assembly, payload: AssemblyPayload, name: str) -> object:
    """Return a figure of the row, or a record's tokens in the ledger if the name asks for them."""
    if name == ALL_SECTIONS:
        return assembly.tokens_after
    if name == CONFIG_VERSION:
        return assembly.config_version
    if not name.startswith("tokens of record "):
        return getattr(assembly, name)
    record_id = int(name.rpartition(" ")[2])
    return next(entry["tokens"] for entry in payload.entries if entry["id"] == record_id)


def _carried_tokens(payload: AssemblyPayload, tokenizer: Tokenizer) -> int:
    """Add up the tokens of the earlier blocks in the prompt, as each was certified."""
    carried: list[int] = payload.ledger.get("carried", [])
    if not carried:
        return 0
    blocks = AssemblyPayload.objects.select_related("assembly").filter(pk__in=carried)
    return sum(block_tokens(block, tokenizer) for block in blocks)


def _from_text(payload: AssemblyPayload, tokenizer: Tokenizer, carried: int) -> Iterator[Figure]:
    tokens = tokenizer.count(payload.text)
    yield "tokens_after", tokens + carried
    yield from _from_certificate(payload.text, tokens, tokenizer)
    if payload.baseline_text is not None:
        yield "tokens_before", tokenizer.count(payload.baseline_text)
    for record_id, line in record_lines(payload.text, payload.ledger["order"]).items():
        yield f"tokens of record {record_id}", tokenizer.count(line)


@dataclass(frozen=True, slots=True)
class _Measured:
    """A stored text with the characters of each of its fields, which cannot be read from the text."""

    text: str
    chars: list[int]

    def render(self) -> str:
        return self.text

    def field_chars(self) -> list[int]:
        return self.chars


def _from_certificate(text: str, tokens: int, counts: Counts) -> Iterator[Figure]:
    again = Certificate.of(text, tokens, counts)
    yield "sha256", again.sha256
    yield "counted_tokens", None if again.factor is None else again.tokens
    yield "factor", again.factor
    yield "factor_mean", again.factor_mean
    yield "factor_source", again.factor_source or ""
    yield "factor_prompts", again.factor_prompts


def _from_saving(payload: AssemblyPayload) -> Iterator[Figure]:
    ledger, counter = payload.ledger, _counter(payload)
    # Retries and hints have no phase.
    if phase := payload.request.get("phase", payload.config.get("phase")):
        yield "phase", phase
    if "sections" in ledger:
        yield ALL_SECTIONS, sum(section["tokens"] for section in ledger["sections"])
    if payload.purged_at is not None:
        return
    before = _count_baseline(payload, counter)
    after = counter.count(_Measured(payload.text, ledger["chars"]["after"]))
    yield "tokens_before", before
    yield "tokens_after", after
    yield from _from_certificate(payload.text, after, counter)
    yield "tokens_available", payload.config.get("budget_tokens", max(before or 0, after))
    cuts = ledger.get("trimmed") or [file for file in ledger.get("changed_files", []) if file["is_truncated"]]
    yield "truncated", bool(cuts)


def _count_baseline(payload: AssemblyPayload, counter: Counter) -> int | None:
    """Count the tokens of the baseline; None if there was none."""
    if payload.baseline_text is None:
        return None
    return counter.count(_Measured(payload.baseline_text, payload.ledger["chars"]["before"]))


def _counter(payload: AssemblyPayload) -> Counter:
    heuristic = HeuristicCounter()
    return heuristic if payload.assembly.encoding == heuristic.name else RenderedCounter(payload.tokenizer)


def _from_ledger(payload: AssemblyPayload) -> Iterator[Figure]:
    counts = Multiset(payload.ledger["counts"])
    included = sum(entry["kept"] for entry in payload.entries)
    yield "records_included", included
    yield "records_filtered", included + counts.total()
    yield "over_record_limit", counts[OVER_RECORD_LIMIT] + counts[NOT_LOADED]
    yield "over_budget", counts[OVER_BUDGET]
    yield "duplicates", counts[DUPLICATE_OF]
    yield "low_relevance", counts[LOW_RELEVANCE]
    cut_off = counts[OVER_RECORD_LIMIT] + counts[NOT_LOADED] + counts[OVER_BUDGET]
    # If the text has no record, the header may have been cut, which no count shows.
    if cut_off or payload.ledger["order"]:
        yield "truncated", cut_off > 0


def _from_config(payload: AssemblyPayload, carried: int) -> Iterator[Figure]:
    config = read_config(payload.config)
    request: dict[str, Any] = payload.request
    yield "stage", config.stage
    yield "model", request.get("model", "")
    yield CONFIG_VERSION, payload.config["version"]
    yield "carried_tokens", carried
    allocation = allocate(config, PartSizes.from_json(request), carried_tokens=carried)
    yield "total_tokens", allocation.total
    yield "system_tokens", allocation.system
    yield "history_tokens", allocation.history
    yield "tokens_available", allocation.context
    yield "response_tokens", allocation.response


def read_config(stored: dict[str, Any]) -> ContextConfig:
    """Return the engine's config from a payload's snapshot, which also holds its version and overrides.

    Older snapshots have one window and one record limit, used for questions too, and lack later settings.
    """
    settings = {"question_record_tokens": None, "date_weight": "0", "who_weight": "0"} | {
        name: value for name, value in stored.items() if name not in {"version", "overrides"}
    }
    if "notes_chars" in settings:
        settings["question_notes_chars"] = settings.pop("notes_chars")
        settings["question_window_days"] = settings["window_days"]
        settings["question_max_records"] = settings["max_records"]
    return ContextConfig.from_json(settings)
