import pytest

from contextopt.gateway.models import GatewayPolicy
from contextopt.people.models import AuditEvent, Role
from tests import factories

URL = "/traffic/spaces/support/"
INSERT = {
    "mode": "insert", "insert_percent": "25", "placement": "tail", "keep": "question",
    "history_tokens": "9000", "time_limit_ms": "400",
    "internal_phrases": "Ticket router\r\n\r\nSort this\r\n",
}  # fmt: skip


def test_everyone_reads_and_only_admins_have_a_button(owner_client, teammate_client, space):
    html = owner_client.get(URL).content.decode()
    assert "Save…" in html and '<fieldset class="plain">' in html
    html = teammate_client.get(URL).content.decode()
    assert "Save…" not in html
    assert "Your role is viewer" in html
    assert '<fieldset class="plain" disabled>' in html


def test_switching_to_insert(owner_client, space):
    response = owner_client.post(URL, INSERT, follow=True)
    assert response.redirect_chain == [("/traffic/", 302)]
    policy = GatewayPolicy.objects.get(space=space)
    assert (policy.mode, policy.insert_percent, policy.placement) == ("insert", 25, "tail")
    assert (policy.keep, policy.history_tokens, policy.time_limit_ms) == ("question", 9_000, 400)
    assert policy.internal_phrases == ["Ticket router", "Sort this"]
    html = response.content.decode()
    assert "Contexts go into 25 % of conversations." in html
    [event] = AuditEvent.objects.filter(action="gateway.changed")
    assert (event.actor, event.before["mode"], event.after["mode"]) == ("user:olga", "audit", "insert")
    assert f"{URL}undo/{event.pk}" in html


def test_undo_gives_the_values_from_before(owner_client, space):
    owner_client.post(URL, INSERT)
    event = AuditEvent.objects.get(action="gateway.changed")
    response = owner_client.post(f"{URL}undo/{event.pk}", follow=True)
    assert "Change undone" in response.content.decode()
    policy = GatewayPolicy.objects.get(space=space)
    assert (policy.mode, policy.insert_percent, policy.keep) == ("audit", 100, "sizes")
    assert policy.history_tokens is None
    assert AuditEvent.objects.filter(action="gateway.changed").count() == 2


def test_undo_does_not_undo_what_came_after(owner_client, space):
    owner_client.post(URL, INSERT)
    event = AuditEvent.objects.get(action="gateway.changed")
    owner_client.post(URL, {**INSERT, "insert_percent": "50"})
    response = owner_client.post(f"{URL}undo/{event.pk}", follow=True)
    assert "changed again in the meantime" in response.content.decode()
    assert GatewayPolicy.objects.get(space=space).insert_percent == 50


def test_an_editor_changes_the_time_limit_alone(owner_client, client, team, space):
    owner_client.post(URL, INSERT)
    client.force_login(factories.make_user("ed", team, Role.EDITOR))
    html = client.get(URL).content.decode()
    assert "Editors can change the time limit." in html and "Save…" in html
    client.post(URL, {"time_limit_ms": "900", "keep": "all"})
    policy = GatewayPolicy.objects.get(space=space)
    assert (policy.time_limit_ms, policy.keep, policy.mode) == (900, "question", "insert")
    changes = AuditEvent.objects.filter(action="gateway.changed").order_by("pk")
    refused = client.post(f"{URL}undo/{changes.first().pk}")
    assert (refused.status_code, GatewayPolicy.objects.get(space=space).time_limit_ms) == (403, 900)
    client.post(f"{URL}undo/{changes.last().pk}")
    assert GatewayPolicy.objects.get(space=space).time_limit_ms == 400


def test_saving_the_same_changes_nothing(owner_client, space):
    owner_client.post(URL, INSERT)
    response = owner_client.post(URL, INSERT, follow=True)
    assert "Nothing was changed." in response.content.decode()
    assert AuditEvent.objects.filter(action="gateway.changed").count() == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("insert_percent", "101"),
        ("insert_percent", ""),
        ("mode", "off"),
        ("keep", ""),
        ("history_tokens", "0"),
        ("time_limit_ms", "20"),
        ("internal_phrases", "abc"),
    ],
)
def test_bad_input_is_said_at_its_field(owner_client, space, field, value):
    response = owner_client.post(URL, {**INSERT, field: value})
    assert response.status_code == 422
    assert f'id="id_{field}_error"' in response.content.decode()
    assert not GatewayPolicy.objects.filter(mode="insert").exists()


def test_an_unknown_change_cannot_be_undone(owner_client, space):
    assert owner_client.post(f"{URL}undo/1").status_code == 404
