"""Teams and users in the admin."""

import pytest
from django.utils import timezone

from contextopt.agents.handoffs.compression import default_budgets
from contextopt.agents.handoffs.models import HandoffSettings
from contextopt.agents.models import HandoffPhase
from contextopt.agents.retrysettings import RetrySettings
from contextopt.agents.standingdocuments import StandingDocument
from contextopt.people.models import AuditEvent, Membership, Role, Team, User
from memory.memories.rules import HalfLife, MemoryPolicy
from tests import factories
from tests.adminpages import page


def test_team_counts(root, space, django_assert_max_num_queries):
    factories.make_user("anna", space.team)
    with django_assert_max_num_queries(6):
        response = root.get(page(Team, "changelist"))
    assert response.status_code == 200


def test_user_can_be_added(root):
    data = {
        "username": "nina",
        "password1": "correct horse",
        "password2": "correct horse",
        "usable_password": "true",
    }
    assert root.post(page(User, "add"), data).status_code == 302
    assert User.objects.filter(username="nina", date_joined__lte=timezone.now()).exists()


def noted(team):
    events = AuditEvent.objects.of(team).order_by("id")
    return [(event.action, event.subject, event.before, event.after) for event in events]


@pytest.fixture
def member(team):
    user = factories.make_user("anna", team, Role.EDITOR)
    return user.memberships.get()


class TestMembersAreWrittenDown:
    def change(self, root, member, **values):
        now = {"user": member.user_id, "team": member.team_id, "role": member.role}
        assert root.post(page(Membership, "change", member.pk), {**now, **values}).status_code == 302

    def test_another_role(self, root, team, member):
        self.change(root, member, role="reviewer")
        assert noted(team) == [("role.changed", "anna", {"role": member.role}, {"role": "reviewer"})]

    def test_another_role_in_the_teams_page(self, root, team, member):
        form = {
            "name": team.name,
            "slug": team.slug,
            "time_zone": team.time_zone,
            "memberships-TOTAL_FORMS": 1,
            "memberships-INITIAL_FORMS": 1,
            "memberships-0-id": member.pk,
            "memberships-0-team": team.pk,
            "memberships-0-user": member.user_id,
            "memberships-0-role": "reviewer",
        }
        assert root.post(page(Team, "change", team.pk), form).status_code == 302
        assert noted(team) == [("role.changed", "anna", {"role": member.role}, {"role": "reviewer"})]

    def test_another_team(self, root, team, other_team, member):
        self.change(root, member, team=other_team.pk)
        assert noted(team) == [("member.removed", "anna", {"role": member.role}, {})]
        assert noted(other_team) == [("member.added", "anna", {}, {"role": member.role})]

    def test_a_user_who_is_deleted(self, root, team, member):
        assert root.post(page(User, "delete", member.user_id), {"post": "yes"}).status_code == 302
        assert noted(team) == [("member.removed", "anna", {"role": member.role}, {})]


class TestRulesAreWrittenDown:
    def test_made_changed_and_deleted(self, root, team):
        assert root.post(page(HalfLife, "add"), {"team": team.pk, "memory_type": "note", "days": 30})
        rules = HalfLife.objects.get()
        assert root.post(page(HalfLife, "change", rules.pk), {"memory_type": "note", "days": 60})
        assert root.post(page(HalfLife, "change", rules.pk), {"memory_type": "note", "days": 60})
        assert root.post(page(HalfLife, "delete", rules.pk), {"post": "yes"})
        made, changed, deleted = noted(team)
        assert made == ("rules.changed", "half life: note: 30 days", {}, {"memory_type": "note", "days": 30})
        assert changed == ("rules.changed", "half life: note: 60 days", {"days": 30}, {"days": 60})
        assert deleted[2:] == ({"memory_type": "note", "days": 60}, {})

    def test_policies(self, root, team):
        form = {"team": team.pk, "rating_weight": 0.5, "retire_below": 0.2, "retire_after": 3}
        assert root.post(page(MemoryPolicy, "add"), form).status_code == 302
        form["rating_weight"] = 0.25
        assert root.post(page(MemoryPolicy, "change", team.pk), form).status_code == 302
        assert noted(team)[1][2:] == ({"rating_weight": 0.5}, {"rating_weight": 0.25})

    def test_limits_of_retries(self, root, team):
        form = {"team": team.pk, "error_tokens": 900, "diff_lines": 40, "diff_characters": 2_000}
        for wrong in ({"error_tokens": 49}, {"diff_lines": 0}, {"diff_characters": 99}):
            assert root.post(page(RetrySettings, "add"), form | wrong).status_code == 200
        assert root.post(page(RetrySettings, "add"), form).status_code == 302
        assert RetrySettings.objects.get().updated_by == "user:root"
        form["diff_lines"] = 50
        assert root.post(page(RetrySettings, "change", team.pk), form).status_code == 302
        assert noted(team)[1][2:] == ({"diff_lines": 40}, {"diff_lines": 50})

    def test_standing_documents(self, root, team):
        form = {"team": team.pk, "repository": "shop", "title": "Style", "content": "Two spaces."}
        assert root.post(page(StandingDocument, "add"), form | {"content": ""}).status_code == 200
        assert root.post(page(StandingDocument, "add"), form).status_code == 302
        document = StandingDocument.objects.get()
        assert document.created_by == "user:root"
        change = page(StandingDocument, "change", document.pk)
        assert root.post(change, form | {"content": "Tabs."}).status_code == 302
        assert noted(team)[1][2:] == ({"content": "Two spaces."}, {"content": "Tabs."})

    def test_sizes_of_hand_offs(self, root, team):
        sizes = default_budgets(HandoffPhase.DESIGN).to_json()
        form = {"team": team.pk, "phase": "design", **sizes, "key_categories": ""}
        assert root.post(page(HandoffSettings, "add"), form).status_code == 302
        assert [action for action, *_ in noted(team)] == ["rules.changed"]
