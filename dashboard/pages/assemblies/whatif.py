"""The page What if: a logged context computed again under other settings, beside the original."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from contextopt.assemblies.inputs import ReplayIn
from contextopt.assemblies.models import Assembly, EntryJson, Kind
from contextopt.assemblies.placement.modelcatalog import PriceBook
from contextopt.assemblies.replay.replay import PromptCost, Replay, cost_of, replay_assembly, replayed_sizes
from contextopt.assemblies.verify import read_config
from contextopt.engine.settings import SETTINGS, ContextConfig
from contextopt.errors import PRODUCT_ERRORS, Conflict, InvalidInput
from contextopt.inputs import INT_MAX, read_digits
from contextopt.people.models import Role
from contextopt.spaces.configs import (
    draft_settings,
    find_config,
    given_settings,
    publish_settings,
)
from contextopt.spaces.forms import read_settings, setting_fields, shown_settings
from contextopt.spaces.inputs import SettingsIn
from dashboard.kit.charts.shapes import Segment, bar_of_assembly, bar_of_result, part_legend, score_parts
from dashboard.kit.formats import reason_words, setting_label, setting_words
from dashboard.kit.forms import InputForm
from dashboard.kit.inspector import Titled, find_titles, title_of, weights_of
from dashboard.kit.permissions import TeamRequest, as_404, get_assembly, page_for
from dashboard.kit.responses import render_page
from dashboard.pages.assemblies.comparison import align
from dashboard.pages.spaces.configs import announce_published


class WhatIfForm(InputForm[SettingsIn]):
    """The settings of one stage. Only changed ones are tried, so the others stay what they were."""

    input_type = SettingsIn

    def __init__(self, data: Mapping[str, Any], *, config: ContextConfig, is_asked: bool) -> None:
        stage = config.stage if is_asked else config.without_question().stage
        names = [name for name, setting in SETTINGS.items() if setting.decides_in(stage)]
        shown = shown_settings(config)
        initial = {name: _without_zeros(shown[name]) for name in names}
        # A link names only the changed settings.
        given = {name: data.get(name, initial[name]) for name in names} if {*names} & {*data} else None
        super().__init__(given, initial=initial)
        fields = setting_fields()
        self.fields = {name: fields[name] for name in names}
        for name, field in self.fields.items():
            field.help_text = ""
            if not field.required:
                field.widget.attrs["placeholder"] = SETTINGS[name].blank
            present = initial[name]
            # A request may have given a value that a space may not have.
            if isinstance(field, forms.ChoiceField) and not field.valid_value(present):
                field.choices = [(present, str(present)), *field.widget.choices]

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        return read_settings({name: cleaned[name] for name in self.changed_data})

    @property
    def changes(self) -> list["ChangedSetting"]:
        """Return the changed settings, each with the query string that takes it back."""
        if not self.is_bound or not self.is_valid():
            return []
        return [
            ChangedSetting(
                setting_label(name),
                setting_words(self.initial[name], name),
                setting_words(self.cleaned_data[name], name),
                self.query(without=name),
            )
            for name in self.changed_data
        ]

    @property
    def changed_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.changed_data]

    def query(self, *, without: str = "") -> str:
        """Return the changed settings as a query string."""
        return urlencode({name: self[name].value() for name in self.changed_data if name != without})

    def to_request(self, version: int | None) -> ReplayIn:
        settings = self.value if self.is_bound else SettingsIn()
        assert isinstance(settings, SettingsIn)
        return ReplayIn.model_construct(config=version, settings=settings)


def _without_zeros(value: Any) -> Any:
    """Return a decimal without zeros at its end."""
    return value.normalize() + 0 if isinstance(value, Decimal) else value


@dataclass(frozen=True, slots=True)
class ChangedSetting:
    """A changed setting: its label, its values, and the query string without it."""

    label: str
    before: str
    after: str
    without: str


TEMPLATE = "dashboard/what_if.html"
VERSIONS_OFFERED = 30


@dataclass(frozen=True, slots=True)
class MovedRow:
    """A record that enters or leaves, with its ranks and its score in the replay."""

    id: int
    title: str
    space_slug: str
    is_in: bool
    ranks: str
    reason: str
    tokens: int
    parts: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """The settings that a visitor tries on a logged context."""

    assembly: Assembly
    version: int | None
    form: WhatIfForm

    @classmethod
    def of(cls, assembly: Assembly, data: Mapping[str, Any]) -> "Tried":
        """Read them from the query string or the posted form. An unreadable version counts as none.

        Raises:
            NotFound: the space has no such version.
        """
        version = read_digits(str(data.get("config", "")), INT_MAX) or None
        config, is_asked = read_config(assembly.payload.config), bool(assembly.payload.request.get("query"))
        if version is not None:
            again = replay_assembly(assembly, ReplayIn(config=version))
            config = again.config or config
        return cls(assembly, version, WhatIfForm(data, config=config, is_asked=is_asked))


def _get_context(request: TeamRequest, assembly_id: int) -> Assembly:
    found = get_assembly(request, assembly_id, "config", "payload", "team")
    if found.kind != Kind.SPACE or found.space is None or found.stored_payload is None:
        raise Http404(f"Assembly {assembly_id} is not the context of a space.")
    return found


@page_for(Role.VIEWER, "GET", _get_context)
def what_if(request: TeamRequest, found: Assembly) -> HttpResponse:
    """Show the context under the settings being tried, beside the original."""
    with as_404():
        tried = Tried.of(found, request.GET)
    versions = found.space.configs.order_by("-version")[:VERSIONS_OFFERED] if found.space else ()
    context = {
        "assembly": found,
        "question": found.payload.request.get("query", ""),
        "form": tried.form,
        "version": tried.version,
        "versions": versions,
        **_outcome(tried, request),
    }
    return render_page(request, TEMPLATE, context, partials=("outcome",))


def _outcome(tried: Tried, request: TeamRequest) -> dict[str, Any]:
    if tried.form.is_bound and not tried.form.is_valid():
        return {"refused": "Correct the settings to see the context under them."}
    try:
        data = tried.form.to_request(tried.version)
        again = replay_assembly(tried.assembly, data)
    except PRODUCT_ERRORS as error:
        return {"refused": str(error)}
    if again.result is None:
        return {"replay": again}
    return {"replay": again, **_comparison(again, data, request)}


def _comparison(again: Replay, data: ReplayIn | None, request: TeamRequest) -> dict[str, Any]:
    assert again.result is not None
    assert again.config is not None
    row, result = again.assembly, again.result
    before, after = row.payload.entries, list(result.entries)
    titles = find_titles([*before, *after], request.team.pk)
    return {
        "result": result,
        "lines": align(row.payload.text, result.text),
        "bars": (bar_of_assembly(row), bar_of_result(result)),
        "moved": list(_moved(again, before, after, titles)),
        "parts": part_legend(after[0]["parts"] if after else ()),
        "costs": _costs(again, data),
        "saved_tokens": row.tokens_after - result.certificate.total_tokens,
    }


def _costs(again: Replay, data: ReplayIn | None) -> tuple[PromptCost, PromptCost] | None:
    """Return what the prompt cost and would cost after the provider's cache, if its conversation is known."""
    book, sizes = PriceBook(), replayed_sizes(again, data)
    before = cost_of(again.assembly, again.assembly.split, book)
    after = cost_of(again.assembly, sizes.split if sizes else None, book)
    return (before, after) if before and after else None


