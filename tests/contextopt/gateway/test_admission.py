"""The gateway remembers valid keys with their spaces, and little else."""

import pytest

from contextopt.gateway.admission import SLUG_MAX, Gate
from contextopt.gateway.models import Reason
from contextopt.people.models import Scope
from contextopt.spaces.models import Space
from tests import factories
from tests.concurrency import in_own_loop


@pytest.mark.django_db(transaction=True)
def test_unknown_spaces_leave_no_traces() -> None:
    team = factories.make_team()
    space = factories.make_space(team)
    _, secret = factories.make_key(team, Scope.WRITE)
    gate = Gate()

    async def reasons(*slugs: str) -> list[str]:
        return [(await gate.admit(secret, slug, lambda: "")).reason for slug in slugs]

    unknown = ["a", "b", "x" * 64, "x" * 65, "y" * 30_000, "?", "a"]
    assert in_own_loop(reasons(space.slug, *unknown, space.slug)) == ["", *[Reason.UNKNOWN_SPACE] * 7, ""]
    assert len(gate._known) == 2
    assert max(len(known.slug) for known in gate._known.values()) <= SLUG_MAX
    assert Space._meta.get_field("slug").max_length == SLUG_MAX
