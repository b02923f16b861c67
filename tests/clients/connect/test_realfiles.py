"""Links and settings of git that lead out of the repository, or out of the person's configuration."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from contextopt_connect.codingagents import TOOLS
from contextopt_connect.connections import plan_connection
from contextopt_connect.errors import UnusableFile
from contextopt_connect.realfiles import read_whole
from django.core.management import CommandError, call_command

from contextopt.management.commands.connect import make_connection
from contextopt.people.models import ApiKey, Team
from contextopt.spaces.models import Space
from tests.clients.connect.conftest import connect, git, make_repository, snapshot, write

pytestmark = pytest.mark.django_db


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with files that nothing may touch."""
    folder = tmp_path / "outside"
    write(folder / "file", "")
    for name in ("mcp.json", "hooks.json", "settings.local.json", "config.toml", "contextopt/x"):
        write(folder / "folder" / name, "")
    return folder


def refuse(tool: str, repository: Path, words: str, *folders: Path) -> None:
    """Check that the tool is not connected, and that nothing was written."""
    before = snapshot(*folders)
    with pytest.raises(CommandError, match=words) as refused:
        call_command("connect", tool, "--repository", str(repository), "--yes")
    assert refused.value.returncode == 2
    assert snapshot(*folders) == before
    assert not ApiKey.objects.exists() and not Space.objects.exists()


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("claude", ".mcp.json"),
        ("claude", ".claude"),
        ("claude", ".claude/settings.local.json"),
        ("cursor", ".cursor"),
        ("cursor", ".cursor/mcp.json"),
        ("cursor", ".cursor/hooks.json"),
    ],
)
@pytest.mark.parametrize("target", ["file", "folder", "missing", "missing/deep"])
def test_a_link_out_of_the_repository_is_not_followed(
    tool: str, name: str, target: str, home: Path, repository: Path, outside: Path, team: Team
) -> None:
    link = repository / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside / target)
    leads = f"{link}.* leads through a link to {outside / target}(?s:.*contextopt)"
    refuse(tool, repository, leads, home, repository, outside)
    # A link to a link, and one that is relative.
    link.rename(repository / "again")
    link.symlink_to(os.path.relpath(repository / "again", link.parent))
    refuse(tool, repository, leads, home, repository, outside)


@pytest.mark.parametrize("name", [".codex", ".codex/config.toml", ".codex/hooks.json"])
@pytest.mark.parametrize("target", ["file", "folder"])
def test_a_link_out_of_the_tools_folder_is_not_followed(
    name: str, target: str, home: Path, repository: Path, outside: Path, team: Team
) -> None:
    link = home / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside / target)
    refuse("codex", repository, f"leads through a link to {outside / target}", home, repository, outside)


@pytest.mark.parametrize("name", [".config", ".config/contextopt", ".config/contextopt/connections"])
def test_a_link_out_of_the_configuration_is_not_followed(
    name: str, home: Path, repository: Path, outside: Path, team: Team
) -> None:
    link = home / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside / "folder")
    refuse("claude", repository, f"leads through a link to {outside}", home, repository, outside)


