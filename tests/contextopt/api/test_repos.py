import pytest

from contextopt.engine.text.tokens import get_tokenizer
from contextopt.repositories import graphs
from contextopt.repositories.checkouts import opened
from contextopt.repositories.indexing import index_checkout
from contextopt.repositories.models import CodeBlob, Repository
from tests import factories
from tests.contextopt.api.conftest import fields_of
from tests.gitrepos import SHOP, make_git


@pytest.fixture
def shop(team):
    return factories.make_repository(team)


def test_post(api):
    files = {**SHOP, "logo.png": "\x00", "shop/old.py": "from .gone import x\n"}
    response = api.post("/repos", {"name": "shop", "files": files})
    answer = response.json()
    assert response.status_code == 201
    assert response["Location"] == f"/api/v1/repos/{answer['id']}"
    assert (answer["files"], answer["symbols"], answer["imports"], answer["unresolved"]) == (7, 5, 2, 1)
    assert answer["skipped_files"] == [{"path": "logo.png", "reason": "binary"}]
    assert answer["unresolved_imports"] == [{"path": "shop/old.py", "line": 1, "target": ".gone"}]
    assert (answer["parsed"], answer["is_posted"], answer["created_by"]) == (7, True, "key:admin-key")
    read = api.get(f"/repos/{answer['id']}").json()
    assert read == {name: answer[name] for name in read}


def test_post_taken_name(api, shop):
    response = api.post("/repos", {"name": "shop"})
    assert response.status_code == 409
    assert "'shop'" in response.json()["detail"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": ".."}, "name"),
        ({"name": "shop\n"}, "name"),
        ({"name": "x" * 121}, "name"),
        ({"name": "shop", "files": []}, "files"),
        ({"name": "shop", "files": {"a.py": None}}, "files"),
        ({"name": "shop", "files": {"": "x"}}, "files"),
        ({"name": "shop", "files": {"/etc/passwd": "x"}}, "files"),
        ({"name": "shop", "files": {"../x": "x"}}, "files"),
        ({"name": "shop", "files": {"a//b": "x"}}, "files"),
        ({"name": "shop", "files": {"a\x00b": "x"}}, "files"),
        ({"name": "shop", "files": {"a" * 601: "x"}}, "files"),
        ({"name": "shop", "files": {f"f{n}": "" for n in range(2_001)}}, "files"),
        ({"name": "shop", "files": {"a": "x" * 16_000_001}}, "files"),
        ({"name": "shop", "file": {}}, "file"),
    ],
)
def test_post_bad_input(api, body, field):
    response = api.post("/repos", body)
    assert response.status_code == 422
    assert any(name == field or name.startswith(f"{field}.") for name in fields_of(response))
    assert not Repository.objects.exists()


def test_a_lone_surrogate_is_refused(api):
    response = api.post("/repos", '{"name": "shop", "files": {"a.py": "\\ud800"}}')
    assert response.status_code == 422
    assert not CodeBlob.objects.exists()


def test_list(api, team, other_team, django_assert_num_queries):
    factories.make_repository(other_team, "theirs")
    names = [f"repo-{number:02}" for number in range(20)]
    for name in names[:2]:
        factories.make_repository(team, name, {})
    api.get("/repos")
    with django_assert_num_queries(2):  # the key, the list
        api.get("/repos")
    for name in names[2:]:
        factories.make_repository(team, name, {})
    with django_assert_num_queries(2):  # the same
        page = api.get("/repos", limit=15).json()
    rest = api.get("/repos", limit=15, cursor=page["next_cursor"]).json()
    assert [item["name"] for item in page["items"] + rest["items"]] == names
    assert rest["next_cursor"] is None


