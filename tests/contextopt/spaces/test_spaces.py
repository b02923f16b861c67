"""A deleted space leaves no text behind, and is deleted in batches that keep nobody waiting."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import IntegrityError, InternalError, transaction
from django.utils import timezone

from contextopt import tasks
from contextopt.assemblies.models import Assembly, AssemblyPayload, Kind
from contextopt.assemblies.verify import verify_assembly
from contextopt.gateway.models import GatewayRequest
from contextopt.people.models import AuditEvent, StoredResponse, User
from contextopt.search import registry
from contextopt.search.vectors.fill import Work, work_through
from contextopt.search.wordcounts import count_words
from contextopt.spaces import spaces
from contextopt.spaces.inputs import SpacePatch
from contextopt.spaces.models import Record, Space
from contextopt.spaces.recordviews import view_record
from contextopt.spaces.spaces import create_space, delete_space, update_space
from memory.backtests.backtests import start_backtest
from memory.backtests.inputs import BacktestIn
from memory.memories.models import Memory
from memory.questions.inputs import QuestionIn
from memory.questions.sets import add_question, create_set
from tests import factories
from tests.concurrency import PATIENCE_SECONDS, before_statement, beside
from tests.contextopt.api.conftest import Caller, api
from tests.marker import places_of
from tests.memory.factories import make_memory, make_review

__all__ = ["api"]
WORD = "zyxomark"
TASK = "Fix the stuck queue"
# Where the word must have been, so that the walk proves something.
COPIES = {
    "contextopt_space.description", "contextopt_record.title", "contextopt_record.notes",
    "contextopt_record.tags", "contextopt_record.metadata", "contextopt_record.thread",
    "contextopt_record.summary", "contextopt_record.search_vector", "contextopt_record.external_id",
    "contextopt_recordrevision.notes", "contextopt_assemblypayload.text", "contextopt_assemblypayload.ledger",
    "contextopt_documentfrequency.lexeme", "contextopt_storedresponse.body", "contextopt_auditevent.before",
    "contextopt_auditevent.after", "contextopt_message.text", "contextopt_gatewayrequest.answer",
    "django_admin_log.object_repr", "memory_question.text", "memory_memory.content",
    "memory_memory.search_vector",
}  # fmt: skip


@pytest.fixture
def other(space: Space) -> Space:
    return factories.make_space(space.team, "other")


def post(api: Caller, path: str, data: object, method: str = "post") -> Any:
    key = f"key-{StoredResponse.objects.count()}"
    response = api.send(method, path, data, headers={"Idempotency-Key": key})
    assert response.status_code in (200, 201), response.content
    return response.json()


def fill(api: Caller, space: Space, other: Space, owner: User, settings: Any) -> None:
    """Have the word copied to every place that keeps something of a space."""
    path = f"/spaces/{space.slug}"
    for description in (f"About {WORD}", f"More about {WORD}"):
        post(api, path, {"description": description, "categories": [WORD]}, "patch")
    given = {
        "title": f"{WORD} is stuck", "notes": f"The {WORD} holds the queue.", "tags": [WORD], "thread": WORD,
        "source": "crm", "external_id": WORD, "metadata": {WORD: [WORD]}, "type": "message",
    }  # fmt: skip
    record_id = post(api, f"{path}/records", given)["id"]
    post(api, f"{path}/records", {**given, "external_id": f"{WORD}-2", "title": f"{WORD} again"})
    post(api, f"/records/{record_id}", {"notes": f"Now the {WORD} waits for the queue."}, "patch")
    post(api, f"{path}/configs", {"note": WORD, "max_records": 5})
    record = Record.objects.get(pk=record_id)
    kind = ContentType.objects.get_for_model(Record)
    entry = {"user": owner, "content_type": kind, "object_id": str(record.pk), "action_flag": CHANGE}
    LogEntry.objects.create(**entry, object_repr=record.title)
    view_record(record=record, viewer="user:1")
    work_through(seconds=10, index_seconds=None, work=Work())
    count_words(registry.get("record"), space.pk)
    post(api, "/assemblies", {"space": space.slug, "query": f"Why is {WORD} stuck?"})
    post(api, "/search", {"query": WORD, "space": space.slug})
    for phase in ("planning", "building"):
        post(api, "/agent-context", {"task": TASK, "phase": phase, "space": space.slug})
    answer = factories.make_answer(factories.make_conversation(space), settings, f"Because of {WORD}.", WORD)
    post(api, f"/conversations/{answer.conversation_id}/messages", {"text": f"Where is {WORD}?"})
    assembly = factories.make_assembly(space)
    keeping = {"conversation": "shared", "question": WORD, "answer": f"Ask {WORD}."}
    for of, assembly_id in ((space, assembly.id), (other, None)):
        factories.make_gateway_request(of, assembly_id=assembly_id, **keeping)
    make_review(space, query=WORD)
    question_set = create_set(space=space, name="Facts", actor="test")
    asked = QuestionIn(query=f"Who is {WORD}?", expected=[WORD])
    add_question(question_set=question_set, data=asked, actor="test")
    post(api, f"/question-sets/{question_set.pk}/questions", {"query": f"Why {WORD}?", "expected": [WORD]})
    start_backtest(space=space, data=BacktestIn(config=1), actor="test")
    make_memory(space.team, content=f"Remember {WORD}.", title=WORD, space=space.slug)


@pytest.mark.django_db
def test_no_table_keeps_a_word_of_it(
    api: Caller, space: Space, other: Space, owner: User, settings: Any
) -> None:
    fill(api, space, other, owner, settings)
    assert places_of(WORD) >= COPIES
    figures = list(Assembly.objects.filter(kind=Kind.AGENT).values().order_by("pk"))
    delete_space(space=space, actor="user:olga")
    assert places_of(WORD) == set()
    assert list(Assembly.objects.filter(kind=Kind.AGENT).values().order_by("pk")) == figures
    for payload in AssemblyPayload.objects.select_related("assembly"):
        assert "> [purged]" in payload.text or not payload.text
        assert not verify_assembly(payload)


@pytest.mark.django_db
def test_what_is_not_of_the_space_stays(
    api: Caller, space: Space, other: Space, owner: User, settings: Any
) -> None:
    factories.make_record(other, title="Kept plan of the queue", notes="Kept notes.")
    post(api, f"/spaces/{other.slug}/records", {"title": "Kept record", "notes": "Stuck queue."})
    kept = [
        post(api, "/agent-context", {"task": TASK, "phase": "planning", "space": slug})["id"]
        for slug in (other.slug, None)
    ]
    post(api, "/tasks", {"description": "Kept task"})
    memory = make_memory(space.team, content="Kept memory.")
    texts = dict(AssemblyPayload.objects.filter(pk__in=kept).values_list("pk", "text"))
    bodies = dict(StoredResponse.objects.values_list("pk", "body"))
    fill(api, space, other, owner, settings)
    delete_space(space=space)
    assert dict(AssemblyPayload.objects.filter(pk__in=kept).values_list("pk", "text")) == texts
    assert "Kept plan" in texts[kept[0]]
    assert {pk: StoredResponse.objects.get(pk=pk).body for pk in bodies} == bodies
    assert Memory.objects.get(pk=memory.pk).content == "Kept memory."


@pytest.mark.django_db
def test_what_an_agent_brought_along_in_other_sections_stays(api: Caller, space: Space) -> None:
    factories.make_record(space, title="Secret plan of the queue")
    context = {"files": {"queue.py": "x = 1"}, "memories": ["Mine"], "docs": ["My own document"]}
    asked = {"task": TASK, "phase": "planning", "space": space.slug, "context": context}
    sent = post(api, "/agent-context", asked)
    assert "Secret plan" in sent["text"]
    delete_space(space=space)
    text = AssemblyPayload.objects.get(pk=sent["id"]).text
    assert "> x = 1" in text and "> Mine" in text
    assert "Secret" not in text and "Support notes" not in text
    assert len(text.splitlines()) == len(sent["text"].splitlines())


@pytest.mark.django_db
def test_an_agents_context_that_is_stored_late_is_erased_by_the_sweep(api: Caller, space: Space) -> None:
    factories.make_record(space, title="Secret plan of the queue")
    sent = post(api, "/agent-context", {"task": TASK, "phase": "planning", "space": space.slug})
    before = StoredResponse.objects.values("body", "record_ids").get()
    delete_space(space=space)
    # A step that had read the records before the deletion would store this after it.
    payloads = AssemblyPayload.objects.filter(pk=sent["id"])
    payloads.update(text=sent["text"], purged_at=None)
    StoredResponse.objects.update(**before)
    tasks.sweep()
    assert "Secret" not in payloads.get().text
    assert b"Secret" not in bytes(StoredResponse.objects.get().body)


@pytest.mark.django_db
def test_what_earlier_versions_left_is_erased_too(api: Caller, space: Space, other: Space) -> None:
    for each in (space, other):
        factories.make_record(each, title="Secret plan of the queue")
    gone, kept = (
        post(api, "/agent-context", {"task": TASK, "phase": "planning", "space": each.slug})
        for each in (space, other)
    )
    Space.objects.filter(pk=space.pk).delete()
    tasks.finish_deletions()
    assert "Secret" not in AssemblyPayload.objects.get(pk=gone["id"]).text
    assert "Secret" in AssemblyPayload.objects.get(pk=kept["id"]).text


@pytest.mark.django_db
def test_a_repeated_write_is_still_done_once(api: Caller, space: Space) -> None:
    path, data = f"/spaces/{space.slug}/records", {"title": "Secret plan"}
    first = api.post(path, data, headers={"Idempotency-Key": "a"})
    delete_space(space=space)
    again = api.post(path, data, headers={"Idempotency-Key": "a"})
    assert (again.status_code, again["Location"]) == (201, first["Location"])
    assert (again.json()["id"], again.json()["title"]) == (first.json()["id"], "[purged]")


@pytest.mark.django_db
def test_nothing_but_values_of_the_log_can_be_erased(space: Space) -> None:
    update_space(space=space, changes=SpacePatch(description="Secret", name="New name"))
    delete_space(space=space)
    event = AuditEvent.objects.get(action="space.changed")
    assert event.before == {"description": "[purged]", "name": "Support notes"}
    assert event.after == {"description": "[purged]", "name": "New name"}
    for changes in ({"before": {}}, {"actor": "user:mallory"}):
        with pytest.raises((IntegrityError, InternalError)), transaction.atomic():
            AuditEvent.objects.filter(pk=event.pk).update(**changes)


class TestBatches:
    @pytest.fixture
    def space(self, transactional_db: None) -> Space:
        return factories.make_space(factories.make_team())

    def test_others_see_each_batch(self, space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(spaces, "BATCH", 2)
        for number in range(5):
            factories.make_record(space, title=f"Record {number}")
            factories.make_assembly(space)
        left: list[int] = []

        def look(_: int) -> None:
            left.append(beside(Record.objects.count).result(PATIENCE_SECONDS))

        with before_statement("DELETE FROM contextopt_record", look):
            delete_space(space=space)
        assert left == [5, 3, 1, 0]
        assert not Assembly.objects.exists()

    def test_a_process_that_dies_leaves_the_rest_to_the_next(
        self, space: Space, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(spaces, "BATCH", 2)
        for number in range(5):
            factories.make_record(space, title=f"Record {number}")

        def die(number: int) -> None:
            if number == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt), before_statement("DELETE FROM contextopt_record", die):
            delete_space(space=space)
        assert (Record.objects.count(), Space.objects.count()) == (3, 1)
        assert space.counts.__class__.objects.get(pk=space.pk).live == 3
        delete_space(space=space)
        assert (Record.objects.count(), Space.objects.count()) == (0, 0)

    def test_a_new_space_of_the_same_name_keeps_its_text(self, space: Space) -> None:
        team, data = space.team, factories.SpaceIn(slug=space.slug, description="New")
        delete_space(space=space)
        again = create_space(team=team, data=data, actor="test")
        factories.make_record(again, title="New plan")
        other = beside(partial(delete_space, space=space))
        other.result(PATIENCE_SECONDS)
        assert Record.objects.get().title == "New plan"


@pytest.mark.django_db
def test_other_conversations_keep_their_answers(space: Space, other: Space) -> None:
    kept = factories.make_gateway_request(other, conversation="own", question="Why?", answer="So.")
    alone = factories.make_gateway_request(other, conversation="", question="Why?", answer="So.")
    factories.make_gateway_request(space, conversation="", assembly_id=factories.make_assembly(space).id)
    delete_space(space=space)
    assert GatewayRequest.objects.filter(pk__in=[kept.pk, alone.pk], answer="So.").count() == 2
    assert timezone.now() - kept.created_at < timedelta(hours=1)
