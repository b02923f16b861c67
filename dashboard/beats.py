"""Workers and the schedule note in the database that they live, busy or idle, for whoever asks after them."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import structlog
from celery.signals import beat_init, worker_ready
from django.db import DatabaseError, connection
from django.utils import timezone
from psycopg_pool import PoolTimeout

from config.celery import CHAT_QUEUE, QUEUE
from config.pulses import main_loop, repeat
from dashboard.models import Duty, WorkerBeat

NOTE_SECONDS = 5.0
DUTIES = {QUEUE: Duty.JOBS, CHAT_QUEUE: Duty.CHAT}

log = structlog.get_logger(__name__)


def note_beats(*duties: Duty) -> None:
    """Note that there is a live process for each of these duties."""
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
