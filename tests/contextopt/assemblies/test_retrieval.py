"""Stage 5 on the database: the records that a question finds, and those it must never find."""

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from contextopt.assemblies import assemble
from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.models import AssemblyPayload
from contextopt.assemblies.results import AssemblyResult
from contextopt.assemblies.verify import verify_assembly
from contextopt.people.models import Team
from contextopt.spaces.inputs import RecordIn, RecordPatch
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import delete_record, update_record, upsert_records
from tests.concurrency import before_statement, beside
from tests.factories import NOW, make_record, make_space, make_team
from tests.queries import count_queries
from tests.recomputed import make_searchable

TOPICS = ("kubernetes cluster upgrade", "invoice total rounding", "summer holiday in Bergen", "login cookie")


def ask(space: Space, query: str, **settings: object) -> AssemblyResult:
    request = {"window_days": "all", "as_of": NOW, **settings}
    return assemble_space(
        team_id=space.team_id,
        request=AssemblyIn(space=space.slug, query=query, **request),  # type: ignore[arg-type]
        actor="test",
    )


@pytest.fixture
def dialogue(space: Space) -> list[Record]:
    """A thread in which the answer doesn't repeat the words of the question."""
    said = [
        ("Anna", "Good morning! How was the weekend?"),
        ("Ben", "Which vaccine did the dog get at the vet?"),
        ("Anna", "The one against rabies, and she was brave."),
        ("Ben", "I painted the fence and slept."),
    ]
    records = [
        make_record(
            space, title=who, type="turn", notes=text, thread="monday", position=at,
            date=NOW - timedelta(days=400), external_id=f"turn-{at}",
        )
        for at, (who, text) in enumerate(said)
    ]  # fmt: skip
    for number in range(40):
        make_record(
            space, title=f"Entry {number}", notes=f"{TOPICS[number % 4]} item {number}",
            date=NOW - timedelta(days=100 + number), external_id=f"entry-{number}",
        )  # fmt: skip
    make_searchable(space)
    return records


def test_a_question_finds_old_records_and_neighbours_of_matches(dialogue: list[Record], space: Space) -> None:
    result = ask(space, "vaccine for the dog at the vet", max_records=3)
    included = [entry["id"] for entry in result.entries if entry["kept"]]
    assert dialogue[1].pk == included[0]
    assert dialogue[2].pk in included
    parts = {entry["id"]: entry["parts"] for entry in result.entries}
    assert parts[dialogue[1].pk]["lexical"] == 10
    assert parts[dialogue[2].pk]["neighbour"] > 2


def test_a_window_is_kept(dialogue: list[Record], space: Space) -> None:
    result = ask(space, "vaccine for the dog at the vet", window_days=105)
    dates = Record.objects.filter(pk__in=[entry["id"] for entry in result.entries]).values_list(
        "date", flat=True
    )
    assert len(dates) == 6
    assert min(dates) >= NOW - timedelta(days=105)
    assert result.stats.records_filtered == 6


def test_pinned_records_are_rated_whatever_their_date(space: Space) -> None:
    for number, topic in enumerate(TOPICS):
        make_record(space, title=topic, date=NOW - timedelta(days=400 + number), pinned=True)
    make_record(space, title="cookie", date=NOW)
    make_searchable(space)
    result = ask(space, "invoice total", window_days=14)
    parts = {entry["id"]: entry["parts"] for entry in result.entries}
    assert len(parts) == 5
    best = Record.objects.get(pk=result.outcome.order[0])
    assert best.title == "invoice total rounding"
    assert parts[best.pk]["lexical"] == 10.0
    assert parts[best.pk]["semantic"] > 2.0


def test_records_dated_after_the_moment_are_not_found(space: Space) -> None:
    make_record(space, title="Later", notes="The rabies vaccine", date=NOW + timedelta(days=2))
    make_searchable(space)
    assert ask(space, "rabies vaccine").entries == ()


def test_deleted_records_are_gone_at_once_even_as_neighbours(dialogue: list[Record], space: Space) -> None:
    delete_record(record=dialogue[2], actor="test")
    ids = [entry["id"] for entry in ask(space, "dog vaccine vet", max_records=10).entries]
    assert dialogue[2].pk not in ids
    assert dialogue[1].pk in ids


