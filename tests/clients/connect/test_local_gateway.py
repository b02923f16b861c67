"""`manage.py connect TOOL --gateway` on the server's own machine."""

from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from contextopt.people.models import ApiKey, Team
from contextopt.spaces.models import Space
from tests.clients.connect.conftest import connect, snapshot
from tests.clients.connect.test_gateways import TOOLS, fill_files, gateway, modes
from tests.gateway_upstream import Upstream, whole

__all__ = ["gateway"]
pytestmark = pytest.mark.django_db
GATEWAY = ("--gateway", "--space", "shop")


@pytest.mark.parametrize("tool", TOOLS)
def test_undo_restores_every_byte_and_mode_and_revokes_the_key(
    tool: str,
    home: Path,
    repository: Path,
    team: Team,
    gateway: Upstream,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill_files(home)
    before, before_modes = snapshot(home, repository), modes(home)
    planned = connect(tool, repository, capsys, *GATEWAY)
    assert (planned["written"], len(planned["files"]) > 0) == (False, True)
    assert "shop" in str(planned["files"])
    assert snapshot(home, repository) == before
    assert not ApiKey.objects.exists()
    made = connect(tool, repository, capsys, *GATEWAY, "--yes")
    assert (made["written"], made["space"], made["url"]) == (
        True,
        "shop",
        gateway.base_url.removesuffix("/v1"),
    )
    key = ApiKey.objects.get()
    assert key.space_ids == [Space.objects.get(slug="shop").pk]
    [got] = gateway.got
    secret = got.headers["x-contextopt-key"]
    assert secret not in str(made)
    after = snapshot(home, repository)
    assert not [
        path for path in after if path.startswith(str(repository)) and after[path] != before.get(path)
    ]
    assert {modes(home)[path] for path in after if secret.encode() in after[path]} == {0o600}
    with pytest.raises(CommandError, match="already connected to the gateway"):
        call_command("connect", tool, *GATEWAY, "--yes")
    connect(tool, repository, capsys, "--gateway", "--undo")
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert (snapshot(home, repository), modes(home)) == (before, before_modes)


def test_undo_without_an_option_ends_both_connections(
    home: Path, repository: Path, team: Team, gateway: Upstream, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(home, repository)
    connect("claude", repository, capsys, "--yes")
    connect("claude", repository, capsys, *GATEWAY, "--yes")
    call_command("connect", "claude", "--repository", str(repository), "--undo")
    told = capsys.readouterr().out
    assert "Claude Code is no longer connected to the gateway. Its key is revoked." in told
    assert "Claude Code is no longer connected. Its key is revoked." in told
    assert snapshot(home, repository) == before
    assert not ApiKey.objects.filter(revoked_at=None).exists()


def test_a_gateway_that_passes_nothing_costs_no_key_and_changes_no_file(
    home: Path, team: Team, gateway: Upstream, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(home)
    gateway.respond = lambda _: whole({"error": {"message": "No provider."}}, 503)
    with pytest.raises(CommandError, match="did not pass a prompt: No provider"):
        call_command("connect", "codex", *GATEWAY, "--yes")
    assert snapshot(home) == before
    assert not ApiKey.objects.filter(revoked_at=None).exists()


def test_calls_that_cannot_be_done_name_the_option(
    home: Path, repository: Path, team: Team, gateway: Upstream, settings: Any
) -> None:
    for arguments, problem in (
        (("claude", "--gateway", "--yes"), "--space: is needed with --gateway"),
        (("cursor", *GATEWAY, "--yes"), "--gateway: is not available for Cursor"),
        (("aider", "--yes"), "--gateway: is needed, since aider has no hooks"),
        (("aider", "--gateway", "--undo"), "aider is not connected to the gateway"),
        (("claude", "--gateway", "--space", "No Slug", "--yes"), "--space"),
    ):
        with pytest.raises(CommandError, match=problem):
            call_command("connect", *arguments, "--repository", str(repository))
    settings.GATEWAY_PORT = None
    with pytest.raises(CommandError, match="The gateway is off"):
        call_command("connect", "claude", *GATEWAY, "--yes")
    assert not Space.objects.filter(slug="shop").exists()
    assert not ApiKey.objects.exists()
