# ruff: noqa: ARG002 - the hooks have the signatures that Django gives them
"""Teams, people and keys."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Count, Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from unfold.admin import TabularInline
from unfold.forms import AdminPasswordChangeForm, PaginationInlineFormSet, UserChangeForm, UserCreationForm

from contextopt.admin.base import (
    BaseAdmin,
    LoggedAdmin,
    Named,
    OwnerAdmin,
    action,
    actor,
    become,
    display,
)
from contextopt.people.inputs import KeyIn
from contextopt.people.keys import change_key, create_key, revoke_key
from contextopt.people.members import (
    LAST_ADMIN,
    delete_team,
    find_last_admins,
    note_added,
    note_changed,
    note_created,
    note_password,
    note_removed,
    update_team,
)
from contextopt.people.models import ApiKey, Membership, Role, Team, User
from contextopt.search import registry
from contextopt.search.wordcounts import drop_gone_corpora

admin.site.unregister(Group)


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, LoggedAdmin):  # type: ignore[misc]
    logged_as = "group.changed"


class UserForm(UserChangeForm):  # type: ignore[misc]
    def clean_is_active(self) -> bool:
        is_active = bool(self.cleaned_data["is_active"])
        if not is_active and find_last_admins(_ids(self.instance.memberships.all())):
            self.add_error("is_active", LAST_ADMIN)
        return is_active


class MembershipForm(ModelForm):  # type: ignore[type-arg]
    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.instance.pk is None:
            return cleaned
        is_moved = cleaned.get("team") != self.instance.team
        if (is_moved or not gives_admin(self)) and find_last_admins([self.instance.pk]):
            self.add_error("team" if is_moved else "role", LAST_ADMIN)
        return cleaned


def gives_admin(form: "ModelForm[Membership]") -> bool:
    """Return whether the form's member is an admin who can log in."""
    user: User | None = form.cleaned_data.get("user")
    return form.cleaned_data.get("role") == Role.ADMIN and user is not None and user.is_active


def _ids(members: QuerySet[Membership]) -> list[int]:
    return list(members.values_list("pk", flat=True))


class AdminKeeper(OwnerAdmin):
    """Refuses to delete rows if that would leave a team without an admin."""

    def memberships_of(self, rows: Sequence[Any]) -> QuerySet[Membership]:
        """Return the memberships that are deleted with the rows."""
        raise NotImplementedError

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        # Django checks the selected rows and deletes them without a transaction around both.
        with transaction.atomic():
            response: HttpResponse = super().changelist_view(request, extra_context)
        return response

    def get_deleted_objects(
        self, objs: Sequence[Model], request: HttpRequest
    ) -> tuple[Named, dict[str, int], set[str], list[str]]:
        named, counts, forbidden, protected = super().get_deleted_objects(objs, request)
        if str(Membership._meta.verbose_name_plural) in counts and not request.user.has_perm(
            "contextopt.delete_membership"
        ):
            forbidden = {str(Membership._meta.verbose_name)}
        # Only a POST has a transaction, which keeps the teams locked until the rows are gone.
        with transaction.atomic():
            last = find_last_admins(_ids(self.memberships_of(objs)))
        return named, counts, forbidden, [*protected, *(f"{member}. {LAST_ADMIN}" for member in last)]


@admin.register(User)
class UserAdmin(DjangoUserAdmin, AdminKeeper, LoggedAdmin):  # type: ignore[type-arg,misc]
    logged_as = "user.changed"
    form = UserForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm

    def memberships_of(self, rows: Sequence[User]) -> QuerySet[Membership]:
        return Membership.objects.filter(user__in=rows)

    def notes_on_deletion(self, obj: User) -> tuple[str, ...]:
        stays = "The user's teams, and what they wrote there, stay under their name."
        return (stays, "To keep the account and lock them out, make it inactive instead.")

    def teams_of(self, obj: User) -> Iterable[int]:
        return list(obj.memberships.values_list("team_id", flat=True))

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        response = super().user_change_password(request, id, form_url)
        if request.method == "POST" and response.status_code == HTTPStatus.FOUND:
            note_password(user=User.objects.get(pk=id), actor=actor(request))
        return response

    def delete_model(self, request: HttpRequest, obj: User) -> None:
        for membership in obj.memberships.all():
            note_removed(membership=membership, actor=actor(request))
        super(LoggedAdmin, self).delete_model(request, obj)


