"""Every figure of the table is where the table says: in the log, the API, exports, the admin and rollups."""

import csv
import io
from datetime import timedelta
from itertools import product

import pytest
from django.test import Client

from contextopt.api.assemblies import AssemblyDetail, PlacementOut, assembly_row
from contextopt.assemblies.figures import FIGURES, IN_API, IN_CSV, SIZES, SORTS, STORED, Adds, Figure
from contextopt.assemblies.log import ASSEMBLY_COLUMNS
from contextopt.assemblies.models import COUNTS_SQL, Assembly
from contextopt.people.models import User
from contextopt.spaces.models import Space
from dashboard.rollups.fold import keep_rollups
from dashboard.rollups.histograms import BY_FIGURE
from dashboard.rollups.measures import MEASURE_COLUMNS
from dashboard.rollups.models import DayRollup, DaySummary, HourSummary, QuarterRollup
from tests.dashboard.conftest import log_in
from tests.dashboard.pages.overview.test_figures import log_row
from tests.factories import NOW, make_assembly, make_record

ROLLUPS = (QuarterRollup, DayRollup, HourSummary, DaySummary)
SUMMED = [figure for figure in FIGURES if figure.totals]
LISTED = [figure for figure in SUMMED if not figure.name.startswith("saved_")]


def value_of(row: Assembly, figure: Figure) -> object:
    if figure.name == "assemblies":
        return True
    return row.is_empty if figure.name == "empty" else getattr(row, figure.name)


def is_counted(row: Assembly, figure: Figure) -> bool:
    return {"": True, "a.is_sent": row.is_sent, COUNTS_SQL: row.saving_counts}[figure.counted]


def log_many(space: Space) -> list[Assembly]:
    """Log rows of several kinds, with and without the figures that may be missing."""
    prompt = {"prompt_tokens": 900, "shared_prefix_tokens": 500, "cached_tokens": 400, "cacheable_tokens": 90}
    choices = product(
        ("space", "retry"), (0, 3), (None, 700), (True, False), ({}, prompt), ([], ["empty_window"])
    )
    for number, (kind, included, before, is_sent, sizes, codes) in enumerate(choices):
        log_row(
            space, NOW - timedelta(minutes=7 * number), kind=kind, records_included=included,
            records_filtered=5 * included, tokens_before=before, tokens_after=400 + number, is_sent=is_sent,
            truncated=bool(number % 3), assembly_ms=5.0 + number, warning_codes=codes, **sizes,
        )  # fmt: skip
    return list(Assembly.objects.all())


def test_names_are_unique() -> None:
    columns = [total.column for figure in FIGURES for total in figure.totals]
    for names in ([figure.name for figure in FIGURES], columns, [sort.slug for sort in SORTS]):
        assert len(names) == len(set(names))


@pytest.mark.parametrize("figure", STORED, ids=lambda figure: figure.name)
def test_a_stored_figure_has_a_column(figure: Figure) -> None:
    column = Assembly._meta.get_field(figure.name)
    assert column.null == (figure.known_type is not figure.type)


def test_the_log_writes_every_column() -> None:
    columns = {field.attname for field in Assembly._meta.concrete_fields}
    # Only the contexts of agents belong to a task.
    assert columns == {*ASSEMBLY_COLUMNS, "task_id"}


def test_the_log_has_what_was_measured(space: Space) -> None:
    make_record(space, notes="Oslo is the capital.")
    make_assembly(space, stage=4, conversation="c-1")
    result = make_assembly(space, stage=4, conversation="c-1", history_tokens=200)
    row = Assembly.objects.get(pk=result.id)
    for figure in STORED:
        if figure.measure:
            assert getattr(row, figure.name) == figure.measure(result), figure.name
    sizes = {figure.name: getattr(row, figure.name) for figure in SIZES}
    assert sizes == result.placed.prompt_sizes.figures()
    assert None not in sizes.values()


