"""Deleting beside people and jobs that write: no deadlock, no rows left behind, a 404 for late callers."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, OperationalError, connection, transaction
from django.test import Client
from psycopg.errors import ForeignKeyViolation

from contextopt import locks
from contextopt.agents.inputs import TaskIn
from contextopt.agents.models import Task
from contextopt.agents.tasks import create_task
from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.models import Assembly
from contextopt.chat.models import Conversation
from contextopt.errors import Conflict, NotFound
from contextopt.locks import hold_space, is_about_deleted, retry_deadlocks, unless_deleted
from contextopt.management.base import ReportingCommand
from contextopt.people.members import delete_team
from contextopt.people.models import Team, User
from contextopt.repositories import graphs
from contextopt.repositories.indexing import delete_repository, update_posted
from contextopt.repositories.inputs import RelevantIn
from contextopt.repositories.models import Repository
from contextopt.repositories.relevantfiles import rank_repository
from contextopt.search.models import EmbeddingTodo
from contextopt.search.vectors.fill import Work, work_through
from contextopt.spaces.configs import publish_config
from contextopt.spaces.inputs import ConfigIn, RecordIn, RecordPatch
from contextopt.spaces.models import Record, RecordEmbedding, Space
from contextopt.spaces.records import create_record, lock_space, update_record, upsert_records
from contextopt.spaces.spaces import delete_space
from dashboard.rollups.fold import rebuild_day
from memory.tasks import fill_review_queues
from tests import factories
from tests.concurrency import PATIENCE_SECONDS, before_statement, beside, somebody_waits, wait_until


@contextmanager
def deleting(act: Callable[[], object]) -> Iterator[Future[Any]]:
    """Run `act` in another connection, and continue as soon as it waits for this transaction."""
    other = beside(act)
    wait_until(somebody_waits)
    yield other


@pytest.fixture
def space(transactional_db: None) -> Space:
    return factories.make_space(factories.make_team())


def row(title: str = "Queue stuck") -> RecordIn:
    return RecordIn(title=title, notes="An old lock.", source="test", external_id=title)


def write_records(space: Space) -> None:
    upsert_records(space=space, rows=[row(), row("Price wrong")], actor="test")


def publish(space: Space) -> None:
    publish_config(space=space, data=ConfigIn(window_days=7), created_by="test")


def assemble(space: Space) -> None:
    request = AssemblyIn(space=space.slug)
    assemble_space(team_id=space.team_id, request=request, actor="test")


@pytest.mark.parametrize("write", [write_records, publish, assemble])
@pytest.mark.parametrize("who", ["space", "team"])
def test_who_writes_first_ends_and_who_deletes_waits(
    space: Space, write: Callable[[Space], None], who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "DEADLOCK_TRIES", 1)
    delete = partial(delete_space, space=space) if who == "space" else partial(delete_team, team=space.team)
    with transaction.atomic():
        write(space)
        with deleting(delete) as other:
            write(space)
    other.result(PATIENCE_SECONDS)
    assert not Space.objects.exists()
    assert not Record.objects.exists()
    assert not Assembly.objects.exists()


@pytest.mark.parametrize("write", [write_records, publish, assemble, lambda space: hold_space(space.pk)])
def test_who_writes_second_finds_it_gone(space: Space, write: Callable[[Space], None]) -> None:
    def write_then() -> None:
        with pytest.raises((NotFound, Space.DoesNotExist)):
            write(space)

    with transaction.atomic():
        delete_space(space=space)
        with deleting(write_then) as other:
            pass
    other.result(PATIENCE_SECONDS)


def delete_at_once(space: Space, *, at: int = 1) -> Callable[[int], object]:
    """Return an action that deletes the space from another connection before statement number `at`."""

    def act(number: int) -> None:
        if number == at:
            beside(partial(delete_space, space=space)).result(PATIENCE_SECONDS)

    return act


def test_a_space_that_is_deleted_while_it_is_assembled_is_not_found(space: Space) -> None:
    _, secret = factories.make_key(space.team)
    with before_statement("INSERT INTO contextopt_assembly", delete_at_once(space)):
        answer = Client().post(
            "/api/v1/assemblies",
            {"space": space.slug},
            content_type="application/json",
            headers={"Authorization": f"Bearer {secret}"},
        )
    assert answer.status_code == 404
    assert answer.json()["type"].endswith("not-found")
    assert not Assembly.objects.exists()


def test_an_import_whose_space_is_deleted_says_so(space: Space, tmp_path: Path) -> None:
    """The file is longer than a batch; the space is deleted between two batches."""
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(f'{{"title": "Row {number}"}}\n' for number in range(2_500)))
    with (
        before_statement("FOR NO KEY UPDATE OF c", delete_at_once(space, at=2)),
        pytest.raises(CommandError, match="'support' was deleted in the meantime") as refused,
    ):
        call_command("import_records", space.slug, str(file), team=space.team.slug)
    assert refused.value.returncode == 2


@pytest.mark.parametrize("error", [Record.DoesNotExist(), IntegrityError()])
def test_a_command_that_finds_it_deleted(space: Space, error: Exception) -> None:
    class Late(ReportingCommand):
        def run(self, options: Any) -> int:
            error.__cause__ = ForeignKeyViolation()
            raise error

    with pytest.raises(CommandError, match="deleted in the meantime"):
        call_command(Late())


def test_a_page_whose_record_is_deleted_meanwhile_says_so(space: Space, client: Client) -> None:
    user: User = factories.make_user("olga", space.team)
    record = factories.make_record(space)
    client.force_login(user)
    with before_statement("FOR NO KEY UPDATE OF c", delete_at_once(space)):
        page = client.post(f"/spaces/{space.slug}/records/{record.pk}/delete")
    assert page.status_code == 404
    assert "The space &#x27;support&#x27; was deleted in the meantime. Nothing was changed." in page.text


def test_two_who_delete_the_same(space: Space) -> None:
    with transaction.atomic():
        delete_space(space=space, actor="user:ann")
        with deleting(partial(delete_space, space=space, actor="user:ben")) as other:
            pass
    other.result(PATIENCE_SECONDS)
    told = space.team.audit_events.filter(action="space.deleted").values_list("actor", flat=True)
    assert list(told) == ["user:ann"]


def test_what_ended_a_deadlock_is_tried_again(space: Space) -> None:
    """Two transactions take two rows in opposite orders. One is aborted and retried, and both finish."""
    first, second = (factories.make_space(space.team, slug) for slug in ("first", "second"))
    together = threading.Barrier(2)
    tries: list[str] = []

    @retry_deadlocks
    def rename(one: Space, other: Space, name: str) -> None:
        tries.append(name)
        Space.objects.filter(pk=one.pk).update(name=name)
        if len(tries) <= 2:
            together.wait(PATIENCE_SECONDS)
        Space.objects.filter(pk=other.pk).update(name=name)

    ann = beside(partial(rename, first, second, "ann"))
    rename(second, first, "ben")
    ann.result(PATIENCE_SECONDS)
    names = set(Space.objects.filter(pk__in=[first.pk, second.pk]).values_list("name", flat=True))
    assert len(names) == 1
    assert len(tries) == 3


def test_no_other_failure_is_tried_again(space: Space) -> None:
    tries = []

    @retry_deadlocks
    def fail() -> None:
        tries.append(1)
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 10")
            cursor.execute("SELECT pg_sleep(5)")

    with pytest.raises(OperationalError):
        fail()
    assert len(tries) == 1


def test_which_failures_tell_of_a_deletion(space: Space) -> None:
    def insert(**changes: Any) -> None:
        with transaction.atomic():
            Conversation.objects.create(**{"team": space.team, "space_id": space.pk, **changes})

    with pytest.raises(IntegrityError) as dangling:
        insert(space_id=space.pk + 1_000)
    assert is_about_deleted(dangling.value)
    with unless_deleted():
        insert(space_id=space.pk + 1_000)
    with unless_deleted():
        Team.objects.get(pk=0)
    with pytest.raises(IntegrityError) as twice:
        Space.objects.create(team=space.team, slug=space.slug)
    assert not is_about_deleted(twice.value)
    with pytest.raises(IntegrityError), unless_deleted():
        Space.objects.create(team=space.team, slug=space.slug)


class TestVectors:
    """The job skips rows that somebody is deleting, and tries them again later."""

    def test_a_deletion_that_goes_on_does_not_stop_the_others(self, space: Space) -> None:
        kept = factories.make_record(factories.make_space(space.team, "kept"))
        going = factories.make_record(space)
        with transaction.atomic():
            delete_space(space=space)
            assert beside(self._embed).result(PATIENCE_SECONDS).embedded == 1
            assert beside(self._vectors).result(PATIENCE_SECONDS) == [kept.pk]
            assert beside(self._left).result(PATIENCE_SECONDS) == [going.pk]
        assert not self._embed().embedded
        assert self._vectors() == [kept.pk]
        assert not EmbeddingTodo.objects.exists()

    def test_what_stays_after_all_is_embedded_then(self, space: Space) -> None:
        record = factories.make_record(space)
        with transaction.atomic():
            delete_space(space=space)
            assert not beside(self._embed).result(PATIENCE_SECONDS).embedded
            transaction.set_rollback(True)
        assert self._embed().embedded == 1
        assert self._vectors() == [record.pk]

    def test_nor_are_the_dates_of_what_is_being_deleted_touched(self, space: Space) -> None:
        record = factories.make_record(space)
        self._embed()
        moved = factories.NOW.replace(year=2025)
        update_record(record=record, changes=RecordPatch(date=moved), actor="test")
        with transaction.atomic():
            delete_space(space=space)
            beside(self._embed).result(PATIENCE_SECONDS)
            transaction.set_rollback(True)
        assert self._dates() == [factories.NOW]
        self._embed()
        assert self._dates() == [moved]

    def test_who_deletes_waits_for_a_batch_that_is_being_stored(self, space: Space) -> None:
        factories.make_record(space)
        with transaction.atomic():
            self._embed()
            with deleting(partial(delete_space, space=space)) as other:
                pass
        other.result(PATIENCE_SECONDS)
        assert not RecordEmbedding.objects.exists()

    @staticmethod
    def _embed() -> Work:
        work = Work()
        work_through(seconds=PATIENCE_SECONDS, index_seconds=0, work=work)
        return work

    @staticmethod
    def _vectors() -> list[int]:
        return list(RecordEmbedding.objects.order_by("record").values_list("record", flat=True))

    @staticmethod
    def _dates() -> list[Any]:
        return list(RecordEmbedding.objects.values_list("date", flat=True))

    @staticmethod
    def _left() -> list[int]:
        return list(EmbeddingTodo.objects.exclude(model=None).values_list("row_id", flat=True))


# Beginning of the query for the contents of a repository's files.
CONTENTS = 'SELECT "contextopt_codeblob"."id"'


class TestRepositories:
    """A repository is read in several queries; a change between two of them is noticed."""

    @pytest.fixture
    def repository(self, space: Space) -> Repository:
        return factories.make_repository(space.team, files={"cart.py": "price = 1\n", "shop.py": "x = 2\n"})

    @pytest.fixture
    def meanwhile(self) -> Iterator[Callable[[Callable[[int], object]], None]]:
        """Run an action between reading the list of files and their contents, at each reading."""
        with ExitStack() as stack:

            def arrange(act: Callable[[int], object]) -> None:
                graphs._kept.clear()
                beside_it = partial(before_statement, CONTENTS)
                stack.enter_context(
                    beside_it(lambda look: beside(partial(act, look)).result(PATIENCE_SECONDS))
                )

            yield arrange

    def rank(self, repository: Repository) -> str:
        return rank_repository(repository, RelevantIn(task="round the price")).packed.text

    def test_it_is_read_again_after_a_change(self, repository: Repository, meanwhile: Any) -> None:
        def change(look: int) -> None:
            if look == 1:
                found = Repository.objects.get(pk=repository.pk)
                update_posted(repository=found, files={"cart.py": "price = round(1)\n"}, deleted=[])

        meanwhile(change)
        assert "price = round(1)" in self.rank(repository)

    def test_one_that_keeps_changing_is_a_conflict(self, repository: Repository, meanwhile: Any) -> None:
        def change(look: int) -> None:
            found = Repository.objects.get(pk=repository.pk)
            update_posted(repository=found, files={"cart.py": f"price = {look + 1}\n"}, deleted=[])

        meanwhile(change)
        with pytest.raises(Conflict, match="being changed"):
            self.rank(repository)

    def test_one_that_is_deleted_is_not_there(self, repository: Repository, meanwhile: Any) -> None:
        meanwhile(lambda _: delete_repository(repository=repository))
        with pytest.raises(Repository.DoesNotExist):
            self.rank(repository)


def test_jobs_pass_over_a_team_that_is_gone(space: Space) -> None:
    team = Team.objects.get(pk=space.team_id)
    create_task(team=team, data=TaskIn(description="Fix it."), actor="test")
    delete_team(team=space.team)
    assert not Task.objects.exists()
    with unless_deleted():
        rebuild_day(team, factories.NOW)
    fill_review_queues()


def test_a_record_of_a_space_that_is_gone(space: Space) -> None:
    record = create_record(space=space, data=row(), actor="test")
    delete_space(space=space)
    with pytest.raises(NotFound):
        create_record(space=space, data=row(), actor="test")
    with pytest.raises(Space.DoesNotExist):
        update_record(record=record, changes=RecordPatch(title="Other"), actor="test")
    with transaction.atomic(), pytest.raises(NotFound):
        lock_space(space)
