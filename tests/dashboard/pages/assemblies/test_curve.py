"""The curve of an adaptive budget in the Inspector."""

import re
from typing import Any

from django.test import Client
from django.urls import reverse

from contextopt.assemblies.models import EntryJson
from contextopt.search import registry
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.spaces.inputs import RecordIn
from contextopt.spaces.models import Space
from contextopt.spaces.records import upsert_records
from dashboard.pages.assemblies.curve import HEIGHT, draw_curve
from tests.factories import NOW, make_assembly, make_record

ADAPTIVE = {"budget_mode": "adaptive"}
WEIGHTS = {"recency": 0.7, "semantic": 9.0}


def entry(number: int, semantic: float, **changes: Any) -> EntryJson:
    return {
        "id": number, "source": "", "external_id": "", "score": 0.0, "tokens": 9, "pinned": False,
        "kept": True, "reason": "", "duplicate_of": None,
        "parts": {"recency": 10.0, "semantic": semantic},
    } | changes  # type: ignore[return-value]  # fmt: skip


def test_kept_and_dropped_records_have_their_relevance_as_height() -> None:
    entries = [entry(1, 8), entry(2, 4, kept=False, reason="low_relevance")]
    curve = draw_curve(entries, ADAPTIVE, WEIGHTS)
    assert curve is not None
    assert [(bar.height, bar.y, bar.is_kept) for bar in curve.bars] == [
        (HEIGHT, 0, True), (HEIGHT // 2, HEIGHT // 2, False)
    ]  # fmt: skip
    assert curve.words == (
        "1 record kept. The next record's relevance is 36 (the best one's is 72), too low to be worth its "
        "tokens."
    )


def test_nothing_entered_and_everything_entered() -> None:
    nothing = draw_curve([entry(1, 3, kept=False, reason="low_relevance")], ADAPTIVE, WEIGHTS)
    assert nothing is not None
    assert nothing.words == "No record is worth its tokens. The best has a relevance of 27."
    everything = draw_curve([entry(1, 3)], ADAPTIVE, WEIGHTS)
    assert everything is not None
    assert everything.words == "Every record that fits is worth its tokens."


def test_records_that_stand_alone_are_counted() -> None:
    """They rank among the kept ones. The ledger names what was kept first."""
    entries = [
        entry(1, 8, score=80.0),
        entry(2, 6, score=60.0),
        entry(3, 7, score=70.0, kept=False, reason="low_relevance"),
        entry(4, 7, score=70.0, kept=False, reason="duplicate_of", duplicate_of=1),
    ]
    curve = draw_curve(entries, ADAPTIVE, WEIGHTS)
    assert curve is not None
    assert [bar.is_kept for bar in curve.bars] == [True, False, True]
    assert curve.words == (
        "2 records kept. 1 more that rank among them stand alone in the conversation, so they are not worth "
        "their tokens."
    )


def test_other_contexts_have_no_curve() -> None:
    assert draw_curve([entry(1, 3)], {"budget_mode": "fixed"}, WEIGHTS) is None
    assert draw_curve([entry(1, 3)], {}, WEIGHTS) is None
    assert draw_curve([entry(1, 3, pinned=True)], ADAPTIVE, WEIGHTS) is None


def test_the_inspector_shows_it(client: Client, owner: Any, space: Space) -> None:
    make_record(space, title="Printer", notes="The printer broke.")
    client.force_login(owner)
    for mode, is_shown in (("adaptive", True), ("fixed", False)):
        made = make_assembly(space, query="printer", budget_mode=mode)
        page = client.get(reverse("dashboard:assembly", args=[made.id])).content.decode()
        assert ('<figure class="curve">' in page) is is_shown


def test_the_drawing_of_many_records_is_valid(client: Client, owner: Any, space: Space) -> None:
    """Its numbers have no separators, and the cut is in sight."""
    rows = [RecordIn(title=f"Print {number}", notes=f"Printer {number}", date=NOW) for number in range(140)]
    upsert_records(space=space, rows=rows, actor="test")
    client.force_login(owner)
    made = make_assembly(space, query="printer", budget_mode="adaptive")
    page = client.get(reverse("dashboard:assembly", args=[made.id])).content.decode()
    width = re.search(r'viewBox="0 0 (\d+) 300"', page)
    assert width is not None
    assert int(width[1]) > 1_000
    places = [int(x) for x in re.findall(r'<rect(?: class="left-out")? x="(\d+)"', page)]
    assert places == list(range(0, int(width[1]), 10))


def test_the_inspector_counts_what_was_not_worth_it(client: Client, owner: Any, space: Space) -> None:
    make_record(space, title="Printer", notes="The printer on the second floor broke.")
    for number in range(3):
        make_record(space, title=f"Lunch {number}", notes="Soup and bread at noon.")
    ensure_embedded(registry.get("record"), space.pk, limit=9)
    client.force_login(owner)
    made = make_assembly(space, query="which printer broke", budget_mode="adaptive")
    page = client.get(reverse("dashboard:assembly", args=[made.id])).content.decode()
    assert "Left out: 3 not worth the tokens." in page
    assert "1 record kept." in page
    assert re.search(r"<dt>vs a fixed budget</dt><dd>\d+ tokens fewer</dd>", page)
