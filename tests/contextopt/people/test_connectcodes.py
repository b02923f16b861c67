"""Connect codes: each works once, for 15 minutes, for its person, team and spaces."""

from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from contextopt.errors import Conflict, InvalidInput, NotFound, TooManyAttempts
from contextopt.people.connectcodes import (
    ALPHABET,
    OPEN_MAX,
    hash_code,
    make_code,
    make_gateway_key,
    redeem_code,
    revoke_keys_of,
    sweep_codes,
)
from contextopt.people.inputs import CodeIn, GatewayKeyIn, RedemptionIn
from contextopt.people.logins import count_wrong_code
from contextopt.people.members import remove_member
from contextopt.people.models import ApiKey, AuditEvent, ConnectCode, Role, Team, User
from contextopt.spaces.models import Space
from tests import factories
from tests.concurrency import at_once

pytestmark = pytest.mark.django_db


@pytest.fixture
def editor(team: Team) -> User:
    return factories.make_user("edda", team, Role.EDITOR)


def make(team: Team, user: User, space: Space, *spaces: str) -> str:
    return make_code(team=team, user=user, data=CodeIn(space=space.slug, spaces=list(spaces) or None))[1]


def redeem(code: str, machine: str = "laptop") -> ApiKey:
    return redeem_code(RedemptionIn(code=code, tool="claude", machine=machine))[1]


def test_a_code_becomes_a_key_of_its_person(team: Team, editor: User, space: Space) -> None:
    text = make(team, editor, space)
    code, key, secret = redeem_code(RedemptionIn(code=text, tool="claude", machine="laptop"))
    assert (key.name, key.scope, key.space_ids) == ("Claude Code: edda on laptop", "write", None)
    assert (key.created_by, key.team, secret[:12]) == ("user:edda", team, key.prefix)
    assert (code.space, code.key, code.machine) == (space, key, "laptop")


def test_only_a_keyed_hash_is_stored(team: Team, editor: User, space: Space, settings: object) -> None:
    text = make(team, editor, space)
    stored = ConnectCode.objects.get()
    assert text.replace("-", "") not in str(vars(stored))
    settings.SECRET_KEY = "another"  # type: ignore[attr-defined]
    assert hash_code(text) != stored.code_hash


@pytest.mark.parametrize("change", [str.lower, lambda text: text.replace("-", ""), lambda text: f" {text} "])
def test_how_it_is_typed_does_not_matter(change, team: Team, editor: User, space: Space) -> None:
    assert redeem(change(make(team, editor, space)))


def test_look_alikes_are_the_same() -> None:
    assert hash_code("OIL0") == hash_code("0110")
    assert not set("OILU") & set(ALPHABET)


def test_it_works_once(team: Team, editor: User, space: Space) -> None:
    text = make(team, editor, space)
    redeem(text)
    with pytest.raises(NotFound, match="works once"):
        redeem(text)
    assert ApiKey.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_it_works_once_for_two_at_the_same_moment(team: Team, editor: User, space: Space) -> None:
    text = make(team, editor, space)

    def try_it() -> bool:
        try:
            redeem(text)
        except NotFound:
            return False
        return True

    assert sorted(at_once(try_it, try_it)) == [False, True]
    assert ApiKey.objects.count() == 1


def test_it_expires_after_fifteen_minutes(team: Team, editor: User, space: Space) -> None:
    early, late = make(team, editor, space), make(team, editor, space)
    with time_machine.travel(timezone.now() + timedelta(minutes=14, seconds=55)):
        redeem(early)
    with time_machine.travel(timezone.now() + timedelta(minutes=15, seconds=1)):
        with pytest.raises(NotFound):
            redeem(late)
        sweep_codes()
    assert ConnectCode.objects.filter(redeemed_at=None).count() == 0
    # The light of a used code is still shown.
    assert ConnectCode.objects.count() == 1


