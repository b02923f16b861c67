"""A team keeps an admin who can log in, however somebody tries to remove the last one."""

from contextlib import suppress

import pytest
from django.test import Client

from contextopt.errors import Conflict
from contextopt.people.members import LAST_ADMIN, change_role, find_last_admins, remove_member
from contextopt.people.models import Membership, Role, Team, User
from tests import factories
from tests.concurrency import at_once

ADMIN = "/admin/contextopt"


def admins(team: Team) -> set[str]:
    found = Membership.objects.filter(team=team, role=Role.ADMIN, user__is_active=True)
    return set(found.values_list("user__username", flat=True))


def inline(team: Team, *rows: dict[str, object], **new: object) -> dict[str, object]:
    """Return the team's form with changed members; `new` adds another one."""
    data: dict[str, object] = {"name": team.name, "slug": team.slug, "time_zone": "UTC"}
    members = list(team.memberships.order_by("pk"))
    forms = [
        {"id": member.pk, "team": team.pk, "user": member.user_id, "role": member.role, **changes}
        for member, changes in zip(members, [*rows, *([{}] * len(members))], strict=False)
    ]
    if new:
        forms.append({"id": "", "team": team.pk, **new})
    data |= {"memberships-TOTAL_FORMS": len(forms), "memberships-INITIAL_FORMS": len(members)}
    for number, form in enumerate(forms):
        data |= {f"memberships-{number}-{name}": value for name, value in form.items()}
    return data


class TestTheLastAdmin:
    def test_whoever_cannot_log_in_does_not_count(self, team: Team, owner: User) -> None:
        factories.make_user("gone", team, Role.ADMIN, is_active=False)
        own = owner.memberships.get()
        with pytest.raises(Conflict, match="needs an admin"):
            change_role(membership=own, role=Role.VIEWER, actor="test")
        with pytest.raises(Conflict, match="needs an admin"):
            remove_member(membership=own, actor="test")
        assert admins(team) == {"olga"}

    def test_members_who_leave_none_behind_are_named(self, team: Team, other_team: Team, owner: User) -> None:
        second = factories.make_user("second", team, Role.ADMIN).memberships.get()
        viewer = factories.make_user("tom", team, Role.VIEWER).memberships.get()
        alone = factories.make_user("mallory", other_team, Role.ADMIN).memberships.get()
        own = owner.memberships.get()
        assert find_last_admins([own.pk, viewer.pk]) == []
        assert {m.pk for m in find_last_admins([own.pk, second.pk, alone.pk])} == {
            own.pk,
            second.pk,
            alone.pk,
        }


