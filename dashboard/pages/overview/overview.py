"""The overview: measured figures, and observations about them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django import forms
from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django_htmx.http import HttpResponseClientRefresh

from contextopt.assemblies.models import Assembly, Kind
from contextopt.engine.agents.phases import MAX_PHASE_CHARS
from contextopt.inputs import INT_MAX
from contextopt.limits import MODEL_MAX
from contextopt.people.models import Role
from contextopt.spaces.models import Space
from contextopt.sql import fetch_all
from dashboard.kit.charts.panels import Cells, ChartPanel, make_table, stream_columns
from dashboard.kit.charts.plots import Mark
from dashboard.kit.charts.tiles import NO_VOTES, Tile
from dashboard.kit.filters import STAGE_NAMES, STAGES, PeriodForm, SpaceFilterForm, ViewPage
from dashboard.kit.formats import kinds_of
from dashboard.kit.periods import Bucket
from dashboard.kit.permissions import TeamRequest, page_for
from dashboard.kit.responses import STOP_POLLING, count_polls, render_page, saved_views
from dashboard.pages.overview.charts import CHARTS, ChartData, bucket_query, draw_chart
from dashboard.pages.overview.cost import (
    CostCard,
    Reported,
    SpaceSavings,
    build_cost,
    project_month,
    read_reported,
    read_space_savings,
)
from dashboard.pages.overview.diagnosis import observe, point_out, read_space_facts
from dashboard.pages.overview.falls import build_alarm, find_falls
from dashboard.pages.overview.figures import Series, read_earlier, read_series
from dashboard.pages.overview.firstcard import build_answers
from dashboard.pages.overview.kindcharts import apart_figure, columns_of, votes_columns, votes_figure
from dashboard.pages.overview.quality import PeriodChange, read_changes, read_feedback, read_quality
from dashboard.pages.overview.recall import read_recall, read_recall_fall
from dashboard.pages.overview.tiles import (
    Compared,
    Places,
    Rows,
    build_tiles,
    headline_words,
    kind_rows,
    month_tile,
    quality_tiles,
    saving_tiles,
)
from dashboard.pages.overview.youngcharts import describe_span, young_figures, young_heads
from dashboard.rollups.queries import FigureFilter, is_behind, read_prices


@dataclass(frozen=True, slots=True)
class Choices:
    """The values that the filters offer: phases and models in use most of the time, newest versions."""

    phases: tuple[str, ...]
    models: tuple[str, ...]
    versions: tuple[int, ...]


CHOICES_SHOWN = 50
CHOICES_DAYS = 100

# Counts summaries, not their assemblies: the index alone answers, in a third of the time.
_CHOICES = """
    WITH seen AS MATERIALIZED (
        SELECT phase, model, count(*) AS summaries FROM dashboard_daysummary
         WHERE team_id = %(team)s AND start >= %(since)s GROUP BY 1, 2
    )
    SELECT ARRAY(SELECT phase FROM seen WHERE phase <> ''
                  GROUP BY 1 ORDER BY sum(summaries) DESC, 1 LIMIT %(limit)s),
           ARRAY(SELECT model FROM seen WHERE model <> ''
                  GROUP BY 1 ORDER BY sum(summaries) DESC, 1 LIMIT %(limit)s),
           ARRAY(SELECT DISTINCT c.version FROM contextopt_contextconfig c
                   JOIN contextopt_space s ON s.id = c.space_id
                  WHERE s.team_id = %(team)s AND (%(space)s::bigint IS NULL OR s.id = %(space)s)
                  ORDER BY 1 DESC LIMIT %(limit)s)
