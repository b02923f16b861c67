"""Forwards requests to the upstreams byte for byte, and streams their answers back."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from io import BytesIO
from urllib.parse import unquote

import httpx2
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.utils.crypto import constant_time_compare, salted_hmac

from contextopt.asgitypes import BODY_TOO_SLOW, BodyTooSlow, Receive, Scope, Send, with_deadline
from contextopt.gateway.modelanswers import AnswerCopy
from contextopt.gateway.models import Outcome, Protocol
from contextopt.people.addresses import client_address

type Headers = list[tuple[bytes, bytes]]

READ_MAX_BYTES = 32 * 2**20
MESSAGES_PATH = "/v1/messages"
PROTOCOLS = {
    "/v1/chat/completions": Protocol.CHAT,
    "/v1/responses": Protocol.RESPONSES,
    MESSAGES_PATH: Protocol.MESSAGES,
}
PATH_KEY = "/k/"
# How clients name a session, and an agent or a thread within it.
SESSION_HEADER = re.compile(rb"(?:^|-)(?:session|conversation|thread)[-_]id$")
AGENT_HEADER = re.compile(rb"(?:^|-)agent[-_]id$")
# These count a prompt's tokens and ask no model.
COUNTS = {
    f"{MESSAGES_PATH}/count_tokens": Protocol.MESSAGES,
    "/v1/responses/input_tokens": Protocol.RESPONSES,
}
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


class KeysDifferError(Exception):
    """The keys in the path and in the header are not the same."""


class ClientGoneError(Exception):
    """The client left before its request was complete."""


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
    # This installation's name in `Via`, by which it recognises its own requests.
    name = f"contextopt-{salted_hmac('contextopt.gateway.via', 'name').hexdigest()[:12]}".encode()
    via = b", ".join(value for key, value in given if key.lower() == b"via")
    if name in via:
        raise LoopError("This request has passed this gateway before. Point LLM_BASE_URL at the provider.")
    kept = [(key, value) for key, value in _end_to_end(given) if key.lower() not in {b"host", b"via"}]
    return [*kept, (b"via", b", ".join(filter(None, (via, b"1.1 " + name))))]


def _end_to_end(headers: Headers) -> Headers:
    named = b",".join(value for key, value in headers if key.lower() == b"connection").lower().split(b",")
    dropped = HOP_BY_HOP | {name.strip() for name in named}
    return [
        (key, value)
        for key, value in headers
        if key.lower() not in dropped and not key.lower().startswith(OWN_PREFIX)
    ]


@dataclass
class Call:
    """A request as it arrived, and the connection to its client."""

    scope: Scope
    receive: Receive
    send: Send
    headers: dict[bytes, bytes] = field(init=False)
    path: str = field(init=False)
    # The path in its usual spelling, to recognise it. The original one is forwarded.
    plain_path: str = field(init=False)
    # The key at the beginning of the path, for clients that cannot send headers.
    path_key: str = field(init=False)
    # Set once the whole request was received. Only then can a disconnect be noticed.
    is_received: asyncio.Event = field(default_factory=asyncio.Event)
    _parts: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.receive = with_deadline(self.receive)
        self.headers = {name.lower(): value for name, value in self.scope["headers"]}
        raw = self.scope.get("raw_path") or self.scope["path"].encode()
        path = raw.decode("latin-1").partition("?")[0]
        self.path_key, self.path = split_path_key(path)
        if self.path_key:
            # From here on nothing sees the key: no log, no error and no upstream.
            self.scope |= {"path": unquote(self.path), "raw_path": self.path.encode("latin-1")}
        self.plain_path = "/" + "/".join(filter(None, unquote(self.path).split("/")))

    def header(self, name: str) -> str:
        return self.headers.get(name.encode(), b"").decode("latin-1").strip()

    @property
    def session(self) -> bytes:
        """The client's name for its session, with the agent in it, from headers such as X-Session-Id."""
        named = sorted((name, value) for name, value in self.headers.items() if SESSION_HEADER.search(name))
        if named:
            named += [(name, value) for name, value in self.headers.items() if AGENT_HEADER.search(name)]
        return b"\0".join(part for pair in named for part in pair)

    @property
    def key(self) -> str:
        """The secret in the path or else in the header. Raises: KeysDifferError."""
        given = self.header("x-contextopt-key")
        if self.path_key and given and not constant_time_compare(self.path_key, given):
            raise KeysDifferError("The keys in the path and in the header X-Contextopt-Key differ.")
        return self.path_key or given

    @property
    def protocol(self) -> Protocol | None:
        """The protocol of a prompt, or None for every other request."""
        return PROTOCOLS.get(self.plain_path) if self.scope["method"] == "POST" else None

    @property
    def counted(self) -> Protocol | None:
        """The protocol of a prompt whose tokens are to be counted, or None for every other request."""
        return COUNTS.get(self.plain_path) if self.scope["method"] == "POST" else None

    @property
    def is_encoded(self) -> bool:
        return self.header("content-encoding").lower() not in {"", "identity"}

    @property
    def is_anthropic(self) -> bool:
        if self.plain_path in PROTOCOLS:
            return self.plain_path == MESSAGES_PATH
        return self.plain_path.startswith(f"{MESSAGES_PATH}/") or b"anthropic-version" in self.headers

    @property
    def has_body(self) -> bool:
        return b"transfer-encoding" in self.headers or self.header("content-length") not in {"", "0"}

    def address(self) -> str:
        return client_address(ASGIRequest(self.scope, BytesIO()))

    async def read(self) -> bytes | None:
        """Return the body, or None if it is too long. It can then still be streamed."""
        if int(self.header("content-length") or 0) > READ_MAX_BYTES:
            return None
        size = 0
        async for part in self._receive_parts():
            self._parts.append(part)
            size += len(part)
            if size > READ_MAX_BYTES:
                return None
        return b"".join(self._parts)

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, beginning with the parts already read."""
        for part in self._parts:
            yield part
        self._parts = []
        async for part in self._receive_parts():
            yield part

    async def _receive_parts(self) -> AsyncIterator[bytes]:
        while not self.is_received.is_set():
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            if not message.get("more_body", False):
                self.is_received.set()
            if message.get("body"):
                yield message["body"]

    async def wait_for_departure(self) -> None:
        """Return once the client has disconnected."""
        if self.has_body:
            await self.is_received.wait()
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def answer(self, status: int, value: object, headers: Headers | None = None) -> None:
        """Send a complete answer in JSON."""
        body = json.dumps(value).encode()
        length = (b"content-length", str(len(body)).encode())
        all_headers = [(b"content-type", b"application/json"), length, *(headers or [])]
        await self.send({"type": "http.response.start", "status": status, "headers": all_headers})
        await self.send({"type": "http.response.body", "body": body})

    async def refuse(
        self, status: int, kind: str, message: str, headers: Headers | None = None, *, can_retry: bool = False
    ) -> None:
        """Send an error in the form of the request's protocol.

        The providers' clients repeat most requests that fail, by status and for minutes, unless the answer
        says whether that can help.
        """
        error: dict[str, object] = {"type": kind, "message": message}
        if not self.is_anthropic:
            error = {**error, "param": None, "code": kind}
        value = {"type": "error", "error": error} if self.is_anthropic else {"error": error}
        advice = (b"x-should-retry", b"true" if can_retry else b"false")
        await self.answer(status, value, [*(headers or []), advice])

    async def refuse_body(self, error: ClientGoneError | BodyTooSlow) -> None:
        """Answer a client whose body did not arrive.

        Otherwise the server sends a 500 to one that has gone, or that sent chunks that are none.
        """
        if isinstance(error, BodyTooSlow):
            await self.refuse(408, "timeout_error", BODY_TOO_SLOW, [(b"connection", b"close")])
        else:
            await self.refuse(400, "invalid_request_error", "The body ended too early.")


def split_path_key(path: str) -> tuple[str, str]:
    """Return the key in a path of the form `/k/KEY/v1/…`, which may be empty, and the path without it."""
    if not path.startswith(PATH_KEY):
        return "", path
    key, _, rest = path.removeprefix(PATH_KEY).partition("/")
    return unquote(key), f"/{rest}"


def open_connections() -> httpx2.AsyncClient:
    """Return the connections to the upstreams.

    An answer may take any time: the client decides how long to wait.
    """
    limits = httpx2.Limits(
        max_connections=None, max_keepalive_connections=IDLE_CONNECTIONS, keepalive_expiry=IDLE_SECONDS
    )
    timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS)
    return httpx2.AsyncClient(timeout=timeout, limits=limits, follow_redirects=False)


@dataclass(frozen=True, slots=True)
class Relayed:
    """The end of a prompt's way upstream, with its answer. All times count from the prompt's arrival."""

    outcome: Outcome
    answer: AnswerCopy
    added_ms: float
    first_byte_ms: float | None
    total_ms: float


@dataclass(frozen=True, slots=True)
class Passage:
    """A request on its way upstream. `added` are our own headers of its answer, which `copy` gets too."""

    call: Call
    url: str
    headers: Headers
    body: bytes | AsyncIterator[bytes]
    added: Headers = field(default_factory=list)
    copy: AnswerCopy | None = None

    async def relay(self, client: httpx2.AsyncClient) -> Outcome:
        """Forward the request, and return its answer, until one side disconnects."""
        sending = asyncio.create_task(self._send(client))
        departure = asyncio.create_task(self.call.wait_for_departure())
        await asyncio.wait([sending, departure], return_when=asyncio.FIRST_COMPLETED)
        if not sending.done():
            sending.cancel()
            await asyncio.wait([sending])
            return Outcome.ABANDONED
        departure.cancel()
        return sending.result()

    async def _send(self, client: httpx2.AsyncClient) -> Outcome:
        call, headers = self.call, self.headers
        if isinstance(self.body, bytes):
            # A context may have been inserted, so the body gets its own length.
            headers = [(name, value) for name, value in headers if name.lower() != b"content-length"]
        try:
            # Built by hand, because the client would add headers of its own.
            request = httpx2.Request(call.scope["method"], self.url, headers=headers, content=self.body)
            response = await client.send(request, stream=True, auth=_KEEP_URL_CREDENTIALS_OUT)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            message = f"The upstream cannot be reached ({type(error).__name__})."
            await call.refuse(502, "api_error", message, self.added, can_retry=True)
            return Outcome.UNREACHABLE
        except (ClientGoneError, BodyTooSlow) as error:
            await call.refuse_body(error)
            return Outcome.ABANDONED
        try:
            return await self._return(response)
        finally:
            await response.aclose()

    async def _return(self, response: httpx2.Response) -> Outcome:
        call, copy = self.call, self.copy
        if copy is not None:
            copy.begin(response.status_code, response.headers)
        headers = [(key.lower(), value) for key, value in _end_to_end(response.headers.raw)] + self.added
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            # A proxy in front, such as nginx, would keep the pieces until the answer is whole.
            headers.append((b"x-accel-buffering", b"no"))
        await call.send({
            "type": "http.response.start", "status": response.status_code, "headers": headers,
        })  # fmt: skip
        try:
            async for chunk in response.aiter_raw():
                if copy is not None:
                    copy.add(chunk)
                await call.send({"type": "http.response.body", "body": chunk, "more_body": True})
        except httpx2.TransportError:
            # The server closes the connection after an incomplete answer, so the client sees a failure too.
            return Outcome.BROKEN
        await call.send({"type": "http.response.body", "body": b""})
        return Outcome.ANSWERED
