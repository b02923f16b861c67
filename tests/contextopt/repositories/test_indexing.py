"""Reading repositories into the database: parsed, kept and dropped files, and their team."""

import os
from pathlib import Path

import pytest

from contextopt.engine.code.graph.values import PARSER_VERSION
from contextopt.errors import Conflict, InvalidInput
from contextopt.people.models import Team
from contextopt.repositories import checkouts, graphs, indexing
from contextopt.repositories.checkouts import opened
from contextopt.repositories.graphs import load_graph, load_index
from contextopt.repositories.indexing import (
    IndexReport,
    create_posted,
    delete_repository,
    index_checkout,
    update_posted,
)
from contextopt.repositories.inputs import RelevantIn
from contextopt.repositories.models import CodeBlob, Repository, RepositoryFile
from contextopt.repositories.relevantfiles import RevisionRanker, rank_repository
from tests.gitrepos import SHOP, commit_files, make_git, run_git, write_files


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return make_git(tmp_path / "shop")


def index(team: Team, folder: Path, rev: str | None = None) -> IndexReport:
    with opened(str(folder)) as checkout:
        return index_checkout(team=team, checkout=checkout, rev=rev, actor="test")


def reasons(report: IndexReport) -> dict[str, str]:
    return dict(report.skipped)


def test_everything_is_read_once(team: Team, shop: Path) -> None:
    report = index(team, shop)
    repository = report.repository
    assert (repository.name, repository.files, repository.parsed) == ("shop", 6, 6)
    assert (repository.symbols, repository.imports, repository.unresolved) == (5, 2, 0)
    assert report.graph.imports["shop/cart.py"] == ("shop/prices.py",)
    assert repository.revision == run_git(shop, "rev-parse", "HEAD")
    again = index(team, shop)
    assert again.repository.pk == repository.pk
    assert (again.changed, again.removed, again.repository.parsed) == (0, 0, 0)
    assert again.repository.state == repository.state


def test_only_what_changed_is_parsed(team: Team, shop: Path) -> None:
    before = index(team, shop).repository
    commit_files(shop, "Round up", {"shop/currency.py": "import math\n"}, removed=("shop/mail.py",))
    report = index(team, shop)
    assert (report.changed, report.removed, report.repository.parsed) == (1, 1, 1)
    assert (report.repository.files, report.repository.symbols) == (5, 3)
    assert report.repository.state != before.state
    assert set(CodeBlob.objects.values_list("files__path", flat=True)) == set(SHOP) - {"shop/mail.py"}
    run_git(shop, "mv", "README.md", "GUIDE.md")
    commit_files(shop, "Rename", {})
    renamed = index(team, shop)
    assert (renamed.changed, renamed.removed, renamed.repository.parsed) == (1, 1, 0)


def test_a_revision_is_indexed_as_it_was(team: Team, shop: Path) -> None:
    first = run_git(shop, "rev-parse", "HEAD")
    commit_files(shop, "Add tax", {"shop/tax.py": "RATE = 25\n"}, date="2026-04-01T00:00:00Z")
    (shop / "uncommitted.py").write_text("x = 1\n")
    assert index(team, shop).repository.files == 7
    report = index(team, shop, rev=first)
    assert (report.repository.files, report.repository.revision, report.removed) == (6, first, 1)


