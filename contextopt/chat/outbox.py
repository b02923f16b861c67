"""Sends conversations' messages with the space's context, so that each is answered once.

A message is stored with its context before anything is sent. It stays in the outbox until it is answered,
refused for good or cancelled. A sender claims it for longer than a job can live, and holds a lock while it
sends. If the sender dies, another sends the message again with the same idempotency key.
"""

import secrets
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Literal, cast

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Count
from django.utils import timezone

from contextopt.assemblies.assemble import assemble_space, prepare_question
from contextopt.assemblies.candidates import load_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.tokenfactors import choose_tokenizer
from contextopt.chat import endpoint
from contextopt.chat.endpoint import Completion, CompletionRefused, CompletionUnavailable
from contextopt.chat.inputs import ConversationIn, MessageIn
from contextopt.chat.models import (
    CONVERSATION_TITLE_MAX,
    ERROR_MAX,
    WAITING,
    Author,
    Conversation,
    Message,
    MessageState,
)
from contextopt.chat.promptbuilder import blocks_in, build_prompt, instructions
from contextopt.engine.placement.choice import AUTO
from contextopt.engine.settings import SEARCH_STAGE
from contextopt.engine.text.cleaning import flatten_to
from contextopt.engine.text.promptpassages import shortened
from contextopt.engine.text.tokens import Tokenizer
from contextopt.errors import Conflict
from contextopt.inputs import QUERY_MAX, make_storable
from contextopt.jobs import SEND_MESSAGES, run_after_commit
from contextopt.limits import MODEL_MAX
from contextopt.locks import Lock, hold_space, take_turn
from contextopt.people.models import Team
from contextopt.search.hybrid import PreparedQuery
from contextopt.spaces.models import Space
from contextopt.sql import find_one

log = structlog.get_logger(__name__)

TIMEOUT_SECONDS = 60
# A job is killed after 90 seconds (config/celery.py), so nobody is still sending when a claim runs out.
CLAIM_LIFE = timedelta(seconds=100)
# A sender locks the message at most this long after claiming it.
LOCKED_WITHIN = timedelta(seconds=2)
LOST_AT_ONCE = 100
PARTIAL_SECONDS = 0.25
FIRST_WAIT_SECONDS = 2
LONGEST_WAIT_SECONDS = 600
# After this, a person decides whether the question still matters.
PATIENCE = timedelta(days=3)
HISTORY_TURNS_MAX = 100
BROKEN_OFF = "sending was interrupted"


def create_conversation(*, team: Team, data: ConversationIn, actor: str) -> Conversation:
    """Create a conversation about a space. Without a title it takes its first message's text.

    Raises:
        NotFound: the team has no such space.
    """
    space = Space.objects.find(team.pk, data.space)
    return Conversation.objects.create(
        team=team, space=space, title=data.title.strip(), stage=data.stage, model=data.model, created_by=actor
    )


def find_conversation(team_id: int, conversation_id: int) -> Conversation:
    """Return the team's conversation with its space.

    Raises:
        NotFound: the team has no such conversation.
    """
    rows = Conversation.objects.with_space().filter(team_id=team_id, pk=conversation_id)
    return find_one(rows, f"conversation {conversation_id}")


def find_question(team_id: int, message_id: int) -> Message:
    """Return a user's message of the team with its answer and its conversation.

    Raises:
        NotFound: the team has no such message, or it is an answer.
    """
    rows = Message.objects.asked().select_related("conversation__space")
    return find_one(rows.filter(conversation__team_id=team_id, pk=message_id), f"message {message_id}")


def send_message(*, conversation: Conversation, data: MessageIn, actor: str) -> Message:
    """Assemble the context for a message and put it into the outbox, due now.

    Without an endpoint the message is held: it is stored with its context but not sent by itself.

    Raises:
        BudgetExceeded: the message leaves the response less than its reservation.
    """
    question = _prepare(conversation.team_id, conversation.space.slug, data, conversation.stage)
    with transaction.atomic():
        return _send(conversation, data, question, actor)


