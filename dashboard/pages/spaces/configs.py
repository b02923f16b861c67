"""The settings of a space's context, version by version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from pydantic import ValidationError

from contextopt.engine.settings import SETTINGS
from contextopt.errors import Conflict, InvalidInput
from contextopt.inputs import field_problems, read_digits
from contextopt.people.models import Role
from contextopt.spaces.configs import (
    ContextConfig,
    activate_config,
    find_config,
    given_settings,
    publish_config,
)
from contextopt.spaces.inputs import ConfigIn
from contextopt.spaces.models import Space
from contextopt.spaces.presets import PRESETS, Preset
from contextopt.spaces.records import recount_progress
from contextopt.spaces.spaces import update_space
from dashboard.kit.charts.shapes import Bar, allocation_bar
from dashboard.kit.filters import read_text
from dashboard.kit.permissions import TeamRequest, as_404, as_message, get_space, page_for
from dashboard.kit.responses import render_page
from dashboard.pages.spaces.effects import last_context, read_effects
from dashboard.pages.spaces.forms import ConfigForm, SpaceEditForm
from dashboard.pages.spaces.presetcards import (
    PresetCard,
    contexts_without_question,
    preset_cards,
    read_effect,
)
from dashboard.pages.spaces.proofs import (
    Proofs,
    begin_proofs,
    begin_version_proofs,
    read_proofs,
    read_version_proofs,
)


@dataclass(frozen=True, slots=True)
class SettingChange:
    name: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class Version:
    """A version, and its differences from the next older one that was published."""

    config: ContextConfig
    changes: tuple[SettingChange, ...]
    is_first: bool


def compare_versions(newest_first: Sequence[ContextConfig]) -> list[Version]:
    """Compare each version with the next older published one: a draft changes nothing for those after it."""
    compared, older = [], None
    for config in reversed(newest_first):
        compared.append(Version(config, changes_between(older, config), older is None))
        older = older if config.is_draft else config
    return compared[::-1]


def changes_between(older: ContextConfig | None, newer: ContextConfig) -> tuple[SettingChange, ...]:
    """Return the settings that differ."""
    if older is None:
        return ()
    return tuple(
        SettingChange(name, before, after)
        for name in SETTINGS
        if (before := getattr(older.settings, name)) != (after := getattr(newer.settings, name))
    )


def budget_bar(budgets: Mapping[str, Any]) -> Bar:
    """Draw the four budgets; if a total is set, the response gets what is left of it."""
    system, context, history, response = (
        int(budgets.get(f"{part}_tokens") or 0) for part in ("system", "context", "history", "response")
    )
    total = int(budgets.get("total_tokens") or 0) or system + context + history + response
    # Same as the engine: context is reduced first, and the response takes what is left.
    context = max(0, min(context, total - system - history - response))
    response = max(response, total - system - history - context)
    return allocation_bar(system=system, context=context, used=context, history=history, response=response)


VERSIONS_SHOWN = 50
TEMPLATE = "dashboard/space_settings.html"


@page_for(Role.VIEWER, "GET POST", get_space, to_post=Role.EDITOR)
def space_settings(request: TeamRequest, space: Space) -> HttpResponse:
    """Show the settings; a POST publishes the next version."""
    active = space.configs.active().get()
    if request.method == "GET":
        return _render(request, space, ConfigForm(initial=ConfigForm.initial_of(active)))
    form = ConfigForm(request.POST, initial=ConfigForm.initial_of(active))
    if form.is_overtaken and form.changed_settings:
        form.add_error(None, _overtaken(active, form))
        return _render(request, space, form, status=409)
    if not form.is_valid():
        return _render(request, space, form, status=422)
    if not form.changed_settings:
        messages.info(request, "Nothing was changed.")
        return redirect("dashboard:space_settings", space.slug)
    is_draft = request.POST.get("action") == "draft"
    with form.refusals():
        data = form.value.model_copy(update={"draft": is_draft})
        config = publish_config(space=space, data=data, created_by=request.actor)
        if is_draft:
            messages.success(request, f"Version {config.version} is saved as a draft. Publish it to use it.")
            return redirect(f"{request.path}#version-{config.version}")
        announce_published(request, space, config.version, before=active.version)
        return redirect("dashboard:space_settings", space.slug)
    return _render(request, space, form, status=422)


def _overtaken(active: ContextConfig, form: ConfigForm) -> str:
    labels = ", ".join(str(form[name].label) for name in form.changed_settings)
    return (
        f"Version {active.version} was published in the meantime. Publish again to replace it. "
        f"It differs from this form in: {labels}."
    )


@page_for(Role.EDITOR, "POST", get_space)
def settings_try(request: TeamRequest, space: Space) -> HttpResponse:
    """Open What if with the settings being typed, on the last request in whose stage one of them decides."""
    active = space.configs.active().get()
    form = ConfigForm(request.POST, initial=ConfigForm.initial_of(active))
    if not form.is_valid():
        return _render(request, space, form, status=422)
    tried = last_context(space, form.changed_settings)
    if tried is None:
        form.add_error(None, "This space has no requests yet, so there is nothing to try these settings on.")
        return _render(request, space, form, status=422)
    values = {name: form[name].value() for name in form.changed_settings}
    what_if = reverse("dashboard:assembly_what_if", args=[tried])
    return redirect(f"{what_if}?{urlencode({'config': active.version, **values})}")


@page_for(Role.VIEWER, "GET", get_space)
def budget_preview(request: TeamRequest, space: Space) -> HttpResponse:
    """Draw the bar of the budgets being typed."""
    form = ConfigForm(request.GET)
    form.is_valid()
    context = {"space": space, "bar": budget_bar(form.cleaned_data), "form": form}
    return render_page(request, f"{TEMPLATE}#budget", context)


@page_for(Role.VIEWER, "GET", get_space)
def settings_effect(request: TeamRequest, space: Space) -> HttpResponse:
    """Show what the settings being typed would change in the space's last requests."""
    form = ConfigForm(request.GET)
    effects = None
    if form.is_valid():
        effects = read_effects(space, given_settings(form.value), request.actor)
    return render_page(request, f"{TEMPLATE}#effect", {"space": space, "form": form, "effects": effects})


