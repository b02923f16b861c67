"""The candidates by words are the same under any plan."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection

from contextopt.search import registry
from contextopt.search.registry import SearchFilters
from contextopt.search.wordcounts import count_words, known_shares, unknown_words
from contextopt.search.words import CANDIDATES_MIN, best_by_words, read_lexemes, weigh_terms
from contextopt.spaces.inputs import RecordIn
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import upsert_records
from tests.factories import NOW

PLANS: tuple[dict[str, str], ...] = (
    {},
    {"enable_bitmapscan": "off"},
    {"enable_sort": "off"},
    {"enable_hashagg": "off"},
)


@contextmanager
def planned(settings: dict[str, str]) -> Iterator[None]:
    with connection.cursor() as cursor:
        for name, value in settings.items():
            cursor.execute("SELECT set_config(%s, %s, true)", [name, value])
        yield
        for name in settings:
            cursor.execute(f"SET LOCAL {name} TO DEFAULT")


def best(space: Space, text: str) -> list[int]:
    table = registry.get("record")
    terms = weigh_terms(table, space.pk, read_lexemes(text))
    return list(best_by_words(table, space.pk, terms, filters=SearchFilters(), limit=40))


@pytest.fixture
def frequent(space: Space) -> Space:
    """A space where more records have the words of a question than are scored."""
    rows = [
        RecordIn(title=f"Note {number}", date=NOW - timedelta(hours=number * 37 % 600), notes="printer broke")
        for number in range(600)
    ]
    upsert_records(space=space, rows=rows, actor="test")
    count_words(registry.get("record"), space.pk)
    assert len(rows) > CANDIDATES_MIN
    return space


@pytest.mark.parametrize("text", ["printer", "printer broke", "printer broke note"])
def test_the_newest_count_under_any_plan_and_in_any_order_on_disk(frequent: Space, text: str) -> None:
    newest = list(Record.objects.filter(space=frequent).order_by("-date", "-id").values_list("pk", flat=True))
    first = best(frequent, text)
    assert set(first) <= set(newest[:CANDIDATES_MIN])
    # Moves the rows to other places of the table.
    Record.objects.filter(pk__in=newest[::3]).update(view_count=1)
    for plan in PLANS:
        with planned(plan):
            assert best(frequent, text) == first, plan


def test_words_that_no_record_has(space: Space) -> None:
    table, words = registry.get("record"), ["printers", "kubernetes", "kuberntes", "kubernet", "gnu", "the"]
    rows = [RecordIn(title=f"Note {number}", date=NOW, notes="printer broke") for number in range(3)]
    rows.append(
        RecordIn(title="Note", date=NOW, notes="We run many Kubernetes.", external_id="k", source="s")
    )
    upsert_records(space=space, rows=rows, actor="test")
    assert unknown_words(table, space.pk, words) == set()
    count_words(table, space.pk)
    assert unknown_words(table, space.pk, words) == {"gnu"}
    # In Norwegian, the stem of "mania" is that of the English "many".
    assert unknown_words(table, space.pk, ["maria"]) == {"maria"}
    Record.objects.filter(external_id="k").update(deleted_at=NOW)
    assert unknown_words(table, space.pk, words) == {"kubernetes", "kuberntes", "kubernet", "gnu"}


def test_how_much_of_a_text_is_known(space: Space) -> None:
    table = registry.get("record")
    texts = ["The printers", "a gnu", "printers and gnus", "and the", "", "Quaggas"]
    rows = [RecordIn(title=f"Note {number}", date=NOW, notes="printer broke") for number in range(3)]
    rows.append(RecordIn(title="Note", date=NOW, notes="A quagga."))
    upsert_records(space=space, rows=rows, actor="test")
    assert known_shares(table, space.pk, texts) == [0.0] * 6
    count_words(table, space.pk)
    whole, none, half, *rest = known_shares(table, space.pk, texts)
    assert (whole, none, rest) == (1.0, 0.0, [0.0, 0.0, 1.0])
    assert 0 < half < 1
