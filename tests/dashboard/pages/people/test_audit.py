"""The log of changes, as admins see it: every change is in it."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone

from contextopt.agents.models import PhaseProfile
from contextopt.agents.phaseversions import activate_version
from contextopt.assemblies.purge import purge_record
from contextopt.people.audit import note_event
from contextopt.people.inputs import KeyIn
from contextopt.people.keys import create_key, revoke_key
from contextopt.people.members import update_team
from contextopt.people.models import AuditEvent, Team, User
from contextopt.spaces.configs import activate_config, publish_config
from contextopt.spaces.inputs import ConfigIn, SpacePatch
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import delete_record, restore_record
from contextopt.spaces.spaces import delete_space, update_space
from memory.memories.memories import delete_memory, restore_memory
from tests import factories
from tests.memory.factories import make_memory

URL = "/settings/audit/"
WHO = "user:olga"


def actions(team: Team) -> list[str]:
    return list(AuditEvent.objects.of(team).order_by("id").values_list("action", flat=True))


def test_every_change_is_written_down_with_its_values(team: Team, space: Space, record: Record) -> None:
    publish_config(space=space, data=ConfigIn(max_records=5), created_by=WHO)
    activate_config(space=space, version=1, actor=WHO)
    activate_config(space=space, version=1, actor=WHO)
    factories.make_profile(team, budget_tokens=100)
    factories.make_profile(team, budget_tokens=200)
    activate_version(PhaseProfile, team=team, phase="building", version=1, actor=WHO)
    key, secret = create_key(team=team, data=KeyIn(name="ci"), actor=WHO)
    revoke_key(key=key, actor=WHO)
    revoke_key(key=key, actor=WHO)
    restore_record(record=delete_record(record=record, actor=WHO), actor=WHO)
    purge_record(record=record, actor=WHO)
    restore_memory(memory=delete_memory(memory=make_memory(team), actor=WHO), actor=WHO)
    update_space(space=space, changes=SpacePatch(name="Support", description="As it was"), actor=WHO)
    update_space(space=space, changes=SpacePatch(name="Support"), actor=WHO)
    update_team(team=team, fields={"name": team.name, "time_zone": "Europe/Oslo"}, actor=WHO)
    delete_space(space=space, actor=WHO)
    assert actions(team) == [
        "space.created", "config.published", "config.activated", "profile.published", "profile.published",
        "profile.activated", "key.created", "key.revoked", "record.deleted", "record.restored",
        "record.purged", "memory.deleted", "memory.restored", "space.changed", "team.changed",
        "space.deleted",
    ]  # fmt: skip
    published = AuditEvent.objects.get(action="config.published")
    assert published.subject == "support v2"
    assert published.before == {"version": 1, "max_records": 20}
    assert published.after == {"version": 2, "max_records": 5}
    renamed = AuditEvent.objects.get(action="space.changed")
    assert renamed.before["name"] == "Support notes"
    # The deletion of the space erased its text here, too.
    assert renamed.after == {"name": "Support", "description": "[purged]"}
    moved = AuditEvent.objects.get(action="team.changed")
    assert (moved.before, moved.after) == ({"time_zone": "UTC"}, {"time_zone": "Europe/Oslo"})
    assert secret not in str(list(AuditEvent.objects.values()))
    assert "Queue stuck" not in str(list(AuditEvent.objects.values()))


def test_a_space_renamed_in_the_admin_is_written_down(space: Space, client: Client) -> None:
    client.force_login(User.objects.create_superuser("root", password="x"))
    data = {"name": "Renamed", "description": space.description, "categories": ""}
    assert client.post(f"/admin/contextopt/space/{space.pk}/change/", data).status_code == 302
    event = AuditEvent.objects.get(action="space.changed")
    assert (event.before, event.after) == ({"name": "Support notes"}, {"name": "Renamed"})


def test_a_change_that_is_undone_is_not_written_down(team: Team, space: Space) -> None:
    before = actions(team)
    with transaction.atomic():
        publish_config(space=space, data=ConfigIn(max_records=5), created_by=WHO)
        transaction.set_rollback(True)
    assert actions(team) == before


@pytest.mark.parametrize("name", ["secret", "token", "token_hash", "password"])
def test_secrets_are_refused(name: str, team: Team) -> None:
    with pytest.raises(ValueError, match="secret"):
        note_event(team_id=team.pk, actor=WHO, action="key.created", subject="ci", after={name: "x"})


def test_the_log_does_not_change(team: Team) -> None:
    event = note_event(team_id=team.pk, actor=WHO, action="key.created", subject="ci")
    with pytest.raises(IntegrityError), transaction.atomic():
        AuditEvent.objects.filter(pk=event.pk).update(actor="user:mallory")
    team.delete()
    assert not AuditEvent.objects.exists()


def test_the_page_and_its_filters(owner_client: Client, team: Team, other_team: Team) -> None:
    assert "No changes yet" in owner_client.get(URL).content.decode()
    note_event(team_id=team.pk, actor=WHO, action="key.created", subject="laptop", after={"scope": "read"})
    note_event(team_id=team.pk, actor="key:ci", action="space.deleted", subject="=cmd()")
    note_event(team_id=other_team.pk, actor=WHO, action="key.created", subject="theirs")
    html = owner_client.get(URL).content.decode()
    assert ("laptop" in html, "=cmd()" in html, "theirs" in html) == (True, True, False)
    for query, shown in (
        ("about=key", "laptop"),
        ("actor=key:ci", "=cmd()"),
        (f"start={timezone.localdate()}&end={timezone.localdate()}&about=key", "laptop"),
        ("actor=key+ci", "=cmd()"),
        ("actor=olga", "Key created"),
        ("end=2020-01-01", "No results for these filters"),
    ):
        html = owner_client.get(f"{URL}?{query}").content.decode()
        assert shown in html
        assert html.count('<th scope="row"><span class="tag">') == (
            0 if shown == "No results for these filters" else 1
        )
    assert "Select a valid choice" in owner_client.get(f"{URL}?about=x").content.decode()
    csv = b"".join(owner_client.get("/settings/audit.csv?about=space")).decode()  # type: ignore[arg-type]
    assert "'=cmd()" in csv
    assert "laptop" not in csv


def test_the_page_asks_as_often_for_twenty_as_for_two(
    owner_client: Client, team: Team, django_assert_num_queries: Any
) -> None:
    for wanted in (2, 20):
        while AuditEvent.objects.count() < wanted:
            note_event(team_id=team.pk, actor=WHO, action="key.created", subject="ci")
        with django_assert_num_queries(5):  # the frame's four; the events
            owner_client.get(URL)


@pytest.mark.usefixtures("owner")  # the team must keep an admin
def test_members_changed_in_the_admin_are_written_down(team: Team, teammate: User, client: Client) -> None:
    client.force_login(User.objects.create_superuser("root", password="x"))
    member = teammate.memberships.get()
    address = f"/admin/contextopt/membership/{member.pk}"
    data = {"team": team.pk, "user": teammate.pk, "role": "editor"}
    assert client.post(f"{address}/change/", data).status_code == 302
    form = {
        "name": team.name, "slug": team.slug, "time_zone": "UTC", "memberships-TOTAL_FORMS": "1",
        "memberships-INITIAL_FORMS": "1", "memberships-0-id": member.pk, "memberships-0-team": team.pk,
        "memberships-0-user": teammate.pk, "memberships-0-role": "admin",
    }  # fmt: skip
    assert client.post(f"/admin/contextopt/team/{team.pk}/change/", form).status_code == 302
    picked = {"action": "delete_selected", "_selected_action": [member.pk], "post": "yes"}
    assert client.post("/admin/contextopt/membership/", picked).status_code == 302
    assert actions(team) == ["role.changed", "role.changed", "member.removed"]
    assert set(AuditEvent.objects.values_list("actor", flat=True)) == {"user:root"}
    for model in ("auditevent", "invitation"):
        assert client.get(f"/admin/contextopt/{model}/?q=x").status_code == 200
    for model in ("reviewitem", "reviewrules"):
        assert client.get(f"/admin/memory/{model}/").status_code == 200
