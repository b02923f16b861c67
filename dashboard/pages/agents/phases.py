"""Phases: how much filtering an agent's context saves, and the settings that decide it."""

from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from pydantic import ValidationError

from contextopt.agents.inputs import PhaseNamed
from contextopt.agents.models import PhaseProfile
from contextopt.agents.phases import load_active_profile, publish_profile
from contextopt.agents.phaseversions import activate_version
from contextopt.assemblies.models import Assembly, Kind
from contextopt.engine.agents.phases import DEFAULT_PROFILES
from contextopt.people.models import Role
from dashboard.kit.charts.panels import ChartPanel, make_table, stream_columns
from dashboard.kit.charts.shapes import saving_bar
from dashboard.kit.permissions import TeamRequest, as_404, page_for
from dashboard.kit.responses import newest_page, render_page
from dashboard.pages.agents.charts import PHASE_CHARTS, PhaseChart, PhaseData, PhaseRows, columns_of
from dashboard.pages.agents.figures import (
    OTHERS,
    PhaseSeries,
    build_phase_tiles,
    compare_profiles,
    field_words,
    phase_rows,
    read_phase_series,
)
from dashboard.pages.agents.filters import PhasesForm
from dashboard.pages.agents.forms import ProfileForm

TEMPLATE = "dashboard/phases.html"
PROFILE_TEMPLATE = "dashboard/phase.html"
VERSIONS_SHOWN = 50
FILTERINGS_SHOWN = 25


@page_for(Role.VIEWER, "GET")
def phases(request: TeamRequest) -> HttpResponse:
    form = PhasesForm(request.GET, team=request.team)
    form.is_valid()
    wanted = form.to_filter(timezone.now())
    series = read_phase_series(wanted)
    before = read_phase_series(wanted.before())
    stored = PhaseProfile.objects.filter(is_active=True, team=request.team)
    page = newest_page(
        form.select(wanted.period), "created_at", request.GET.get("before", ""), FILTERINGS_SHOWN
    )
    data = PhaseData.of(series, _rows(form))
    context = {
        "form": form,
        "query": form.query(),
        "ranges": form.ranges(),
        "period": wanted.period,
        "total": series.total,
        "tiles": build_phase_tiles(series.total, before.total),
        "panels": [_panel(chart, data) for chart in PHASE_CHARTS.values()],
        "charts": {slug: chart.build(data).to_plotly_json() for slug, chart in PHASE_CHARTS.items()},
        "rows": phase_rows(stored, series.by_phase),
        "offered": _offered(form, series, before),
        "page": page,
        "filterings": [
            (row, saving_bar(before=row.tokens_before or 0, after=row.tokens_after)) for row in page.rows
        ],
        "has_any": bool(series.total.filterings)
        or Assembly.objects.of(request.team).filter(kind=Kind.PHASE).exists(),
    }
    return render_page(request, TEMPLATE, context, partials=("phases", "filterings"), query=form.query())


def _offered(form: PhasesForm, *measured: PhaseSeries) -> list[tuple[str, str]]:
    """Return the phases for the filter: those with a profile, those measured, and the chosen one."""
    chosen = form.cleaned_data.get("phase", "")
    found = {phase for series in measured for phase in series.by_phase} | {chosen}
    own = sorted(found - {OTHERS, *DEFAULT_PROFILES})
    return [(name, name) for name in (*DEFAULT_PROFILES, *own)]


def _rows(form: PhasesForm) -> PhaseRows:
    """Return a function that maps a phase to the URL of its filtered contexts, for a bucket's query."""
    address = reverse("dashboard:assemblies")
    only = form.cleaned_data.get("phase")

    def rows(phase: str) -> str:
        query = {"kind": Kind.PHASE.value, "phase": only or phase}
        return f"{address}?{urlencode({name: value for name, value in query.items() if value})}&"

    return rows


def _panel(chart: PhaseChart, data: PhaseData) -> ChartPanel:
    address = data.rows(OTHERS)
    urls = [f"{address}{span}" if count else "" for span, count in zip(data.spans, data.counts, strict=True)]
    table = make_table(columns_of(chart, data), data.period, urls)
    return ChartPanel(chart.slug, chart.title, chart.note, table)


@page_for(Role.VIEWER, "GET")
def phases_csv(request: TeamRequest, slug: str) -> StreamingHttpResponse:
    if slug not in PHASE_CHARTS:
        raise Http404("No such chart.")
    form = PhasesForm(request.GET, team=request.team)
    form.refuse_errors()
    data = PhaseData.of(read_phase_series(form.to_filter(timezone.now())), _rows(form))
    columns = columns_of(PHASE_CHARTS[slug], data)
    return stream_columns(f"contextopt-phases-{slug}", columns, data.period, "filterings", data.counts)


@page_for(Role.VIEWER, "GET POST", to_post=Role.EDITOR)
def phase(request: TeamRequest) -> HttpResponse:
    """Show a phase's settings; a POST publishes the next version, and creates the phase if it is new."""
    name = _phase_name(request.GET.get("phase", next(iter(DEFAULT_PROFILES))))
    active = load_active_profile(request.team.pk, name)
    initial = active.value.to_json() if active else {}
    if request.method == "GET":
        return _render(request, name, ProfileForm(initial=initial))
    form = ProfileForm(request.POST, initial=initial)
    if not form.is_valid():
        return _render(request, name, form, status=422)
    if active and not set(form.changed_data) & {"budget_tokens", "fields"}:
        messages.info(request, "Nothing was changed.")
        return redirect(_address(name))
    with form.refusals():
        profile = publish_profile(team=request.team, phase=name, data=form.value, created_by=request.actor)
        _announce(request, name, profile.version, before=active.version if active else None)
        return redirect(_address(name))
    return _render(request, name, form, status=422)


def _phase_name(text: str) -> str:
    try:
        return PhaseNamed(phase=text).phase
    except ValidationError as error:
        raise Http404("No such phase.") from error


def _address(name: str) -> str:
    return f"{reverse('dashboard:phase')}?{urlencode({'phase': name})}"


@page_for(Role.EDITOR, "POST")
def phase_activate(request: TeamRequest, version: int) -> HttpResponse:
    """Publish an earlier version of the phase in the query string."""
    name = _phase_name(request.GET.get("phase", ""))
    active = load_active_profile(request.team.pk, name)
    with as_404():
        activate_version(PhaseProfile, team=request.team, phase=name, version=version, actor=request.actor)
    _announce(request, name, version, before=active.version if active else None)
    return redirect(_address(name))


def _announce(request: TeamRequest, name: str, version: int, *, before: int | None) -> None:
    """Say that the version is published. Undo publishes the version before, if the phase had one."""
    undo = ""
    if before not in (None, version):
        address = reverse("dashboard:phase_activate", args=[before])
        undo = f"{address}?{urlencode({'phase': name})}"
    messages.success(request, f"Version {version} published.", extra_tags=undo)


def _render(request: TeamRequest, name: str, form: ProfileForm, status: int = 200) -> HttpResponse:
    versions = PhaseProfile.objects.filter(team=request.team, phase=name).order_by("-version")
    history = compare_profiles(name, list(versions[: VERSIONS_SHOWN + 1]))[:VERSIONS_SHOWN]
    default = DEFAULT_PROFILES.get(name)
    context = {
        "phase": name,
        "address": _address(name),
        "form": form,
        "versions": history,
        "default": default,
        "default_fields": field_words(default.fields) if default else "",
        "is_known": bool(history or default),
    }
    return render_page(request, PROFILE_TEMPLATE, context, status=status)
