"""Each record of each logged context has an explanation, and it names the step that lost it."""

import random
from datetime import timedelta
from typing import Any

import pytest

from contextopt.assemblies.log import unpack_givens
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.assemblies.purge import purge_record
from contextopt.assemblies.replay.explanation import Explanation, Step, explain_record, find_expected
from contextopt.assemblies.results import AssemblyResult
from contextopt.engine.wording import plural
from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.people.models import Team
from contextopt.spaces.inputs import RecordPatch
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import delete_record, restore_record, update_record
from tests.contextopt.assemblies.replay.test_replay import logged
from tests.factories import NOW, make_assembly, make_filtering, make_record
from tests.factories import make_space as make_other_space
from tests.queries import count_queries
from tests.recomputed import STAGES, Restless, make_searchable


def explain(made: AssemblyResult, record: Record) -> Explanation:
    return explain_record(logged(made.id), Record.objects.select_related("space").get(pk=record.pk))


def assemble(space: Space, **settings: Any) -> AssemblyResult:
    """Assemble a context after the records came: in one transaction, the database's clock stands still."""
    Record.objects.filter(space=space).update(created_at=NOW - timedelta(days=1))
    return make_assembly(space, as_of=NOW, **settings)


def make_hours(space: Space, count: int) -> list[Record]:
    """Return records of as many days, the newest first."""
    return [
        make_record(space, title=f"Day {number}", date=NOW - timedelta(hours=number))
        for number in range(count)
    ]


def test_a_record_that_entered(space: Space) -> None:
    first, second = make_hours(space, 2)
    found = explain(assemble(space), second)
    assert (found.step, found.rank, found.of) == (Step.INCLUDED, 2, 2)
    assert found.parts is not None
    assert found.parts["recency"] > 9
    assert found.message.startswith("Ranked 2 of 2. It was kept, with ")
    assert explain(assemble(space), first).rank == 1


def test_a_pinned_record_comes_first_by_its_pin(space: Space) -> None:
    make_hours(space, 2)
    pinned = make_record(space, title="Runbook", date=NOW - timedelta(days=9), pinned=True)
    found = explain(assemble(space), pinned)
    assert found.message.startswith("Ranked 1 of 3. It is pinned, and pinned records come first. It was kept")
    # Stage 3 takes the newest.
    found = explain(assemble(space, stage=3), pinned)
    assert found.message.startswith("Ranked 3 of 3. It was kept")


def test_over_the_record_limit(space: Space) -> None:
    records = make_hours(space, 5)
    found = explain(assemble(space, max_records=3), records[4])
    assert (found.step, found.rank, found.of) == (Step.OVER_RECORD_LIMIT, 5, 5)
    assert found.message == "Ranked 5 of 5. The record limit was reached first: 3 records were kept."


def test_over_the_budget_says_by_how_much(space: Space) -> None:
    """With a budget larger by that number the record enters, and with one token less it does not."""
    records = make_hours(space, 40)
    made = assemble(space, context_tokens=200)
    for record in (records[made.stats.records_included], records[30]):
        found = explain(made, record)
        assert (found.step, found.of) == (Step.OVER_BUDGET, 40)
        assert found.over_tokens is not None
        assert f"so it is {found.over_tokens:,} over the budget" in found.message
        for more, step in ((0, Step.INCLUDED), (-1, Step.OVER_BUDGET)):
            tokens = 200 + found.over_tokens + more
            larger = assemble(space, context_tokens=tokens, max_records=40)
            assert explain(larger, record).step == step


def test_over_the_budget_of_a_question_says_what_was_left(space: Space) -> None:
    """The ledger alone tells it: what the kept records that rank above it left, and what it needs."""
    for number in range(1, 30):
        make_record(space, title=f"Printer {number}", notes=f"It jams on page {number}. " * number)
    made = assemble(space, query="Which printer jams?", context_tokens=300, record_tokens="all")
    ranked = sorted(made.entries, key=lambda entry: -entry["score"])
    header = made.stats.tokens_used - sum(entry["tokens"] for entry in ranked if entry["kept"])
    lowest = min(entry["score"] for entry in ranked if entry["kept"])
    dropped = [entry for entry in ranked if not entry["kept"]]
    assert any(entry["score"] > lowest for entry in dropped)
    for entry in dropped:
        found = explain(made, Record(pk=entry["id"]))
        above = [one["tokens"] for one in ranked if one["kept"] and one["score"] > entry["score"]]
        left = 300 - header - sum(above)
        assert (found.step, found.over_tokens) == (Step.OVER_BUDGET, entry["tokens"] - left)
        assert f"The records ranked above it left {plural(left, 'token')} of 300. " in found.message
        is_passed_over = entry["score"] > lowest
        assert found.message.endswith("Smaller ones that rank lower still fit.") == is_passed_over


