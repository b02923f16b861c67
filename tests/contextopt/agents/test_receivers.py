"""The files that receivers were sent, stored once a team, and forgotten in time."""

import threading
from datetime import timedelta

import pytest
import time_machine
from django.db import transaction
from django.utils import timezone

from contextopt import tasks
from contextopt.agents.models import FILES_LIFE, Attempt, Blob, ReceiverFile, Task
from contextopt.agents.receivers import drop_orphan_blobs, forget_expired_files, load_receiver_files
from contextopt.engine.agents.deltas import SentFile
from contextopt.people.models import Team
from tests.concurrency import at_once
from tests.factories import make_attempt, make_task, make_team

BEFORE = {"cart.py": "price = 7\n", "web.py": "import cart\n" * 40}
AFTER = {**BEFORE, "cart.py": "price = 8\n"}


def memory(task: Task) -> dict[str, SentFile]:
    return load_receiver_files(task, "agent")


def test_a_content_is_stored_once_a_team(team: Team, other_team: Team) -> None:
    first = make_task(team, files={"a.py": "same\n", "b.py": "same\n"})
    make_task(team, files={"c.py": "same\n"})
    make_task(other_team, files={"a.py": "same\n"})
    assert Blob.objects.filter(team=team).count() == 1
    assert Blob.objects.count() == 2
    assert memory(first) == {"a.py": SentFile("same\n"), "b.py": SentFile("same\n")}


@pytest.mark.parametrize("content", ["", "a\r\nb\r\n", "no end", "form\x0cfeed\u2028\n", "\x00", "ø😀"])
def test_contents_come_back_as_they_were(team: Team, content: str) -> None:
    assert memory(make_task(team, files={"a": content})) == {"a": SentFile(content)}


def test_files_are_forgotten_in_time(team: Team) -> None:
    task, young = make_task(team, files=BEFORE), make_task(team, files={"web.py": BEFORE["web.py"]})
    with time_machine.travel(timezone.now() + FILES_LIFE - timedelta(hours=2)):
        make_attempt(young, files={"web.py": BEFORE["web.py"]})
    with time_machine.travel(timezone.now() + FILES_LIFE + timedelta(hours=2)):
        assert (forget_expired_files(), forget_expired_files()) == (1, 0)
        assert drop_orphan_blobs() == 1
        tasks.drop_contents()
    task.refresh_from_db()
    assert (memory(task), task.expires_at) == ({}, None)
    assert set(memory(young)) == {"web.py"}
    assert Blob.objects.get().size == len(BEFORE["web.py"])


def test_a_young_orphan_stays(team: Team) -> None:
    make_task(team, files=BEFORE)
    ReceiverFile.objects.all().delete()
    assert drop_orphan_blobs() == 0


def test_a_team_goes_with_all_of_it(team: Team, other_team: Team) -> None:
    for each in (team, other_team):
        make_attempt(make_task(each, files=BEFORE), files=AFTER)
    team.delete()
    for model in (Task, Attempt):
        assert model.objects.count() == 1
    assert not Blob.objects.exclude(team=other_team).exists()
    assert ReceiverFile.objects.filter(task__team=other_team).count() == ReceiverFile.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_the_sweep_leaves_a_content_that_is_taken_up_again() -> None:
    team = make_team()
    make_task(team, files=BEFORE)
    ReceiverFile.objects.all().delete()
    Blob.objects.update(used_at=timezone.now() - timedelta(days=1))
    taken, swept = threading.Event(), threading.Event()

    def take_up() -> None:
        with transaction.atomic():
            make_task(team, files=BEFORE)
            taken.set()
            swept.wait(timeout=1)

    def sweep() -> int:
        taken.wait(timeout=10)
        try:
            return drop_orphan_blobs()
        finally:
            swept.set()

    assert at_once(take_up, sweep)[1] == 0
    assert Blob.objects.count() == 2
