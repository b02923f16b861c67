"""Chat: questions sent with a space's context, and their answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django_htmx.http import reswap, retarget

from contextopt.assemblies.models import AssemblyPayload
from contextopt.chat import endpoint, outbox, promptbuilder
from contextopt.chat.endpoint import is_configured
from contextopt.chat.models import Conversation, Message, MessageState
from contextopt.chat.promptbuilder import Prompt, build_prompt
from contextopt.engine.validation import BudgetExceeded, EngineError
from contextopt.engine.values import UNKNOWN_MODEL, ContextWarning
from contextopt.engine.wording import plural
from contextopt.inputs import BIGINT_MAX, read_digits
from contextopt.people.models import Role
from dashboard.kit.charts.shapes import Bar, bar_of_assembly
from dashboard.kit.permissions import TeamRequest, as_404, as_message, page_for
from dashboard.kit.responses import STOP_POLLING, newest_page, render_page
from dashboard.pages.answers.forms import AskForm, MessageForm
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
    """Return the warnings of the messages' contexts by assembly, in one query if there are any.

    The model's name is set for the whole server, so the chat does not repeat that it is unknown.
    """
    warned = [
        message.assembly_id for message in messages if message.assembly and message.assembly.warning_codes
    ]
    if not warned:
        return {}
    return {
        each.pk: [warning for warning in each.warnings if warning.code != UNKNOWN_MODEL]
        for each in AssemblyPayload.objects.filter(pk__in=warned)
    }


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


TEMPLATE = "dashboard/chat.html"
TURN_TEMPLATE = "dashboard/_turn.html"
TURNS_SHOWN = 30


@as_404()
def get_conversation(request: TeamRequest, conversation_id: int) -> Conversation:
    return outbox.find_conversation(request.team.pk, conversation_id)


@as_404()
def get_question(request: TeamRequest, message_id: int) -> Message:
    return outbox.find_question(request.team.pk, message_id)


@page_for(Role.VIEWER, "GET")
def chat(request: TeamRequest) -> HttpResponse:
    space = request.GET.get("space", "")
    return _render_list(request, AskForm(team=request.team, initial={"space": space}), MessageForm())


@page_for(Role.REVIEWER, "POST")
def chat_ask(request: TeamRequest) -> HttpResponse:
    """Start a conversation with its first message."""
    form, message_form = AskForm(request.POST, team=request.team), MessageForm(request.POST)
    if form.is_valid() & message_form.is_valid():
        try:
            message = outbox.begin_conversation(
                team=request.team, data=form.value, first=message_form.value, actor=request.actor
            )
        except EngineError as error:
            message_form.add_error("text", _refusal(error))
        else:
            address = reverse("dashboard:chat_conversation", args=[message.conversation_id])
            # The fragment puts the focus on the message box.
            return redirect(f"{address}#{message_form['text'].id_for_label}")
    return _render_list(request, form, message_form, status=422)


def _render_list(
    request: TeamRequest, form: AskForm, message_form: MessageForm, status: int = 200
) -> HttpResponse:
    rows = Conversation.objects.of(request.team).with_space()
    page = newest_page(rows, "active_at", request.GET.get("before", ""))
    waiting = outbox.count_waiting(request.team, page.rows)
    context = {
        "form": form,
        "message_form": message_form,
        "page": page,
        "rows": [(each, waiting.get(each.pk, 0)) for each in page.rows],
        "has_spaces": bool(form.fields["space"].choices),  # type: ignore[attr-defined]
        "is_configured": endpoint.is_configured(),
    }
    return render_page(request, TEMPLATE, context, partials=("conversations",), status=status)


@page_for(Role.VIEWER, "GET", get_conversation)
def chat_conversation(request: TeamRequest, conversation: Conversation) -> HttpResponse:
    return _render_conversation(request, conversation, MessageForm())


def _render_conversation(
    request: TeamRequest, conversation: Conversation, form: MessageForm, status: int = 200
) -> HttpResponse:
    text = request.GET.get("before", "")
    before = read_digits(text)
    asked = conversation.messages.asked().filter(pk__lt=BIGINT_MAX if before is None else before)
    found = list(asked.order_by("-id")[: TURNS_SHOWN + 1])
    shown = found[:TURNS_SHOWN][::-1]
    context = {
        "conversation": conversation,
        "turns": read_turns(shown, request.actor, timezone.now()),
        "older": shown[0].pk if len(found) > TURNS_SHOWN else 0,
        "is_past": bool(text),
        "form": form,
        "is_configured": endpoint.is_configured(),
    }
    return render_page(request, "dashboard/conversation.html", context, status=status)


@page_for(Role.REVIEWER, "POST", get_conversation)
def chat_send(request: TeamRequest, conversation: Conversation) -> HttpResponse:
    """Send a message; htmx gets its turn, or the form with its errors."""
    form = MessageForm(request.POST)
    if form.is_valid():
        try:
            message = outbox.send_message(conversation=conversation, data=form.value, actor=request.actor)
        except EngineError as error:
            form.add_error("text", _refusal(error))
        else:
            return _after_change(request, message)
    if not request.htmx:
        return _render_conversation(request, conversation, form, status=422)
    context = {"conversation": conversation, "form": form}
    response = render(request, "dashboard/conversation.html#composer", context)
    return retarget(reswap(response, "outerHTML"), "#composer")


def _refusal(error: EngineError) -> str:
    """Return why a message is refused. Only its own text can exceed the budget: earlier turns make room."""
    if not isinstance(error, BudgetExceeded):
        return str(error)
    return f"The message is too long by {plural(error.missing, 'token')}."


@page_for(Role.VIEWER, "GET", get_question)
def chat_message(request: TeamRequest, message: Message) -> HttpResponse:
    """Show one turn for polls; redirect a browser to the turn's place in the conversation."""
    return _render_turn(request, message) if request.htmx else redirect(_address(message))


def _render_turn(request: TeamRequest, message: Message) -> HttpResponse:
    (turn,) = read_turns([message], request.actor, timezone.now())
    is_poll = request.method == "GET"
    status = STOP_POLLING if is_poll and not turn.poll_ms else 200
    context = {"turn": turn}
    return render_page(request, TURN_TEMPLATE, context, status=status)


def _address(message: Message) -> str:
    return f"{reverse('dashboard:chat_conversation', args=[message.conversation_id])}#turn-{message.pk}"


@page_for(Role.REVIEWER, "POST", get_question)
def chat_cancel(request: TeamRequest, message: Message) -> HttpResponse:
    with as_message(request, "Not cancelled."):
        outbox.cancel_message(message=message)
    return _after_change(request, message)


@page_for(Role.REVIEWER, "POST", get_question)
def chat_retry(request: TeamRequest, message: Message) -> HttpResponse:
    with as_message(request, "Not sent."):
        outbox.retry_message(message=message)
    return _after_change(request, message)


def _after_change(request: TeamRequest, message: Message) -> HttpResponse:
    if not request.htmx:
        return redirect(_address(message))
    return _render_turn(request, get_question(request, message.pk))


@page_for(Role.VIEWER, "GET", get_question)
def chat_prompt(request: TeamRequest, message: Message) -> HttpResponse:
    """Show exactly what is or was sent for a message."""
    context: dict[str, Any] = {"message": message, "prompt": promptbuilder.build_prompt(message)}
    return render_page(request, "dashboard/prompt.html", context)
