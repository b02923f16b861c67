"""The look-ups for a question about a long conversation."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.retrieval import about_subject
from contextopt.engine.values import FilterCounts
from contextopt.search import registry
from contextopt.search.hybrid import Target, look_up, prepare_passages
from contextopt.search.registry import SearchFilters
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.search.wordcounts import ensure_counted
from contextopt.spaces.inputs import RecordIn
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import upsert_records
from tests.factories import NOW

pytestmark = pytest.mark.django_db

SPEAKERS = ("Ada", "Bob", "Cora")
ON_TALK = range(20, 41, 4)
ON_BATTERIES = range(150, 171, 4)


def said(at: int) -> str:
    if at in ON_TALK:
        return f"Who will summarize the discussion for the group after part {at}?"
    if at in ON_BATTERIES:
        return f"The battery of model {at} lasts a year."
    return f"Number {at} it is, then."


def hold_meeting(space: Space, minutes_apart: float, turns: Iterable[int] = range(200)) -> None:
    rows = [
        RecordIn(
            title=SPEAKERS[at % 3], type="message", notes=said(at), thread="meeting", position=at,
            date=NOW - timedelta(days=2) + timedelta(minutes=at * minutes_apart), external_id=f"turn-{at}",
        )
        for at in turns
    ]  # fmt: skip
    upsert_records(space=space, rows=rows, actor="test")
    ensure_counted(registry.get("record"), space.pk)
    ensure_embedded(registry.get("record"), space.pk, limit=10_000)


def found(space: Space, query: str) -> set[int]:
    """Return the places of the turns in the context."""
    request = AssemblyIn(space=space.slug, query=query, as_of=NOW, context_tokens=600)
    result = assemble_space(team_id=space.team_id, request=request, actor="test")
    return {int(entry["external_id"].removeprefix("turn-")) for entry in result.entries if entry["kept"]}


def test_words_about_the_conversation_do_not_mislead_a_meeting(space: Space) -> None:
    hold_meeting(space, minutes_apart=0.2)
    places = found(space, "Summarize the discussion of the group about the battery.")
    assert places >= set(ON_BATTERIES)
    assert not places & set(ON_TALK)


def test_words_about_the_conversation_count_without_topics(space: Space) -> None:
    hold_meeting(space, minutes_apart=200)
    assert found(space, "Summarize the discussion of the group about the battery.") & set(ON_TALK)


def test_a_question_of_only_such_words_looks_for_them(space: Space) -> None:
    hold_meeting(space, minutes_apart=0.2)
    assert found(space, "Summarize the discussion of the group.") >= set(ON_TALK)


def test_a_question_of_only_its_subject_gets_more_leads(space: Space) -> None:
    """Those from the days that it names stay among them."""
    hold_meeting(space, minutes_apart=0.2)
    target = Target(registry.get("record"), space.pk, SearchFilters())
    leads = look_up(target, prepare_passages("battery model", ()).passages[0], limit=3)
    dated = Record.objects.get(space=space, external_id="turn-0")
    assert dated.pk not in leads.ids
    leads = replace(leads, lexical={**leads.lexical, dated.pk: 0.1})
    assert about_subject(leads, {}, 6, FilterCounts(200)).ids > leads.ids
