from typing import Any

import pytest
from django.test import Client

from contextopt.models import Space
from dashboard.configs import budget_bar
from dashboard.forms import ConfigForm

URL = "/spaces/support/settings/"


def fields_of(space: Space, **changes: object) -> dict[str, Any]:
    values = ConfigForm.initial_of(space.configs.active().get())
    return {name: value for name, value in {**values, **changes}.items() if value is not None}


def test_the_settings_in_force_are_shown(teammate_client: Client, space: Space) -> None:
    html = teammate_client.get(URL).content.decode()
    assert "4,800 tokens" in html
    assert "read-only" in html
    assert "disabled" in html
    assert "Save as a new version" not in html


def test_saving_publishes_the_next_version(editor_client: Client, space: Space) -> None:
    response = editor_client.post(URL, fields_of(space, window_days=30, note="longer"))
    assert response.headers["Location"] == URL
    active = space.configs.active().get()
    assert (active.version, active.window_days, active.note, active.created_by) == (
        2,
        30,
        "longer",
        "user:edda",
    )
    html = editor_client.get(URL).content.decode()
    assert "<del>14</del> <ins>30</ins>" in html


def test_saving_what_is_already_so_publishes_nothing(editor_client: Client, space: Space) -> None:
    html = editor_client.post(URL, fields_of(space), follow=True).content.decode()
    assert "Nothing was changed" in html
    assert space.configs.count() == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("window_days", 8), ("max_records", 0), ("max_records", 1_001), ("recency_weight", -1),
     ("recency_weight", "0.1234"), ("frequency_weight", 11), ("response_tokens", 999),
     ("context_tokens", 200_001), ("total_tokens", 999), ("encoding", "klingon"), ("encoding", ""),
     ("record_order", "random"), ("note", "x" * 201), ("system_tokens", "many")],
)  # fmt: skip
def test_a_setting_out_of_bounds_names_its_field(
    field: str, value: object, editor_client: Client, space: Space
) -> None:
    response = editor_client.post(URL, fields_of(space, **{field: value}))
    assert response.status_code == 422
    assert f'id="id_{field}_error"' in response.content.decode()
    assert space.configs.count() == 1


def test_an_earlier_version_is_put_in_force_again(editor_client: Client, space: Space) -> None:
    editor_client.post(URL, fields_of(space, max_records=5))
    editor_client.post(f"{URL}1/activate")
    assert space.configs.active().get().version == 1
    assert editor_client.post(f"{URL}9/activate").status_code == 404


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