class MembershipFormSet(PaginationInlineFormSet):  # type: ignore[misc]
    def clean(self) -> None:
        super().clean()
        touched = [form for form in self.forms if self._should_delete_form(form) or form.has_changed()]
        if any(gives_admin(form) for form in touched if not self._should_delete_form(form)):
            return
        last = find_last_admins([form.instance.pk for form in touched if form.instance.pk])
        for form in touched:
            if form.instance in last:
                self._refuse(form)

    def _refuse(self, form: "ModelForm[Membership]") -> None:
        # Errors of a form marked for deletion are not displayed.
        if self._should_delete_form(form):
            raise ValidationError(LAST_ADMIN)
        form.add_error("role", LAST_ADMIN)


class MembershipInline(TabularInline):  # type: ignore[misc]
    model = Membership
    formset = MembershipFormSet
    extra = 0
    autocomplete_fields = ("user",)


@admin.register(Team)
class TeamAdmin(OwnerAdmin):
    list_display = ("name", "slug", "time_zone", "member_count", "space_count", "created_at")
    # Also orders the choices in other forms, which load in pages.
    ordering = ("name",)
    search_fields = ("name", "slug")
    fields = ("name", "slug", "time_zone", "date_order")
    prepopulated_fields = {"slug": ("name",)}  # noqa: RUF012
    inlines = (MembershipInline,)

    def save_model(self, request: HttpRequest, obj: Team, form: "ModelForm[Team]", change: bool) -> None:
        if change:
            fields = {name: form.cleaned_data[name] for name in form.changed_data}
            update_team(team=obj, fields=fields, actor=actor(request))
        else:
            super().save_model(request, obj, form, change)
            note_created(team=obj, actor=actor(request))

    def save_formset(self, request: HttpRequest, form: "ModelForm[Team]", formset: Any, change: bool) -> None:
        formset.save()
        who = actor(request)
        for member in formset.new_objects:
            note_added(membership=member, actor=who)
        changed = {member.pk for member, _fields in formset.changed_objects}
        for row in formset.initial_forms:
            if row.instance.pk in changed:
                note_changed(membership=row.instance, before=_as_it_was(row), actor=who)
        for member in formset.deleted_objects:
            note_removed(membership=member, actor=who)

    def notes_on_deletion(self, obj: Team) -> tuple[str, ...]:
        return ("Members keep their accounts. The team's change log goes with it. There is no undo.",)

    def delete_model(self, request: HttpRequest, obj: Team) -> None:
        delete_team(team=obj)
        for searchable in registry.all():
            drop_gone_corpora(searchable)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Team]) -> None:
        for team in queryset:
            self.delete_model(request, team)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Team]:
        teams: QuerySet[Team] = super().get_queryset(request)
        return teams.annotate(
            members=Count("memberships", distinct=True), owned_spaces=Count("spaces", distinct=True)
        )

    @display(description="Members", ordering="members")
    def member_count(self, team: Any) -> int:
        return int(team.members)

    @display(description="Spaces", ordering="owned_spaces")
    def space_count(self, team: Any) -> int:
        return int(team.owned_spaces)


@admin.register(Membership)
class MembershipAdmin(AdminKeeper):
    form = MembershipForm
    list_display = ("user", "team", "role", "created_at")
    list_filter = ("role", "team")
    list_select_related = ("user", "team")
    search_fields = ("user__username", "user__email", "team__name")
    autocomplete_fields = ("user", "team")

    def memberships_of(self, rows: Sequence[Membership]) -> QuerySet[Membership]:
        return Membership.objects.filter(pk__in=[row.pk for row in rows])

    def save_model(
        self, request: HttpRequest, obj: Membership, form: "ModelForm[Membership]", change: bool
    ) -> None:
        super().save_model(request, obj, form, change)
        if change:
            note_changed(membership=obj, before=_as_it_was(form), actor=actor(request))
        else:
            note_added(membership=obj, actor=actor(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Membership]) -> None:
        for membership in queryset.select_related("user"):
            self.delete_model(request, membership)

    def delete_model(self, request: HttpRequest, obj: Membership) -> None:
        note_removed(membership=obj, actor=actor(request))
        super().delete_model(request, obj)


