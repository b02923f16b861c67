"""The outbox, against a real endpoint that fails as scripted."""

import os
import subprocess
import sys
import time
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
import time_machine
from django.conf import settings as conf
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from contextopt import tasks
from contextopt.assemblies.purge import purge_record
from contextopt.chat import endpoint, outbox
from contextopt.chat.inputs import ConversationIn
from contextopt.chat.models import Author, Conversation, Message, MessageState
from contextopt.chat.outbox import (
    cancel_message,
    claim_message,
    deliver,
    retry_message,
    store_answer,
    wait_seconds,
)
from contextopt.chat.promptbuilder import build_prompt
from contextopt.engine.validation import BudgetExceeded
from contextopt.errors import Conflict, NotFound
from contextopt.spaces.models import Space
from contextopt.spaces.spaces import delete_space
from contextopt.sql import own_conninfo
from tests.concurrency import before_statement, beside
from tests.contextopt.chat.conftest import asked_of, reload, send
from tests.factories import make_conversation, make_record
from tests.model_server import DROPPED, FAILING, ModelServer, Reply, Seen, busy, refused
from tests.recomputed import make_searchable


def test_a_message_goes_out_with_the_context_and_is_answered(
    llm: ModelServer, conversation: Conversation
) -> None:
    message = send(conversation)
    assert message.state == MessageState.QUEUED
    tasks.send_messages(message.pk)
    answered = reload(message)
    assert answered.state == MessageState.ANSWERED
    assert answered.tries == 1
    assert answered.answer.text == "An answer."
    assert (answered.answer.model, answered.answer.prompt_tokens) == ("small", 7)
    (system, user) = asked_of(llm)[0]
    assert system[0] == "system"
    assert f"END RECORDS {conversation.mark}" in system[1]
    assert user[0] == "user"
    assert "- [note] Queue stuck" in user[1]
    assert answered.assembly.payload.text in user[1]
    assert user[1].endswith("\n\nWhy is the queue stuck?")
    assert answered.assembly.conversation == f"chat:{conversation.pk}"
    assert system[1] == build_prompt(answered).messages[0].content
    assert Conversation.objects.get().title == "Why is the queue stuck?"


def test_the_endpoint_is_down_then_back_and_answers_once(
    llm: ModelServer, conversation: Conversation
) -> None:
    llm.script.extend([FAILING, DROPPED, Reply(body=b"<html>")])
    message = send(conversation)
    with time_machine.travel(timezone.now(), tick=False) as clock:
        for tries in (1, 2, 3):
            tasks.send_messages()
            waiting = reload(message)
            assert waiting.state == MessageState.QUEUED
            assert waiting.tries == tries
            assert waiting.error.startswith("the model endpoint")
            assert waiting.next_try_at == timezone.now() + timedelta(seconds=wait_seconds(tries))
            tasks.send_messages()  # not due
            assert len(llm.seen) == tries
            clock.shift(timedelta(seconds=wait_seconds(tries)))
        tasks.send_messages()
        tasks.send_messages()
    assert reload(message).state == MessageState.ANSWERED
    assert len(llm.seen) == 4
    assert {r.headers["idempotency-key"] for r in llm.seen} == {message.idempotency_key}
    assert len({str(r.body) for r in llm.seen}) == 1
    assert Message.objects.filter(author=Author.ASSISTANT).count() == 1


def test_nothing_listens(settings: Any, conversation: Conversation) -> None:
    settings.LLM_BASE_URL = "http://127.0.0.1:9/v1"
    message = send(conversation)
    tasks.send_messages()
    assert reload(message).error == "the model endpoint cannot be reached"


def test_a_slow_endpoint_is_asked_again(
    llm: ModelServer, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "TIMEOUT_SECONDS", 0.1)
    llm.script.append(Reply(delay_seconds=0.5))
    message = send(conversation)
    tasks.send_messages()
    assert "did not respond within 0.1 s" in reload(message).error


def test_the_endpoint_says_how_long_to_wait(llm: ModelServer, conversation: Conversation) -> None:
    llm.script.append(busy("90"))
    message = send(conversation)
    with time_machine.travel(timezone.now(), tick=False):
        tasks.send_messages()
        assert reload(message).next_try_at == timezone.now() + timedelta(seconds=90)


def test_a_refusal_is_final_until_a_person_tries_again(llm: ModelServer, conversation: Conversation) -> None:
    llm.script.append(refused(401))
    message = send(conversation)
    tasks.send_messages()
    failed = reload(message)
    assert (failed.state, failed.next_try_at) == (MessageState.FAILED, None)
    assert "401" in failed.error
    retry_message(message=failed)
    tasks.send_messages()
    assert reload(message).state == MessageState.ANSWERED
    assert len({r.headers["idempotency-key"] for r in llm.seen}) == 1


