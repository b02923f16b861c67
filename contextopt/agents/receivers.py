"""Remembers what each receiver has of a task's files. Contents are stored once per team and expire."""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from contextopt.agents.models import Blob, ReceiverFile, Task
from contextopt.engine.agents.deltas import SentFile

# Contents without a receiver are kept this long, because an attempt may be about to refer to them.
ORPHAN_LIFE = timedelta(hours=1)
EXPIRY_BATCH = 500


def load_receiver_files(task: Task, receiver: str) -> dict[str, SentFile]:
    """Return the receiver's remembered files by path."""
    rows = ReceiverFile.objects.filter(task=task, receiver=receiver).select_related("blob")
    return {row.path: row.to_value() for row in rows}


def store_receiver_files(
    task: Task, receiver: str, known: Mapping[str, SentFile], files: Mapping[str, SentFile]
) -> None:
    """Replace the receiver's remembered files, `known`, by `files`. The caller holds the task's row."""
    gone = known.keys() - files.keys()
    if gone:
        ReceiverFile.objects.filter(task=task, receiver=receiver, path__in=gone).delete()
    changed = {path: sent for path, sent in files.items() if known.get(path) != sent}
    contents = {path: _bytes(sent.content) for path, sent in changed.items() if sent.content is not None}
    blobs = store_blobs(task.team_id, contents.values())
    rows = [
        ReceiverFile(
            task=task,
            receiver=receiver,
            path=path,
            blob_id=blobs[contents[path]] if path in contents else None,
            is_partial=sent.is_partial,
        )
        for path, sent in sorted(changed.items())
    ]
    ReceiverFile.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["task", "receiver", "path"],
        update_fields=["blob", "is_partial"],
    )


def _bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


def store_blobs(team_id: int, contents: Iterable[bytes]) -> dict[bytes, int]:
    """Store each content once; return the ids by content.

    Rows are locked in the order of their hashes, so that two writers never deadlock. They stay locked until
    the transaction ends, so that the sweep leaves them.
    """
    wanted = {hashlib.sha256(content).hexdigest(): content for content in contents}
    now = timezone.now()
    kept = Blob.objects.select_for_update(no_key=True).filter(team_id=team_id, sha256__in=wanted)
    ids = {blob.sha256: blob.pk for blob in kept.only("sha256").order_by("sha256")}
    Blob.objects.filter(pk__in=ids.values()).update(used_at=now)
    missing = [
        Blob(team_id=team_id, sha256=digest, size=len(wanted[digest]), content=wanted[digest], used_at=now)
        for digest in sorted(wanted.keys() - ids.keys())
    ]
    made = Blob.objects.bulk_create(
        missing, update_conflicts=True, unique_fields=["team", "sha256"], update_fields=["used_at"]
    )
    ids |= {blob.sha256: blob.pk for blob in made}
    return {content: ids[digest] for digest, content in wanted.items()}


def forget_expired_files() -> int:
    """Forget the files of a batch of expired tasks; return how many tasks there were.

    Their next attempt is sent its files as new.
    """
    with transaction.atomic():
        # An attempt being recorded holds its task and has just extended its expiry.
        due = Task.objects.with_expired_files().select_for_update(skip_locked=True, no_key=True)
        ids = list(due.values_list("pk", flat=True)[:EXPIRY_BATCH])
        ReceiverFile.objects.filter(task__in=ids).delete()
        Task.objects.filter(pk__in=ids).update(expires_at=None)
    return len(ids)


def drop_orphan_blobs() -> int:
    """Delete a batch of contents that no receiver still has; return how many."""
    owners = ReceiverFile.objects.filter(blob=OuterRef("pk"))
    orphans = Blob.objects.filter(~Exists(owners), used_at__lt=timezone.now() - ORPHAN_LIFE)
    due = list(orphans.order_by("used_at").values_list("pk", flat=True)[:EXPIRY_BATCH])
    # Check both conditions again: a writer may have locked and refreshed a content since.
    deleted, _ = orphans.filter(pk__in=due).delete()
    return deleted