def test_a_record_that_the_ledger_does_not_name_has_a_rank(space: Space) -> None:
    """The ledger names the best hundred of the dropped ones."""
    records = make_hours(space, 119)
    made = assemble(space, max_records=10)
    found = explain(made, records[115])
    assert records[115].pk not in {entry["id"] for entry in made.entries}
    assert (found.step, found.rank, found.of) == (Step.NOT_A_CANDIDATE, None, 119)
    within = explain(assemble(space, max_records=15), records[116])
    assert within.step == Step.NOT_A_CANDIDATE


def test_given_but_not_named(space: Space) -> None:
    records = make_hours(space, 150)
    made = assemble(space, max_records=20, context_tokens=60)
    named = {entry["id"] for entry in made.entries}
    given = [record for record in records if record.pk not in named]
    found = explain(made, given[0])
    assert found.step == Step.OVER_BUDGET
    assert found.rank == records.index(given[0]) + 1
    assert found.parts is not None
    assert found.over_tokens is not None


def test_a_question_ranks_only_what_was_rated_for_it(space: Space) -> None:
    records = make_hours(space, 300)
    made = assemble(space, query="Day 7", context_tokens=200)
    dropped = next(entry for entry in made.entries if not entry["kept"])
    found = explain(made, Record(pk=dropped["id"]))
    given = logged(made.id).payload.givens
    rated = sum(one.is_candidate for one in unpack_givens(bytes(given)).records)
    assert found.of == rated < len(records)
    assert f" of {rated} candidates (300 records). " in found.message


def test_outside_the_window(space: Space) -> None:
    make_record(space)
    old = make_record(space, date=NOW - timedelta(days=40))
    ahead = make_record(space, date=NOW + timedelta(days=3))
    made = assemble(space)
    assert explain(made, old).step == explain(made, ahead).step == Step.OUTSIDE_WINDOW
    message = "It is dated 6 May 2026, 40 days before this context. The window is 14 days."
    assert explain(made, old).message == message
    assert "after 15 June 2026" in explain(made, ahead).message
    yesterday = make_record(space, date=NOW - timedelta(hours=40))
    narrow = explain(assemble(space, window_days=1), yesterday).message
    assert narrow.endswith("1 day before this context. The window is 1 day.")


@pytest.mark.django_db(transaction=True)
def test_changes_after_the_assembly_do_not_count(space: Space) -> None:
    """A record that was deleted, restored or re-dated since is explained as it was."""
    make_record(space)
    old, trashed = make_record(space, date=NOW - timedelta(days=40)), make_record(space)
    delete_record(record=trashed, actor="test")
    made = assemble(space)
    update_record(record=old, changes=RecordPatch(date=NOW), actor="test")
    restore_record(record=Record.objects.get(pk=trashed.pk), actor="test")
    assert explain(made, old).step == Step.OUTSIDE_WINDOW
    assert explain(made, trashed).step == Step.DELETED


@pytest.mark.django_db(transaction=True)
def test_not_in_the_space_then(space: Space, team: Team) -> None:
    make_record(space)
    made = assemble(space)
    later = make_record(space)
    elsewhere = make_record(make_other_space(team, slug="other", name="Other notes"))
    assert explain(made, later).step == Step.NOT_IN_SPACE
    assert "was added on" in explain(made, later).message
    assert explain(made, elsewhere).message.startswith("It is in the space other. This")


