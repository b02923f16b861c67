"""Follows votes and proposed settings.

An answer enters the review queue once its vote is stored; `fill_queue` adds any that were missed. Settings
must reach the recall that question sets demand.
"""

from typing import Any

from contextopt.locks import unless_deleted
from contextopt.spaces.configs import settings_proposed
from memory.feedback.votes import feedback_changed
from memory.questions.guard import check_minimums
from memory.review.queue import refresh_assembly


def listen() -> None:
    """Connect the listeners."""
    feedback_changed.connect(queue_review, dispatch_uid="queue_review")
    settings_proposed.connect(check_minimums, dispatch_uid="check_minimums")


def queue_review(*, team_id: int, assembly_id: int, **_: Any) -> None:
    with unless_deleted():
        refresh_assembly(team_id=team_id, assembly_id=assembly_id)