class TestFiles:
    def test_only_what_is_new_is_parsed(self, api, shop):
        body = {"files": {"shop/cart.py": "import shop.mail\n", "README.md": SHOP["README.md"]}}
        answer = api.post(f"/repos/{shop.pk}/files", {**body, "deleted": ["shop/currency.py"]}).json()
        assert (answer["changed"], answer["removed"], answer["parsed"], answer["files"]) == (1, 1, 1, 5)
        assert answer["unresolved"] == 1
        ranked = api.post(f"/repos/{shop.pk}/relevant", {"task": "cart"}).json()["ranked"]
        assert "shop/currency.py" not in {file["path"] for file in ranked}

    def test_nothing_changes_nothing(self, api, shop):
        assert api.post(f"/repos/{shop.pk}/files", {"files": SHOP}).json()["changed"] == 0
        assert Repository.objects.get().state == shop.state

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"deleted": ["../x"]}, "deleted.0"),
            ({"deleted": "x"}, "deleted"),
            ({"files": {"a": ""}, "deleted": ["a"]}, "deleted"),
            ({"files": {"a/../b": ""}}, "files"),
        ],
    )
    def test_bad_input(self, api, shop, body, field):
        response = api.post(f"/repos/{shop.pk}/files", body)
        assert response.status_code == 422
        assert fields_of(response) == {field}

    def test_of_a_folder(self, api, team, tmp_path):
        with opened(str(make_git(tmp_path / "shop"))) as checkout:
            report = index_checkout(team=team, checkout=checkout, rev=None, actor="test")
        assert api.post(f"/repos/{report.repository.pk}/files", {"files": {}}).status_code == 409
        read = api.get(f"/repos/{report.repository.pk}").json()
        assert (read["is_posted"], read["revision"]) == (False, report.repository.revision)
        assert "folder" not in read


class TestRelevant:
    def test_answer(self, reader, shop, django_assert_num_queries):
        body = {"task": "convert currency amounts", "budget": 300, "limit": 3}
        graphs._kept.clear()
        with django_assert_num_queries(8):  # key, last use, way, repository; files, contents, history; texts
            reader.post(f"/repos/{shop.pk}/relevant", body)
        with django_assert_num_queries(3):  # key, repository; texts
            answer = reader.post(f"/repos/{shop.pk}/relevant", body).json()
        assert answer["ranked"][0]["path"] == "shop/currency.py"
        assert len(answer["ranked"]) == 3
        assert answer["tokens"] == get_tokenizer("cl100k_base").count(answer["text"]) <= 300
        assert answer["files"][0] == {"path": "shop/currency.py", "content": SHOP["shop/currency.py"]}
        assert {"path": "shop/currency.py", "mode": "full"}.items() <= answer["shown"][0].items()

    def test_files_are_what_a_phase_takes(self, api, shop):
        answer = api.post(f"/repos/{shop.pk}/relevant", {"seeds": ["shop/cart.py"]}).json()
        context = {"task": "Round the total", "files": answer["files"]}
        filtered = api.post("/phases/building/filter", {"context": context})
        assert filtered.status_code == 201
        assert filtered.json()["context"]["files"] == answer["files"]

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({}, "task"),
            ({"task": "  "}, "task"),
            ({"task": 7}, "task"),
            ({"task": "x" * 100_001}, "task"),
            ({"task": "x", "budget": -1}, "budget"),
            ({"task": "x", "budget": 200_001}, "budget"),
            ({"task": "x", "limit": 201}, "limit"),
            ({"task": "x", "seeds": [""]}, "seeds.0"),
            ({"task": "x", "seeds": ["shop/cart.py", "shop/crat.py"]}, "seeds.1"),
            ({"task": "x", "encoding": "klingon"}, "encoding"),
            ({"task": "x", "query": "y"}, "query"),
        ],
    )
    def test_bad_input(self, api, shop, body, field):
        response = api.post(f"/repos/{shop.pk}/relevant", body)
        assert response.status_code == 422
        assert fields_of(response) == {field}

    def test_empty_repository(self, api, team):
        empty = factories.make_repository(team, "empty", {})
        answer = api.post(f"/repos/{empty.pk}/relevant", {"task": "x"}).json()
        assert (answer["ranked"], answer["text"], answer["files"]) == ([], "", [])


def test_delete(api, shop):
    assert api.delete(f"/repos/{shop.pk}").status_code == 204
    assert api.get(f"/repos/{shop.pk}").status_code == 404
    assert not CodeBlob.objects.exists()


def test_strangers_find_nothing(stranger, shop):
    assert stranger.get("/repos").json()["items"] == []
    assert stranger.post(f"/repos/{shop.pk}/relevant", {"task": "x"}).status_code == 404
    assert stranger.post("/repos", {"name": "shop", "files": SHOP}).json()["parsed"] == 6