def test_duplicates_name_what_they_repeat(space: Space) -> None:
    words = "The queue is stuck since the deploy and nobody knows why."
    first, second = (make_record(space, title="Queue", notes=words) for _ in range(2))
    make_searchable(space)
    made = assemble(space, query="queue stuck")
    found = {explain(made, record).step: explain(made, record) for record in (first, second)}
    assert found[Step.DUPLICATE_OF].duplicate_of == found[Step.INCLUDED].record.pk
    assert "nearly repeats record" in found[Step.DUPLICATE_OF].message


def test_stages_without_scores(space: Space) -> None:
    records = make_hours(space, 12)
    third = assemble(space, stage=3)
    assert (explain(third, records[11]).step, explain(third, records[11]).rank) == (
        Step.OVER_RECORD_LIMIT,
        12,
    )
    assert explain(third, records[0]).parts is None
    assert explain(assemble(space, stage=2), records[0]).step == Step.NO_RECORDS


def test_an_assembly_without_logged_inputs(space: Space) -> None:
    """Without the engine's inputs, the ledger and the records' history still explain most outcomes."""
    records = make_hours(space, 130)
    made = assemble(space)
    AssemblyPayload.objects.update(givens=None)
    assert explain(made, records[3]).step == Step.INCLUDED
    assert explain(made, records[25]).rank == 26
    assert "of the 130 candidates" in explain(made, records[128]).message


def test_a_purged_record(space: Space) -> None:
    records = make_hours(space, 3)
    made = assemble(space)
    purge_record(record=records[1])
    assert explain(made, records[1]).step == Step.INCLUDED


def test_other_kinds_are_refused(space: Space) -> None:
    record = make_record(space)
    make_filtering(space.team)
    with pytest.raises(Conflict, match="not the context of a space"):
        explain_record(logged(Assembly.objects.get().pk), record)


def test_every_record_of_a_busy_space_is_explained(space: Space) -> None:
    """The step of each record agrees with the ledger, and ranks are those of the ledger's order."""
    restless = Restless(space, random.Random(5))
    restless.fill(50)
    make_searchable(space)
    for stage in STAGES:
        Record.objects.filter(space=space).update(created_at=NOW - timedelta(days=1))
        made = restless.assemble(stage=stage)
        for entry in made.entries:
            found = explain(made, Record(pk=entry["id"]))
            assert found.step == (entry["reason"] or "included")
        for record in Record.objects.filter(space=space).exclude(pk__in=[e["id"] for e in made.entries]):
            assert explain(made, record).step not in (Step.INCLUDED, Step.NOT_IN_SPACE)
        restless.change()


def test_an_explanation_takes_few_queries(space: Space) -> None:
    records = make_hours(space, 130)
    assembly = logged(assemble(space, max_records=5).id)
    record = Record.objects.select_related("space").get(pk=records[128].pk)
    # The versions that were given, and the record's own revisions.
    assert count_queries(lambda: explain_record(assembly, record)) == 2


# ---- finding the record


def expect(space: Space, text: str) -> Record:
    made = make_assembly(space)
    records = Record.objects.filter(space__team=space.team)
    return find_expected(logged(made.id), text, records, field="expect")


def test_every_split_at_a_colon_is_tried(space: Space) -> None:
    plain = make_record(space, source="wiki", external_id="12")
    colons = make_record(space, source="git:shop", external_id="a:b")
    bare = make_record(space, source="", external_id="only")
    assert expect(space, str(plain.pk)) == plain
    assert expect(space, "wiki:12") == plain
    assert expect(space, "git:shop:a:b") == colons
    assert expect(space, ":only") == bare


def test_an_ambiguous_name_is_refused(space: Space) -> None:
    make_record(space, source="git", external_id="shop:a")
    make_record(space, source="git:shop", external_id="a")
    with pytest.raises(InvalidInput, match="names more than one record"):
        expect(space, "git:shop:a")


@pytest.mark.parametrize("text", ["999999999", "9" * 30, "9" * 5_000, "wiki:none", ":" * 500])
def test_a_missing_record(space: Space, text: str) -> None:
    with pytest.raises(NotFound):
        expect(space, text)


@pytest.mark.parametrize("text", ["restore", "", "²"])
def test_a_text_in_neither_form_is_refused(space: Space, text: str) -> None:
    with pytest.raises(InvalidInput, match="give a record's ID, or SOURCE:EXTERNAL_ID"):
        expect(space, text)
