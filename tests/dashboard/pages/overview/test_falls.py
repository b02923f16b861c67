"""The bucket with which a share fell."""

from zoneinfo import ZoneInfo

import pytest

from dashboard.kit.charts.tiles import Proportion, hypergeometric_tail
from dashboard.kit.periods import recent_period
from dashboard.pages.overview.falls import find_start
from tests.factories import NOW

HIGH, LOW, NONE = Proportion(9, 10), Proportion(4, 10), Proportion()


@pytest.mark.parametrize(
    ("points", "place"),
    [
        ([HIGH] * 8 + [LOW] * 6, 8),
        ([LOW] * 14, 0),
        ([HIGH] * 13 + [LOW], 13),
        # Without counts, nothing has fallen yet.
        ([NONE] * 5 + [LOW] * 9, 5),
        # One bad day long before says less than what followed.
        ([HIGH, Proportion(7, 10), *[HIGH] * 7, *[LOW] * 5], 9),
    ],
)
def test_a_fall_begins_with_the_bucket_that_fits_best(points: list[Proportion], place: int) -> None:
    period = recent_period("14d", NOW, ZoneInfo("UTC"))
    assert find_start(Proportion(90, 100), points, period) == period.edges[place]


def test_the_tail_is_that_of_the_hypergeometric_distribution() -> None:
    # Three of five hits among six, by hand: at most one of them in the three drawn.
    assert hypergeometric_tail(1, 3, 2, 3) == pytest.approx((1 + 9) / 20)
    assert hypergeometric_tail(0, 20, 20, 20) == pytest.approx(7.254444551924845e-12)