@pytest.mark.parametrize("query", ["", "   ", "\n\t"])
def test_without_a_question_the_bytes_are_those_of_stage_4(space: Space, query: str) -> None:
    for number in range(60):
        make_record(
            space, title=f"Note {number}", date=NOW - timedelta(hours=20 * number), view_count=number % 7
        )
    five = ask(space, query, stage=5, notes_chars="all")
    four = ask(space, "", stage=4)
    assert (five.asked.config.stage, four.asked.config.stage) == (5, 4)
    assert five.text == four.text
    assert five.certificate == four.certificate
    assert five.entries == four.entries
    assert five.stats.stage3_tokens == four.stats.stage3_tokens


def test_a_question_makes_it_stage_5(dialogue: list[Record], space: Space) -> None:
    assert ask(space, "vaccine").asked.config.stage == 5
    assert ask(space, "").asked.config.stage == 4
    assert ask(space, "vaccine", stage=4).text == ask(space, "", stage=4).text


def test_the_log_proves_itself(dialogue: list[Record], space: Space) -> None:
    result = ask(space, "vaccine for the dog", notes_chars="all", context_tokens=300)
    payload = AssemblyPayload.objects.get(assembly_id=result.id)
    assert verify_assembly(payload) == []
    assert payload.request["query"] == "vaccine for the dog"
    assert payload.config["semantic_weight"] == "9.000"


def test_repetitions_are_named(space: Space) -> None:
    notes = "The supplier changed the order of the columns, so the import of the price list failed again."
    first, second = (make_record(space, title="Import", notes=notes, external_id=name) for name in "ab")
    make_searchable(space)
    result = ask(space, "why did the import fail?")
    dropped = result.to_json()["dropped"]
    assert [(entry["id"], entry["reason"], entry["duplicate_of"]) for entry in dropped] == [
        (first.pk, "duplicate_of", second.pk)
    ]
    assert result.to_json()["counts"]["duplicate_of"] == 1
    stored = AssemblyPayload.objects.get(assembly_id=result.id).entries
    assert [entry["duplicate_of"] for entry in stored] == [None, second.pk]


def test_only_words_count_if_the_question_cannot_be_embedded(
    dialogue: list[Record], space: Space, settings: object
) -> None:
    from contextopt.search.models import EmbeddingModel

    EmbeddingModel.objects.active().update(name="endpoint:gone:256")
    result = ask(space, "vaccine for the dog at the vet")
    assert result.entries[0]["id"] == dialogue[1].pk
    assert [warning.code for warning in result.warnings] == ["not_embedded"]
    assert result.stats.tokens_saved is None


def make_alike(space: Space, count: int, **fields: object) -> None:
    rows = [
        RecordIn(source="ci", external_id=str(number), date=NOW - timedelta(hours=number), **fields)
        for number in range(count)
    ]
    upsert_records(space=space, rows=rows, actor="test")


def adds_up(result: AssemblyResult) -> bool:
    stats = result.stats
    return stats.records_included + sum(stats.dropped_by_reason.values()) == stats.records_filtered


def test_many_repetitions_leave_room_for_the_rest(space: Space) -> None:
    """There are more near-duplicates than the first read takes, and few of them are kept."""
    make_alike(space, 120, title="Nightly build failed", notes="The nightly build failed again.")
    for number in range(8):
        make_record(
            space, title=f"Deploy {number}", notes=f"All green {number}", date=NOW - timedelta(days=20)
        )
    make_searchable(space)
    result = ask(space, "nightly build failed")
    assert result.text.count("Nightly build failed") == 1
    assert result.text.count("Deploy") == 8
    assert result.stats.dropped_by_reason == {"duplicate_of": 119}
    assert verify_assembly(AssemblyPayload.objects.get(pk=result.id)) == []


def test_a_question_fills_a_large_budget(space: Space) -> None:
    for number in range(300):
        make_record(space, title=f"Entry {number}", notes=f"{TOPICS[number % 4]} item {number}")
    make_searchable(space)
    result = ask(space, "cluster upgrade", max_records="all", context_tokens=50_000)
    assert (result.stats.records_included, result.stats.dropped_by_reason) == (300, {})


