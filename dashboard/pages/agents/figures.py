"""Savings of filtering by phase, aggregated by the database, and the profiles that decide them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from contextopt.agents.models import PhaseProfile
from contextopt.engine.agents.phases import DEFAULT_PROFILES
from contextopt.engine.agents.phases import PhaseProfile as ProfileValue
from contextopt.sql import fetch_rows
from dashboard.kit.charts.tiles import Tile, describe_change, describe_growth, in_points, points, unit
from dashboard.kit.formats import NONE, compact, whole
from dashboard.kit.periods import Period
from dashboard.rollups.queries import FigureFilter, rollup_parameters, rollup_rows

# Stands for the phases that are not listed separately; no phase has this name.
OTHERS = ""
PHASES_TOLD = 20


@dataclass(frozen=True, slots=True)
class PhaseFigures:
    """Sums over some filtered contexts."""

    filterings: int = 0
    full_tokens: int = 0
    sent_tokens: int = 0
    trimmed: int = 0

    @property
    def saved_tokens(self) -> int:
        return self.full_tokens - self.sent_tokens

    @property
    def rate(self) -> float | None:
        """The saving as a share of the full contexts, from 0 to 1; None if there were none."""
        return self.saved_tokens / self.full_tokens if self.full_tokens else None

    @property
    def trim_rate(self) -> float | None:
        return self.trimmed / self.filterings if self.filterings else None

    def __add__(self, other: "PhaseFigures") -> "PhaseFigures":
        return PhaseFigures(
            self.filterings + other.filterings,
            self.full_tokens + other.full_tokens,
            self.sent_tokens + other.sent_tokens,
            self.trimmed + other.trimmed,
        )


@dataclass(frozen=True, slots=True)
class PhaseSeries:
    """Figures of the whole period, of each phase, and of each phase's buckets."""

    period: Period
    total: PhaseFigures
    by_phase: Mapping[str, PhaseFigures]
    points: Mapping[str, tuple[PhaseFigures, ...]]

    @property
    def phases(self) -> list[str]:
        """The measured phases: defaults in their order, then the team's own by name, then the others."""
        defaults = list(DEFAULT_PROFILES)
        own = sorted(phase for phase in self.by_phase if phase not in DEFAULT_PROFILES and phase != OTHERS)
        return [phase for phase in (*defaults, *own, OTHERS) if phase in self.by_phase]


# Callers may name any phase, so only the most used ones are listed separately.
_SERIES = """
    WITH filtered AS MATERIALIZED (
        SELECT phase, width_bucket(start, %(edges)s::timestamptz[]) AS bucket, sum(assemblies) AS filterings,
               sum(tokens_before) AS tokens_before, sum(tokens_after) AS tokens_after,
               sum(truncated) AS truncated
          FROM ({rows}) AS rollups GROUP BY 1, 2
    ), told AS (
        SELECT phase FROM filtered GROUP BY phase ORDER BY sum(filterings) DESC, phase LIMIT %(limit)s
    ), named AS (
        SELECT coalesce(told.phase, '') AS phase, bucket, filterings, tokens_before, tokens_after, truncated
        FROM filtered LEFT JOIN told USING (phase)
    )
    SELECT phase, bucket, coalesce(sum(filterings), 0)::bigint AS filterings,
           coalesce(sum(tokens_before), 0)::bigint AS full_tokens,
           coalesce(sum(tokens_after), 0)::bigint AS sent_tokens,
           coalesce(sum(truncated), 0)::bigint AS trimmed
    FROM named
    GROUP BY GROUPING SETS ((phase, bucket), (phase), ())
"""


class _Row(NamedTuple):
    """A row of the result, by column name."""

    phase: str | None
    bucket: int | None
    filterings: int
    full_tokens: int
    sent_tokens: int
    trimmed: int

    def to_figures(self) -> PhaseFigures:
        return PhaseFigures(self.filterings, self.full_tokens, self.sent_tokens, self.trimmed)