"""


def read_choices(team_id: int, space_id: int | None, now: datetime) -> Choices:
    """Return the values that the filters offer, in one query, leaving out assemblies not summarised yet."""
    since = now - timedelta(days=CHOICES_DAYS)
    values = {"team": team_id, "space": space_id, "since": since, "limit": CHOICES_SHOWN}
    [found] = fetch_all(_CHOICES, values)
    return Choices(*map(tuple, found))


APART = "apart"


class OverviewForm(SpaceFilterForm, PeriodForm):
    """Filters of the overview. Callers choose the names of phases and models, so those are text fields."""

    chip_names = ("space", "stage", "kind", "phase", "config", "model")
    stage = forms.ChoiceField(choices=[("", "All stages"), *STAGES], required=False)
    kind = forms.ChoiceField(choices=[("", "All kinds"), *Kind.choices], required=False)
    phase = forms.CharField(max_length=MAX_PHASE_CHARS, required=False, strip=False)
    config = forms.IntegerField(min_value=1, max_value=INT_MAX, required=False)
    model = forms.CharField(max_length=MODEL_MAX, required=False, strip=False)
    # The kind whose time and truncation the charts show, or a line for each.
    kinds = forms.ChoiceField(
        choices=[("", "Default"), *Kind.choices, (APART, "Split by kind")], required=False
    )

    @property
    def is_apart(self) -> bool:
        return self.cleaned_data.get("kinds") == APART

    @property
    def shown_kind(self) -> str:
        chosen = self.cleaned_data.get("kinds") or ""
        return "" if chosen == APART else str(chosen)

    def kind_choices(self, series: Series) -> list[tuple[str, str, bool]]:
        """Return the kinds that the charts can show, each with its query string and whether it is chosen."""
        kinds = [kind for kind in Kind.values if kind in series.totals]
        if len(kinds) < 2:
            return []
        shown = APART if self.is_apart else series.kind
        offered = [*((kind, kinds_of(kind).capitalize()) for kind in kinds), (APART, "Split by kind")]
        return [(label, self.query(kinds=kind), kind == shown) for kind, label in offered]

    @cached_property
    def kept(self) -> dict[str, object]:
        """The valid filters that the list of assemblies has too."""
        names = ("space", "stage", "kind", "phase", "config", "model")
        return {name: self.cleaned_data.get(name) or None for name in names}

    def rows_url(self, **more: str) -> str:
        """Return the URL of the assemblies that pass the filters and `more`; a bucket's query may follow."""
        query = urlencode({name: value for name, value in (self.kept | more).items() if value})
        return f"{self._list_url}?{query}{'&' if query else ''}"

    @cached_property
    def _list_url(self) -> str:
        return reverse("dashboard:assemblies")

    def to_filter(self, now: datetime) -> FigureFilter:
        """Return the filter; invalid fields are ignored."""
        given = self.cleaned_data
        stage = given.get("stage")
        return FigureFilter(
            team_id=self.team.pk,
            period=self.period(now),
            space_id=self.space_id,
            stage=int(stage) if stage else None,
            kind=given.get("kind") or None,
            phase=given.get("phase") or None,
            config_version=given.get("config"),
            model=given.get("model") or None,
        )

    def offered(self, choices: Choices) -> dict[str, list[tuple[str, str]]]:
        """Return the options of the phase, config and model filters, including the chosen ones."""
        seen = {
            "phase": [(phase, phase) for phase in choices.phases],
            "config": [(str(version), f"v{version}") for version in choices.versions],
            "model": [(model, model) for model in choices.models],
        }
        for name, options in seen.items():
            chosen = str(self.cleaned_data.get(name) or "")
            if chosen and chosen not in dict(options):
                options.append((chosen, f"v{chosen}" if name == "config" else chosen))
        return seen


TEMPLATE = "dashboard/overview.html"
TABLE_TEMPLATE, TABLE_PARTIAL = "dashboard/chart_table.html", "dashboard/_chart_table.html"
# This chart exists only if votes are collected.
VOTES = "votes"
# The charts in view without scrolling.
HEADLINES = ("ratio", "time", "truncation")


@page_for(Role.VIEWER, "GET")
def overview(request: TeamRequest) -> HttpResponse:
    form = OverviewForm(request.GET, team=request.team)
    if not form.is_valid():
        return _render_overview(request, form, {})
    figures = _figures(request, form)
    if not figures["total"].assemblies and not Assembly.objects.of(request.team).exists():
        if request.htmx:
            return HttpResponseClientRefresh()
        context = {"has_spaces": Space.objects.of(request.team).exists()}
        return render_page(request, "dashboard/welcome.html", context)
    polling = count_polls(request)
    status = 200 if polling["is_polling"] else STOP_POLLING
    return _render_overview(request, form, figures | polling, status=status)


def _render_overview(
    request: TeamRequest, form: OverviewForm, figures: dict[str, Any], status: int = 200
) -> HttpResponse:
    """Show the figures or, without them, the errors in the filters."""
    context = {**_frame(request, form), **figures}
    return render_page(
        request, TEMPLATE, context, partials=("overview", "figures"), query=form.query(), status=status
    )


