from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.models import Assembly, Space
from dashboard.models import (
    QuarterRollup,
)
from dashboard.rollups.fold import rebuild
from dashboard.rollups.histograms import ASSEMBLY_MS, RATIO, TOKENS, UTILISATION, Histogram
from tests.dashboard.pages.overview.test_figures import log_row
from tests.dashboard.rollups.compared import assert_in_bucket


@pytest.mark.parametrize(
    "histogram", [ASSEMBLY_MS, TOKENS, UTILISATION, RATIO], ids=lambda histogram: histogram.name
)
@given(values=st.lists(st.floats(0, 1e6), min_size=1), share=st.floats(0.01, 1))
def test_a_percentile_is_in_the_bucket_of_the_values_percentile(
    histogram: Histogram, values: list[float], share: float
) -> None:
    counts = [0.0] * histogram.size
    for value in values:
        counts[histogram.bucket_of(value)] += 1
    assert_in_bucket(histogram, histogram.percentile(counts, share), values, share)


def test_nothing_has_no_percentile() -> None:
    assert ASSEMBLY_MS.percentile([0.0] * ASSEMBLY_MS.size, 0.5) is None


def test_buckets_are_the_databases(space: Space) -> None:
    for value in (0.0, 0.5, 0.49, 5.0, 8_192.0, 1e9, *ASSEMBLY_MS.edges[::7]):
        Assembly.objects.all().delete()
        log_row(space, datetime(2026, 6, 1, tzinfo=UTC), assembly_ms=value)
        list(rebuild(space.team))
        counts = QuarterRollup.objects.get().ms_histogram
        assert [n for n, count in enumerate(counts) if count] == [ASSEMBLY_MS.bucket_of(value)]