def test_a_sender_that_dies_before_it_stores_the_answer(llm: ModelServer, conversation: Conversation) -> None:
    message = send(conversation)
    claimed = claim_message()
    assert claimed is not None
    endpoint.complete(
        build_prompt(claimed).messages, timeout_seconds=5, idempotency_key=claimed.idempotency_key or ""
    )
    # The worker is killed here. Nobody else takes the message while the worker might still live.
    assert claim_message() is None
    assert reload(message).state == MessageState.SENDING
    with time_machine.travel(timezone.now() + outbox.CLAIM_LIFE + timedelta(seconds=1)):
        tasks.send_messages()
    assert reload(message).state == MessageState.ANSWERED
    assert reload(message).tries == 2
    assert [r.headers["idempotency-key"] for r in llm.seen] == [message.idempotency_key] * 2
    assert Message.objects.filter(author=Author.ASSISTANT).count() == 1


def test_a_message_whose_senders_always_die_fails_in_the_end(
    llm: ModelServer, conversation: Conversation
) -> None:
    message = send(conversation)
    begun = now = timezone.now()
    claims = 0
    while reload(message).state != MessageState.FAILED:
        with time_machine.travel(now, tick=False):
            claims += claim_message() is not None
        now = (reload(message).next_try_at or now) + timedelta(seconds=1)
        assert claims < 500
    assert begun + outbox.PATIENCE < now < begun + outbox.PATIENCE + timedelta(hours=1)
    assert "interrupted" in reload(message).error


def test_the_first_of_two_answers_is_kept(llm: ModelServer, conversation: Conversation) -> None:
    message = send(conversation)
    first = claim_message()
    assert first is not None
    assert deliver(first)
    late = endpoint.Completion("Another answer.", "small", 1, 1, 1.0)
    assert store_answer(first, late) is None
    assert reload(message).answer.text == "An answer."
    with pytest.raises(IntegrityError), transaction.atomic():
        Message.objects.create(
            conversation=conversation, author=Author.ASSISTANT, state=MessageState.ANSWERED,
            reply_to=message, text="A second one.",
        )  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_no_transaction_waits_while_an_endpoint_embeds_the_question(space: Space, settings: Any) -> None:
    make_record(space, title="Anna", type="message", date=timezone.now(), notes="The queue is stuck again.")
    conversation = make_conversation(space, stage=5)
    waiting: list[bool] = []
    with ModelServer() as server:
        settings.EMBEDDING_MODEL, settings.EMBEDDING_ENDPOINT_MODEL = "endpoint", "outbox"
        settings.EMBEDDING_BASE_URL, settings.EMBEDDING_DIMENSIONS = server.base_url, 8
        make_searchable(space)

        def respond(seen: Seen) -> Reply:
            waiting.append(beside(is_in_transaction).result())
            return server.respond_well(seen)

        server.respond = respond
        send(conversation, "What did Anna say about the queue?")
    assert waiting == [False]


def is_in_transaction() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE state = 'idle in transaction'"
            " AND datname = current_database())"
        )
        return bool(cursor.fetchone()[0])


def test_a_claim_that_ran_out_changes_nothing_any_more(llm: ModelServer, conversation: Conversation) -> None:
    message = send(conversation)
    first = claim_message()
    assert first is not None
    with time_machine.travel(timezone.now() + outbox.CLAIM_LIFE + timedelta(seconds=1)):
        second = claim_message()
        assert second is not None
        outbox.postpone(first, "the first one's error")
        assert reload(message).state == MessageState.SENDING
        deliver(second)
    assert reload(message).state == MessageState.ANSWERED


def test_its_space_is_deleted_while_it_is_sent(
    llm: ModelServer, conversation: Conversation, space: Space
) -> None:
    gone: list[int] = []

    def delete(number: int) -> None:
        if llm.seen and not gone:
            gone.append(number)
            delete_space(space=space)

    send(conversation)
    # Storing the answer begins with a savepoint, after the endpoint has answered.
    with before_statement("SAVEPOINT", delete):
        tasks.send_messages()
    assert len(llm.seen) == 1
    assert not Message.objects.exists()


def test_cancelled_while_it_is_sent(llm: ModelServer, conversation: Conversation) -> None:
    message = send(conversation)
    claimed = claim_message()
    assert claimed is not None
    cancel_message(message=message)
    deliver(claimed)
    assert reload(message).state == MessageState.CANCELLED
    assert not Message.objects.filter(author=Author.ASSISTANT).exists()
    assert claim_message() is None
    retry_message(message=message)
    tasks.send_messages()
    assert reload(message).state == MessageState.ANSWERED
    with pytest.raises(Conflict, match="already been answered"):
        cancel_message(message=message)
    with pytest.raises(Conflict, match="answered"):
        retry_message(message=message)


