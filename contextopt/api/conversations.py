"""Endpoints for conversations: messages sent with a space's context, and their answers."""

from datetime import datetime
from typing import Any, ClassVar, Literal, TypedDict

from django.http import HttpResponse
from ninja import Path, Query, Router

from contextopt.api.protocol.authentication import READ, WRITE, ApiRequest, actor, in_reach, within_spaces
from contextopt.api.protocol.outputs import PageQuery, created, list_page, page_of, reply
from contextopt.chat import outbox, promptbuilder
from contextopt.chat.inputs import ConversationIn, MessageIn
from contextopt.chat.models import Conversation, Message
from contextopt.inputs import Id, Slug, show
from contextopt.paging import by_moment, by_number

router = Router(tags=["Conversations"])
BY_TIME = by_moment("conversation", "active_at")
BY_NUMBER = by_number("message", "id")


class ConversationOut(TypedDict):
    id: int
    space: str
    title: str
    stage: int
    model: str
    created_by: str
    created_at: datetime
    active_at: datetime


class AnswerOut(TypedDict):
    """A model's answer. Token counts come from the endpoint and are null if it does not report them."""

    id: int
    text: str
    model: str
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    duration_ms: float | None
    created_at: datetime


class MessageOut(TypedDict):
    """A user's message and its state. While it waits, `next_try_at` is the time of the next try."""

    id: int
    conversation_id: int
    text: str
    state: Literal["queued", "sending", "answered", "failed", "cancelled", "held"]
    assembly_id: int | None
    tries: int
    next_try_at: datetime | None
    error: str
    created_by: str
    created_at: datetime
    answered_at: datetime | None
    answer: AnswerOut | None


class PartOut(TypedDict):
    role: Literal["system", "user", "assistant"]
    content: str


class PromptOut(TypedDict):
    """The prompt of a message. Every try sends the same one. It is incomplete if a record has been purged
    since.
    """

    messages: list[PartOut]
    is_complete: bool


class ConversationQuery(PageQuery):
    lookups: ClassVar = {"space": "space__slug"}

    space: Slug | None = None


def conversation_json(conversation: Conversation) -> dict[str, Any]:
    return show(ConversationOut, conversation, space=conversation.space.slug)


def message_json(message: Message) -> dict[str, Any]:
    """Return a message with its answer, which the caller loaded in the same query."""
    answer: Message | None = getattr(message, "answer", None)
    return show(MessageOut, message, answer=answer and show(AnswerOut, answer))


@router.post("/conversations", auth=WRITE, response={201: ConversationOut}, summary="Start a conversation")
@within_spaces()
def create_conversation(request: ApiRequest, data: ConversationIn) -> HttpResponse:
    """Starts a conversation about a space. Without a title it takes that of its first message."""
    made = outbox.create_conversation(team=request.auth.team, data=data, actor=actor(request))
    return created(conversation_json(made), f"/api/v1/conversations/{made.pk}")


@router.get("/conversations", auth=READ, response=page_of(ConversationOut), summary="List conversations")
@within_spaces()
def list_conversations(request: ApiRequest, query: Query[ConversationQuery]) -> HttpResponse:
    """Returns the team's conversations, most recently used first."""
    found = Conversation.objects.with_space().filter(team_id=request.auth.team_id)
    rows = in_reach(request, query.where(found))
    return reply(list_page(rows, BY_TIME, query, conversation_json))


@router.get(
    "/conversations/{conversation_id}", auth=READ, response=ConversationOut, summary="Read a conversation"
)
@within_spaces()
def read_conversation(request: ApiRequest, conversation_id: Path[Id]) -> HttpResponse:
    """Returns a conversation."""
    return reply(conversation_json(outbox.find_conversation(request.auth.team_id, conversation_id)))


@router.post(
    "/conversations/{conversation_id}/messages",
    auth=WRITE,
    response={201: MessageOut},
    summary="Send a message",
)
@within_spaces()
def create_message(request: ApiRequest, conversation_id: Path[Id], data: MessageIn) -> HttpResponse:
    """Stores the message with the context assembled for it, and sends it in the background.

    Read the message again to get the answer. If the endpoint is down, the message stays queued and is sent
    later, always with the same idempotency key. Without an endpoint it is held.
    """
    conversation = outbox.find_conversation(request.auth.team_id, conversation_id)
    message = outbox.send_message(conversation=conversation, data=data, actor=actor(request))
    return created(message_json(message), f"/api/v1/messages/{message.pk}")


@router.get(
    "/conversations/{conversation_id}/messages",
    auth=READ,
    response=page_of(MessageOut),
    summary="List messages",
)
@within_spaces()
def list_messages(request: ApiRequest, conversation_id: Path[Id], query: Query[PageQuery]) -> HttpResponse:
    """Returns messages with their answers, newest first."""
    conversation = outbox.find_conversation(request.auth.team_id, conversation_id)
    return reply(list_page(conversation.messages.asked(), BY_NUMBER, query, message_json))


@router.get("/messages/{message_id}", auth=READ, response=MessageOut, summary="Read a message")
@within_spaces()
def read_message(request: ApiRequest, message_id: Path[Id]) -> HttpResponse:
    """Returns a message with its state and answer."""
    return reply(message_json(outbox.find_question(request.auth.team_id, message_id)))


@router.get("/messages/{message_id}/prompt", auth=READ, response=PromptOut, summary="Read a message's prompt")
@within_spaces()
def read_prompt(request: ApiRequest, message_id: Path[Id]) -> HttpResponse:
    """Returns exactly the prompt sent to the endpoint: context, earlier messages, and the question."""
    prompt = promptbuilder.build_prompt(outbox.find_question(request.auth.team_id, message_id))
    parts = [PartOut(role=part.role, content=part.content) for part in prompt.messages]
    return reply(PromptOut(messages=parts, is_complete=prompt.is_complete))


@router.post("/messages/{message_id}/cancel", auth=WRITE, response=MessageOut, summary="Cancel a message")
@within_spaces()
def cancel_message(request: ApiRequest, message_id: Path[Id]) -> HttpResponse:
    """Removes the message from the queue and discards an answer still on its way. An existing answer is a
    conflict.
    """
    message = outbox.find_question(request.auth.team_id, message_id)
    return reply(message_json(outbox.cancel_message(message=message)))


@router.post("/messages/{message_id}/retry", auth=WRITE, response=MessageOut, summary="Send a message again")
@within_spaces()
def retry_message(request: ApiRequest, message_id: Path[Id]) -> HttpResponse:
    """Sends a queued, failed, cancelled or held message now, with its own idempotency key."""
    message = outbox.find_question(request.auth.team_id, message_id)
    return reply(message_json(outbox.retry_message(message=message)))
