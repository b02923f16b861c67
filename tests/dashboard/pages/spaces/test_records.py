import re
from typing import Any

import pytest
from django.test import Client
from django.utils.html import strip_tags

from contextopt.spaces.inputs import RecordPatch
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import delete_record, update_record
from dashboard.pages.spaces.forms import RecordEditForm
from dashboard.pages.spaces.records import SHOWN
from tests.dashboard.conftest import HTMX, html_of, seen_in
from tests.factories import make_assembly, make_record
from tests.memory.factories import make_review
from tests.queries import count_at_2_and_20

NEW = "/spaces/support/records/new/"


def url_of(record: Record, action: str = "") -> str:
    return f"/spaces/support/records/{record.pk}/{action}"


def fields_of(record: Record, **changes: str) -> dict[str, Any]:
    """Return the fields that a browser would send of the untouched form."""
    form = RecordEditForm(initial=RecordEditForm.initial_of(record))
    values = {name: form[name].value() for name in form.fields}
    values["date"] = form["date"].value().strftime("%Y-%m-%dT%H:%M:%S")
    values["notes"] = values["notes"].replace("\n", "\r\n")
    given = {name: value for name, value in values.items() if value not in (None, False)}
    return {**given, **changes}


# Reading


def test_each_person_who_opens_a_record_counts_once_a_day(
    owner_client: Client, teammate_client: Client, record: Record
) -> None:
    for client in (owner_client, owner_client, teammate_client):
        assert "Queue stuck after deploy" in client.get(url_of(record)).content.decode()
    record.refresh_from_db()
    assert record.view_count == 2


@pytest.mark.parametrize("page", ["inspector", "compare", "review"])
def test_looking_from_an_inspector_or_a_review_counts_none(
    page: str, owner_client: Client, space: Space
) -> None:
    """Follow the page's own links, as a person does."""
    record = make_record(space)
    item = make_review(space)
    make_record(space, title="Read more often", view_count=10)
    other = make_assembly(space, max_records=1)
    pages = {
        "inspector": f"/assemblies/{item.assembly_id}/",
        "compare": f"/assemblies/compare/?id={item.assembly_id}&id={other.id}",
        "review": f"/review/{item.pk}/",
    }
    html = owner_client.get(pages[page]).content.decode()
    links = set(re.findall(rf'href="({re.escape(url_of(record))}[^"]*)"', html))
    assert links
    for link in links:
        assert "Queue stuck after deploy" in owner_client.get(link).content.decode()
    record.refresh_from_db()
    assert record.view_count == 0


@pytest.mark.parametrize(("query", "headers"), [("?from=edit", {}), ("", HTMX)])
def test_what_is_no_reading_counts_none(
    query: str, headers: dict, owner_client: Client, record: Record
) -> None:
    owner_client.get(url_of(record) + query, headers=headers)
    record.refresh_from_db()
    assert record.view_count == 0


def test_head_counts_none(owner_client: Client, record: Record) -> None:
    assert owner_client.head(url_of(record)).status_code == 200
    record.refresh_from_db()
    assert record.view_count == 0


def test_viewers_read_and_are_offered_no_form(teammate_client: Client, record: Record) -> None:
    html = teammate_client.get(url_of(record)).content.decode()
    assert "first\nsecond" in html
    assert "Purge" not in html
    assert 'name="title"' not in html


def test_a_record_of_another_space_is_not_here(owner_client: Client, record: Record) -> None:
    assert owner_client.get(f"/spaces/elsewhere/records/{record.pk}/").status_code == 404


# Assemblies


def outcomes(client: Client, record: Record) -> list[tuple[str, str]]:
    """Return the listed assemblies with the record's outcome in each, and the question."""
    html = client.get(url_of(record)).content.decode()
    cells = re.findall(r'href="/assemblies/(\d+)/">.*?<td class="words">(.*?)<br>(.*?)</td>', html, re.DOTALL)
    return [
        (number, "; ".join(" ".join(strip_tags(each).split()) for each in both)) for number, *both in cells
    ]


def test_a_record_lists_the_assemblies_that_kept_or_dropped_it(
    owner_client: Client, space: Space, record: Record
) -> None:
    assert "lists this record" in owner_client.get(url_of(record)).content.decode()
    kept = make_assembly(space, query="Why is the queue <stuck>?").id
    pinned = make_record(space, pinned=True)
    dropped = make_assembly(space, max_records=1).id
    assert outcomes(owner_client, record) == [
        (str(dropped), "dropped over the record limit; no question"),
        (str(kept), "kept; Why is the queue &lt;stuck&gt;?"),
    ]
    assert outcomes(owner_client, pinned) == [(str(dropped), "kept; no question")]


def test_only_the_newest_assemblies_are_listed(owner_client: Client, space: Space, record: Record) -> None:
    ids = [str(make_assembly(space).id) for _ in range(SHOWN + 2)]
    assert [number for number, _ in outcomes(owner_client, record)] == ids[: -SHOWN - 1 : -1]


# Writing


def test_an_editor_adds_a_record(editor_client: Client, space: Space) -> None:
    data = {
        "title": "New", "type": "note", "date": "2026-06-01T10:00:00", "tags": "a, b", "notes": "x\r\ny",
        "pinned": "on", "metadata": '{"k": 1}', "source": "hand", "external_id": "1",
    }  # fmt: skip
    response = editor_client.post(NEW, data)
    record = space.records.get()
    assert response.headers["Location"] == url_of(record, "?from=edit")
    assert (record.tags, record.notes, record.pinned, record.metadata) == (["a", "b"], "x\ny", True, {"k": 1})


