"""The gateway as an ASGI application. Prompts pass through it to their models, and answers back."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from io import BytesIO
from urllib.parse import unquote

import httpx2
import structlog
from django.core.handlers.asgi import ASGIRequest

from contextopt.asgitypes import BODY_TOO_SLOW, BodyTooSlow, Receive, Scope, Send, with_deadline
from contextopt.gateway.admission import Gate, Refused
from contextopt.gateway.deciders import Deciders
from contextopt.gateway.exchanges import Exchange
from contextopt.gateway.models import Outcome, Protocol, Reason
from contextopt.gateway.preparation import Preparation
from contextopt.gateway.promptlog import Log
from contextopt.gateway.relay import (
    Headers,
    LoopError,
    NoUpstreamError,
    Relay,
    forwarded_headers,
    returned_headers,
    upstream_url,
)
from contextopt.gateway.requests import RequestJob
from contextopt.people.addresses import client_address
from contextopt.telemetry.spans import begin_exchange

READ_MAX_BYTES = 32 * 2**20
MESSAGES_PATH = "/v1/messages"
PROTOCOLS = {
    "/v1/chat/completions": Protocol.CHAT,
    "/v1/responses": Protocol.RESPONSES,
    MESSAGES_PATH: Protocol.MESSAGES,
}
HEALTH_PATH = "/healthz"
TURN_SECONDS = 1.0

log = structlog.get_logger(__name__)


class ClientGoneError(Exception):
    """The client left before its request was complete."""


@dataclass
class Call:
    """A request as it arrived, and the connection to its client."""

    scope: Scope
    receive: Receive
    send: Send
    headers: dict[bytes, bytes] = field(init=False)
    path: str = field(init=False)
    plain_path: str = field(init=False)
    # Set once the whole request was received. Only then can a disconnect be noticed.
    is_received: asyncio.Event = field(default_factory=asyncio.Event)
    _parts: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.receive = with_deadline(self.receive)
        self.headers = {name.lower(): value for name, value in self.scope["headers"]}
        raw = self.scope.get("raw_path") or self.scope["path"].encode()
        self.path = raw.decode("latin-1").partition("?")[0]
        self.plain_path = _plain_path(self.path)

    def header(self, name: str) -> str:
        return self.headers.get(name.encode(), b"").decode("latin-1").strip()

    @property
    def protocol(self) -> Protocol | None:
        """The protocol of a prompt, or None for every other request."""
        return PROTOCOLS.get(self.plain_path) if self.scope["method"] == "POST" else None

    @property
    def is_anthropic(self) -> bool:
        if self.plain_path in PROTOCOLS:
            return self.plain_path == MESSAGES_PATH
        return self.plain_path.startswith(f"{MESSAGES_PATH}/") or b"anthropic-version" in self.headers

    @property
    def is_served(self) -> bool:
        """Whether the path is below /v1/, and stays there if the upstream resolves dot segments."""
        parts = unquote(self.path).split("/")
        return self.path.startswith("/v1/") and not {".", ".."}.intersection(parts)

    @property
    def trace(self) -> dict[str, str]:
        """The caller's trace headers, which are also forwarded unchanged."""
        return {name: self.header(name) for name in ("traceparent", "tracestate") if self.header(name)}

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

    async def start(self, status: int, headers: Headers) -> None:
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def answer(self, status: int, value: object, headers: Headers | None = None) -> None:
        """Send a complete answer in JSON."""
        body = json.dumps(value).encode()
        length = (b"content-length", str(len(body)).encode())
        await self.start(status, [(b"content-type", b"application/json"), length, *(headers or [])])
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

    async def refuse_cut(self) -> None:
        """Answer a client that has gone, or sent chunks that are none: else the server sends a 500."""
        await self.refuse(400, "invalid_request_error", "The body ended too early.")

    async def refuse_slow(self) -> None:
        await self.refuse(408, "timeout_error", BODY_TOO_SLOW, [(b"connection", b"close")])


ERROR_KINDS = {
    "unauthenticated": "authentication_error",
    "forbidden": "permission_error",
    "too_many": "rate_limit_error",
    "unavailable": "api_error",
}


