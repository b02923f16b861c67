from datetime import timedelta

import pytest

from contextopt.spaces.models import Space
from tests.dashboard.pages.overview.test_figures import log_row, settle
from tests.factories import NOW


@pytest.fixture
def logged(space: Space) -> Space:
    """Fourteen days with an assembly each, and fourteen before them. One day of each half has 20 more."""
    for days in range(28):
        log_row(space, NOW - timedelta(days=days, minutes=1), assembly_ms=5.0 + (days >= 14))
    for days in (5, 19):
        settle(space, NOW - timedelta(days=days, minutes=1))
    return space
