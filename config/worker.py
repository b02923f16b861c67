"""Celery's worker and schedule as the product runs them, with signs of life and a time limit for each job.

Only the worker and the schedule import this module; config/celery.py tells them to use these classes.
"""

import faulthandler
import os
from typing import Any

import structlog
from celery.beat import PersistentScheduler
from celery.signals import beat_init, task_postrun, task_prerun, worker_ready
from celery.worker import consumer, state
from django.conf import settings
from django.db import connection
from psycopg import OperationalError

from config.celery import HARD_TIME_LIMIT_SECONDS, app
from config.embedded.pulses import BEAT_SECONDS, main_loop, start_pulse

# A job that this many workers began and none finished is dropped: it would kill the next worker too.
BEGUN_MAX = 3
# Pages and prompts go first where processor time is short.
NICENESS = 5
# Celery replaces `sys.stderr` with an object without a descriptor.
STDERR = 2

# The worker waits for a broker that hangs. If acknowledging a job timed out, the channel would count the job
# as under way for ever and fetch no other. Nobody waits here, unlike in a request.
app.conf.broker_transport_options.pop("socket_timeout", None)

log = structlog.get_logger(__name__)


class Consumer(consumer.Consumer):
    """Takes jobs off the queue and reports that its loop turns."""

    # Missing from the stubs.
    task_consumer: Any

    def perform_pending_operations(self) -> None:
        """Handle pending work between jobs, on every turn of the loop that asks the queue in PostgreSQL.

        Raises:
            OperationalError: a job could not be acknowledged. The channel would count the job as under way
                for ever and fetch no other; Celery opens a new channel.
        """
        main_loop.turn()
        # Otherwise Celery would ask the queue for two more seconds after it was told to stop.
        state.maybe_shutdown()
        super().perform_pending_operations()
        if not self.task_consumer.channel.qos.can_consume():
            raise OperationalError("a job could not be acknowledged")

    def register_with_event_loop(self, hub: Any) -> None:
        """Register the loop's turns with a broker that has an event loop, such as Redis. Called once."""
        super().register_with_event_loop(hub)
        hub.call_repeatedly(BEAT_SECONDS, main_loop.turn)


class Scheduler(PersistentScheduler):
    """Sends scheduled jobs and reports that its loop turns."""

    # Missing from the stubs.
    _heap: list[Any] | None

    def tick(self, *args: Any, **kwargs: Any) -> float:
        main_loop.turn()
        # Go on after the clock was ahead. Celery would send nothing until it shows that time again.
        now = self.app.now()
        for entry in self.schedule.values():
            if (entry.last_run_at or now) > now:
                entry.last_run_at = now
                self._heap = None
        return super().tick(*args, **kwargs)


@worker_ready.connect
@beat_init.connect
def show_life(**_: object) -> None:
    start_pulse(main_loop.is_well)


@worker_ready.connect
def give_way(**_: object) -> None:
    os.nice(NICENESS)


@worker_ready.connect
def drop_dead_jobs(sender: Any, **_: object) -> None:
    """Drop jobs that expired or that several workers died in. The schedule and the sweep repeat all necessary
    work. A worker that was away would take hours to discard expired jobs one by one, before any new job.
    """
    if settings.CELERY_BROKER_URL:
        return
    with connection.cursor() as cursor:
        for queue in sender.app.amqp.queues.consume_from:
            cursor.execute(
                f"DELETE FROM pgmq.q_{queue} WHERE (headers ->> 'expires')::timestamptz < clock_timestamp()"
            )
            cursor.execute(
                f"DELETE FROM pgmq.q_{queue} WHERE read_ct >= %s RETURNING headers ->> 'task'", [BEGUN_MAX]
            )
            for (name,) in cursor.fetchall():
                log.error("deadly_job_dropped", job=name)


@task_prerun.connect
def begin_job(**_: object) -> None:
    """End this process if the job takes too long; the job then returns to the queue.

    The limit holds even if the job never releases the interpreter.
    """
    main_loop.is_in_job = True
    faulthandler.dump_traceback_later(HARD_TIME_LIMIT_SECONDS, exit=True, file=STDERR)


@task_postrun.connect
def end_job(**_: object) -> None:
    faulthandler.cancel_dump_traceback_later()
    main_loop.is_in_job = False
    main_loop.turn()
