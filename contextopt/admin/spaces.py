# ruff: noqa: ARG002 - the hooks have the signatures that Django gives them
"""Spaces and records. Every change of a record keeps its revision, summary and counters up to date."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect
from unfold.enums import ActionVariant

from contextopt.admin.base import (
    Named,
    OwnerAdmin,
    PurgeForm,
    action,
    actor,
    become,
    check_input,
    display,
    keep_untouched,
    name_rows,
)
from contextopt.assemblies.purge import purge_record
from contextopt.engine.wording import plural
from contextopt.errors import PurgedRecord
from contextopt.people.models import ApiKey
from contextopt.spaces import records
from contextopt.spaces.inputs import RecordIn, RecordPatch, SpaceIn, SpacePatch
from contextopt.spaces.models import Record, Space
from contextopt.spaces.spaces import create_space, delete_space, update_space

SPACE_FIELDS = ("name", "description", "categories")


class SpaceForm(ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Space
        fields = ("team", "slug", *SPACE_FIELDS)

    def clean_categories(self) -> list[str]:
        return keep_untouched(self, "categories", self.cleaned_data["categories"])

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        values = {name: data[name] for name in ("slug", *SPACE_FIELDS) if name in data}
        check_input(self, SpaceIn, {"slug": self.instance.slug, **values})
        return data


@admin.register(Space)
class SpaceAdmin(OwnerAdmin):
    form = SpaceForm
    list_display = ("name", "slug", "team", "live", "pinned", "deleted", "is_demo", "created_at")
    list_filter = ("team", "is_demo")
    list_select_related = ("team", "counts")
    search_fields = ("name", "slug")
    autocomplete_fields = ("team",)
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Space]:
        spaces: QuerySet[Space] = super().get_queryset(request)
        return spaces.select_related("team", "counts")

    def get_readonly_fields(self, request: HttpRequest, obj: Space | None = None) -> tuple[str, ...]:
        return () if obj is None else ("team", "slug", "live", "pinned", "deleted", "is_demo", "created_at")

    def get_fields(self, request: HttpRequest, obj: Space | None = None) -> tuple[str, ...]:
        shown = ("team", "slug", *SPACE_FIELDS)
        return shown if obj is None else (*shown, "live", "pinned", "deleted", "is_demo", "created_at")

    def save_model(self, request: HttpRequest, obj: Space, form: "ModelForm[Space]", change: bool) -> None:
        given = {name: form.cleaned_data[name] for name in SPACE_FIELDS}
        if change:
            update_space(space=obj, changes=SpacePatch(**given), actor=actor(request))
        else:
            data = SpaceIn(slug=obj.slug, **given)
            become(obj, create_space(team=obj.team, data=data, actor=actor(request)))

    def notes_on_deletion(self, obj: Space) -> Iterator[str]:
        memories: int = obj.memories.filter(purged_at=None).count()
        if memories:
            yield f"{plural(memories, 'memory', 'memories')} of the space will be purged."
        keys = ApiKey.objects.filter(space_ids__contains=[obj.pk]).count()
        if keys:
            yield f"{plural(keys, 'API key')} limited to it {'loses' if keys == 1 else 'lose'} it."
        yield (
            "Agents' contexts and kept answers that used its records lose their text and keep their figures."
        )
        yield "The change log keeps the space's name. There is no undo."

    @method_decorator(csrf_protect)
    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        # Django's own runs in one transaction, but a large space is deleted in several.
        response: HttpResponse = self._delete_view(request, object_id, extra_context)
        return response

    def delete_model(self, request: HttpRequest, obj: Space) -> None:
        delete_space(space=obj, actor=actor(request))

    @display(description="Live records", ordering="counts__live")
    def live(self, space: Space) -> int:
        return space.counts.live

    @display(description="Pinned", ordering="counts__pinned")
    def pinned(self, space: Space) -> int:
        return space.counts.pinned

    @display(description="Deleted", ordering="counts__deleted")
    def deleted(self, space: Space) -> int:
        return space.counts.deleted


class RecordForm(ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Record
        fields = ("space", *records.CONTENT, "source", "external_id")

    def clean_tags(self) -> list[str]:
        return keep_untouched(self, "tags", self.cleaned_data["tags"])

    def clean_date(self) -> datetime:
        # The form shows whole seconds; an untouched date keeps its fraction.
        date: datetime = self.cleaned_data["date"]
        stored = self.initial.get("date")
        if isinstance(stored, datetime) and stored.replace(microsecond=0) == date:
            return stored
        return date

    def clean_notes(self) -> str:
        # Browsers send line breaks as CR LF; saving an untouched form must not change the record.
        return str(self.cleaned_data["notes"]).replace("\r\n", "\n")

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        check_input(self, RecordIn, {name: value for name, value in data.items() if name != "space"})
        return data


@admin.register(Record)
class RecordAdmin(OwnerAdmin):
    form = RecordForm
    list_display = ("title", "space", "type", "date", "view_count", "pinned", "summary_tokens", "state")
    list_filter = ("space", "type", "pinned", ("deleted_at", admin.EmptyFieldListFilter))
    list_select_related = ("space",)
    search_fields = ("title", "=external_id")
    search_help_text = "Part of the title, or a whole external ID."
    autocomplete_fields = ("space",)
    ordering = ("-id",)
    list_defer = ("notes", "metadata")
    actions = ("restore",)
    actions_detail = ("purge",)
    computed = (
        "view_count", "last_viewed_at", "summary", "summary_tokens", "summary_encoding", "deleted_at",
        "purged_at", "created_at", "updated_at",
    )  # fmt: skip

    def get_fields(self, request: HttpRequest, obj: Record | None = None) -> tuple[str, ...]:
        fields = tuple(RecordForm.Meta.fields)
        return fields if obj is None else (*fields, *self.computed)

    def get_readonly_fields(self, request: HttpRequest, obj: Record | None = None) -> tuple[str, ...]:
        return () if obj is None else ("space", "source", "external_id", *self.computed)

    def has_change_permission(self, request: HttpRequest, obj: Record | None = None) -> bool:
        if obj is not None and obj.purged_at is not None:
            return False
        return bool(super().has_change_permission(request, obj))

    def save_model(self, request: HttpRequest, obj: Record, form: "ModelForm[Record]", change: bool) -> None:
        data = form.cleaned_data
        if change:
            changes = {name: data[name] for name in form.changed_data if name in records.CONTENT}
            saved = records.update_record(record=obj, changes=RecordPatch(**changes), actor=actor(request))
        else:
            given = {name: value for name, value in data.items() if name != "space"}
            saved = records.create_record(space=obj.space, data=RecordIn(**given), actor=actor(request))
        become(obj, saved)

    def get_deleted_objects(
        self, objs: Sequence[Model], request: HttpRequest
    ) -> tuple[Named, dict[str, int], set[str], list[str]]:
        named = name_rows(
            objs, lambda _: ["Its text and history stay until it is purged. It can be restored."]
        )
        return named, {str(self.opts.verbose_name_plural): len(objs)}, set(), []

    def delete_model(self, request: HttpRequest, obj: Record) -> None:
        records.delete_record(record=obj, actor=actor(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Record]) -> None:
        for record in queryset.select_related("space"):
            records.delete_record(record=record, actor=actor(request))

    @action(description="Restore selected", permissions=["change"])
    def restore(self, request: HttpRequest, queryset: QuerySet[Record]) -> None:
        restored = 0
        deleted = queryset.filter(deleted_at__isnull=False).select_related("space")
        for record in deleted.defer("notes", "metadata").iterator():
            try:
                records.restore_record(record=record, actor=actor(request))
                restored += 1
            except PurgedRecord:
                messages.error(request, f"Record {record.pk} was purged and cannot be restored.")
        messages.success(request, f"{restored} restored.")

    @action(
        description="Purge",
        permissions=["delete"],
        variant=ActionVariant.DANGER,
        dialog={
            "title": "Purge this record?",
            "description": "Erases its text from the record, its history and all assemblies. No undo.",
            "form_class": PurgeForm,
            "form_submit_text": "Purge",
        },
    )
    def purge(self, request: HttpRequest, form: PurgeForm, object_id: str) -> HttpResponse:
        record = get_object_or_404(Record.objects.select_related("space"), pk=object_id)
        self.log_change(request, purge_record(record=record, actor=actor(request)), "Purged.")
        messages.success(request, "The record's text has been erased.")
        # htmx sends the dialog and follows this header.
        address = reverse(f"{self.admin_site.name}:contextopt_record_change", args=[record.pk])
        return HttpResponse(headers={"HX-Redirect": address})

    @display(description="State", label={"live": "success", "deleted": "warning", "purged": "danger"})
    def state(self, record: Record) -> str:
        if record.purged_at is not None:
            return "purged"
        return "deleted" if record.is_deleted else "live"
