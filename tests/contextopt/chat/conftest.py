"""A conversation, and the endpoint of a model that answers as scripted."""

import pytest
from django.utils import timezone

from contextopt.chat.inputs import MessageIn
from contextopt.chat.models import Conversation, Message
from contextopt.chat.outbox import send_message
from contextopt.spaces.models import Space
from tests import factories
from tests.model_server import ModelServer


@pytest.fixture
def conversation(space: Space) -> Conversation:
    factories.make_record(space, date=timezone.now(), title="Queue stuck")
    return factories.make_conversation(space)


def send(conversation: Conversation, text: str = "Why is the queue stuck?") -> Message:
    return send_message(conversation=conversation, data=MessageIn(text=text), actor="user:olga")


def reload(message: Message) -> Message:
    return Message.objects.asked().get(pk=message.pk)


def asked_of(llm: ModelServer) -> list[list[tuple[str, str]]]:
    return [[(m["role"], m["content"]) for m in r.body["messages"]] for r in llm.seen]