@pytest.mark.parametrize("rev", ["nowhere", "", "--all", "a\0b", "HEAD:shop", "x" * 5_000])
def test_a_bad_revision(team: Team, shop: Path, rev: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        index(team, shop, rev=rev)
    assert refused.value.problems[0].field == "--rev"
    assert not Repository.objects.exists()


def test_what_cannot_be_read_is_reported_and_stops_nothing(team: Team, tmp_path: Path) -> None:
    folder = make_git(
        tmp_path / "odd",
        {
            "logo.png": b"\x89PNG\0\0",
            "huge.py": "x = 1\n" * 100_000,
            "bundle.min.js": "var a=1;" * 20_000,
            "broken.py": "def f(:\n    pass\n",
            "a.py": "import odd_b\nfrom . import c\n",
            "c.py": "from . import a\nfrom .missing import thing\n",
            "nul.txt": "a b\n" * 3_000 + "\0",
            "latin.txt": "caf\xe9".encode("latin-1"),
            "new\nline é.py": "y = 2\n",
        },
    )
    (folder / "link.py").symlink_to("a.py")
    (folder / "circle").symlink_to(".")
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.py")).write_text("z = 3\n")
    commit_files(folder, "Odd names", {})
    report = index(team, folder)
    found = reasons(report)
    assert (found["logo.png"], found["huge.py"], found["bundle.min.js"]) == (
        "binary",
        "too large",
        "minified",
    )
    assert found["link.py"] == found["circle"] == "a symbolic link"
    assert found["caf\ufffd.py"] == "its name is not UTF-8"
    assert found["broken.py"].startswith("syntax error, line 1")
    assert [(item.path, item.target) for item in report.graph.unresolved] == [("c.py", ".missing")]
    assert report.graph.imports["a.py"] == ("c.py",)
    assert report.graph.imports["c.py"] == ("a.py",)
    assert report.to_json()["circles"] == [["a.py", "c.py"]]
    assert report.repository.files == 6
    assert index(team, folder).changed == 0


def test_a_submodule_is_skipped(team: Team, shop: Path, tmp_path: Path) -> None:
    inner = make_git(tmp_path / "inner", {"x.py": "x = 1\n"})
    run_git(shop, "-c", "protocol.file.allow=always", "submodule", "add", "--quiet", str(inner), "vendor")
    commit_files(shop, "Take in", {})
    report = index(team, shop)
    assert reasons(report) == {"vendor": "a submodule"}


class TestFolders:
    """A folder that isn't the top of a repository with commits is read as it is."""

    def test_plain_folder(self, team: Team, tmp_path: Path) -> None:
        folder = tmp_path / "plain"
        write_files(folder, {**SHOP, "node_modules/x/index.js": "x", ".venv/y.py": "y", "logo.png": b"\0"})
        (folder / "circle").symlink_to(folder)
        os.mkfifo(folder / "pipe")
        report = index(team, folder)
        assert (report.repository.files, report.repository.revision) == (6, "")
        assert reasons(report) == {
            ".venv": "an ignored folder", "circle": "a symbolic link", "logo.png": "binary",
            "node_modules": "an ignored folder", "pipe": "not a regular file",
        }  # fmt: skip
        assert index(team, folder).changed == 0
        (folder / "shop/mail.py").write_text("import shop.cart\n")
        changed = index(team, folder)
        assert (changed.changed, changed.repository.parsed, changed.repository.imports) == (1, 1, 3)

    def test_empty_folder(self, team: Team, tmp_path: Path) -> None:
        report = index(team, tmp_path)
        assert report.repository.files == 0
        found = rank_repository(report.repository, RelevantIn(task="anything"))
        assert (found.ranked, found.packed.text, found.packed.tokens) == ([], "", 0)

    def test_repository_without_a_commit(self, team: Team, tmp_path: Path) -> None:
        run_git(tmp_path, "init", "--quiet")
        (tmp_path / "new.py").write_text("x = 1\n")
        assert index(team, tmp_path).repository.files == 1

    def test_part_of_a_repository(self, team: Team, shop: Path) -> None:
        assert index(team, shop / "shop").repository.files == 5
        with pytest.raises(InvalidInput, match="not the top"):
            index(team, shop / "shop", rev="HEAD")

    def test_bare_repository(self, team: Team, shop: Path, tmp_path: Path) -> None:
        run_git(tmp_path, "clone", "--quiet", "--bare", str(shop), "bare.git")
        report = index(team, tmp_path / "bare.git")
        assert (report.repository.name, report.repository.files) == ("bare", 6)

    @pytest.mark.parametrize("path", ["/nowhere/at/all", "", "a\0b"])
    def test_no_folder(self, path: str) -> None:
        with pytest.raises(InvalidInput, match="REPO"), opened(path):
            pass


def test_history_goes_on_where_it_was(team: Team, shop: Path) -> None:
    commit_files(shop, "Fix rounding", {"shop/currency.py": "A = 1\n"}, date="2026-03-02T00:00:00Z")
    index(team, shop)
    commit_files(shop, "Fix mail\n\nIt bounced.", {"shop/mail.py": "B = 1\n"}, date="2026-03-03T00:00:00Z")
    repository = index(team, shop).repository
    stored = graphs.load_changes(repository.history.changes)
    with opened(str(shop)) as checkout:
        assert stored == checkout.changes(repository.revision)
    assert [change.message for change in stored] == ["Fix mail\n\nIt bounced.", "Fix rounding", "Begin"]
    assert stored[0].paths == ("shop/mail.py",)
    run_git(shop, "reset", "--quiet", "--hard", "HEAD~2")
    commit_files(shop, "Otherwise", {"other.py": ""})
    messages = [c.message for c in graphs.load_changes(index(team, shop).repository.history.changes)]
    assert messages == ["Otherwise", "Begin"]


def test_history_counts_although_no_file_changed(team: Team, shop: Path) -> None:
    asked = RelevantIn(task="zebra crossing")
    before = rank_repository(index(team, shop).repository, asked).ranked[0].path
    commit_files(shop, "Paint the zebra crossing", {"shop/mail.py": "B = 1\n"})
    commit_files(shop, "Take it back", {"shop/mail.py": SHOP["shop/mail.py"]})
    report = index(team, shop)
    after = rank_repository(report.repository, asked).ranked[0].path
    assert (report.changed, before, after) == (0, "shop/__init__.py", "shop/mail.py")


def test_a_change_of_many_files_says_nothing(team: Team, shop: Path) -> None:
    commit_files(shop, "Format everything", {f"many/m{number}.py": "x\n" for number in range(60)})
    assert index(team, shop).repository.history.commits == 1


class TestRanking:
    def test_what_a_task_needs(self, team: Team, shop: Path) -> None:
        repository = index(team, shop).repository
        found = rank_repository(repository, RelevantIn(task="convert currency amounts", budget=300))
        assert found.ranked[0].path == "shop/currency.py"
        assert "def convert(amount):" in found.packed.text
        assert found.packed.tokens <= 300
        shown = dict(found.contents)
        assert shown["shop/currency.py"] == SHOP["shop/currency.py"]
        assert all(content in found.packed.text for content in shown.values())

    def test_seeds_alone(self, team: Team, shop: Path) -> None:
        repository = index(team, shop).repository
        found = rank_repository(repository, RelevantIn(seeds=["shop/prices.py"]))
        assert found.ranked[0].path == "shop/prices.py"
        assert {file.path for file in found.ranked[1:3]} == {"shop/cart.py", "shop/currency.py"}

    def test_past_does_not_know_the_future(self, team: Team, shop: Path) -> None:
        first = run_git(shop, "rev-parse", "HEAD")
        asked = RelevantIn(task="send receipt by mail", limit=200)
        with opened(str(shop)) as checkout:
            before = RevisionRanker(checkout, team.pk).rank(first, asked).to_json()
        commit_files(shop, "Send receipt by mail", {"shop/cart.py": "receipt = 1\n", "zz.py": "mail = 1\n"})
        stored = load_index(index(team, shop).repository)
        with opened(str(shop)) as checkout:
            later = RevisionRanker(checkout, team.pk, stored)
            at_head = later.rank("main", asked)
            assert later.rank(first, asked).to_json() == before
            assert later.rank("main", asked).to_json() == at_head.to_json()
        assert "zz.py" in {file.path for file in at_head.ranked}
        assert "zz.py" not in str(before)

    def test_stored_and_unstored_agree(self, team: Team, shop: Path) -> None:
        asked = RelevantIn(task="total of the cart")
        commit_files(shop, "Total", {"shop/total.py": "from shop.cart import total\n", "logo.png": b"\0"})
        repository = index(team, shop).repository
        with opened(str(shop)) as checkout:
            unstored = RevisionRanker(checkout, team.pk).rank("HEAD", asked).to_json()
        assert rank_repository(repository, asked).to_json() == unstored

    def test_an_index_brought_up_to_date_is_a_new_one(self, team: Team, shop: Path) -> None:
        asked = RelevantIn(task="total of the cart")
        rank_repository(index(team, shop).repository, asked)
        commit_files(shop, "More", {"shop/cart.py": "def grand_total(): ...\n"}, removed=("README.md",))
        repository = index(team, shop).repository
        warm = rank_repository(repository, asked).to_json()
        graphs._kept.clear()
        assert rank_repository(repository, asked).to_json() == warm

    def test_the_graph_alone_is_that_of_the_index(self, team: Team) -> None:
        files = {
            **SHOP,
            "go.mod": "module example.org/shop\n",
            "till/a.go": "package till\n\nfunc Open() { Close(1) }\n",
            "till/b.go": "package till\n\nfunc Close(n int) {}\n",
            "src/shop/A.java": "package shop;\nclass A { B b; }\n",
            "src/shop/B.java": "package shop;\nclass B { void run() {} }\n",
            "web/a.ts": 'import { b } from "./b";\nimport c from "./gone";\n',
            "web/b.ts": "export const b = 1;\n",
            "lib/lib.rs": "mod inner;\nuse inner::thing;\n",
            "lib/inner.rs": "pub fn thing() {}\n",
        }
        repository = create_posted(team=team, name="mixed", files=files, actor="t").repository
        graphs._kept.clear()
        alone = load_graph(repository)
        whole = load_index(repository).index.graph
        assert (alone.imports, alone.unresolved, alone.skipped, alone.external) == (
            whole.imports, whole.unresolved, whole.skipped, whole.external,
        )  # fmt: skip
        assert alone.imports["till/a.go"] == ("till/b.go",)
        assert alone.imports["src/shop/A.java"] == ("src/shop/B.java",)

    def test_queries(self, team: Team, shop: Path, django_assert_num_queries) -> None:
        repository = index(team, shop).repository
        asked = RelevantIn(task="total of the cart")
        graphs._kept.clear()
        with django_assert_num_queries(4):  # files, contents, history; texts
            rank_repository(repository, asked)
        with django_assert_num_queries(1):  # texts
            rank_repository(repository, asked)

    def test_few_repositories_stay_in_memory(self, team: Team) -> None:
        made = [create_posted(team=team, name=f"r{n}", files=SHOP, actor="t").repository for n in range(6)]
        for repository in made:
            load_index(repository)
        assert [pk for pk in graphs._kept if pk in {r.pk for r in made}] == [r.pk for r in made[2:]]


class TestPosted:
    def test_only_new_contents_are_parsed(self, team: Team) -> None:
        report = create_posted(team=team, name="app", files=SHOP, actor="key:ci")
        assert (report.repository.files, report.repository.parsed, report.repository.imports) == (6, 6, 2)
        files = {"shop/mail.py": SHOP["shop/mail.py"], "shop/cart.py": "", "copy.py": SHOP["shop/mail.py"]}
        again = update_posted(repository=report.repository, files=files, deleted=["README.md", "no/such"])
        assert (again.changed, again.removed, again.repository.parsed) == (2, 1, 0)
        assert set(again.graph.files) == {*SHOP, "copy.py"} - {"README.md"}

    def test_contents_are_shared_with_what_is_read(self, team: Team, shop: Path) -> None:
        index(team, shop)
        assert create_posted(team=team, name="same", files=SHOP, actor="t").repository.parsed == 0
        assert CodeBlob.objects.count() == 6

    def test_a_name_is_taken_once(self, team: Team) -> None:
        create_posted(team=team, name="app", files={}, actor="t")
        with pytest.raises(Conflict):
            create_posted(team=team, name="app", files={}, actor="t")

    def test_what_is_read_from_a_folder_is_not_posted_to(self, team: Team, shop: Path) -> None:
        with pytest.raises(Conflict):
            update_posted(repository=index(team, shop).repository, files={}, deleted=[])

    def test_too_many(self, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(indexing, "REPOSITORY_FILES_MAX", 5)
        with pytest.raises(InvalidInput, match="at most 5"):
            create_posted(team=team, name="app", files=SHOP, actor="t")
        assert not Repository.objects.exists()


def test_teams_share_nothing(team: Team, other_team: Team, shop: Path) -> None:
    ours, theirs = index(team, shop).repository, index(other_team, shop).repository
    assert ours.pk != theirs.pk
    assert theirs.parsed == 6
    delete_repository(repository=ours)
    assert not CodeBlob.objects.filter(team=team).exists()
    assert CodeBlob.objects.filter(team=other_team).count() == 6
    assert index(other_team, shop).changed == 0


def test_deleting_a_team_takes_all_of_it(team: Team, shop: Path) -> None:
    index(team, shop)
    team.delete()
    assert not RepositoryFile.objects.exists()
    assert not CodeBlob.objects.exists()


def test_contents_that_another_repository_has_stay(team: Team, shop: Path, tmp_path: Path) -> None:
    run_git(tmp_path, "clone", "--quiet", str(shop), "second")
    first, second = index(team, shop).repository, index(team, tmp_path / "second").repository
    assert (second.name, second.parsed) == ("second", 0)
    delete_repository(repository=first)
    assert rank_repository(second, RelevantIn(task="cart")).ranked[0].path == "shop/cart.py"


def test_names_are_free(team: Team, shop: Path, tmp_path: Path) -> None:
    other = make_git(tmp_path / "elsewhere" / "shop", {"x.py": "x = 1\n"})
    assert [index(team, shop).repository.name, index(team, other).repository.name] == ["shop", "shop-2"]


def test_a_folder_called_repo_is_named_after_its_remote_or_its_parent(team: Team, tmp_path: Path) -> None:
    first, second = make_git(tmp_path / "cart-service" / "repo"), make_git(tmp_path / "b" / "repo")
    run_git(second, "remote", "add", "origin", "https://ann:secret@example.org/shops/price-service.git")
    assert [index(team, first).repository.name, index(team, second).repository.name] == [
        "cart-service", "price-service",
    ]  # fmt: skip


def test_another_parser_reads_again(team: Team, shop: Path) -> None:
    index(team, shop)
    CodeBlob.objects.update(parser=PARSER_VERSION + 1, parsed="")
    graphs._kept.clear()
    repository = Repository.objects.get()
    assert rank_repository(repository, RelevantIn(task="convert")).ranked[0].path == "shop/currency.py"
    graphs._kept.clear()
    assert load_graph(repository).imports["shop/cart.py"] == ("shop/prices.py",)
    again = index(team, shop).repository
    assert (again.parsed, again.symbols) == (6, 5)
    assert again.state != repository.state


def test_processes_read_the_same(team: Team, other_team: Team, tmp_path: Path) -> None:
    files = {f"m{n}.py": f"import m{n + 1}\n\n\ndef f{n}(): ...\n" for n in range(320)}
    folder = make_git(tmp_path / "many", {**files, "logo.png": b"\0"})
    parallel = index(team, folder)
    assert parallel.repository.parsed == 320
    assert parallel.repository.imports == 319
    limit, indexing.PARALLEL_FROM = indexing.PARALLEL_FROM, 10_000
    try:
        assert index(other_team, folder).graph == parallel.graph
    finally:
        indexing.PARALLEL_FROM = limit


def test_more_files_than_the_limit(team: Team, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkouts, "FILES_MAX", 4)
    report = index(team, shop)
    assert report.repository.files == 4
    assert set(reasons(report)) == {"shop/mail.py", "shop/prices.py"}
