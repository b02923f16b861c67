"""A walk names every case that fails, and leaves nothing behind."""

import pytest

from contextopt.people.models import Team
from tests import factories
from tests.walks import walk


@pytest.mark.django_db
def test_every_fault_is_named() -> None:
    def check(slug: str) -> None:
        factories.make_team(slug)
        assert slug != "b"
        assert {"c": 1}[slug]

    with pytest.raises(AssertionError) as error:
        walk("abc", check)
    [summary, *faults] = str(error.value).splitlines()
    assert summary == "2 of 3 failed:"
    assert {"a: KeyError: 'a'", "b: AssertionError: assert 'b' != 'b'"} <= set(faults)
    assert not Team.objects.exists()


@pytest.mark.django_db
def test_a_walk_has_cases() -> None:
    with pytest.raises(AssertionError):
        walk([], print)
