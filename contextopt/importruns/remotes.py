"""Fetches a git repository from another machine, without following it anywhere else.

The address comes from a person who may not see our network. So every host name is resolved here, private
addresses are refused, and git connects to the address that was checked, whatever the name resolves to later.
Redirects are followed here, one by one, and git follows none.
"""

import base64
import contextlib
import http.client
import ipaddress
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from django.http.request import validate_host

from contextopt.engine.code.graph.parsing import MAX_BYTES
from contextopt.errors import InvalidInput
from contextopt.spaces.importing.archives import PACKED_BYTES_MAX
from contextopt.spaces.importing.git import git_environment, git_line
from contextopt.spaces.importing.rows import UnusableSource

URL_MAX = 500
REDIRECTS_MAX = 5
CONNECT_SECONDS = 10
FETCH_SECONDS = 600
FETCH_BYTES_MAX = 2**30
WATCH_SECONDS = 0.5
PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f-\xa0\\]")
_PROXIES = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}
# Everything that a setting, a server or a repository could make git do besides fetching from one address.
FETCH_OPTIONS = (
    "http.followRedirects=false", "http.proxy=", "http.cookieFile=", "http.saveCookies=false",
    "http.lowSpeedLimit=1000", "http.lowSpeedTime=60", "credential.helper=", "core.askPass=",
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "protocol.allow=never", "protocol.http.allow=always",
    "protocol.https.allow=always", "transfer.bundleURI=false", "fetch.uriProtocols=",
    "submodule.recurse=false", "fetch.recurseSubmodules=false", "init.templateDir=",
    "lfs.fetchexclude=*", "gc.auto=0",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scope:
    """The parts of a repository to fetch: git's filter of objects, and a limit of the size."""

    filter: str
    bytes_max: int
    too_large: str


HISTORY = Scope(
    "blob:none",
    FETCH_BYTES_MAX,
    f"the history is larger than {FETCH_BYTES_MAX // 2**30} GB; fetch only the newest commits",
)
# Git leaves out files of this size and above.
FILES = Scope(
    f"blob:limit={MAX_BYTES + 1}",
    PACKED_BYTES_MAX,
    f"the repository's files are larger than {PACKED_BYTES_MAX // 2**20} MB; fetch fewer commits, or index "
    "a clone on the server with index_repo",
)


@dataclass(frozen=True, slots=True)
class Place:
    """A web address with the network address that its host name was resolved to."""

    url: str
    host: str
    port: int
    address: str

    @property
    def is_secure(self) -> bool:
        return self.url.startswith("https:")


def check_url(text: str) -> str:
    """Return a git address that may be fetched, without blanks around it.

    Raises:
        InvalidInput: it is not http or https, or has a user, a password or a query.
    """
    url = text.strip()
    parts = _split(url)
    if parts is None or _UNPRINTABLE.search(url) or len(url) > URL_MAX:
        raise InvalidInput.of("url", "must be an address such as https://git.example.com/team/project.git")
    if "@" in parts.netloc:
        raise InvalidInput.of("url", "must not contain a user or password; use the field for a token")
    if parts.query or parts.fragment:
        raise InvalidInput.of("url", "must not contain ? or #")
    return url


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        # Reading the port checks it.
        is_plain = parts.scheme in PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if is_plain else None


def resolve(url: str, allowed_hosts: Collection[str]) -> Place:
    """Resolve the host of an address, once.

    Raises:
        UnusableSource: the name is unknown, or one of its addresses is not a public one. The hosts in
            `allowed_hosts` may have any address.
    """
    parts = _split(url)
    if parts is None or "@" in parts.netloc or _UNPRINTABLE.search(url):
        raise UnusableSource("the repository refers to an address that is not plain http or https")
    host = parts.hostname or ""
    port = parts.port or PORTS[parts.scheme]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UnusableSource(f"the host {host!r} is not known") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    named = f"[{host}]" if ":" in host else host
    if not validate_host(named, allowed_hosts) and not all(map(is_public, addresses)):
        raise UnusableSource(f"the host {host!r} is in a private network; IMPORT_ALLOWED_HOSTS can allow it")
    return Place(url, host, port, addresses[0])


def is_public(address: str) -> bool:
    """Return whether an address is one of the internet's, also behind a form that wraps another address."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is None and ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
    return ip.is_global and not ip.is_multicast


def find_place(url: str, token: str, allowed_hosts: Collection[str]) -> tuple[Place, str]:
    """Follow the redirects of a repository's address; return where it is, and the token if it may have it.

    The token goes to the first host alone.

    Raises:
        UnusableSource: there is no repository that may be read, or a redirect leads to a private network.
    """
    first = place = resolve(url.rstrip("/"), allowed_hosts)
    for _ in range(REDIRECTS_MAX + 1):
        if (place.host, place.port, place.is_secure) != (first.host, first.port, first.is_secure):
            token = ""
        status, location, kind = _ask(place, token)
        if status in {301, 302, 303, 307, 308} and location:
            target = urljoin(f"{place.url}/info/refs", location)
            parts = urlsplit(target)
            path = parts.path.removesuffix("/info/refs")
            if path == parts.path:
                raise UnusableSource("the address redirects to something that is not a repository")
            place = resolve(urlunsplit((parts.scheme, parts.netloc, path, "", "")), allowed_hosts)
        elif status == 200 and kind.startswith("application/x-git-upload-pack-advertisement"):
            return place, token
        elif status in {401, 403}:
            raise UnusableSource("the repository is private, or the token does not open it")
        else:
            raise UnusableSource(f"there is no git repository at this address (status {status})")
    raise UnusableSource(f"the address redirects more than {REDIRECTS_MAX} times")


def _ask(place: Place, token: str) -> tuple[int, str, str]:
    """Ask for a repository's references; return the status, where it redirects to, and the content type."""
    path = f"{urlsplit(place.url).path}/info/refs?service=git-upload-pack"
    headers = {"User-Agent": "git/2.39", "Accept": "*/*", "Connection": "close"}
    if token:
        headers["Authorization"] = _authorization(token)
    connection = _PinnedConnection(place)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Location", ""), answer.getheader("Content-Type", "")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise UnusableSource(f"the host {place.host!r} does not answer: {error}") from error
    finally:
        connection.close()


class _PinnedConnection(http.client.HTTPConnection):
    """A connection to the address that was checked. A certificate must be for the host's name."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.host, place.port, timeout=CONNECT_SECONDS)
        self._place = place

    def connect(self) -> None:
        plain = socket.create_connection((self._place.address, self._place.port), CONNECT_SECONDS)
        try:
            context = ssl.create_default_context() if self._place.is_secure else None
            self.sock = context.wrap_socket(plain, server_hostname=self._place.host) if context else plain
        except BaseException:
            plain.close()
            raise


def _authorization(token: str) -> str:
    """Return the header that the usual hosts take a token in: as the password of any user."""
    return "Basic " + base64.b64encode(f"x-access-token:{token}".encode()).decode()


@contextmanager
def fetched(
    url: str,
    *,
    token: str,
    limit: int | None,
    allowed_hosts: Collection[str],
    scope: Scope = HISTORY,
    is_wanted: Callable[[], bool] = lambda: True,
) -> Iterator[Path]:
    """Fetch the newest commits of a repository's main branch, all without a limit, into a folder.

    The folder is deleted afterwards. `is_wanted` is asked now and then, and ends the fetch.

    Raises:
        UnusableSource: it cannot be fetched, is too large or takes too long.
    """
    place, token = find_place(url, token, allowed_hosts)
    name = re.sub(r"[^\w.-]", "-", urlsplit(place.url).path.rstrip("/").rpartition("/")[2]).strip(".-")
    with tempfile.TemporaryDirectory(prefix="contextopt-fetch-") as home:
        folder = Path(home, f"{name.removesuffix('.git') or 'repository'}.git")
        _clone(place, folder, token, limit, is_wanted, scope)
        # Nothing may be fetched later, from an address that is not checked again.
        git_line(folder, ["remote", "remove", "origin"])
        yield folder


def _clone(
    place: Place,
    folder: Path,
    token: str,
    limit: int | None,
    is_wanted: Callable[[], bool],
    scope: Scope = HISTORY,
) -> None:
    address = f"[{place.address}]" if ":" in place.address else place.address
    settings = [*FETCH_OPTIONS, f"http.curloptResolve={place.host}:{place.port}:{address}"]
    options = [part for setting in settings for part in ("-c", setting)]
    depth = [f"--depth={limit}"] if limit else []
    command = [
        "git", *options, "clone", "--quiet", "--bare", f"--filter={scope.filter}", "--no-tags",
        "--single-branch", "--no-recurse-submodules", *depth, "--", place.url, str(folder),
    ]  # fmt: skip
    environment = _environment(str(folder.parent))
    if token:
        # Not in the arguments, which every user of the machine can read.
        header = {"COUNT": "1", "KEY_0": f"http.{place.url}.extraHeader"}
        header["VALUE_0"] = f"Authorization: {_authorization(token)}"
        environment |= {f"GIT_CONFIG_{name}": value for name, value in header.items()}
    with tempfile.TemporaryFile() as complaints:
        try:
            process = subprocess.Popen(  # noqa: S603 - git, with an address that was checked
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=complaints,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise UnusableSource("git is not installed") from error
        try:
            _watch(process, folder, is_wanted, scope)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
        if process.returncode:
            complaints.seek(0)
            lines = complaints.read(4_000).decode("utf-8", "replace").strip().splitlines()
            reason = next((line for line in lines if line.startswith("fatal: ")), "fatal: it failed")
            raise UnusableSource(f"git: {reason.removeprefix('fatal: ')}")


def _watch(
    process: "subprocess.Popen[bytes]", folder: Path, is_wanted: Callable[[], bool], scope: Scope
) -> None:
    """Wait for git, within the limits of time and size."""
    ends_at = time.monotonic() + FETCH_SECONDS
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(WATCH_SECONDS)
            return
        if time.monotonic() > ends_at:
            raise UnusableSource(f"fetching took longer than {FETCH_SECONDS // 60} minutes")
        if _size(folder) > scope.bytes_max:
            raise UnusableSource(scope.too_large)
        if not is_wanted():
            raise UnusableSource("cancelled")


def _size(folder: Path) -> int:
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                total += Path(parent, name).lstat().st_size
    return total


def _environment(home: str) -> dict[str, str]:
    """Return an environment without anyone's settings, proxies and credentials."""
    kept = {name: value for name, value in git_environment().items() if name.lower() not in _PROXIES}
    return {
        **kept,
        "HOME": home,
        "XDG_CONFIG_HOME": home,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ALLOW_PROTOCOL": "http:https",
        "GIT_ASKPASS": shutil.which("true") or "true",
        "GIT_LFS_SKIP_SMUDGE": "1",
    }
