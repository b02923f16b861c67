import json
import stat
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_FSIZE, getrlimit, setrlimit

import pytest
from contextopt_connect.codingagents import TOOLS
from contextopt_connect.connections import connection_file, plan_connection
from contextopt_connect.errors import UnusableFile
from django.core.management import CommandError, call_command

from contextopt.management.commands.connect import make_connection
from contextopt.people.models import ApiKey, AuditEvent, Team
from contextopt.spaces.models import Record, Space
from tests.clients.connect.conftest import connect, make_repository, snapshot, write

pytestmark = pytest.mark.django_db

EVENTS = ["SessionStart", "UserPromptSubmit", "PreCompact", "Stop"]


def fill_files(home: Path, repository: Path) -> None:
    """Give every file of every tool other content, with comments where the format has them."""
    write(repository / ".mcp.json", '{"mcpServers": {"other": {"command": "x"}}}')
    write(
        repository / ".claude/settings.local.json",
        '{\n    "permissions": {"allow": ["Bash"]},\n    "hooks": {\n        "Stop": [{"hooks": []}]\n'
        "    }\n}\n",
    )
    write(home / ".codex/config.toml", '# mine\nmodel = "m"\n\n[mcp_servers.other] # theirs\ncommand = "x"')
    write(repository / ".cursor/mcp.json", '{\r\n\t"mcpServers": {} // none yet\r\n}\r\n')
    write(
        repository / ".cursor/hooks.json", '{\n  "version": 1,\n  "hooks": {"stop": [{"command": "x"}]},\n}\n'
    )


