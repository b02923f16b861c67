"""Spaces and records in the admin: changes go through the product's own functions."""

from datetime import timedelta

import pytest

from contextopt.spaces.models import Record, RecordRevision, Space
from tests import factories
from tests.adminpages import page


class TestSpace:
    def test_add_makes_counts_and_settings(self, root, team):
        data = {"team": team.pk, "slug": "new", "name": "New", "description": "", "categories": "a,b"}
        root.post(page(Space, "add"), data)
        space = Space.objects.get(slug="new")
        assert space.categories == ["a", "b"]
        assert space.counts.live == 0
        assert space.configs.active().get().created_by == "user:root"

    def test_change(self, root, space):
        data = {"name": "Renamed", "description": "", "categories": ""}
        assert root.post(page(Space, "change", space.pk), data).status_code == 302
        space.refresh_from_db()
        assert space.name == "Renamed"

    def test_taken_slug(self, root, space):
        data = {"team": space.team_id, "slug": space.slug, "name": "New", "description": "", "categories": ""}
        assert root.post(page(Space, "add"), data).status_code == 200
        assert Space.objects.count() == 1

    def test_delete(self, root, world):
        root.post(page(Space, "delete", world.pk), {"post": "yes"})
        assert not Space.objects.exists()
        assert not Record.objects.exists()


class TestRecord:
    def form(self, **overrides):
        data = {
            "title": "Alpha", "type": "note", "date_0": "2026-06-15", "date_1": "12:00:00", "tags": "",
            "notes": "Line one\r\nline two", "thread": "", "position": "", "metadata": "{}", "source": "",
            "external_id": "",
        }  # fmt: skip
        return {**data, **overrides}

    def test_add(self, root, space):
        response = root.post(page(Record, "add"), self.form(space=space.pk, tags="a,b"))
        assert response.status_code == 302
        record = Record.objects.get()
        assert record.notes == "Line one\nline two"
        assert record.tags == ["a", "b"]
        assert record.summary_tokens > 0
        space.counts.refresh_from_db()
        assert space.counts.live == 1

    def test_saving_what_was_not_changed_keeps_no_revision(self, root, space):
        date = factories.NOW + timedelta(microseconds=123_456)
        record = factories.make_record(space, title="Alpha", notes="Line one\nline two", date=date)
        root.post(page(Record, "change", record.pk), self.form())
        assert not RecordRevision.objects.exists()
        record.refresh_from_db()
        assert record.date == date

    def test_comma_in_a_tag_survives_a_look(self, root, space):
        record = factories.make_record(space, title="Alpha", tags=["a,b", "c"])
        root.post(page(Record, "change", record.pk), self.form(title="New", tags="a,b,c"))
        record.refresh_from_db()
        assert (record.title, record.tags) == ("New", ["a,b", "c"])

    def test_change_keeps_a_revision(self, root, space):
        record = factories.make_record(space)
        assert root.post(page(Record, "change", record.pk), self.form(title="New")).status_code == 302
        record.refresh_from_db()
        assert record.title == "New"
        assert "New" in record.summary
        assert RecordRevision.objects.get().changed_by == "user:root"

    @pytest.mark.parametrize(
        "overrides",
        [
            {"title": " "},
            {"metadata": "[]"},
            {"metadata": "{"},
            {"date_0": "1066-01-01"},
            {"tags": "x" * 101},
        ],
        ids=str,
    )
    def test_bad_input_is_shown_on_the_form(self, root, space, overrides):
        response = root.post(page(Record, "add"), self.form(space=space.pk, **overrides))
        assert response.status_code == 200
        assert not Record.objects.exists()

    def test_taken_external_id(self, root, space):
        factories.make_record(space, external_id="1")
        assert root.post(page(Record, "add"), self.form(space=space.pk, external_id="1")).status_code == 200
        assert Record.objects.count() == 1

    def test_delete_is_soft_and_restorable(self, root, space):
        record = factories.make_record(space)
        root.post(page(Record, "delete", record.pk), {"post": "yes"})
        record.refresh_from_db()
        assert record.is_deleted
        root.post(page(Record, "changelist"), {"action": "restore", "_selected_action": [record.pk]})
        record.refresh_from_db()
        assert not record.is_deleted

    def test_only_what_is_deleted_is_restored(self, root, space):
        live, deleted = factories.make_record(space), factories.make_record(space, deleted_at=factories.NOW)
        selected = {"action": "restore", "_selected_action": [live.pk, deleted.pk]}
        assert "1 restored." in root.post(page(Record, "changelist"), selected, follow=True).content.decode()
        assert not Record.objects.filter(deleted_at__isnull=False).exists()

    def test_delete_many_is_soft(self, root, space):
        record = factories.make_record(space)
        selected = {"action": "delete_selected", "_selected_action": [record.pk], "post": "yes"}
        root.post(page(Record, "changelist"), selected)
        record.refresh_from_db()
        assert record.is_deleted

    def test_purge_asks_first(self, root, space):
        record = factories.make_record(space, title="Secret")
        address = f"/admin/contextopt/record/{record.pk}/purge/"
        assert b"Erase this text" in root.get(address).content
        root.post(address, {"_form_submitted": "True"})
        record.refresh_from_db()
        assert record.title == "Secret"
        response = root.post(address, {"_form_submitted": "True", "confirm": "on"})
        assert response["HX-Redirect"] == page(Record, "change", record.pk)
        record.refresh_from_db()
        assert record.title == "[purged]"
        assert root.post(page(Record, "change", record.pk), self.form()).status_code == 403
