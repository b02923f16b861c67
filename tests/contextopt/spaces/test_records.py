from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError
from django.utils import timezone

from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.models import AssemblyPayload
from contextopt.assemblies.purge import purge_record
from contextopt.errors import Conflict, DuplicateRecord, NotFound, PurgedRecord
from contextopt.people.models import Team
from contextopt.spaces.inputs import RecordIn, RecordPatch, SpaceIn
from contextopt.spaces.models import Record, Space, SpaceCounts, SpaceHour
from contextopt.spaces.records import (
    create_record,
    delete_record,
    restore_record,
    restore_revision,
    update_record,
    upsert_records,
)
from contextopt.spaces.recordviews import view_record
from contextopt.spaces.spaces import create_space, delete_space
from tests.factories import NOW, make_assembly, make_record, make_space
from tests.queries import count_queries


def counted(space: Space) -> tuple[int, int, int, int]:
    """Return the counts live, pinned and deleted, and the sum of live by hour."""
    counts = SpaceCounts.objects.get(space=space)
    hours = sum(SpaceHour.objects.filter(space=space).values_list("live", flat=True))
    return counts.live, counts.pinned, counts.deleted, hours


def test_a_space_starts_with_settings_and_counters(team: Team) -> None:
    space = create_space(team=team, data=SpaceIn(slug="new"), actor="test")
    assert space.name == "new"
    assert space.configs.active().get().version == 1
    assert counted(space) == (0, 0, 0, 0)


def test_a_slug_is_taken_once_a_team(team: Team, other_team: Team) -> None:
    make_space(team)
    make_space(other_team)
    with pytest.raises(Conflict, match="support"):
        make_space(team)


def test_the_summary_is_computed_with_the_write(space: Space) -> None:
    record = make_record(space, title="Restore", type="runbook", tags=["db"], notes="x" * 200)
    assert record.summary == f"- [runbook] Restore (2026-06-15) #db: {'x' * 99}…\n"
    assert record.summary_tokens > 10
    assert record.summary_encoding == "cl100k_base"


def test_the_same_source_and_external_id_is_refused(space: Space) -> None:
    first = make_record(space, source="wiki", external_id="7")
    with pytest.raises(DuplicateRecord) as caught:
        make_record(space, source="wiki", external_id="7")
    assert caught.value.record_id == first.pk


def test_an_update_keeps_the_state_before(space: Space) -> None:
    record = make_record(space, tags=["a"])
    updated = update_record(record=record, changes=RecordPatch(title="New", tags=["b"]), actor="user:olga")
    assert (updated.title, updated.tags) == ("New", ["b"])
    assert "New" in updated.summary
    revision = record.revisions.get()
    assert (revision.title, revision.tags, revision.changed_by) == (record.title, ["a"], "user:olga")


def test_an_update_that_changes_nothing_keeps_no_revision(space: Space) -> None:
    record = make_record(space)
    update_record(record=record, changes=RecordPatch(title=record.title), actor="test")
    assert not record.revisions.exists()


def test_a_deletion_is_undone_with_all_its_content(space: Space) -> None:
    record = make_record(space)
    deleted = delete_record(record=record, actor="test")
    assert counted(space) == (0, 0, 1, 0)
    assert delete_record(record=deleted, actor="test").deleted_at == deleted.deleted_at
    restored = restore_record(record=deleted, actor="test")
    assert restored.deleted_at is None
    assert counted(space) == (1, 0, 0, 1)
    assert [r.change for r in record.revisions.order_by("number")] == ["delete", "restore"]


def test_a_logged_change_takes_few_statements(space: Space) -> None:
    record = make_record(space)
    # A savepoint and its end, the space, its lock, the record, its revision, the change and its log.
    assert count_queries(lambda: delete_record(record=record, actor="test")) == 2 + 6


def test_a_revision_is_restored_as_a_change_of_its_own(space: Space) -> None:
    record = make_record(space, title="First")
    update_record(record=record, changes=RecordPatch(title="Second"), actor="test")
    back = restore_revision(record=record, number=1, actor="test")
    assert back.title == "First"
    assert record.revisions.get(number=2).title == "Second"
    with pytest.raises(NotFound):
        restore_revision(record=record, number=9, actor="test")


