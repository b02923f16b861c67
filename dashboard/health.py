"""How the installation is: for the admin's first page and for `GET /api/v1/health`."""

import shutil
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict

import psycopg
from celery import current_app
from django.conf import settings
from django.db import connection
from django.db.models import Min
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils import timezone
from kombu.exceptions import OperationalError

from contextopt.embeddingstatus import embedding_status
from contextopt.models import Assembly
from dashboard.formats import whole
from dashboard.models import UnfoldedAssembly, WorkerBeat

# The worker folds every three seconds, and no job of its may take longer than 90.
ALIVE = timedelta(seconds=120)
SLOW_FOLD_SECONDS = 300
LONG_QUEUE = 1_000
UNFOLDED_COUNTED = 100_000
DISK_NEEDED = 0.05


class HealthJson(TypedDict):
    """What the API answers. A queue of none says that the broker did not answer."""

    ok: bool
    worker_alive: bool
    worker_seen_at: datetime | None
    queue_length: int | None
    embedding_model: str
    embedding_building: str
    embedding_backlog: int
    rollups_behind: int
    rollups_behind_seconds: float
    database_bytes: int
    disk_free_bytes: int
    disk_total_bytes: int


@dataclass(frozen=True, slots=True)
class Health:
    """Figures of the whole installation at a moment. Backlogs are counted up to a bound."""

    worker_alive: bool
    worker_seen_at: datetime | None
    queue_length: int | None
    embedding_model: str
    embedding_building: str
    embedding_backlog: int
    rollups_behind: int
    rollups_behind_seconds: float
    database_bytes: int
    disk_free_bytes: int
    disk_total_bytes: int

    @property
    def has_disk(self) -> bool:
        return self.disk_free_bytes >= DISK_NEEDED * self.disk_total_bytes

    @property
    def has_short_queue(self) -> bool:
        return self.queue_length is not None and self.queue_length < LONG_QUEUE

    @property
    def is_folded(self) -> bool:
        return self.rollups_behind_seconds < SLOW_FOLD_SECONDS

    @property
    def is_ok(self) -> bool:
        return self.worker_alive and self.has_short_queue and self.is_folded and self.has_disk

    def to_json(self) -> HealthJson:
        return {
            "ok": self.is_ok,
            "worker_alive": self.worker_alive,
            "worker_seen_at": self.worker_seen_at,
            "queue_length": self.queue_length,
            "embedding_model": self.embedding_model,
            "embedding_building": self.embedding_building,
            "embedding_backlog": self.embedding_backlog,
            "rollups_behind": self.rollups_behind,
            "rollups_behind_seconds": self.rollups_behind_seconds,
            "database_bytes": self.database_bytes,
            "disk_free_bytes": self.disk_free_bytes,
            "disk_total_bytes": self.disk_total_bytes,
        }


@dataclass(frozen=True, slots=True)
class Sign:
    """One figure of the admin's first page; `remedy` says what to do where it is not good."""

    label: str
    value: str
    note: str
    is_good: bool
    remedy: str = ""


def note_beat() -> None:
    """Note that a worker lives."""
    WorkerBeat.objects.update_or_create(pk=1, defaults={"beaten_at": timezone.now()})


def read_health() -> Health:
    """Read all figures, each bounded in what it costs."""
    now = timezone.now()
    seen_at = WorkerBeat.objects.values_list("beaten_at", flat=True).first()
    embedding = embedding_status()
    behind, seconds = _rollups_behind(now)
    disk = shutil.disk_usage(settings.BASE_DIR)
    return Health(
        worker_alive=seen_at is not None and now - seen_at < ALIVE,
        worker_seen_at=seen_at,
        queue_length=_queue_length(),
        embedding_model=embedding.model,
        embedding_building=embedding.building,
        embedding_backlog=embedding.backlog,
        rollups_behind=behind,
        rollups_behind_seconds=seconds,
        database_bytes=_database_bytes(),
        disk_free_bytes=disk.free,
        disk_total_bytes=disk.total,
    )


def _rollups_behind(now: datetime) -> tuple[int, float]:
    """Return how many assemblies no rollup has, and how many seconds ago the first of them was made."""
    waiting = list(UnfoldedAssembly.objects.values_list("pk", flat=True)[: UNFOLDED_COUNTED + 1])
    if not waiting:
        return 0, 0.0
    first = Assembly.objects.filter(pk=min(waiting)).aggregate(first=Min("as_of"))["first"]
    return len(waiting), max(0.0, (now - first).total_seconds()) if first else 0.0


def _queue_length() -> int | None:
    """Ask the broker once; none where it does not answer."""
    broker = current_app.connection_for_read()
    failures: tuple[type[BaseException], ...] = (
        # The queue in PostgreSQL gives its driver's own: no such server, no such schema.
        psycopg.Error, OperationalError, *broker.connection_errors, *broker.channel_errors,
    )  # fmt: skip
    try:
        with broker:
            channel: Any = broker.channel()
            declared = channel.queue_declare(current_app.conf.task_default_queue, passive=True)
            return int(declared.message_count)
    except failures:
        return None


def _database_bytes() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        row = cursor.fetchone()
    return int(row[0]) if row else 0


def health_signs(health: Health) -> list[Sign]:
    """Return the figures in words."""
    seen = health.worker_seen_at
    seen_words = f"last seen {timezone.localtime(seen):%-d %b %Y %H:%M:%S}" if seen else "never seen"
    queue, building = health.queue_length, health.embedding_building
    return [
        Sign("Worker", "alive" if health.worker_alive else "not alive", seen_words, health.worker_alive,
             "Start it: manage.py up, or celery -A config worker --beat"),
        Sign("Jobs waiting", "–" if queue is None else whole(queue),
             "the broker does not answer" if queue is None else "in the queue", health.has_short_queue,
             "Add a worker: celery -A config worker"),
        Sign("To be embedded", whole(health.embedding_backlog),
             f"{health.embedding_model or 'no model yet'}{f', {building} is being made' if building else ''}",
             is_good=True),
        Sign("Behind in rollups", whole(health.rollups_behind),
             f"assemblies, the first {whole(health.rollups_behind_seconds)} s ago"
             if health.rollups_behind else "all assemblies are in",
             health.is_folded, "Look at the worker's log; manage.py rebuild_rollups makes them again"),
        Sign("Database", filesizeformat(health.database_bytes), "with indexes", is_good=True),
        Sign("Disk free", filesizeformat(health.disk_free_bytes),
             f"of {filesizeformat(health.disk_total_bytes)}", health.has_disk,
             "Make room: PostgreSQL stops when there is none"),
    ]  # fmt: skip


def show_in_admin(_request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the signs to the admin's first page (unfold calls this for it)."""
    return {**context, "signs": health_signs(read_health())}