class TestInTheAdmin:
    @pytest.mark.parametrize("field", ["role", "team"])
    def test_a_membership_is_not_changed(
        self, field: str, root: Client, team: Team, other_team: Team, owner: User
    ) -> None:
        own = owner.memberships.get()
        data = {"team": team.pk, "user": owner.pk, "role": "admin"}
        changes = {"role": "viewer"} if field == "role" else {"team": other_team.pk}
        response = root.post(f"{ADMIN}/membership/{own.pk}/change/", data | changes)
        assert response.status_code == 200
        assert response.context["adminform"].form.errors == {field: [LAST_ADMIN]}
        assert admins(team) == {"olga"}

    def test_a_membership_is_not_deleted(self, root: Client, team: Team, owner: User) -> None:
        own = owner.memberships.get()
        picked = {"action": "delete_selected", "_selected_action": [own.pk], "post": "yes"}
        for address, data in ((f"{own.pk}/delete/", {"post": "yes"}), ("", picked)):
            assert LAST_ADMIN in root.post(f"{ADMIN}/membership/{address}", data).content.decode()
        assert admins(team) == {"olga"}

    def test_of_two_one_may_go(self, root: Client, team: Team, owner: User) -> None:
        second = factories.make_user("second", team, Role.ADMIN).memberships.get()
        both = [owner.memberships.get().pk, second.pk]
        picked = {"action": "delete_selected", "_selected_action": both, "post": "yes"}
        assert LAST_ADMIN in root.post(f"{ADMIN}/membership/", picked).content.decode()
        assert root.post(f"{ADMIN}/membership/{second.pk}/delete/", {"post": "yes"}).status_code == 302
        assert admins(team) == {"olga"}

    def test_a_team_without_an_admin_may_be_put_right(self, root: Client, team: Team, teammate: User) -> None:
        member = teammate.memberships.get()
        data = {"team": team.pk, "user": teammate.pk, "role": "editor"}
        assert root.post(f"{ADMIN}/membership/{member.pk}/change/", data).status_code == 302

    @pytest.mark.parametrize("change", [{"role": "editor"}, {"DELETE": "on"}])
    def test_the_teams_page_refuses_too(
        self, change: dict[str, object], root: Client, team: Team, owner: User
    ) -> None:
        response = root.post(f"{ADMIN}/team/{team.pk}/change/", inline(team, change))
        assert response.status_code == 200
        assert LAST_ADMIN in response.content.decode()
        if "role" in change:
            formset = response.context["inline_admin_formsets"][0].formset
            assert formset.forms[0].errors == {"role": [LAST_ADMIN]}
        assert admins(team) == {"olga"}

    def test_the_teams_page_hands_the_role_on(
        self, root: Client, team: Team, owner: User, outsider: User
    ) -> None:
        data = inline(team, {"role": "viewer"}, user=outsider.pk, role="admin")
        assert root.post(f"{ADMIN}/team/{team.pk}/change/", data).status_code == 302
        assert admins(team) == {"mallory"}

    def test_their_account_stays_and_can_log_in(self, root: Client, team: Team, owner: User) -> None:
        address = f"{ADMIN}/user/{owner.pk}"
        data = {"username": "olga", "date_joined_0": "2026-01-01", "date_joined_1": "12:00:00"}
        response = root.post(f"{address}/change/", data)
        assert response.context["adminform"].form.errors == {"is_active": [LAST_ADMIN]}
        picked = {"action": "delete_selected", "_selected_action": [owner.pk], "post": "yes"}
        for where, sent in ((f"{address}/delete/", {"post": "yes"}), (f"{ADMIN}/user/", picked)):
            assert LAST_ADMIN in root.post(where, sent).content.decode()
        assert admins(team) == {"olga"}
        factories.make_user("second", team, Role.ADMIN)
        assert root.post(f"{address}/change/", data).status_code == 302
        assert root.post(f"{address}/delete/", {"post": "yes"}).status_code == 302
        assert admins(team) == {"second"}


@pytest.mark.django_db(transaction=True)
def test_the_admin_asks_before_it_deletes_a_member_or_user(root: Client, owner: User, teammate: User) -> None:
    member = teammate.memberships.get()
    for address in (f"membership/{member.pk}", f"user/{member.user_id}"):
        assert "Are you sure" in root.get(f"{ADMIN}/{address}/delete/").content.decode()
    assert LAST_ADMIN in root.get(f"{ADMIN}/user/{owner.pk}/delete/").content.decode()


@pytest.mark.django_db(transaction=True)
class TestAtOnce:
    """Two admins take each other's role away, each in a different way."""

    def test_one_of_two_stays(self) -> None:
        root = User.objects.create_superuser("root", password="x")
        for number in range(6):
            team = factories.make_team(f"team-{number}")
            first, second = (
                factories.make_user(f"{name}-{number}", team).memberships.get() for name in ("ann", "ben")
            )
            way = WAYS[number % len(WAYS)]
            at_once(lambda m=first, w=way: w(root, m), lambda m=second: demote(root, m))  # type: ignore[misc]
            assert len(admins(team)) == 1


def demote(_root: User, member: Membership) -> None:
    # The other admin may have been first; this is refused then.
    with suppress(Conflict):
        change_role(membership=member, role=Role.VIEWER, actor="test")


def change_in_the_admin(root: User, member: Membership) -> None:
    data = {"team": member.team_id, "user": member.user_id, "role": "viewer"}
    post(root, f"membership/{member.pk}/change/", data)


def delete_the_selected(root: User, member: Membership) -> None:
    post(root, "membership/", {"action": "delete_selected", "_selected_action": [member.pk], "post": "yes"})


def post(root: User, address: str, data: dict[str, object]) -> None:
    client = Client()
    client.force_login(root)
    assert client.post(f"{ADMIN}/{address}", data).status_code in {200, 302}


WAYS = (demote, change_in_the_admin, delete_the_selected)
