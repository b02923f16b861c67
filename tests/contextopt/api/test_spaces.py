import pytest

from contextopt.assemblies.models import Assembly
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.models import Record, Space
from tests import factories
from tests.contextopt.api.conftest import fields_of


def test_create(api, team):
    response = api.post("/spaces", {"slug": "billing", "categories": ["invoices"]})
    assert response.status_code == 201
    assert response["Location"] == "/api/v1/spaces/billing"
    space = response.json()
    assert space["name"] == "billing"
    assert space["categories"] == ["invoices"]
    assert space["records"] == {"live": 0, "pinned": 0, "deleted": 0}
    assert api.get("/spaces/billing").json() == space
    assert ContextConfig.objects.get(space__slug="billing", space__team=team).is_active


def test_create_taken_slug(api, space):
    response = api.post("/spaces", {"slug": space.slug})
    assert response.status_code == 409
    assert fields_of(response) == set()
    assert Space.objects.count() == 1


def test_slug_may_be_taken_by_another_team(stranger, space):
    assert stranger.post("/spaces", {"slug": space.slug}).status_code == 201


@pytest.mark.parametrize("slug", ["", "a b", "æ", "x" * 65, "a/b", "a\n"])
def test_create_bad_slug(api, slug):
    response = api.post("/spaces", {"slug": slug})
    assert response.status_code == 422
    assert fields_of(response) == {"slug"}


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\u2028b", "a\x1b[31m"])
def test_names_are_one_line(api, text):
    response = api.post("/spaces", {"slug": "s", "name": text, "categories": ["fine", text]})
    assert response.status_code == 422
    assert fields_of(response) == {"name", "categories.1"}


def test_update_leaves_the_rest(api, space):
    response = api.patch("/spaces/support", {"description": "New"})
    assert response.status_code == 200
    assert response.json()["name"] == "Support notes"
    assert api.get("/spaces/support").json()["description"] == "New"


def test_update_nothing(api, space):
    assert api.patch("/spaces/support", {}).json() == api.get("/spaces/support").json()


@pytest.mark.parametrize("field", ["name", "description", "categories"])
def test_update_to_null(api, space, field):
    response = api.patch("/spaces/support", {field: None})
    assert response.status_code == 422
    assert fields_of(response) == {field}


def test_delete_takes_everything_along(api, space):
    factories.make_record(space)
    factories.make_assembly(space)
    assert api.delete("/spaces/support").status_code == 204
    assert api.get("/spaces/support").status_code == 404
    assert not Record.objects.exists()
    assert not Assembly.objects.exists()


def test_delete_leaves_other_teams_alone(api, space, other_team):
    theirs = factories.make_record(factories.make_space(other_team, slug=space.slug))
    api.delete("/spaces/support")
    assert Record.objects.get() == theirs


def test_counts(api, space):
    factories.make_record(space)
    factories.make_record(space, pinned=True)
    record = factories.make_record(space)
    api.delete(f"/records/{record.pk}")
    assert api.get("/spaces/support").json()["records"] == {"live": 1, "pinned": 1, "deleted": 1}


@pytest.mark.parametrize("rows", [2, 20])
def test_list_queries(api, team, rows, django_assert_num_queries):
    for index in range(rows):
        factories.make_space(team, slug=f"space-{index:02}")
    api.get("/me")
    with django_assert_num_queries(2):  # the key, the spaces with their counts
        items = api.get("/spaces").json()["items"]
    assert [item["slug"] for item in items] == [f"space-{index:02}" for index in range(rows)]


def test_pages_hold_each_row_once(api, team):
    for index in range(7):
        factories.make_space(team, slug=f"s{index}")
    seen: list[str] = []
    cursor = None
    while True:
        page = api.get("/spaces", limit=3, **({"cursor": cursor} if cursor else {})).json()
        seen += [item["slug"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [f"s{index}" for index in range(7)]
