from datetime import timedelta

import pytest

from contextopt.spaces.models import Space
from tests.dashboard.pages.overview.test_figures import log_row
from tests.factories import NOW


@pytest.fixture
def logged(space: Space) -> Space:
    """Fourteen days with an assembly each, and fourteen before them."""
    for days in range(28):
        log_row(space, NOW - timedelta(days=days, minutes=1), assembly_ms=5.0 + (days >= 14))
    return space