def _prepare(team_id: int, space: str, data: MessageIn, stage: int) -> PreparedQuery | None:
    """Prepare the message's question for its context. Nobody waits for a lock while an endpoint embeds it.

    Raises:
        NotFound: the team has no such space.
    """
    if stage != SEARCH_STAGE:
        return None
    return prepare_question(load_space(team_id, space), shortened(data.text, QUERY_MAX).strip())


def _send(conversation: Conversation, data: MessageIn, question: PreparedQuery | None, actor: str) -> Message:
    hold_space(conversation.space_id)
    # Messages of one conversation wait for each other here, so that each sees the ones before it.
    conversation = (
        Conversation.objects.with_space().select_for_update(of=("self",), no_key=True).get(pk=conversation.pk)
    )
    key = secrets.token_hex(16)
    settings_now = load_space(conversation.team_id, conversation.space.slug).settings
    model = conversation.model or settings.LLM_MODEL
    tokenizer = choose_tokenizer(
        conversation.team_id, model=model, encoding=None, usual=settings_now.encoding
    )
    history = _choose_history(conversation, data.text, settings_now.history_tokens, tokenizer)
    request = AssemblyIn(
        space=conversation.space.slug,
        stage=cast(Literal[2, 3, 4, 5], conversation.stage),
        query=shortened(data.text, QUERY_MAX),
        system=instructions(conversation.mark),
        history="\n".join([*(message.text for message in history), data.text]),
        conversation=conversation.name_in_log,
        model=model,
        placement=AUTO,
        in_sight=blocks_in(history),
    )
    assembled = assemble_space(
        team_id=conversation.team_id,
        request=request,
        actor=actor,
        is_demo=conversation.space.is_demo,
        question=question,
    )
    now = timezone.now()
    is_sendable = endpoint.is_configured()
    message = Message.objects.create(
        conversation=conversation,
        author=Author.USER,
        text=data.text,
        state=MessageState.QUEUED if is_sendable else MessageState.HELD,
        assembly_id=assembled.id,
        history_ids=[item.pk for item in history],
        idempotency_key=key,
        next_try_at=now if is_sendable else None,
        created_by=actor,
        created_at=now,
    )
    if is_sendable:
        run_after_commit(SEND_MESSAGES, message.pk)
    conversation.active_at = now
    conversation.title = conversation.title or flatten_to(data.text, CONVERSATION_TITLE_MAX)
    conversation.save(update_fields=["active_at", "title"])
    return message


def begin_conversation(*, team: Team, data: ConversationIn, first: MessageIn, actor: str) -> Message:
    """Create a conversation together with its first message, or neither.

    Raises:
        NotFound: the team has no such space.
        BudgetExceeded: the message leaves the response less than its reservation.
    """
    question = _prepare(team.pk, data.space, first, data.stage)
    with transaction.atomic():
        conversation = create_conversation(team=team, data=data, actor=actor)
        return _send(conversation, first, question, actor)


