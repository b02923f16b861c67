import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from contextopt.people.models import Team
from contextopt.search import registry
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.spaces.models import Record, Space
from memory.search.snippets import load_snippets, split_runs
from tests import factories
from tests.dashboard.conftest import html_of
from tests.memory.factories import make_memory

URL = "/search/"


def test_without_a_space_it_says_how_to_get_one(owner_client: Client, team: Team) -> None:
    assert "manage.py import_git demo ." in html_of(owner_client, URL)


def test_without_a_question_it_says_what_may_be_asked(owner_client: Client, space: Space) -> None:
    assert "manage.py search support" in html_of(owner_client, URL)


def test_a_hit_its_passage_and_its_reasons(owner_client: Client, space: Space) -> None:
    record = factories.make_record(space, notes="<b>Workers</b> hold the old lock & more.")
    html = html_of(owner_client, f"{URL}?q=workers+lock")
    assert f'href="/spaces/support/records/{record.pk}/">Queue stuck after deploy</a>' in html
    assert "<mark>Workers</mark>" in html
    assert "<b>" not in html
    assert "&amp; more" in html
    assert 'role="status">1 result<' in html
    assert "Number 1 by its words (BM25)." in html
    assert "Not embedded yet." in html
    assert Record.objects.get(pk=record.pk).view_count == 0


def test_without_a_word_in_common_it_says_that_meaning_found_them(owner_client: Client, space: Space) -> None:
    factories.make_record(space)
    ensure_embedded(registry.get("record"), space.pk, limit=99)
    assert "closest by meaning" in html_of(owner_client, f"{URL}?q=zebra")
    assert "closest by meaning" not in html_of(owner_client, f"{URL}?q=queue")


def test_a_memory_leads_to_its_page(owner_client: Client, space: Space) -> None:
    memory = make_memory(space.team, title="", content="Amounts are integers of cents.")
    assert f'href="/memory/{memory.pk}/">Memory</a>' in html_of(owner_client, f"{URL}?q=cents")


def test_weak_matches_are_marked_in_words(owner_client: Client, space: Space) -> None:
    factories.make_record(space, title="queue stuck")
    factories.make_record(space, title="queue elsewhere", notes="Nothing is stuck.")
    ensure_embedded(registry.get("record"), space.pk, limit=99)
    mark = ">weak match: "
    assert mark not in html_of(owner_client, f"{URL}?q=queue+stuck")
    html = html_of(owner_client, f"{URL}?q=queue+stuck&min_relevance=0.995")
    assert html.index("</mark> elsewhere</a>") < html.index(mark)
    assert html.count(mark) == 1
    assert 'value="0.995"' in html


def test_the_score_is_told_as_relative_beside_the_match(owner_client: Client, space: Space) -> None:
    factories.make_record(space)
    html = html_of(owner_client, f"{URL}?q=queue")
    assert re.search(r"result: match \d\.\d\d, score \d\.\d\d by rank among the results<", html)
    ensure_embedded(registry.get("record"), space.pk, limit=99)
    html = html_of(owner_client, f"{URL}?q=queue")
    assert re.search(r"result: match \d\.\d\d, cosine 0\.\d\d, score 1\.00 by rank among the results<", html)


def test_a_range_that_ends_before_it_begins_is_refused(owner_client: Client, space: Space) -> None:
    html = html_of(owner_client, f"{URL}?q=queue&start=2026-03-02&end=2026-03-01")
    assert "To: Enter a date that is not before From." in html
    assert "Nothing found" not in html
    assert "Nothing found" in html_of(owner_client, f"{URL}?q=queue&start=2026-03-01&end=2026-03-01")


def test_nothing_found(owner_client: Client, space: Space) -> None:
    factories.make_record(space)
    assert "Nothing found" in html_of(owner_client, f"{URL}?q=zebra&type=decision")


