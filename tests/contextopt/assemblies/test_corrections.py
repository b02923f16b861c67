"""Savings that an upgrade corrected are listed by kind and reason, as before and as now."""

import pytest

from contextopt.assemblies.corrections import Correction, list_corrections
from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from tests.factories import make_attempt, make_filtering, make_task

FILES = {"cart.py": "price_7 = 7\n> quoted\n" * 30}
CHANGED = {"cart.py": "price_7 = 8\n> quoted\n" * 30}
pytestmark = pytest.mark.django_db


def correct(assembly_id: int | None, reason: str, tokens_before: int | None) -> Assembly:
    Correction.objects.create(assembly_id=assembly_id, reason=reason, tokens_before=tokens_before)
    return Assembly.objects.get(pk=assembly_id)


def test_corrected_savings_are_listed_by_kind_and_reason(team: Team, other_team: Team) -> None:
    result = make_attempt(make_task(team, files=FILES), files=CHANGED, error="\n" * 5_000)
    retry = correct(result.attempt.assembly_id, "marks", 9_000)
    phases = [correct(make_filtering(team, "building").id, "marks", 700 + number) for number in range(2)]
    correct(make_filtering(team, "building").id, "replan", None)
    correct(make_filtering(other_team, "building").id, "marks", 700)
    now = {(each.kind, each.reason): each for each in list_corrections([team])}
    assert set(now) == {("retry", "marks"), ("phase", "marks"), ("phase", "replan")}
    saved = 9_000 - retry.tokens_after
    found = now["retry", "marks"]
    assert (found.assemblies, found.saved_before, found.saved_after) == (1, saved, retry.tokens_saved)
    assert str(found) == (
        f"Corrected by an upgrade: 1 retry delta, {retry.tokens_saved:,} tokens saved instead of {saved:,}, "
        "since marks that only Contextopt adds are not part of the full context."
    )
    both = now["phase", "marks"]
    assert both.assemblies == 2
    assert both.saved_before == sum(700 + number - row.tokens_after for number, row in enumerate(phases))
    assert both.saved_after == sum(row.tokens_saved or 0 for row in phases)
    # A baseline that did not exist then saved nothing.
    assert now["phase", "replan"].saved_before == 0
    assert len(list_corrections([team, other_team])) == 4