def _choose_history(
    conversation: Conversation, text: str, budget_tokens: int, tokenizer: Tokenizer
) -> list[Message]:
    """Return the answered turns to send along with a new message, oldest first. Turns stay whole.

    As long as they fit, these are the turns of the last message and its own, so that the prompt begins like
    the last one and hits the provider's cache. Once they no longer fit, keep at most half the budget.
    """
    asked = conversation.messages.asked()
    last = asked.order_by("-id").first()
    since = last.history_ids[0] if last and last.history_ids else 0
    answered = asked.filter(state=MessageState.ANSWERED, id__gte=since).order_by("-id")
    turns = list(answered[: HISTORY_TURNS_MAX + 1])
    left = budget_tokens - tokenizer.count(text)
    sizes = [tokenizer.count(f"{turn.text}\n{turn.answer.text}\n") for turn in turns]
    if len(turns) > HISTORY_TURNS_MAX or sum(sizes) > left:
        bound = min(left, budget_tokens // 2)
        fitting = sum(size <= bound for size in accumulate(sizes))
        turns = turns[: min(fitting, HISTORY_TURNS_MAX // 2)]
    return [message for turn in reversed(turns) for message in (turn, turn.answer)]


def free_lost_messages() -> None:
    """Release the claims of dead senders. Their tries count as failed."""
    now = timezone.now()
    claimed = Message.objects.filter(
        state=MessageState.SENDING, next_try_at__gt=now, next_try_at__lt=now + CLAIM_LIFE - LOCKED_WITHIN
    )
    for message in claimed.order_by("next_try_at")[:LOST_AT_ONCE]:
        with transaction.atomic():
            if take_turn(Lock.SENDING, message.pk):
                _free(message, now)


def _free(message: Message, now: datetime) -> None:
    """Make the message due as if its try had failed at once, or fail it if it was tried for too long."""
    if _is_past_patience(message, now):
        _settle(message, MessageState.FAILED, BROKEN_OFF)
    elif message.next_try_at is not None:
        due = message.next_try_at - CLAIM_LIFE + timedelta(seconds=wait_seconds(message.tries))
        _release(message, state=MessageState.QUEUED, next_try_at=due, error=BROKEN_OFF)
        log.warning("chat_sender_died", message_id=message.pk, tries=message.tries)


def claim_message(message_id: int | None = None) -> Message | None:
    """Claim the message that is longest due, or the named one if it is due; None if there is none.

    Two workers never get the same message, and neither waits for the other. If senders die, claims get longer
    as waits do, and the message finally fails like any other.
    """
    now = timezone.now()
    with transaction.atomic():
        due = Message.objects.due(now).select_for_update(skip_locked=True, of=("self",), no_key=True)
        if message_id is not None:
            due = due.filter(pk=message_id)
        message = due.select_related("conversation").first()
        if message is None:
            return None
        has_died = message.state == MessageState.SENDING
        if not (has_died and _is_past_patience(message, now)):
            life = CLAIM_LIFE + timedelta(seconds=wait_seconds(message.tries)) if has_died else CLAIM_LIFE
            message.state, message.next_try_at, message.partial_text = MessageState.SENDING, now + life, ""
            message.tries += 1
            message.save(update_fields=["state", "tries", "next_try_at", "partial_text"])
            return message
    _settle(message, MessageState.FAILED, BROKEN_OFF)
    return claim_message(message_id)


def deliver(message: Message) -> bool:
    """Ask the endpoint to answer a claimed message; return whether the endpoint is up."""
    try:
        completion = endpoint.complete(
            build_prompt(message).messages,
            timeout_seconds=TIMEOUT_SECONDS,
            idempotency_key=message.idempotency_key or "",
            model=message.conversation.model,
            on_text=PartialText(message),
        )
    except CompletionUnavailable as error:
        postpone(message, str(error), error.retry_after_seconds)
        return False
    except CompletionRefused as error:
        _settle(message, MessageState.FAILED, str(error))
        return True
    store_answer(message, completion)
    return True


class PartialText:
    """Stores what has arrived of a claimed message's answer, a few times a second, for pages to show."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self._stored_at = 0.0

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if now - self._stored_at < PARTIAL_SECONDS:
            return
        self._stored_at = now
        claimed = Message.objects.filter(
            pk=self._message.pk, state=MessageState.SENDING, tries=self._message.tries
        )
        claimed.update(partial_text=make_storable(text))


@transaction.atomic
def store_answer(message: Message, completion: Completion) -> Message | None:
    """Store the first answer that arrives. Drop it if the message was cancelled or has one already."""
    hold_space(message.conversation.space_id)
    current = Message.objects.select_for_update(no_key=True).get(pk=message.pk)
    if not current.is_waiting:
        log.info("chat_answer_dropped", message_id=message.pk, state=current.state)
        return None
    now = timezone.now()
    answer = Message.objects.create(
        conversation_id=current.conversation_id,
        author=Author.ASSISTANT,
        text=completion.text,
        reply_to=current,
        state=MessageState.ANSWERED,
        assembly_id=current.assembly_id,
        model=completion.model[:MODEL_MAX],
        prompt_tokens=completion.prompt_tokens,
        completion_tokens=completion.completion_tokens,
        duration_ms=completion.duration_ms,
        cached_tokens=completion.cached_tokens,
        created_at=now,
    )
    current.state, current.next_try_at, current.answered_at = MessageState.ANSWERED, None, now
    current.error = current.partial_text = ""
    current.save(update_fields=["state", "next_try_at", "answered_at", "error", "partial_text"])
    Conversation.objects.filter(pk=current.conversation_id).update(active_at=now)
    log.info("chat_answered", message_id=current.pk, tries=current.tries, model=answer.model)
    return answer


def postpone(message: Message, error: str, retry_after_seconds: float | None = None) -> None:
    """Set a claimed message's next try. Each wait is twice the one before, up to ten minutes.

    After three days, and at least two tries, it fails. A person may send it again.
    """
    now = timezone.now()
    if _is_past_patience(message, now):
        _settle(message, MessageState.FAILED, error)
        return
    seconds = max(wait_seconds(message.tries), retry_after_seconds or 0)
    _release(message, state=MessageState.QUEUED, next_try_at=now + timedelta(seconds=seconds), error=error)
    log.warning("chat_postponed", message_id=message.pk, tries=message.tries, error=error, seconds=seconds)


def _is_past_patience(message: Message, now: datetime) -> bool:
    return now - message.created_at > PATIENCE and message.tries > 1


def wait_seconds(tries: int) -> int:
    """Return the wait after this many tries: 2, 4, 8 and so on, at most 600 seconds."""
    return int(min(FIRST_WAIT_SECONDS * 2 ** min(tries - 1, 20), LONGEST_WAIT_SECONDS))


def _settle(message: Message, state: MessageState, error: str) -> None:
    _release(message, state=state, next_try_at=None, error=error)
    log.warning("chat_failed", message_id=message.pk, tries=message.tries, error=error)


def _release(message: Message, *, error: str, **changes: object) -> None:
    """Give up a claim, unless it was taken over or the message was cancelled in the meantime."""
    claimed = Message.objects.filter(pk=message.pk, state=MessageState.SENDING, tries=message.tries)
    claimed.update(error=error[:ERROR_MAX], partial_text="", **changes)


@transaction.atomic
def cancel_message(*, message: Message) -> Message:
    """Remove a message from the outbox; an answer already on its way is dropped. Repeating it does nothing.

    Raises:
        Conflict: it was answered already.
    """
    current = Message.objects.select_for_update(no_key=True).get(pk=message.pk)
    if current.state == MessageState.ANSWERED:
        raise Conflict("The message has already been answered.")
    current.state, current.next_try_at, current.partial_text = MessageState.CANCELLED, None, ""
    current.save(update_fields=["state", "next_try_at", "partial_text"])
    return current


@transaction.atomic
def retry_message(*, message: Message) -> Message:
    """Make a message due now, with the same idempotency key.

    Raises:
        Conflict: it was answered or is being sent, or there is no endpoint to send it to.
    """
    current = Message.objects.select_for_update(no_key=True).get(pk=message.pk)
    if not current.is_retryable:
        raise Conflict(f"The message is {current.get_state_display().lower()}.")
    if not endpoint.is_configured():
        raise Conflict("No model endpoint is configured.")
    current.state, current.next_try_at, current.error = MessageState.QUEUED, timezone.now(), ""
    current.save(update_fields=["state", "next_try_at", "error"])
    run_after_commit(SEND_MESSAGES, current.pk)
    return current


def count_waiting(team: Team, conversations: Sequence[Conversation]) -> dict[int, int]:
    """Return how many messages of each conversation wait for an answer, in one query."""
    rows = Message.objects.of(team).filter(conversation__in=conversations, state__in=WAITING)
    counted = rows.values("conversation_id").annotate(count=Count("pk"))
    return {row["conversation_id"]: row["count"] for row in counted}
