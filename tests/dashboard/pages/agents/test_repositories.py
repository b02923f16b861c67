from dataclasses import fields

import pytest
from django.test import Client
from django.utils.html import escape

from contextopt.agents.inputs import StandingDocumentIn
from contextopt.agents.standingdocuments import StandingDocument, attach_document
from contextopt.engine.code.filescores import RankedFile, Weights
from contextopt.engine.code.packing import Packed, PackedFile
from contextopt.people.models import Team
from contextopt.repositories.models import Repository
from dashboard.pages.agents.repositories import PARTS, choose_files, draw_imports
from tests import factories
from tests.dashboard.conftest import html_of
from tests.queries import count_at_2_and_20

URL = "/repositories/"
TASK = "?task=prices+of+a+cart"


@pytest.fixture
def repository(team: Team) -> Repository:
    return factories.make_repository(team)


def test_an_empty_list_says_how_to_index(owner_client: Client, team: Team) -> None:
    html = html_of(owner_client, URL)
    assert "No repositories yet" in html
    assert "manage.py index_repo" in html
    assert "/api/v1/repos" in html


def test_the_list_has_the_counts(owner_client: Client, repository: Repository) -> None:
    html = html_of(owner_client, URL)
    assert f'href="/repositories/{repository.pk}/">shop</a>' in html
    assert ">API<" in html


def test_the_list_asks_as_often_for_twenty_as_for_two(owner_client: Client, team: Team) -> None:
    def make_one() -> None:
        Repository.objects.create(team=team, name=f"r{Repository.objects.count()}")

    # the frame's four, repositories
    assert count_at_2_and_20(lambda: html_of(owner_client, URL), make_one) == [5, 5]


def test_a_task_gets_its_files_and_why(owner_client: Client, repository: Repository) -> None:
    html = html_of(owner_client, f"{URL}{repository.pk}/{TASK}")
    assert html.index("shop/cart.py</th>") < html.index("shop/mail.py</th>")
    assert "words in the file" in html
    assert '<span class="tag kept">whole</span>' in html
    assert 'class="link' in html
    assert "def total(cart)" in html
    assert "imports among" in html


def test_the_budget_that_was_used_is_the_one_shown(owner_client: Client, repository: Repository) -> None:
    page = owner_client.get(f"/repositories/{repository.pk}/", {"task": "round prices"}).text
    assert '<option value="8000" selected>' in page


def test_without_a_task_nothing_is_ranked(owner_client: Client, repository: Repository) -> None:
    html = html_of(owner_client, f"{URL}{repository.pk}/")
    assert "Which files does a task need?" in html
    assert "Chosen files" not in html
    assert 'role="alert"' not in html


@pytest.mark.parametrize("query", ["?task=", "?task=+", "?task=a&budget=x", "?task=%00", "?task=a&budget=7"])
def test_questions_that_cannot_be_answered_say_so(
    query: str, owner_client: Client, repository: Repository
) -> None:
    assert 'role="alert"' in html_of(owner_client, f"{URL}{repository.pk}/{query}")


def test_the_answer_and_the_gaps_are_partials(partial, repository: Repository) -> None:
    assert "<h1>" not in partial(f"{URL}{repository.pk}/{TASK}", "chosen")
    gaps = partial(f"{URL}{repository.pk}/?show=gaps", "gaps")
    assert "Skipped files" in gaps


def test_what_the_graph_lacks_is_listed(owner_client: Client, team: Team) -> None:
    files = {
        "a.py": "from .nowhere import x\n",
        "pkg/__init__.py": "from pkg.gone import y\n",
        "b.bin": "\x00\x01",
    }
    found = factories.make_repository(team, name="gaps", files=files)
    html = html_of(owner_client, f"{URL}{found.pk}/?show=gaps")
    assert ".nowhere" in html
    assert "b.bin" in html
    assert "binary" in html


def test_a_repository_without_files(owner_client: Client, team: Team) -> None:
    found = factories.make_repository(team, name="empty", files={})
    assert "No files to choose from" in html_of(owner_client, f"{URL}{found.pk}/?task=a")


