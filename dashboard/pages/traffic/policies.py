"""How the gateway treats prompts of a space: audit or insert, for which share, and what is kept."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from contextopt.gateway.models import (
    PLACEMENT_CHOICES,
    TIME_LIMIT_MAX_MS,
    TIME_LIMIT_MIN_MS,
    Keep,
    Mode,
)
from contextopt.gateway.policies import (
    CHANGED,
    EDITORS_FIELDS,
    PolicyPatch,
    change_policy,
    last_change,
    policy_values,
    read_policy,
)
from contextopt.people.models import AuditEvent, Membership, Role
from contextopt.spaces.models import Space
from dashboard.kit.forms import InputForm, LinesField
from dashboard.kit.permissions import TeamRequest, get_space, page_for, require_role
from dashboard.kit.responses import render_page

TEMPLATE = "dashboard/traffic_policy.html"


class PolicyForm(InputForm[PolicyPatch]):
    input_type = PolicyPatch
    mode = forms.ChoiceField(
        choices=[
            (Mode.AUDIT, "Audit: prompts pass unchanged; see what insertion would do"),
            (Mode.INSERT, "Insert: contexts go into the prompts"),
        ],
        widget=forms.RadioSelect,
    )
    insert_percent = forms.IntegerField(
        label="Share of conversations (%)",
        help_text=(
            "Insert mode only. Other conversations are only audited. "
            "A conversation keeps its mode as long as these settings stay the same."
        ),
        widget=forms.NumberInput(attrs={"min": 0, "max": 100}),
    )
    placement = forms.ChoiceField(
        choices=PLACEMENT_CHOICES, help_text="Where the context goes in the prompt."
    )
    keep = forms.ChoiceField(
        choices=Keep.choices,
        label="Keep",
        help_text="Texts that are kept can be read by everyone in the team. Answers are needed for review.",
    )
    history_tokens = forms.IntegerField(
        required=False,
        label="Cut history beyond (tokens)",
        help_text="Leave blank to never cut. Whole turns are cut, the oldest first, to half of this.",
        widget=forms.NumberInput(attrs={"min": 1}),
    )
    time_limit_ms = forms.IntegerField(
        label="Time limit (ms)",
        help_text="A prompt waits for its context for at most this long, then goes on without a new one.",
        widget=forms.NumberInput(attrs={"min": TIME_LIMIT_MIN_MS, "max": TIME_LIMIT_MAX_MS}),
    )

    internal_phrases = LinesField(
        required=False,
        label="Phrases of clients' own prompts",
        help_text=(
            "One per line. A prompt that contains one gets no context. Prompts for titles, summaries and "
            "suggestions are usually recognised without it."
        ),
    )

    def __init__(self, *args: Any, membership: Membership, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            needed = Role.EDITOR if name in EDITORS_FIELDS else Role.ADMIN
            field.disabled = not membership.allows(needed)


@page_for(Role.VIEWER, "GET POST", get_space, to_post=Role.EDITOR)
def traffic_policy(request: TeamRequest, space: Space) -> HttpResponse:
    """Show a space's policy; a POST changes it."""
    policy = read_policy(space)
    before = policy_values(policy)
    form = PolicyForm(request.POST or None, initial=dict(before), membership=request.membership)
    if request.method == "GET":
        return _render(request, space, form)
    if not form.is_valid():
        return _render(request, space, form, status=422)
    changed = change_policy(space=space, changes=form.value, actor=request.actor)
    if policy_values(changed) == before:
        messages.info(request, "Nothing was changed.")
        return redirect("dashboard:traffic_policy", space.slug)
    event = last_change(space)
    words = "Prompts are audited."
    if changed.mode == Mode.INSERT:
        words = f"Contexts go into {changed.insert_percent} % of conversations."
    undo = reverse("dashboard:traffic_policy_undo", args=[space.slug, event.pk]) if event else ""
    messages.success(request, f"{space.name}: {words}", extra_tags=undo)
    return redirect("dashboard:traffic")


@page_for(Role.EDITOR, "POST", get_space)
def traffic_policy_undo(request: TeamRequest, space: Space, event_id: int) -> HttpResponse:
    """Give a space's policy the values from before a change, unless it has been changed again since."""
    rows = AuditEvent.objects.of(request.team).filter(action=CHANGED, subject=space.slug)
    event = rows.filter(pk=event_id).first()
    if event is None:
        raise Http404("No such change.")
    if event.before.keys() - EDITORS_FIELDS:
        require_role(request, Role.ADMIN)
    if event != last_change(space):
        messages.error(request, "Not undone. The settings were changed again in the meantime.")
    else:
        change_policy(space=space, changes=PolicyPatch(**event.before), actor=request.actor)
        messages.success(request, f"Change undone for {space.name}.")
    return redirect("dashboard:traffic")


def _render(request: TeamRequest, space: Space, form: PolicyForm, status: int = 200) -> HttpResponse:
    return render_page(request, TEMPLATE, {"space": space, "form": form}, status=status)
