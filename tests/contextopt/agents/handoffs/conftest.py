import pytest

from contextopt.models import Task, Team
from tests.factories import make_task


@pytest.fixture
def task(team: Team) -> Task:
    return make_task(team)
