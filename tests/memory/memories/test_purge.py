"""A purged memory leaves no text behind. A deleted one is purged after a month."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.test import Client
from django.utils import timezone

from contextopt.agents.completions import Completion
from contextopt.assemblies.models import Assembly, AssemblyPayload, Kind
from contextopt.assemblies.verify import verify_assembly
from contextopt.errors import Conflict
from contextopt.locks import Lock, only_here
from contextopt.people.models import AuditEvent, StoredResponse, Team, User
from contextopt.search import registry
from contextopt.search.vectors.fill import Work, work_through
from contextopt.search.wordcounts import count_words
from memory import tasks
from memory.memories import purge
from memory.memories.memories import delete_memory, restore_memory
from memory.memories.models import Memory, MemoryEmbedding
from memory.memories.purge import purge_memory
from memory.strategies.strategies import retire_strategy
from tests import factories
from tests.adminpages import page
from tests.concurrency import PATIENCE_SECONDS, beside
from tests.contextopt.api.conftest import Caller
from tests.marker import places_of
from tests.memory.factories import make_memory, make_strategy

pytestmark = pytest.mark.django_db
WORD = "zyxomark"
TASK = "Fix the stuck queue"
COPIES = {
    "contextopt_assemblypayload.text", "contextopt_documentfrequency.lexeme",
    "contextopt_storedresponse.body", "contextopt_completion.learned", "contextopt_completion.report",
    "django_admin_log.object_repr",
    "memory_memory.content", "memory_memory.payload", "memory_memory.retired_reason",
    "memory_memory.search_vector", "memory_memory.tags", "memory_memory.title",
}  # fmt: skip


def post(api: Caller, path: str, data: object, method: str = "post") -> Any:
    key = f"key-{StoredResponse.objects.count()}"
    response = api.send(method, path, data, headers={"Idempotency-Key": key})
    assert response.status_code in (200, 201), response.content
    return response.json()


def fill(api: Caller, team: Team, owner: User) -> list[Memory]:
    """Have the word copied to every place that keeps something of a memory; return the memories."""
    given = {
        "content": f"The {WORD} holds the stuck queue.", "title": WORD, "tags": [WORD], "category": WORD,
        "payload": {WORD: WORD},
    }  # fmt: skip
    ids = [
        post(api, "/memories", {**given, "trust_level": level})["id"]
        for level in ("user", "agent", "external")
    ]
    for phase in ("planning", "building"):
        post(api, "/agent-context", {"task": TASK, "phase": phase})
    report = {
        "description": TASK, "plan": f"Stop the {WORD}\nStart the queue", "quality_score": 9,
        "decisions": [f"Never use {WORD} again."], "error_patterns": [{"content": f"{WORD} is stuck"}],
    }  # fmt: skip
    ids += [stored["id"] for stored in post(api, "/completions", report)["stored"]]
    work_through(seconds=10, index_seconds=None, work=Work())
    hint = post(api, "/strategy-hints", {"task": TASK})
    assert WORD in hint["hint"]
    assert "[STRATEGY HINT" in post(api, "/agent-context", {"task": TASK, "phase": "planning"})["text"]
    post(api, "/search", {"query": WORD, "kinds": ["memory"]})
    # Agents were sent the text before this change.
    post(api, f"/memories/{ids[0]}", {"content": f"Now {WORD} is gone."}, "patch")
    post(api, f"/strategies/{hint['memory_id']}/retire", {"reason": f"{WORD} is old"})
    count_words(registry.get("memory"), team.pk)
    memories = list(Memory.objects.filter(pk__in=ids).order_by("pk"))
    kind = ContentType.objects.get_for_model(Memory)
    entry = {"user": owner, "content_type": kind, "object_id": str(ids[0]), "action_flag": CHANGE}
    LogEntry.objects.create(**entry, object_repr=str(memories[0]))
    return memories


def test_no_table_keeps_a_word_of_it(api: Caller, team: Team, owner: User) -> None:
    memories = fill(api, team, owner)
    assert places_of(WORD) >= COPIES
    figures = list(Assembly.objects.values().order_by("pk"))
    for memory in memories:
        purge_memory(memory=memory, actor="user:olga")
    assert places_of(WORD) == set()
    assert list(Assembly.objects.values().order_by("pk")) == figures
    for payload in AssemblyPayload.objects.select_related("assembly"):
        assert "> [purged]" in payload.text or not payload.text
        assert not verify_assembly(payload)
    assert not MemoryEmbedding.objects.exists()
    assert {completion.report["quality_score"] for completion in Completion.objects.all()} == {9}


def test_other_memories_and_sections_stay(api: Caller, team: Team) -> None:
    kept, gone = (make_memory(team, content=f"{word} stuck queue.") for word in ("Kept", "Secret"))
    asked = {"task": TASK, "phase": "planning", "context": {"docs": ["My document"], "files": {"a.py": "x"}}}
    sent = post(api, "/agent-context", asked)
    other = post(api, "/memories", {"content": "Kept too."})
    assert "Kept" in sent["text"] and "Secret" in sent["text"]
    purge_memory(memory=gone)
    text = AssemblyPayload.objects.get(pk=sent["id"]).text
    assert "Secret" not in text
    assert "> My document" in text and "> x" in text
    assert len(text.splitlines()) == len(sent["text"].splitlines())
    assert Memory.objects.get(pk=kept.pk).content == "Kept stuck queue."
    assert b"Kept too." in bytes(StoredResponse.objects.order_by("-pk")[0].body)
    assert Memory.objects.get(pk=other["id"]).purged_at is None


def test_a_second_purge_changes_nothing(team: Team) -> None:
    memory = purge_memory(memory=make_memory(team), actor="user:olga")
    assert (memory.content, memory.title, memory.tags) == ("[purged]", "", [])
    assert purge_memory(memory=memory).updated_at == memory.updated_at
    with pytest.raises(Conflict, match="erased for good"):
        restore_memory(memory=memory)
    [event] = AuditEvent.objects.of(team)
    assert (event.action, event.subject, event.actor) == ("memory.purged", f"memory {memory.pk}", "user:olga")


class TestTheJob:
    def test_it_purges_what_was_deleted_a_month_ago(self, team: Team, other_team: Team) -> None:
        live, young = make_memory(team), make_memory(team)
        old = [make_memory(each, content="Secret") for each in (team, other_team)]
        now = timezone.now()
        for memory, days in ((young, 29), *((each, 31) for each in old)):
            with time_machine.travel(now - timedelta(days=days), tick=False):
                delete_memory(memory=memory)
        for _ in range(2):
            tasks.purge_deleted_memories()
        found = dict(Memory.objects.values_list("pk", "purged_at"))
        assert [found[each.pk] for each in (live, young)] == [None, None]
        assert None not in [found[each.pk] for each in old]
        assert places_of("secret") == set()
        assert AuditEvent.objects.filter(action="memory.purged", actor="system").count() == 2

    def test_it_works_in_batches(self, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(purge, "BATCH", 2)
        monkeypatch.setattr(purge, "BATCHES", 2)
        for _ in range(5):
            delete_memory(memory=make_memory(team))
        Memory.objects.update(deleted_at=timezone.now() - timedelta(days=31))
        for left in (1, 0):
            tasks.purge_deleted_memories()
            assert Memory.objects.filter(purged_at=None).count() == left

    def test_it_erases_what_was_stored_during_a_purge(self, api: Caller, team: Team) -> None:
        memory = make_memory(team, content="Secret of the stuck queue.")
        sent = post(api, "/agent-context", {"task": TASK, "phase": "planning"})
        before = StoredResponse.objects.values("body").get()
        purge_memory(memory=memory)
        # A step that had read the memory before the purge would store this after it.
        AssemblyPayload.objects.filter(pk=sent["id"]).update(text=sent["text"], purged_at=None)
        StoredResponse.objects.update(**before)
        tasks.purge_deleted_memories()
        assert places_of("secret") == set()


@pytest.mark.django_db(transaction=True)
def test_only_one_process_runs_the_job() -> None:
    delete_memory(memory=make_memory(factories.make_team()))
    Memory.objects.update(deleted_at=timezone.now() - timedelta(days=31))
    with only_here(Lock.PURGE_MEMORIES) as is_ours:
        assert is_ours
        beside(tasks.purge_deleted_memories).result(PATIENCE_SECONDS)
        assert Memory.objects.get().purged_at is None
    tasks.purge_deleted_memories()
    assert Memory.objects.get().purged_at is not None


def test_it_is_purged_through_the_api(api: Caller, writer: Caller, team: Team) -> None:
    memory = make_memory(team)
    assert writer.post(f"/memories/{memory.pk}/purge").status_code == 403
    answer = api.post(f"/memories/{memory.pk}/purge")
    assert (answer.status_code, answer.json()["content"]) == (200, "[purged]")
    assert answer.json()["purged_at"] is not None
    assert api.post(f"/memories/{memory.pk}/restore").status_code == 409


class TestInTheAdmin:
    def test_a_memory_is_purged(self, admin_client: Client, team: Team) -> None:
        memory = make_memory(team, content="Secret")
        address = f"/admin/memory/memory/{memory.pk}/purge/"
        assert address in admin_client.get(page(Memory, "change", memory.pk)).content.decode()
        assert b"Erase this text for good" in admin_client.get(address).content
        assert Memory.objects.get().purged_at is None
        response = admin_client.post(address, {"_form_submitted": "True", "confirm": "on"})
        assert response.headers["HX-Redirect"] == page(Memory, "change", memory.pk)
        assert places_of("secret") == set()

    def test_it_cannot_be_restored(self, admin_client: Client, team: Team) -> None:
        memory = purge_memory(memory=make_memory(team))
        chosen = {"action": "restore", "_selected_action": memory.pk}
        page_after = admin_client.post(page(Memory, "changelist"), chosen, follow=True)
        assert "erased for good" in page_after.content.decode()
        assert Memory.objects.get().deleted_at is not None


def test_a_purged_strategy_is_in_no_list(team: Team) -> None:
    strategy = make_strategy(team)
    retire_strategy(memory=strategy, reason="old", actor="test")
    purge_memory(memory=strategy)
    assert not Memory.objects.strategies().exists()
    assert Assembly.objects.exclude(kind=Kind.HINT).count() == 0