def test_the_api_shows_the_figures_and_describes_them(space: Space) -> None:
    shown = assembly_row(log_row(space, NOW))
    for figure in IN_API:
        assert figure.name in shown
        assert figure.name in AssemblyDetail.__annotations__
    assert not {figure.name for figure in FIGURES if not figure.in_api} & shown.keys()
    assert {figure.name for figure in SIZES} <= PlacementOut.__annotations__.keys()


def test_exports_have_the_figures(owner: User, space: Space) -> None:
    rows = {row.pk: row for row in log_many(space)}
    exported = log_in(owner).get("/assemblies.csv").getvalue().decode()
    lines = list(csv.DictReader(io.StringIO(exported)))
    assert len(lines) == len(rows)
    for line in lines:
        assert tuple(line)[-len(IN_CSV) :] == tuple(figure.name for figure in IN_CSV)
        for figure in IN_CSV:
            value = value_of(rows[int(line["id"])], figure)
            text = " ".join(value) if isinstance(value, list) else "" if value is None else str(value)
            assert line[figure.name] == text, figure.name


def test_the_admin_shows_the_figures(admin_client: Client, space: Space) -> None:
    row = log_row(space, NOW)
    labels = {figure.label for figure in FIGURES if figure.in_admin}
    found = admin_client.get("/admin/contextopt/assembly/").content.decode()
    assert {label for label in labels if label in found} == labels
    page = admin_client.get(f"/admin/contextopt/assembly/{row.pk}/change/").content.decode()
    assert "20%" in page  # of the budget


@pytest.mark.parametrize("sort", SORTS, ids=lambda sort: sort.slug)
def test_the_list_is_sorted_by_a_figure(owner: User, space: Space, sort) -> None:
    log_many(space)
    page = log_in(owner).get("/assemblies/", {"sort": sort.slug}).content.decode()
    assert f'<option value="{sort.slug}" selected>{sort.label}</option>' in page
    ordered = Assembly.objects.with_saving().order_by(sort.order, "-id").values_list("pk", flat=True)
    places = [page.index(f'href="/assemblies/{pk}/"') for pk in ordered[:20]]
    assert places == sorted(places)


@pytest.mark.parametrize("rollup", ROLLUPS, ids=lambda rollup: rollup.__name__)
def test_rollups_have_a_column_for_each_sum(rollup) -> None:
    columns = {field.attname for field in rollup._meta.concrete_fields}
    dimensions = {"id", "team_id", "start", "space_id", "stage", "kind", "config_id", "phase", "model"}
    assert columns - dimensions == set(MEASURE_COLUMNS)


def test_rollups_add_the_figures_up(space: Space) -> None:
    rows = log_many(space)
    keep_rollups()
    for rollup in ROLLUPS:
        stored = list(rollup.objects.all())
        assert stored
        for figure in LISTED:
            values = [value_of(row, figure) for row in rows if is_counted(row, figure)]
            known = [value for value in values if value is not None and value is not False]
            for total in figure.totals:
                expected = sum(known) if total.adds is Adds.SUM else len(known)
                added = sum(getattr(row, total.column) for row in stored)
                assert added == pytest.approx(expected), total.column


@pytest.mark.parametrize("name", BY_FIGURE)
def test_histograms_count_every_value_and_know_its_range(space: Space, name: str) -> None:
    values = [value for row in log_many(space) if (value := getattr(row, name)) is not None]
    keep_rollups()
    histogram = BY_FIGURE[name]
    for rollup in ROLLUPS:
        stored = [row for row in rollup.objects.all() if sum(getattr(row, histogram.name))]
        counts = [sum(each) for each in zip(*(getattr(row, histogram.name) for row in stored), strict=True)]
        ends = (
            min(getattr(row, histogram.smallest) for row in stored),
            max(getattr(row, histogram.largest) for row in stored),
        )
        assert sum(counts) == len(values)
        assert ends == pytest.approx((min(values), max(values)))
        for share in (0.0, 0.01, 0.5, 0.95, 1.0):
            assert ends[0] <= histogram.percentile(counts, share, ends) <= ends[1]
