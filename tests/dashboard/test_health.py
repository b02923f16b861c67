import shutil
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.conf import settings as django_settings
from django.db import connection
from django.test import Client
from django.utils import timezone

from contextopt.people.models import User
from contextopt.spaces.models import Space
from dashboard.beats import Duty, WorkerBeat, note_beats
from dashboard.health import HealthJson, has_disk, health_signs, is_ok, read_health
from dashboard.rollups.models import UnfoldedAssembly
from dashboard.tasks import fold_assemblies
from tests import factories

pytestmark = pytest.mark.django_db
OTHER_DISKS = ("/dev/shm", "/dev", "/proc")
MOMENT = datetime(2026, 6, 15, 12, tzinfo=UTC)


def health(**changes: object) -> HealthJson:
    figures = {
        "worker_alive": True, "worker_seen_at": MOMENT, "queue_length": 0, "chat_worker_alive": True,
        "chat_worker_seen_at": MOMENT, "chat_queue_length": 0, "schedule_alive": True,
        "schedule_seen_at": MOMENT, "embedding_model": "wordllama",
        "embedding_building": "", "embedding_backlog": 0, "rollups_behind": 0, "rollups_behind_seconds": 0.0,
        "database_bytes": 1, "disk_free_bytes": 50, "disk_total_bytes": 100,
    }  # fmt: skip
    return HealthJson(**{"ok": True, **figures, **changes})


def test_a_worker_lives_until_it_is_silent_for_fifteen_seconds() -> None:
    assert not read_health()["worker_alive"]
    with time_machine.travel(MOMENT, tick=False) as traveller:
        note_beats(Duty.JOBS)
        note_beats(Duty.JOBS)
        traveller.shift(timedelta(seconds=14))
        assert read_health()["worker_alive"]
        traveller.shift(timedelta(seconds=1))
        assert not read_health()["worker_alive"]
    assert WorkerBeat.objects.count() == 1


def test_each_process_lives_for_itself() -> None:
    def alive() -> tuple[bool, bool, bool]:
        found = read_health()
        return found["worker_alive"], found["chat_worker_alive"], found["schedule_alive"]

    note_beats(Duty.JOBS)
    assert alive() == (True, False, False)
    with time_machine.travel(timezone.now() + timedelta(seconds=16), tick=False):
        note_beats(Duty.CHAT, Duty.SCHEDULE)
        assert alive() == (False, True, True)


def test_rollups_are_behind_until_they_are_folded(space: Space) -> None:
    factories.make_assembly(space)
    before = read_health()
    assert before["rollups_behind"] == UnfoldedAssembly.objects.count() == 1
    assert before["rollups_behind_seconds"] > 0
    fold_assemblies()
    assert (read_health()["rollups_behind"], read_health()["rollups_behind_seconds"]) == (0, 0.0)


def test_it_costs_the_same_few_queries(django_assert_num_queries, space: Space) -> None:
    factories.make_assembly(space)
    # Beats, models, fills, backlog, unfolded the first of them, size.
    with django_assert_num_queries(7):
        read_health()


@pytest.mark.parametrize(
    "changes",
    [
        {"worker_alive": False},
        {"queue_length": None},
        {"queue_length": 5_000},
        {"chat_worker_alive": False},
        {"chat_queue_length": None},
        {"schedule_alive": False},
        {"chat_queue_length": 5_000},
        {"rollups_behind": 9, "rollups_behind_seconds": 900.0},
        {"disk_free_bytes": 1},
    ],
)
def test_what_is_not_good_says_what_to_do(changes: dict[str, object]) -> None:
    assert is_ok(health())
    found = health(**changes)
    assert not is_ok(found)
    [bad] = [sign for sign in health_signs(found) if not sign.is_good]
    assert bad.remedy


@pytest.mark.skipif(bool(django_settings.DATABASE_URL), reason="the server is not the embedded one")
def test_the_disk_is_the_one_of_the_databases_folder(settings: Any) -> None:
    # The server itself names its data directory; the checkout may be on another disk.
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('data_directory')")
        total = shutil.disk_usage(cursor.fetchone()[0]).total
    settings.BASE_DIR = next(path for path in OTHER_DISKS if shutil.disk_usage(path).total != total)
    found = read_health()
    assert found["disk_total_bytes"] == total
    assert found["disk_free_bytes"] is not None
    assert 0 < found["disk_free_bytes"] < total


def test_the_disk_of_a_server_of_its_own_is_unknown(settings: Any) -> None:
    settings.DATABASE_URL = "postgres://db.example/contextopt"
    found = read_health()
    assert (found["disk_free_bytes"], found["disk_total_bytes"], has_disk(found)) == (None, None, True)
    [sign] = [sign for sign in health_signs(found) if sign.label == "Database disk"]
    assert (sign.value, sign.is_good) == ("unknown", True)


def test_the_admins_first_page_shows_it(client: Client, owner: User) -> None:
    owner.is_staff = owner.is_superuser = True
    owner.save()
    client.force_login(owner)
    html = client.get("/admin/").content.decode()
    for words in (
        "Health",
        "not running",
        "Jobs waiting",
        "Chat worker",
        "Chat jobs waiting",
        "Schedule",
        "Waiting to be embedded",
        "Not in rollups yet",
        "Database disk free",
    ):
        assert words in html
