"""Advisory locks: all names are in one register, and no other module takes one."""

import re
from itertools import combinations
from pathlib import Path

import psycopg
import pytest
from django.db import transaction

from config.embedded.place import BASE_DIR
from contextopt.locks import Lock, only_here, take_for_session, take_turn
from contextopt.sql import own_conninfo

PACKAGES = ("benchmarks", "config", "contextopt", "dashboard", "memory")


def test_all_locks_differ() -> None:
    numbers = {lock.number(*keys) for lock in Lock for keys in ((), (1,), (2,), (1, 2), (12,), ("1 2",))}
    assert len(numbers) == 6 * len(Lock)
    assert all(-(2**63) <= number < 2**63 for number in numbers)
    assert not any(one.number("b") == other.number("b") for one, other in combinations(Lock, 2))


def test_every_advisory_lock_is_in_the_register() -> None:
    takers = {
        str(path.relative_to(BASE_DIR))
        for package in PACKAGES
        for path in Path(BASE_DIR, package).rglob("*.py")
        if re.search(r"pg_\w*advisory", path.read_text())
    }
    assert takers == {"contextopt/locks.py"}


@pytest.mark.django_db
def test_one_lock_keeps_nobody_from_another() -> None:
    with psycopg.connect(own_conninfo(), autocommit=True) as other, transaction.atomic():
        assert take_for_session(other, Lock.EMBED)
        assert take_for_session(other, Lock.RECOUNT, 1)
        with only_here(Lock.EMBED) as is_ours:
            assert not is_ours
        assert not take_turn(Lock.RECOUNT, 1)
        assert take_turn(Lock.RECOUNT, 2)
        assert take_turn(Lock.ROLLUPS)
