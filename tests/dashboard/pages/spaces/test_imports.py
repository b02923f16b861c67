"""The pages of an import: start it, look at its first rows, follow it, read its report."""

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from contextopt.importruns.models import ImportPart, ImportRun, ImportState
from contextopt.importruns.runs import PART_BYTES, start_upload, work_on
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from tests.dashboard.conftest import HTMX, html_of, squeezed
from tests.factories import make_space
from tests.queries import count_at_2_and_20

URL = "/spaces/support/import/"
TABLE = b"Emne,dato,notes\nBerth,03/09/2026,Pier 4\nDock,04/09/2026,\n"


def upload(client: Client, content: bytes = TABLE, name: str = "rows.csv") -> ImportRun:
    response = client.post(URL, {"file": SimpleUploadedFile(name, content)})
    assert response.status_code == 302, response.content
    run = ImportRun.objects.latest("pk")
    assert response["Location"] == f"/imports/{run.pk}/"
    work_on(run.pk)
    run.refresh_from_db()
    return run


def start(client: Client, run: ImportRun, **fields: str) -> ImportRun:
    client.post(f"/imports/{run.pk}/start", {"format": run.format, **fields})
    work_on(run.pk)
    run.refresh_from_db()
    return run


def test_a_file_is_shown_mapped_imported_and_reported(editor_client: Client, space: Space) -> None:
    run = upload(editor_client)
    html = squeezed(html_of(editor_client, f"/imports/{run.pk}/"))
    assert "First rows: Table (CSV)" in html
    assert "<td>Berth</td>" in html
    assert '<label for="id_column_0">Emne</label>' in html
    assert not space.records.exists()
    response = editor_client.post(f"/imports/{run.pk}/start", {"format": "csv", "column_0": "metadata",
                                  "column_1": "notes", "column_2": "notes"})  # fmt: skip
    assert response.status_code == 422
    assert "Choose the column that holds the title." in response.content.decode()
    assert "Only one column can become notes." in response.content.decode()
    run = start(
        editor_client, run, column_0="title", column_1="date", column_2="-", dates="month", encoding="utf-8"
    )
    assert run.state == ImportState.DONE
    html = squeezed(html_of(editor_client, f"/imports/{run.pk}/"))
    assert "2 rows read" in html
    assert "The column &#x27;notes&#x27; was left out" in html
    first = space.records.order_by("id").first()
    assert first is not None
    assert (first.title, first.date.month, first.notes) == ("Berth", 3, "")
    assert not ImportPart.objects.exists()


def test_bad_lines_are_named(editor_client: Client, space: Space) -> None:
    lines = [{"title": "One", "external_id": "1"}, {"title": ""}, {"title": "Three", "colour": "red"}]
    run = upload(editor_client, "\n".join(map(json.dumps, lines)).encode(), "rows.jsonl")
    columns = {f"column_{number}": name for number, name in enumerate(run.preview["columns"].values())}
    html = squeezed(html_of(editor_client, f"/imports/{start(editor_client, run, **columns).pk}/"))
    assert "3 rows read" in html
    assert '<td class="n">2</td><td class="mono">title</td>' in html
    assert "colour" in html
    assert sorted(space.records.values_list("title", flat=True)) == ["One", "Three"]


def test_the_first_rows_can_be_read_again_in_another_encoding(editor_client: Client, space: Space) -> None:
    run = upload(editor_client, "title\nПричал\n".encode("cp1251"))
    run = start(editor_client, run, again="1", encoding="cp1251", column_0="title")
    assert run.state == ImportState.READY
    html = html_of(editor_client, f"/imports/{run.pk}/")
    assert "Причал" in html
    assert '<option value="cp1251" selected>' in html


def test_an_import_of_another_format_is_shown_again_first(editor_client: Client, space: Space) -> None:
    run = upload(editor_client, b'{"role": "user", "content": "Hi", "title": "T"}\n', "talk.jsonl")
    assert run.format == "messages"
    run.format = "jsonl"
    run = start(editor_client, run)
    assert (run.state, run.preview["format"]) == (ImportState.READY, "jsonl")


def test_a_large_file_comes_in_parts(editor_client: Client, space: Space) -> None:
    content = b"title\n" + b"Row of a long table\n" * 450_000
    answer = editor_client.post(URL, {"name": "rows.csv", "size": str(len(content))}).json()
    run = ImportRun.objects.get()
    assert answer == {"parts": f"/imports/{run.pk}/part", "page": f"/imports/{run.pk}/"}
    first = SimpleUploadedFile("part", content[:PART_BYTES])
    assert editor_client.post(answer["parts"], {"part": first, "number": "0"}).json() == {}
    assert "The upload is not complete." in html_of(editor_client, answer["page"])
    rest = SimpleUploadedFile("part", content[PART_BYTES:])
    assert editor_client.post(answer["parts"], {"part": rest, "number": "1", "last": "1"}).json() == {}
    run.refresh_from_db()
    assert run.state == ImportState.PREPARING
    page = html_of(editor_client, answer["page"])
    assert 'hx-trigger="every 1s"' in page
    work_on(run.pk)
    refreshed = editor_client.get(answer["page"], headers={"HX-Request": "true", "HX-Target": "progress"})
    assert refreshed["HX-Refresh"] == "true"


@pytest.mark.parametrize(
    "data",
    [
        {"name": "x", "size": str(201 * 2**20)},
        {"name": "x", "size": "many"},
    ],
)
def test_an_upload_that_cannot_be_is_refused(
    data: dict[str, str], editor_client: Client, space: Space
) -> None:
    response = editor_client.post(URL, data)
    assert response.status_code == 422
    assert response.json()["error"]


