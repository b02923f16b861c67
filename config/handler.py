"""Django's handler under ASGI, with limits on concurrent requests, body sizes and streams."""

import asyncio
import hashlib
import tempfile
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from contextvars import copy_context
from io import SEEK_END, BytesIO
from time import thread_time
from typing import IO, Any, NamedTuple

import psycopg
import structlog
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.db import DEFAULT_DB_ALIAS, connections
from django.http import (
    FileResponse,
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    StreamingHttpResponse,
    parse_cookie,
)
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from contextopt.api.protocol import problems
from contextopt.api.protocol.transport import API_PREFIX
from contextopt.asgitypes import BODY_TOO_SLOW, BodyTooSlow, Receive, Scope, Send, with_deadline
from contextopt.errors import Busy
from contextopt.fairness import Costs, Lane, Turns
from contextopt.people.addresses import client_address
from contextopt.people.keys import read_secret
from dashboard.kit import frame as pages

log = structlog.get_logger(__name__)

# More concurrent requests would only wait for a database connection or for the interpreter.
REQUESTS_AT_ONCE = 10
# An export holds its connection for as long as its client takes to read it.
EXPORTS_AT_ONCE = 6
BLOCK_BYTES = 64_000
# Thousands of unfinished bodies fit into memory.
SPOOL_BYTES = 2**18
# A form is a little longer than the file in it. Anything beyond this is refused unread.
BODY_MAX_BYTES = 33 * 2**20
# Reading a larger body takes a noticeable time, whatever is asked.
COSTLY_BYTES = 250_000
# Keys and sessions whose team is remembered, the last ones to be checked.
CREDENTIALS_MAX = 10_000
READS = frozenset({"GET", "HEAD"})
# Most requests are over before it matters whether their client is still there.
LISTEN_AFTER_SECONDS = 1.0
CANCEL_SECONDS = 2.0


class Sender(NamedTuple):
    """The team or the address that a request counts for, and the digest of its key or session, if any."""

    tenant: Hashable
    credential: bytes


class Tenants:
    """Says whose a request is before anything is done for it: a team's, or else a stranger's at an address.

    A key or session says nothing until it was checked, so whoever sends one counts as a stranger until then.
    Strangers with and without one are told apart, so that a team's new keys keep nobody from the log-in page.
    """

    def __init__(self) -> None:
        self._teams: OrderedDict[bytes, int] = OrderedDict()

    def find(self, scope: Scope) -> Sender:
        """Return whose the request is. This reads its headers alone."""
        request = ASGIRequest(scope, BytesIO())
        secret = read_secret(request.headers)
        if not secret and "cookie" in request.headers:
            secret = parse_cookie(request.headers["cookie"]).get(settings.SESSION_COOKIE_NAME, "")
        credential = hashlib.blake2b(secret.encode(), digest_size=16).digest() if secret else b""
        team_id = self._teams.get(credential)
        stranger = (client_address(request), bool(credential))
        return Sender(stranger if team_id is None else team_id, credential)

    def note(self, credential: bytes, team_id: int | None) -> None:
        """Remember the team of a key or session that was checked; None if it opens nothing any longer."""
        if not credential:
            return
        self._teams.pop(credential, None)
        if team_id is not None:
            self._teams[credential] = team_id
            if len(self._teams) > CREDENTIALS_MAX:
                self._teams.popitem(last=False)


class Answer(NamedTuple):
    """A response, the processor time that it took, and what a check of key or session found."""

    response: HttpResponseBase
    seconds: float
    was_checked: bool
    team_id: int | None


class Running:
    """A request in its thread, whose statement can be ended from outside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: Any = None

    def begin(self) -> None:
        """Note this thread's database connection."""
        with self._lock:
            self._connection = connections[DEFAULT_DB_ALIAS]

    def end(self) -> None:
        """From here on, the connection may serve another request."""
        with self._lock:
            self._connection = None

    def stop(self) -> None:
        """End the statement that runs, if one does; its request then fails."""
        with self._lock:
            if self._connection is None or self._connection.connection is None:
                return
            try:
                self._connection.connection.cancel_safe(timeout=CANCEL_SECONDS)
            except psycopg.Error as error:
                log.warning("statement_not_stopped", error=type(error).__name__)


