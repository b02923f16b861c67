"""A repository at a glance: the manifests nearest to the top, and its tree."""

from contextopt.people.models import Team
from contextopt.repositories.graphs import join_manifests, outline_tree, read_manifests
from tests import factories


def test_the_manifests_nearest_to_the_top_are_read(team: Team) -> None:
    files = {
        "web/package.json": '{"name": "web"}',
        "go.mod": "module shop\n",
        "pyproject.toml": "[project]\n",
    }
    repository = factories.make_repository(team, files=files)
    manifests = read_manifests(repository)
    assert manifests == [("pyproject.toml", "[project]\n"), ("go.mod", "module shop\n")]
    assert join_manifests(manifests) == "# pyproject.toml\n[project]\n\n# go.mod\nmodule shop\n"


def test_without_one_at_the_top_those_below_count(team: Team) -> None:
    files = {"web/package.json": "{}", "deep/er/go.mod": "module x\n", "not-a-go.mod.txt": ""}
    assert read_manifests(factories.make_repository(team, files=files)) == [("web/package.json", "{}")]
    assert join_manifests([("web/package.json", "{}")]) == "{}"


def test_a_repository_without_manifests_has_none(team: Team) -> None:
    assert read_manifests(factories.make_repository(team)) == []


def test_skipped_files_are_in_the_tree(team: Team) -> None:
    repository = factories.make_repository(team, files={"logo.png": "\0", "a.py": "x = 1\n"})
    assert outline_tree(repository, lambda _: True).text == "a.py\nlogo.png\n"
