"""All kinds of callers and all jobs at once, on spaces that come and go: no 5xx, and all counts are right."""

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import connection

from contextopt import tasks
from contextopt.search.models import EmbeddingTodo
from contextopt.search.vectors.fill import Work, work_through
from contextopt.spaces.models import Record, RecordEmbedding, SpaceCounts
from dashboard.rollups.fold import keep_rollups
from memory.tasks import fill_review_queues, learn_from_completions
from tests import factories
from tests.concurrency import at_once
from tests.contextopt.api.conftest import Caller, make_caller

ROUNDS = 12
SLUGS = ("one", "two")
WORDS = "queue lock deploy price cart round login page worker cache retry token".split()  # noqa: SIM905
PATIENCE_SECONDS = 120


class Visitor:
    """A caller with its own random stream that counts the statuses of its answers."""

    def __init__(self, caller: Caller, seed: int) -> None:
        self.caller = caller
        self.rng = random.Random(seed)
        self.statuses: Counter[int] = Counter()

    def ask(self, method: str, path: str, data: object = None) -> Any:
        call = getattr(self.caller, method)
        answer = call(path) if data is None else call(path, data)
        self.statuses[answer.status_code] += 1
        return answer.json() if answer.status_code < 300 and answer.content else {}

    def text(self, words: int) -> str:
        return " ".join(self.rng.choices(WORDS, k=words))

    @property
    def slug(self) -> str:
        return self.rng.choice(SLUGS)

    def row(self) -> dict[str, str]:
        return {"title": self.text(3), "notes": self.text(12), "source": "s", "external_id": self.text(1)}

    def any_record(self) -> int:
        items = self.ask("get", f"/spaces/{self.slug}/records").get("items") or [{"id": 1}]
        found: int = self.rng.choice(items)["id"]
        return found


def make_and_delete(visitor: Visitor) -> None:
    slug = visitor.slug
    if visitor.rng.random() < 0.4:
        visitor.ask("delete", f"/spaces/{slug}")
    visitor.ask("post", "/spaces", {"slug": slug, "name": slug})


def write(visitor: Visitor) -> None:
    visitor.ask(
        "post", f"/spaces/{visitor.slug}/records/bulk", {"records": [visitor.row() for _ in range(8)]}
    )
    visitor.ask("post", f"/spaces/{visitor.slug}/records", {"title": visitor.text(4)})


def change(visitor: Visitor) -> None:
    visitor.ask("patch", f"/records/{visitor.any_record()}", {"notes": visitor.text(9)})
    visitor.ask("delete", f"/records/{visitor.any_record()}")
    visitor.ask("post", f"/records/{visitor.any_record()}/restore", {})
    visitor.ask("post", f"/records/{visitor.any_record()}/purge", {})


def configure(visitor: Visitor) -> None:
    encoding = visitor.rng.choice(["cl100k_base", "o200k_base"])
    visitor.ask("post", f"/spaces/{visitor.slug}/configs", {"encoding": encoding})


def assemble(visitor: Visitor) -> None:
    question = {"space": visitor.slug, "stage": 5, "query": visitor.text(3)}
    made = visitor.ask("post", "/assemblies", question)
    visitor.ask("post", "/search", {"space": visitor.slug, "query": visitor.text(2)})
    if made:
        visitor.ask(
            "post", "/feedback", {"assembly_id": made["id"], "rating": "down", "rater": visitor.text(1)}
        )


def work(_: Visitor) -> None:
    tasks.embed()
    tasks.sweep()
    tasks.count_words()
    keep_rollups()
    fill_review_queues()
    learn_from_completions()


def keep_on(act: Callable[[Visitor], None], visitor: Visitor) -> None:
    for _ in range(ROUNDS):
        act(visitor)


@pytest.mark.django_db(transaction=True)
def test_everything_at_once() -> None:
    team = factories.make_team()
    for slug in SLUGS:
        factories.make_space(team, slug)
    caller = make_caller(team)
    acts = (make_and_delete, write, write, change, configure, assemble, assemble, work)
    visitors = [Visitor(caller, seed) for seed in range(len(acts))]
    pairs = zip(acts, visitors, strict=True)
    at_once(*[partial(keep_on, act, visitor) for act, visitor in pairs], seconds=PATIENCE_SECONDS)
    statuses = sum((visitor.statuses for visitor in visitors), Counter[int]())
    assert {status for status in statuses if status >= 500} == set()
    # Enough requests succeeded: the callers didn't meet only refusals.
    assert sum(statuses[status] for status in (200, 201, 204)) > 2 * ROUNDS
    check_what_is_left()


def check_what_is_left() -> None:
    """Check that counters, vectors and revisions match the records that exist."""
    assert work_through(seconds=PATIENCE_SECONDS, index_seconds=0, work=Work())
    assert not EmbeddingTodo.objects.exists()
    for counts in SpaceCounts.objects.all():
        own = Record.objects.filter(space=counts.space_id)
        live = own.filter(deleted_at=None)
        assert counts.live == live.filter(pinned=False).count()
        assert counts.deleted == own.exclude(deleted_at=None).count()
    live_ids = set(
        Record.objects.filter(deleted_at=None).exclude(title="", notes="").values_list("pk", flat=True)
    )
    assert set(RecordEmbedding.objects.values_list("record", flat=True)) == live_ids
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM (SELECT record_id FROM contextopt_recordrevision"
            " GROUP BY record_id HAVING max(number) <> count(*)) AS gaps"
        )
        assert cursor.fetchone() == (0,)