def test_candidates_beyond_the_last_reach_are_only_counted(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assemble, "REACHES", (1,))
    make_alike(space, 400, title="Nightly build failed", notes="The nightly build failed again.")
    make_searchable(space)
    result = ask(space, "invoice for the printer", max_records=80)
    assert result.stats.dropped_by_reason["not_loaded"] > 0
    assert adds_up(result)
    assert verify_assembly(AssemblyPayload.objects.get(pk=result.id)) == []


def test_statements_do_not_grow_with_the_space(space: Space) -> None:
    def count() -> int:
        make_searchable(space)
        ask(space, "cluster upgrade")
        return count_queries(lambda: ask(space, "cluster upgrade"))

    # More than fit into the budget, and more than the search and the scoring read.
    for number in range(250):
        make_record(space, title=f"Entry {number}", notes=TOPICS[number % 4], thread="t", position=number)
    few = count()
    for number in range(60):
        make_record(
            space, title=f"More {number}", notes=TOPICS[number % 4], thread="t", position=300 + number
        )
    assert count() == few


def test_many_questions_by_command(
    dialogue: list[Record], space: Space, tmp_path: Path, capsys: object
) -> None:
    from django.core.management import call_command

    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps({"id": n, "query": q}) + "\n" for n, q in enumerate(TOPICS)))
    call_command(
        "assemble", space.slug, "--team", space.team.slug, "--queries", str(path), "--window-days", "all",
        "--notes-chars", "all", "--max-records", "all", "--json",
    )  # fmt: skip
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]  # type: ignore[attr-defined]
    assert [line["id"] for line in lines] == [0, 1, 2, 3]
    assert all(line["stage"] == 5 and TOPICS[line["id"]] in line["text"] for line in lines)


words = st.lists(
    st.sampled_from(["dog", "vaccine", "cluster", "invoice", "hund", "æ", "'", "|", "&", "\\"]), max_size=6
)


class NeverForeign(TestCase):
    """Two teams with the same texts. Half of our records are deleted."""

    ours: Space
    theirs: Space

    @classmethod
    def setUpTestData(cls) -> None:
        cls.ours, cls.theirs = (make_space(make_team(slug)) for slug in ("ours", "theirs"))
        for space in (cls.ours, cls.theirs):
            for number in range(24):
                record = make_record(
                    space, title=f"dog {number}", notes=f"vaccine cluster invoice {number}", thread="t",
                    position=number, date=NOW - timedelta(days=number),
                )  # fmt: skip
                if number % 2:
                    delete_record(record=record, actor="test")
            make_searchable(space)
        Team.objects.get(slug="ours")

    @settings(max_examples=25)
    @given(words, st.sampled_from([1, 7, 14, "all"]), st.integers(20, 4_000))
    def test_a_question_never_finds_other_spaces_or_deleted_records(
        self, query: list[str], window: object, budget: int
    ) -> None:
        result = ask(self.ours, " ".join(query), window_days=window, context_tokens=budget, stage=5)
        named = {entry["id"] for entry in result.entries}
        live = set(Record.objects.filter(space=self.ours, deleted_at=None).values_list("pk", flat=True))
        assert named <= live
        assert result.stats.tokens_used <= budget


OFFICE = """
    invoice tax accounting payroll budget ledger audit meeting agenda minutes printer contract salary pension
    insurance holiday vacation manager deadline spreadsheet quarterly revenue expense procurement vendor
    supplier compliance policy training recruitment interview onboarding badge parking canteen lunch coffee
    stapler envelope
"""