class Site(ASGIHandler):
    """Serves all pages and the API. A request runs in one thread, because all views are synchronous.

    Django's own handler starts a thread for each request and switches to it several times, which costs almost
    a millisecond of processor time. A slow client occupies a connection, but no thread.
    """

    def __init__(self) -> None:
        BaseHandler.__init__(self)
        self.load_middleware(is_async=False)
        self._threads = ThreadPoolExecutor(REQUESTS_AT_ONCE, "request")
        self._turns = Turns(REQUESTS_AT_ONCE)
        self._exports = Turns(EXPORTS_AT_ONCE, wait_seconds=None)
        self._tenants = Tenants()
        self._costs = Costs()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        receive = with_deadline(receive)
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            # The client has gone, or sent chunks that are none. Without an answer, the server sends a 500.
            cut = HttpResponseBadRequest("The body ended too early.", content_type="text/plain")
            await self.send_response(cut, send)
            return
        except BodyTooSlow:
            slow = HttpResponse(BODY_TOO_SLOW, "text/plain", 408, headers={"Connection": "close"})
            await self.send_response(slow, send)
            return
        with closing(body):
            sender = self._tenants.find(scope)
            try:
                response = await self._take_turn(sender, scope, receive, body)
            except Busy as error:
                response = _refuse(scope, error)
            except RequestAborted:
                # The client has left while it waited, so nothing was begun.
                return
            if isinstance(response, StreamingHttpResponse):
                await self._send_stream(sender, response, scope, receive, send)
            else:
                await self.send_response(response, send)

    async def read_body(self, receive: Receive) -> IO[bytes]:
        """Read a body, or just enough of it for Django to see that it is too long."""
        # The caller closes it.
        body = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115
        while body.tell() <= BODY_MAX_BYTES:
            try:
                message = await receive()
            except BodyTooSlow:
                body.close()
                raise
            if message["type"] == "http.disconnect":
                body.close()
                raise RequestAborted
            part = message.get("body", b"")
            if body.tell() + len(part) > SPOOL_BYTES:
                await sync_to_async(body.write, thread_sensitive=False)(part)
            else:
                body.write(part)
            if not message.get("more_body", False):
                break
        body.seek(0)
        return body

    async def _take_turn(
        self, sender: Sender, scope: Scope, receive: Receive, body: IO[bytes]
    ) -> HttpResponseBase:
        """Serve a request in a thread, as soon as its sender may have one.

        Raises:
            Busy: see `Turns`.
            RequestAborted: the client left before.
        """
        kind = (sender.tenant, scope["method"], scope["path"])
        is_large = body.seek(0, SEEK_END) > COSTLY_BYTES
        body.seek(0)
        lane = Lane(sender.tenant, is_large or self._costs.is_costly(kind))
        if not self._turns.start(lane):
            await self._unless_disconnected(self._turns.wait(lane), receive)
        seconds = 0.0
        try:
            run, running = copy_context().run, Running()
            loop = asyncio.get_running_loop()
            future = loop.run_in_executor(self._threads, run, self._respond, scope, body, running)
            await asyncio.wait({future}, timeout=LISTEN_AFTER_SECONDS)
            if not future.done() and scope["method"] in READS:
                await self._stop_if_left(future, running, receive)
            answer = await future
            seconds = answer.seconds
        finally:
            self._turns.end(lane, seconds)
        self._costs.note(kind, answer.seconds)
        if answer.was_checked:
            self._tenants.note(sender.credential, answer.team_id)
        return answer.response

    async def _stop_if_left(self, future: asyncio.Future[Answer], running: Running, receive: Receive) -> None:
        """Wait for a read. If its client leaves, end its statement. A write that has begun is finished."""
        try:
            await self._unless_disconnected(_finish(future), receive)
        except RequestAborted:
            await asyncio.to_thread(running.stop)

    async def _unless_disconnected(self, waiting: Coroutine[Any, Any, None], receive: Receive) -> None:
        """Wait, unless the client leaves first. Raises: RequestAborted."""
        tasks = [asyncio.create_task(each) for each in (waiting, self.listen_for_disconnect(receive))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            first = next(task for task in tasks if task.done())
            await first
        finally:
            for task in tasks:
                task.cancel()

    def _respond(self, scope: Scope, body: IO[bytes], running: Running) -> Answer:
        """Serve a request and release this thread's database connection."""
        started = thread_time()
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=type(self), scope=scope)
        request, refusal = self.create_request(scope, body)
        running.begin()
        try:
            response = refusal if request is None else self.get_response(request)
        finally:
            running.end()
        assert response is not None
        if isinstance(response, StreamingHttpResponse):
            signals.request_finished.send(sender=type(self))
        else:
            response.close()
        return Answer(response, thread_time() - started, *_check_of(request))

    async def _send_stream(
        self, sender: Sender, response: StreamingHttpResponse, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Send a file or an export from a thread of its own, until its client disconnects."""
        is_file = isinstance(response, FileResponse)
        turn = nullcontext() if is_file else self._exports.turn(Lane(sender.tenant))
        response.streaming_content = _in_blocks(iter(response))
        async with ThreadSensitiveContext():
            try:
                async with asyncio.TaskGroup() as group:
                    listening = group.create_task(self.listen_for_disconnect(receive))
                    async with turn:
                        await self.send_response(response, send)
                    listening.cancel()
            except* (RequestAborted, BodyTooSlow):
                pass
            except* Busy:
                await self.send_response(_refuse(scope, Busy()), send)
            finally:
                await sync_to_async(response.close)()

    async def listen_for_disconnect(self, receive: Receive) -> None:
        """Wait until the client disconnects. Discard the rest of a body that is too long."""
        while (await receive())["type"] != "http.disconnect":
            pass
        raise RequestAborted


async def _finish(future: asyncio.Future[Answer]) -> None:
    await asyncio.shield(future)


def _refuse(scope: Scope, error: Busy) -> HttpResponseBase:
    request = ASGIRequest(scope, BytesIO())
    is_api = request.path_info.startswith(API_PREFIX)
    return problems.refuse(request, error) if is_api else pages.busy(error)


def _check_of(request: HttpRequest | None) -> tuple[bool, int | None]:
    """Return whether the request's key or session was checked, and the team that it opens."""
    if request is None:
        return False, None
    owner = getattr(request, "auth", None) or getattr(request, "membership", None)
    is_checked = hasattr(request, "user") or request.path_info.startswith(API_PREFIX)
    return is_checked, owner.team_id if owner else None


async def _in_blocks(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    while block := await sync_to_async(_next_block)(parts):
        yield block


def _next_block(parts: Iterator[bytes]) -> bytes:
    block = bytearray()
    for part in parts:
        block += part
        if len(block) >= BLOCK_BYTES:
            break
    return bytes(block)
