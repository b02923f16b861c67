"""Background jobs. Each is a bounded batch that may run twice, or again after its worker died."""

import time
from datetime import timedelta

import structlog
from celery import shared_task
from django.db import transaction
from django.utils import timezone

from contextopt.agents.handoffs import modelbriefs
from contextopt.agents.receivers import drop_orphan_blobs, forget_expired_files
from contextopt.agents.retries import end_waits
from contextopt.assemblies.purge import erase_from_assemblies, erase_gone_spaces
from contextopt.chat.outbox import claim_message, deliver, free_lost_messages
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.importruns.runs import end_lost_runs
from contextopt.locks import Lock, only_here, unless_deleted
from contextopt.people.connectcodes import sweep_codes
from contextopt.people.logins import sweep_throttles
from contextopt.people.models import StoredResponse
from contextopt.search import registry
from contextopt.search.embedders.values import EmbeddingUnavailable
from contextopt.search.vectors.fill import Work, work_through
from contextopt.search.wordcounts import count_changed
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import lock_space, summarise_again
from contextopt.spaces.recordviews import forget_views
from contextopt.spaces.storedresponses import erase_about_gone_records, erase_named

# The response to a write with an Idempotency-Key is kept this long.
STORED_RESPONSE_LIFE = timedelta(hours=24)
# Every assembly is stored within this time after it read a record.
PURGE_RACE = timedelta(minutes=10)
RECOUNT_BATCH = 5_000
# Few enough for the job to end well within its hard time limit.
RECOUNT_BATCHES = 20
# Start no message after this, so that the last one still ends within the job's time limit.
SENDING_SECONDS = 20
# Short, because one worker runs all jobs except the chat's. After an import of a million records, pages must
# still show what was logged within seconds.
EMBED_SECONDS = 2
EMBED_INDEX_SECONDS = 1
# The largest corpus takes a few seconds longer.
COUNT_SECONDS = 30

log = structlog.get_logger(__name__)


@shared_task
def sweep() -> None:
    """Run what is due: delete old rows, finish purges, end waits, give up lost briefs, recount summaries."""
    with only_here(Lock.SWEEP) as is_ours:
        if not is_ours:
            return
        StoredResponse.objects.filter(created_at__lt=timezone.now() - STORED_RESPONSE_LIFE).delete()
        forget_views()
        finish_purges()
        end_waits()
        forget_expired_files()
        modelbriefs.settle_lost_briefs()
        sweep_throttles()
        sweep_codes()
        end_lost_runs()
        for space in Space.objects.filter(recount_from__isnull=False).order_by("?")[:10]:
            recount_summaries.delay(space.pk)


@shared_task
def finish_deletions() -> None:
    """Erase what is left of deleted spaces, such as those that earlier versions deleted."""
    with only_here(Lock.SWEEP) as is_ours:
        if is_ours:
            erase_gone_spaces()


@shared_task
def count_words() -> None:
    """Count the words of changed spaces and memories. The next run does the rest."""
    with only_here(Lock.COUNT_WORDS) as is_ours:
        if is_ours:
            ends_at = timezone.now() + timedelta(seconds=COUNT_SECONDS)
            for searchable in registry.all():
                count_changed(searchable, ends_at=ends_at)


@shared_task
def end_retry_waits() -> None:
    """Mark attempts whose wait is over as ready. If this job is lost, the sweep does it."""
    end_waits()


@shared_task
def send_messages(message_id: int | None = None) -> None:
    """Send the named message, or all due messages until the endpoint turns out to be down."""
    until = time.monotonic() + SENDING_SECONDS
    is_up = True
    free_lost_messages()
    while is_up and time.monotonic() < until and (message := claim_message(message_id)):
        with only_here(Lock.SENDING, message.pk), unless_deleted():
            is_up = deliver(message)


@shared_task
def embed() -> None:
    """Compute missing vectors for a few seconds. The next run does the rest."""
    with only_here(Lock.EMBED) as is_ours:
        if not is_ours:
            return
        try:
            work_through(seconds=EMBED_SECONDS, index_seconds=EMBED_INDEX_SECONDS, work=Work())
        except EmbeddingUnavailable as error:
            log.warning("embedding_unavailable", problem=str(error))


@shared_task
def write_brief(compression_id: int) -> None:
    """Ask the model for a compression's brief. If run twice, it uses the same key and settles once."""
    modelbriefs.write_brief(compression_id)


@shared_task
def drop_contents() -> None:
    """Delete file contents that no receiver still has."""
    while drop_orphan_blobs():
        pass


@shared_task
def recount_summaries(space_id: int) -> None:
    """Resume recounting stored summaries after the active config changed its encoding."""
    with only_here(Lock.RECOUNT, space_id) as is_ours:
        if not is_ours:
            return
        with unless_deleted():
            for _ in range(RECOUNT_BATCHES):
                if not recount_batch(space_id):
                    return
            recount_summaries.delay(space_id)


def recount_batch(space_id: int) -> bool:
    """Recount the next summaries; return whether there may be more. Editors wait for the batch."""
    with transaction.atomic():
        lock_space(Space.objects.get(pk=space_id))
        space = Space.objects.select_for_update(no_key=True).get(pk=space_id)
        if space.recount_from is None:
            return False
        tokenizer = get_tokenizer(space.configs.active().get().settings.encoding)
        batch = list(
            Record.objects.filter(space=space, pk__gt=space.recount_from, purged_at=None)
            .exclude(summary_encoding=tokenizer.name)
            .order_by("pk")[:RECOUNT_BATCH]
        )
        summarise_again(batch, tokenizer)
        space.recount_from = batch[-1].pk if len(batch) == RECOUNT_BATCH else None
        space.save(update_fields=["recount_from"])
    return space.recount_from is not None


def finish_purges() -> int:
    """Erase what was stored during a purge or a space's deletion; return how many rows held a text."""
    since = timezone.now() - PURGE_RACE
    purged = Record.objects.filter(purged_at__gte=since).select_related("space")
    recent = list(purged.order_by("pk")[:1_000])
    erased = 0
    for record in recent:
        with transaction.atomic():
            erased += erase_from_assemblies(record)
    with transaction.atomic():
        erased += erase_named(recent)
    return erased + erase_gone_spaces(since) + erase_about_gone_records(since)
