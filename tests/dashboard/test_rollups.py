"""Rollups against the rows they are made of."""

from dashboard.rollups import fold, keep_rollups, rebuild
from dashboard.models import QuarterRollup, DayRollup, UnfoldedAssembly
from contextopt.models import Space
from tests.dashboard.test_metrics import log_row
from tests.factories import NOW
from datetime import timedelta


def test_smoke(space: Space) -> None:
    for number in range(30):
        log_row(space, NOW - timedelta(minutes=7 * number), assembly_ms=number / 2, records_filtered=0 if number%3 else 10, records_included=0 if number%3 else 4, over_record_limit=0 if number%3 else 6)
    assert UnfoldedAssembly.objects.count() == 30
    assert fold() == 30
    assert fold() == 0
    row = QuarterRollup.objects.first()
    print(row.__dict__)
    a = list(DayRollup.objects.values())
    print(len(a), QuarterRollup.objects.count())
    b = list(rebuild(space.team))
    assert list(DayRollup.objects.values('start', 'assemblies', 'ratios'))
