import json
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import plotly.graph_objects as go
import pytest
from django.core.serializers.json import DjangoJSONEncoder

from dashboard.kit.charts.plots import LABEL_HEIGHT, Mark, share_lists, spread_labels
from dashboard.kit.charts.tiles import NO_VOTES, Proportion
from dashboard.kit.periods import custom_period, recent_period
from dashboard.pages.agents.charts import HandoffBar, handoff_figure
from dashboard.pages.memories.strategies import TrustPoint, trust_figure
from dashboard.pages.overview.charts import CHARTS, ChartData, draw_chart
from dashboard.pages.overview.figures import Figures, Series
from dashboard.pages.overview.kindcharts import apart_figure, columns_of, pool, votes_columns, votes_figure
from tests.factories import NOW

SOME = Figures(9, 0.3, 0.8, 0.5, 1_000, 4_000, 3_000, 12.0, 2.0, 5.0, 9.0)


def data_of(points: list[Figures], is_over: bool = False) -> ChartData:
    zone = ZoneInfo("Europe/Oslo")
    now = NOW if not is_over else datetime(2027, 1, 1, tzinfo=UTC)
    period = custom_period(NOW.date().replace(day=15 - len(points) + 1), NOW.date(), now, zone)
    of_space = {"kinds": {"space": tuple(points)}, "totals": {"space": SOME}}
    series = Series(period, SOME, tuple(points), **of_space)
    return ChartData(series, Series(period.before(), SOME, tuple(points), **of_space), "/a?")