@pytest.mark.parametrize("data", [{}, {"number": "0"}, {"number": "x"}, {"number": "7"}])
def test_a_part_that_cannot_be_is_refused(data: dict[str, str], editor_client: Client, space: Space) -> None:
    run = start_upload(into=space, name="x", size=1, actor="a")
    part = {} if data == {"number": "0"} else {"part": SimpleUploadedFile("part", b"x")}
    response = editor_client.post(f"/imports/{run.pk}/part", {**data, **part})
    assert response.status_code == 422
    assert response.json()["error"]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("file:///etc/passwd", "Must be an address such as"),
        ("ssh://git@host/x", "Must be an address such as"),
        ("ext::sh -c id", "Must be an address such as"),
        ("https://user:secret@host/x", "Must not contain a user or password"),
    ],
)
def test_an_address_that_may_not_be_fetched(
    url: str, problem: str, editor_client: Client, space: Space
) -> None:
    response = editor_client.post(URL, {"url": url, "token": "s3cret"})
    html = response.content.decode()
    assert response.status_code == 422
    assert problem in html
    assert "s3cret" not in html
    assert not ImportRun.objects.exists()


def test_a_git_address_is_fetched_by_a_process_and_its_token_is_not_stored(
    editor_client: Client, space: Space
) -> None:
    data = {"url": "https://git.example.com/shop.git", "token": "s3cret", "newest": "100"}
    assert editor_client.post(URL, data).status_code == 302
    run = ImportRun.objects.get()
    assert (run.state, run.name, run.newest) == (ImportState.FETCHING, data["url"], 100)
    html = html_of(editor_client, f"/imports/{run.pk}/") + html_of(editor_client, URL)
    assert "s3cret" not in html + str(list(ImportRun.objects.values()))
    assert editor_client.post(URL, {**data, "token": "t\u00f8ken"}).status_code == 422


def test_an_import_is_cancelled(editor_client: Client, space: Space) -> None:
    run = upload(editor_client)
    response = editor_client.post(f"/imports/{run.pk}/cancel", follow=True)
    assert "The upload was deleted" in response.content.decode()
    assert not ImportPart.objects.exists()
    response = editor_client.post(f"/imports/{run.pk}/cancel", follow=True)
    assert "Not cancelled. This import is cancelled." in response.content.decode()
    response = editor_client.post(f"/imports/{run.pk}/start", {}, follow=True)
    assert "This import is cancelled." in response.content.decode()


def test_a_failure_is_shown(editor_client: Client, space: Space) -> None:
    run = upload(editor_client, b"\x1f\x8b\x08nothing of the kind", "rows.csv.gz")
    html = html_of(editor_client, f"/imports/{run.pk}/")
    assert 'role="alert"' in html
    assert "is damaged" in html


def test_the_form_without_a_file(editor_client: Client, space: Space) -> None:
    response = editor_client.post(URL)
    assert response.status_code == 422
    assert 'id="id_file_error"' in response.content.decode()
    assert editor_client.post(URL, {"file": SimpleUploadedFile("a.csv", b"")}).status_code == 422
    assert not ImportRun.objects.exists()


def test_the_progress_is_a_partial(editor_client: Client, space: Space) -> None:
    upload(editor_client)
    report = {
        "read": 1_200,
        "created": 1_200,
        "updated": 0,
        "unchanged": 0,
        "rejected": [],
        "rejected_count": 0,
    }
    ImportRun.objects.update(state=ImportState.RUNNING, report=report)
    run = ImportRun.objects.get()
    page = editor_client.get(f"/imports/{run.pk}/", headers={**HTMX, "HX-Target": "progress"})
    html = page.content.decode()
    assert "1,200 rows so far." in html
    assert "<html" not in html


def addresses(run: ImportRun) -> list[tuple[str, str]]:
    base = f"/imports/{run.pk}/"
    posts = [("post", f"{base}{name}") for name in ("part", "start", "cancel")]
    return [("get", URL), ("post", URL), ("get", base), *posts]


def test_outsiders_find_no_import(outsider_client: Client, editor_client: Client, space: Space) -> None:
    run = upload(editor_client)
    for method, url in addresses(run):
        assert getattr(outsider_client, method)(url).status_code == 404
        assert getattr(Client(), method)(url)["Location"].startswith("/accounts/login/")
    assert editor_client.get("/imports/999999/").status_code == 404
    run.refresh_from_db()
    assert run.state == ImportState.READY


def test_viewers_see_an_import_and_change_nothing(
    teammate_client: Client, editor_client: Client, space: Space
) -> None:
    run = upload(editor_client)
    html = html_of(teammate_client, f"/imports/{run.pk}/")
    assert "Berth" in html
    assert "<button>Import" not in html
    assert "/cancel" not in html
    for method, url in addresses(run):
        if (method, url) != ("get", f"/imports/{run.pk}/"):
            assert getattr(teammate_client, method)(url).status_code == 403


def test_the_page_asks_as_often_for_twenty_imports_as_for_two(
    editor_client: Client, team: Team, space: Space
) -> None:
    def make_one() -> None:
        ImportRun.objects.create(
            team=space.team, space=space, name="rows.csv", created_by="a", state=ImportState.DONE
        )

    # the frame's four, the space, its imports
    assert count_at_2_and_20(lambda: html_of(editor_client, URL), make_one) == [6, 6]


def test_an_import_of_another_space_of_the_team_is_not_listed(
    editor_client: Client, team: Team, space: Space
) -> None:
    other = make_space(team, "other")
    ImportRun.objects.create(team=team, space=other, name="other.csv", created_by="a", state=ImportState.DONE)
    assert "other.csv" not in html_of(editor_client, URL)