@pytest.mark.parametrize("tool", list(TOOLS))
@pytest.mark.parametrize("is_filled", [False, True])
def test_undo_restores_every_byte(
    tool: str,
    is_filled: bool,
    home: Path,
    repository: Path,
    team: Team,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if is_filled:
        fill_files(home, repository)
    before = snapshot(home, repository)
    made = connect(tool, repository, capsys, "--yes")
    assert made["written"] and snapshot(home, repository) != before
    undone = connect(tool, repository, capsys, "--undo")
    assert set(undone["files"].values()) == {"restored" if is_filled else "deleted"}
    assert snapshot(home, repository) == before
    assert not connection_file(tool, repository).parent.exists()
    assert not (repository / ".claude").exists() or is_filled
    assert ApiKey.objects.get().revoked_at is not None


@pytest.mark.parametrize("tool", list(TOOLS))
def test_everything_else_stays_in_the_files(
    tool: str, home: Path, repository: Path, team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_files(home, repository)
    before = snapshot(home, repository)
    made = connect(tool, repository, capsys, "--yes")
    for each in made["files"]:
        old, now = before[each["path"]].decode(), Path(each["path"]).read_bytes().decode()
        assert "contextopt" in now
        # Whatever was there is still there, in its order.
        rest = iter(now)
        assert all(letter in rest for letter in old)
        for comment in ("# mine", "# theirs", "// none yet"):
            assert (comment in old) == (comment in now)


@pytest.mark.parametrize("tool", list(TOOLS))
def test_undo_after_other_changes_removes_ours_alone(
    tool: str, home: Path, repository: Path, team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_files(home, repository)
    made = connect(tool, repository, capsys, "--yes")
    for each in made["files"]:
        path = Path(each["path"])
        text = path.read_text()
        path.write_text(
            f"{text}\n[later]\nx = 1\n" if path.suffix == ".toml" else text.replace("{", '{"later": 1,', 1)
        )
    undone = connect(tool, repository, capsys, "--undo")
    assert set(undone["files"].values()) == {"ours removed"}
    for each in made["files"]:
        rest = Path(each["path"]).read_text()
        assert "later" in rest and "contextopt" not in rest
        if each["path"].endswith(".toml"):
            assert tomllib.loads(rest)["mcp_servers"] == {"other": {"command": "x"}}


def test_an_entry_that_was_changed_is_left(
    repository: Path, team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    connect("claude", repository, capsys, "--yes")
    path = repository / ".mcp.json"
    path.write_text(path.read_text().replace("/mcp", "/other"))
    undone = connect("claude", repository, capsys, "--undo")
    assert undone["files"][str(path)] == "changed, left"


def test_claude_code_gets_its_server_and_hooks(
    home: Path, repository: Path, team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    made = connect("claude", repository, capsys, "--yes", "--url", "https://contextopt.example.com/")
    server = json.loads((repository / ".mcp.json").read_text())["mcpServers"]["contextopt"]
    assert (server["type"], server["url"]) == ("http", "https://contextopt.example.com/mcp")
    # The file may be committed, so it names no folder of this machine.
    assert str(home) not in (repository / ".mcp.json").read_text()
    assert server["headersHelper"].endswith('contextopt/contextopt_connect/hook.py" headers claude')
    hooks = json.loads((repository / ".claude/settings.local.json").read_text())["hooks"]
    assert list(hooks) == [*EVENTS, "PostToolUseFailure", "PostToolUse"]
    for groups in hooks.values():
        [group] = groups
        [hook] = group["hooks"]
        assert set(hook) == {"type", "command", "timeout"} and hook["type"] == "command"
    assert hooks["PostToolUseFailure"][0]["matcher"] == "Bash"
    assert made["space"] == "my-shop"


def test_codex_gets_its_server_and_hooks(
    home: Path, repository: Path, team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    connect("codex", repository, capsys, "--yes")
    config = tomllib.loads((home / ".codex/config.toml").read_text())
    server = config["mcp_servers"]["contextopt"]
    assert list(server) == ["command", "args"]
    assert server["args"][-2:] == [str(home / ".config/contextopt/contextopt_connect/bridge.py"), "codex"]
    assert list(config["hooks"]) == EVENTS
    [hook] = config["hooks"]["Stop"][0]["hooks"]
    assert (hook["type"], hook["timeout"]) == ("command", 10)
    assert "hook.py answer codex" in hook["command"]


@pytest.mark.parametrize("tool", ["claude", "codex"])
def test_a_hook_may_wait_longer(
    tool: str, home: Path, repository: Path, team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tool gives it more time then, so that it can say that nobody answered."""
    made = connect(tool, repository, capsys, "--yes", "--timeout", "12.5")
    stored = json.loads(Path(made["key_file"]).with_suffix(".json").read_text())
    assert stored["timeout_seconds"] == 12.5
    name = ".codex/config.toml" if tool == "codex" else ".claude/settings.local.json"
    text = ((home if tool == "codex" else repository) / name).read_text()
    read = tomllib.loads if tool == "codex" else json.loads
    assert read(text)["hooks"]["UserPromptSubmit"][0]["hooks"][0]["timeout"] == 18


@pytest.mark.parametrize("seconds", ["0", "-1", "31", "nan"])
def test_no_hook_waits_for_ever(seconds: str, repository: Path, team: Team) -> None:
    with pytest.raises(CommandError, match="--timeout: must be from"):
        call_command("connect", "claude", "--repository", str(repository), "--yes", f"--timeout={seconds}")
    assert not (repository / ".mcp.json").exists()


def test_codex_keeps_hooks_in_the_file_that_has_them(
    home: Path, repository: Path, team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    write(home / ".codex/hooks.json", '{"hooks": {}}')
    before = snapshot(home)
    connect("codex", repository, capsys, "--yes")
    assert "hooks" not in tomllib.loads((home / ".codex/config.toml").read_text())
    assert list(json.loads((home / ".codex/hooks.json").read_text())["hooks"]) == EVENTS
    connect("codex", repository, capsys, "--undo")
    assert snapshot(home) == before


def test_codex_serves_two_repositories_by_one_entry(
    home: Path, repository: Path, tmp_path: Path, team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_repository(tmp_path / "other")
    before = snapshot(home)
    connect("codex", repository, capsys, "--yes")
    alone = (home / ".codex/config.toml").read_bytes()
    connect("codex", other, capsys, "--yes")
    assert (home / ".codex/config.toml").read_bytes() == alone
    assert connect("codex", repository, capsys, "--undo")["files"] == {}
    assert (home / ".codex/config.toml").read_bytes() == alone
    assert list(connect("codex", other, capsys, "--undo")["files"].values()) == ["deleted"]
    assert snapshot(home) == before


def test_cursor_gets_its_server_and_hooks(
    repository: Path, team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    connect("cursor", repository, capsys, "--yes")
    server = json.loads((repository / ".cursor/mcp.json").read_text())["mcpServers"]["contextopt"]
    assert server["headers"] == {"Authorization": "Bearer ${env:CONTEXTOPT_KEY}"}
    hooks = json.loads((repository / ".cursor/hooks.json").read_text())
    assert hooks["version"] == 1
    assert list(hooks["hooks"]) == ["sessionStart", "afterAgentResponse"]
    assert all(set(hook) == {"command"} for groups in hooks["hooks"].values() for hook in groups)


@pytest.mark.parametrize("tool", list(TOOLS))
def test_the_secret_is_in_its_own_file_alone(
    tool: str, home: Path, repository: Path, team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    made = connect(tool, repository, capsys, "--yes")
    file = Path(made["key_file"])
    secret = file.read_text().strip()
    assert secret.startswith("ctx_")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    holders = [path for path, content in snapshot(home, repository).items() if secret.encode() in content]
    assert holders == [str(file)]
    assert secret not in json.dumps(made)
    key = ApiKey.objects.get()
    assert (key.scope, key.name.endswith(": My Shop")) == ("write", True)
    assert AuditEvent.objects.filter(action="key.created").count() == 1


def test_the_space_is_filled_with_the_commits(
    repository: Path, team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    assert connect("claude", repository, capsys, "--yes")["imported"] == 2
    assert Space.objects.get().slug == "my-shop"
    assert set(Record.objects.values_list("title", flat=True)) == {
        "Free the queue's lock before a deploy",
        "Round prices at the end",
    }
    # A space with records is left as it is.
    assert connect("cursor", repository, capsys, "--yes", "--space", "my-shop")["imported"] == 0


class Terminal:
    """A person who gives these answers and then presses Ctrl-C."""

    def __init__(self, *answers: str) -> None:
        self.answers = iter(answers)

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        for answer in self.answers:
            return answer
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("answers", "told"),
    [([], "Interrupted; nothing was changed."), (["y\n"], "Interrupted. The tool is connected. Import the ")],
)
def test_an_interrupted_command_says_whether_it_connected(
    repository: Path,
    team: Team,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answers: list[str],
    told: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(*answers))
    with pytest.raises(SystemExit, match="130"):
        call_command("connect", "claude", "--repository", str(repository))
    assert told in capsys.readouterr().err
    assert ApiKey.objects.exists() is bool(answers)


def test_a_folder_of_any_name_is_connected(tmp_path: Path, home: Path, team: Team) -> None:
    folder = tmp_path / "My\nShop"
    folder.mkdir()
    call_command("connect", "claude", "--repository", str(folder), "--yes")
    assert ApiKey.objects.get().name == "Claude Code: My Shop"


def test_without_yes_nothing_happens(
    home: Path, repository: Path, team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(home, repository)
    planned = connect("claude", repository, capsys)
    assert not planned["written"]
    assert [Path(each["path"]).name for each in planned["files"]] == [".mcp.json", "settings.local.json"]
    with pytest.raises(CommandError, match="--yes: is required when the command cannot ask"):
        call_command("connect", "claude", "--repository", str(repository))
    assert snapshot(home, repository) == before
    assert not ApiKey.objects.exists() and not Space.objects.exists()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (".mcp.json", "{oops", "is not valid JSON"),
        (".mcp.json", '{"mcpServers": []}', "has no object at mcpServers"),
        (".mcp.json", '{"mcpServers": {"contextopt": {"url": "x"}}}', "already has another"),
        (".claude/settings.local.json", '{"hooks": {"Stop": 1}}', "has something else at hooks.Stop"),
    ],
)
def test_a_file_that_cannot_be_changed_stops_everything(
    name: str, text: str, words: str, home: Path, repository: Path, team: Team
) -> None:
    write(repository / name, text)
    before = snapshot(home, repository)
    with pytest.raises(CommandError, match=words):
        call_command("connect", "claude", "--repository", str(repository), "--yes")
    assert snapshot(home, repository) == before
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model = ", "is not valid TOML"),
        ('mcp_servers = {other = {command = "x"}}\n', "already has a part of this"),
        ('[mcp_servers.contextopt]\nurl = "x"\n', "already has a part of this"),
    ],
)
def test_a_toml_file_that_cannot_be_changed(
    text: str, words: str, home: Path, repository: Path, team: Team
) -> None:
    write(home / ".codex/config.toml", text)
    with pytest.raises(CommandError, match=words):
        call_command("connect", "codex", "--repository", str(repository), "--yes")
    assert (home / ".codex/config.toml").read_text() == text


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--url", "ftp://x"),
        ("--url", "x"),
        ("--url", "http://a:b@x"),
        ("--url", "http://["),
        ("--url", "http://x:99999"),
        ("--url", "http://x:port"),
        ("--url", "http://x/#part"),
        ("--url", "http://x/?a=b"),
        ("--url", "http://x y"),
        ("--url", "http://x\ny"),
        ("--url", "http://x/\udcff"),
        ("--space", "a b"),
        ("--repository", "/no"),
    ],
)
def test_an_unusable_call(option: str, value: str, repository: Path, team: Team) -> None:
    with pytest.raises(CommandError, match=option):
        call_command("connect", "claude", "--repository", str(repository), option, value, "--yes")


def test_connecting_twice_and_undoing_nothing(
    repository: Path, team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandError, match="Claude Code is not connected here"):
        call_command("connect", "claude", "--repository", str(repository), "--undo")
    connect("claude", repository, capsys, "--yes")
    with pytest.raises(CommandError, match="already connected"):
        call_command("connect", "claude", "--repository", str(repository), "--yes")


@pytest.mark.parametrize(
    ("unwritable", "words"),
    [
        ("key", "Is a directory"),
        ("connection", "File too large"),
        ("settings", "has changed in the meantime"),
    ],
)
def test_a_failing_write_takes_everything_back(
    home: Path, repository: Path, team: Team, unwritable: str, words: str
) -> None:
    plan = plan_connection(tool=TOOLS["claude"], repository=repository, url="http://127.0.0.1", space="")
    if unwritable == "key":
        plan.key_file.mkdir(parents=True)
    elif unwritable == "settings":
        write(repository / ".claude/settings.local.json", "{}")
    before = snapshot(home, repository)
    size = 100 if unwritable == "connection" else RLIM_INFINITY
    with largest_file(size), pytest.raises(UnusableFile, match=words):
        make_connection(plan, team)
    assert snapshot(home, repository) == before
    assert ApiKey.objects.get().revoked_at is not None


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let no file grow beyond so many bytes, as on a full disk."""
    soft, hard = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        setrlimit(RLIMIT_FSIZE, (soft, hard))