# Pure functions


def ranked(*paths: str) -> list[RankedFile]:
    return [
        RankedFile(path, 2.0 - rank / 10, {"content": 1.0, "graph": 1.0 - rank / 10})
        for rank, path in enumerate(paths)
    ]


def test_every_part_of_a_score_has_words_and_a_colour() -> None:
    assert set(PARTS) == {field.name for field in fields(Weights)}
    assert len({kind for _, kind in PARTS.values()}) == len(PARTS)


def test_links_are_those_among_the_chosen() -> None:
    packed = Packed("", (PackedFile("a.py", "full", 9), PackedFile("c.py", "path", 2)), 11)
    files = choose_files(
        ranked("a.py", "b.py", "c.py"), packed, {"a.py": ("b.py", "z.py"), "c.py": ("a.py",)}
    )
    assert [(file.imports, file.imported_by) for file in files] == [((2,), (3,)), ((), (1,)), ((1,), ())]
    assert [(file.mode_words, file.tokens) for file in files] == [
        ("whole", 9), ("left out", None), ("path only", 2)
    ]  # fmt: skip


def test_an_arc_for_each_import_the_further_the_wider() -> None:
    packed = Packed("", (), 0)
    imports = {"a.py": ("b.py",), "c.py": ("a.py",)}
    picture = draw_imports(choose_files(ranked("a.py", "b.py", "c.py"), packed, imports))
    assert [(arc.source, arc.target, arc.is_down) for arc in picture.arcs] == [(1, 2, True), (3, 1, False)]
    assert len(picture.nodes) == 3
    bends = [float(arc.shape.split("C")[1].split()[0]) for arc in picture.arcs]
    assert bends[1] < bends[0]
    assert draw_imports([]).height == 0


def test_a_part_that_is_taken_away_covers_the_end_of_the_bar() -> None:
    best = RankedFile("a.py", 1.0, {"content": 1.0})
    docs = RankedFile("docs/a.md", 0.4, {"content": 0.8, "kind": -0.4})
    files = choose_files([best, docs], Packed("", (), 0), {})
    assert [(part.kind, part.x, part.width) for part in files[1].parts] == [
        ("context", "0", "80"), ("empty", "40", "40")
    ]  # fmt: skip
    assert files[1].parts_label == (
        "words in the file 0.80, documentation, example, changelog or migration -0.40"
    )


def test_documents_are_attached_replaced_and_detached(
    owner_client: Client, repository: Repository, team: Team
) -> None:
    url = f"{URL}{repository.pk}/"
    assert "Attach a document" in html_of(owner_client, url)
    for content in ("Two <spaces>.", "Tabs."):
        owner_client.post(f"{url}documents/", {"title": "Style", "content": content})
        document = StandingDocument.objects.get()
        assert (document.repository, document.content, document.created_by) == ("shop", content, "user:olga")
        assert escape(content) in html_of(owner_client, url)
    detach = f"{url}documents/{document.pk}/detach/"
    owner_client.post(detach)
    assert not StandingDocument.objects.exists()
    assert f"There is no document {document.pk}." in owner_client.post(detach).content.decode()


def test_a_document_without_a_title_is_refused(owner_client: Client, repository: Repository) -> None:
    response = owner_client.post(f"{URL}{repository.pk}/documents/", {"content": "x"})
    assert response.status_code == 422
    assert "This field is required." in response.content.decode()


def test_a_viewer_sees_documents_and_cannot_change_them(
    teammate_client: Client, owner_client: Client, repository: Repository, team: Team
) -> None:
    data = StandingDocumentIn(repository="shop", title="Style", content="Two spaces.")
    document = attach_document(team=team, data=data, actor="test").document
    url = f"{URL}{repository.pk}/"
    html = html_of(teammate_client, url)
    assert "Two spaces." in html
    assert "Detach" not in html
    other = factories.make_repository(team, "other")
    outside = f"{URL}{other.pk}/documents/{document.pk}/detach/"
    assert teammate_client.post(outside).status_code == 403
    assert owner_client.post(outside).status_code == 404