def test_a_record_lends_by_both_its_parts(space: Space) -> None:
    """Second by words and far down by meaning, a record is first by their sum and lends to its neighbour."""
    for number in range(40):
        some = random.Random(number).sample(OFFICE.split(), 6)
        make_record(space, title="Doctor", notes=f"Doctor, surgeon, doctors. {' '.join(some)}")
    for number in range(20):
        shuffled = random.Random(number).sample(OFFICE.split(), 39)
        make_record(space, title="Office", notes=f"{' '.join(shuffled)} physician physician physician")
    said = "The physician waited there, then left the old town again that winter night"
    best = make_record(space, title="Camp", notes=said, thread="t", position=1)
    beside = make_record(space, title="Note", notes="He nodded and left.", thread="t", position=2)
    make_searchable(space)
    result = ask(space, "physician", context_tokens=500, max_records=20)
    parts = {entry["id"]: entry["parts"] for entry in result.entries}
    assert result.entries[0]["id"] == best.pk
    assert parts[best.pk]["lexical"] < 10
    assert parts[beside.pk]["neighbour"] > 2


def test_days_and_person_of_the_question_count(space: Space) -> None:
    """They are not lent to neighbours, and records are found by their day alone."""
    Team.objects.filter(pk=space.team_id).update(time_zone="Europe/Oslo")
    long_ago = datetime(2026, 1, 10, 12, tzinfo=UTC)
    for number in range(150):
        make_record(space, title="Doe", date=long_ago, notes=f"The printer broke, number {number}.")
    # In Oslo it is 4 January.
    late = datetime(2026, 1, 3, 23, 30, tzinfo=UTC)
    said = make_record(space, title="Ada", type="message", date=late, notes="Lunch.", thread="t", position=1)
    noon = datetime(2026, 1, 3, 12, tzinfo=UTC)
    beside = make_record(space, title="Bob", type="message", date=noon, notes="Yes.", thread="t", position=2)
    wrote = make_record(space, title="Note", date=noon, notes="Tea.", metadata={"author": "ada"})
    make_searchable(space)
    result = ask(space, "Which printer did Ada see on 4 January 2026?", as_of=NOW, context_tokens=8_000)
    parts = {entry["id"]: entry["parts"] for entry in result.entries}
    assert (parts[said.pk]["date"], parts[said.pk]["who"]) == (10, 10)
    assert (parts[beside.pk]["date"], parts[beside.pk]["who"]) == (0, 0)
    assert parts[wrote.pk]["who"] == 10
    assert {part["date"] for key, part in parts.items() if key not in {said.pk, beside.pk, wrote.pk}} == {4}
    score = next(entry["score"] for entry in result.entries if entry["id"] == said.pk)
    unweighted = ask(
        space, "Which printer did Ada see on 4 January 2026?", as_of=NOW, context_tokens=8_000,
        date_weight=0, who_weight=0,
    )  # fmt: skip
    before = next(entry["score"] for entry in unweighted.entries if entry["id"] == said.pk)
    unweighted_parts = next(entry["parts"] for entry in unweighted.entries if entry["id"] == said.pk)
    # Without a weight for the person, the name stays in what is compared by meaning.
    apart = 9 * (parts[said.pk]["semantic"] - unweighted_parts["semantic"])
    around = 13 * (parts[said.pk]["neighbour"] - unweighted_parts["neighbour"])
    assert score - before == pytest.approx(3 * 10 + 4 * 10 + apart + around, abs=1e-4)


def _edit_once(record: Record) -> Callable[[int], None]:
    """Return what changes the record's notes beside the test, the first time."""

    def edit(number: int) -> None:
        if number == 1:
            changes = RecordPatch(notes="The new printer works.")
            beside(lambda: update_record(record=record, changes=changes, actor="test")).result(20)

    return edit


@pytest.mark.django_db(transaction=True)
def test_everything_is_read_from_one_snapshot(space: Space) -> None:
    notes = f"{'The old printer broke. ' * 9}Nobody has called."
    record = make_record(space, title="Printer", notes=notes)
    make_searchable(space)
    with before_statement("left(notes", _edit_once(record)):
        assert notes in ask(space, "printer").text
    assert "The new printer works." in ask(space, "printer").text


@pytest.mark.django_db(transaction=True)
def test_inside_a_transaction_a_record_that_changes_keeps_its_summary(space: Space) -> None:
    """Its own statements may see different states, but never two of them in one line."""
    record = make_record(space, title="Printer", notes="The old printer broke. " * 10)
    make_searchable(space)
    with transaction.atomic(), before_statement("left(notes", _edit_once(record)):
        result = ask(space, "printer")
    assert record.summary in result.text
    assert "new printer" not in result.text