def rows(count: int, **overrides: object) -> list[RecordIn]:
    return [
        RecordIn.model_validate(
            {"title": f"Row {i}", "date": NOW, "source": "s", "external_id": str(i), **overrides}
        )
        for i in range(count)
    ]


def test_importing_twice_changes_nothing(space: Space) -> None:
    first = upsert_records(space=space, rows=rows(5), actor="test")
    again = upsert_records(space=space, rows=rows(5), actor="test")
    assert [result.status for result in first] == ["created"] * 5
    assert [result.status for result in again] == ["unchanged"] * 5
    assert [result.record_id for result in first] == [result.record_id for result in again]
    assert counted(space) == (5, 0, 0, 5)


def test_a_row_without_a_date_keeps_the_one_it_got(space: Space) -> None:
    undated = [RecordIn(title="Note", source="s", external_id="1")]
    created = upsert_records(space=space, rows=undated, actor="test")[0]
    date = Record.objects.get(pk=created.record_id).date
    assert upsert_records(space=space, rows=undated, actor="test")[0].status == "unchanged"
    changed = [RecordIn(title="Note, changed", source="s", external_id="1")]
    assert upsert_records(space=space, rows=changed, actor="test")[0].status == "updated"
    assert Record.objects.get(pk=created.record_id).date == date


def test_a_row_without_a_date_is_unchanged_by_a_deletion_and_its_undoing(space: Space) -> None:
    undated = [RecordIn(title="Note", source="s", external_id="1")]
    record = Record.objects.get(pk=upsert_records(space=space, rows=undated, actor="test")[0].record_id)
    for change in (delete_record, restore_record):
        record = change(record=record, actor="test")
        assert upsert_records(space=space, rows=undated, actor="test")[0].status == "unchanged"


def test_an_import_keeps_the_pin_unless_its_row_names_one(space: Space) -> None:
    undated = RecordIn(title="Note", source="s", external_id="undated")
    given = [*rows(1), undated]
    upsert_records(space=space, rows=given, actor="test")
    for record in Record.objects.filter(space=space):
        update_record(record=record, changes=RecordPatch(pinned=True), actor="user:olga")
    again = upsert_records(space=space, rows=given, actor="test")
    changed = upsert_records(space=space, rows=rows(1, title="Changed"), actor="test")
    assert [row.status for row in (*again, *changed)] == ["unchanged", "unchanged", "updated"]
    assert counted(space)[1] == 2
    unpinned = rows(1, title="Changed", pinned=False)
    assert upsert_records(space=space, rows=unpinned, actor="test")[0].status == "updated"
    assert counted(space)[1] == 1


def test_a_changed_row_updates_and_keeps_a_revision(space: Space) -> None:
    upsert_records(space=space, rows=rows(3), actor="test")
    changed = rows(3)
    changed[1].title = "Changed"
    statuses = [result.status for result in upsert_records(space=space, rows=changed, actor="test")]
    assert statuses == ["unchanged", "updated", "unchanged"]
    record = Record.objects.get(space=space, external_id="1")
    assert record.title == "Changed"
    assert "Changed" in record.summary
    assert record.revisions.get().title == "Row 1"


def test_a_row_given_twice_in_one_call_is_one_record(space: Space) -> None:
    first, again = upsert_records(space=space, rows=[*rows(1), *rows(1)], actor="test")
    assert (first.status, again.status) == ("created", "unchanged")
    assert first.record_id == again.record_id == Record.objects.get(space=space).pk


def test_rows_without_external_id_always_create(space: Space) -> None:
    plain = [RecordIn(title="Same", date=NOW)] * 2
    assert [r.status for r in upsert_records(space=space, rows=plain, actor="test")] == ["created"] * 2


