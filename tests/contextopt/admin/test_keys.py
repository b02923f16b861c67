"""API keys in the admin: shown once, revoked, never deleted."""

from django.contrib.messages import get_messages

from contextopt.people.models import ApiKey, AuditEvent
from tests import factories
from tests.adminpages import page

HTMX = {"HX-Request": "true"}


class TestApiKey:
    def add(self, root, team, **overrides):
        data = {"team": team.pk, "name": "agent", "scope": "write", "expires_at_0": "", "expires_at_1": ""}
        return root.post(page(ApiKey, "add"), {**data, **overrides}, headers=HTMX)

    def test_secret_is_shown_once(self, root, team, client):
        response = self.add(root, team)
        key = ApiKey.objects.get()
        text = response.content.decode()
        secret = text[text.index("ctx_", text.index("shown only once")) :].split('"')[0]
        assert key.created_by == "user:root"
        # No message holds the secret: it would stay in a cookie or a session.
        assert not list(get_messages(response.wsgi_request))
        answer = client.get("/api/v1/me", headers={"X-API-Key": secret})
        assert answer.json()["key"]["name"] == "agent"
        assert secret not in root.get(page(ApiKey, "change", key.pk)).content.decode()
        assert secret not in root.get(page(ApiKey, "changelist")).content.decode()

    def test_a_form_that_a_browser_sends_makes_no_key(self, root, team):
        data = {"team": team.pk, "name": "agent", "scope": "write", "expires_at_0": "", "expires_at_1": ""}
        for _ in range(2):
            response = root.post(page(ApiKey, "add"), data)
            assert (response.status_code, response["Location"]) == (302, page(ApiKey, "add"))
        assert not ApiKey.objects.exists()
        assert "No key was created" in root.get(page(ApiKey, "add")).content.decode()

    def test_revoke(self, root, team):
        key, _ = factories.make_key(team)
        root.post(page(ApiKey, "changelist"), {"action": "revoke", "_selected_action": [key.pk]})
        key.refresh_from_db()
        assert key.revoked_at is not None

    def test_scope_is_not_changed_later(self, root, team):
        key, _ = factories.make_key(team, scope="read")
        data = {"name": "renamed", "scope": "admin", "expires_at_0": "", "expires_at_1": ""}
        root.post(page(ApiKey, "change", key.pk), data)
        key.refresh_from_db()
        assert (key.name, key.scope) == ("renamed", "read")

    def test_a_change_is_written_down(self, root, team):
        key, _ = factories.make_key(team, name="agent")
        data = {"name": "agent", "expires_at_0": "2040-01-01", "expires_at_1": "12:00:00"}
        for _ in range(2):
            root.post(page(ApiKey, "change", key.pk), data)
        event = AuditEvent.objects.get(action="key.changed")
        assert (event.subject, event.before) == ("agent", {"expires_at": None})
        assert event.after["expires_at"].startswith("2040-01-01")

    def test_the_limit_can_be_changed(self, root, team):
        key, _ = factories.make_key(team, name="agent")
        data = {"name": "agent", "expires_at_0": "", "expires_at_1": "", "requests_per_minute": "0"}
        assert b"requests per minute" in root.post(page(ApiKey, "change", key.pk), data).content.lower()
        root.post(page(ApiKey, "change", key.pk), data | {"requests_per_minute": "30"})
        key.refresh_from_db()
        assert key.requests_per_minute == 30
        assert AuditEvent.objects.get(action="key.changed").after == {"requests_per_minute": 30}

    def test_is_never_deleted(self, root, team):
        key, _ = factories.make_key(team)
        assert root.post(page(ApiKey, "delete", key.pk), {"post": "yes"}).status_code == 403
