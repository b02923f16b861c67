"""Compares figures with the rows of the log that they are computed from."""

from dataclasses import replace
from datetime import timedelta
from math import ceil
from zoneinfo import ZoneInfo

import pytest

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from dashboard.kit.periods import custom_period
from dashboard.pages.overview.figures import Figures, read_series
from dashboard.rollups.histograms import ASSEMBLY_MS, EXACT_BELOW, RATIO, TOKENS, UTILISATION, Histogram
from dashboard.rollups.models import DayRollup, DaySummary, HourSummary, QuarterRollup, StaleDay
from dashboard.rollups.queries import FigureFilter
from tests.factories import NOW

OSLO = "Europe/Oslo"


def whole(team: Team, zone: str = "UTC") -> FigureFilter:
    last = NOW.astimezone(ZoneInfo(zone)).date()
    period = custom_period(last - timedelta(days=6), last, NOW + timedelta(minutes=1), ZoneInfo(zone))
    return FigureFilter(team.pk, period)


def hourly(team: Team, zone: str = "UTC") -> FigureFilter:
    """Return a filter of the last two days, in hours."""
    last = NOW.astimezone(ZoneInfo(zone)).date()
    period = custom_period(last - timedelta(days=1), last, NOW + timedelta(minutes=1), ZoneInfo(zone))
    return FigureFilter(team.pk, period)


def assert_figures_are_those_of_the_rows(team: Team, zone: str = "UTC") -> None:
    """Compare the figures of all spaces, which come from summaries, and of each space, which don't."""
    for wanted in (whole(team, zone), hourly(team, zone)):
        start, until = wanted.period.start, wanted.period.until
        log = list(Assembly.objects.of(team).filter(created_at__gte=start, created_at__lt=until))
        assert_figures(wanted, log)
        for space in Space.objects.of(team):
            assert_figures(replace(wanted, space_id=space.pk), [row for row in log if row.space == space])


def assert_figures(wanted: FigureFilter, log: list[Assembly], *, exact_below: int = EXACT_BELOW) -> None:
    series = read_series(wanted)
    for figures, part in [
        (series.total, log),
        *(
            (point, [row for row in log if bucket.start <= row.created_at < bucket.end])
            for bucket, point in series.rows
        ),
    ]:
        assert figures.assemblies == len(part)
        if not part:
            continue
        compared = [row for row in part if row.saving_counts]
        contexts = [row for row in part if row.kind == "space"]
        assert figures.tokens_after == sum(row.tokens_after for row in part)
        assert figures.tokens_before == sum(row.tokens_before for row in compared)
        assert figures.tokens_saved == sum(row.tokens_saved for row in compared)
        assert figures.truncation_rate == pytest.approx(sum(row.truncated for row in part) / len(part))
        assert (figures.contexts, figures.empties) == (len(contexts), sum(row.is_empty for row in part))
        if contexts:
            included = sum(row.records_included for row in contexts)
            assert figures.records_included == pytest.approx(included / len(contexts))
        assert_average(figures.ratio, [row.compression_ratio for row in part])
        assert_average(figures.utilisation, [row.utilisation for row in part])
    assert series.totals.keys() == series.kinds.keys() == {row.kind for row in log}
    for kind, total in series.totals.items():
        own = [row for row in log if row.kind == kind]
        assert total.truncation_rate == pytest.approx(sum(row.truncated for row in own) / len(own))
        assert_times(total, own, is_exact=len(own) < exact_below)
        for bucket, point in zip(series.period.buckets, series.kinds[kind], strict=True):
            part = [row for row in own if bucket.start <= row.created_at < bucket.end]
            assert_times(point, part, is_exact=len(own) < exact_below)
    for stage in series.stages:
        tokens = [row.tokens_after for row in log if row.stage == stage.stage]
        assert_percentile(TOKENS, stage.median_tokens, tokens, 0.5, is_exact=len(tokens) < exact_below)
    contexts = [row for row in log if row.kind == "space"]
    for histogram, found, values in (
        (RATIO, series.total.median_ratio, [row.compression_ratio for row in contexts]),
        (UTILISATION, series.total.median_utilisation, [row.utilisation for row in contexts]),
    ):
        known = [value for value in values if value is not None]
        assert (found is None) == (not known)
        if known:
            assert_percentile(histogram, found, known, 0.5, is_exact=len(contexts) < exact_below)


def assert_times(figures: Figures, rows: list[Assembly], *, is_exact: bool) -> None:
    assert figures.assemblies == len(rows)
    for share, found in ((0.5, figures.p50_ms), (0.95, figures.p95_ms), (0.99, figures.p99_ms)):
        if rows:
            assert_percentile(ASSEMBLY_MS, found, [row.assembly_ms for row in rows], share, is_exact=is_exact)
        else:
            assert found is None


def assert_average(found: float | None, values: list[float | None]) -> None:
    known = [value for value in values if value is not None]
    assert found == (pytest.approx(sum(known) / len(known)) if known else None)


def assert_percentile(
    histogram: Histogram, found: float | None, values: list[float], share: float, *, is_exact: bool = False
) -> None:
    """Check that the percentile is the nearest-rank one, or in its bucket and within the values seen."""
    rank = max(1, ceil(share * len(values)))
    exact = sorted(values)[rank - 1]
    low, high = histogram.bounds(histogram.bucket_of(exact))
    assert found is not None
    assert max(low, min(values)) <= found <= min(high, max(values))
    # The first and the last value are known without the log.
    if is_exact or rank in (1, len(values)):
        assert found == exact


def stored() -> list[tuple[object, ...]]:
    kept = (
        "start", "stage", "assemblies", "empties", "tokens_after", "ratios", "ms_histogram", "ms_smallest",
        "ratio_largest",
    )  # fmt: skip
    tables = (QuarterRollup, DayRollup, HourSummary, DaySummary)
    return sorted((*map(str, row),) for table in tables for row in table.objects.values_list(*kept))


def mark_all_stale(team: Team) -> None:
    starts = QuarterRollup.objects.filter(team=team).values_list("start", flat=True)
    days = {start.replace(hour=0, minute=0) for start in starts}
    StaleDay.objects.bulk_create(StaleDay(team=team, day=day) for day in days)
