"""Chat: questions sent with a space's context, and their answers."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST
from django_htmx.http import reswap, retarget

from contextopt.chat import endpoint, outbox, prompts
from contextopt.engine.text.errors import BudgetExceeded, EngineError
from contextopt.engine.wording import plural
from contextopt.inputs import BIGINT_MAX, read_digits
from contextopt.models import Conversation, Message, Role
from dashboard.kit.access import TeamRequest, as_404, as_message, require_role, team_page
from dashboard.kit.pages import STOP_POLLING, render_page
from dashboard.kit.paging import newest_page
from dashboard.pages.answers.forms import AskForm, MessageForm
from dashboard.pages.answers.turns import read_turns

TEMPLATE = "dashboard/chat.html"
TURN_TEMPLATE = "dashboard/_turn.html"
TURNS_SHOWN = 30


@as_404()
def get_conversation(request: TeamRequest, conversation_id: int) -> Conversation:
    return outbox.find_conversation(request.team.pk, conversation_id)


@as_404()
def get_question(request: TeamRequest, message_id: int) -> Message:
    return outbox.find_question(request.team.pk, message_id)


@require_GET
@team_page
def chat(request: TeamRequest) -> HttpResponse:
    space = request.GET.get("space", "")
    return _render_list(request, AskForm(team=request.team, initial={"space": space}), MessageForm())


@require_POST
@team_page
def chat_ask(request: TeamRequest) -> HttpResponse:
    """Start a conversation with its first message."""
    require_role(request, Role.REVIEWER)
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


@require_GET
@team_page
def chat_conversation(request: TeamRequest, conversation_id: int) -> HttpResponse:
    conversation = get_conversation(request, conversation_id)
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


@require_POST
@team_page
def chat_send(request: TeamRequest, conversation_id: int) -> HttpResponse:
    """Send a message; htmx gets its turn, or the form with its errors."""
    conversation = get_conversation(request, conversation_id)
    require_role(request, Role.REVIEWER)
    form = MessageForm(request.POST)
    message = _send(request, conversation, form) if form.is_valid() else None
    if message is None:
        return _refuse(request, conversation, form)
    if not request.htmx:
        return redirect(_address(message))
    return _render_turn(request, outbox.find_question(request.team.pk, message.pk))


def _send(request: TeamRequest, conversation: Conversation, form: MessageForm) -> Message | None:
    """Store the message; return None, with an error in the form, if it exceeds the budget."""
    try:
        message = outbox.send_message(conversation=conversation, data=form.value, actor=request.actor)
    except EngineError as error:
        form.add_error("text", _refusal(error))
        return None
    return message


def _refusal(error: EngineError) -> str:
    """Return why a message is refused. Only its own text can exceed the budget: earlier turns make room."""
    if not isinstance(error, BudgetExceeded):
        return str(error)
    return f"The message is too long by {plural(error.missing, 'token')}."


def _refuse(request: TeamRequest, conversation: Conversation, form: MessageForm) -> HttpResponse:
    if not request.htmx:
        return _render_conversation(request, conversation, form, status=422)
    context = {"conversation": conversation, "form": form}
    response = render(request, "dashboard/conversation.html#composer", context)
    return retarget(reswap(response, "outerHTML"), "#composer")


@require_GET
@team_page
def chat_message(request: TeamRequest, message_id: int) -> HttpResponse:
    """Show one turn for polls; redirect a browser to the turn's place in the conversation."""
    message = get_question(request, message_id)
    return _render_turn(request, message) if request.htmx else redirect(_address(message))


def _render_turn(request: TeamRequest, message: Message) -> HttpResponse:
    (turn,) = read_turns([message], request.actor, timezone.now())
    is_poll = request.method == "GET"
    status = STOP_POLLING if is_poll and not turn.poll_ms else 200
    context = {"turn": turn}
    return render_page(request, TURN_TEMPLATE, context, status=status)


def _address(message: Message) -> str:
    return f"{reverse('dashboard:chat_conversation', args=[message.conversation_id])}#turn-{message.pk}"


@require_POST
@team_page
def chat_cancel(request: TeamRequest, message_id: int) -> HttpResponse:
    message = get_question(request, message_id)
    require_role(request, Role.REVIEWER)
    with as_message(request, "Not cancelled."):
        outbox.cancel_message(message=message)
    return _after_change(request, message)


@require_POST
@team_page
def chat_retry(request: TeamRequest, message_id: int) -> HttpResponse:
    message = get_question(request, message_id)
    require_role(request, Role.REVIEWER)
    with as_message(request, "Not sent."):
        outbox.retry_message(message=message)
    return _after_change(request, message)


def _after_change(request: TeamRequest, message: Message) -> HttpResponse:
    if not request.htmx:
        return redirect(_address(message))
    return _render_turn(request, get_question(request, message.pk))


@require_GET
@team_page
def chat_prompt(request: TeamRequest, message_id: int) -> HttpResponse:
    """Show exactly what is or was sent for a message."""
    message = get_question(request, message_id)
    context: dict[str, Any] = {"message": message, "prompt": prompts.build_prompt(message)}
    return render_page(request, "dashboard/prompt.html", context)
