"""The pages that index a repository: start, look at what would be indexed, follow, report, update."""

import tarfile
from io import BytesIO
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from contextopt.importruns.models import ImportPart, ImportRun, ImportState
from contextopt.importruns.runs import PART_BYTES, start_upload, work_on
from contextopt.people.models import Team
from contextopt.repositories.models import Repository
from contextopt.spaces.models import Space
from tests import factories
from tests.dashboard.conftest import HTMX, html_of, squeezed
from tests.gitrepos import SHOP, commit_files, make_git
from tests.queries import count_at_2_and_20

URL = "/repositories/index/"
PREVIEW = {"files": 1, "bytes": 9, "lower": 0, "endings": [], "left_out": [], "left_out_count": 0}
ADDRESS = "https://git.example.com/team/shop.git"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return make_git(tmp_path / "shop", {**SHOP, "data.txt": "x" * 600_000})


def archive_of(folder: Path) -> bytes:
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(folder, folder.name)
    return packed.getvalue()


def upload(client: Client, content: bytes, name: str = "shop.tar.gz") -> ImportRun:
    response = client.post(URL, {"file": SimpleUploadedFile(name, content)})
    assert response.status_code == 302, response.content
    run = ImportRun.objects.latest("pk")
    assert response["Location"] == f"{URL}{run.pk}/"
    return worked(run)


def confirm(client: Client, run: ImportRun, source: str = "") -> ImportRun:
    client.post(f"{URL}{run.pk}/confirm", {"source": source})
    return worked(run)


def worked(run: ImportRun) -> ImportRun:
    work_on(run.pk)
    run.refresh_from_db()
    return run


def test_an_archive_is_shown_indexed_and_reported(editor_client: Client, team: Team, work: Path) -> None:
    run = upload(editor_client, archive_of(work))
    html = squeezed(html_of(editor_client, f"{URL}{run.pk}/"))
    assert "A new repository</h2>" in html
    assert "<dt>Files</dt><dd>7</dd>" in html
    assert '<th scope="row" class="mono">.py</th><td class="n">5</td>' in html
    assert "Too large: above 500 KB" in html
    assert not Repository.objects.exists()
    run = confirm(editor_client, run)
    repository = Repository.objects.get()
    html = squeezed(html_of(editor_client, f"{URL}{run.pk}/"))
    assert "6 files indexed" in html
    assert f'href="/repositories/{repository.pk}/">Open shop</a>' in html
    assert '<th scope="row" class="mono break">data.txt</th><td>too large</td>' in html
    assert not ImportPart.objects.exists()
    html = html_of(editor_client, f"/repositories/{repository.pk}/")
    assert '<span class="tag">archive</span>' in html
    assert "Upload a newer archive" in html


def test_an_archive_updates_the_repository_of_its_name_or_another_one(
    editor_client: Client, team: Team, work: Path
) -> None:
    confirm(editor_client, upload(editor_client, archive_of(work)))
    commit_files(work, "Add tax", {"shop/tax.py": "RATE = 25\n"})
    run = upload(editor_client, archive_of(work))
    html = squeezed(html_of(editor_client, f"{URL}{run.pk}/"))
    assert "Update of shop</h2>" in html
    assert '<option value="shop" selected>Update shop</option>' in html
    assert "<dt>Indexed now</dt>" in html
    assert confirm(editor_client, run, "shop").report["changed"] == 1
    dated = upload(editor_client, archive_of(work), "shop-2026-11-29.zip.tar.gz")
    assert confirm(editor_client, dated, "shop").report["changed"] == 0
    confirm(editor_client, upload(editor_client, archive_of(work)))
    assert list(Repository.objects.order_by("id").values_list("source", flat=True)) == ["shop", "shop-2"]


def test_an_unknown_target_is_refused(editor_client: Client, team: Team, work: Path) -> None:
    Repository.objects.create(team=team, name="clone", source="/srv/clone")
    Repository.objects.create(team=team, name="fetched", source=ADDRESS)
    run = upload(editor_client, archive_of(work))
    for source in ("/srv/clone", ADDRESS, "missing"):
        response = editor_client.post(f"{URL}{run.pk}/confirm", {"source": source})
        assert response.status_code == 422
        assert 'id="id_source_error"' in response.text
    run.refresh_from_db()
    assert run.state == ImportState.READY


def test_an_address_is_fetched_and_updated_from_its_page(editor_client: Client, team: Team) -> None:
    response = editor_client.post(URL, {"url": ADDRESS, "token": "s3cret", "newest": "20"})
    run = ImportRun.objects.get()
    assert response["Location"] == f"{URL}{run.pk}/"
    assert (run.state, run.name, run.newest, run.space) == (ImportState.FETCHING, ADDRESS, 20, None)
    html = html_of(editor_client, f"{URL}{run.pk}/") + html_of(editor_client, URL)
    assert "s3cret" not in html + str(list(ImportRun.objects.values()))
    repository = Repository.objects.create(team=team, name="shop", source=ADDRESS)
    html = squeezed(html_of(editor_client, f"/repositories/{repository.pk}/"))
    assert f'action="{URL}"' in html
    assert f'name="url" value="{ADDRESS}"' in html
    ImportRun.objects.update(state=ImportState.READY, preview=PREVIEW)
    assert "Update of shop</h2>" in html_of(editor_client, f"{URL}{run.pk}/")
    editor_client.post(f"{URL}{run.pk}/confirm")
    run.refresh_from_db()
    assert (run.state, run.options) == (ImportState.RUNNING, {})


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"url": "file:///etc"}, "Must be an address such as"),
        ({"url": "ext::sh -c id"}, "Must be an address such as"),
        ({"url": "https://user:secret@host/x"}, "Must not contain a user or password"),
        ({"url": ADDRESS, "newest": "2001"}, "less than or equal to 2000"),
        ({"url": ""}, "This field is required."),
        ({}, "Choose a file."),
    ],
)
def test_what_cannot_be_started_says_why(
    data: dict[str, str], problem: str, editor_client: Client, team: Team
) -> None:
    response = editor_client.post(URL, data)
    assert response.status_code == 422
    assert problem in response.text
    assert not ImportRun.objects.exists()