def coloured(value: object) -> object:
    """Replace each variable with a colour, as the page's script does."""
    if isinstance(value, dict):
        return {name: coloured(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [coloured(inner) for inner in value]
    return "red" if isinstance(value, str) and value.startswith("var(") else value


@pytest.mark.parametrize("slug", CHARTS)
@pytest.mark.parametrize("points", [[SOME] * 5, [Figures()] * 5, [SOME, Figures(), SOME, Figures(), SOME]])
def test_a_figure_is_json_without_a_theme(slug: str, points: list[Figures]) -> None:
    figure = CHARTS[slug].build(data_of(points)).to_plotly_json()
    text = json.dumps(figure, cls=DjangoJSONEncoder, allow_nan=False)
    go.Figure(coloured(figure))  # raises on anything that Plotly doesn't know
    assert "#" not in text
    assert "heatmap" not in text
    # Plotly's basic bundle has a pie besides these, and nothing else.
    assert {trace["type"] for trace in figure["data"]} <= {"scatter", "bar"}


@pytest.mark.parametrize("slug", CHARTS)
def test_points_lead_to_their_assemblies(slug: str) -> None:
    figure = CHARTS[slug].build(data_of([SOME] * 5, is_over=True)).to_plotly_json()
    # In Oslo, 15 June starts at 22:00 UTC on the 14th.
    day = "start=2026-06-14T22:00:00Z&end=2026-06-15T22:00:00Z"
    assert all(trace["customdata"][-1] == day for trace in figure["data"])
    assert all(trace["meta"] == {"rows": "/a?"} for trace in figure["data"])


def test_a_bucket_that_is_not_over_is_a_dotted_line_with_a_hollow_end() -> None:
    solid, tail = CHARTS["truncation"].build(data_of([SOME] * 5)).to_plotly_json()["data"]
    assert len(solid["x"]) == 4
    assert tail["line"]["dash"] == "dot"
    assert tail["marker"]["symbol"] == "circle-open"
    assert tail["name"] == "so far"


def test_the_last_measured_point_has_the_name_of_its_line() -> None:
    data = data_of([SOME, SOME, SOME, Figures(), Figures()])
    figure = CHARTS["ratio"].build(data).to_plotly_json()
    texts = {trace["name"]: list(trace["text"]) for trace in figure["data"]}
    assert texts["ratio"] == ["", "", " ratio", ""]
    assert texts["ratio so far"] == ["", ""]


def test_names_of_percentiles_move_apart_upwards() -> None:
    near = SOME._replace(p50_ms=100.0, p95_ms=110.0, p99_ms=120.0)
    points = [SOME._replace(p50_ms=50.0, p95_ms=200.0, p99_ms=800.0), near, Figures()]
    names = CHARTS["time"].build(data_of(points)).layout["annotations"]
    assert [name["text"] for name in names] == ["p50", "p95", "p99"]
    assert [name["y"] for name in names] == pytest.approx([100.0, 172.0, 244.0])
    assert {name["x"] for name in names} == {data_of(points).moments[1]}


def test_an_area_is_not_drawn_over_gaps() -> None:
    whole, broken = (
        CHARTS["truncation"].build(data_of(points)).to_plotly_json()["data"][0]
        for points in ([SOME] * 5, [SOME, Figures(), SOME, SOME, SOME])
    )
    assert whole["fill"] == "tozeroy"
    assert "fill" not in broken


def test_buckets_are_shown_by_the_teams_clock() -> None:
    trace = CHARTS["saved"].build(data_of([SOME] * 5)).to_plotly_json()["data"][0]
    assert trace["x"][0] == "2026-06-11T00:00:00"


def test_lists_are_shared_and_fractions_short() -> None:
    figures = {slug: chart.build(data_of([SOME] * 5)).to_plotly_json() for slug, chart in CHARTS.items()}
    figures["time"]["data"][0]["y"] = [1 / 3, None, 7, 12_345_678]
    island = share_lists(figures)
    trace = island["figures"]["time"]["data"][0]
    assert "x" not in trace
    assert island["lists"][trace["lists"]["y"]] == (0.333333, None, 7, 12_345_678)
    assert trace["lists"]["x"] == island["figures"]["saved"]["data"][0]["lists"]["x"]
    for slug, figure in figures.items():
        for before, after in zip(figure["data"], island["figures"][slug]["data"], strict=True):
            found = {name: list(island["lists"][number]) for name, number in after["lists"].items()}
            assert {name: list(before[name]) for name in found if name != "y"} == {
                name: values for name, values in found.items() if name != "y"
            }
            assert before.keys() == {*after.keys(), *found} - {"lists"}


def test_hours_have_a_clock_on_the_axis() -> None:
    period = recent_period("24h", NOW, ZoneInfo("UTC"))
    series = Series(period, SOME, (SOME,) * 24)
    figure = CHARTS["time"].build(ChartData(series, series, "/?")).to_plotly_json()
    assert figure["layout"]["xaxis"]["tickformat"] == "%H:%M"


@pytest.mark.parametrize("slug", CHARTS)
def test_columns_show_a_dash_where_nothing_was_measured(slug: str) -> None:
    for column in CHARTS[slug].columns:
        assert column.show(column.pick(Figures())) == "–"


def apart(points: list[Figures]) -> ChartData:
    """Return data of two kinds, split by kind."""
    data = data_of(points)
    kinds = {"space": tuple(points), "phase": tuple(points)}
    totals = {"space": SOME, "phase": SOME._replace(assemblies=900)}
    rows = {kind: f"/?kind={kind}&" for kind in kinds}
    votes = {4: (Proportion(9, 10),) * len(points), 9: (NO_VOTES,) * len(points)}
    return replace(data, series=replace(data.series, kinds=kinds, totals=totals), kind_rows=rows, votes=votes)


@pytest.mark.parametrize("slug", CHARTS)
@pytest.mark.parametrize("points", [[SOME] * 5, [Figures()] * 5])
def test_kinds_apart_are_a_line_each(slug: str, points: list[Figures]) -> None:
    figure = apart_figure(CHARTS[slug], apart(points)).to_plotly_json()
    go.Figure(coloured(figure))
    names = [trace["name"] for trace in figure["data"]]
    assert names == (["space", "phase"] if points[0].assemblies else [])
    assert all(trace["meta"] == {"rows": f"/?kind={trace['name']}&"} for trace in figure["data"])


@pytest.mark.parametrize("slug", ["time", "truncation"])
def test_time_and_truncation_are_those_of_contexts_of_spaces(slug: str) -> None:
    data = apart([SOME] * 5)
    other = SOME._replace(p95_ms=1_369.0, p99_ms=1_369.0, truncation_rate=1.0)
    series = replace(data.series, points=(other,) * 5, kinds={"space": (SOME,) * 5, "phase": (other,) * 5})
    chart = CHARTS[slug]
    figure = draw_chart(chart, replace(data, series=series))
    drawn = [value for trace in figure.traces for value in trace["y"]]
    assert max(drawn) == (9.0 if slug == "time" else 0.5)
    assert {trace["meta"]["rows"] for trace in figure.traces} == {"/?kind=space&"}
    [*_, last] = columns_of(chart, series, is_apart=False)
    assert set(last.values) == {9.0 if slug == "time" else 0.5}
    assert chart.note_for(series).startswith("space contexts; ")
    agents = replace(series, kinds={"phase": (other,) * 5}, totals={"phase": other})
    assert chart.note_for(agents).startswith("phase filters; ")
    assert max(draw_chart(chart, replace(data, series=agents)).traces[0]["y"]) > 0.5


@pytest.mark.parametrize("tokens", [0, 1, 3, -2, 5])
def test_an_axis_of_counts_has_whole_numbers_and_no_thousandths(tokens: int) -> None:
    axis = CHARTS["saved"].build(data_of([SOME._replace(tokens_saved=tokens)] * 5)).layout["yaxis"]
    assert axis["dtick"] == 1
    # "~s" writes 0.5 as 500m, so it serves steps of one and more alone.
    assert [stop["value"] for stop in axis["tickformatstops"]] == [",~g", "~s"]
    assert axis["tickformatstops"][1]["dtickrange"] == [1, None]
    assert "dtick" not in CHARTS["saved"].build(data_of([SOME] * 5)).layout["yaxis"]


def test_kinds_apart_have_a_column_each() -> None:
    columns = columns_of(CHARTS["time"], apart([SOME] * 5).series, is_apart=True)
    assert [column.name for column in columns] == ["p95 ms, space", "p95 ms, phase"]


def test_savings_of_several_kinds_are_stacked() -> None:
    figure = CHARTS["saved"].build(apart([SOME] * 5)).to_plotly_json()
    go.Figure(coloured(figure))
    assert figure["layout"]["barmode"] == "relative"
    assert [trace["meta"]["rows"] for trace in figure["data"]] == ["/?kind=space&", "/?kind=phase&"]


def test_votes_are_a_line_for_each_stage_that_has_some() -> None:
    figure = votes_figure(apart([SOME] * 5)).to_plotly_json()
    go.Figure(coloured(figure))
    # Only stage 4 has votes, so its 95 % interval is shaded behind its line.
    assert [trace.get("name") for trace in figure["data"]] == [None, None, "stage 4"]
    assert figure["data"][2]["text"] == [10, 20, 20, 20, 20]
    shares, counts = votes_columns(apart([SOME] * 5).votes)[:2]
    assert (shares.values, counts.values) == ((0.9,) * 5, (10,) * 5)


def test_few_votes_are_pooled_with_those_before_until_there_are_enough() -> None:
    few, many = Proportion(4, 8), Proportion(30, 40)
    assert pool([few, few, few, NO_VOTES, many, few]) == [
        few, Proportion(8, 16), Proportion(12, 24), NO_VOTES, many, Proportion(34, 48),
    ]  # fmt: skip


def marked(*marks: Mark) -> dict[str, object]:
    return draw_chart(CHARTS["ratio"], replace(data_of([SOME] * 10), marks=marks)).to_plotly_json()["layout"]


def at(day: int, label: str) -> Mark:
    return Mark(datetime(2026, 6, day, 12, tzinfo=UTC), label)


def test_a_change_is_a_dotted_line_at_its_day_with_a_name() -> None:
    layout = marked(at(9, "v7 <b>"))
    [line] = layout["shapes"]
    assert line["x0"] == line["x1"] == datetime(2026, 6, 9)
    assert [(label["text"], label["xanchor"]) for label in layout["annotations"]] == [
        ("v7 &lt;b&gt;", "center")
    ]
    go.Figure(coloured({"data": [], "layout": layout}))


def test_names_of_near_changes_lean_apart_and_more_are_counted() -> None:
    two = marked(at(9, "v7"), at(10, "v8"))
    assert [(label["text"], label["xanchor"]) for label in two["annotations"]] == [
        ("v7", "right"), ("v8", "left"),
    ]  # fmt: skip
    same_day = marked(at(9, "v7"), at(9, "v8"))
    assert [label["text"] for label in same_day["annotations"]] == ["2 changes"]
    assert len(same_day["shapes"]) == 1
    apart_far = marked(at(7, "v7"), at(14, "v8"))
    assert [label["xanchor"] for label in apart_far["annotations"]] == ["center", "center"]


def test_a_chart_without_changes_has_no_lines() -> None:
    assert "shapes" not in marked()


@pytest.mark.parametrize("slug", CHARTS)
def test_a_chart_knows_how_to_narrow_and_sort_its_rows(slug: str) -> None:
    layout = draw_chart(CHARTS[slug], data_of([SOME] * 5)).layout
    assert "sort=" in layout["meta"]["rows"]
    assert (layout["dragmode"], layout["xaxis"]["fixedrange"]) == ("zoom", False)


def test_a_single_day_cannot_be_zoomed_into() -> None:
    period = recent_period("24h", NOW, ZoneInfo("UTC"))
    series = Series(period, SOME, (SOME,) * 24)
    layout = draw_chart(CHARTS["time"], ChartData(series, series, "/?")).layout
    assert (layout["dragmode"], layout["xaxis"]["fixedrange"]) == (False, True)


def test_the_chart_of_hand_offs_is_one_that_plotly_knows() -> None:
    bars = [HandoffBar("Analysis", 7_200, 450, 1_350), HandoffBar("Design", 300, None, None)]
    figure = handoff_figure(bars).to_plotly_json()
    go.Figure(coloured(figure))
    assert figure["layout"]["margin"] == {"l": 52, "r": 12, "b": 28, "t": 34}


@pytest.mark.parametrize("points", [[], [TrustPoint(NOW, 0.7, "stored"), TrustPoint(NOW, 0.1, "rated 0")]])
def test_the_chart_of_trust_is_one_that_plotly_knows(points: list[TrustPoint]) -> None:
    figure = trust_figure(points, retire_below=0.3).to_plotly_json()
    json.dumps(figure, cls=DjangoJSONEncoder, allow_nan=False)
    go.Figure(coloured(figure))
    assert figure["layout"]["shapes"][0]["y0"] == 0.3
    assert ("range" in figure["layout"]["xaxis"]) is bool(points)


def test_names_at_the_ends_of_lines_stand_apart_and_clear_of_the_dates() -> None:
    low, same, high = spread_labels([0.0, 0.0, 1.0])
    assert low == pytest.approx(LABEL_HEIGHT / 2)
    assert same - low == pytest.approx(LABEL_HEIGHT)
    assert high == 1.0
    assert spread_labels([-0.5, 0.5]) == pytest.approx([-0.5 + LABEL_HEIGHT / 2, 0.5])
