import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from contextopt.spaces.configs import draft_settings, publish_config, publish_settings
from contextopt.spaces.inputs import ConfigIn
from contextopt.spaces.models import Space
from contextopt.tasks import recount_batch
from dashboard.pages.spaces.configs import budget_bar, compare_versions
from dashboard.pages.spaces.forms import ConfigForm
from tests.dashboard.conftest import html_of, seen_in, squeezed
from tests.factories import NOW, make_assembly, make_record
from tests.recomputed import make_searchable

URL = "/spaces/support/settings/"


def fields_of(space: Space, **changes: object) -> dict[str, Any]:
    values = ConfigForm.initial_of(space.configs.active().get())
    return {name: value for name, value in {**values, **changes}.items() if value is not None}


def test_the_active_settings_are_shown(teammate_client: Client, space: Space) -> None:
    html = teammate_client.get(URL).content.decode()
    assert "4,800 tokens" in html
    assert "read-only" in html
    assert "disabled" in html
    assert "Publish as a new version" not in html


def test_saving_publishes_the_next_version(editor_client: Client, space: Space) -> None:
    response = editor_client.post(URL, fields_of(space, window_days=30, note="longer"))
    assert response.headers["Location"] == URL
    active = space.configs.active().get()
    assert (active.version, active.settings.window_days, active.note, active.created_by) == (
        2,
        30,
        "longer",
        "user:edda",
    )
    html = editor_client.get(URL).content.decode()
    assert "<del>14</del> <ins>30</ins>" in html
    assert f'action="{URL}1/activate"' in html.partition('id="toasts"')[2]


def test_a_version_is_compared_with_the_published_one_before_it(space: Space) -> None:
    draft_settings(space=space, created_by="test", window_days=7)
    draft_settings(space=space, created_by="test", max_records=5)
    publish_settings(space=space, created_by="test", max_records=9)
    compared = compare_versions(list(space.configs.order_by("-version")))
    changes = [[(change.name, change.before) for change in version.changes] for version in compared]
    assert changes == [[("max_records", 20)], [("max_records", 20)], [("window_days", 14)], []]
    assert [version.is_first for version in compared] == [False, False, False, True]


def test_the_encoding_is_one_of_those_known(editor_client: Client, space: Space) -> None:
    html = editor_client.get(URL).content.decode()
    assert '<option value="cl100k_base" selected>cl100k_base</option>' in html
    assert '<option value="heuristic">heuristic</option>' in html


def test_saving_what_is_already_so_publishes_nothing(editor_client: Client, space: Space) -> None:
    html = editor_client.post(URL, fields_of(space), follow=True).content.decode()
    assert "Nothing was changed" in html
    assert space.configs.count() == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("window_days", 8), ("max_records", 0), ("max_records", 1_001), ("recency_weight", -1),
     ("recency_weight", "0.1234"), ("frequency_weight", 11), ("response_tokens", 999),
     ("context_tokens", 200_001), ("total_tokens", 999), ("encoding", "klingon"), ("encoding", ""),
     ("record_order", "random"), ("note", "x" * 201), ("system_tokens", "many"),
     ("system_tokens", "9" * 5_000)],
)  # fmt: skip
def test_a_setting_out_of_bounds_names_its_field(
    field: str, value: object, editor_client: Client, space: Space
) -> None:
    response = editor_client.post(URL, fields_of(space, **{field: value}))
    assert response.status_code == 422
    assert f'id="id_{field}_error"' in response.content.decode()
    assert space.configs.count() == 1


def test_an_earlier_version_is_activated_again(editor_client: Client, space: Space) -> None:
    editor_client.post(URL, fields_of(space, max_records=5))
    html = editor_client.post(f"{URL}1/activate", follow=True).content.decode()
    assert "Version 1 of the settings published." in html
    assert f'action="{URL}2/activate"><input type="hidden"' in html.partition('id="toasts"')[2]
    assert space.configs.active().get().version == 1
    assert editor_client.post(f"{URL}9/activate").status_code == 404


def test_settings_are_saved_as_a_draft(editor_client: Client, space: Space) -> None:
    response = editor_client.post(URL, fields_of(space, max_records=5, action="draft"))
    assert response.headers["Location"] == f"{URL}#version-2"
    draft = space.configs.get(is_draft=True)
    assert (draft.version, draft.settings.max_records) == (2, 5)
    assert space.configs.active().get().version == 1
    assert "Version 2 is saved as a draft." in html_of(editor_client, URL)


TRY = f"{URL}try"


