"""The questions of the demo's people and a model's answers: stage 5, and an unsent conversation."""

from contextopt.assemblies.models import DEMO_ACTOR
from contextopt.chat.endpoint import Completion
from contextopt.chat.inputs import ConversationIn, MessageIn
from contextopt.chat.outbox import begin_conversation, send_message, store_answer
from contextopt.models import Conversation, Message, MessageState, Team
from dashboard.demo.chapters import Chapter, Stage
from dashboard.demo.stories import read_texts

QUESTIONS: dict[str, list[str]] = read_texts("questions")
ANSWERED = (
    "demo-support",
    "A bakery's import stopped half way. What was it the last time?",
    "The last times it was the file: semicolons between the columns. As UTF-8 it went through.",
)
HELD = ("demo-engineering", "What should we look at first when p95 rises after a schema change?")


def load_conversations(stage: Stage) -> None:
    """Create two conversations: one answered, one waiting for an endpoint. Nothing is sent."""
    slug, question, answer = ANSWERED
    message = _ask(stage, slug, question)
    Message.objects.filter(pk=message.pk).update(state=MessageState.SENDING, tries=1, next_try_at=stage.now)
    store_answer(message, Completion(answer, "an example", 640, 48, 1_250.0))
    follow_up = send_message(
        conversation=message.conversation,
        data=MessageIn(text="And how do we say so without blaming them?"),
        actor=DEMO_ACTOR,
    )
    _hold(follow_up)
    _ask(stage, *HELD)


def _ask(stage: Stage, slug: str, text: str) -> Message:
    data = ConversationIn(space=stage.spaces[slug].slug)
    message = begin_conversation(team=stage.team, data=data, first=MessageIn(text=text), actor=DEMO_ACTOR)
    _hold(message)
    return message


def _hold(message: Message) -> None:
    """Hold a message back from any configured endpoint: examples are not worth its tokens."""
    Message.objects.filter(pk=message.pk).update(state=MessageState.HELD, next_try_at=None)


def count_conversations(team: Team) -> dict[str, int]:
    return {"conversations": Conversation.objects.of(team).filter(space__is_demo=True).count()}


CONVERSATIONS = Chapter(load_conversations, count=count_conversations)
