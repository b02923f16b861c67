"""`contextopt connect TOOL --gateway` against the running product and a gateway with a local provider."""

import json
import re
import stat
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from pytest_django.live_server_helper import LiveServer

from contextopt.people.connectcodes import make_code
from contextopt.people.inputs import CodeIn
from contextopt.people.models import ApiKey, Team, User
from contextopt.spaces.models import Space
from tests.clients.connect.conftest import snapshot, write
from tests.clients.connect.test_command import Run, code, person, refuse, run, team
from tests.gateway_upstream import Answer, Got, Upstream, respond_well, whole

__all__ = ["code", "person", "run", "team"]
TOOLS = ["claude", "codex", "opencode", "aider"]
PASSED = {"X-Contextopt-Status": "audit"}


def pass_on(got: Got) -> Answer:
    """Answer as the gateway does after it has passed a prompt on."""
    if not got.headers.get("x-contextopt-key", "").startswith("ctx_"):
        return whole({"error": {"message": "Send a Contextopt API key."}}, 401)
    answer = respond_well(got)
    return Answer(answer.pieces, headers=[*answer.headers, *PASSED.items()], is_chunked=answer.is_chunked)


@pytest.fixture
def gateway(settings: object) -> Iterator[Upstream]:
    with Upstream(pass_on) as upstream:
        settings.GATEWAY_HOST, settings.GATEWAY_PORT = "127.0.0.1", upstream.port  # type: ignore[attr-defined]
        settings.LLM_BASE_URL = settings.ANTHROPIC_BASE_URL = "http://127.0.0.1:9"  # type: ignore[attr-defined]
        yield upstream


def fill_files(home: Path) -> None:
    """Give the file of every tool other content, with comments where the format has them."""
    write(home / ".claude/settings.json", '{\n  "env": {"FOO": "bar"},\n  "model": "opus"\n}')
    write(home / ".codex/config.toml", '# mine\nmodel = "m"\n\n[model_providers.other] # theirs\nname = "o"')
    write(home / ".config/opencode/opencode.jsonc", '{\r\n\t// mine\r\n\t"theme": "dark",\r\n}\r\n')
    write(home / ".aider.conf.yml", "# mine\ndark-mode: true")
    write(home / ".aider.model.settings.yml", "- name: gpt-4o\n  edit_format: diff\n")
    for name in (".claude/settings.json", ".aider.conf.yml"):
        (home / name).chmod(0o640)


