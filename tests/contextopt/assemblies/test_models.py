"""Savings in the log: the rule exists as a query, as SQL and as a property, and all must agree."""

from datetime import timedelta
from itertools import product

import pytest
from django.db import connection

from contextopt.assemblies.models import COUNTS, COUNTS_SQL, EMPTY_SQL, Assembly, AssemblyPayload, Kind
from contextopt.assemblies.verify import Difference, verify_assembly
from contextopt.engine.values import EMPTY_WINDOW, INSUFFICIENT, NOTE, ContextWarning, warnings_json
from contextopt.spaces.models import Space
from tests.dashboard.pages.overview.test_figures import log_row
from tests.factories import NOW, make_assembly, make_record

KINDS = tuple(Kind.values)


def log_every_sort(space: Space) -> None:
    """Log a row for each combination of values that the rule depends on."""
    choices = product(KINDS, (None, 2, 3, 5), (0, 3), (None, 500), (0, 400), ([], [NOTE], [EMPTY_WINDOW]))
    for number, (kind, stage, included, before, after, codes) in enumerate(choices):
        log_row(
            space, NOW - timedelta(seconds=number), kind=kind, stage=stage, records_included=included,
            over_record_limit=10 - included, tokens_before=before, tokens_after=after, warning_codes=codes,
        )  # fmt: skip


def ids_where(condition: str) -> set[int]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT a.id FROM contextopt_assembly a WHERE {condition}")
        return {pk for (pk,) in cursor.fetchall()}


def test_query_sql_and_property_agree_on_savings(space: Space) -> None:
    log_every_sort(space)
    rows = list(Assembly.objects.all())
    counted = {row.pk for row in rows if row.saving_counts}
    assert 0 < len(counted) < len(rows)
    assert (
        counted == set(Assembly.objects.filter(COUNTS).values_list("pk", flat=True)) == ids_where(COUNTS_SQL)
    )
    empty = {row.pk for row in rows if row.is_empty}
    assert 0 < len(empty) < len(rows)
    assert empty == set(Assembly.objects.empty().values_list("pk", flat=True)) == ids_where(EMPTY_SQL)
    saved = dict(Assembly.objects.with_saving().values_list("pk", "saved"))
    assert saved == {row.pk: row.tokens_saved for row in rows}


def test_an_empty_context_saves_nothing_and_says_why(space: Space) -> None:
    row = log_row(space, NOW, records_filtered=0, records_included=0, over_record_limit=0)
    assert (row.is_empty, row.saving_counts, row.tokens_saved) == (True, False, None)
    assert row.not_counted == "the context is empty"


@pytest.mark.parametrize("code", sorted(INSUFFICIENT))
def test_a_context_with_a_warning_saves_nothing(space: Space, code: str) -> None:
    row = log_row(space, NOW, warning_codes=[code])
    assert (row.is_empty, row.tokens_saved) == (False, None)
    assert row.not_counted == f"the answer may be missing ({code.replace('_', ' ')})"


def test_a_stage_without_records_is_not_empty(space: Space) -> None:
    row = log_row(space, NOW, stage=2, records_filtered=0, records_included=0, over_record_limit=0)
    assert (row.is_empty, row.tokens_saved) == (False, 100)


def test_a_retry_that_waited_in_an_old_version_saves_nothing(space: Space) -> None:
    """Rows never change, and an earlier version stored a token baseline for retries that sent nothing."""
    row = log_row(space, NOW, kind=Kind.RETRY, stage=None, tokens_before=500, tokens_after=0)
    assert (row.tokens_saved, row.not_counted) == (None, "nothing was sent")


def test_only_a_space_context_uses_a_budget(space: Space) -> None:
    assert log_row(space, NOW).utilisation == 0.2
    for kind in (Kind.RETRY, Kind.PHASE, Kind.HANDOFF):
        assert log_row(space, NOW, kind=kind).utilisation is None


class TestVerification:
    """The stored payload proves whether a saving counts, for rows of earlier versions too."""

    def payload(self, space: Space, **overrides: object) -> AssemblyPayload:
        result = make_assembly(space, **overrides)
        return AssemblyPayload.objects.select_related("assembly").get(pk=result.id)

    def test_an_empty_context_is_verified(self, space: Space) -> None:
        assert verify_assembly(self.payload(space)) == []

    def test_a_context_that_counts_is_verified(self, space: Space) -> None:
        make_record(space)
        payload = self.payload(space)
        assert payload.assembly.saving_counts
        assert verify_assembly(payload) == []
        payload.assembly.warning_codes = [EMPTY_WINDOW]
        saved = payload.assembly.tokens_before - payload.assembly.tokens_after
        assert verify_assembly(payload) == [
            Difference("warning_codes", [EMPTY_WINDOW], []),
            Difference("tokens_saved", None, saved),
        ]

    def test_a_warning_missing_in_the_row_is_a_difference(self, space: Space) -> None:
        make_record(space)
        payload = self.payload(space)
        payload.ledger["warnings"] = warnings_json([ContextWarning(EMPTY_WINDOW, "Too old.")])
        payload.assembly.warning_codes = []
        assert [found.figure for found in verify_assembly(payload)] == ["warning_codes", "tokens_saved"]
        payload.assembly.warning_codes = [EMPTY_WINDOW]
        assert verify_assembly(payload) == []

    def test_old_warnings_are_plain_text(self, space: Space) -> None:
        make_record(space)
        payload = self.payload(space)
        payload.ledger["warnings"] = ["Nothing in the window matches."]
        assert verify_assembly(payload) == []
