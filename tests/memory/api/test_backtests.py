from decimal import Decimal

import pytest

from dashboard.rollups.models import ModelPrice
from memory.backtests.backtests import start_backtest
from memory.backtests.inputs import BacktestIn
from memory.backtests.models import Backtest
from tests.contextopt.api.conftest import api, reader, stranger, writer
from tests.memory.backtests.conftest import ask, ask_all, asked, draft, make_draft, talk
from tests.memory.questions.conftest import make_questions

__all__ = ["api", "asked", "draft", "reader", "stranger", "talk", "writer"]

pytestmark = pytest.mark.django_db


def test_a_short_backtest_is_finished_in_the_response(writer, reader, space, asked, draft) -> None:
    make_questions(space)
    response = writer.post(f"/spaces/{space.slug}/backtests", {"config": draft.version})
    made = response.json()
    assert response.status_code == 201
    assert response["Location"] == f"/api/v1/backtests/{made['id']}"
    assert (made["state"], made["assemblies"], made["computed"]) == ("done", 4, 4)
    assert made["tokens_after"] < made["tokens_before"]
    assert (made["evidence"], made["evidence_before"], made["last"]) == (4, 4, 200)
    assert (made["priced"], made["dollars_before"], made["dollars_after"]) == (0, None, None)
    assert reader.get(f"/backtests/{made['id']}").json() == made
    assert reader.get(f"/spaces/{space.slug}/backtests").json()["items"] == [made]


def test_costs_come_with_a_price(writer, space, talk, draft) -> None:
    ModelPrice.objects.create(model="own", dollars_per_million=Decimal(10))
    ask(space, "When?", conversation="c-1", placement="tail", system_tokens=2_000, model="own")
    path = f"/spaces/{space.slug}/backtests"
    made = [writer.post(path, {"config": draft.version, "last": 1}).json() for _ in range(2)]
    fewer = made[0]["tokens_before"] - made[0]["tokens_after"]
    assert made[0]["priced"] == 1
    assert made[0]["dollars_before"] - made[0]["dollars_after"] == pytest.approx(fewer * 10e-6)
    assert writer.get(path).json()["items"] == made[::-1]


def test_rows_come_in_pages_the_largest_change_first(writer, space, asked, draft) -> None:
    made = writer.post(f"/spaces/{space.slug}/backtests", {"config": draft.version}).json()
    rows, cursor = [], None
    while True:
        given = {"limit": 3} | ({"cursor": cursor} if cursor else {})
        page = writer.get(f"/backtests/{made['id']}/rows", **given).json()
        rows += page["items"]
        if not (cursor := page["next_cursor"]):
            break
    assert {row["assembly_id"] for row in rows} == {each.pk for each in asked}
    changes = [row["tokens_before"] - row["tokens_after"] for row in rows]
    assert changes == sorted(changes, reverse=True)
    assert sum(row["tokens_after"] for row in rows) == made["tokens_after"]


def test_a_running_backtest_is_cancelled_once(writer, space, talk, draft) -> None:
    ask_all(space)
    found = start_backtest(space=space, data=BacktestIn(config=draft.version), actor="test")
    assert writer.get(f"/backtests/{found.pk}").json()["computed"] == 0
    assert writer.get(f"/backtests/{found.pk}/rows").json()["items"] == []
    assert writer.post(f"/backtests/{found.pk}/cancel").json()["state"] == "cancelled"
    assert writer.post(f"/backtests/{found.pk}/cancel").status_code == 409


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 422, "config"),
        ({"config": 0}, 422, "config"),
        ({"config": 2, "last": 5_001}, 422, "last"),
        ({"config": 2, "first": 1}, 422, "first"),
        ({"config": 9}, 404, None),
    ],
)
def test_bad_input_is_refused(writer, space, asked, draft, body, status, field) -> None:
    response = writer.post(f"/spaces/{space.slug}/backtests", body)
    assert response.status_code == status
    if field:
        assert field in response.content.decode()
    assert not Backtest.objects.exists()


def test_a_space_without_contexts_is_a_conflict(writer, space, draft) -> None:
    response = writer.post(f"/spaces/{space.slug}/backtests", {"config": draft.version})
    assert response.status_code == 409
    assert "no logged contexts" in response.json()["detail"]


def test_a_list_takes_as_many_queries_for_many(
    reader, space, asked, draft, django_assert_max_num_queries
) -> None:
    other = make_draft(space, max_records=7)
    for config in (draft, other):
        start_backtest(space=space, data=BacktestIn(config=config.version), actor="test")
    with django_assert_max_num_queries(7):
        assert len(reader.get(f"/spaces/{space.slug}/backtests").json()["items"]) == 2