def test_a_large_archive_comes_in_parts(editor_client: Client, team: Team, work: Path) -> None:
    content = archive_of(work)
    answer = editor_client.post(URL, {"name": "shop.tgz", "size": str(PART_BYTES + 1)}).json()
    run = ImportRun.objects.get()
    assert answer == {"parts": f"/imports/{run.pk}/part", "page": f"{URL}{run.pk}/"}
    part = SimpleUploadedFile("part", content)
    assert editor_client.post(answer["parts"], {"part": part, "number": "0", "last": "1"}).json() == {}
    assert 'hx-trigger="every 1s"' in html_of(editor_client, answer["page"])
    work_on(run.pk)
    refreshed = editor_client.get(answer["page"], headers={**HTMX, "HX-Target": "progress"})
    assert refreshed["HX-Refresh"] == "true"
    response = editor_client.post(URL, {"name": "x.zip", "size": str(201 * 2**20)})
    assert "larger than 200 MB" in response.json()["error"]


def test_the_progress_is_a_partial_and_a_failure_is_shown(editor_client: Client, team: Team) -> None:
    run = start_upload(into=team, name="shop.zip", size=1, actor="a")
    ImportRun.objects.update(state=ImportState.RUNNING, report={"progress": "500 of 900 files parsed"})
    page = editor_client.get(f"{URL}{run.pk}/", headers={**HTMX, "HX-Target": "progress"}).text
    assert "500 of 900 files parsed." in page
    assert "<html" not in page
    ImportRun.objects.update(state=ImportState.FAILED, error="the archive is larger than 200 MB")
    html = html_of(editor_client, f"{URL}{run.pk}/")
    assert 'role="alert">The archive is larger than 200 MB' in html


def test_an_index_is_cancelled(editor_client: Client, team: Team, work: Path) -> None:
    run = upload(editor_client, archive_of(work))
    response = editor_client.post(f"/imports/{run.pk}/cancel", follow=True)
    assert response.redirect_chain[-1][0] == f"{URL}{run.pk}/"
    assert "The upload was deleted" in response.text
    response = editor_client.post(f"{URL}{run.pk}/confirm", follow=True)
    assert "This import is cancelled." in response.text


def test_runs_of_one_kind_are_not_shown_as_the_other(editor_client: Client, space: Space) -> None:
    index = start_upload(into=space.team, name="shop.zip", size=1, actor="a")
    records = start_upload(into=space, name="rows.csv", size=1, actor="a")
    assert editor_client.get(f"/imports/{index.pk}/")["Location"] == f"{URL}{index.pk}/"
    assert editor_client.get(f"{URL}{records.pk}/")["Location"] == f"/imports/{records.pk}/"
    assert editor_client.post(f"/imports/{index.pk}/start")["Location"] == f"{URL}{index.pk}/"
    assert editor_client.post(f"{URL}{records.pk}/confirm")["Location"] == f"/imports/{records.pk}/"
    assert "rows.csv" not in html_of(editor_client, URL)
    assert "shop.zip" not in html_of(editor_client, "/spaces/support/import/")
    assert f'href="{URL}"' in html_of(editor_client, "/spaces/support/import/")


def test_outsiders_find_no_index(outsider_client: Client, team: Team) -> None:
    run = start_upload(into=team, name="shop.zip", size=1, actor="a")
    assert "shop.zip" not in html_of(outsider_client, "/repositories/")
    for method, url in (("get", f"{URL}{run.pk}/"), ("post", f"{URL}{run.pk}/confirm")):
        assert getattr(outsider_client, method)(url).status_code == 404
        assert getattr(Client(), method)(url)["Location"].startswith("/accounts/login/")
    assert outsider_client.get(f"{URL}999999/").status_code == 404
    assert Client().get(URL)["Location"].startswith("/accounts/login/")


def test_viewers_see_an_index_and_start_none(
    teammate_client: Client, editor_client: Client, team: Team, work: Path
) -> None:
    run = upload(editor_client, archive_of(work))
    html = html_of(teammate_client, f"{URL}{run.pk}/")
    assert "Files by ending" in html
    assert "/confirm" not in html
    assert "/cancel" not in html
    for method, url in (("get", URL), ("post", URL), ("post", f"{URL}{run.pk}/confirm")):
        assert getattr(teammate_client, method)(url).status_code == 403
    assert URL not in html_of(teammate_client, "/repositories/")
    found = factories.make_repository(team)
    Repository.objects.update(source=ADDRESS)
    assert "Update</summary>" not in html_of(teammate_client, f"/repositories/{found.pk}/")


def test_the_pages_ask_as_often_for_twenty_as_for_two(editor_client: Client, team: Team) -> None:
    def make_one() -> None:
        number = ImportRun.objects.count()
        ImportRun.objects.create(team=team, name="shop.zip", created_by="a", state=ImportState.READY)
        Repository.objects.create(team=team, name=f"r{number}", source=f"r{number}")

    # the frame's four, the last runs
    assert count_at_2_and_20(lambda: html_of(editor_client, URL), make_one) == [5, 5]
    ImportRun.objects.update(preview=PREVIEW)
    run = ImportRun.objects.latest("pk")
    # the frame's four, the run, the repositories to choose from, the one that is updated
    assert count_at_2_and_20(lambda: html_of(editor_client, f"{URL}{run.pk}/"), make_one) == [7, 7]
