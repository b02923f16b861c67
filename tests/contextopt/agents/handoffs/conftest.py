import pytest

from contextopt.agents.models import Task
from contextopt.people.models import Team
from tests.factories import make_task


@pytest.fixture
def task(team: Team) -> Task:
    return make_task(team)
