from concurrent.futures import Future, wait
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection
from django.utils import timezone

from config.celery import HARD_TIME_LIMIT_SECONDS, VISIBILITY_TIMEOUT_SECONDS
from contextopt import tasks
from contextopt.agents.handoffs.modelbriefs import WRITE_SECONDS
from contextopt.assemblies.models import AssemblyPayload
from contextopt.assemblies.purge import purge_record
from contextopt.chat.endpoint import CONNECT_SECONDS
from contextopt.chat.outbox import CLAIM_LIFE, TIMEOUT_SECONDS
from contextopt.locks import Lock
from contextopt.people.models import StoredResponse, Team
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.inputs import RecordPatch
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import update_record
from tests.concurrency import before_statement, beside
from tests.factories import make_assembly, make_key, make_record, make_space, make_team


def test_stored_answers_are_dropped_after_a_day(team: Team) -> None:
    key, _ = make_key(team)
    for name, age in (("old", 25), ("young", 23)):
        stored = StoredResponse.objects.create(
            api_key=key, idempotency_key=name, request_hash="x", status=201
        )
        StoredResponse.objects.filter(pk=stored.pk).update(created_at=timezone.now() - timedelta(hours=age))
    tasks.sweep()
    assert StoredResponse.objects.get().idempotency_key == "young"


def test_an_assembly_stored_during_a_purge_is_cleaned_by_the_sweep(space: Space) -> None:
    record = make_record(space, title="Secret plan")
    stored = make_assembly(space)
    text = stored.text
    purge_record(record=record)
    # A request that had read the record before the purge would store this after it.
    AssemblyPayload.objects.filter(pk=stored.id).update(text=text, purged_at=None)
    tasks.sweep()
    assert "Secret" not in AssemblyPayload.objects.get(pk=stored.id).text


def test_summaries_follow_the_encoding_and_resume(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [make_record(space, title=f"Record {i}") for i in range(5)]
    ContextConfig.objects.publish(space=space, created_by="test", encoding="heuristic")
    monkeypatch.setattr(tasks, "RECOUNT_BATCH", 2)
    assert tasks.recount_batch(space.pk)
    space.refresh_from_db()
    assert space.recount_from == records[1].pk
    tasks.recount_summaries(space.pk)
    space.refresh_from_db()
    assert space.recount_from is None
    assert set(Record.objects.values_list("summary_encoding", flat=True)) == {"heuristic"}
    assert Record.objects.first().summary_tokens == -(-len(records[0].summary) // 4)


@pytest.mark.django_db(transaction=True)
def test_a_record_that_is_edited_while_summaries_are_recounted() -> None:
    space = make_space(make_team())
    record = make_record(space, title="Old title")
    ContextConfig.objects.publish(space=space, created_by="test", encoding="heuristic")
    edits: list[Future[Record]] = []

    def edit_first(number: int) -> None:
        if number == 1:
            edit = partial(update_record, record=record, changes=RecordPatch(title="New title"), actor="test")
            edits.append(beside(edit))
            wait(edits, timeout=0.5)

    with before_statement("UPDATE contextopt_record SET summary", edit_first):
        tasks.recount_summaries(space.pk)
    edits[0].result(timeout=10)
    record.refresh_from_db()
    assert "New title" in record.summary


def test_an_assembly_counts_for_itself_until_summaries_are_recounted(space: Space) -> None:
    record = make_record(space)
    ContextConfig.objects.publish(space=space, created_by="test", encoding="heuristic")
    entry = make_assembly(space).ledger[0]
    assert entry.tokens == -(-len(record.summary) // 4)


def test_a_lock_is_free_again_after_the_job(db: None) -> None:
    with tasks.only_here(Lock.SWEEP) as first:
        assert first
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
        assert cursor.fetchone() == (0,)


def test_a_job_ends_before_it_is_killed_and_a_killed_one_before_it_runs_again() -> None:
    assert tasks.SENDING_SECONDS + CONNECT_SECONDS + TIMEOUT_SECONDS < HARD_TIME_LIMIT_SECONDS
    assert CONNECT_SECONDS + WRITE_SECONDS < HARD_TIME_LIMIT_SECONDS
    assert min(VISIBILITY_TIMEOUT_SECONDS, CLAIM_LIFE.total_seconds()) > HARD_TIME_LIMIT_SECONDS