@pytest.mark.parametrize(
    ("field", "value"),
    [("title", ""), ("title", "x" * 1_001), ("type", "x" * 65), ("date", "soon"),
     ("date", "1800-01-01T00:00:00"),
     ("tags", "x" * 101),
     ("position", "9" * 30), ("metadata", "[1]"), ("metadata", "{"), ("notes", "a\x00b"),
     ("metadata", '{"a": "\\u0000"}'), ("external_id", "taken"), ("thread", "x" * 201)],
)  # fmt: skip
def test_a_record_that_cannot_be_names_the_field(
    field: str, value: str, owner_client: Client, space: Space
) -> None:
    make_record(space, source="s", external_id="taken")
    data = {"title": "New", "type": "note", "source": "s", field: value}
    response = owner_client.post(NEW, data)
    assert response.status_code == 422
    assert f'id="id_{field}_error"' in response.content.decode()
    assert space.records.count() == 1


def test_an_edit_is_kept_with_the_state_before(editor_client: Client, record: Record) -> None:
    response = editor_client.post(
        url_of(record, "edit"), fields_of(record, notes="first\r\nthird", tags="ops, db")
    )
    assert response.status_code == 302
    record.refresh_from_db()
    assert (record.notes, record.tags) == ("first\nthird", ["ops", "db"])
    html = editor_client.get(url_of(record)).content.decode()
    assert "<del>- second\n</del>" in html
    assert "<ins>+ third\n</ins>" in html
    assert "edda" in html
    assert "user:edda" not in html


def test_an_edit_made_meanwhile_is_not_replaced_unseen(editor_client: Client, record: Record) -> None:
    seen = seen_in(html_of(editor_client, url_of(record)))
    opened = fields_of(record, notes="mine") | seen
    editor_client.post(url_of(record, "edit"), fields_of(record, title="Theirs") | seen)
    for wrong in ({"title": ""}, {}):
        response = editor_client.post(url_of(record, "edit"), opened | wrong)
        assert response.status_code == 409
    assert "changed in the meantime" in response.content.decode()
    record.refresh_from_db()
    assert (record.title, record.notes) == ("Theirs", "first\nsecond")
    editor_client.post(url_of(record, "edit"), opened | seen_in(response.content.decode()))
    record.refresh_from_db()
    assert record.notes == "mine"


def test_the_untouched_form_changes_nothing(editor_client: Client, record: Record) -> None:
    editor_client.post(url_of(record, "edit"), fields_of(record))
    assert not record.revisions.exists()


def test_an_edit_that_cannot_be_keeps_the_record(editor_client: Client, record: Record) -> None:
    response = editor_client.post(url_of(record, "edit"), fields_of(record, title=" "))
    assert response.status_code == 422
    assert 'id="id_title_error"' in response.content.decode()


def test_deleting_offers_an_undo(editor_client: Client, record: Record) -> None:
    html = editor_client.post(url_of(record, "delete"), follow=True).content.decode()
    assert "“Queue stuck after deploy” deleted." in html
    assert f'action="{url_of(record, "restore")}"' in html
    record.refresh_from_db()
    assert record.is_deleted
    editor_client.post(url_of(record, "restore"))
    record.refresh_from_db()
    assert not record.is_deleted


def test_pinning_and_back(editor_client: Client, record: Record) -> None:
    for expected in (True, False):
        editor_client.post(url_of(record, "pin"))
        record.refresh_from_db()
        assert record.pinned is expected


def test_back_to_an_earlier_state(editor_client: Client, record: Record) -> None:
    update_record(record=record, changes=RecordPatch(title="Changed"), actor="test")
    editor_client.post(url_of(record, "undo/1"))
    record.refresh_from_db()
    assert record.title == "Queue stuck after deploy"
    html = editor_client.post(url_of(record, "undo/99"), follow=True).content.decode()
    assert "Not changed" in html


def test_purging_needs_the_word(owner_client: Client, record: Record) -> None:
    owner_client.post(url_of(record, "purge"), {"confirm": "yes"})
    record.refresh_from_db()
    assert record.purged_at is None
    html = owner_client.post(url_of(record, "purge"), {"confirm": " Purge "}, follow=True).content.decode()
    assert "This record was purged" in html
    assert "Queue stuck" not in html


def test_a_purged_record_stays_as_it_is(owner_client: Client, record: Record) -> None:
    owner_client.post(url_of(record, "purge"), {"confirm": "purge"})
    for action in ("restore", "pin"):
        html = owner_client.post(url_of(record, action), follow=True).content.decode()
        assert "erased for good" in html
    assert owner_client.post(url_of(record, "edit"), {"title": "x", "type": "note"}).status_code == 409


def test_the_page_asks_as_often_for_twenty_revisions_as_for_two(owner_client: Client, record: Record) -> None:
    def change() -> None:
        changes = RecordPatch(title=f"Title {record.revisions.count()}")
        update_record(record=record, changes=changes, actor="test")

    # the frame's four, the record with its space, the view and its count in one, the revisions, the decisions
    assert count_at_2_and_20(lambda: owner_client.get(url_of(record)), change) == [8, 8]


def test_the_trash_leads_back(editor_client: Client, record: Record) -> None:
    delete_record(record=record, actor="test")
    assert "Restore" in editor_client.get(url_of(record)).content.decode()
