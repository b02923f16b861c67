"""Git addresses of strangers: what may be fetched, and from where."""

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from contextopt.errors import InvalidInput
from contextopt.importruns import remotes
from contextopt.importruns.remotes import (
    Place,
    check_url,
    fetched,
    find_place,
    is_public,
    resolve,
)
from contextopt.spaces.importing.git import read_commits
from contextopt.spaces.importing.rows import RawRow, UnusableSource
from tests.gitrepos import commit_files, make_git, run_git
from tests.gitserver import GitServer, serving

ALLOWED = ("localhost",)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    work = make_git(tmp_path / "work")
    for number in range(3):
        commit_files(work, f"Commit {number}", {f"file{number}.txt": "text"})
    (tmp_path / "served").mkdir()
    run_git(tmp_path, "clone", "--quiet", "--bare", str(work), str(tmp_path / "served" / "shop.git"))
    run_git(tmp_path / "served" / "shop.git", "config", "uploadpack.allowFilter", "true")
    with serving(tmp_path / "served") as found:
        yield found


def titles_of(url: str, token: str = "", limit: int | None = None) -> list[object]:
    with fetched(url, token=token, limit=limit, allowed_hosts=ALLOWED) as folder:
        return [row.fields["title"] for row in read_commits(str(folder)) if isinstance(row, RawRow)]


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc", "ssh://git@host/x", "git@github.com:a/b.git", "ext::sh -c id", "git://host/x",
        "/srv/repo",
        "ftp://host/x", "https://", "https://host:99999/x", "https://host:0/x", "http://user@host/x",
        "https://user:secret@host/x", "https://host/x?a=b", "https://host/x#y", "https://host/a b",
        "https://host/\nx", "https://host\\@evil/x", "--upload-pack=id", "", "https://host/" + "x" * 500,
    ],
)  # fmt: skip
def test_only_plain_http_addresses_are_taken(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_url(url)
    assert caught.value.problems[0].field == "url"


def test_an_address_is_taken_without_blanks() -> None:
    assert check_url(" https://git.example.com:8443/a/b.git ") == "https://git.example.com:8443/a/b.git"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("93.184.215.14", True), ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True), ("127.0.0.1", False),
        ("10.1.2.3", False), ("172.16.0.1", False), ("192.168.1.1", False), ("169.254.169.254", False),
        ("100.64.0.1", False), ("0.0.0.0", False), ("255.255.255.255", False), ("224.0.0.1", False),
        ("::1", False), ("fe80::1%eth0", False), ("fc00::1", False), ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.215.14", True),
        ("64:ff9b::7f00:1", False), ("2002:7f00:1::", False), ("::", False), ("ff02::1", False),
    ],
)  # fmt: skip
def test_only_addresses_of_the_internet_are_public(address: str, expected: bool) -> None:
    assert is_public(address) == expected


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "127.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:7f00:1]", "0"]
)
def test_a_host_of_this_machine_is_refused_however_it_is_written(host: str, server: GitServer) -> None:
    with pytest.raises(UnusableSource, match=r"private network|is not known"):
        find_place(server.url("shop.git", host), "", ())
    assert not server.asked


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(UnusableSource, match=r"'nowhere\.invalid' is not known"):
        resolve("https://nowhere.invalid/x", ())


def test_an_allowed_host_is_fetched(server: GitServer) -> None:
    assert titles_of(server.url("shop.git")) == ["Commit 2", "Commit 1", "Commit 0", "Begin"]
    assert titles_of(server.url("shop.git/"), limit=2) == ["Commit 2", "Commit 1"]
    with fetched(server.url("shop.git"), token="", limit=None, allowed_hosts=ALLOWED) as folder:
        assert folder.name == "shop.git"
        assert "url =" not in (folder / "config").read_text()
        assert not (folder / "hooks").exists()
    assert not folder.exists()


