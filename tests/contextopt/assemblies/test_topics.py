"""Questions about one topic of a long conversation, and what is known in a space, on the database."""

import random
from datetime import timedelta

from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.replay.explanation import Step, explain_record
from contextopt.assemblies.results import AssemblyResult
from contextopt.spaces.inputs import RecordIn
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import upsert_records
from tests.contextopt.assemblies.replay.test_replay import logged, replay
from tests.factories import NOW, make_record
from tests.recomputed import make_searchable

SMALL_TALK = "yeah okay right so well maybe somebody else could check that before we meet again next time"
ASKED = "What was said about charging the battery?"


def hold_meeting(space: Space, *, pause_after: int | None = None) -> dict[int, int]:
    """Fill a thread with 240 turns; from 100 to 130 every third is about a battery, and a few others are.

    With `pause_after`, each further part of this many turns begins two hours later. Return ids by position.
    """
    turns = []
    for at in range(240):
        said = " ".join(random.Random(at).sample(SMALL_TALK.split(), 9))
        if at in {5, 60, 180, 230} or (100 <= at <= 130 and at % 3 == 0):
            said = f"The battery should be charging by then, {said}"
        later = timedelta(hours=2 * (at // pause_after)) if pause_after else timedelta()
        turns.append(
            RecordIn(
                title=f"Speaker {at % 4}", type="message", date=NOW - timedelta(days=9) + later, notes=said,
                thread="meeting", position=at, source="test", external_id=f"{at}",
            )
        )  # fmt: skip
    upsert_records(space=space, rows=turns, actor="test")
    make_searchable(space)
    return dict(Record.objects.filter(space=space).values_list("position", "pk"))


def ask(space: Space, query: str, **settings: object) -> AssemblyResult:
    request = AssemblyIn(space=space.slug, query=query, as_of=NOW, **settings)  # type: ignore[arg-type]
    return assemble_space(team_id=space.team_id, request=request, actor="test")


def places(result: AssemblyResult, ids: dict[int, int]) -> list[int]:
    position = {record_id: at for at, record_id in ids.items()}
    return [position[record_id] for record_id in result.outcome.order]


def test_the_part_of_a_meeting_about_the_question_comes_whole(space: Space) -> None:
    ids = hold_meeting(space)
    result = ask(space, ASKED, context_tokens=900)
    kept = places(result, ids)
    assert sum(90 <= at <= 140 for at in kept) >= 0.8 * len(kept)
    # Turns that do not mention it are part of it.
    assert sum(100 < at < 130 and at % 3 != 0 for at in kept) >= 5
    parts = {entry["id"]: entry["parts"] for entry in result.entries}
    assert parts[ids[114]]["topic"] > 9 > 3 > parts[ids[5]]["topic"]


def test_an_adaptive_budget_leaves_out_turns_that_stand_alone(space: Space) -> None:
    """Even those that rank above kept ones. A replay knows the turns' places, too."""
    ids = hold_meeting(space)
    result = ask(space, ASKED, context_tokens=2_000, budget_mode="adaptive")
    kept = places(result, ids)
    filled = places(ask(space, ASKED, context_tokens=2_000), ids)
    assert [at for at in filled if at in kept] == kept
    alone = {5, 230}
    assert alone < set(filled[:-20])
    assert not alone & set(kept)
    record = Record.objects.select_related("space").get(pk=ids[alone.pop()])
    found = explain_record(logged(result.id), record)
    assert found.step == Step.LOW_RELEVANCE
    assert "it stands alone: few of the kept records are near it" in found.message
    assert replay(result.id).is_same


def test_short_conversations_have_no_topic(space: Space) -> None:
    hold_meeting(space, pause_after=40)
    result = ask(space, ASKED)
    assert {entry["parts"]["topic"] for entry in result.entries} == {0}


def test_without_neighbours_there_is_no_topic(space: Space) -> None:
    hold_meeting(space)
    result = ask(space, ASKED, neighbour_share=0)
    assert {entry["parts"]["topic"] for entry in result.entries} == {0}


def test_a_question_in_words_of_the_space_may_be_relevant(space: Space) -> None:
    """Records that are unlike a question by meaning may still be about it."""
    for number in range(12):
        make_record(space, title=f"Note {number}", notes="qzx-71 zrv-08 prt-55 " * 9, date=NOW)
    make_record(space, title="Lunch", notes="Soup and bread.", date=NOW)
    make_searchable(space)
    known = ask(space, "Is prt-55 what qzx-71 said to the orchestra of zrv-08?")
    unknown = ask(space, "Is the violin what the trumpet said to the orchestra?")
    assert [warning.code for warning in unknown.warnings] == ["nothing_relevant"]
    assert known.warnings == ()


def test_a_record_with_the_words_of_a_question_is_relevant(space: Space) -> None:
    """In a small space, one record may be the only one that has them."""
    changed = "The customer could not open the list of invoices, since the import had changed the columns. "
    make_record(space, title="Escape [square] brackets, refs #2431", notes=changed * 4, date=NOW)
    make_record(space, title="Lunch", notes="Soup and bread.", date=NOW)
    make_searchable(space)
    assert ask(space, "2431 refs brackets").warnings == ()
    few_words = ask(space, "Is 2431 what the violins and trumpets of the orchestra are for at the opera?")
    assert [warning.code for warning in few_words.warnings] == ["nothing_relevant"]


def test_a_name_does_not_hide_what_the_rest_of_a_question_means(space: Space) -> None:
    for number in range(80):
        make_record(space, title="Melanie", type="message", notes=f"Melanie. Melanie {number}!", date=NOW)
    said = make_record(space, title="Melanie", type="message", notes="Our puppy and the kitten.", date=NOW)
    for number in range(40):
        make_record(space, title="Cat", notes=f"Invoice {number} for the audit.", date=NOW)
    make_searchable(space)
    result = ask(space, "Which pets does Melanie have?", context_tokens=300)
    assert result.outcome.order[0] == said.pk
