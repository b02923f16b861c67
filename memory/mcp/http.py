"""The endpoint at `/mcp`: checks address, origin and key, then hands the request to the SDK.

Each request stands alone: there are no sessions, so any web process can answer it.
"""

import asyncio
from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections
from django.http import HttpResponse
from django.utils.http import is_same_domain
from ninja.errors import AuthenticationError

from contextopt.api.protocol import problems
from contextopt.asgitypes import BODY_TOO_SLOW, BodyTooSlow, Receive, Scope, Send, with_deadline
from contextopt.errors import InvalidInput, TooManyAttempts, TooManyRequests
from contextopt.people.keys import find_key, read_secret, way_of
from contextopt.people.logins import count_wrong_key
from contextopt.people.models import Way
from contextopt.sql import DATABASE_UNREACHABLE
from memory.mcp.callers import Caller, enter
from memory.mcp.wire import find_repeated_key

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

MCP_PATH = "/mcp"
BODY_MAX_BYTES = 4 * 2**20
JSON = "application/json"
NO_STORE = (b"cache-control", b"no-store")
# A client that sends slowly holds only its connection: no turn here or of the tools waits for its body.
CHECKS_AT_ONCE = 4


class Endpoint:
    """The endpoint of this process. The SDK is loaded by the first request: that takes most of a second."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(CHECKS_AT_ONCE)
        self._starting = asyncio.Lock()
        self._manager: StreamableHTTPSessionManager | None = None
        self._running: asyncio.Task[None] | None = None

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._turns, ThreadSensitiveContext():
            found = await sync_to_async(_admit)(scope)
        if isinstance(found, HttpResponse):
            await _send_response(send, found)
            return
        enter(lambda: found, found.team.pk)
        manager = self._manager or await self._start()
        receiving, sending = _with_problems(receive, _with_headers(send, found), scope)
        await manager.handle_request(scope, cast("Any", receiving), sending)

    async def _start(self) -> "StreamableHTTPSessionManager":
        async with self._starting:
            if self._manager is None:
                manager = await asyncio.to_thread(_build_manager)
                is_ready = asyncio.Event()
                self._running = asyncio.create_task(_hold(manager, is_ready))
                await is_ready.wait()
                self._manager = manager
        return self._manager


def _build_manager() -> "StreamableHTTPSessionManager":
    from mcp.server.transport_security import TransportSecuritySettings

    from memory.mcp.server import build_server

    server = build_server()
    # `_admit` has checked host and origin.
    checked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    server.streamable_http_app(
        stateless_http=True,
        json_response=True,
        max_request_body_size=BODY_MAX_BYTES,
        transport_security=checked,
    )
    return server.session_manager


async def _hold(manager: "StreamableHTTPSessionManager", is_ready: asyncio.Event) -> None:
    async with manager.run():
        is_ready.set()
        await asyncio.Event().wait()


def _admit(scope: Scope) -> Caller | HttpResponse:
    """Return the caller, or a refusal, before the body is read."""
    request = ASGIRequest(scope, BytesIO())
    try:
        found = _refuse_place(request) or _authenticate(request)
        if isinstance(found, Caller):
            return _refuse_type(request) or found
        return found
    except DATABASE_UNREACHABLE as error:
        return problems.on_unavailable(request, error)
    finally:
        close_old_connections()


def _refuse_place(request: ASGIRequest) -> HttpResponse | None:
    try:
        host = request.get_host()
    except DisallowedHost:
        detail = "The Host header is not one of this server's names."
        return problems.problem(request, 421, "misdirected", "Misdirected request", detail)
    if settings.HTTPS and not request.is_secure():
        # A redirect would hide that the key was sent in clear.
        detail = "This address is served over HTTPS only."
        return problems.problem(request, 403, "forbidden", "Forbidden", detail)
    origin = request.headers.get("Origin")
    if origin and not is_known_origin(origin, f"{request.scheme}://{host}"):
        detail = "Requests from this origin are not allowed. To allow them, add it to CSRF_TRUSTED_ORIGINS."
        return problems.problem(request, 403, "forbidden", "Forbidden", detail)
    if request.method != "POST":
        return problems.method_not_allowed(request, ["POST"])
    return None


def is_known_origin(origin: str, own: str) -> bool:
    """Return whether the origin is the site's own, or one of CSRF_TRUSTED_ORIGINS."""
    scheme, _, host = origin.lower().partition("://")
    for trusted in (own.lower(), *settings.CSRF_TRUSTED_ORIGINS):
        trusted_scheme, _, pattern = trusted.partition("://")
        if scheme == trusted_scheme and is_same_domain(host, pattern.lstrip("*")):
            return True
    return False