@pytest.mark.parametrize("count", [2, 20])
def test_a_bulk_write_takes_the_same_statements_whatever_its_size(space: Space, count: int) -> None:
    changed = rows(count // 2, title="Changed")
    upsert_records(space=space, rows=rows(count // 2), actor="test")
    given = [*changed, *rows(count)[count // 2 :]]
    # savepoint, lock, encoding, existing, ids, copy, revisions, update, release
    assert count_queries(lambda: upsert_records(space=space, rows=given, actor="test")) == 9


def test_counters_follow_every_kind_of_write(space: Space) -> None:
    record = make_record(space)
    make_record(space, title="Pinned", pinned=True)
    update_record(record=record, changes=RecordPatch(date=NOW - timedelta(days=3)), actor="test")
    assert counted(space) == (1, 1, 0, 1)
    assert SpaceHour.objects.get(space=space, live=1).hour == NOW - timedelta(days=3)
    Record.objects.filter(space=space).update(pinned=False)
    assert counted(space) == (2, 0, 0, 2)
    Record.objects.filter(space=space).delete()
    assert counted(space) == (0, 0, 0, 0)


def test_deleting_a_space_takes_all_of_it_and_nothing_else(team: Team, space: Space) -> None:
    other = make_space(team, "other")
    for each in (space, other):
        update_record(record=make_record(each), changes=RecordPatch(title="x"), actor="test")
        make_assembly(each)
    delete_space(space=space)
    assert Space.objects.get() == other
    assert Record.objects.get().space == other
    assert counted(other) == (1, 0, 0, 1)
    assert other.assemblies.count() == 1


def test_a_purge_erases_the_text_everywhere(space: Space) -> None:
    record = make_record(space, title="Secret plan", notes="the launch code")
    update_record(record=record, changes=RecordPatch(notes="another secret"), actor="test")
    kept = make_record(space, title="Harmless")
    stored = make_assembly(space)
    purge_record(record=record)
    record.refresh_from_db()
    payload = space.assemblies.get(pk=stored.id).payload
    everything = f"{vars(record)} {list(record.revisions.values())} {vars(payload)}"
    assert "secret" not in everything.lower()
    assert "launch code" not in everything
    assert "- [purged]\n" in payload.text
    assert kept.summary in payload.text
    assert payload.assembly.sha256 == stored.certificate.sha256
    assert record.is_deleted
    with pytest.raises(PurgedRecord):
        restore_record(record=record, actor="test")


def test_a_purge_reaches_what_demo_data_says_was_earlier(space: Space) -> None:
    record = make_record(space, title="Secret plan")
    stored = assemble_space(
        team_id=space.team_id,
        request=AssemblyIn(space=space.slug, as_of=NOW),
        actor="demo",
        is_demo=True,
        created_at=timezone.now() - timedelta(days=14),
    )
    assert "Secret" in stored.text
    purge_record(record=record)
    assert "Secret" not in AssemblyPayload.objects.get(pk=stored.id).text


def test_an_import_does_not_bring_a_purged_record_back(space: Space) -> None:
    upsert_records(space=space, rows=rows(1), actor="test")
    purge_record(record=Record.objects.get(space=space))
    assert upsert_records(space=space, rows=rows(1), actor="test")[0].status == "unchanged"
    assert Record.objects.get(space=space).title == "[purged]"


def test_dates_far_off_are_refused_by_the_database_too(space: Space) -> None:
    with pytest.raises(IntegrityError, match="record_date_range"):
        Record.objects.filter(pk=make_record(space).pk).update(date=datetime(1700, 1, 1, tzinfo=UTC))


def test_creating_needs_nothing_but_a_title(space: Space) -> None:
    record = create_record(space=space, data=RecordIn(title="Only a title"), actor="test")
    assert record.type == "note"
    assert record.date.tzinfo is not None


def test_an_import_brings_views_and_deletion_and_later_leaves_them(space: Space) -> None:
    given = rows(2, view_count=7, deleted_at=NOW)
    upsert_records(space=space, rows=given, actor="test")
    record = Record.objects.get(space=space, external_id="0")
    assert (record.view_count, record.frequency, record.is_deleted) == (7, 7, True)
    restore_record(record=record, actor="test")
    view_record(record=record, viewer="user:1")
    assert upsert_records(space=space, rows=given, actor="test")[0].status == "unchanged"
    record.refresh_from_db()
    assert (record.view_count, record.is_deleted) == (8, False)