def test_trying_settings_opens_what_if(editor_client: Client, space: Space) -> None:
    make_record(space)
    make_searchable(space)
    asked = make_assembly(space, query="queue").id
    make_assembly(space)
    changes = {"question_max_records": 5, "semantic_weight": "8.5"}
    response = editor_client.post(TRY, fields_of(space, **changes))
    what_if = f"/assemblies/{asked}/what-if/?config=1&semantic_weight=8.5&question_max_records=5"
    assert response.headers["Location"] == what_if
    shown = squeezed(html_of(editor_client, what_if))
    assert "Meaning weight: <del>9</del><ins>8.5</ins>" in shown
    assert space.configs.count() == 1


@pytest.mark.parametrize(
    ("changes", "problem"),
    [({"max_records": 0}, "greater than or equal to 1"), ({"max_records": 5}, "no requests yet")],
)
def test_trying_what_cannot_be_tried(
    editor_client: Client, space: Space, changes: dict[str, int], problem: str
) -> None:
    response = editor_client.post(TRY, fields_of(space, **changes))
    assert response.status_code == 422
    assert problem in response.content.decode()


def test_the_bar_follows_what_is_typed(partial, space: Space) -> None:
    html = partial(
        f"{URL}budget?system_tokens=100&context_tokens=300&history_tokens=&response_tokens=1000", "budget"
    )
    assert "1,400 tokens: System 100, Context 300 of 300, History 0, Response 1,000" in html


def test_the_space_itself(editor_client: Client, space: Space) -> None:
    editor_client.post("/spaces/support/edit", {"name": "Help desk", "description": "", "categories": "a,b"})
    space.refresh_from_db()
    assert (space.name, space.description, space.categories) == ("Help desk", "", ["a", "b"])
    response = editor_client.post("/spaces/support/edit", {"name": ""})
    assert response.status_code == 422


def test_a_set_total_takes_from_the_context_first() -> None:
    budgets = {
        "system_tokens": 800,
        "context_tokens": 2_000,
        "history_tokens": 1_000,
        "response_tokens": 1_000,
    }
    assert "Context 1,200 of 1,200" in budget_bar({**budgets, "total_tokens": 4_000}).label
    assert "Response 2,000" in budget_bar({**budgets, "total_tokens": 5_800}).label


def test_all_is_a_date_range(editor_client: Client, space: Space) -> None:
    editor_client.post(URL, fields_of(space, window_days="all"))
    assert space.configs.active().get().settings.window_days is None
    assert 'value="all"' in editor_client.get(URL).content.decode()


def test_the_record_limit_may_be_blank(editor_client: Client, space: Space) -> None:
    editor_client.post(URL, fields_of(space, max_records=""))
    assert space.configs.active().get().settings.max_records is None
    shown = squeezed(html_of(editor_client, URL))
    assert "<dt>Record limit</dt><dd><del>20</del><ins>all</ins></dd>" in shown


def test_a_question_has_limits_of_its_own(editor_client: Client, space: Space) -> None:
    editor_client.post(URL, fields_of(space, question_window_days=90, question_notes_chars=500))
    active = space.configs.active().get()
    limits = (
        active.settings.question_window_days,
        active.settings.question_max_records,
        active.settings.question_notes_chars,
    )
    assert limits == (90, None, 500)
    editor_client.post(URL, fields_of(space, question_window_days=""))
    assert space.configs.active().get().settings.question_window_days is None


def test_settings_published_meanwhile_are_not_replaced_unseen(editor_client: Client, space: Space) -> None:
    opened = fields_of(space, context_tokens=900) | seen_in(html_of(editor_client, URL))
    publish_config(space=space, data=ConfigIn(max_records=15), created_by="ann")
    for wrong in ({"context_tokens": "many"}, {}):
        response = editor_client.post(URL, opened | wrong)
        assert response.status_code == 409
    html = response.content.decode()
    assert "Version 2 was published in the meantime." in html
    assert "It differs from this form in: Record limit, Context tokens." in html
    assert space.configs.active().get().version == 2
    editor_client.post(URL, opened | seen_in(html))
    active = space.configs.active().get()
    assert (active.version, active.settings.max_records, active.settings.context_tokens) == (3, 20, 900)


REMEDY = f"{URL}remedy"
ALL_RECORDS = {"setting": "window_days", "value": "all", "next": "/assemblies/?range=7d"}


