"""Records when workers last showed that they are alive."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import structlog
from celery.signals import beat_init, worker_ready
from django.db import DatabaseError, connection, models
from django.utils import timezone
from psycopg_pool import PoolTimeout

from config.celery import CHAT_QUEUE, QUEUE
from config.embedded.pulses import main_loop, repeat


class Duty(models.IntegerChoices):
    """A process's duty: running jobs, answering chat, or keeping the schedule."""

    JOBS = 1
    CHAT = 2
    SCHEDULE = 3


class WorkerBeat(models.Model):
    """The last moment at which any process with a duty was alive. The key is the duty's number."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    beaten_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{Duty(self.pk).label} worker at {self.beaten_at:%Y-%m-%d %H:%M:%S}"


NOTE_SECONDS = 5.0
DUTIES = {QUEUE: Duty.JOBS, CHAT_QUEUE: Duty.CHAT}

log = structlog.get_logger(__name__)


def note_beats(*duties: Duty) -> None:
    """Record that a process is alive for each of these duties."""
    now = timezone.now()
    WorkerBeat.objects.bulk_create(
        [WorkerBeat(id=duty, beaten_at=now) for duty in duties],
        update_conflicts=True,
        unique_fields=["id"],
        update_fields=["beaten_at"],
    )


@worker_ready.connect
def note_worker(sender: Any, **_: object) -> None:
    taken = sender.app.amqp.queues.consume_from
    _keep_noting([duty for queue, duty in DUTIES.items() if queue in taken])


@beat_init.connect
def note_schedule(**_: object) -> None:
    _keep_noting([Duty.SCHEDULE])


def _keep_noting(duties: Sequence[Duty]) -> None:
    repeat(partial(_note, duties), seconds=NOTE_SECONDS)


def _note(duties: Sequence[Duty]) -> None:
    if not main_loop.is_well():
        return
    try:
        note_beats(*duties)
    except (DatabaseError, PoolTimeout) as error:
        log.warning("beat_not_noted", problem=str(error))
    finally:
        connection.close()
