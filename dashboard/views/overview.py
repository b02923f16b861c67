"""The overview: what was measured, and what to look at."""

from collections.abc import Iterator
from typing import Any

from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET

from contextopt.models import Assembly, Space
from dashboard.access import TeamRequest, team_page
from dashboard.charts import CHARTS, Chart, ChartData, Link
from dashboard.diagnosis import observe
from dashboard.exports import stream_csv
from dashboard.filters import STAGE_NAMES, OverviewForm
from dashboard.metrics import Series, read_score_spread, read_series, read_stages
from dashboard.pages import STOP_POLLING, render_page
from dashboard.panels import ChartPanel, TableRow
from dashboard.periods import Bucket
from dashboard.tiles import build_tiles

TEMPLATE = "dashboard/overview.html"
# An hour of polls; then the page says that it has stopped.
MAX_POLLS = 120


@require_GET
@team_page
def overview(request: TeamRequest) -> HttpResponse:
    form = OverviewForm(request.GET, team=request.team)
    form.is_valid()
    if not Assembly.objects.of(request.team).exists():
        return render_page(request, "dashboard/welcome.html", _welcome(request))
    polls = _polls(request)
    context = {**_frame(form), **_figures(form), "polls": polls + 1, "is_polling": polls < MAX_POLLS}
    status = 200 if polls < MAX_POLLS else STOP_POLLING
    response = render_page(request, TEMPLATE, context, partials=("overview", "figures"), status=status)
    if request.htmx and request.htmx.target == "overview":
        response.headers["HX-Push-Url"] = f"{request.path}?{form.query()}".rstrip("?")
    return response


@require_GET
@team_page
def overview_csv(request: TeamRequest, slug: str) -> StreamingHttpResponse:
    if slug not in CHARTS:
        raise Http404("No such chart.")
    form = OverviewForm(request.GET, team=request.team)
    form.is_valid()
    series = read_series(form.to_filter(timezone.now()))
    header = ["start", "end", "assemblies", *(column.name for column in CHARTS[slug].columns)]
    return stream_csv(f"contextopt-{slug}", header, _csv_rows(CHARTS[slug], series))


def _csv_rows(chart: Chart, series: Series) -> Iterator[list[Any]]:
    zone = series.period.zone
    for bucket, figures in series.rows:
        ends = (bucket.start.astimezone(zone).isoformat(), bucket.end.astimezone(zone).isoformat())
        yield [*ends, figures.assemblies, *(column.pick(figures) for column in chart.columns)]


def _polls(request: TeamRequest) -> int:
    text = request.GET.get("polls", "0")
    return int(text) if text.isdecimal() and len(text) < 6 else 0


def _welcome(request: TeamRequest) -> dict[str, Any]:
    return {
        "has_spaces": Space.objects.of(request.team).exists(),
        "origin": f"{request.scheme}://{request.get_host()}",
    }


def _frame(form: OverviewForm) -> dict[str, Any]:
    """Return what the filter row shows."""
    return {
        "form": form,
        "ranges": form.ranges(),
        "is_custom": form.is_custom,
        "query": form.query(),
    }


def _figures(form: OverviewForm) -> dict[str, Any]:
    wanted = form.to_filter(timezone.now())
    series, before = read_series(wanted), read_series(wanted.before())
    stages = read_stages(wanted)
    link = _link(form)
    data = ChartData(series, before, link)
    return {
        "period": series.period,
        "total": series.total,
        "tiles": build_tiles(series.total, before.total),
        "panels": [_panel(chart, series, link) for chart in CHARTS.values()],
        "charts": {slug: chart.build(data).to_plotly_json() for slug, chart in CHARTS.items()},
        "observations": observe(series.total, stages, read_score_spread(wanted)),
        "stages": [(row, STAGE_NAMES.get(row.stage, "")) for row in stages],
        "demo": any(space.is_demo for space in form.spaces.values()),
    }


def _link(form: OverviewForm) -> Link:
    """Return a function from a bucket to the list of the assemblies behind it."""
    address = reverse("dashboard:assemblies")
    kept = {name: form.cleaned_data.get(name) or None for name in ("space", "stage")}

    def link(bucket: Bucket) -> str:
        span = {"start": f"{bucket.start:%Y-%m-%dT%H:%M:%SZ}", "end": f"{bucket.end:%Y-%m-%dT%H:%M:%SZ}"}
        return f"{address}?{form.query(range=None, first=None, last=None, **kept, **span)}"

    return link


def _panel(chart: Chart, series: Series, link: Link) -> ChartPanel:
    rows = [
        TableRow(
            bucket,
            link(bucket) if figures.assemblies else "",
            tuple(column.show(column.pick(figures)) for column in chart.columns),
            bucket.end > series.period.until,
        )
        for bucket, figures in series.rows
    ]
    columns = tuple(column.name for column in chart.columns)
    return ChartPanel(chart.slug, chart.title, chart.note, columns, rows)
