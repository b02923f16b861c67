"""Django's handler under ASGI, with limits on concurrent requests, body sizes and streams."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from contextvars import copy_context
from typing import IO

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.http import FileResponse, HttpResponseBadRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from contextopt.asgi import Receive, Scope, Send

# More concurrent requests would only wait for a database connection or for the interpreter.
REQUESTS_AT_ONCE = 8
# An export holds its connection for as long as its client takes to read it.
EXPORTS_AT_ONCE = 4
BLOCK_BYTES = 64_000
# A form is a little longer than the file in it. Anything beyond this is refused unread.
BODY_MAX_BYTES = 33 * 2**20


class Site(ASGIHandler):
    """Serves all pages and the API. A request runs in one thread, because all views are synchronous.

    Django's own handler starts a thread for each request and switches to it several times, which costs almost
    a millisecond of processor time. A slow client occupies a connection, but no thread.
    """

    def __init__(self) -> None:
        BaseHandler.__init__(self)
        self.load_middleware(is_async=False)
        self._threads = ThreadPoolExecutor(REQUESTS_AT_ONCE, "request")
        self._exports = asyncio.Semaphore(EXPORTS_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            # The client has gone, or sent chunks that are none. Without an answer, the server sends a 500.
            cut = HttpResponseBadRequest("The body ended too early.", content_type="text/plain")
            await self.send_response(cut, send)
            return
        with closing(body):
            run = copy_context().run
            loop = asyncio.get_running_loop()
            response = await loop.run_in_executor(self._threads, run, self._respond, scope, body)
            if isinstance(response, StreamingHttpResponse):
                await self._send_stream(response, receive, send)
            else:
                await self.send_response(response, send)

    async def read_body(self, receive: Receive) -> IO[bytes]:
        """Read a body, or just enough of it for Django to see that it is too long."""
        # The caller closes it.
        body = tempfile.SpooledTemporaryFile(settings.FILE_UPLOAD_MAX_MEMORY_SIZE)  # noqa: SIM115
        while body.tell() <= BODY_MAX_BYTES:
            message = await receive()
            if message["type"] == "http.disconnect":
                body.close()
                raise RequestAborted
            part = message.get("body", b"")
            if body.tell() + len(part) > settings.FILE_UPLOAD_MAX_MEMORY_SIZE:
                await sync_to_async(body.write, thread_sensitive=False)(part)
            else:
                body.write(part)
            if not message.get("more_body", False):
                break
        body.seek(0)
        return body

    def _respond(self, scope: Scope, body: IO[bytes]) -> HttpResponseBase:
        """Serve a request and release this thread's database connection."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=type(self), scope=scope)
        request, refusal = self.create_request(scope, body)
        response = refusal if request is None else self.get_response(request)
        assert response is not None
        if isinstance(response, StreamingHttpResponse):
            signals.request_finished.send(sender=type(self))
        else:
            response.close()
        return response

    async def _send_stream(self, response: StreamingHttpResponse, receive: Receive, send: Send) -> None:
        """Send a file or an export from a thread of its own, until its client disconnects."""
        turn = nullcontext() if isinstance(response, FileResponse) else self._exports
        response.streaming_content = _in_blocks(iter(response))
        async with ThreadSensitiveContext():
            try:
                async with asyncio.TaskGroup() as group:
                    listening = group.create_task(self.listen_for_disconnect(receive))
                    async with turn:
                        await self.send_response(response, send)
                    listening.cancel()
            except* RequestAborted:
                pass
            finally:
                await sync_to_async(response.close)()

    async def listen_for_disconnect(self, receive: Receive) -> None:
        """Wait until the client disconnects. Discard the rest of a body that is too long."""
        while (await receive())["type"] != "http.disconnect":
            pass
        raise RequestAborted


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
