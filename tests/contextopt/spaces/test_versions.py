"""Each version of a record can be read back, whatever changed since."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from contextopt.assemblies.purge import purge_record
from contextopt.people.models import Team
from contextopt.spaces.inputs import RecordIn, RecordPatch
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import (
    STATE,
    delete_record,
    keep_revisions,
    restore_record,
    restore_revision,
    update_record,
    upsert_records,
)
from contextopt.spaces.recordviews import view_record
from contextopt.spaces.versions import read_versions
from tests.factories import NOW, make_record, make_space


def version_of(record: Record) -> int:
    return Record.objects.get(pk=record.pk).version


def state_of(record: Record) -> dict[str, object]:
    record = Record.objects.get(pk=record.pk)
    return {name: getattr(record, name) for name in STATE}


def test_every_change_of_content_raises_the_version_by_one(space: Space) -> None:
    row = RecordIn(title="First", date=NOW, source="s", external_id="1")
    upsert_records(space=space, rows=[row], actor="test")
    record = Record.objects.get()
    assert record.version == 1
    record = update_record(record=record, changes=RecordPatch(title="Second"), actor="test")
    record = delete_record(record=record, actor="test")
    record = restore_record(record=record, actor="test")
    record = restore_revision(record=record, number=1, actor="test")
    assert record.version == version_of(record) == 5
    changed = row.model_copy(update={"notes": "Imported again"})
    upsert_records(space=space, rows=[changed], actor="test")
    assert version_of(record) == 6
    kept = record.revisions.order_by("number")
    assert [(revision.number, revision.version) for revision in kept] == [(n, n) for n in range(1, 6)]


def test_what_keeps_no_revision_leaves_the_version(space: Space) -> None:
    row = RecordIn(title="Same", date=NOW, source="s", external_id="1")
    upsert_records(space=space, rows=[row], actor="test")
    record = Record.objects.get()
    view_record(record=record, viewer="user:1")
    update_record(record=record, changes=RecordPatch(title="Same"), actor="test")
    upsert_records(space=space, rows=[row], actor="test")
    assert version_of(record) == 1


def test_each_version_reads_back_as_it_was(space: Space) -> None:
    record = make_record(space, title="Tittel", notes="Dette er norske ord om køen.", tags=["a"])
    view_record(record=record, viewer="user:1")
    states = [state_of(record)]
    changes = [
        RecordPatch(title="Queue", notes="English words about the queue.", metadata={"author": "Kim"}),
        RecordPatch(date=NOW - timedelta(days=3), pinned=True, thread="t", position=4),
        RecordPatch(language="no"),
    ]
    for change in changes:
        update_record(record=record, changes=change, actor="test")
        states.append(state_of(record))
    delete_record(record=record, actor="test")
    states.append(state_of(record))
    found = read_versions(space.pk, [(record.pk, version) for version in range(7)])
    assert sorted(found) == [(record.pk, version) for version in range(1, 6)]
    assert [{name: getattr(found[key], name) for name in STATE} for key in sorted(found)] == states
    assert [state["language"] for state in states] == ["no", "en", "en", "no", "no"]


def test_a_purged_record_says_so_in_every_version(space: Space) -> None:
    record = make_record(space, title="Secret")
    update_record(record=record, changes=RecordPatch(title="Secret still"), actor="test")
    purge_record(record=record)
    found = read_versions(space.pk, [(record.pk, 1), (record.pk, 2)])
    assert {(one.title, one.is_purged) for one in found.values()} == {("[purged]", True)}


def test_records_of_other_spaces_stay_out(space: Space, other_team: Team) -> None:
    record = make_record(make_space(other_team))
    assert read_versions(space.pk, [(record.pk, 1)]) == {}


def test_an_undo_brings_the_language_back(space: Space) -> None:
    record = make_record(space, title="Queue", language="no")
    update_record(record=record, changes=RecordPatch(title="The queue is stuck"), actor="test")
    assert state_of(record)["language"] == "en"
    restore_revision(record=record, number=1, actor="test")
    assert state_of(record)["language"] == "no"


def test_an_undo_to_a_revision_without_language_detects_it(space: Space) -> None:
    record = make_record(space, title="The queue is stuck and nobody knows why")
    update_record(record=record, changes=RecordPatch(title="Køen står, og ingen vet hvorfor"), actor="test")
    record.revisions.update(language="")
    restore_revision(record=record, number=1, actor="test")
    assert state_of(record)["language"] == "en"


def test_a_write_that_forgets_the_version_is_refused_the_second_time(space: Space) -> None:
    record = make_record(space)
    keep_revisions([record.pk], actor="test", change="update")
    with pytest.raises(IntegrityError), transaction.atomic():
        keep_revisions([record.pk], actor="test", change="update")


def test_revisions_from_before_versions_do_not_disturb(space: Space) -> None:
    """A record that was changed before begins at version 1 all the same."""
    record = make_record(space, title="First")
    update_record(record=record, changes=RecordPatch(title="Second"), actor="test")
    record.revisions.update(version=None, language="")
    Record.objects.update(version=1)
    update_record(record=record, changes=RecordPatch(title="Third"), actor="test")
    found = read_versions(space.pk, [(record.pk, version) for version in range(4)])
    assert {version: state.title for (_, version), state in found.items()} == {1: "Second", 2: "Third"}
    assert restore_revision(record=record, number=1, actor="test").title == "First"