def test_a_remedy_is_one_click(editor_client: Client, space: Space) -> None:
    make_record(space, date=NOW - timedelta(days=4_000))
    preview = "/spaces/support/preview/"
    html = editor_client.get(preview).content.decode()
    assert "The only record is older than the window of 14 days; it is from 3 July 2015." in html
    assert "Include all records" in html
    response = editor_client.post(REMEDY, {**ALL_RECORDS, "next": preview})
    assert response.headers["Location"] == preview
    assert space.configs.active().get().settings.window_days is None
    html = editor_client.get(preview).content.decode()
    assert "older than the window" not in html
    assert "Queue stuck after deploy" in html


@pytest.mark.parametrize(
    ("age", "setting", "value"),
    [(20, "window_days", 30), (0, "context_tokens", 100)],
    ids=["window", "budget"],
)
def test_a_remedy_with_a_number_does_what_it_says(
    age: int, setting: str, value: int, editor_client: Client, space: Space
) -> None:
    make_record(space, date=timezone.now() - timedelta(days=age))
    if setting == "context_tokens":
        publish_config(space=space, data=ConfigIn(context_tokens=10), created_by="ann")
    html = html_of(editor_client, "/spaces/support/preview/")
    form = re.search(
        r'<form method="post" action="/spaces/support/settings/remedy">.*?</form>', html, re.DOTALL
    )
    assert form is not None
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form[0]))
    editor_client.post(REMEDY, fields)
    assert getattr(space.configs.active().get().settings, setting) == value


def test_a_remedy_in_a_fragment_returns_to_its_page(editor_client: Client, space: Space) -> None:
    make_record(space, date=NOW - timedelta(days=4_000))
    page = "/spaces/support/?tab=1"
    html = editor_client.get(
        "/spaces/support/preview/",
        headers={"HX-Request": "true", "HX-Current-URL": f"http://testserver{page}"},
    ).content.decode()
    assert f'name="next" value="{page}"' in html


def test_a_preview_with_a_window_of_its_own_says_so(editor_client: Client, space: Space) -> None:
    make_record(space, date=NOW - timedelta(days=4_000))
    html = editor_client.get("/spaces/support/preview/?window=7").content.decode()
    assert "<code>window_days</code> itself" in html
    assert "Include all records" not in html


def test_viewers_are_offered_no_remedy(teammate_client: Client, space: Space) -> None:
    make_record(space, date=NOW - timedelta(days=4_000))
    html = teammate_client.get("/spaces/support/preview/").content.decode()
    assert "older than the window" in html
    assert "Include all records" not in html


@pytest.mark.parametrize(
    "posted",
    [
        {"setting": "window_days", "value": "8"},
        {"setting": "is_active", "value": "false"},
        {"setting": "context_tokens", "value": "900000"},
        {},
    ],
)
def test_a_remedy_that_is_none_changes_nothing(
    posted: dict[str, str], editor_client: Client, space: Space
) -> None:
    response = editor_client.post(REMEDY, posted, follow=True)
    assert "Not changed" in response.content.decode()
    assert space.configs.count() == 1


@pytest.mark.parametrize("elsewhere", ["https://example.com/", "//example.com", "javascript:alert(1)"])
def test_a_remedy_leads_nowhere_else(elsewhere: str, editor_client: Client, space: Space) -> None:
    response = editor_client.post(REMEDY, {**ALL_RECORDS, "next": elsewhere})
    assert response.headers["Location"] == URL


class TestRecount:
    """After a change of the encoding, the page shows how far the records are counted in it."""

    PROGRESS = f"{URL}recount"

    def test_progress(self, owner_client: Client, space: Space) -> None:
        records = [make_record(space, title=f"Record {number}") for number in range(3)]
        assert "records are counted in it" not in html_of(owner_client, URL)
        publish_settings(space=space, created_by="test", encoding="o200k_base")
        assert "0 of 3 records are counted in it" in html_of(owner_client, URL)
        Space.objects.filter(pk=space.pk).update(recount_from=records[1].pk)
        assert "2 of 3 records are counted in it" in html_of(owner_client, self.PROGRESS)
        assert not recount_batch(space.pk)
        done = html_of(owner_client, self.PROGRESS)
        assert "records are counted in it" not in done
        assert "hx-trigger" not in done
        assert set(space.records.values_list("summary_encoding", flat=True)) == {"cl100k_base", "o200k_base"}

    def test_outsiders_and_visitors(self, outsider_client: Client, client: Client, space: Space) -> None:
        assert outsider_client.get(self.PROGRESS).status_code == 404
        assert client.get(self.PROGRESS).status_code == 302
