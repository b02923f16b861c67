"""Simultaneous reviewers, each a process with real transactions. One of them is killed."""

import os
import subprocess
import sys
from collections import Counter
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from config.settings import BASE_DIR
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from memory.review.inputs import RulesPatch, VerdictIn
from memory.review.models import ItemState, Origin, ReviewItem, ReviewSlot
from memory.review.queue import add_items, rules_of, set_rules
from memory.review.reservations import RESERVED_FOR, give_verdict, reserve_next
from tests import factories

ITEMS = 200
LIMIT_SECONDS = 60
# Reserves and judges items, and prints them, until none is left for it.
REVIEWER = """
import sys
import django
from django.conf import settings
name, team_id, reviewer = sys.argv[1:]
settings.DATABASES["default"]["NAME"] = name
django.setup()
from contextopt.people.models import Team
from memory.review.reservations import give_verdict, reserve_next
from memory.review.inputs import VerdictIn
team = Team.objects.get(pk=team_id)
while slot := reserve_next(team=team, reviewer=reviewer):
    print("took", slot.pk, flush=True)
    given = give_verdict(item=slot.item, reviewer=reviewer, data=VerdictIn(verdict="model"))
    print("judged", given.pk, flush=True)
"""


@pytest.fixture
def queue(transactional_db: None) -> Team:
    """A team with two hundred items that need two verdicts each."""
    team = factories.make_team()
    space: Space = factories.make_space(team)
    set_rules(team=team, changes=RulesPatch(verdicts_wanted=2), actor="test")
    rows = [factories.make_assembly(space).id for _ in range(ITEMS)]
    items = [ReviewItem(team=team, assembly_id=row, space=space, stage=4) for row in rows]
    assert add_items(items, Origin.SAMPLE, rules_of(team.pk)) == ITEMS
    return team


def start(team: Team, reviewer: str) -> "subprocess.Popen[str]":
    name = connection.settings_dict["NAME"]
    assert name != settings.DATABASE_PARAMS.get("dbname")
    return subprocess.Popen(
        [sys.executable, "-c", REVIEWER, str(name), str(team.pk), reviewer],
        cwd=BASE_DIR,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", "LOG_LEVEL": "ERROR"},
        stdout=subprocess.PIPE,
        text=True,
    )


def judged_by(lines: list[str]) -> list[int]:
    return [int(line.split()[1]) for line in lines if line.startswith("judged")]


@pytest.mark.django_db(transaction=True)
def test_two_reviewers_and_one_who_is_killed(queue: Team) -> None:
    with start(queue, "user:ann") as ann, start(queue, "user:ben") as ben:
        try:
            assert ann.stdout is not None
            before_death = [ann.stdout.readline() for _ in range(100)]
            ann.kill()
            before_death += ann.stdout.read().splitlines()
            bens = ben.communicate(timeout=LIMIT_SECONDS)[0].splitlines()
        finally:
            ann.kill()
            ben.kill()
    assert ben.returncode == 0

    # Ben judged every item once. Every verdict that Ann reported is stored, and nobody judged her slot again.
    slots = ReviewSlot.objects.filter(item__team=queue)
    assert len(judged_by(bens)) == slots.filter(reviewer="user:ben").exclude(verdict="").count() == ITEMS
    told, stored = judged_by(before_death), slots.filter(reviewer="user:ann").exclude(verdict="")
    assert set(told) <= set(stored.values_list("pk", flat=True))
    assert set(told).isdisjoint(judged_by(bens))
    assert len(told) >= 40

    # Others get the slot that she had reserved once the reservation has run out.
    slots.filter(reviewer="user:ann", verdict="").update(reserved_until=timezone.now() - RESERVED_FOR)
    while slot := reserve_next(team=queue, reviewer="user:cai"):
        give_verdict(item=slot.item, reviewer="user:cai", data=VerdictIn(verdict="other"))
    assert slots.filter(verdict="").count() == 0
    items = ReviewItem.objects.filter(team=queue)
    assert set(items.values_list("state", "verdicts")) == {(ItemState.DONE, 2)}
    given = Counter(slots.values_list("item_id", "reviewer"))
    assert len(given) == 2 * ITEMS
    assert set(given.values()) == {1}


def test_a_reservation_lasts_ten_minutes() -> None:
    assert timedelta(minutes=10) == RESERVED_FOR
