"""The tools on standard input and output, a message a line."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TextIO, cast

from anyio import AsyncFile, wrap_file
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError

from contextopt.errors import InvalidInput
from memory.mcp.wire import find_repeated_key

STDIN = 0


class CheckedLines:
    """The lines on standard input. One that names a key twice is answered with an error and goes no further.

    `sink` takes the answers.
    """

    def __init__(self, source: AsyncFile[str]) -> None:
        self.source = source
        self.sink: Any = None

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self.source:
            error = find_repeated_key(line.encode())
            if error is None:
                yield line
            else:
                await self.sink.send(SessionMessage(refusal(line, error)))


def refusal(line: str, error: InvalidInput) -> JSONRPCError:
    """Return the answer to a message. One whose id is not usable is answered without it."""
    message = json.loads(line)
    given = message.get("id") if isinstance(message, dict) else None
    told = ErrorData(code=INVALID_REQUEST, message=str(error))
    return JSONRPCError(jsonrpc="2.0", id=given if type(given) in {int, str} else None, error=told)


@asynccontextmanager
async def checked_stdio() -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of messages, as the SDK's `stdio_server` does."""
    lines = CheckedLines(wrap_file(take_stdin()))
    async with stdio_server(stdin=cast("Any", lines)) as (received, sent):
        lines.sink = sent
        yield received, sent


def take_stdin() -> TextIO:
    """Return standard input, and leave an empty one in its place, so that nothing else reads the messages."""
    taken = os.dup(STDIN)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STDIN)
    os.close(nothing)
    return os.fdopen(taken, encoding="utf-8", errors="replace", closefd=False)
