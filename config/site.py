"""Django's ASGI handler, with limits on concurrent requests, body sizes and streams."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from typing import IO

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase, StreamingHttpResponse

from contextopt.asgi import Receive

# More concurrent requests would only wait for a database connection or for the interpreter.
REQUESTS_AT_ONCE = 8
# An export holds its connection for as long as its client takes to read it.
EXPORTS_AT_ONCE = 4
BLOCK_BYTES = 64_000
# A form is a little longer than the file in it. Anything beyond this is refused unread.
BODY_MAX_BYTES = 33 * 2**20


class Site(ASGIHandler):
    """Serves all pages and the API. Each request has a thread of its own while it is served.

    A slow client occupies a connection, but does not count as a request being served.
    """

    def __init__(self) -> None:
        super().__init__()
        self._turns = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._exports = asyncio.Semaphore(EXPORTS_AT_ONCE)

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

    async def listen_for_disconnect(self, receive: Receive) -> None:
        """Wait until the client disconnects. Discard the rest of a body that is too long."""
        while (await receive())["type"] != "http.disconnect":
            pass
        raise RequestAborted

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        async with self._turns:
            response = await super().run_get_response(request)
        # Django would read a whole export into memory before it sends any of it.
        if isinstance(response, StreamingHttpResponse) and not response.is_async:
            response.streaming_content = self._in_blocks(iter(response))
        return response

    async def _in_blocks(self, parts: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the parts in blocks, which are filled in the request's thread."""
        async with self._exports:
            while block := await sync_to_async(_next_block)(parts):
                yield block


def _next_block(parts: Iterator[bytes]) -> bytes:
    block = bytearray()
    for part in parts:
        block += part
        if len(block) >= BLOCK_BYTES:
            break
    return bytes(block)
