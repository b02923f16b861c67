# ruff: noqa: ARG002 - the hooks have the signatures that Django gives them
"""Base classes and helpers of all admin pages."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

from django import forms
from django.contrib import admin
from django.contrib.admin import FieldListFilter
from django.contrib.admin import ModelAdmin as DjangoModelAdmin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import ActionLocation, IncorrectLookupParameters
from django.contrib.admin.views.main import SEARCH_VAR
from django.contrib.admin.widgets import AutocompleteSelect
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError as InvalidKey
from django.core.paginator import Paginator
from django.db import models, transaction
from django.db.models import CASCADE, DB_CASCADE, Model, QuerySet
from django.forms import ModelForm, model_to_dict
from django.http import HttpRequest
from django.utils.functional import cached_property
from pydantic import ValidationError
from unfold import decorators
from unfold.admin import ModelAdmin
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from contextopt.inputs import Input, field_problems
from contextopt.people.audit import note_event, note_everywhere

COUNTED_MAX = 10_000
DELETING = (CASCADE, DB_CASCADE)

type Named = list[str | list[str]]
"""The rows to be deleted, each followed by a list of notes on it."""


def display[F: Callable[..., Any]](**options: Any) -> Callable[[F], F]:
    """Wrap Unfold's decorator, which lacks types."""
    return cast("Callable[[F], F]", decorators.display(**options))


def action[F: Callable[..., Any]](**options: Any) -> Callable[[F], F]:
    """Wrap Unfold's decorator, which lacks types."""
    return cast("Callable[[F], F]", decorators.action(**options))


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts and pages through at most ten thousand rows. Beyond that, filters work better than paging."""

    @cached_property
    def count(self) -> int:
        rows = self.object_list
        return rows.order_by()[:COUNTED_MAX].count() if isinstance(rows, QuerySet) else len(rows)


class KeySelect(AutocompleteSelect):
    """Leaves out what is no key. Django would look it up to show the form again."""

    def optgroups(self, name: str, value: Sequence[str], attr: dict[str, Any] | None = None) -> list[Any]:
        keys = [each for each in value if is_key(self.field.target_field, each)]
        return super().optgroups(name, keys, attr)


class BaseAdmin(ModelAdmin):  # type: ignore[misc]
    """A list that stays fast however large its table is.

    It does not load the columns in `list_defer`. No page loads those in `always_defer`.
    """

    list_defer: tuple[str, ...] = ()
    always_defer: tuple[str, ...] = ()
    show_full_result_count = False
    list_disable_select_all = True
    list_per_page = 50
    list_max_show_all = 50
    list_fullwidth = True
    paginator = BoundedPaginator
    list_filter_submit = False
    formfield_overrides = {ArrayField: {"widget": UnfoldAdminTextInputWidget}}  # noqa: RUF012

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request).defer(*self.always_defer)
        match, model = request.resolver_match, self.opts
        is_list = match and match.url_name == f"{model.app_label}_{model.model_name}_changelist"
        return rows.defer(*self.list_defer) if is_list else rows

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Return the list, unless a filter or a chosen row is handmade and the database cannot compare it."""
        filters = [text for name, texts in request.GET.lists() for text in texts if name != SEARCH_VAR]
        chosen = request.POST.getlist(ACTION_CHECKBOX_NAME)
        if any("\0" in text for text in filters) or not all(is_key(self.opts.pk, each) for each in chosen):
            raise IncorrectLookupParameters
        return super().get_changelist_instance(request)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        found: tuple[QuerySet[Any], bool] = super().get_search_results(
            request, queryset, search_term.replace("\0", "")
        )
        return found

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        return super().get_object(request, object_id, from_field) if is_key(self.opts.pk, object_id) else None

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name in self.autocomplete_fields:
            kwargs["widget"] = KeySelect(db_field, self.admin_site)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_action_choices(
        self,
        request: HttpRequest,
        default_choices: list[tuple[str, str]] | None = None,
        action_location: ActionLocation = ActionLocation.CHANGE_LIST,
    ) -> list[tuple[str, str]]:
        # Unfold's override lacks the parameter that Django 6.1 passes. All it adds is this label.
        choices = default_choices or [("", "Select action")]
        return DjangoModelAdmin.get_action_choices(self, request, choices, action_location)


