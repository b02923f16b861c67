from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from contextopt.search import registry
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.spaces.models import Space
from contextopt.spaces.records import delete_record
from dashboard.kit.responses import PAGE_ROWS
from tests.dashboard.conftest import html_of
from tests.factories import NOW, make_record, make_space
from tests.queries import count_at_2_and_20

URL = "/spaces/support/"


# The list


def test_the_list_counts_records(owner_client: Client, space: Space) -> None:
    make_record(space, pinned=True)
    delete_record(record=make_record(space), actor="test")
    html = html_of(owner_client, "/spaces/")
    assert "Support notes" in html
    cells = [part.split("<")[0] for part in html.split('<td class="n">')[1:]]
    assert cells == ["1", "1", "1"]
    assert "1 record, 1 pinned, 1 deleted" in html_of(owner_client, URL)


def test_an_empty_list_says_what_to_do(owner_client: Client, team: Team) -> None:
    assert "No spaces yet" in html_of(owner_client, "/spaces/")


@pytest.mark.parametrize("url", ["/spaces/", "/traffic/", "/chat/", "/questions/"])
def test_empty_pages_send_viewers_to_an_editor(url: str, teammate_client: Client, team: Team) -> None:
    html = " ".join(html_of(teammate_client, url).split())
    assert f"Ask an editor of {team.name} to create" in html
    assert "Create a space" not in html
    assert "Create one here" not in html


def test_the_list_asks_as_often_for_twenty_as_for_two(owner_client: Client, team: Team) -> None:
    def make_one() -> None:
        make_space(team, f"s{Space.objects.count()}")

    # the frame's four, spaces with counts
    assert count_at_2_and_20(lambda: html_of(owner_client, "/spaces/"), make_one) == [5, 5]


def test_an_editor_makes_a_space(editor_client: Client, team: Team) -> None:
    data = {"name": "Runbooks", "slug": "runbooks", "description": "How to.", "categories": "db, web, db"}
    response = editor_client.post("/spaces/new", data)
    assert response.headers["Location"] == "/spaces/runbooks/"
    space = Space.objects.get(slug="runbooks")
    assert space.categories == ["db", "web"]
    assert space.configs.active().get().created_by == "user:edda"


@pytest.mark.parametrize(
    ("field", "value"),
    [("slug", "no good"), ("slug", "x" * 65), ("slug", "support"), ("name", ""), ("name", "x" * 121),
     ("description", "x" * 1_001), ("categories", ",".join(f"c{n}" for n in range(21))), ("name", "a\x00b")],
)  # fmt: skip
def test_a_space_that_cannot_be_names_the_field(
    field: str, value: str, owner_client: Client, space: Space
) -> None:
    response = owner_client.post("/spaces/new", {"name": "A", "slug": "a", field: value})
    assert response.status_code == 422
    assert f'id="id_{field}_error"' in response.content.decode()
    assert Space.objects.count() == 1


def test_a_wrong_slug_is_told_what_it_may_have(owner_client: Client, team: Team) -> None:
    html = owner_client.post("/spaces/new", {"name": "A", "slug": "bad slug!"}).content.decode()
    assert '<p class="problem">Use letters, digits, - and _.</p>' in html


# One space


def test_records_and_their_filters(owner_client: Client, space: Space) -> None:
    make_record(space, title="Alpha", type="ticket", tags=["ops"], source="git")
    make_record(space, title="Beta", pinned=True)
    delete_record(record=make_record(space, title="Gamma"), actor="test")
    assert "Gamma" not in html_of(owner_client, URL)
    for query, shown in [("type=ticket", "Alpha"), ("tag=ops", "Alpha"), ("source=git", "Alpha"),
                         ("show=pinned", "Beta"), ("show=deleted", "Gamma")]:  # fmt: skip
        html = html_of(owner_client, f"{URL}?{query}")
        assert [name for name in ("Alpha", "Beta", "Gamma") if name in html] == [shown]


@pytest.mark.parametrize("query", ["type=" + "x" * 65, "show=all", "tag=%00"])
def test_filters_that_cannot_be_read_say_so(query: str, owner_client: Client, space: Space) -> None:
    make_record(space, title="Alpha")
    html = html_of(owner_client, f"{URL}?{query}")
    assert 'role="alert"' in html
    assert "Alpha" not in html


def test_a_cursor_that_was_cut_is_page_one(owner_client: Client, space: Space) -> None:
    make_record(space, title="Alpha")
    assert "Alpha" in html_of(owner_client, f"{URL}?before=x")


def test_records_come_in_pages(owner_client: Client, space: Space) -> None:
    for number in range(PAGE_ROWS + 3):
        make_record(space, title=f"Record {number:03}", date=NOW - timedelta(minutes=number))
    html = html_of(owner_client, URL)
    cursor = html.split("before=")[1].split('"')[0]
    older = html_of(owner_client, f"{URL}?before={cursor}")
    assert "Record 049" in html
    assert "Record 050" in older
    assert "Record 049" not in older