@page_for(Role.VIEWER, "GET")
def overview_table(request: TeamRequest, slug: str) -> HttpResponse:
    """Show a chart's table view as its own page, or only the table for insertion into the Overview."""
    form, series, columns = _read_chart(request, slug)
    chart = CHARTS.get(slug)
    narrowed = dict(parse_qsl(chart.rows)) if chart else {}
    if chart and chart.of_kind and not form.is_apart:
        series, narrowed = series.of_kind, {**narrowed, "kind": series.kind}
    address = form.rows_url(**narrowed)
    urls = [
        f"{address}{bucket_query(bucket)}" if figures.assemblies else "" for bucket, figures in series.rows
    ]
    table = make_table(columns, series.period, urls)
    panel = replace(_panel(slug, series, is_apart=form.is_apart), table=table)
    context = {"panel": panel, "period": series.period, "query": form.query()}
    return render_page(request, TABLE_PARTIAL if request.htmx else TABLE_TEMPLATE, context)


@page_for(Role.VIEWER, "GET")
def overview_csv(request: TeamRequest, slug: str) -> StreamingHttpResponse:
    form, series, columns = _read_chart(request, slug)
    chart = CHARTS.get(slug)
    points = series.points if chart is None or form.is_apart else chart.points(series)
    counts = [figures.assemblies for figures in points]
    return stream_columns(f"contextopt-{slug}", columns, series.period, "assemblies", counts)


def _read_chart(request: TeamRequest, slug: str) -> tuple[OverviewForm, Series, list[Cells]]:
    """Return the form, its figures, and the columns of the chart.

    Raises:
        Http404: there is no such chart, or a filter is wrong.
    """
    form = OverviewForm(request.GET, team=request.team)
    form.refuse_errors()
    wanted = form.to_filter(timezone.now())
    series = read_series(wanted)
    if slug in CHARTS:
        return form, series, columns_of(CHARTS[slug], series, is_apart=form.is_apart)
    feedback = read_feedback(wanted) if slug == VOTES else None
    if feedback is None:
        raise Http404("No such chart.")
    return form, series, votes_columns(feedback.points)


def _frame(request: TeamRequest, form: OverviewForm) -> dict[str, Any]:
    """Return the context of the filter row."""
    return {
        "form": form,
        "ranges": form.ranges(),
        "query": form.query(),
        "query_without_chips": form.query_without_chips(),
        "chips": form.chips(),
        "demo": [space.name for space in form.spaces.values() if space.is_demo],
        # Polls show neither, so both are read only when a template needs them.
        "offered": SimpleLazyObject(
            lambda: form.offered(read_choices(form.team.pk, form.space_id, timezone.now()))
        ),
        "views": saved_views(request, ViewPage.OVERVIEW),
    }


def _figures(request: TeamRequest, form: OverviewForm) -> dict[str, Any]:
    now = timezone.now()
    wanted = form.to_filter(now)
    prices = read_prices(wanted)
    series = replace(read_series(wanted, prices), shown=form.shown_kind)
    before = read_earlier(wanted, prices)
    votes, rows = read_feedback(wanted), _rows(form, series)
    by_stage = votes.stages if votes else {}
    changes = read_changes(request.team, wanted, form.spaces)
    data = ChartData(
        series,
        before,
        form.rows_url(),
        {kind: form.rows_url(kind=kind) for kind in series.kinds},
        votes.points if votes else {},
        [Mark(change.at, change.mark) for change in changes],
    )
    compared = Compared(
        series,
        before,
        *read_quality(wanted),
        votes,
        read_feedback(wanted.before()) if votes else None,
        read_recall(wanted),
    )
    savings = read_space_savings(wanted)
    places = _places(form, series, rows)
    return {
        "period": series.period,
        "total": series.total,
        "young_span": describe_span(series) if series.is_young else "",
        **(_first_card(compared, savings, places, changes) if series.total.assemblies else {}),
        "kind_choices": form.kind_choices(series),
        "groups": _tile_groups(compared, savings, places, wanted, now),
        "savings": savings if savings.is_mixed else None,
        "rows_url": form.rows_url(),
        "cost": _cost(wanted, series, before, rows) if series.total.contexts else None,
        "panels": _panels(data, is_apart=form.is_apart),
        "charts": _charts(data, form),
        "changes": changes,
        "observations": point_out(observe(series, read_space_facts(wanted)), rows),
        "kinds": kind_rows(series, rows) if len(series.totals) > 1 else [],
        "stages": [
            (row, STAGE_NAMES.get(row.stage, ""), by_stage.get(row.stage, NO_VOTES)) for row in series.stages
        ],
        "has_votes": votes is not None,
        "has_prices": series.total.priced > 0,
        "is_behind": is_behind(),
    }


def _first_card(
    found: Compared, savings: SpaceSavings, places: Places, changes: list[PeriodChange]
) -> dict[str, Any]:
    """Return the three answers, and the alarm if quality fell. Few assemblies raise none."""
    recall = read_recall_fall(*found.recall) if found.recall else None
    falls = find_falls(found, recall, places)
    return {
        "answers": build_answers(found, falls, savings, places),
        "alarm": build_alarm(falls, changes, found.now.period),
    }