def _moved(
    again: Replay, before: list[EntryJson], after: list[EntryJson], titles: Mapping[int, Titled]
) -> Iterator[MovedRow]:
    """Yield the records that enter, then those that leave, best first."""
    assert again.config is not None
    weights = weights_of(again.config.to_json())
    was, now = (
        {entry["id"]: (rank, entry) for rank, entry in enumerate(side, 1)} for side in (before, after)
    )
    scores = [sum(value * weights[name] for name, value in entry["parts"].items()) for entry in after]
    best = max(scores, default=0.0)
    for record_id, is_in in [*((one, True) for one in again.added), *((one, False) for one in again.removed)]:
        ranks = [side[record_id][0] if record_id in side else None for side in (was, now)]
        entry = (now if record_id in now else was)[record_id][1]
        lost = was if is_in else now
        reason = lost[record_id][1]["reason"] if record_id in lost else ""
        titled = title_of(record_id, titles)
        yield MovedRow(
            record_id,
            titled.title,
            titled.space_slug,
            is_in,
            " → ".join("–" if rank is None else str(rank) for rank in ranks),
            reason_words(reason) if reason else "was not considered" if is_in else "",
            entry["tokens"],
            score_parts(entry["parts"], weights, best) if record_id in now else (),
        )


@page_for(Role.EDITOR, "POST", _get_context)
def what_if_save(request: TeamRequest, found: Assembly) -> HttpResponse:
    """Save the settings being tried as a draft of the space's settings, or publish them."""
    space = found.space
    assert space is not None
    with as_404():
        tried = Tried.of(found, request.POST)
        base = found.config if tried.version is None else find_config(space, tried.version)
    back = f"{reverse('dashboard:assembly_what_if', args=[found.pk])}?{tried.form.query()}"
    if not tried.form.is_bound or not tried.form.is_valid() or not tried.form.changed_data:
        messages.info(request, "Nothing was changed, so there is nothing to save.")
        return redirect(back)
    # The next version takes over the other settings of this one.
    base = base or space.configs.active().get()
    settings = base.settings.values() | given_settings(tried.form.value)
    note = f"Tried on assembly {found.pk}, based on v{base.version}."
    before, publishes = space.configs.active().get().version, request.POST.get("action") == "publish"
    save = publish_settings if publishes else draft_settings
    try:
        config = save(space=space, created_by=request.actor, note=note, **settings)
    except (InvalidInput, Conflict) as error:
        messages.error(request, f"Not {'published' if publishes else 'saved'}: {error}")
        return redirect(back)
    if publishes:
        announce_published(request, space, config.version, before=before)
    else:
        messages.success(request, f"Version {config.version} is saved as a draft. Publish it to use it.")
    return redirect(f"{reverse('dashboard:space_settings', args=[space.slug])}#version-{config.version}")
