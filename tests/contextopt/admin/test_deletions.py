"""Before a deletion, the admin says what goes with it and what stays, without loading it."""

from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext

from contextopt.admin.base import OwnerAdmin, ViewOnlyAdmin
from contextopt.agents.models import Task
from contextopt.people.models import ApiKey, Role, Scope, Team, User
from contextopt.repositories.models import Repository
from contextopt.search import registry
from contextopt.search.models import SearchCorpus
from contextopt.search.wordcounts import count_words
from contextopt.spaces.models import Record, Space
from memory.backtests.backtests import start_backtest
from memory.backtests.inputs import BacktestIn
from memory.memories.models import Memory
from memory.questions.sets import create_set
from tests import factories
from tests.adminpages import page
from tests.memory.factories import make_memory, make_review

pytestmark = pytest.mark.django_db


@pytest.fixture
def full(space: Space, settings: Any) -> Space:
    """A space with some of everything."""
    for number in range(3):
        factories.make_record(space, title=f"Plan {number}")
    make_review(space)
    factories.make_answer(factories.make_conversation(space), settings)
    factories.make_gateway_request(space)
    create_set(space=space, name="Facts", actor="test")
    start_backtest(space=space, data=BacktestIn(config=1), actor="test")
    key, _ = factories.make_key(space.team, Scope.READ)
    ApiKey.objects.filter(pk=key.pk).update(space_ids=[space.pk])
    make_memory(space.team, space=space.slug)
    return space


def confirmation(
    root: Client, address: str, data: dict[str, Any] | None = None
) -> tuple[dict[str, int], str]:
    """Return the numbers and the text of the page that asks for confirmation."""
    response = root.post(address, data) if data else root.get(address)
    assert response.status_code == 200
    counts = response.context.get("model_count")
    return dict(counts), response.content.decode().replace("&#x27;", "'")


def test_a_space_tells_what_goes_and_what_stays(root: Client, full: Space) -> None:
    other = factories.make_space(full.team, "other")
    factories.make_record(other)
    counts, html = confirmation(root, page(Space, "delete", full.pk))
    assert counts == {
        "spaces": 1, "records": 3, "context configs": 1, "assemblies": 2, "conversations": 1, "messages": 2,
        "gateway requests": 1, "votes": 1, "review items": 1, "question sets": 1, "backtests": 1,
    }  # fmt: skip
    assert "1 memory of the space will be purged." in html
    assert "1 API key limited to it loses it." in html
    assert "keep their figures" in html
    assert root.post(page(Space, "delete", full.pk), {"post": "yes"}).status_code == 302
    assert Space.objects.get() == other
    assert Memory.objects.get().content == "[purged]"


def test_a_team_tells_what_goes(root: Client, full: Space) -> None:
    factories.make_task(full.team)
    factories.make_repository(full.team)
    factories.make_user("ada", full.team)
    second = factories.make_team("second")
    factories.make_space(second)
    counts, html = confirmation(root, page(Team, "delete", full.team_id))
    some = {"teams": 1, "spaces": 1, "records": 3, "tasks": 1, "repositories": 1, "memories": 1, "votes": 1}
    assert counts.items() >= (some | {"memberships": 1, "API keys": 1}).items()
    assert "Members keep their accounts." in html
    chosen = {"action": "delete_selected", "_selected_action": [full.team_id, second.pk]}
    counts, _ = confirmation(root, page(Team, "changelist"), chosen)
    assert (counts["teams"], counts["spaces"], counts["records"]) == (2, 2, 3)


def test_a_team_takes_its_words_along(root: Client, full: Space) -> None:
    count_words(registry.get("record"), full.pk)
    count_words(registry.get("memory"), full.team_id)
    assert SearchCorpus.objects.count() == 2
    assert root.post(page(Team, "delete", full.team_id), {"post": "yes"}).status_code == 302
    assert not SearchCorpus.objects.exists()


def test_a_user_tells_what_goes_and_what_stays(root: Client, team: Team) -> None:
    ada = factories.make_user("ada", team, Role.EDITOR)
    counts, html = confirmation(root, page(User, "delete", ada.pk))
    assert counts == {"users": 1, "memberships": 1}
    assert "stay under their name" in html


def test_who_may_not_remove_members_deletes_no_member(team: Team) -> None:
    ada = factories.make_user("ada", team, Role.EDITOR)
    helper = User.objects.create_user("helper", is_staff=True)
    helper.user_permissions.set(
        helper.user_permissions.model.objects.filter(codename__in=["delete_user", "view_user"])
    )
    client = Client()
    client.force_login(helper)
    assert client.post(page(User, "delete", ada.pk), {"post": "yes"}).status_code == 403
    assert User.objects.filter(pk=ada.pk).exists()


def test_a_record_says_that_it_can_be_restored(root: Client, full: Space) -> None:
    record = full.records.first()
    assert record is not None
    counts, html = confirmation(root, page(Record, "delete", record.pk))
    assert counts == {"records": 1}
    assert "It can be restored." in html


def test_the_number_of_queries_does_not_grow(root: Client, full: Space) -> None:
    def count() -> int:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            confirmation(root, page(Space, "delete", full.pk))
        return len(queries)

    count()
    before = count()
    for number in range(20):
        factories.make_record(full, title=f"More {number}")
        factories.make_assembly(full)
    assert count() == before


def test_no_table_that_owns_others_lists_them() -> None:
    """Django's own page would load every row that goes."""
    request = RequestFactory().get("/admin/")
    request.user = User(is_superuser=True, is_staff=True, is_active=True)
    listing = {
        model
        for model, table in admin.site._registry.items()
        if table.has_delete_permission(request) and not isinstance(table, OwnerAdmin)
    }
    owned = {
        relation.related_model
        for model in listing
        for relation in model._meta.related_objects
        if relation.on_delete is not None and not relation.many_to_many
    }
    assert owned == set()
    for model in (Memory, Task, Repository):
        assert isinstance(admin.site.get_model_admin(model), ViewOnlyAdmin)
