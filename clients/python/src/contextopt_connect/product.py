"""Requests of a hook to the running product. A hook starts with every prompt, so they import very little."""

from __future__ import annotations

import json
import socket
import time
from urllib.parse import urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from contextopt_connect.sessions import Session

# For all requests of a hook together, if the connection sets no other time. Loaded machines need seconds.
TIMEOUT_SECONDS = 5.0
# Even then the system accepts a connection at once, so a host that does not is away.
CONNECT_SECONDS = 1.5
REFUSED_KEY = frozenset({401, 403})


class NoAnswer(Exception):
    """The product refused or did not answer as expected. The text says what it did, for the person."""


class Product:
    """The running product, as a run of a hook asks it. Its requests share the connection's time."""

    def __init__(self, connection: dict[str, Any], session: Session) -> None:
        self.connection, self.session = connection, session
        self.seconds = float(connection.get("timeout_seconds", TIMEOUT_SECONDS))
        self.end = time.monotonic() + self.seconds

    def remaining(self) -> float:
        """Return the seconds that are left. Raises: TimeoutError."""
        if (seconds := self.end - time.monotonic()) <= 0:
            raise TimeoutError
        return seconds

    def send(self, path: str, body: dict[str, Any], once: str = "") -> PendingRequest:
        return PendingRequest(self, path, body, once)

    def describe(self, fault: BaseException, then: str = "Prompts go on without its contexts.") -> str:
        """Return a line for the person about a failed request, and what follows from it."""
        place = "Contextopt at " + self.connection["url"]
        if isinstance(fault, NoAnswer):
            happened = str(fault)
        elif isinstance(fault, TimeoutError):
            happened = f"did not answer within {self.seconds:g} seconds"
        else:
            happened = f"cannot be reached ({getattr(fault, 'strerror', None) or fault})"
        return f"{place} {happened}. {then}"


class PendingRequest:
    """A pending request to the product. Several may be open at once. `refusal` is why it was refused.

    It speaks HTTP/1.0 over a socket, because importing http.client takes as long as everything else together.
    """

    def __init__(self, product: Product, path: str, body: dict[str, Any], once: str = "") -> None:
        connection = product.connection
        address = urlsplit(connection["url"])
        is_https = address.scheme == "https"
        content = json.dumps(body).encode()
        head = [
            f"POST {address.path}/api/v1{path} HTTP/1.0",
            f"Host: {address.netloc}",
            f"Authorization: Bearer {read_key(connection)}",
            f"User-Agent: contextopt-hook/{connection['tool']}",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
            *([f"Idempotency-Key: {once}"] if once else []),
        ]
        host = address.hostname or ""
        self.product, self.status, self.refusal = product, 0, ""
        self.socket = socket.create_connection(
            (host, address.port or (443 if is_https else 80)),
            timeout=min(CONNECT_SECONDS, product.remaining()),
        )
        self.socket.settimeout(product.remaining())
        if is_https:
            self.socket = encrypted(self.socket, host)
        self.socket.sendall("\r\n".join([*head, "", ""]).encode() + content)

    def answer(self) -> Any:
        """Return the answer's JSON, or None if the request was refused for what it says.

        Raises:
            NoAnswer: the key was refused, the product has failed, or this is not the product.
            OSError: it is away, or too slow.
        """
        parts = []
        with self.socket:
            while part := self.socket.recv(65_536):
                parts.append(part)
                self.socket.settimeout(self.product.remaining())
        head, _, text = b"".join(parts).partition(b"\r\n\r\n")
        try:
            self.status = int(head.split(b" ", 2)[1])
            body = json.loads(text) if text else None
        except (ValueError, LookupError):
            body = None
        if self.status in REFUSED_KEY:
            raise NoAnswer(f"refuses this connection's key ({self.status}). `contextopt status` says more")
        if self.status >= 500 or (body is None and self.status != 204):
            raise NoAnswer(f"answered {self.status or 'nothing'}")
        if self.status < 300:
            return body
        detail = body.get("detail") if isinstance(body, dict) else None
        self.refusal = str(detail or f"the server answered {self.status}")
        return None


def encrypted(plain: socket.socket, host: str) -> socket.socket:
    import ssl

    return ssl.create_default_context().wrap_socket(plain, server_hostname=host)


def read_key(connection: dict[str, Any]) -> str:
    with open(connection["key_file"], encoding="utf-8") as file:
        return file.read().strip()
