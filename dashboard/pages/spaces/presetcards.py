"""The presets of a space's settings, each with its effect on the space's last contexts."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

from contextopt.assemblies.inputs import ReplayIn
from contextopt.assemblies.models import Assembly, AssemblyQuerySet, Kind
from contextopt.assemblies.replay.replay import replay_assembly
from contextopt.engine.settings import SCORED_STAGE
from contextopt.errors import PRODUCT_ERRORS
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.inputs import SettingsIn
from contextopt.spaces.models import Space
from contextopt.spaces.presets import PRESETS, Preset

CONTEXTS_REPLAYED = 20
SECONDS = 2.0
# A smaller share of the tokens is about the same.
NO_CHANGE = 0.005


@dataclass(frozen=True, slots=True)
class ReplayedContext:
    """A logged context without a question, and the tokens and records that it would have."""

    tokens_before: int
    tokens_after: int
    records_before: int
    records_after: int
    last_records: int | None


@dataclass(frozen=True, slots=True)
class PresetEffect:
    """The last contexts without a question, as logged and under the preset. Figures are per context."""

    rows: Sequence[ReplayedContext]
    skipped: int = 0

    @property
    def tokens_before(self) -> float:
        return self._mean([row.tokens_before for row in self.rows])

    @property
    def tokens_after(self) -> float:
        return self._mean([row.tokens_after for row in self.rows])

    @property
    def records_before(self) -> float:
        return self._mean([row.records_before for row in self.rows])

    @property
    def records_after(self) -> float:
        return self._mean([row.records_after for row in self.rows])

    @property
    def fewer(self) -> float | None:
        """The share of tokens saved, negative if the preset takes more."""
        return 1 - self.tokens_after / self.tokens_before if self.tokens_before else None

    @property
    def is_saving(self) -> bool:
        return self.fewer is not None and self.fewer >= NO_CHANGE

    @property
    def fewer_before(self) -> float | None:
        """The same against the last 10 records, as logged."""
        return self._against_last([row.tokens_before for row in self.rows])

    @property
    def fewer_after(self) -> float | None:
        """The same against the last 10 records, under the preset."""
        return self._against_last([row.tokens_after for row in self.rows])

    def _against_last(self, tokens: Sequence[int]) -> float | None:
        pairs = [(one, row.last_records) for one, row in zip(tokens, self.rows, strict=True)]
        known = [(one, last) for one, last in pairs if last is not None]
        total = sum(last for _, last in known)
        return 1 - sum(one for one, _ in known) / total if total else None

    @staticmethod
    def _mean(values: Sequence[int]) -> float:
        return sum(values) / len(values) if values else 0.0


@dataclass(frozen=True, slots=True)
class PresetCard:
    """A preset as the settings page offers it; `effect` is None until it is computed."""

    preset: Preset
    is_active: bool
    effect: PresetEffect | None = None

    @classmethod
    def of(cls, preset: Preset, active: ContextConfig, effect: PresetEffect | None = None) -> "PresetCard":
        return cls(preset, preset.is_in(active.settings), effect)


def preset_cards(space: Space, active: ContextConfig, shown: str = "") -> list[PresetCard]:
    """Return all presets, the one named `shown` with its effect."""
    return [
        PresetCard.of(each, active, read_effect(space, each, active) if each.name == shown else None)
        for each in PRESETS.values()
    ]


def read_effect(space: Space, preset: Preset, active: ContextConfig) -> PresetEffect:
    """Replay the last contexts without a question under the preset; stop after two seconds."""
    data = ReplayIn(config=active.version, settings=SettingsIn(**preset.settings))
    ends = monotonic() + SECONDS
    rows: list[ReplayedContext] = []
    skipped = 0
    for assembly in contexts_without_question(space).for_replay()[:CONTEXTS_REPLAYED]:
        if monotonic() > ends:
            break
        try:
            result = replay_assembly(assembly, data).result
        except PRODUCT_ERRORS:
            result = None
        if result is None:
            skipped += 1
            continue
        stats = result.stats
        rows.append(
            ReplayedContext(
                assembly.tokens_after,
                result.certificate.total_tokens,
                assembly.records_included or 0,
                stats.records_included,
                stats.stage3_tokens,
            )
        )
    return PresetEffect(rows, skipped)


def contexts_without_question(space: Space) -> AssemblyQuerySet:
    rows = Assembly.objects.filter(space=space, kind=Kind.SPACE, stage=SCORED_STAGE, payload__purged_at=None)
    return rows.newest_first()
