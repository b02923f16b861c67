"""The policies of the gateway."""

import pytest

from contextopt.gateway.models import GatewayPolicy
from contextopt.people.models import AuditEvent
from tests import factories
from tests.contextopt.api.conftest import fields_of

GATEWAY = "/spaces/support/gateway"
DEFAULTS = {
    "mode": "audit", "insert_percent": 100, "placement": "auto", "keep": "sizes", "history_tokens": None,
    "time_limit_ms": 150, "internal_phrases": [],
}  # fmt: skip


def test_a_space_is_audited_until_somebody_changes_it(api, space, django_assert_num_queries):
    api.get(GATEWAY)
    with django_assert_num_queries(3):  # the key, the space, the policy
        assert api.get(GATEWAY).json() == DEFAULTS
    assert not GatewayPolicy.objects.exists()


def test_only_given_fields_change(api, space):
    changed = api.patch(GATEWAY, {"mode": "insert", "insert_percent": 10, "history_tokens": 8_000}).json()
    assert changed == {**DEFAULTS, "mode": "insert", "insert_percent": 10, "history_tokens": 8_000}
    assert api.patch(GATEWAY, {"keep": "all"}).json() == {**changed, "keep": "all"}
    assert api.patch(GATEWAY, {"history_tokens": None}).json()["history_tokens"] is None
    assert api.get(GATEWAY).json()["keep"] == "all"


def test_each_change_is_logged_with_what_differs(api, space):
    api.patch(GATEWAY, {"mode": "insert"})
    api.patch(GATEWAY, {"mode": "insert"})
    [event] = AuditEvent.objects.filter(action="gateway.changed")
    assert (event.subject, event.actor) == ("support", "key:admin-key")
    assert (event.before, event.after) == ({"mode": "audit"}, {"mode": "insert"})


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"mode": "off"}, "mode"),
        ({"mode": None}, "mode"),
        ({"insert_percent": 101}, "insert_percent"),
        ({"insert_percent": -1}, "insert_percent"),
        ({"insert_percent": None}, "insert_percent"),
        ({"placement": "middle"}, "placement"),
        ({"keep": "everything"}, "keep"),
        ({"history_tokens": 0}, "history_tokens"),
        ({"history_tokens": 200_001}, "history_tokens"),
        ({"time_limit_ms": 49}, "time_limit_ms"),
        ({"time_limit_ms": 2_001}, "time_limit_ms"),
        ({"internal_phrases": ["abc"]}, "internal_phrases.0"),
        ({"internal_phrases": ["x" * 201]}, "internal_phrases.0"),
        ({"internal_phrases": ["some phrase"] * 21}, "internal_phrases"),
        ({"share": 5}, "share"),
    ],
)
def test_bad_input_names_the_field_and_changes_nothing(api, space, data, field):
    response = api.patch(GATEWAY, data)
    assert response.status_code == 422
    assert fields_of(response) == {field}
    assert api.get(GATEWAY).json() == DEFAULTS


def test_each_space_has_a_policy_of_its_own(api, team, space):
    factories.make_space(team, "sales")
    api.patch("/spaces/sales/gateway", {"mode": "insert"})
    assert api.get("/spaces/sales/gateway").json()["mode"] == "insert"
    assert api.get(GATEWAY).json()["mode"] == "audit"


def test_a_key_with_scope_write_changes_the_time_limit_alone(writer, space):
    assert writer.patch(GATEWAY, {"time_limit_ms": 400}).json()["time_limit_ms"] == 400
    refused = writer.patch(GATEWAY, {"time_limit_ms": 500, "keep": "all"})
    assert refused.status_code == 403
    assert "scope admin" in refused.json()["detail"]
    assert writer.get(GATEWAY).json() == {**DEFAULTS, "time_limit_ms": 400}
