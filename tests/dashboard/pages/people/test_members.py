"""People: invited by a link, given roles, removed; and changing one's own password."""

import re
from datetime import timedelta

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from contextopt.people.models import AuditEvent, Invitation, Membership, Role, Team, User
from tests import factories
from tests.dashboard.conftest import HTMX, log_in

URL = "/settings/"


def make_link(client: Client, **overrides: object) -> str:
    """Invite as the page does, and return the link's path."""
    data = {"name": "Nia", "role": "reviewer", "days": "7", **overrides}
    response = client.post(f"{URL}invitations", data, headers={**HTMX, "HX-Target": "members"})
    assert response.status_code == 200
    assert "<html" not in response.content.decode()
    assert response.headers["Cache-Control"] == "private, no-store"
    found = re.search(r"http://testserver(/invitations/[^<]+/)", response.content.decode())
    assert found is not None
    return found[1]


ACCOUNT = {"username": "nia", "password": "correct horse battery"}


def test_a_link_makes_an_account_once(owner_client: Client, team: Team) -> None:
    link = make_link(owner_client)
    assert link not in owner_client.get(URL).content.decode()
    assert not Invitation.objects.filter(token_hash__contains=link.split("/")[2]).exists()
    guest = Client()
    html = guest.get(link).content.decode()
    assert "Join Platform" in html
    assert guest.post(f"{link}join", ACCOUNT).headers["Location"] == "/"
    assert guest.get("/").status_code == 200
    assert Membership.objects.get(user__username="nia").role == Role.REVIEWER
    assert Client().get(link).status_code == 404
    assert Client().post(f"{link}join", {**ACCOUNT, "username": "bob"}).status_code == 404
    actions = list(AuditEvent.objects.order_by("id").values_list("action", "actor"))
    assert actions == [("invitation.made", "user:olga"), ("invitation.accepted", "user:nia")]
    assert link.split("/")[2] not in str(list(AuditEvent.objects.values()))


def test_who_is_logged_in_joins_as_themselves(
    owner_client: Client, outsider_client: Client, outsider: User, team: Team
) -> None:
    link = make_link(owner_client, role="viewer")
    assert "You are logged in as mallory" in outsider_client.get(link).content.decode()
    outsider_client.post(f"{link}join")
    assert outsider.memberships.get(team=team).role == Role.VIEWER
    assert "Platform" in outsider_client.get(URL).content.decode()


def test_a_member_does_not_use_the_link_up(owner_client: Client, team: Team) -> None:
    link = make_link(owner_client)
    owner_client.post(f"{link}join")
    assert Client().get(link).status_code == 200


def test_links_end(owner_client: Client) -> None:
    link = make_link(owner_client, days="1")
    with time_machine.travel(timezone.now() + timedelta(days=2)):
        assert Client().get(link).status_code == 404
    invitation = Invitation.objects.get()
    for _ in range(2):
        owner_client.post(f"{URL}invitations/{invitation.pk}/revoke")
    assert Client().get(link).status_code == 404
    assert AuditEvent.objects.filter(action="invitation.revoked").count() == 1
    for token in ("x", "x" * 500, "é"):
        assert Client().get(f"/invitations/{token}/").status_code == 404


@pytest.mark.parametrize(
    "wrong",
    [
        {"username": "olga"},
        {"username": ""},
        {"username": "a b"},
        {"password": "12345678"},
        {"password": "x"},
    ],
)
def test_an_account_that_cannot_be(wrong: dict[str, str], owner_client: Client) -> None:
    link = make_link(owner_client)
    response = Client().post(f"{link}join", ACCOUNT | wrong)
    assert response.status_code == 422
    assert f"id_{next(iter(wrong))}_error" in response.content.decode()
    assert Client().get(link).status_code == 200


@pytest.mark.parametrize("wrong", [{"name": " "}, {"role": "root"}, {"days": "0"}, {"days": "91"}])
def test_an_invitation_that_cannot_be(wrong: dict[str, str], owner_client: Client) -> None:
    data = {"name": "Nia", "role": "viewer", "days": "7"}
    response = owner_client.post(f"{URL}invitations", data | wrong, headers=HTMX)
    assert 'role="alert"' in response.content.decode()
    assert not Invitation.objects.exists()


def test_roles_change_and_members_go(owner_client: Client, teammate: User, team: Team) -> None:
    member = teammate.memberships.get()
    changed = owner_client.post(f"{URL}members/{member.pk}/role", {"role": "editor"}, follow=True)
    member.refresh_from_db()
    assert member.role == Role.EDITOR
    undo = changed.content.decode().partition('id="toasts"')[2].partition('action="')[2].split('"')[0]
    event = AuditEvent.objects.get(action="role.changed")
    assert (event.subject, event.before, event.after) == ("tom", {"role": "viewer"}, {"role": "editor"})
    owner_client.post(undo)
    member.refresh_from_db()
    assert member.role == Role.VIEWER
    client = log_in(teammate)
    owner_client.post(f"{URL}members/{member.pk}/remove")
    assert client.get("/").status_code == 403
    assert User.objects.filter(username="tom").exists()


def test_the_last_admin_stays(owner_client: Client, owner: User, team: Team) -> None:
    own = owner.memberships.get()
    for action, data in (("role", {"role": "viewer"}), ("remove", {})):
        response = owner_client.post(f"{URL}members/{own.pk}/{action}", data, follow=True)
        assert "A team needs an admin" in response.content.decode()
    own.refresh_from_db()
    assert own.role == Role.ADMIN
    assert f'data-open="remove-{own.pk}"' not in owner_client.get(URL).content.decode()
    factories.make_user("second", team, Role.ADMIN)
    assert "Leave the team?" in owner_client.get(URL).content.decode()
    owner_client.post(f"{URL}members/{own.pk}/remove")
    assert not owner.memberships.exists()


def test_a_role_that_is_none(owner_client: Client, teammate: User) -> None:
    member = teammate.memberships.get()
    owner_client.post(f"{URL}members/{member.pk}/role", {"role": "root"})
    member.refresh_from_db()
    assert member.role == Role.VIEWER


def test_guesses_of_the_old_password_are_limited(teammate_client: Client) -> None:
    new = "battery staple 9"
    data = {"old_password": "x", "new_password1": new, "new_password2": new}
    assert [teammate_client.post(f"{URL}password/", data).status_code for _ in range(6)] == [422] * 5 + [429]
    refused = teammate_client.post(f"{URL}password/", data | {"old_password": "correct horse"})
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 0
    assert Client().login(username="tom", password="correct horse")


def test_the_admin_has_no_password_page_of_its_own(owner_client: Client) -> None:
    response = owner_client.get("/admin/password_change/")
    assert response.headers["Location"] == f"{URL}password/"


def test_a_new_password_logs_out_everywhere_else(teammate: User) -> None:
    here, there = Client(), Client()
    for client in (here, there):
        assert client.login(username="tom", password="correct horse")
    new = "battery staple 9"
    data = {"old_password": "correct horse", "new_password1": new, "new_password2": new}
    for wrong in (
        {"old_password": "x"},
        {"new_password2": "y"},
        {"new_password1": "1", "new_password2": "1"},
    ):
        assert here.post(f"{URL}password/", data | wrong).status_code == 422
    assert here.post(f"{URL}password/", data).headers["Location"] == URL
    assert here.get(URL).status_code == 200
    assert there.get(URL).status_code == 302
    assert Client().login(username="tom", password=new)
    event = AuditEvent.objects.get()
    assert (event.action, event.before, event.after) == ("password.changed", {}, {})
