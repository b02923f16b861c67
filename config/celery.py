"""The Celery app. Jobs are idempotent batches, so the job of a killed worker runs again."""

import os

from celery import Celery
from django.conf import settings
from kombu import Exchange, Queue
from psycopg.conninfo import make_conninfo

from contextopt.jobs import SEND_MESSAGES, WRITE_BRIEF

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

# A job that outlives the visibility timeout would run twice. The hard limit (config/worker.py) ends the job
# and its worker before that.
VISIBILITY_TIMEOUT_SECONDS = 120
HARD_TIME_LIMIT_SECONDS = 90
QUEUE = "contextopt"
# Jobs that wait for a model's answer have their own queue, so that figures and vectors don't wait with them.
CHAT_QUEUE = "contextopt_chat"
# A broker that hangs holds up a request for at most twice this time: in the first try and in the second, over
# a new connection.
BROKER_SECONDS = 0.3

app = Celery("contextopt")
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    task_default_queue=QUEUE,
    # A worker started without --queues takes both.
    task_queues=[Queue(name, Exchange(name), routing_key=name) for name in (QUEUE, CHAT_QUEUE)],
    task_routes={SEND_MESSAGES: {"queue": CHAT_QUEUE}, WRITE_BRIEF: {"queue": CHAT_QUEUE}},
    # One job at a time in the worker's own process. With a pool, a child killed while it waits keeps the lock
    # of the pool's queue, and no other child ever gets a job: https://github.com/celery/billiard/issues/104
    worker_pool="solo",
    # Fetch no more jobs than can run at once: another worker may be free for them.
    worker_concurrency=1,
    worker_consumer="config.worker:Consumer",
    beat_scheduler="config.worker:Scheduler",
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    broker_connection_timeout=2 * BROKER_SECONDS,
    # The first connection of a pool may be older than the broker.
    task_publish_retry_policy={"max_retries": 1, "interval_start": 0.0},
    timezone="UTC",
)


REDIS_OPTIONS = {
    "visibility_timeout": VISIBILITY_TIMEOUT_SECONDS,
    "socket_connect_timeout": BROKER_SECONDS,
    "socket_timeout": BROKER_SECONDS,
}


def broker_options(broker_url: str) -> dict[str, object]:
    """Return the broker's settings: those of `broker_url`, else a queue in the product's own PostgreSQL."""
    if broker_url:
        is_redis = broker_url.startswith("redis")
        return {"broker_url": broker_url, "broker_transport_options": dict(REDIS_OPTIONS) if is_redis else {}}
    return {
        # The transport warns about an address without a host, but connects by `conn_string`.
        "broker_url": "pgmq://localhost",
        "broker_transport_options": {
            # libpq's own form, because the transport's URL parser drops a socket's ?host=.
            "conn_string": make_conninfo(**settings.DATABASE_PARAMS),
            "init_extension": False,
            "wait_time_seconds": 0,
            "polling_interval": 0.1,
            "visibility_timeout": VISIBILITY_TIMEOUT_SECONDS,
            "pool_timeout": 3,
        },
    }


@app.on_configure.connect
def configure_broker(sender: Celery, **_: object) -> None:
    sender.conf.update(broker_options(settings.CELERY_BROKER_URL))


app.autodiscover_tasks(["contextopt", "memory", "dashboard"])


def _every(seconds: float, task: str, *, expires: float | None = None) -> dict[str, object]:
    """Return a job for the schedule. If no worker takes it in time, the next one makes up for it: a worker
    that comes back after days needs only one of each.
    """
    return {"task": task, "schedule": seconds, "options": {"expires": expires or seconds}}


app.conf.beat_schedule = {
    "sweep": _every(60, "contextopt.tasks.sweep"),
    "send_messages": _every(5, SEND_MESSAGES),
    "embed": _every(4, "contextopt.tasks.embed"),
    "count_words": _every(300, "contextopt.tasks.count_words"),
    "drop_contents": _every(3_600, "contextopt.tasks.drop_contents"),
    "finish_deletions": _every(86_400, "contextopt.tasks.finish_deletions"),
    "purge_deleted_memories": _every(60, "memory.tasks.purge_deleted_memories"),
    "learn_from_completions": _every(60, "memory.tasks.learn_from_completions"),
    # Pages read unfolded assemblies row by row; frequent runs keep them few.
    "fold_assemblies": _every(3, "dashboard.tasks.fold_assemblies", expires=30),
    "resume_evaluations": _every(60, "memory.tasks.resume_evaluations"),
    "resume_backtests": _every(60, "memory.tasks.resume_backtests"),
    "fill_review_queues": _every(60, "memory.tasks.fill_review_queues"),
}