@pytest.mark.parametrize("role", [Role.VIEWER, Role.REVIEWER, None])
def test_a_person_who_lost_the_role_gets_no_key(role: Role | None, team: Team, space: Space) -> None:
    user = factories.make_user("edda", team, Role.EDITOR)
    text = make(team, user, space)
    if role is None:
        user.memberships.all().delete()
    else:
        user.memberships.update(role=role)
    with pytest.raises(NotFound):
        redeem(text)
    assert not ApiKey.objects.exists()


def test_a_person_who_may_not_log_in_gets_no_key(team: Team, editor: User, space: Space) -> None:
    text = make(team, editor, space)
    User.objects.update(is_active=False)
    with pytest.raises(NotFound):
        redeem(text)


def test_the_key_is_limited_to_the_spaces_of_the_code(team: Team, editor: User, space: Space) -> None:
    other = factories.make_space(team, "other")
    key = redeem(make(team, editor, space, space.slug, "other"))
    assert key.space_ids == sorted([space.pk, other.pk])


@pytest.mark.parametrize(
    ("slug", "spaces", "field"),
    [("missing", None, "spaces"), ("theirs", None, "spaces"), ("support", ["other"], "spaces")],
)
def test_spaces_that_make_no_sense(
    slug: str, spaces: list[str] | None, field: str, team: Team, other_team: Team, editor: User, space: Space
) -> None:
    factories.make_space(team, "other")
    factories.make_space(other_team, "theirs")
    with pytest.raises(InvalidInput) as refused:
        make_code(team=team, user=editor, data=CodeIn(space=slug, spaces=spaces))
    assert [problem.field for problem in refused.value.problems] == [field]
    assert not ConnectCode.objects.exists()


def test_open_codes_are_limited(team: Team, editor: User, space: Space) -> None:
    for _ in range(OPEN_MAX):
        make(team, editor, space)
    with pytest.raises(Conflict, match=f"{OPEN_MAX} unused"):
        make(team, editor, space)


def test_both_are_in_the_change_log(team: Team, editor: User, space: Space) -> None:
    text = make(team, editor, space, space.slug)
    redeem(text)
    events = {event.action: event for event in AuditEvent.objects.of(team).filter(action__startswith="code.")}
    assert set(events) == {"code.made", "code.redeemed"}
    assert {event.actor for event in events.values()} == {"user:edda"}
    assert events["code.made"].after["spaces"] == [space.slug]
    assert events["code.redeemed"].after["machine"] == "laptop"
    assert text.replace("-", "") not in str([event.after for event in events.values()])


def test_a_removed_members_tools_are_cut_off(team: Team, editor: User, owner: User, space: Space) -> None:
    key, unused = redeem(make(team, editor, space)), make(team, editor, space)
    own = make_gateway_key(team=team, user=editor, data=GatewayKeyIn(name="own", space=space.slug))[0]
    others = redeem(make(team, owner, space))
    remove_member(membership=editor.memberships.get(), actor="user:olga")
    key.refresh_from_db()
    others.refresh_from_db()
    own.refresh_from_db()
    assert key.revoked_at and own.revoked_at and others.revoked_at is None
    with pytest.raises(NotFound):
        redeem(unused)
    revoke_keys_of(user=editor, team=team, actor="user:olga")
    assert AuditEvent.objects.filter(action="key.revoked").count() == 2


def test_five_wrong_tries_an_address() -> None:
    def fail(address: str) -> None:
        with pytest.raises(NotFound), count_wrong_code(address):
            raise NotFound("wrong")

    now = timezone.now()
    with time_machine.travel(now, tick=False):
        for _ in range(5):
            with count_wrong_code("192.0.2.1"):
                # A right code does not count.
                pass
            fail("192.0.2.1")
        with pytest.raises(TooManyAttempts), count_wrong_code("192.0.2.1"):
            raise AssertionError("was tried")
        fail("192.0.2.2")
    with time_machine.travel(now + timedelta(minutes=14), tick=False), pytest.raises(TooManyAttempts):
        fail("192.0.2.1")
