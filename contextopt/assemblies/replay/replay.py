"""Computes a logged assembly again and compares it with the log."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast
from zoneinfo import ZoneInfo

from pydantic_core import from_json, to_json

from contextopt.assemblies.candidates import PreparedRequest
from contextopt.assemblies.inputs import ReplayIn
from contextopt.assemblies.models import Assembly, AssemblyPayload, pack_entries
from contextopt.assemblies.placement.modelcatalog import PriceBook
from contextopt.assemblies.placement.state import logged_prompt
from contextopt.assemblies.replay.candidates import Reached, decide_under, settings_for
from contextopt.assemblies.replay.material import (
    Material,
    NotReplayable,
    Reason,
    last_contexts,
    load_material,
    read_contexts,
)
from contextopt.assemblies.results import AssemblyResult, entries_json
from contextopt.assemblies.shortage import shortage_warnings
from contextopt.assemblies.verify import Difference
from contextopt.engine.placement.choice import SYSTEM, Placed, Placement, PromptSizes, Split
from contextopt.engine.settings import ContextConfig
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.engine.values import NOT_EMBEDDED, NOTHING_RELEVANT, UNKNOWN_MODEL, ContextWarning
from contextopt.errors import PRODUCT_ERRORS
from contextopt.telemetry import work_seconds


@dataclass(frozen=True, slots=True)
class Replay:
    """A logged assembly, computed again.

    `differences` names the logged figures that the replay computes differently. If it looked up candidates
    that the engine was not given at the time, it `is_reconstructed`, and `looked_up` counts them. Without a
    `result`, `reason` and `message` say why.
    """

    assembly: Assembly
    result: AssemblyResult | None = None
    is_changed: bool = False
    differences: tuple[str, ...] = ()
    is_reconstructed: bool = False
    looked_up: int = 0
    reason: Reason | None = None
    message: str = ""

    @property
    def config(self) -> ContextConfig | None:
        """The settings under which it was computed again."""
        return self.result.asked.config if self.result else None

    @property
    def is_same(self) -> bool:
        """Whether all figures are as logged, or under other settings at least the text."""
        if self.result is None:
            return False
        return "sha256" not in self.differences if self.is_changed else not self.differences

    @property
    def added(self) -> list[int]:
        """The ids of the records that only the replay keeps, in rank order."""
        before = shown_records(self.assembly.payload)
        return [record_id for record_id in self._kept() if record_id not in before]

    @property
    def removed(self) -> list[int]:
        """The ids of the records that only the logged context kept, in rank order."""
        before, after = shown_records(self.assembly.payload), set(self._kept())
        return [record_id for record_id in before if self.result and record_id not in after]

    def _kept(self) -> list[int]:
        return [entry.id for entry in self.result.ledger if entry.kept] if self.result else []

    def to_json(self) -> dict[str, Any]:
        """Return one line of the command `replay`."""
        certificate = self.result.certificate if self.result else None
        answer = {
            "id": self.assembly.pk,
            "same": self.is_same if self.result else None,
            "sha256": certificate.sha256 if certificate else None,
            "tokens": certificate.total_tokens if certificate else None,
            "added": self.added,
            "removed": self.removed,
            "differences": list(self.differences),
            "reconstructed": self.is_reconstructed,
            "looked_up": self.looked_up,
        }
        return answer if self.reason is None else answer | {"reason": self.reason, "message": self.message}


def shown_records(payload: AssemblyPayload) -> dict[int, None]:
    """Return the ids of the records that the reader saw, in the text or an earlier block, in rank order."""
    kept = [entry["id"] for entry in payload.entries if entry["kept"]]
    return dict.fromkeys([*kept, *payload.ledger["order"]])


def replay_assembly(assembly: Assembly, data: ReplayIn | None = None) -> Replay:
    """Compute the assembly again, under other settings if they are given.

    The assembly comes with its payload, space and config.

    Raises:
        Conflict: the assembly is not the context of a space.
        NotFound: the space has no such version of settings.
        InvalidInput, InvalidValue: a setting is outside its range; the error names it.
        BudgetExceeded: under the settings, system and history leave the response too little.
        UnknownEncoding: the settings name a tokenizer that is not available.
        ServiceUnavailable: other candidates are needed, and the question cannot be embedded now.
    """
    started = work_seconds()
    try:
        material = load_material(assembly)
        asked = material.asked
        config = settings_for(material, data) if data else asked.config
        is_changed = config != asked.config
        if is_changed:
            tokenizer = asked.tokenizer if assembly.model else get_tokenizer(config.encoding)
            asked = replace(asked, config=config, tokenizer=tokenizer)
            reached = decide_under(material, asked)
        else:
            reached = decide_again(material)
    except NotReplayable as error:
        return Replay(assembly, reason=error.reason, message=str(error))
    if data and data.config:
        asked = replace(asked, space=replace(asked.space, config_version=data.config))
    placement = cast("Placement", assembly.placement or SYSTEM)
    result = AssemblyResult(
        asked=asked,
        found=reached.found,
        placed=Placed(placement, reached.outcome, material.givens.sight),
        assembly_ms=(work_seconds() - started) * 1_000,
        entries=entries_json(reached.outcome.ledger),
        warnings=tuple(_warnings(material, asked, reached)),
    )
    return Replay(
        assembly,
        result,
        is_changed,
        tuple(_differences(assembly, result)),
        reached.is_reconstructed,
        reached.looked_up,
    )


def decide_again(material: Material) -> Reached:
    """Let the engine decide again from exactly what it was given."""
    found = material.candidates(material.asked.tokenizer)
    return Reached(found, material.asked.decide(found, material.givens.sight))


def _warnings(material: Material, asked: PreparedRequest, reached: Reached) -> Iterator[ContextWarning]:
    """Yield what the reader of the replayed context should know."""
    # These depend on the vectors that existed and on the best match at the time, so take them from the log.
    is_relevant = reached.found.query is None or reached.found.query.is_relevant
    wanted = {NOT_EMBEDDED, UNKNOWN_MODEL} | (set() if is_relevant else {NOTHING_RELEVANT})
    yield from (warning for warning in material.assembly.payload.warnings if warning.code in wanted)
    yield from shortage_warnings(asked, reached.outcome)


def _differences(assembly: Assembly, result: AssemblyResult) -> Iterator[str]:
    """Yield the names of the logged figures that the replay computes differently."""
    logged, stats, outcome = assembly.payload.ledger, result.stats, result.outcome
    pairs = {
        "sha256": (result.certificate.sha256, assembly.sha256),
        "tokens": (result.certificate.total_tokens, assembly.tokens_after),
        "ledger": (from_json(to_json(pack_entries(result.entries))), logged["candidates"]),
        "counts": (dict(stats.dropped_by_reason), logged["counts"]),
        "order": (list(outcome.order), logged["order"]),
        "records_filtered": (stats.records_filtered, assembly.records_filtered),
        "outside_window": (stats.outside_window, assembly.outside_window),
        "deleted": (stats.deleted, assembly.deleted),
        "baseline_order": (list(outcome.baseline_order), logged["baseline_order"]),
        "tokens_before": (stats.stage3_tokens, assembly.tokens_before),
        "truncated": (stats.truncated, assembly.truncated),
    }
    yield from (name for name, (again, then) in pairs.items() if again != then)


@dataclass(frozen=True, slots=True)
class PromptCost:
    """The cost of a prompt; `dollars` are None if the model has no price."""

    split: Split
    dollars: float | None


def cost_of(assembly: Assembly, split: Split | None, book: PriceBook) -> PromptCost | None:
    """Return the cost of the assembly's prompt for this split, at the prices of its day."""
    if split is None:
        return None
    day = assembly.created_at.astimezone(ZoneInfo(assembly.team.time_zone)).date()
    price = book.price(assembly.model, day)
    return PromptCost(split, price.dollars(split) * assembly.mean_share if price else None)


