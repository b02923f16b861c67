import pytest

from contextopt.people.models import Team
from contextopt.spaces.models import Space
from tests.commands import run, write
from tests.factories import make_record, make_space

__all__ = ["run", "write"]


@pytest.fixture
def default_space(db: None) -> Space:
    space = make_space(Team.objects.ensure_default())
    for number in range(25):
        make_record(space, title=f"Note {number}", source="wiki", external_id=str(number), view_count=number)
    return space
