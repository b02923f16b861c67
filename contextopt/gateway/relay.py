"""Forwards requests to the upstreams byte for byte, and streams their answers back."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

import httpx2
from django.conf import settings
from django.utils.crypto import salted_hmac

type Headers = list[tuple[bytes, bytes]]

CONNECT_SECONDS = 10.0
# Close idle connections early. A request on one that the upstream has just closed would fail.
IDLE_SECONDS = 4.0
IDLE_CONNECTIONS = 100
OWN_PREFIX = b"x-contextopt-"
# These concern a single connection and are not forwarded (RFC 9110, 7.6.1).
HOP_BY_HOP = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
    b"trailer", b"transfer-encoding", b"upgrade",
})  # fmt: skip
_KEEP_URL_CREDENTIALS_OUT = httpx2.Auth()
"""Adds nothing: only the caller's own credentials go upstream."""


class NoUpstreamError(Exception):
    """No upstream is configured for the request's protocol."""


class LoopError(Exception):
    """The request has passed this gateway before."""


def own_name() -> str:
    """Return this installation's name in `Via`, by which it recognises its own requests."""
    return f"contextopt-{salted_hmac('contextopt.gateway.via', 'name').hexdigest()[:12]}"


def has_upstream() -> bool:
    """Tell whether an upstream is configured for any protocol."""
    return bool(settings.LLM_BASE_URL or settings.ANTHROPIC_BASE_URL)


def upstream_url(path: str, query: bytes, *, is_anthropic: bool) -> str:
    """Return the address upstream of a path that begins with /v1. Raises: NoUpstreamError."""
    name = "ANTHROPIC_BASE_URL" if is_anthropic else "LLM_BASE_URL"
    base = getattr(settings, name).rstrip("/")
    if not base:
        raise NoUpstreamError(f"No upstream is configured for this request. Set {name} and restart.")
    # Anthropic's base URL has no version by custom, OpenAI's has one.
    is_versioned = base.endswith("/v1") or not is_anthropic
    rest = path.removeprefix("/v1") if is_versioned else path
    return f"{base}{rest}" + (f"?{query.decode('latin-1')}" if query else "")


def forwarded_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers to forward. Raises: LoopError."""
    given = list(headers)
    name = own_name()
    via = b", ".join(value for key, value in given if key.lower() == b"via")
    if name.encode() in via:
        raise LoopError("This request has passed this gateway before. Point LLM_BASE_URL at the provider.")
    kept = [(key, value) for key, value in _end_to_end(given) if key.lower() not in {b"host", b"via"}]
    return [*kept, (b"via", b", ".join(filter(None, (via, f"1.1 {name}".encode()))))]


def returned_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers of an answer that go back to the client."""
    return [(key.lower(), value) for key, value in _end_to_end(list(headers))]


def _end_to_end(headers: Headers) -> Headers:
    named = b",".join(value for key, value in headers if key.lower() == b"connection").lower().split(b",")
    dropped = HOP_BY_HOP | {name.strip() for name in named}
    return [
        (key, value)
        for key, value in headers
        if key.lower() not in dropped and not key.lower().startswith(OWN_PREFIX)
    ]


@dataclass
class Relay:
    """The connections to the upstreams. An answer may take any time: the client decides how long to wait."""

    client: httpx2.AsyncClient = field(
        default_factory=lambda: httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(
                max_connections=None,
                max_keepalive_connections=IDLE_CONNECTIONS,
                keepalive_expiry=IDLE_SECONDS,
            ),
            follow_redirects=False,
        )
    )

    async def send(
        self, method: str, url: str, headers: Headers, body: bytes | AsyncIterator[bytes]
    ) -> httpx2.Response:
        """Send a request and return its answer once the headers are there.

        The request is built by hand, because the client would add headers of its own. A body in one piece
        gets its own length, since a context may have been inserted.

        Raises:
            httpx2.TransportError: the upstream cannot be reached, or broke off.
        """
        if isinstance(body, bytes):
            headers = [(name, value) for name, value in headers if name.lower() != b"content-length"]
        request = httpx2.Request(method, url, headers=headers, content=body)
        return await self.client.send(request, stream=True, auth=_KEEP_URL_CREDENTIALS_OUT)

    async def close(self) -> None:
        await self.client.aclose()