def test_without_an_endpoint_it_is_kept_and_not_sent(conversation: Conversation, settings: Any) -> None:
    settings.LLM_BASE_URL = ""
    message = send(conversation)
    tasks.send_messages()
    held = reload(message)
    assert (held.state, held.tries) == (MessageState.HELD, 0)
    assert "Queue stuck" in build_prompt(held).text
    with pytest.raises(Conflict, match="No model endpoint"):
        retry_message(message=held)


def test_it_is_sent_once_there_is_an_endpoint(
    conversation: Conversation, settings: Any, llm: ModelServer
) -> None:
    url, settings.LLM_BASE_URL = settings.LLM_BASE_URL, ""
    message = send(conversation)
    settings.LLM_BASE_URL = url
    tasks.send_messages()
    assert reload(message).state == MessageState.HELD
    retry_message(message=message)
    tasks.send_messages()
    assert reload(message).state == MessageState.ANSWERED


def test_it_fails_after_three_days(llm: ModelServer, conversation: Conversation) -> None:
    llm.respond = lambda _: refused(503)
    message = send(conversation)
    tasks.send_messages()
    with time_machine.travel(timezone.now() + outbox.PATIENCE + timedelta(minutes=1)):
        tasks.send_messages()
    assert reload(message).state == MessageState.FAILED


def test_a_job_stops_at_the_first_sign_that_the_endpoint_is_down(
    llm: ModelServer, conversation: Conversation
) -> None:
    llm.respond = lambda _: refused(503)
    send(conversation)
    send(conversation)
    tasks.send_messages()
    assert len(llm.seen) == 1
    llm.respond = llm.respond_well
    tasks.send_messages()
    assert len(llm.seen) == 2


def test_a_message_too_long_for_the_budget_is_refused_whole(conversation: Conversation) -> None:
    with pytest.raises(BudgetExceeded):
        send(conversation, "word " * 15_000)
    assert not Message.objects.exists()
    assert not conversation.team.assemblies.exists()


def test_what_was_purged_is_not_sent(llm: ModelServer, conversation: Conversation) -> None:
    message = send(conversation)
    assert build_prompt(message).is_complete
    purge_record(record=conversation.space.records.get())
    prompt = build_prompt(reload(message))
    assert "Queue stuck" not in prompt.messages[0].content
    assert not prompt.is_complete


def test_a_space_of_others(space: Space, other_team: Any) -> None:
    with pytest.raises(NotFound):
        outbox.create_conversation(
            team=other_team, data=ConversationIn(space=space.slug), actor="user:mallory"
        )


@pytest.mark.parametrize(("tries", "seconds"), [(1, 2), (2, 4), (5, 32), (9, 512), (10, 600), (10_000, 600)])
def test_waits_grow(tries: int, seconds: int) -> None:
    assert wait_seconds(tries) == seconds


@pytest.mark.django_db(transaction=True)
def test_two_workers_never_take_the_same_message(llm: ModelServer, conversation: Conversation) -> None:
    for number in range(6):
        send(conversation, f"Question {number}?")

    def work() -> None:
        tasks.send_messages()
        connection.close()

    threads = [Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(llm.seen) == 6
    assert Message.objects.filter(author=Author.ASSISTANT).count() == 6
    assert set(Message.objects.asked().values_list("tries", flat=True)) == {1}


WORK = "import django; django.setup(); from contextopt.tasks import send_messages; send_messages()"


@pytest.mark.django_db(transaction=True)
def test_a_worker_is_killed_while_it_waits_for_the_answer(
    llm: ModelServer, conversation: Conversation
) -> None:
    llm.script.append(Reply(delay_seconds=30))
    message = send(conversation)
    database = own_conninfo()
    environment = {
        **os.environ, "DATABASE_URL": database, "LLM_BASE_URL": llm.base_url,
        "DJANGO_SETTINGS_MODULE": "config.settings",
    }  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", WORK], env=environment, cwd=conf.BASE_DIR) as worker:
        until = time.monotonic() + 30
        while not llm.seen and time.monotonic() < until:
            time.sleep(0.05)
        with time_machine.travel(timezone.now() + timedelta(seconds=3)):
            tasks.send_messages()
            assert reload(message).state == MessageState.SENDING
            assert len(llm.seen) == 1
            worker.kill()
            # The claim lasts much longer, but the server notices that its sender has gone.
            until = time.monotonic() + 10
            while reload(message).state == MessageState.SENDING and time.monotonic() < until:
                tasks.send_messages()
    assert reload(message).answer.text == "An answer."
    assert [r.headers["idempotency-key"] for r in llm.seen] == [message.idempotency_key] * 2
    assert Message.objects.filter(author=Author.ASSISTANT).count() == 1
