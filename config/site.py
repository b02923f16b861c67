"""Django's ASGI handler, with a bound on the requests at work and with streams of constant memory."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase, StreamingHttpResponse

type Scope = dict[str, Any]
type Receive = Callable[[], Awaitable[Mapping[str, Any]]]
type Send = Callable[[Mapping[str, Any]], Awaitable[None]]

# More requests at once would wait for a connection to the database, or for the interpreter.
REQUESTS_AT_ONCE = 8
BLOCK_BYTES = 64_000


class Site(ASGIHandler):
    """Serves all pages and the API. Each request has a thread of its own while it is served."""

    def __init__(self) -> None:
        super().__init__()
        self._turns = asyncio.Semaphore(REQUESTS_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._turns:
            await super().__call__(scope, receive, send)

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        response = await super().run_get_response(request)
        # Django would read a whole export into memory before it sends any of it.
        if isinstance(response, StreamingHttpResponse) and not response.is_async:
            response.streaming_content = _in_blocks(iter(response))
        return response


async def _in_blocks(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Read parts in the request's thread, as many at a time as fill a block."""
    while block := await sync_to_async(_next_block)(parts):
        yield block


def _next_block(parts: Iterator[bytes]) -> bytes:
    block = bytearray()
    for part in parts:
        block += part
        if len(block) >= BLOCK_BYTES:
            break
    return bytes(block)
