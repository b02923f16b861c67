from datetime import timedelta

import pytest

from contextopt.spaces.models import Space
from tests.dashboard.pages.overview.test_figures import log_row
from tests.factories import NOW


@pytest.fixture
def logged(space: Space) -> Space:
    for hours in range(0, 60, 5):
        log_row(space, NOW - timedelta(hours=hours), stage=3 + hours % 2, assembly_ms=float(hours + 1))
    return space
