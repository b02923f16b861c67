"""Conversations as pages show them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from contextopt.chat.endpoint import is_configured
from contextopt.chat.prompts import Prompt, build_prompt
from contextopt.engine.prompts.warnings import ContextWarning
from contextopt.models import AssemblyPayload, Message, MessageState
from dashboard.kit.charts.shapes import Bar, bar_of_assembly
from dashboard.pages.assemblies.votebox import VoteBox, message_boxes

# A fresh message may be answered any moment; one that waits for its next try needs fewer polls.
FRESH = timedelta(seconds=30)
ARRIVING_POLL_MS, FRESH_POLL_MS, SENDING_POLL_MS, WAITING_POLL_MS = 400, 1_000, 3_000, 5_000


@dataclass(frozen=True, slots=True)
class Turn:
    """A user's message, its answer if there is one, and how the page continues.

    `prompt` is set if nothing is sent automatically; `poll_ms` is 0 if there is nothing to wait for.
    """

    message: Message
    answer: Message | None
    bar: Bar | None
    votes: VoteBox | None
    warnings: list[ContextWarning]
    prompt: Prompt | None
    wait_left: int
    poll_ms: int

    @property
    def state(self) -> str:
        """The state to show: a message that a worker is about to take counts as being sent."""
        is_starting = self.message.state == MessageState.QUEUED and not self.message.error
        return MessageState.SENDING.value if is_starting else self.message.state

    @property
    def can_retry(self) -> bool:
        return self.message.is_retryable and self.state != MessageState.SENDING and is_configured()


def read_turns(messages: Sequence[Message], actor: str, now: datetime) -> list[Turn]:
    """Return turns for messages that were loaded with their answers and assemblies; votes take one query."""
    answers = [answer for message in messages if (answer := answer_of(message))]
    boxes = message_boxes(answers, actor)
    warnings = _read_warnings(messages)
    # Only the last turn shows its prompt, since each may be very long.
    last = messages[-1] if messages else None
    return [
        Turn(
            message=message,
            answer=answer_of(message),
            bar=bar_of_assembly(message.assembly) if message.assembly else None,
            votes=boxes.get(message.pk),
            warnings=warnings.get(message.assembly_id, []),
            prompt=build_prompt(message) if message is last and message.state == MessageState.HELD else None,
            wait_left=_wait_left(message, now),
            poll_ms=_poll_ms(message, now),
        )
        for message in messages
    ]


def _read_warnings(messages: Sequence[Message]) -> dict[int | None, list[ContextWarning]]:
    """Return the warnings of the messages' contexts by assembly, in one query if there are any."""
    warned = [
        message.assembly_id for message in messages if message.assembly and message.assembly.warning_codes
    ]
    if not warned:
        return {}
    return {each.pk: each.warnings for each in AssemblyPayload.objects.filter(pk__in=warned)}


def answer_of(message: Message) -> Message | None:
    return getattr(message, "answer", None)


def _wait_left(message: Message, now: datetime) -> int:
    if message.state != MessageState.QUEUED or message.next_try_at is None:
        return 0
    return max(0, ceil((message.next_try_at - now).total_seconds()))


def _poll_ms(message: Message, now: datetime) -> int:
    if not message.is_waiting:
        return 0
    if message.state == MessageState.QUEUED and message.error:
        return WAITING_POLL_MS
    if message.partial_text:
        return ARRIVING_POLL_MS
    return FRESH_POLL_MS if now - message.created_at < FRESH else SENDING_POLL_MS