def read_phase_series(wanted: FigureFilter) -> PhaseSeries:
    """Return the figures of the whole period, the phases and their buckets, in one query."""
    period = wanted.period
    values = {**rollup_parameters(wanted), "limit": PHASES_TOLD}
    total, by_phase = PhaseFigures(), dict[str, PhaseFigures]()
    found: dict[str, dict[int, PhaseFigures]] = {}
    for row in fetch_rows(_Row, _SERIES.format(rows=rollup_rows(wanted)), values):
        if row.phase is None:
            total = row.to_figures()
        elif row.bucket is None:
            by_phase[row.phase] = row.to_figures()
        else:
            found.setdefault(row.phase, {})[row.bucket] = row.to_figures()
    numbers = range(1, len(period.edges))
    points = {
        phase: tuple(buckets.get(number, PhaseFigures()) for number in numbers)
        for phase, buckets in found.items()
    }
    return PhaseSeries(period, total, by_phase, points)


def build_phase_tiles(now: PhaseFigures, before: PhaseFigures) -> list[Tile]:
    saved, magnitude = compact(now.saved_tokens) if now.filterings else (NONE, "")
    return [
        Tile(
            "saved", "Tokens saved", saved, magnitude,
            describe_growth(now.saved_tokens, before.saved_tokens, "higher"),
            f"of {whole(now.full_tokens)} in full",
        ),
        Tile(
            "share", "Share saved", points(now.rate), unit(now.rate),
            describe_change(now.rate, before.rate, "higher", in_points),
            "of the full contexts",
        ),
        Tile(
            "filterings", "Filtered contexts", *compact(now.filterings),
            describe_growth(now.filterings, before.filterings, "none"),
            f"{whole(now.sent_tokens / now.filterings if now.filterings else None)} tokens sent each",
        ),
        Tile(
            "trimmed", "Over the budget", points(now.trim_rate), unit(now.trim_rate),
            describe_change(now.trim_rate, before.trim_rate, "none", in_points),
            "trimmed to fit",
        ),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """A phase: its active settings, who set them, and its saving; an unknown phase has no `value`."""

    phase: str
    value: ProfileValue | None
    stored: PhaseProfile | None
    figures: PhaseFigures

    @property
    def fields(self) -> str:
        return field_words(self.value.fields) if self.value else ""


def phase_rows(stored: Iterable[PhaseProfile], by_phase: Mapping[str, PhaseFigures]) -> list[PhaseRow]:
    """Return every phase that has a profile, then those that were filtered without one."""
    published = {profile.phase: profile for profile in stored}
    values = {**DEFAULT_PROFILES, **{phase: profile.to_value() for phase, profile in published.items()}}
    unknown = sorted(phase for phase in by_phase if phase not in values and phase != OTHERS)
    rest = [OTHERS] if OTHERS in by_phase else []
    return [
        PhaseRow(phase, values.get(phase), published.get(phase), by_phase.get(phase, PhaseFigures()))
        for phase in (*values, *unknown, *rest)
    ]


def field_words(fields: Sequence[str]) -> str:
    """Return the names of the fields that a profile keeps, for people."""
    return ", ".join(name.replace("_", " ") for name in fields) or "none"


@dataclass(frozen=True, slots=True)
class ProfileVersion:
    """A version of a phase's settings, and its differences from the previous version."""

    profile: PhaseProfile
    fields: str
    budget_before: int | None = None
    added: str = ""
    removed: str = ""


def compare_profiles(phase: str, newest_first: Sequence[PhaseProfile]) -> list[ProfileVersion]:
    """Compare each version with the previous one, and the oldest with the phase's default."""
    oldest = DEFAULT_PROFILES.get(phase)
    older = [profile.to_value() for profile in newest_first[1:]]
    # Without versions there is nothing to compare with the default.
    return [_compared(*pair) for pair in zip(newest_first, (*older, oldest), strict=False)]


def _compared(profile: PhaseProfile, older: ProfileValue | None) -> ProfileVersion:
    fields = field_words(profile.fields)
    if older is None:
        return ProfileVersion(profile, fields)
    return ProfileVersion(
        profile,
        fields,
        budget_before=older.budget_tokens if older.budget_tokens != profile.budget_tokens else None,
        added=_named(profile.fields, besides=older.fields),
        removed=_named(older.fields, besides=profile.fields),
    )


def _named(fields: Sequence[str], *, besides: Sequence[str]) -> str:
    return ", ".join(name.replace("_", " ") for name in fields if name not in besides)
