from datetime import UTC, datetime
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.assemblies.models import Assembly
from contextopt.spaces.models import Space
from dashboard.rollups.fold import rebuild
from dashboard.rollups.histograms import ASSEMBLY_MS, RATIO, TOKENS, UTILISATION, Histogram
from dashboard.rollups.models import QuarterRollup
from tests.dashboard.pages.overview.test_figures import log_row
from tests.dashboard.rollups.compared import assert_percentile


@pytest.mark.parametrize(
    "histogram", [ASSEMBLY_MS, TOKENS, UTILISATION, RATIO], ids=lambda histogram: histogram.name
)
@given(values=st.lists(st.floats(0, 1e6), min_size=1), share=st.floats(0.01, 1))
def test_a_percentile_is_in_the_bucket_of_the_values_percentile_and_among_the_values(
    histogram: Histogram, values: list[float], share: float
) -> None:
    counts = [0.0] * histogram.size
    for value in values:
        counts[histogram.bucket_of(value)] += 1
    found = histogram.percentile(counts, share, (min(values), max(values)))
    assert_percentile(histogram, found, values, share)


def test_an_unknown_end_is_that_of_its_bucket() -> None:
    """Rollups of an earlier version do not know them until they are rebuilt."""
    counts = [0.0] * ASSEMBLY_MS.size
    for value in (3.0, 70.8, 9e9):
        counts[ASSEMBLY_MS.bucket_of(value)] += 1
    low, _, high = (ASSEMBLY_MS.percentile(counts, share, (0.0, inf)) for share in (0.1, 0.5, 1.0))
    assert low == ASSEMBLY_MS.bounds(ASSEMBLY_MS.bucket_of(3.0))[0]
    assert high == ASSEMBLY_MS.edges[-1]


@pytest.mark.parametrize("included", [1, 20])
@pytest.mark.parametrize("filtered", [401, 5_000, 250_000, 1_000_000])
def test_buckets_tell_tiny_ratios_apart(included: int, filtered: int) -> None:
    low, high = RATIO.bounds(RATIO.bucket_of(included / filtered))
    if included / filtered >= RATIO.edges[0]:
        assert high / low < 1.15


def test_nothing_has_no_percentile() -> None:
    assert ASSEMBLY_MS.percentile([0.0] * ASSEMBLY_MS.size, 0.5, (0.0, inf)) is None


def test_buckets_are_the_databases(space: Space) -> None:
    for value in (0.0, 0.5, 0.49, 5.0, 8_192.0, 1e9, *ASSEMBLY_MS.edges[::7]):
        Assembly.objects.all().delete()
        log_row(space, datetime(2026, 6, 1, tzinfo=UTC), assembly_ms=value)
        list(rebuild(space.team))
        counts = QuarterRollup.objects.get().ms_histogram
        assert [n for n, count in enumerate(counts) if count] == [ASSEMBLY_MS.bucket_of(value)]
