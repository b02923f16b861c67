"""The page Traffic, and the list of prompts behind its figures."""

from typing import Any

from django.db.models import Sum
from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.utils import timezone

from contextopt.assemblies.tokenfactors import LEAST_PROMPTS, TokenFactor
from contextopt.gateway.models import GatewayGap, GatewayPolicy, GatewayRequest
from contextopt.people.models import ApiKey, Role
from contextopt.spaces.models import Space
from dashboard.kit.charts.panels import stream_columns
from dashboard.kit.permissions import TeamRequest, page_for
from dashboard.kit.responses import STOP_POLLING, count_polls, newest_page, render_page
from dashboard.pages.connect.codesamples import describe_gateway
from dashboard.pages.traffic.charts import TRAFFIC_CHARTS, TrafficData
from dashboard.pages.traffic.figures import (
    Links,
    build_groups,
    build_reasons,
    build_tiles,
    describe_effects,
)
from dashboard.pages.traffic.filters import PromptsForm, TrafficForm
from dashboard.rollups.queries import PriceList
from dashboard.rollups.traffic import Groups, read_buckets, read_groups, read_total, read_traffic_prices

TEMPLATE = "dashboard/traffic.html"
PROMPTS_TEMPLATE = "dashboard/prompts.html"
SPACES_SHOWN = 50
FACTORS_SHOWN = 50


@page_for(Role.VIEWER, "GET")
def traffic(request: TeamRequest) -> HttpResponse:
    form = TrafficForm(request.GET, team=request.team)
    form.is_valid()
    polling = count_polls(request)
    context = {
        "form": form,
        "query": form.query(),
        "ranges": form.ranges(),
        "chips": form.chips(),
        "query_without_chips": form.query_without_chips(),
        **_figures(request, form),
        **describe_gateway(request),
        "policies": _policies(form),
        "factors": TokenFactor.objects.filter(team=request.team).order_by("model", "kind")[:FACTORS_SHOWN],
        "least_prompts": LEAST_PROMPTS,
        "are_more": form.space_id is None and len(form.spaces) > SPACES_SHOWN,
        "first_space": next(iter(form.spaces), ""),
        **polling,
    }
    status = 200 if polling["is_polling"] else STOP_POLLING
    return render_page(
        request, TEMPLATE, context, partials=("traffic", "figures"), query=form.query(), status=status
    )


def _figures(request: TeamRequest, form: TrafficForm) -> dict[str, Any]:
    """Return the period's figures. The number of queries is the same for any number of prompts."""
    now = timezone.now()
    wanted = form.to_filter(now)
    prices, links = read_traffic_prices(wanted), Links.of(form, wanted)
    groups = read_groups(wanted, prices)
    before = read_total(wanted.over(wanted.period.before()), prices)
    total, period = groups.total, wanted.period
    found: dict[str, Any] = {"total": total, "period": period, "prompts_url": links.to()}
    if not total.requests:
        return {**found, "has_any": GatewayRequest.objects.of(request.team).exists()}
    data = TrafficData(
        period, read_buckets(wanted, prices), [links.bucket(bucket) for bucket in period.buckets]
    )
    urls = [url if point.requests else "" for url, point in zip(data.links, data.points, strict=True)]
    gaps = GatewayGap.objects.filter(
        team=request.team, created_at__gte=period.start, created_at__lt=period.until
    )
    return {
        **found,
        "tiles": build_tiles(total, before, links),
        "effects": describe_effects(groups, links),
        "groups": build_groups(groups, links, _spaces_of(groups, form), _keys_of(groups, form)),
        "reasons": build_reasons(groups, links),
        "panels": [chart.panel(period, data.points, urls) for chart in TRAFFIC_CHARTS.values()],
        "charts": {slug: chart.build(data).to_plotly_json() for slug, chart in TRAFFIC_CHARTS.items()},
        "not_logged": gaps.aggregate(found=Sum("requests"))["found"],
    }


def _spaces_of(groups: Groups, form: TrafficForm) -> dict[int, Space]:
    """Return the spaces of the prompts. Only those that the form does not offer need a query."""
    offered = {space.pk: space for space in form.spaces.values()}
    others = [pk for pk, _ in groups.by["space_id"] if pk and pk not in offered]
    return offered | Space.objects.in_bulk(others)


def _keys_of(groups: Groups, form: TrafficForm) -> dict[int, str]:
    """Return the names of the prompts' keys that still exist, as for spaces."""
    others = [pk for pk, _ in groups.by["key_id"] if pk and pk not in form.team_keys]
    return form.team_keys | {key.pk: key.name for key in ApiKey.objects.in_bulk(others).values()}


def _policies(form: TrafficForm) -> list[tuple[Space, GatewayPolicy]]:
    """Return the policies of the chosen space, or else of the first ones by name."""
    chosen = [space for space in form.spaces.values() if form.space_id in {None, space.pk}]
    spaces = sorted(chosen, key=lambda space: space.name.casefold())[:SPACES_SHOWN]
    found = GatewayPolicy.objects.in_bulk([space.pk for space in spaces])
    return [(space, found.get(space.pk) or GatewayPolicy(space=space)) for space in spaces]


@page_for(Role.VIEWER, "GET")
def traffic_csv(request: TeamRequest, slug: str) -> StreamingHttpResponse:
    if slug not in TRAFFIC_CHARTS:
        raise Http404("No such chart.")
    form = TrafficForm(request.GET, team=request.team)
    form.refuse_errors()
    wanted = form.to_filter(timezone.now())
    points = read_buckets(wanted, PriceList())
    columns, prompts = TRAFFIC_CHARTS[slug].cells(points), [point.requests for point in points]
    return stream_columns(f"contextopt-traffic-{slug}", columns, wanted.period, "prompts", prompts)


@page_for(Role.VIEWER, "GET")
def traffic_prompts(request: TeamRequest) -> HttpResponse:
    """Show the prompts behind a figure, newest first."""
    form = PromptsForm(request.GET, team=request.team)
    cursor = request.GET.get("before", "")
    rows = form.select(cursor).select_related("space", "api_key")
    context = {
        "form": form,
        "query": form.query(),
        "chips": form.chips(),
        "query_without_chips": form.query_without_chips(),
        "page": newest_page(rows, "created_at", cursor),
    }
    return render_page(request, PROMPTS_TEMPLATE, context, partials=("prompts",))
