"""The web application: Django for pages and API. Event streams and MCP requests hold no thread."""

import gc
import os

# Nothing imported is ever freed, so garbage collection would waste a sixth of the startup time.
gc.disable()

import django  # noqa: E402

from config.pooling import limit_waits  # noqa: E402

limit_waits()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

# The first page should not wait until all pages and the API are imported.
import config.urls  # noqa: E402, F401
from config.embedded.pulses import start_pulse  # noqa: E402
from config.garbage import keep_imported  # noqa: E402
from config.site import Site  # noqa: E402
from contextopt.asgi import Receive, Scope, Send  # noqa: E402
from dashboard.kit.frame.events import EVENTS_PATH, serve_events  # noqa: E402
from memory.mcp.http import MCP_PATH, serve_mcp  # noqa: E402

_site = Site()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http" and scope["path"] == EVENTS_PATH:
        await serve_events(scope, receive, send)
    elif scope["type"] == "http" and scope["path"].removesuffix("/") == MCP_PATH:
        await serve_mcp(scope, receive, send)
    else:
        await _site(scope, receive, send)


keep_imported()
start_pulse()