def _tile_groups(
    found: Compared, savings: SpaceSavings, places: Places, wanted: FigureFilter, now: datetime
) -> dict[str, list[Tile]]:
    """Return the tiles behind "More". A young period has no saving, and a sum of gains and losses is not
    projected.
    """
    series = found.now
    tiles = build_tiles(series, found.before, places.rows, wanted.kind)
    is_projected = not (series.is_young or savings.is_mixed)
    month = [month_tile(project_month(series, wanted, now))] if is_projected else []
    saved = [] if series.is_young else saving_tiles(found, savings, places)
    return {
        "quality": quality_tiles(found, places),
        "saved": [*saved, *month],
        "tokens": [tile for tile in tiles if tile.slug != "time"],
        "time": [tile for tile in tiles if tile.slug == "time"],
    }


def _cost(wanted: FigureFilter, series: Series, before: Series, rows: Rows) -> CostCard:
    reported = read_reported(wanted) if series.total.prompts else Reported()
    return build_cost(series.total, before.total, reported, rows({"kind": str(Kind.SPACE)}))


def _places(form: OverviewForm, series: Series, rows: Rows) -> Places:
    names = {"space": "space", "stage": "stage", "config": "version", "phase": "phase"}
    asked = {names[name]: value for name, value in form.kept.items() if name in names and value}
    sets = reverse("dashboard:question_sets")
    return Places(
        rows,
        f"{reverse('dashboard:feedback_votes')}?{urlencode({'rating': 'down', **asked})}&{_span(series)}",
        reverse("dashboard:reviews"),
        reverse("dashboard:tasks"),
        f"{sets}?{urlencode({'space': asked['space']})}" if "space" in asked else sets,
        lambda set_id: reverse("dashboard:question_set", args=[set_id]),
        f"{reverse('dashboard:feedback_votes')}?{urlencode(asked)}&{_span(series)}",
    )


def _charts(data: ChartData, form: OverviewForm) -> dict[str, Any]:
    if data.series.is_young:
        return {slug: figure.to_plotly_json() for slug, figure in young_figures(data).items()}
    draw = apart_figure if form.is_apart else draw_chart
    figures = {slug: draw(chart, data) for slug, chart in CHARTS.items()}
    if data.votes:
        figures[VOTES] = votes_figure(data)
    return {slug: figure.to_plotly_json() for slug, figure in figures.items()}


def _panels(data: ChartData, *, is_apart: bool) -> dict[str, list[ChartPanel]]:
    """Return the charts by their place on the page: the headline figures, and two groups behind "More".

    A young period has only the headline figures, with exact values.
    """
    series = data.series
    if series.is_young:
        heads = young_heads(series)
        headline = [
            ChartPanel(slug, CHARTS[slug].title, heads[slug][1], figure=heads[slug][0]) for slug in HEADLINES
        ]
        return {"headline": headline, "quality": [], "tokens": []}
    heads = headline_words(series)
    headline = [
        replace(_panel(slug, series, is_apart=is_apart), figure=heads[slug][0], note=heads[slug][1])
        for slug in HEADLINES
    ]
    others = [_panel(slug, series, is_apart=is_apart) for slug in CHARTS if slug not in HEADLINES]
    votes = [_panel(VOTES, series, is_apart=is_apart)] if data.votes else []
    return {"headline": headline, "quality": votes, "tokens": others}


def _headline(heads: Mapping[str, tuple[str, str]]) -> list[ChartPanel]:
    return [
        ChartPanel(slug, CHARTS[slug].title, note, figure=figure)
        for slug, (figure, note) in ((slug, heads[slug]) for slug in HEADLINES)
    ]


def _panel(slug: str, series: Series, *, is_apart: bool) -> ChartPanel:
    if slug == VOTES:
        return ChartPanel(
            VOTES, "Upvoted answers", "share of upvotes by stage; few votes are pooled with those before"
        )
    chart = CHARTS[slug]
    return ChartPanel(slug, chart.title, chart.note if is_apart else chart.note_for(series))


def _rows(form: OverviewForm, series: Series) -> Rows:
    """Return a function that maps additional filters to the URL of the whole period's assemblies."""
    return lambda more: f"{form.rows_url(**more)}{_span(series)}"


def _span(series: Series) -> str:
    """Return the whole period as a query string."""
    return bucket_query(Bucket(series.period.start, series.period.edges[-1]))
