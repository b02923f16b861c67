"""The Celery app. Jobs are idempotent batches: a killed worker's job runs again."""

import os

from celery import Celery
from django.conf import settings
from kombu import Exchange, Queue
from psycopg.conninfo import make_conninfo

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

# A job that outlives the visibility timeout would run twice, so the hard limit (config/worker.py) ends it,
# with its worker, before that.
VISIBILITY_TIMEOUT_SECONDS = 120
HARD_TIME_LIMIT_SECONDS = 90
QUEUE = "contextopt"
# What waits for a model's answer waits here, so that no figure and no vector waits with it.
CHAT_QUEUE = "contextopt_chat"

app = Celery("contextopt")
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    task_default_queue=QUEUE,
    # A worker that is started without --queues takes both.
    task_queues=[Queue(name, Exchange(name), routing_key=name) for name in (QUEUE, CHAT_QUEUE)],
    task_routes={
        "contextopt.tasks.send_messages": {"queue": CHAT_QUEUE},
        "contextopt.tasks.write_brief": {"queue": CHAT_QUEUE},
    },
    # One job at a time in the worker's own process. A forked one that is killed while it waits keeps the lock
    # of its pool's queue, and no other ever takes a job again: https://github.com/celery/billiard/issues/104
    worker_pool="solo",
    # It fetches no more jobs than it can do at once: others may be free for them.
    worker_concurrency=1,
    worker_consumer="config.worker:Consumer",
    beat_scheduler="config.worker:Scheduler",
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    timezone="UTC",
)


def broker_options(broker_url: str) -> dict[str, object]:
    """Return the broker's settings: the named one, else a queue in the product's own PostgreSQL."""
    if broker_url:
        return {
            "broker_url": broker_url,
            "broker_transport_options": {"visibility_timeout": VISIBILITY_TIMEOUT_SECONDS}
            if broker_url.startswith("redis")
            else {},
        }
    return {
        "broker_url": "pgmq://",
        "broker_transport_options": {
            # The URL parser of the transport drops a socket's ?host=, so libpq's own form is given.
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
app.conf.beat_schedule = {
    "sweep": {"task": "contextopt.tasks.sweep", "schedule": 60.0},
    # Jobs that nobody took in time are dropped: a worker that comes back needs one of them.
    "send_messages": {"task": "contextopt.tasks.send_messages", "schedule": 5.0, "options": {"expires": 5}},
    "embed": {"task": "contextopt.tasks.embed", "schedule": 4.0, "options": {"expires": 4}},
    "count_words": {"task": "contextopt.tasks.count_words", "schedule": 300.0},
    "drop_contents": {"task": "contextopt.tasks.drop_contents", "schedule": 3_600.0},
    "learn_from_completions": {"task": "memory.tasks.learn_from_completions", "schedule": 60.0},
    # What is not folded yet, pages read raw; this keeps that little. A run that is missed is made up for.
    "fold_assemblies": {
        "task": "dashboard.tasks.fold_assemblies",
        "schedule": 3.0,
        "options": {"expires": 30},
    },
    "fill_review_queues": {"task": "memory.tasks.fill_review_queues", "schedule": 60.0},
}