class OwnerAdmin(BaseAdmin):
    """Rows that own many others. The database deletes those with them."""

    def notes_on_deletion(self, obj: Any) -> Iterable[str]:
        """Return what the deletion of the row changes elsewhere, and what stays."""
        return ()

    def get_deleted_objects(
        self, objs: Sequence[Model], request: HttpRequest
    ) -> tuple[Named, dict[str, int], set[str], list[str]]:
        """Count everything that goes: listing it could load a million rows."""
        rows = list(objs)
        return name_rows(rows, self.notes_on_deletion), count_owned(rows), set(), []


def count_owned(rows: Sequence[Model]) -> dict[str, int]:
    """Return how many rows of each table are deleted with these, by the table's name.

    The tables that the product itself maintains are left out.
    """
    if not rows:
        return {}
    counts = {str(rows[0]._meta.verbose_name_plural): len(rows)}
    keys = [row.pk for row in rows]
    # The admin site is our own: see contextopt/adminsite.py.
    site: Any = admin.site
    for model, path in _owned_tables(type(rows[0])):
        if site.is_in_menu(model):
            number = model._base_manager.filter(**{f"{path}__in": keys}).count()
            name = str(model._meta.verbose_name_plural)
            counts |= {name: number} if number else {}
    return counts


def _owned_tables(owner: type[Model]) -> Iterator[tuple[type[Model], str]]:
    """Yield each table whose rows are deleted with the owner's, with the shortest way to the owner."""
    known: set[Any] = {owner}
    waiting: deque[tuple[Any, str]] = deque([(owner, "")])
    while waiting:
        model, way = waiting.popleft()
        for relation in model._meta.related_objects:
            if relation.on_delete in DELETING and relation.related_model not in known:
                path = f"{relation.field.name}__{way}" if way else relation.field.name
                known.add(relation.related_model)
                waiting.append((relation.related_model, path))
                yield relation.related_model, path


def name_rows(rows: Iterable[Model], notes: Callable[[Any], Iterable[str]]) -> Named:
    """Return the rows' names with the notes on each."""
    named: Named = []
    for row in rows:
        named += [str(row), list(notes(row))]
    return named


class LoggedAdmin(BaseAdmin):
    """Rows that are edited in place. The log of changes keeps their values before and after."""

    logged_as = "rules.changed"

    def teams_of(self, obj: Any) -> Iterable[int] | None:
        """Return the teams whose logs have the row's changes, or None if all have them."""
        return [obj.team_id] if hasattr(obj, "team_id") else None

    def save_model(self, request: HttpRequest, obj: Any, form: "ModelForm[Any]", change: bool) -> None:
        stored = type(obj)._default_manager.filter(pk=obj.pk).first() if change else None
        form.stored_values = _values(stored) if stored else {}  # type: ignore[attr-defined]
        super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Log the change once everything is saved, lists of other rows too."""
        super().save_related(request, form, formsets, change)
        before, after = form.stored_values, _values(form.instance)
        if before != after:
            self.note(request, form.instance, before=before, after=after)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.note(request, obj, before=_values(obj))
        super().delete_model(request, obj)

    @transaction.atomic
    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            self.delete_model(request, row)

    def note(self, request: HttpRequest, obj: Any, **values: dict[str, Any]) -> None:
        change: dict[str, Any] = {
            "actor": actor(request),
            "action": self.logged_as,
            "subject": f"{self.opts.verbose_name}: {obj}",
            **values,
        }
        teams = self.teams_of(obj)
        if teams is None:
            note_everywhere(**change)
        for team_id in teams or ():
            note_event(team_id=team_id, **change)


class RulesAdmin(LoggedAdmin):
    """A team's rules."""

    list_select_related = ("team",)
    autocomplete_fields = ("team",)

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        return () if obj is None else ("team",)

    def save_model(self, request: HttpRequest, obj: Any, form: "ModelForm[Any]", change: bool) -> None:
        if hasattr(obj, "updated_by"):
            obj.updated_by = actor(request)
        super().save_model(request, obj, form, change)