def modes(folder: Path) -> dict[str, int]:
    return {str(path): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def connect_codex(
    run: Run, live_server: LiveServer, gateway: Upstream, team: Team, person: User, space: Space
) -> Callable[..., None]:
    """Connect Codex with a code of its own."""

    def connect_with(*options: str) -> None:
        text = make_code(team=team, user=person, data=CodeIn(space=space.slug))[1]
        ran = run("connect", "codex", *options, "--url", live_server.url, "--code", text, "--yes")
        assert ran.returncode == 0, ran.stderr

    return connect_with


def connect(run: Run, server: LiveServer, tool: str, code: str) -> str:
    ran = run("connect", tool, "--gateway", "--url", server.url, "--code", code, "--yes")
    assert ran.returncode == 0, ran.stderr
    assert "ctx_" not in ran.stdout + ran.stderr.replace("ctx_…", "")
    return ran.stdout


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("is_filled", [False, True])
def test_undo_restores_every_byte_and_mode(
    tool: str,
    is_filled: bool,
    run: Run,
    live_server: LiveServer,
    gateway: Upstream,
    code: str,
    home: Path,
    repository: Path,
) -> None:
    if is_filled:
        fill_files(home)
    before, before_modes = snapshot(home, repository), modes(home)
    told = connect(run, live_server, tool, code)
    assert "A prompt passed the gateway, and the provider answered it (audit)." in told
    [got] = gateway.got
    assert got.headers["x-contextopt-space"] == "support"
    after, key = snapshot(home, repository), ApiKey.objects.get()
    changed = {path for path in after if after[path] != before.get(path)}
    secret = next(after[path] for path in changed if path.endswith(".key")).strip()
    # Nothing is written into the repository, and only the person can read a file with the key.
    assert not [path for path in changed if path.startswith(str(repository))]
    for path in (path for path in after if secret in after[path]):
        assert modes(home)[path] == 0o600
    if is_filled:
        assert b"# mine" in after[str(home / ".codex/config.toml")]
    undone = run("connect", tool, "--undo")
    assert undone.returncode == 0, undone.stderr
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert (snapshot(home, repository), modes(home)) == (before, before_modes)


def test_what_each_tool_reads(
    run: Run, live_server: LiveServer, gateway: Upstream, code: str, home: Path, space: Space
) -> None:
    fill_files(home)
    connect(run, live_server, "claude", code)
    settings = json.loads((home / ".claude/settings.json").read_text())
    assert settings["env"]["ANTHROPIC_BASE_URL"] == gateway.base_url
    [key, named] = settings["env"]["ANTHROPIC_CUSTOM_HEADERS"].split("\n")
    assert re.fullmatch(r"X-Contextopt-Key: ctx_\S+", key) and named == f"X-Contextopt-Space: {space.slug}"
    assert settings["env"]["FOO"] == "bar"


def test_codex_gets_a_provider_of_its_own(
    run: Run, live_server: LiveServer, gateway: Upstream, code: str, home: Path
) -> None:
    fill_files(home)
    connect(run, live_server, "codex", code)
    config = tomllib.loads((home / ".codex/config.toml").read_text())
    assert (config["model"], config["model_provider"]) == ("m", "contextopt")
    provider = config["model_providers"]["contextopt"]
    assert provider["base_url"] == f"{gateway.base_url}/v1" and provider["wire_api"] == "responses"
    assert set(provider["http_headers"]) == {"X-Contextopt-Key", "X-Contextopt-Space"}
    assert config["model_providers"]["other"] == {"name": "o"}


def test_opencode_reads_the_key_from_its_file(
    run: Run, live_server: LiveServer, gateway: Upstream, code: str, home: Path, settings: object
) -> None:
    settings.LLM_BASE_URL = ""  # type: ignore[attr-defined]
    connect(run, live_server, "opencode", code)
    config = json.loads((home / ".config/opencode/opencode.json").read_text())
    # The gateway has no provider for the other one.
    assert list(config["provider"]) == ["anthropic"]
    options = config["provider"]["anthropic"]["options"]
    assert options["baseURL"] == f"{gateway.base_url}/v1"
    [file] = (home / ".config/contextopt/connections").glob("*.key")
    assert options["headers"]["X-Contextopt-Key"] == f"{{file:{file}}}"


def test_aider_gets_an_address_and_headers(
    run: Run, live_server: LiveServer, gateway: Upstream, code: str, home: Path
) -> None:
    fill_files(home)
    connect(run, live_server, "aider", code)
    options = yaml.safe_load((home / ".aider.conf.yml").read_text())
    assert options == {"dark-mode": True, "openai-api-base": f"{gateway.base_url}/v1"}
    [own, added] = yaml.safe_load((home / ".aider.model.settings.yml").read_text())
    assert own == {"name": "gpt-4o", "edit_format": "diff"}
    assert added["name"] == "aider/extra_params"
    assert added["extra_params"]["extra_headers"]["X-Contextopt-Space"] == "support"


@pytest.mark.parametrize(
    ("tool", "name", "text", "words"),
    [
        ("claude", ".claude/settings.json", '{"env": {"ANTHROPIC_BASE_URL": "x"}}', "already has another"),
        ("codex", ".codex/config.toml", 'model_provider = "x"\n', "already has a part of this"),
        ("codex", ".codex/config.toml", '[model_providers]\na = {name = "x"}\n', "already has a part"),
        ("aider", ".aider.conf.yml", "openai-api-base: x\n", "already has a part of this"),
        ("aider", ".aider.conf.yml", "{dark-mode: true}\n", "has another shape"),
        ("aider", ".aider.model.settings.yml", "- name: aider/extra_params\n", "already has a part"),
        ("aider", ".aider.model.settings.yml", "name: x\n", "has another shape"),
    ],
)
def test_a_file_that_says_so_already_costs_no_code(
    tool: str,
    name: str,
    text: str,
    words: str,
    run: Run,
    live_server: LiveServer,
    gateway: Upstream,
    code: str,
    home: Path,
) -> None:
    write(home / name, text)
    before = snapshot(home)
    refuse(run, words, tool, "--gateway", "--url", live_server.url, "--code", code, "--yes")
    assert snapshot(home) == before and not ApiKey.objects.exists()


@pytest.mark.parametrize("name", [".claude", ".claude/settings.json"])
def test_a_link_out_of_the_configuration_is_not_followed(
    name: str, run: Run, live_server: LiveServer, gateway: Upstream, code: str, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (home / name).parent.mkdir(exist_ok=True)
    (home / name).symlink_to(tmp_path / "outside")
    options = ["--gateway", "--url", live_server.url, "--code", code, "--yes"]
    refuse(run, f"leads through a link to {tmp_path / 'outside'}", "claude", *options)
    assert not list((tmp_path / "outside").iterdir())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (whole({"error": {"message": "X-Contextopt-Key has expired."}}, 401), "X-Contextopt-Key has expired"),
        (whole(b"<html>a proxy</html>"), "did not pass a prompt: 200"),
        (whole({}, 502), "did not pass a prompt: 502"),
    ],
)
def test_nothing_is_written_unless_a_prompt_passes(
    answer: Answer,
    words: str,
    run: Run,
    live_server: LiveServer,
    gateway: Upstream,
    code: str,
    home: Path,
) -> None:
    gateway.respond = lambda _: answer
    before = snapshot(home)
    options = ["--gateway", "--url", live_server.url, "--code", code, "--yes"]
    refuse(run, words, "claude", *options)
    assert snapshot(home) == before
    assert ApiKey.objects.get().revoked_at is not None