def _authenticate(request: ASGIRequest) -> Caller | HttpResponse:
    secret = read_secret(request.headers)
    try:
        key = find_key(secret, way_of(request.headers.get("User-Agent", ""), Way.MCP))
        if key is not None:
            return Caller.of_key(key)
        count_wrong_key(request)
    except TooManyAttempts as error:
        return problems.on_too_many_attempts(request, error)
    except TooManyRequests as error:
        return problems.on_too_many_requests(request, error)
    return problems.refuse(request, AuthenticationError(401))


def _refuse_type(request: ASGIRequest) -> HttpResponse | None:
    given = request.content_type or ""
    if given == JSON:
        return None
    detail = f"Send {JSON}, not {given[:100]}." if given else f"Send {JSON}."
    return problems.refuse(request, problems.UnsupportedBody(detail))


def _with_headers(send: Send, caller: Caller) -> Send:
    """Return a `send` that adds the headers with the key's remaining requests, and forbids caches."""
    allowance = caller.allowance.headers() if caller.allowance else {}
    added = [NO_STORE, *((name.lower().encode(), value.encode()) for name, value in allowance.items())]

    async def sending(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            kept = [each for each in message.get("headers", ()) if each[0].lower() != NO_STORE[0]]
            message = {**message, "headers": [*kept, *added]}
        await send(message)

    return sending


def _with_problems(receive: Receive, send: Send, scope: Scope) -> tuple[Receive, Send]:
    """Return a `receive` and a `send` that replace the SDK's own words about a body that is too large, too
    slow or ended too early by a problem. A key given twice is one too: the SDK would not notice it.
    """
    is_whole = is_cut = is_slow = is_refused = False
    twice: InvalidInput | None = None
    parts: list[bytes] = []
    receive = with_deadline(receive)

    async def receiving() -> Mapping[str, Any]:
        nonlocal is_whole, is_cut, is_slow, twice
        try:
            message = await receive()
        except BodyTooSlow:
            is_slow = True
            return {"type": "http.disconnect"}
        if message["type"] == "http.disconnect":
            # The SDK goes on listening while it answers.
            is_cut = not is_whole
        elif not is_whole:
            is_whole = not message.get("more_body", False)
            parts.append(message.get("body", b""))
            if is_whole and (twice := find_repeated_key(b"".join(parts))):
                # The SDK answers what is no JSON, and that answer is replaced.
                return {**message, "body": b"{"}
        return message

    async def sending(message: Mapping[str, Any]) -> None:
        nonlocal is_refused
        if message["type"] == "http.response.start" and (
            is_cut or is_slow or twice or message["status"] == 413
        ):
            is_refused = True
            refuse = _refuse_slow if is_slow else _refuse_cut if is_cut else _refuse_size
            request = ASGIRequest(scope, BytesIO())
            await _send_response(
                send, problems.on_invalid_input(request, twice) if twice else refuse(request)
            )
        elif not is_refused:
            await send(message)

    return receiving, sending


def _refuse_cut(request: ASGIRequest) -> HttpResponse:
    return problems.problem(request, 400, "bad-request", "Bad request", "The body ended too early.")


def _refuse_slow(request: ASGIRequest) -> HttpResponse:
    headers = {"Connection": "close"}
    return problems.problem(request, 408, "too_slow", "Body too slow", BODY_TOO_SLOW, headers=headers)


def _refuse_size(request: ASGIRequest) -> HttpResponse:
    error = problems.BodyTooLarge(f"The body is larger than {BODY_MAX_BYTES // 2**20} MiB.")
    return problems.refuse(request, error)


async def _send_response(send: Send, response: HttpResponse) -> None:
    headers: list[tuple[bytes, bytes]] = [
        (name.lower().encode(), value.encode()) for name, value in response.items()
    ]
    headers += [NO_STORE, (b"content-length", str(len(response.content)).encode())]
    start: dict[str, Any] = {"type": "http.response.start", "status": response.status_code}
    await send({**start, "headers": headers})
    await send({"type": "http.response.body", "body": response.content})


_endpoint = Endpoint()
serve_mcp = _endpoint.serve
