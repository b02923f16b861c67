"""The calls of the command to the server, over the standard library.

Redirects are not followed, so a code or a key goes nowhere but to the named address.
"""

import json
import re
import ssl
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from importlib.metadata import PackageNotFoundError, distribution
from ipaddress import ip_address
from typing import Any, TypedDict
from urllib.parse import quote, urlsplit

from contextopt_connect.errors import ServerRefused, UnusableCall

SECONDS = 20
WHEEL_PATH = re.compile(r"/connect/contextopt_client-[^/]+\.whl$")
OUT_OF_REACH = (OSError, HTTPException)


class Gateway(TypedDict):
    """The gateway's address, empty if it is off, and the protocols that have a provider."""

    url: str
    openai: bool
    anthropic: bool


class Grant(TypedDict):
    """The result of a connect code: a key, and where it may be used."""

    key: str
    key_id: int
    name: str
    team: str
    space: str
    gateway: Gateway


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: Any


def check_url(text: str) -> str:
    """Return an address of a server, without a slash at its end.

    Raises:
        UnusableCall: it is not an address, or has a user, a query or a fragment.
    """
    if not text.isprintable() or set(text) & set(" ?#") or not _is_address(text):
        raise UnusableCall("--url", "must be an address such as http://127.0.0.1:8000")
    return text.rstrip("/")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and parts.username is None
            and parts.port != 0
        )
    except ValueError:
        # An unpaired bracket, or an invalid port.
        return False


def is_private(url: str) -> bool:
    """Return whether nobody on the way can read what is sent: over HTTPS, or within this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def find_origin() -> str:
    """Return the address of the server that this package was installed from, or nothing.

    Source: PEP 610, "Recording the Direct URL Origin of installed distributions".
    """
    try:
        recorded = json.loads(distribution("contextopt-client").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return ""
    url = str(recorded.get("url", ""))
    return WHEEL_PATH.sub("", url) if WHEEL_PATH.search(url) else ""


class Server:
    """A server of Contextopt at an address, as one tool sees it."""

    def __init__(self, url: str, tool: str) -> None:
        self.url = url
        self.agent = f"contextopt-connect/{tool}"

    def redeem(self, code: str, tool: str, machine: str) -> Grant:
        """Exchange a connect code for a key.

        Raises:
            UnusableCall: the code or the key could be read on the way.
            ServerRefused: the code is not valid, or there were too many tries.
        """
        if not is_private(self.url):
            problem = "must begin with https://, because others could read the code and the key on the way"
            raise UnusableCall("--url", problem)
        answer = self.call("POST", "/connect/redeem", body={"code": code, "tool": tool, "machine": machine})
        grant: Grant = answer.body
        return grant

    def read_key(self, secret: str) -> dict[str, Any]:
        """Return the key, its team and its spaces. Raises: ServerRefused."""
        answer: dict[str, Any] = self.call("GET", "/api/v1/me", secret).body
        return answer

    def check_space(self, secret: str, slug: str) -> None:
        """Raises: ServerRefused: the key reaches no such space."""
        self.call("GET", f"/api/v1/spaces/{quote(slug, safe='')}", secret)

    def revoke(self, secret: str) -> None:
        """Revoke the key. Raises: ServerRefused."""
        self.call("DELETE", "/api/v1/me", secret)

    def call(self, method: str, path: str, secret: str = "", body: Any = None) -> Answer:
        """Raises: ServerRefused: no answer, or a refusal."""
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        answer = send(self.url, method, path, {**headers, "User-Agent": self.agent}, body)
        if answer.status >= 300:
            raise ServerRefused(f"{self.url}: {reason_of(answer)}", answer.status)
        if answer.body is None and answer.status != 204:
            raise ServerRefused(f"{self.url} is not a server of Contextopt: its answer is not JSON.")
        return answer


def reason_of(answer: Answer) -> str:
    detail = answer.body.get("detail") if isinstance(answer.body, dict) else None
    where = f" It redirects to {answer.headers['location']}." if "location" in answer.headers else ""
    return f"{detail or f'The server answered {answer.status}.'}{where}"


def send(url: str, method: str, path: str, headers: dict[str, str], body: Any = None) -> Answer:
    """Send a request and return its answer, whatever its status.

    Raises:
        ServerRefused: no answer.
    """
    parts = urlsplit(url)
    content = None if body is None else json.dumps(body).encode()
    sent = {"Accept": "application/json", **headers}
    if content is not None:
        sent["Content-Type"] = "application/json"
    try:
        connection: HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection = HTTPSConnection(parts.hostname or "", parts.port, timeout=SECONDS, context=context)
        else:
            connection = HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
        try:
            connection.request(method, f"{parts.path}{path}", content, sent)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
    except OUT_OF_REACH as error:
        raise ServerRefused(f"{url} cannot be reached: {str(error) or type(error).__name__}.") from error
    answered = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, answered, _read_json(text))


def _read_json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