# The log itself says who made a change and when. It has no secrets.
UNLOGGED = ("id", "team", "created_by", "updated_by", "password", "last_login", "date_joined")


def _values(row: Model) -> dict[str, Any]:
    return {name: value for name, value in model_to_dict(row).items() if name not in UNLOGGED}


class AddOnlyAdmin(BaseAdmin):
    """Rows that can be added, but never edited or deleted."""

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class ViewOnlyAdmin(AddOnlyAdmin):
    """Rows that the product itself maintains: read-only."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False


type Filters = Sequence[str | tuple[str, type[FieldListFilter]]]


def view_only(
    model: type[Model],
    columns: str,
    *,
    links: str = "",
    computed: Sequence[Callable[[Any], str]] = (),
    related: str = "",
    filters: str | Filters = "",
    search: str = "",
    search_help: str = "",
    order: str = "-id",
    shown: str = "",
    hidden: str = "",
    not_listed: str = "",
) -> None:
    """Register a table that the product itself maintains. Names are separated by spaces.

    A row's page shows all of the row, or only `shown`. `hidden` is never loaded: with it, the page shows the
    columns of the list if `shown` is empty. The list does not load `not_listed`.

    Args:
        links: the columns that link to the row; the first if empty.
        computed: columns that are not fields, named by their functions.
        related: tables to join besides those that columns refer to.
    """
    joined = {field.name for field in model._meta.concrete_fields if field.is_relation}
    names = tuple(columns.split())
    options = {
        "list_display": names,
        "list_display_links": tuple(links.split()),
        "readonly_fields": tuple(column.__name__ for column in computed),
        "list_select_related": (*(name for name in names if name in joined), *related.split()),
        "list_filter": filters.split() if isinstance(filters, str) else filters,
        "search_fields": search.split(),
        "search_help_text": search_help,
        "ordering": order.split(),
        "fields": shown.split() or (names if hidden else None),
        "always_defer": hidden.split(),
        "list_defer": not_listed.split(),
        **{column.__name__: staticmethod(column) for column in computed},
    }
    admin.site.register(model, type(f"{model.__name__}Admin", (ViewOnlyAdmin,), options))


class PurgeForm(BaseDialogForm):  # type: ignore[misc]
    confirm = forms.BooleanField(label="Erase this text for good", widget=UnfoldBooleanWidget, required=True)


def actor(request: HttpRequest) -> str:
    """Return the caller's name in revisions and logs."""
    return f"user:{request.user.get_username()}"


def check_input(form: "ModelForm[Any]", schema: type[Input], values: dict[str, Any]) -> None:
    """Add the product's own validation errors to the form's fields, so that saving cannot fail on them."""
    try:
        schema.model_validate(values)
    except ValidationError as error:
        for problem in field_problems(error):
            name = problem.field.partition(".")[0]
            form.add_error(name if name in form.fields else None, problem.message)


def keep_untouched(form: "ModelForm[Any]", name: str, value: list[str]) -> list[str]:
    """Return the stored list if the form sent back exactly what it showed: an item may contain a comma."""
    stored: list[str] | None = form.initial.get(name)
    shown = form.fields[name].prepare_value(stored)
    return stored if stored is not None and form.data.get(form.add_prefix(name)) == shown else value


def become(obj: Model, saved: Model) -> None:
    """Copy the fields of the object saved by the product's own function to the form's object."""
    for field in saved._meta.concrete_fields:
        if isinstance(field, models.GeneratedField):
            continue
        setattr(obj, field.attname, getattr(saved, field.attname))
    obj._state.adding = False


def is_key(field: Any, text: str) -> bool:
    """Return whether a text can be a value of a key."""
    with contextlib.suppress(InvalidKey):
        field.to_python(text)
        return "\0" not in text
    return False


def percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"
