"""Tells open pages that something of their team has changed, as server-sent events.

An open page takes no thread. Four times a second, one task per process checks the newest rows of the teams
that have pages open, and pages that show such rows request them again. Pages that get no events poll.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from typing import cast

import psycopg
import structlog
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.contrib import auth
from django.contrib.sessions.backends.db import SessionStore
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections

from contextopt.asgitypes import Receive, Scope, Send
from contextopt.sql import DATABASE_UNREACHABLE, own_conninfo
from dashboard.kit.permissions import TeamRequest, enter_team

log = structlog.get_logger(__name__)

EVENTS_PATH = "/events"
TOPICS = ("assemblies", "votes", "keys", "tasks", "traffic")
LOOK_SECONDS = 0.25
# Proxies close a connection that is silent for longer.
HEARTBEAT_SECONDS = 15.0
# After this time at most, a visitor who has logged out or left the team gets no more events.
RECHECK_SECONDS = 60.0
RECONNECT_SECONDS = 2.0
STREAMS_A_PERSON = 20

# The newest rows of each topic, from indexes on a team's newest rows: 0.2 ms.
_NEWEST = """
SELECT ARRAY(SELECT id FROM contextopt_assembly WHERE team_id = %(team)s
              ORDER BY created_at DESC, id DESC LIMIT 20),
       ARRAY(SELECT (id, updated_at)::text FROM memory_vote WHERE team_id = %(team)s
              ORDER BY created_at DESC, id DESC LIMIT 20),
       ARRAY(SELECT (id, ways)::text FROM contextopt_apikey WHERE team_id = %(team)s
              ORDER BY id DESC LIMIT 20),
       ARRAY(SELECT (t.id, t.updated_at,
                     (SELECT max(number) FROM contextopt_finding WHERE task_id = t.id))::text
               FROM (SELECT id, updated_at FROM contextopt_task WHERE team_id = %(team)s
                      ORDER BY created_at DESC, id DESC LIMIT 20) t),
       ARRAY(SELECT id FROM contextopt_gatewayrequest WHERE team_id = %(team)s
              ORDER BY created_at DESC, id DESC LIMIT 20)
"""


@dataclass(frozen=True, slots=True)
class Visitor:
    user_id: int
    team_id: int


@dataclass(eq=False, slots=True)
class Stream:
    """An open page: the topics that changed since it was last told, and a bell that rings for them."""

    visitor: Visitor
    changed: set[str] = field(default_factory=set)
    bell: asyncio.Event = field(default_factory=asyncio.Event)


class Watch:
    """The open pages of this process, and the task that looks for changes while there are any."""

    def __init__(self) -> None:
        self._streams: set[Stream] = set()
        self._seen: dict[int, tuple[object, ...]] = {}
        self._task: asyncio.Task[None] | None = None

    def has_room(self, visitor: Visitor) -> bool:
        own = Counter(stream.visitor.user_id for stream in self._streams)[visitor.user_id]
        return len(self._streams) < settings.EVENT_STREAMS and own < STREAMS_A_PERSON

    def open(self, visitor: Visitor) -> Stream:
        stream = Stream(visitor)
        self._streams.add(stream)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        return stream

    def close(self, stream: Stream) -> None:
        self._streams.discard(stream)

    async def _look(self) -> None:
        """Look for changes until no page is open. If the database is unreachable, try again."""
        while self._streams:
            try:
                async with await _connect() as database:
                    while self._streams:
                        for team_id in {stream.visitor.team_id for stream in self._streams}:
                            self._tell(team_id, await _read_newest(database, team_id))
                        await asyncio.sleep(LOOK_SECONDS)
            except psycopg.Error as error:
                log.warning("events_database_lost", error=type(error).__name__)
                await asyncio.sleep(RECONNECT_SECONDS)
        self._seen.clear()

    def _tell(self, team_id: int, newest: tuple[object, ...]) -> None:
        before = self._seen.get(team_id, newest)
        self._seen[team_id] = newest
        changed = {topic for topic, old, new in zip(TOPICS, before, newest, strict=True) if old != new}
        for stream in self._streams if changed else ():
            if stream.visitor.team_id == team_id:
                stream.changed |= changed
                stream.bell.set()


_watch = Watch()


async def _connect() -> psycopg.AsyncConnection[tuple[object, ...]]:
    return await psycopg.AsyncConnection.connect(own_conninfo(), autocommit=True, connect_timeout=5)


async def _read_newest(
    database: psycopg.AsyncConnection[tuple[object, ...]], team_id: int
) -> tuple[object, ...]:
    row = await (await database.execute(_NEWEST, {"team": team_id})).fetchone()
    return row or ()


async def serve_events(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one page's events until it is closed or its visitor loses access."""
    if scope["method"] != "GET":
        await _refuse(send, 405)
        return
    try:
        visitor = await _find_visitor(scope)
    except DATABASE_UNREACHABLE:
        await _refuse(send, 503)
        return
    if visitor is None:
        # A browser does not try again after this.
        await _refuse(send, 401)
        return
    if not _watch.has_room(visitor):
        await _refuse(send, 503)
        return
    stream = _watch.open(visitor)
    telling = asyncio.create_task(_tell_until_gone(scope, send, stream))
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    finally:
        _watch.close(stream)
        telling.cancel()
        with suppress(asyncio.CancelledError):
            await telling


async def _refuse(send: Send, status: int) -> None:
    headers = [(b"content-length", b"0"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _tell_until_gone(scope: Scope, send: Send, stream: Stream) -> None:
    headers = [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await _send_text(send, "retry: 2000\n\n")
    loop = asyncio.get_running_loop()
    checked_at = loop.time()
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(stream.bell.wait(), HEARTBEAT_SECONDS)
        if loop.time() - checked_at > RECHECK_SECONDS:
            if not await _may_stay(scope, stream.visitor):
                break
            checked_at = loop.time()
        topics, stream.changed = stream.changed, set()
        stream.bell.clear()
        await _send_text(send, "".join(f"event: {topic}\ndata: \n\n" for topic in sorted(topics)) or ":\n\n")
    await send({"type": "http.response.body", "body": b""})


async def _may_stay(scope: Scope, visitor: Visitor) -> bool:
    """Return whether the visitor still has access. Without the database there is nothing to tell anyway."""
    try:
        return await _find_visitor(scope) == visitor
    except DATABASE_UNREACHABLE:
        return True


async def _send_text(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _find_visitor(scope: Scope) -> Visitor | None:
    async with ThreadSensitiveContext():
        return await sync_to_async(_read_visitor)(scope)


def _read_visitor(scope: Scope) -> Visitor | None:
    """Return the visitor, found by session and chosen team as for pages."""
    request = cast(TeamRequest, ASGIRequest(scope, BytesIO()))
    try:
        request.get_host()
        request.session = SessionStore(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
        user = auth.get_user(request)
        if not user.is_authenticated:
            return None
        request.user = user
        return Visitor(user.pk, request.team.pk) if enter_team(request) else None
    except DisallowedHost:
        return None
    finally:
        close_old_connections()