def test_a_folder_that_a_variable_names_may_be_a_link(
    home: Path,
    repository: Path,
    outside: Path,
    team: Team,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for variable, name in (("CODEX_HOME", "codex"), ("XDG_CONFIG_HOME", "config")):
        (outside / name).mkdir()
        (home / name).symlink_to(outside / name)
        monkeypatch.setenv(variable, str(home / name))
    before = snapshot(home, repository, outside)
    made = connect("codex", repository, capsys, "--yes")
    assert [each["path"] for each in made["files"]] == [str(outside / "codex/config.toml")]
    assert made["key_file"].startswith(str(outside / "config/contextopt/connections/"))
    connect("codex", repository, capsys, "--undo")
    assert snapshot(home, repository, outside) == before


@pytest.mark.parametrize("name", [".git", ".git/hooks"])
def test_gits_own_folder_is_not_written(name: str, home: Path, repository: Path, team: Team) -> None:
    (repository / ".claude").symlink_to(repository / name)
    refuse("claude", repository, f"leads through a link to {repository / name}", home, repository)
    assert not (repository / name / "settings.local.json").exists()


def test_a_link_inside_the_repository_is_followed(
    home: Path, repository: Path, team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    write(repository / "tools/claude/settings.local.json", '{"permissions": {}}')
    (repository / ".claude").symlink_to("tools/claude")
    (repository / ".mcp.json").symlink_to("new/mcp.json")
    before = snapshot(home, repository)
    made = connect("claude", repository, capsys, "--yes")
    real = [str(repository / "new/mcp.json"), str(repository / "tools/claude/settings.local.json")]
    assert [each["path"] for each in made["files"]] == real
    assert (repository / ".claude").is_symlink()
    assert "contextopt" in (repository / ".mcp.json").read_text()
    undone = connect("claude", repository, capsys, "--undo")
    assert undone["files"] == dict(zip(real, ("deleted", "restored"), strict=True))
    assert snapshot(home, repository) == before
    assert not (repository / "new").exists()


def test_a_link_to_itself_is_not_read(home: Path, repository: Path, team: Team) -> None:
    (repository / ".mcp.json").symlink_to(".mcp.json")
    refuse("claude", repository, "cannot be read: Too many levels of symbolic links", home, repository)


def test_what_is_not_a_file_is_not_read(home: Path, repository: Path, team: Team) -> None:
    os.mkfifo(repository / ".mcp.json")
    refuse("claude", repository, "cannot be read: it is a folder, pipe or device", home, repository)
    (repository / ".mcp.json").unlink()
    (repository / ".mcp.json").mkdir()
    refuse("claude", repository, "cannot be read: it is a folder, pipe or device", home, repository)


@pytest.mark.parametrize("name", [".claude", ".claude/settings.local.json"])
def test_a_link_that_comes_between_plan_and_write_is_not_followed(
    name: str, home: Path, repository: Path, outside: Path, team: Team
) -> None:
    (repository / ".claude").mkdir()
    before = snapshot(home, repository, outside)
    plan = plan_connection(tool=TOOLS["claude"], repository=repository, url="http://127.0.0.1", space="")
    if name == ".claude":
        (repository / name).rmdir()
        (outside / "folder/settings.local.json").unlink()
    (repository / name).symlink_to(outside / "folder")
    with pytest.raises(UnusableFile, match=r"settings\.local\.json cannot be "):
        make_connection(plan, team)
    (repository / name).unlink()
    if name == ".claude":
        write(outside / "folder/settings.local.json", "")
    assert snapshot(home, repository, outside) == before
    assert ApiKey.objects.get().revoked_at is not None


def replace_by_link(path: Path, target: Path) -> None:
    shutil.move(path, target)
    path.symlink_to(target)


@pytest.mark.parametrize("is_filled", [False, True])
@pytest.mark.parametrize("name", [".mcp.json", ".claude"])
def test_undo_follows_no_link_out(
    name: str,
    is_filled: bool,
    home: Path,
    repository: Path,
    outside: Path,
    team: Team,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if is_filled:
        for each in (".mcp.json", ".claude/settings.local.json"):
            write(repository / each, '{"mine": 1}')
    made = connect("claude", repository, capsys, "--yes")
    replace_by_link(repository / name, outside / "moved")
    before = snapshot(outside)
    paths = [each["path"] for each in made["files"]]
    linked = next(each for each in paths if each.startswith(str(repository / name)))
    with pytest.raises(SystemExit, match="1"):
        call_command("connect", "claude", "--repository", str(repository), "--undo")
    said = capsys.readouterr().out
    assert f"{linked}: linked, left. It leads to {os.path.realpath(linked)}\n" in said
    [other] = set(paths) - {linked}
    assert f"{other}: {'restored' if is_filled else 'deleted'}\n" in said
    assert snapshot(outside) == before
    assert ApiKey.objects.get().revoked_at is not None


def test_undo_follows_no_link_out_of_the_tools_folder(
    home: Path, repository: Path, outside: Path, team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    connect("codex", repository, capsys, "--yes")
    replace_by_link(home / ".codex", outside / "moved")
    before = snapshot(outside)
    undone = connect("codex", repository, capsys, "--undo")
    assert list(undone["files"].values()) == ["linked, left"]
    assert snapshot(outside) == before


def lead_out(repository: Path, worktree: str) -> Path:
    git(repository, "config", "core.worktree", worktree)
    return Path(os.path.realpath(repository / ".git" / worktree))


@pytest.mark.parametrize("worktree", ["../../outside", "../..", "{top}/outside", "{top}/missing"])
@pytest.mark.parametrize("start", [".", "src"])
@pytest.mark.parametrize("tool", list(TOOLS))
def test_gits_settings_do_not_lead_out(
    tool: str, start: str, worktree: str, home: Path, repository: Path, outside: Path, team: Team
) -> None:
    (repository / "src").mkdir()
    place = lead_out(repository, worktree.format(top=repository.parent))
    refuse(tool, repository / start, f"lead out of it, to {place}", home, repository, outside)
    assert place.name != "missing" or not place.exists()


def test_a_worktree_that_is_named_is_connected(
    repository: Path, outside: Path, team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    lead_out(repository, "../../outside")
    made = connect("claude", outside, capsys, "--yes")
    assert made["repository"] == str(outside)
    connect("claude", outside, capsys, "--undo")


def test_a_git_file_does_not_lead_to_another_repository(
    tmp_path: Path, home: Path, outside: Path, team: Team
) -> None:
    git(outside, "init", "-q", "--bare", "bare.git")
    write(tmp_path / "lured/.git", f"gitdir: {outside / 'bare.git'}\n")
    words = f"lead out of it, to {outside / 'bare.git'}"
    refuse("claude", tmp_path / "lured", words, home, outside, tmp_path / "lured")


def add_worktree(repository: Path, other: Path) -> Path:
    git(repository, "worktree", "add", "-q", str(other))
    return other


def add_submodule(repository: Path, other: Path) -> Path:
    make_repository(other)
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "part")
    return repository / "part"


def separate(repository: Path, other: Path) -> Path:
    git(repository, "init", "-q", "--separate-git-dir", str(other))
    return repository


@pytest.mark.parametrize("make", [add_worktree, add_submodule, separate])
@pytest.mark.parametrize("start", [".", "src"])
def test_a_git_file_of_ones_own_works(
    make: Callable[[Path, Path], Path],
    start: str,
    repository: Path,
    tmp_path: Path,
    team: Team,
    capsys: pytest.CaptureFixture[str],
) -> None:
    top = make(repository, tmp_path / "other")
    assert (top / ".git").is_file()
    (top / "src").mkdir()
    made = connect("claude", top / start, capsys, "--yes")
    assert made["repository"] == str(top)
    assert made["imported"] == 2
    assert (top / ".mcp.json").exists()


def test_the_environment_does_not_lead_to_another_repository(
    repository: Path,
    tmp_path: Path,
    team: Team,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = make_repository(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    made = connect("claude", repository, capsys, "--yes")
    assert made["repository"] == str(repository)
    assert not (other / ".mcp.json").exists()


def test_reading_leaves_no_file_open(tmp_path: Path) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    for name in ("missing", ".", "missing/deep"):
        try:
            assert read_whole(tmp_path / name) is None
        except UnusableFile:
            assert name == "."
    assert len(list(Path("/dev/fd").iterdir())) == before