@page_for(Role.EDITOR, "POST", get_space)
def settings_evaluate(request: TeamRequest, space: Space) -> HttpResponse:
    """Evaluate the settings being typed on the space's question sets."""
    form = ConfigForm(request.POST)
    if not form.is_valid():
        return _render_proofs(request, space, read_proofs(space), is_refused=True)
    return _render_proofs(request, space, begin_proofs(space, given_settings(form.value), request.actor))


@page_for(Role.VIEWER, "GET", get_space)
def settings_proof(request: TeamRequest, space: Space) -> HttpResponse:
    """Show how far the evaluations of a draft are."""
    return _render_proofs(request, space, read_proofs(space, read_text(request.GET, "key")))


@page_for(Role.VIEWER, "GET POST", get_space, to_post=Role.EDITOR)
def version_proof(request: TeamRequest, space: Space, version: int) -> HttpResponse:
    """Show how far the evaluations of a stored version are; a POST starts them."""
    with as_404():
        config = find_config(space, version)
    if request.method == "GET":
        return _render_proofs(request, space, read_version_proofs(space, config))
    return _render_proofs(request, space, begin_version_proofs(space, config, request.actor))


def _render_proofs(
    request: TeamRequest, space: Space, proofs: Proofs, *, is_refused: bool = False
) -> HttpResponse:
    context = {"space": space, "proofs": proofs, "is_refused": is_refused}
    return render_page(request, "dashboard/_proofs.html", context)


def announce_published(request: TeamRequest, space: Space, version: int, *, before: int) -> None:
    """Say that the version is published. Undo publishes the version that was active before."""
    undo = reverse("dashboard:space_config_activate", args=[space.slug, before]) if before != version else ""
    messages.success(request, f"Version {version} of the settings published.", extra_tags=undo)


@page_for(Role.EDITOR, "POST", get_space)
def config_activate(request: TeamRequest, space: Space, version: int) -> HttpResponse:
    """Publish a draft or an earlier version."""
    before = space.configs.active().get().version
    with as_message(request, "Not published."), as_404():
        activate_config(space=space, version=version, actor=request.actor)
        announce_published(request, space, version, before=before)
    return redirect("dashboard:space_settings", space.slug)


