"""Puts an answer into the review queue once its vote is stored. `fill_queue` adds any that were missed."""

from typing import Any

from contextopt.locks import unless_deleted
from memory.review.queue import refresh_assembly
from memory.signals import feedback_changed


def listen() -> None:
    """Connect the listeners to votes."""
    feedback_changed.connect(queue_review, dispatch_uid="queue_review")


def queue_review(*, team_id: int, assembly_id: int, **_: Any) -> None:
    with unless_deleted():
        refresh_assembly(team_id=team_id, assembly_id=assembly_id)