def test_the_records_are_a_partial(partial, space: Space) -> None:
    assert "What would be sent" not in partial(URL, "records")


def test_a_space_asks_as_often_for_twenty_records_as_for_two(owner_client: Client, space: Space) -> None:
    counts = []
    for wanted in (2, 20):
        while space.records.count() < wanted:
            make_record(space)
        with CaptureQueriesContext(connection) as queries:
            html_of(owner_client, URL)  # the frame's four, the space, its records, the guided start
        counts.append(len(queries))
        assert not any('"notes"' in query["sql"] for query in queries)
    assert counts == [7, 7]


# The preview


def test_the_preview_logs_nothing(owner_client: Client, space: Space) -> None:
    make_record(space, title="Seen")
    html = html_of(owner_client, f"{URL}preview/?as_of=2026-06-15T12:00")
    assert "[note] Seen" in html
    assert 'role="status">1 of 1 record, ' in html
    assert not Assembly.objects.exists()


def test_the_preview_follows_its_controls(owner_client: Client, space: Space) -> None:
    make_record(space, title="Old", date=NOW - timedelta(days=20))
    as_of = "as_of=2026-06-15T12:00"
    assert "[note] Old" not in html_of(owner_client, f"{URL}preview/?{as_of}")
    assert "[note] Old" in html_of(owner_client, f"{URL}preview/?{as_of}&window=30")
    assert "[note] Old" in html_of(owner_client, f"{URL}preview/?{as_of}&stage=3")


def test_the_preview_may_stop_at_what_helps_little(owner_client: Client, space: Space) -> None:
    make_record(space, title="Printer", notes="The printer on the second floor broke.")
    for number in range(6):
        make_record(space, title=f"Lunch {number}", notes="Soup and bread at noon.")
    ensure_embedded(registry.get("record"), space.pk, limit=99)
    question = f"{URL}preview/?question=which+printer+broke"
    assert "7 of 7" in html_of(owner_client, question)
    html = html_of(owner_client, f"{question}&budget=adaptive")
    assert "1 of 7" in html
    assert "6 not worth the tokens" in html
    assert '<input type="hidden" name="budget" value="adaptive">' in html


def test_the_preview_keeps_to_a_share_of_the_model_s_window(owner_client: Client, space: Space) -> None:
    make_record(space, title="Printer")
    html = html_of(owner_client, f"{URL}preview/?model=gpt-4&share=10")
    assert "of 819</dd>" in html
    assert '<input type="hidden" name="share" value="10">' in html
    assert "of 0</dd>" in html_of(owner_client, f"{URL}preview/?model=gpt-4&share=0")


@pytest.mark.parametrize(
    "query",
    ["stage=6", "window=9", "as_of=soon", "budget=loose", "share=101", "share=5", "model=unheard-of&share=5"],
)
def test_a_preview_that_cannot_be(query: str, owner_client: Client, space: Space) -> None:
    assert 'role="alert"' in html_of(owner_client, f"{URL}preview/?{query}")


def test_the_preview_is_a_partial(partial, space: Space) -> None:
    partial(f"{URL}preview/", "preview")


def test_without_javascript_one_is_told_where_the_preview_is(owner_client: Client, space: Space) -> None:
    html = owner_client.get(f"/spaces/{space.slug}/").content.decode()
    assert "Press Preview.</p></noscript>" in html


def test_the_preview_is_assembled_as_shown(owner_client: Client, space: Space) -> None:
    make_record(space, title="Queue stuck", date=datetime.now(UTC))
    preview = owner_client.get(f"/spaces/{space.slug}/preview/?question=queue&stage=5").content.decode()
    assert f'action="/spaces/{space.slug}/assemble"' in preview
    response = owner_client.post(f"/spaces/{space.slug}/assemble", {"question": "queue", "stage": "5"})
    assembly = Assembly.objects.get()
    assert response["Location"] == f"/assemblies/{assembly.pk}/"
    assert (assembly.stage, assembly.payload.request["query"]) == (5, "queue")


def test_a_viewer_previews_and_assembles_nothing(teammate_client: Client, space: Space) -> None:
    assert "/assemble" not in teammate_client.get(f"/spaces/{space.slug}/preview/").content.decode()
    assert teammate_client.post(f"/spaces/{space.slug}/assemble").status_code == 403
    assert not Assembly.objects.exists()


def test_a_wrong_preview_is_not_assembled(owner_client: Client, space: Space) -> None:
    page = owner_client.post(f"/spaces/{space.slug}/assemble", {"as_of": "soon"}, follow=True)
    assert "Not assembled. Check the fields of the preview." in page.content.decode()
    assert not Assembly.objects.exists()
