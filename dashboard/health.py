"""The health of the installation: for the admin's first page and for `GET /api/v1/health`."""

import shutil
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypedDict

import psycopg
from celery import current_app
from django.conf import settings
from django.db.models import Min
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils import timezone
from kombu.exceptions import OperationalError

from config.celery import CHAT_QUEUE, QUEUE
from config.embedded import place
from contextopt.assemblies.models import Assembly
from contextopt.search.vectors.storage import embedding_status
from contextopt.sql import fetch_all
from dashboard.beats import Duty, WorkerBeat
from dashboard.kit.formats import whole
from dashboard.rollups.models import UnfoldedAssembly

# Processes report every five seconds (beats.py), even in the middle of a job.
ALIVE = timedelta(seconds=15)
SLOW_FOLD_SECONDS = 300
LONG_QUEUE = 1_000
UNFOLDED_COUNTED = 100_000
DISK_NEEDED = 0.05


class HealthJson(TypedDict):
    """The health of the installation. A queue length is null if the broker does not respond; disk figures are
    null if the database's disk cannot be seen from here.
    """

    ok: bool
    worker_alive: bool
    worker_seen_at: datetime | None
    queue_length: int | None
    chat_worker_alive: bool
    chat_worker_seen_at: datetime | None
    chat_queue_length: int | None
    schedule_alive: bool
    schedule_seen_at: datetime | None
    embedding_model: str
    embedding_building: str
    embedding_backlog: int
    rollups_behind: int
    rollups_behind_seconds: float
    database_bytes: int
    disk_free_bytes: int | None
    disk_total_bytes: int | None


def is_ok(health: HealthJson) -> bool:
    """Return whether nothing needs attention."""
    are_working = health["worker_alive"] and health["chat_worker_alive"] and health["schedule_alive"]
    are_short = _is_short(health["queue_length"]) and _is_short(health["chat_queue_length"])
    return are_working and are_short and _is_folded(health) and has_disk(health)


def has_disk(health: HealthJson) -> bool:
    """Return whether enough disk space is left; true if the disk cannot be seen."""
    free, total = health["disk_free_bytes"], health["disk_total_bytes"]
    return free is None or total is None or free >= DISK_NEEDED * total


def _is_folded(health: HealthJson) -> bool:
    return health["rollups_behind_seconds"] < SLOW_FOLD_SECONDS


@dataclass(frozen=True, slots=True)
class Sign:
    """One figure of the admin's first page; `remedy` says what to do if it is not good."""

    label: str
    value: str
    note: str
    is_good: bool
    remedy: str = ""


def read_health() -> HealthJson:
    """Read all figures of the installation; the cost of each is bounded, and backlogs are counted up to a
    limit.
    """
    now = timezone.now()
    seen: dict[int, datetime] = dict(WorkerBeat.objects.values_list("pk", "beaten_at"))
    embedding = embedding_status()
    behind, seconds = _rollups_behind(now)
    [(database_bytes,)] = fetch_all("SELECT pg_database_size(current_database())")
    disk = _database_disk()
    health = HealthJson(
        ok=False,
        worker_alive=_is_alive(seen.get(Duty.JOBS), now),
        worker_seen_at=seen.get(Duty.JOBS),
        queue_length=_queue_length(QUEUE),
        chat_worker_alive=_is_alive(seen.get(Duty.CHAT), now),
        chat_worker_seen_at=seen.get(Duty.CHAT),
        chat_queue_length=_queue_length(CHAT_QUEUE),
        schedule_alive=_is_alive(seen.get(Duty.SCHEDULE), now),
        schedule_seen_at=seen.get(Duty.SCHEDULE),
        embedding_model=embedding.model,
        embedding_building=embedding.building,
        embedding_backlog=embedding.backlog,
        rollups_behind=behind,
        rollups_behind_seconds=seconds,
        database_bytes=database_bytes,
        disk_free_bytes=disk and disk.free,
        disk_total_bytes=disk and disk.total,
    )
    return {**health, "ok": is_ok(health)}


class Disk(NamedTuple):
    """The space on a file system, in bytes."""

    total: int
    used: int
    free: int