def replayed_sizes(again: Replay, data: ReplayIn | None) -> PromptSizes | None:
    """Return the sizes of the prompt with the replayed context, as if the last prompt had been replayed too.

    None outside of a conversation, or if the last prompt matters and cannot be replayed.
    """
    payload = again.assembly.payload
    tokenizer = payload.tokenizer
    logged = logged_prompt(payload, tokenizer) if again.result is not None else None
    if logged is None or again.result is None:
        return None
    # A context in front of the conversation shares only its common beginning with the last one.
    if again.is_changed and logged.placement == SYSTEM and logged.last_id is not None:
        last = _replayed_text(logged.last_id, data)
        if last is None:
            return None
        logged = logged.after(last)
    return logged.measure(again.result.text, again.result.certificate.tokens_at_most, tokenizer)


def _replayed_text(assembly_id: int, data: ReplayIn | None) -> str | None:
    rows = Assembly.objects.for_replay()
    try:
        last = replay_assembly(rows.get(pk=assembly_id), data)
    except PRODUCT_ERRORS:
        return None
    return last.result.text if last.result else None


def replay_last(team_id: int, last: int) -> Iterator[Replay]:
    """Yield the replays of the team's last contexts of spaces, newest first, under their own settings."""
    yield from map(replay_assembly, read_contexts(team_id, last_contexts(team_id, last)))


def differences_of(again: Replay) -> Iterator[Difference]:
    """Yield the logged figures that the replay computes differently; none if it could not be replayed."""
    if again.result is None:
        return
    pairs: dict[str, tuple[object, object]] = {
        "sha256": (again.assembly.sha256, again.result.certificate.sha256),
        "tokens": (again.assembly.tokens_after, again.result.certificate.total_tokens),
    }
    for name in again.differences:
        yield Difference(name, *pairs.get(name, ("as logged", "something else")))