@page_for(Role.EDITOR, "POST", get_space)
def apply_remedy(request: TeamRequest, space: Space) -> HttpResponse:
    """Publish the one setting that a warning proposes, and return to the page that showed it."""
    before = space.configs.active().get().version
    value = request.POST.get("value", "")
    number = read_digits(value)
    try:
        data = ConfigIn.model_validate({request.POST.get("setting", ""): value if number is None else number})
        config = publish_config(space=space, data=data, created_by=request.actor)
    except ValidationError as error:
        problem = field_problems(error)[0]
        messages.error(request, f"Not changed: {problem.field} {problem.message}.")
    except InvalidInput as error:
        messages.error(request, f"Not changed: {error}.")
    except Conflict as error:
        messages.error(request, f"Not changed. {error}")
    else:
        announce_published(request, space, config.version, before=before)
    back = request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(back, {request.get_host()})
    return redirect(back) if is_ours else redirect("dashboard:space_settings", space.slug)


@page_for(Role.VIEWER, "GET", get_space)
def preset(request: TeamRequest, space: Space, name: str) -> HttpResponse:
    """Show a preset with its effect on the last requests. A browser without htmx gets it on the page."""
    found, active = _find_preset(name), space.configs.active().get()
    if not request.htmx:
        page = reverse("dashboard:space_settings", args=[space.slug])
        return redirect(f"{page}?preset={name}#preset-{name}")
    card = PresetCard.of(found, active, read_effect(space, found, active))
    return render_page(request, "dashboard/_preset.html", {"space": space, "card": card})


def _find_preset(name: str) -> Preset:
    if name not in PRESETS:
        raise Http404(f"There is no preset {name!r}.")
    return PRESETS[name]


@page_for(Role.EDITOR, "POST", get_space)
def preset_use(request: TeamRequest, space: Space, name: str) -> HttpResponse:
    """Try a preset, save it as a draft, or publish it."""
    found, active = _find_preset(name), space.configs.active().get()
    action = request.POST.get("action", "")
    page = reverse("dashboard:space_settings", args=[space.slug])
    back = redirect(f"{page}#preset-{found.name}")
    if action == "try":
        tried = contexts_without_question(space).values_list("pk", flat=True).first()
        if tried is None:
            messages.info(request, "This space has no requests without a question yet to try it on.")
            return back
        what_if = reverse("dashboard:assembly_what_if", args=[tried])
        return redirect(f"{what_if}?{urlencode({'config': active.version, **found.settings})}")
    if found.is_in(active.settings):
        messages.info(request, f"{found.label} is already active.")
        return back
    with as_message(request, "Not published."):
        data = ConfigIn(preset=found.name, draft=action == "draft", note=f"Preset {found.label}.")
        config = publish_config(space=space, data=data, created_by=request.actor)
        if config.is_draft:
            messages.success(request, f"Version {config.version} is saved as a draft. Publish it to use it.")
            return redirect(f"{page}#version-{config.version}")
        announce_published(request, space, config.version, before=active.version)
    return back


def _settings(space: Space) -> str:
    return reverse("dashboard:space_settings", args=[space.slug])


@page_for(Role.EDITOR, "POST", get_space)
def space_edit(request: TeamRequest, space: Space) -> HttpResponse:
    form = SpaceEditForm(request.POST)
    if not form.is_valid():
        active = space.configs.active().get()
        settings = ConfigForm(initial=ConfigForm.initial_of(active))
        return _render(request, space, settings, space_form=form, status=422)
    update_space(space=space, changes=form.value, actor=request.actor)
    messages.success(request, "Saved.")
    return redirect("dashboard:space_settings", space.slug)


@page_for(Role.VIEWER, "GET", get_space)
def recount(request: TeamRequest, space: Space) -> HttpResponse:
    """Show how far the space is counted in its new encoding."""
    return render_page(request, f"{TEMPLATE}#recount", {"space": space, "recount": recount_progress(space)})


def _render(
    request: TeamRequest,
    space: Space,
    form: ConfigForm,
    *,
    space_form: SpaceEditForm | None = None,
    status: int = 200,
) -> HttpResponse:
    versions = list(space.configs.order_by("-version")[:VERSIONS_SHOWN])
    shown: dict[str, Any] = {name: form[name].value() for name in form.fields}
    numbers = {name: read_digits(str(value or "")) for name, value in shown.items()}
    active = space.configs.active().get()
    context = {
        "space": space,
        "presets": preset_cards(space, active, read_text(request.GET, "preset")),
        "form": form,
        "space_form": space_form or SpaceEditForm.of(space),
        "versions": compare_versions(versions),
        "bar": budget_bar(numbers),
        "proofs": read_proofs(space),
        "recount": recount_progress(space),
    }
    return render_page(request, TEMPLATE, context, status=status)
