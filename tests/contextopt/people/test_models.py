import zoneinfo
from datetime import timedelta
from pathlib import Path

import pytest
import time_machine
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from contextopt.errors import InvalidInput
from contextopt.limits import ACTOR_MAX, NAME_MAX
from contextopt.people.models import ApiKey, Membership, Role, Scope, Team, User, hash_key
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.models import Space
from tests.factories import NOW, make_key, make_space


def test_only_the_hash_of_a_key_is_stored(team: Team) -> None:
    key, secret = make_key(team)
    assert secret.startswith("ctx_")
    assert len(secret) > 40
    stored = ApiKey.objects.values().get(pk=key.pk)
    assert secret not in str(stored)
    assert stored["secret_hash"] == hash_key(secret)


def test_every_actor_fits() -> None:
    longest = {"user:": User._meta.get_field("username").max_length, "key:": NAME_MAX}
    assert all(len(prefix) + size <= ACTOR_MAX for prefix, size in longest.items())


def test_a_revoked_or_expired_key_is_not_usable(team: Team) -> None:
    revoked, _ = make_key(team)
    expired, _ = make_key(team)
    ApiKey.objects.filter(pk=expired.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    kept, _ = make_key(team)
    revoked.revoke()
    first = revoked.revoked_at
    revoked.revoke()
    assert revoked.revoked_at == first
    assert list(ApiKey.objects.usable()) == [kept]


def test_last_use_is_written_once_a_minute(team: Team) -> None:
    key, _ = make_key(team)
    with time_machine.travel(NOW, tick=False) as clock:
        key.touch()
        key.refresh_from_db()
        clock.shift(30)
        key.touch()
        key.refresh_from_db()
        assert key.last_used_at == NOW
        clock.shift(31)
        key.touch()
        key.refresh_from_db()
        assert key.last_used_at == NOW + timedelta(seconds=61)


@pytest.mark.parametrize(
    ("has", "may", "may_not"),
    [(Role.VIEWER, Role.VIEWER, Role.REVIEWER), (Role.EDITOR, Role.REVIEWER, Role.ADMIN)],
)
def test_a_role_may_what_those_below_it_may(has: Role, may: Role, may_not: Role) -> None:
    assert has.includes(may)
    assert not has.includes(may_not)


def test_a_scope_may_what_those_below_it_may() -> None:
    assert Scope.ADMIN.includes(Scope.READ)
    assert not Scope.READ.includes(Scope.WRITE)


def test_a_person_is_in_a_team_once_with_a_known_role(team: Team, owner: User) -> None:
    with pytest.raises(IntegrityError, match="membership_once"), transaction.atomic():
        Membership.objects.create(team=team, user=owner, role=Role.VIEWER)
    with pytest.raises(IntegrityError, match="membership_role"):
        Membership.objects.filter(user=owner).update(role="emperor")


def test_a_team_has_a_real_time_zone(team: Team) -> None:
    team.time_zone = "Mars/Olympus"
    with pytest.raises(ValidationError, match="Mars/Olympus"):
        team.full_clean()


def test_a_time_zone_is_one_that_postgresql_knows(
    team: Team, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Many systems have one named `localtime`, with which PostgreSQL could not fold any team's assemblies."""
    request.addfinalizer(zoneinfo.reset_tzpath)
    zoneinfo.reset_tzpath([str(tmp_path)])
    (tmp_path / "localtime").write_bytes(b"TZif")
    assert "localtime" in zoneinfo.available_timezones()
    team.time_zone = "localtime"
    with pytest.raises(ValidationError, match="localtime"):
        team.full_clean()


def test_a_new_version_carries_over_what_it_does_not_change(space: Space) -> None:
    second = ContextConfig.objects.publish(space=space, created_by="user:olga", window_days=30)
    third = ContextConfig.objects.publish(space=space, created_by="user:olga", max_records=5)
    assert (second.version, third.version) == (2, 3)
    assert (third.settings.window_days, third.settings.max_records) == (30, 5)
    assert ContextConfig.objects.filter(space=space).active().get() == third


def test_one_version_is_active_a_space(space: Space) -> None:
    make_space(space.team, "other")
    ContextConfig.objects.publish(space=space, created_by="test")
    with pytest.raises(IntegrityError, match="config_active_once"):
        ContextConfig.objects.filter(space=space).update(is_active=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"window_days": 10},
        {"max_records": 0},
        {"response_tokens": 999},
        {"recency_weight": "10.5"},
        {"context_tokens": 200_001},
    ],
)
def test_a_setting_out_of_range_publishes_nothing(space: Space, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as caught:
        ContextConfig.objects.publish(space=space, created_by="test", **wrong)
    assert [problem.field for problem in caught.value.problems] == [*wrong]
    assert ContextConfig.objects.get(space=space).version == 1


def test_another_encoding_asks_for_a_recount(space: Space) -> None:
    ContextConfig.objects.publish(space=space, created_by="test", window_days=7)
    space.refresh_from_db()
    assert space.recount_from is None
    ContextConfig.objects.publish(space=space, created_by="test", encoding="heuristic")
    space.refresh_from_db()
    assert space.recount_from == 0