def _database_disk() -> Disk | None:
    """Return the disk of the embedded server's data; None for a server that someone else runs."""
    if settings.DATABASE_URL:
        return None
    return Disk(*shutil.disk_usage(place.location().data_dir))


def _is_alive(seen_at: datetime | None, now: datetime) -> bool:
    return seen_at is not None and now - seen_at < ALIVE


def _is_short(queue_length: int | None) -> bool:
    return queue_length is not None and queue_length < LONG_QUEUE


def _rollups_behind(now: datetime) -> tuple[int, float]:
    """Return how many assemblies are in no rollup, and how many seconds ago the first of them was made."""
    waiting = list(UnfoldedAssembly.objects.values_list("pk", flat=True)[: UNFOLDED_COUNTED + 1])
    if not waiting:
        return 0, 0.0
    first = Assembly.objects.filter(pk=min(waiting)).aggregate(first=Min("as_of"))["first"]
    return len(waiting), max(0.0, (now - first).total_seconds()) if first else 0.0


def _queue_length(name: str) -> int | None:
    """Ask the broker once; return None if it does not answer or has no such queue."""
    broker = current_app.connection_for_read()
    failures: tuple[type[BaseException], ...] = (
        # The queue in PostgreSQL raises its driver's own errors: no such server, no such schema.
        psycopg.Error, OperationalError, *broker.connection_errors, *broker.channel_errors,
    )  # fmt: skip
    try:
        with broker:
            channel: Any = broker.channel()
            declared = channel.queue_declare(name, passive=True)
            return int(declared.message_count)
    except failures:
        return None


def health_signs(health: HealthJson) -> list[Sign]:
    """Return the figures as text."""
    building = health["embedding_building"]
    return [
        _worker_sign("Worker", health["worker_seen_at"], is_alive=health["worker_alive"]),
        _queue_sign("Jobs waiting", health["queue_length"], QUEUE),
        _worker_sign("Chat worker", health["chat_worker_seen_at"], is_alive=health["chat_worker_alive"]),
        _queue_sign("Chat jobs waiting", health["chat_queue_length"], CHAT_QUEUE),
        _worker_sign("Schedule", health["schedule_seen_at"], is_alive=health["schedule_alive"]),
        Sign("Waiting to be embedded", whole(health["embedding_backlog"]),
             f"{health["embedding_model"] or 'no model yet'}{f', building {building}' if building else ''}",
             is_good=True),
        Sign("Not in rollups yet", whole(health["rollups_behind"]),
             f"assemblies; oldest from {whole(health["rollups_behind_seconds"])} s ago"
             if health["rollups_behind"] else "all assemblies counted",
             _is_folded(health), "Check the worker's log, then run manage.py rebuild_rollups"),
        Sign("Database", filesizeformat(health["database_bytes"]), "including indexes", is_good=True),
        _disk_sign(health),
    ]  # fmt: skip


def _disk_sign(health: HealthJson) -> Sign:
    if health["disk_free_bytes"] is None or health["disk_total_bytes"] is None:
        return Sign("Database disk", "unknown", "the database runs on a separate server", is_good=True)
    return Sign(
        "Database disk free", filesizeformat(health["disk_free_bytes"]),
        f"of {filesizeformat(health["disk_total_bytes"])}", has_disk(health),
        "Free some disk space. PostgreSQL stops when the disk is full",
    )  # fmt: skip


def _worker_sign(label: str, seen_at: datetime | None, *, is_alive: bool) -> Sign:
    seen = f"last seen {timezone.localtime(seen_at):%-d %b %Y %H:%M:%S}" if seen_at else "never seen"
    remedy = "Start it with manage.py up, or celery -A config worker --beat"
    return Sign(label, "running" if is_alive else "not running", seen, is_alive, remedy)


def _queue_sign(label: str, length: int | None, name: str) -> Sign:
    value = "–" if length is None else whole(length)
    note = "the broker does not respond, or the queue does not exist" if length is None else "in the queue"
    return Sign(label, value, note, _is_short(length), f"Add a worker: celery -A config worker -Q {name}")


def show_in_admin(_request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the signs to the admin's first page. Unfold calls this function."""
    return {**context, "signs": health_signs(read_health())}