class Gateway:
    """Serves all requests of this process.

    `decider` names the module of the processes that decide on contexts. `turn` is called every second, as
    long as the event loop turns.
    """

    def __init__(self, decider: str, turn: Callable[[], None]) -> None:
        self._turn = turn
        self._gate = Gate()
        self._relay = Relay()
        self._log = Log()
        self._deciders = Deciders(decider)
        self._preparation = Preparation(self._deciders)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(Call(scope, receive, send))

    async def _live(self, receive: Receive, send: Send) -> None:
        turning = asyncio.create_task(self._keep_turning())
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._log.start()
                await self._preparation.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self._log.close()
                await self._relay.close()
                self._deciders.close()
                turning.cancel()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _keep_turning(self) -> None:
        while True:
            self._turn()
            await asyncio.sleep(TURN_SECONDS)

    async def _serve(self, call: Call) -> None:
        if call.path == HEALTH_PATH:
            await call.answer(200, {"status": "ok"})
            return
        if not call.is_served:
            await call.refuse(404, "not_found_error", "The gateway serves paths that begin with /v1/.")
            return
        try:
            headers = forwarded_headers(call.scope["headers"])
            secret, slug = call.header("x-contextopt-key"), call.header("x-contextopt-space")
            admission = await self._gate.admit(secret, slug, call.address)
            url = upstream_url(call.path, call.scope["query_string"], is_anthropic=call.is_anthropic)
        except Refused as error:
            after = [(b"retry-after", str(error.retry_after).encode())] if error.retry_after else []
            kind, can_retry = ERROR_KINDS[error.kind], error.can_retry
            await call.refuse(error.status, kind, error.message, after, can_retry=can_retry)
        except LoopError as error:
            await call.refuse(508, "api_error", str(error))
        except NoUpstreamError as error:
            await call.refuse(502, "api_error", str(error))
        else:
            if call.protocol is None:
                await self._pass(call, url, headers, call.stream() if call.has_body else b"", None)
            else:
                await self._pass_prompt(call, url, headers, Exchange(admission, call.protocol))

    async def _pass_prompt(self, call: Call, url: str, headers: Headers, exchange: Exchange) -> None:
        exchange.url, exchange.opened = url, begin_exchange(call.trace)
        try:
            body = await call.read()
        except ClientGoneError:
            await call.refuse_cut()
            return
        except BodyTooSlow:
            await call.refuse_slow()
            return
        exchange.arrive(len(body) if body is not None else int(call.header("content-length") or 0))
        sent: bytes | AsyncIterator[bytes]
        if body is None:
            exchange.reason, sent = Reason.TOO_LARGE, call.stream()
        elif call.header("content-encoding").lower() not in {"", "identity"}:
            exchange.reason, sent = Reason.COMPRESSED, body
        else:
            sent = await self._preparation.prepare(exchange, body, call.header("x-contextopt-conversation"))
        exchange.added_ms = exchange.elapsed_ms()
        try:
            await self._pass(call, url, headers, sent, exchange)
        finally:
            exchange.total_ms = exchange.elapsed_ms()
            self._log.put(RequestJob(exchange, self._deciders))

    async def _pass(
        self,
        call: Call,
        url: str,
        headers: Headers,
        body: bytes | AsyncIterator[bytes],
        exchange: Exchange | None,
    ) -> None:
        """Forward a request, and return its answer, until one side disconnects."""
        sending = asyncio.create_task(self._send_on(call, url, headers, body, exchange))
        departure = asyncio.create_task(call.wait_for_departure())
        await asyncio.wait([sending, departure], return_when=asyncio.FIRST_COMPLETED)
        if not sending.done():
            sending.cancel()
            await asyncio.wait([sending])
            if exchange is not None:
                exchange.outcome = Outcome.ABANDONED
            return
        departure.cancel()
        sending.result()

    async def _send_on(
        self,
        call: Call,
        url: str,
        headers: Headers,
        body: bytes | AsyncIterator[bytes],
        exchange: Exchange | None,
    ) -> None:
        try:
            response = await self._relay.send(call.scope["method"], url, headers, body)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            message = f"The upstream cannot be reached ({type(error).__name__})."
            await call.refuse(502, "api_error", message, _status_headers(exchange), can_retry=True)
            return
        except (ClientGoneError, BodyTooSlow) as error:
            if exchange is not None:
                exchange.outcome = Outcome.ABANDONED
            await (call.refuse_slow() if isinstance(error, BodyTooSlow) else call.refuse_cut())
            return
        try:
            await self._answer(call, response, exchange)
        finally:
            await response.aclose()

    async def _answer(self, call: Call, response: httpx2.Response, exchange: Exchange | None) -> None:
        if exchange is not None:
            exchange.begin_answer(response.status_code, response.headers)
        headers = [*returned_headers(response.headers.raw), *_status_headers(exchange)]
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            # A proxy in front, such as nginx, would keep the pieces until the answer is whole.
            headers.append((b"x-accel-buffering", b"no"))
        await call.start(response.status_code, headers)
        try:
            async for chunk in response.aiter_raw():
                if exchange is not None:
                    exchange.add(chunk)
                await call.send({"type": "http.response.body", "body": chunk, "more_body": True})
        except httpx2.TransportError:
            # The server closes the connection after an incomplete answer, so the client sees a failure too.
            return
        if exchange is not None:
            exchange.outcome = Outcome.ANSWERED
        await call.send({"type": "http.response.body", "body": b""})


def _plain_path(path: str) -> str:
    """Return the path in its usual spelling, to recognise it. The original one is forwarded."""
    return "/" + "/".join(filter(None, unquote(path).split("/")))


def _status_headers(exchange: Exchange | None) -> Headers:
    """Return the headers that tell the client what was done."""
    if exchange is None:
        return []
    headers = [(b"x-contextopt-status", exchange.status.encode())]
    if exchange.assembly_id is not None:
        headers.append((b"x-contextopt-assembly", str(exchange.assembly_id).encode()))
    return headers