def test_a_redirect_to_another_allowed_place_is_followed(server: GitServer) -> None:
    server.redirects["/old.git"] = server.url("shop.git")
    assert len(titles_of(server.url("old.git"))) == 4


@pytest.mark.parametrize("target", ["http://127.0.0.1:{port}/shop.git", "http://169.254.169.254/latest.git"])
def test_a_redirect_into_a_private_network_is_refused_unasked(server: GitServer, target: str) -> None:
    server.redirects["/old.git"] = target.format(port=server.port)
    with pytest.raises(UnusableSource, match="private network"):
        titles_of(server.url("old.git"))
    assert [path.partition("?")[0] for path, _ in server.asked] == ["/old.git/info/refs"]


@pytest.mark.parametrize(
    "target", ["file:///etc", "http://user:secret@localhost/shop.git", "ssh://localhost/x"]
)
def test_a_redirect_to_what_is_no_plain_address_is_refused(server: GitServer, target: str) -> None:
    server.redirects["/old.git"] = target
    with pytest.raises(UnusableSource, match="not plain http"):
        titles_of(server.url("old.git"))


def test_redirects_in_a_circle_end(server: GitServer) -> None:
    server.redirects["/old.git"] = server.url("old.git")
    with pytest.raises(UnusableSource, match="redirects more than 5 times"):
        titles_of(server.url("old.git"))


def test_git_itself_follows_no_redirect_and_connects_to_the_checked_address(
    server: GitServer, tmp_path: Path
) -> None:
    # The name is unknown, so git reaches it only at the address that it is given.
    url = server.url("shop.git", "git.example.invalid")
    place = Place(url, "git.example.invalid", server.port, "127.0.0.1")
    remotes._clone(place, tmp_path / "one.git", "", None, lambda: True)
    assert (tmp_path / "one.git" / "HEAD").exists()
    server.redirects["/shop.git"] = server.url("shop.git", "127.0.0.1")
    with pytest.raises(UnusableSource, match="git: "):
        remotes._clone(place, tmp_path / "two.git", "", None, lambda: True)


def test_a_token_opens_a_private_repository_and_goes_nowhere_else(server: GitServer, tmp_path: Path) -> None:
    server.token_header = "Basic " + base64.b64encode(b"x-access-token:t0k").decode()
    with pytest.raises(UnusableSource, match="private"):
        titles_of(server.url("shop.git"))
    assert len(titles_of(server.url("shop.git"), token="t0k")) == 4
    server.token_header = ""
    with serving(tmp_path / "served") as other:
        server.redirects["/old.git"] = other.url("shop.git")
        assert len(titles_of(server.url("old.git"), token="t0k")) == 4
        assert {given for _, given in other.asked} == {""}


def test_what_is_no_repository_is_named(server: GitServer) -> None:
    with pytest.raises(UnusableSource, match=r"no git repository .* \(status 404\)"):
        titles_of(server.url("missing.git"))
    # A server of plain files could name other hosts that git should fetch from.
    server.is_dumb = True
    with pytest.raises(UnusableSource, match="no git repository"):
        titles_of(server.url("shop.git"))
    gone = server.url("shop.git")
    server.shutdown()
    server.server_close()
    with pytest.raises(UnusableSource, match="does not answer"):
        titles_of(gone)


def test_a_fetch_ends_when_it_is_not_wanted_or_too_large(
    server: GitServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(remotes, "WATCH_SECONDS", 0.0)
    place = resolve(server.url("shop.git"), ALLOWED)
    with pytest.raises(UnusableSource, match="cancelled"):
        remotes._clone(place, tmp_path / "one.git", "", None, lambda: False)
    for scope in (remotes.HISTORY, remotes.FILES):
        with pytest.raises(UnusableSource, match=r"larger than (?:1 GB|200 MB)"):
            remotes._clone(
                place,
                tmp_path / f"{scope.bytes_max}.git",
                "",
                None,
                lambda: True,
                replace(scope, bytes_max=-1),
            )
