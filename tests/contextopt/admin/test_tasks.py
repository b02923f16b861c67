"""Profiles, hand-offs and files of coding agents in the admin."""

import pytest

from contextopt.agents.handoffs.models import HandoffSettings, PhaseCompression
from contextopt.agents.models import Blob, PhaseProfile, ReceiverFile, Task
from contextopt.agents.phaselinks import PhaseLink
from tests import factories
from tests.adminpages import page


class TestPhaseProfile:
    def add(self, root, team, **overrides):
        data = {"team": team.pk, "phase": "building", "budget_tokens": 9_000, "fields": ["tree", "files"]}
        return root.post(page(PhaseProfile, "add"), {**data, "note": "", **overrides})

    def test_add_publishes(self, root, team):
        assert self.add(root, team).status_code == 302
        assert self.add(root, team, budget_tokens=8_000).status_code == 302
        active = PhaseProfile.objects.get(is_active=True)
        assert (active.version, active.budget_tokens, active.fields) == (2, 8_000, ["tree", "files"])
        assert active.created_by == "user:root"

    def test_form_begins_with_the_active_settings(self, root, team):
        for address in ({"team": team.pk, "phase": "diagnosis"}, {"team": "x" * 30}, {"phase": "\x00"}):
            response = root.get(page(PhaseProfile, "add"), address)
            assert response.status_code == 200
        response = root.get(page(PhaseProfile, "add"), {"team": team.pk, "phase": "diagnosis"})
        assert response.context["adminform"].form.initial["budget_tokens"] == 5_000

    @pytest.mark.parametrize(
        "overrides",
        [
            {"budget_tokens": -1},
            {"budget_tokens": 10**8},
            {"fields": ["soul"]},
            {"phase": " "},
            {"phase": ""},
        ],
        ids=str,
    )
    def test_refused(self, root, team, overrides):
        assert self.add(root, team, **overrides).status_code == 200
        assert not PhaseProfile.objects.exists()

    def test_is_never_changed(self, root, team):
        profile = factories.make_profile(team)
        assert root.post(page(PhaseProfile, "change", profile.pk), {"budget_tokens": 1}).status_code == 403
        assert root.post(page(PhaseProfile, "delete", profile.pk), {"post": "yes"}).status_code == 403


class TestPhaseLink:
    def add(self, root, team, **overrides):
        data = {"team": team.pk, "phase": "building", "profile": "building", "receives": "", "note": ""}
        return root.post(page(PhaseLink, "add"), {**data, **overrides})

    def test_add_publishes(self, root, team):
        assert self.add(root, team).status_code == 302
        assert self.add(root, team, receives="analysis").status_code == 302
        active = PhaseLink.objects.get(is_active=True)
        assert (active.version, active.receives, active.created_by) == (2, "analysis", "user:root")

    def test_the_list_shows_the_defaults(self, root, team):
        html = root.get(page(PhaseLink, "changelist")).content.decode()
        assert '<td class="pr-8">reviewing</td>' in html
        assert "<td>nothing</td>" in html

    def test_form_begins_with_the_active_link(self, root, team):
        for address in ({"team": "x" * 30}, {"phase": "\x00"}):
            assert root.get(page(PhaseLink, "add"), address).status_code == 200
        response = root.get(page(PhaseLink, "add"), {"team": team.pk, "phase": "design"})
        initial = response.context["adminform"].form.initial
        assert (initial["profile"], initial["receives"]) == ("planning", "analysis")

    @pytest.mark.parametrize(
        "overrides", [{"profile": "x"}, {"profile": ""}, {"receives": "x"}, {"phase": " "}]
    )
    def test_refused(self, root, team, overrides):
        assert self.add(root, team, **overrides).status_code == 200
        assert not PhaseLink.objects.exists()

    def test_is_never_changed(self, root, team):
        link = factories.make_link(team, "building", receives="analysis")
        assert root.post(page(PhaseLink, "change", link.pk), {"receives": ""}).status_code == 403
        assert root.post(page(PhaseLink, "delete", link.pk), {"post": "yes"}).status_code == 403


def test_no_page_shows_a_files_content(root, team):
    factories.make_task(team, files={"secret.py": "the launch code\n"})
    for model in (Blob, ReceiverFile, Task):
        row = model.objects.get()
        for address in (page(model, "changelist"), page(model, "change", row.pk)):
            assert b"launch code" not in root.get(address).content


class TestHandoffSettings:
    def test_begin_with_the_defaults_of_the_phase(self, root, team):
        html = root.get(page(HandoffSettings, "add"), {"phase": "design"}).content.decode()
        assert 'value="600"' in html
        assert "api_contracts,data_model,components" in html
        for address in ({"phase": "x"}, {"phase": ""}, {"team": "²"}):
            assert root.get(page(HandoffSettings, "add"), address).status_code == 200

    def test_are_saved_and_come_into_force(self, root, team):
        data = {
            "team": team.pk, "phase": "analysis", "bundle_tokens": 30_000, "findings_tokens": 7_000,
            "brief_tokens": 300, "critical_tokens": 900, "max_critical": 3, "key_categories": "risks, rules",
            "critical_above": 0.8, "speculation_below": 0.3,
        }  # fmt: skip
        add = page(HandoffSettings, "add")
        for wrong in ({"brief_tokens": 5}, {"critical_above": 2}, {"phase": "testing"}):
            assert root.post(add, {**data, **wrong}).status_code == 200
        assert not HandoffSettings.objects.exists()
        assert root.post(add, data).status_code == 302
        stored = HandoffSettings.objects.get()
        assert (stored.key_categories, stored.updated_by) == (["risks", "rules"], "user:root")
        task = factories.make_task(team)
        factories.make_finding(task, confidence=0.9)
        factories.make_advance(task)
        compression = PhaseCompression.objects.get()
        assert (compression.critical, compression.settings["brief_tokens"]) == ([1], 300)