def test_filters_are_in_the_address_and_in_the_form(owner_client: Client, space: Space) -> None:
    factories.make_record(space, title="one", type="note", date=factories.NOW)
    factories.make_record(space, title="two", type="commit", source="git", tags=["x"])
    html = html_of(owner_client, f"{URL}?q=lock&type=commit&source=git&tag=x&kind=record&start=2026-01-01")
    assert ">two</a>" in html
    assert ">one</a>" not in html
    assert 'value="commit"' in html


@pytest.mark.parametrize(
    "query",
    [
        "q=lock&start=soon",
        "q=lock&kind=file",
        "q=lock&space=nowhere",
        "q=lock&min_relevance=2",
        f"q={'x' * 2_001}",
        "q=a%00b",
    ],
)
def test_bad_filters_are_named(owner_client: Client, space: Space, query: str) -> None:
    assert 'class="problem"' in html_of(owner_client, f"{URL}?{query}")


def test_another_teams_space_cannot_be_chosen(outsider_client: Client, space: Space) -> None:
    factories.make_record(space, title="Secret plan")
    assert "Secret plan" not in html_of(outsider_client, f"{URL}?q=secret&space=support")


def test_htmx_gets_the_results_alone(partial, space: Space) -> None:
    factories.make_record(space)
    assert "<mark>Queue</mark> stuck" in partial(f"{URL}?q=queue", "results")


@pytest.mark.parametrize("records", [2, 20])
def test_queries(owner_client: Client, space: Space, records: int) -> None:
    for number in range(records):
        factories.make_record(space, title=f"queue {number}")
    ensure_embedded(registry.get("record"), space.pk, limit=99)
    html_of(owner_client, f"{URL}?q=queue")
    with CaptureQueriesContext(connection) as queries:
        assert html_of(owner_client, f"{URL}?q=queue").count("Why this result") == records
    # The frame's four, spaces, space, stems, model, two for words not counted yet, frequencies, best by
    # words, number of vectors, nearest, rows, passages; of the memories, the counts and the best; two that
    # tell the planner to plan again.
    assert len([q for q in queries if "SAVEPOINT" not in q["sql"]]) <= 24


def test_marks_become_runs() -> None:
    assert [tuple(run) for run in split_runs("a \x02b\x03 <c>\x02d")] == [
        ("a ", False), ("b", True), (" <c>", False), ("d", True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("notes", "first", "last", "gaps"),
    [
        ("the queue is stuck", "the", "stuck", 0),
        ("  (the queue) is stuck.\n", "(the", "stuck.", 0),
        ("queue stuck. " + "More was said then. " * 30, "queue", "…", 1),
        ("To begin with. " + "Said before. " * 90 + "the queue is stuck", "…", "stuck", 1),
        ("Nothing of that. " * 30, "Nothing", "…", 1),
    ],
)
def test_a_passage_says_what_it_leaves_out(
    space: Space, notes: str, first: str, last: str, gaps: int
) -> None:
    record = factories.make_record(space, title="A title", notes=notes)
    runs = load_snippets(registry.get("record"), [record.pk], {"en": ("queue", "stuck"), "no": ()})
    words = "".join(run.text for run in runs[record.pk].passages).split(" ")
    assert (words[0], words[-1], words.count("…")) == (first, last, gaps)


def test_a_record_without_notes_has_no_passage(space: Space) -> None:
    record = factories.make_record(space, title="queue", notes="")
    assert load_snippets(registry.get("record"), [record.pk], {"en": ("queue",), "no": ()}) == {
        record.pk: ((("queue", True),), ())
    }


def test_words_are_marked_in_titles_too(space: Space) -> None:
    record = factories.make_record(space, title="The <b>queues</b> are stuck" + " for long" * 20)
    found = load_snippets(registry.get("record"), [record.pk], {"en": ("queue",), "no": ()})[record.pk]
    assert [run.text for run in found.title if run.is_match] == ["queues"]
    shown = "".join(run.text for run in found.title)
    assert shown.startswith("The <b>queues</b> are stuck")
    assert (len(shown), shown[-1]) == (161, "…")
