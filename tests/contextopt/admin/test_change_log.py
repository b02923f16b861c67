"""Everything that can be edited in the admin leaves its values in the change log."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group
from django.db.models import Model
from django.forms import MultiWidget
from django.test import Client, RequestFactory

from contextopt.admin.base import LoggedAdmin
from contextopt.agents.handoffs.compression import default_budgets
from contextopt.agents.handoffs.models import HandoffSettings
from contextopt.agents.models import HandoffPhase, PhaseProfile
from contextopt.agents.phaselinks import PhaseLink
from contextopt.agents.retrysettings import RetrySettings
from contextopt.agents.standingdocuments import StandingDocument
from contextopt.people.models import ApiKey, AuditEvent, Membership, Role, Team, User
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.forms import shown_settings
from contextopt.spaces.models import Record, Space
from dashboard.kit.filters import SavedView
from dashboard.rollups.models import ModelPrice
from memory.memories.rules import HalfLife, MemoryPolicy
from tests import factories
from tests.adminpages import page

pytestmark = pytest.mark.django_db

type Values = dict[str, Any]


@dataclass(frozen=True)
class Form:
    """Values for the forms of a table: those of a new row, and those that an edit changes."""

    new: Callable[[Space], Values]
    edit: Values = field(default_factory=dict)


def of_team(**values: Any) -> Callable[[Space], Values]:
    return lambda space: {"team": space.team_id, **values}


def given_settings(space: Space) -> Values:
    return {
        name: value
        for name, value in shown_settings(space.configs.get().settings).items()
        if value is not None
    }


NO_MEMBERS = {"memberships-TOTAL_FORMS": 0, "memberships-INITIAL_FORMS": 0}
FORMS: dict[type[Model], Form] = {
    ModelPrice: Form(
        lambda _: {
            "model": "own", "dollars_per_million": "3", "minimum_tokens": 1_024, "lifetime_seconds": 300,
            "effective_from": "2026-01-01", "source": "",
        },
        {"dollars_per_million": "4"},
    ),
    HalfLife: Form(of_team(memory_type="note", days=30), {"days": 60}),
    MemoryPolicy: Form(of_team(rating_weight=0.5, retire_below=0.2, retire_after=3), {"retire_after": 4}),
    RetrySettings: Form(
        of_team(error_tokens=900, diff_lines=40, diff_characters=2_000), {"diff_lines": 50}
    ),
    HandoffSettings: Form(
        of_team(phase="design", **default_budgets(HandoffPhase.DESIGN).to_json() | {"key_categories": ""}),
        {"max_critical": 2},
    ),
    StandingDocument: Form(of_team(repository="shop", title="Style", content="Two."), {"content": "Tabs."}),
    PhaseProfile: Form(of_team(phase="building", budget_tokens=9_000, fields=["tree"], note="")),
    PhaseLink: Form(of_team(phase="building", profile="building", receives="design", note="")),
    ContextConfig: Form(
        lambda space: {**given_settings(space), "space": space.pk, "note": "", "window_days": 7}
    ),
    Space: Form(of_team(slug="new", name="New", description="", categories=""), {"name": "Newer"}),
    Group: Form(lambda _: {"name": "staff"}, {"name": "helpers"}),
    SavedView: Form(of_team(), {"name": "Mine"}),
    Team: Form(lambda _: {"name": "New", "slug": "new", "time_zone": "UTC", **NO_MEMBERS}, {"name": "Newer"}),
    Membership: Form(of_team(role="viewer"), {"role": "reviewer"}),
    ApiKey: Form(of_team(name="new", scope="read"), {"name": "newer"}),
    User: Form(lambda _: {}, {"is_staff": "on"}),
}  # fmt: skip
# Edits that are not in a team's log, each with the reason.
NOT_LOGGED = {
    (User, "add"): "the account is in no team yet",
    (Team, "delete"): "the log goes with the team",
    (Record, "add"): "a record names its author, and its revisions have every change",
    (Record, "change"): "a record names its author, and its revisions have every change",
}


def editable() -> list[tuple[type[Model], str]]:
    """Return what a superuser may do with each table."""
    request = RequestFactory().get("/admin/")
    request.user = User(is_superuser=True, is_staff=True, is_active=True)
    return [
        (model, what)
        for model, table in admin.site._registry.items()
        for what in ("add", "change", "delete")
        if getattr(table, f"has_{what}_permission")(request)
    ]


EDITABLE = [each for each in editable() if each not in NOT_LOGGED]


@pytest.fixture
def ada(team: Team) -> User:
    return factories.make_user("ada", team, Role.EDITOR)


def row_of(model: type[Model], space: Space, ada: User) -> Model | None:
    """Make the row that the admin cannot add, or that belongs to someone."""
    team = space.team
    if model is SavedView:
        return SavedView.objects.create(team=team, owner=ada, page="assemblies", name="My", query="q=1")
    known: dict[type[Model], Callable[[], Model]] = {
        User: lambda: ada,
        Membership: ada.memberships.get,
        Record: lambda: factories.make_record(space),
        Team: lambda: team,
        ApiKey: lambda: factories.make_key(team)[0],
    }
    return known[model]() if model in known else None


def make_row(root: Client, model: type[Model], space: Space, ada: User) -> Model:
    if row := row_of(model, space, ada):
        return row
    response = root.post(page(model, "add"), FORMS[model].new(space))
    assert response.status_code == 302, response.context["adminform"].form.errors
    return model._default_manager.latest("pk")


def shown(root: Client, address: str) -> Values:
    """Return what a browser would send back from an untouched form."""
    response = root.get(address)
    form = response.context["adminform"].form
    inner = [each for inline in response.context["inline_admin_formsets"] for each in inline.formset.forms]
    managers = [inline.formset.management_form for inline in response.context["inline_admin_formsets"]]
    values: Values = {}
    for each in (form, *inner, *managers):
        for bound in each:
            value = bound.value()
            if isinstance(bound.field.widget, MultiWidget):
                parts = bound.field.widget.decompress(bound.field.prepare_value(value)) or ()
                values |= {f"{bound.html_name}_{place}": part or "" for place, part in enumerate(parts)}
            elif value not in (None, False):
                values[bound.html_name] = value
    return values


def events(team: Team) -> list[AuditEvent]:
    return list(AuditEvent.objects.of(team).order_by("id"))


def test_every_editable_table_is_known() -> None:
    assert {model for model, _ in EDITABLE} - {Record} == FORMS.keys()
    assert set(NOT_LOGGED) <= set(editable())
    assert all(apps.get_model(model._meta.label) for model in FORMS)


@pytest.mark.parametrize(("model", "what"), EDITABLE, ids=lambda each: getattr(each, "__name__", each))
def test_it_is_in_the_change_log(
    root: Client, space: Space, ada: User, model: type[Model], what: str
) -> None:
    if what == "add":
        before = AuditEvent.objects.count()
        values = FORMS[model].new(space)
        if model is Membership:
            values["user"] = factories.make_user("new").pk
        response = root.post(page(model, "add"), values, headers={"HX-Request": "true"})
        assert response.status_code in (200 if model is ApiKey else 302, 302)
        assert AuditEvent.objects.count() > before
        event = AuditEvent.objects.latest("id")
        assert event.after or model is Space
        return
    row = make_row(root, model, space, ada)
    known = len(events(space.team))
    if what == "change":
        address = page(model, "change", row.pk)
        response = root.post(address, shown(root, address) | FORMS[model].edit)
        assert response.status_code == 302, response.context["adminform"].form.errors
    else:
        assert root.post(page(model, "delete", row.pk), {"post": "yes"}).status_code == 302
    [event] = events(space.team)[known:]
    assert event.actor == "user:root"
    if what == "change":
        assert event.before.keys() == event.after.keys() != set()
    elif isinstance(admin.site.get_model_admin(model), LoggedAdmin):
        assert event.before


def test_a_price_is_in_the_log_of_every_team(root: Client, team: Team, other_team: Team) -> None:
    add = FORMS[ModelPrice].new(Space())
    assert root.post(page(ModelPrice, "add"), add).status_code == 302
    price = ModelPrice.objects.get()
    change = page(ModelPrice, "change", price.pk)
    for dollars in ("4", "4"):
        assert root.post(change, add | {"dollars_per_million": dollars}).status_code == 302
    selected = {"action": "delete_selected", "_selected_action": price.pk, "post": "yes"}
    assert root.post(page(ModelPrice, "changelist"), selected).status_code == 302
    for each in (team, other_team):
        made, changed, deleted = events(each)
        assert made.action == "prices.changed"
        assert made.subject == "model price: own"
        assert made.after["dollars_per_million"] == 3
        assert (changed.before, changed.after) == ({"dollars_per_million": 3}, {"dollars_per_million": 4})
        assert (deleted.before["dollars_per_million"], deleted.after) == (4, {})


def test_prices_that_the_package_fills_in_are_logged(root: Client, team: Team) -> None:
    add = FORMS[ModelPrice].new(Space()) | {"model": "claude-sonnet-4-5"}
    assert root.post(page(ModelPrice, "add"), add).status_code == 302
    assert events(team)[0].after["cached_read_dollars"] == 0.3


def test_a_password_set_for_someone_is_logged_without_it(root: Client, team: Team, ada: User) -> None:
    new = {"password1": "battery staple", "password2": "battery staple", "usable_password": "true"}
    assert (
        root.post(f"/admin/contextopt/user/{ada.pk}/password/", new | {"password2": "x"}).status_code == 200
    )
    assert not events(team)
    assert root.post(f"/admin/contextopt/user/{ada.pk}/password/", new).status_code == 302
    [event] = events(team)
    assert (event.action, event.subject, event.actor) == ("password.changed", "ada", "user:root")
    assert not event.before
    assert not event.after


def test_an_accounts_rights_are_logged_in_its_teams_only(
    root: Client, team: Team, other_team: Team, ada: User
) -> None:
    address = page(User, "change", ada.pk)
    group = Group.objects.create(name="staff")
    values = shown(root, address) | {"is_superuser": "on", "groups": [group.pk]}
    assert root.post(address, values).status_code == 302
    [event] = events(team)
    assert event.before == {"is_superuser": False, "groups": []}
    assert event.after == {"is_superuser": True, "groups": ["staff"]}
    assert not events(other_team)