def test_a_provider_that_wants_its_own_key_was_reached(
    run: Run, live_server: LiveServer, gateway: Upstream, code: str
) -> None:
    gateway.respond = lambda _: Answer([b"{}"], status=401, headers=[*PASSED.items()], is_chunked=False)
    assert "The provider answered 401" in connect(run, live_server, "codex", code)


def test_a_gateway_without_a_provider(
    run: Run, live_server: LiveServer, gateway: Upstream, code: str, home: Path, settings: object
) -> None:
    settings.ANTHROPIC_BASE_URL = ""  # type: ignore[attr-defined]
    options = ["--gateway", "--url", live_server.url, "--code", code, "--yes"]
    refuse(run, "has no provider for Claude Code", "claude", *options)
    assert not gateway.got and ApiKey.objects.get().revoked_at is not None


def test_what_cannot_be_asked_for(run: Run, live_server: LiveServer, code: str) -> None:
    options = ["--url", live_server.url, "--code", code, "--yes"]
    refuse(run, "--gateway: is needed, since aider has no hooks", "aider", *options)
    refuse(run, "--gateway: is not available for Cursor", "cursor", "--gateway", *options)
    refuse(run, "aider is not connected to the gateway", "aider", "--undo")
    refuse(run, "Claude Code is not connected to the gateway", "claude", "--gateway", "--undo")
    refuse(run, "Claude Code is not connected here", "claude", "--undo")


def test_undo_after_other_changes_removes_ours_alone(
    run: Run, live_server: LiveServer, gateway: Upstream, code: str, home: Path
) -> None:
    fill_files(home)
    connect(run, live_server, "codex", code)
    file = home / ".codex/config.toml"
    file.write_text(f"{file.read_text()}\n[later]\nx = 1\n")
    assert "ours removed" in run("connect", "codex", "--undo").stdout
    rest = tomllib.loads(file.read_text())
    assert rest == {"model": "m", "model_providers": {"other": {"name": "o"}}, "later": {"x": 1}}


@pytest.mark.parametrize("is_gateway_first", [False, True])
@pytest.mark.parametrize("is_filled", [False, True])
def test_both_connections_of_a_tool_are_undone_together(
    is_gateway_first: bool,
    is_filled: bool,
    run: Run,
    connect_codex: Callable[..., None],
    home: Path,
    repository: Path,
) -> None:
    if is_filled:
        fill_files(home)
    before = snapshot(home, repository)
    for options in sorted([[], ["--gateway"]], reverse=is_gateway_first):
        connect_codex(*options)
    assert [row["repository"] for row in json.loads(run("status", "--json").stdout)] == [str(repository), ""]
    assert run("connect", "codex", "--undo").returncode == 0
    assert snapshot(home, repository) == before
    assert not ApiKey.objects.usable().exists()


def test_each_connection_of_a_tool_can_be_undone_alone(
    run: Run, connect_codex: Callable[..., None], home: Path, repository: Path
) -> None:
    before = snapshot(home, repository)
    connect_codex("--gateway")
    connect_codex()
    assert run("connect", "codex", "--gateway", "--undo").returncode == 0
    config = tomllib.loads((home / ".codex/config.toml").read_text())
    assert "model_provider" not in config and "contextopt" in config["mcp_servers"]
    assert run("connect", "codex", "--undo").returncode == 0
    assert snapshot(home, repository) == before
