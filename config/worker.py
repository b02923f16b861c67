"""Celery's worker and schedule as the product runs them: they show that they live, and no job runs for ever.

Imported by the worker and the schedule alone, which config/celery.py tells to use these classes.
"""

import faulthandler
from typing import Any

import structlog
from celery.beat import PersistentScheduler
from celery.signals import beat_init, task_postrun, task_prerun, worker_ready
from celery.worker import consumer, state
from django.conf import settings
from django.db import connection
from psycopg import OperationalError

from config.celery import HARD_TIME_LIMIT_SECONDS
from config.embedded.pulses import BEAT_SECONDS, main_loop, start_pulse

# A job that this many workers have begun and none has ended is dropped: it would end the next one as well.
BEGUN_MAX = 3
# Celery puts something without a descriptor in the place of `sys.stderr`.
STDERR = 2

log = structlog.get_logger(__name__)


class Consumer(consumer.Consumer):
    """Takes jobs off the queue, and notes that it does."""

    # The stubs lack it.
    task_consumer: Any

    def perform_pending_operations(self) -> None:
        """Is called between jobs, at every turn of the loop that asks the queue in PostgreSQL.

        Raises:
            OperationalError: a job's end could not be told to the server. The channel would count the job as
                under way for ever and ask for no other; Celery opens another one.
        """
        main_loop.turn()
        # Celery asks the queue once more for two seconds after it was told to stop.
        state.maybe_shutdown()
        super().perform_pending_operations()
        if not self.task_consumer.channel.qos.can_consume():
            raise OperationalError("a job could not be acknowledged")

    def register_with_event_loop(self, hub: Any) -> None:
        """Is called once where the broker has an event loop, as Redis has."""
        super().register_with_event_loop(hub)
        hub.call_repeatedly(BEAT_SECONDS, main_loop.turn)


class Scheduler(PersistentScheduler):
    """Sends scheduled jobs, and notes that it does."""

    def tick(self, *args: Any, **kwargs: Any) -> float:
        main_loop.turn()
        return super().tick(*args, **kwargs)


@worker_ready.connect
@beat_init.connect
def show_life(**_: object) -> None:
    start_pulse(main_loop.is_well)


@worker_ready.connect
def drop_deadly_jobs(sender: Any, **_: object) -> None:
    """Drop jobs that workers died in again and again. Schedule and sweep repeat all that must be done."""
    if settings.CELERY_BROKER_URL:
        return
    with connection.cursor() as cursor:
        for queue in sender.app.amqp.queues.consume_from:
            cursor.execute(
                f"DELETE FROM pgmq.q_{queue} WHERE read_ct >= %s RETURNING headers ->> 'task'", [BEGUN_MAX]
            )
            for (name,) in cursor.fetchall():
                log.error("deadly_job_dropped", job=name)


@task_prerun.connect
def begin_job(**_: object) -> None:
    """Have this process end if the job takes too long; the job returns to the queue with it.

    The limit holds even where the job holds the interpreter.
    """
    main_loop.is_in_job = True
    faulthandler.dump_traceback_later(HARD_TIME_LIMIT_SECONDS, exit=True, file=STDERR)


@task_postrun.connect
def end_job(**_: object) -> None:
    faulthandler.cancel_dump_traceback_later()
    main_loop.is_in_job = False
    main_loop.turn()
