"""The web application: Django for pages and API. Event streams and MCP requests hold no thread."""

import asyncio
import gc
import os
from collections.abc import Mapping
from typing import Any

# Nothing imported is ever freed, so garbage collection would waste a sixth of the startup time.
gc.disable()

import django  # noqa: E402

from config.pooling import limit_waits  # noqa: E402

limit_waits()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

# The first request should not wait until all pages and the API are imported, and the models loaded.
import config.urls  # noqa: E402, F401
from config.embedded.pulses import start_pulse  # noqa: E402
from config.garbage import keep_imported  # noqa: E402
from config.handler import Site  # noqa: E402
from contextopt.asgitypes import Receive, Scope, Send  # noqa: E402
from contextopt.assemblies.warmup import load_models  # noqa: E402
from dashboard.kit.serverevents import EVENTS_PATH, serve_events  # noqa: E402
from memory.mcp.http import MCP_PATH, serve_mcp  # noqa: E402

# A refused guess of a password or a key is answered after this time.
REFUSAL_SECONDS = 1.0
_site = Site()


def with_slow_refusals(send: Send) -> Send:
    """Return a `send` that holds refused guesses back, so that a client cannot send the next one at once.

    The wait takes no thread. A key that has reached its limit is told so at once, with its `RateLimit`.
    """

    async def sending(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start" and message["status"] == 429:
            names = {name.lower() for name, _ in message.get("headers", ())}
            if b"ratelimit-limit" not in names:
                await asyncio.sleep(REFUSAL_SECONDS)
        await send(message)

    return sending


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http" and scope["path"] == EVENTS_PATH:
        await serve_events(scope, receive, send)
        return
    send = with_slow_refusals(send)
    if scope["type"] == "http" and scope["path"].removesuffix("/") == MCP_PATH:
        await serve_mcp(scope, receive, send)
    else:
        await _site(scope, receive, send)


load_models()
keep_imported()
start_pulse()