def _as_it_was(form: "ModelForm[Membership]") -> Membership:
    """Return the form's membership as it was before the form was filled in."""
    now, then = form.instance, form.initial
    # The inline form on a team's page has no team field.
    team_id = then.get("team", now.team_id)
    return Membership(user_id=then["user"], team_id=team_id, role=then["role"])


class KeyForm(ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = ApiKey
        fields = ("team", "name", "scope", "expires_at")

    def clean_expires_at(self) -> datetime | None:
        moment: datetime | None = self.cleaned_data["expires_at"]
        if self.instance.pk is None and moment is not None and moment <= timezone.now():
            self.add_error("expires_at", "Enter a time in the future.")
        return moment


@admin.register(ApiKey)
class ApiKeyAdmin(BaseAdmin):
    """Keys are revoked, never deleted, because the log names them. The secret is shown once, on creation.

    htmx sends the form and puts the answer into the page, so reloading does not create a second key.
    """

    class Media:
        js = ("js/admin_key.js",)

    form = KeyForm
    list_display = ("name", "team", "scope", "prefix", "state", "last_used_at", "created_at")
    list_filter = ("scope", "team", ("revoked_at", admin.EmptyFieldListFilter))
    list_select_related = ("team",)
    search_fields = ("name", "prefix", "team__name")
    autocomplete_fields = ("team",)
    actions = ("revoke",)
    fields = ("team", "name", "scope", "expires_at")
    readonly = (
        "team", "scope", "spaces", "prefix", "created_by", "created_at", "last_used_at", "revoked_at",
    )  # fmt: skip

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> tuple[str, ...]:
        return self.fields if obj is None else ("name", "expires_at", "requests_per_minute", *self.readonly)

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> tuple[str, ...]:
        return () if obj is None else self.readonly

    def has_delete_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: ApiKey, form: "ModelForm[ApiKey]", change: bool) -> None:
        if change:
            before = {name: form.initial[name] for name in form.changed_data}
            change_key(key=obj, before=before, actor=actor(request))
            return
        data = KeyIn.model_validate({"name": obj.name, "scope": obj.scope, "expires_at": obj.expires_at})
        key, secret = create_key(team=obj.team, data=data, actor=actor(request))
        become(obj, key)
        obj.secret = secret  # type: ignore[attr-defined]

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if request.method == "POST" and not request.htmx:  # type: ignore[attr-defined]
            messages.error(
                request,
                "Creating a key needs JavaScript, because the secret is shown only once. No key was created.",
            )
            return redirect(request.path)
        page: HttpResponse = super().add_view(request, form_url, extra_context)
        return page

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the secret in the response itself: a message would keep it in a cookie or a session."""
        context = {
            **self.admin_site.each_context(request),
            "title": "API key",
            "key": obj,
            "secret": obj.secret,
            "key_url": reverse("admin:contextopt_apikey_change", args=[obj.pk]),
        }
        return TemplateResponse(request, "admin/new_key.html", context)

    @action(description="Revoke", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        for key in queryset:
            revoke_key(key=key, actor=actor(request))
        messages.success(request, "The selected keys are revoked.")

    @display(description="Spaces")
    def spaces(self, key: ApiKey) -> str:
        return ", ".join(key.space_slugs) if key.is_limited else "all"

    @display(description="State", label={"usable": "success", "expired": "warning", "revoked": "danger"})
    def state(self, key: ApiKey) -> str:
        if key.revoked_at is not None:
            return "revoked"
        return "expired" if key.is_expired else "usable"
