"""Contexts of one conversation, from the API and the database."""

import json
from typing import Any

import pytest

from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.log import unpack_givens
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.assemblies.placement.modelcatalog import cache_prices, list_price
from contextopt.assemblies.purge import purge_record
from contextopt.assemblies.results import AssemblyResult
from contextopt.assemblies.verify import verify_assembly
from contextopt.engine.placement.choice import NO_DISCOUNT
from contextopt.errors import InvalidInput, NotFound
from contextopt.spaces.inputs import RecordPatch
from contextopt.spaces.models import Space
from contextopt.spaces.records import update_record
from tests.factories import NOW, make_record, make_space, make_team
from tests.queries import count_queries
from tests.recomputed import recompute

MODEL = "claude-sonnet-4-5"


def ask(space: Space, **request: Any) -> AssemblyResult:
    asked = {"space": space.slug, "as_of": NOW, "stage": 4, "placement": "append", "conversation": "c-1"}
    return assemble_space(team_id=space.team_id, request=AssemblyIn(**asked | request), actor="test")


@pytest.fixture
def space(space: Space) -> Space:
    for number in range(3):
        make_record(space, title=f"Note {number}", date=NOW)
    return space


def test_a_second_context_holds_only_what_is_new(space: Space) -> None:
    first = ask(space, system_tokens=1_200)
    make_record(space, title="Brand new", date=NOW)
    second = ask(space, system_tokens=1_200, history_tokens=100, in_sight=[first.id])
    assert [line[:18] for line in second.text.splitlines()] == ["- [note] Brand new"]
    assert second.in_sight == [first.id, second.id]
    certificate = second.to_json()["certificate"]
    assert certificate["carried_tokens"] == first.certificate.tokens
    assert certificate["total_tokens"] == certificate["tokens"] + certificate["carried_tokens"]
    row = Assembly.objects.get(pk=second.id)
    assert row.tokens_after == certificate["total_tokens"]
    assert row.shared_prefix_tokens == 1_200 + first.certificate.tokens
    assert row.records_included == 4


def test_records_of_lost_blocks_are_sent_again(space: Space) -> None:
    first = ask(space)
    second = ask(space, in_sight=[])
    assert second.text == first.text


def test_an_edited_record_is_sent_again(space: Space) -> None:
    first = ask(space)
    record = space.records.first()
    assert record is not None
    update_record(record=record, changes=RecordPatch(notes="All has changed."), actor="test")
    second = ask(space, in_sight=[first.id])
    assert second.outcome.order == (record.pk,)


def test_every_figure_of_an_appended_context_can_be_verified(space: Space) -> None:
    first = ask(space)
    make_record(space, title="Brand new", date=NOW)
    second = ask(space, in_sight=[first.id])
    for payload in AssemblyPayload.objects.select_related("assembly"):
        assert verify_assembly(payload) == []
    payload = AssemblyPayload.objects.get(pk=second.id)
    payload.ledger["carried"] = []
    assert {found.figure for found in verify_assembly(payload)} >= {"carried_tokens", "tokens_after"}


def test_earlier_blocks_are_read_once_to_verify(space: Space) -> None:
    second = ask(space, in_sight=[ask(space).id])
    payload = AssemblyPayload.objects.select_related("assembly").get(pk=second.id)
    # The tokens of the earlier blocks, the prompt with them, the one before it, and the config.
    assert count_queries(lambda: verify_assembly(payload)) == 4


@pytest.mark.parametrize("placement", ["system", "tail", "append", "auto"])
def test_the_sizes_of_each_prompt_can_be_verified(space: Space, placement: str) -> None:
    request = {"placement": placement, "model": MODEL, "system_tokens": 1_200, "query": "Which note?"}
    held: list[int] = []
    for turn in range(4):
        make_record(space, title=f"Brand new {turn}", date=NOW)
        in_sight = {"in_sight": held} if held else {}
        held = ask(space, **request, history_tokens=200 * turn, **in_sight).in_sight
    rows = AssemblyPayload.objects.select_related("assembly").order_by("pk")
    assert [verify_assembly(payload) for payload in rows] == [[]] * 4
    last = rows[3]
    assert last.assembly.cached_tokens
    assert last.assembly.cacheable_tokens
    last.ledger["prompt"]["history_tokens"] += 1
    assert [found.figure for found in verify_assembly(last)] == ["prompt_tokens", "cacheable_tokens"]
    last.ledger["prompt"] |= {"history_tokens": 600, "minimum_tokens": 100_000}
    assert [found.figure for found in verify_assembly(last)] == ["cached_tokens", "cacheable_tokens"]
    last.ledger["prompt"] |= {"minimum_tokens": 1_024, "idle_seconds": 301.0}
    assert [found.figure for found in verify_assembly(last)] == ["cached_tokens", "cacheable_tokens"]
    last.ledger["prompt"] |= {"idle_seconds": 0.0, "last": None}
    assert "shared_prefix_tokens" in {found.figure for found in verify_assembly(last)}


def test_a_purged_block_keeps_its_certified_size(space: Space) -> None:
    first = ask(space, system_tokens=1_200)
    record = space.records.first()
    assert record is not None
    purge_record(record=record, actor="test")
    make_record(space, title="Brand new", date=NOW)
    second = ask(space, system_tokens=1_200, in_sight=[first.id])
    assert second.certificate.carried_tokens == first.certificate.tokens
    for payload in AssemblyPayload.objects.select_related("assembly"):
        assert verify_assembly(payload) == []


def test_what_was_in_sight_is_logged_without_texts(space: Space) -> None:
    first = ask(space)
    make_record(space, title="Brand new", date=NOW)
    second = ask(space, in_sight=[first.id])
    payload = AssemblyPayload.objects.get(pk=second.id)
    sight = unpack_givens(bytes(payload.givens or b"")).sight
    assert sight.tokens == first.certificate.tokens
    assert set(sight.records) == set(first.outcome.order)
    assert "Note" not in json.dumps(sight.to_json(first.outcome.order))


def test_an_appended_context_can_be_computed_again(space: Space) -> None:
    first = ask(space)
    make_record(space, title="Brand new", date=NOW)
    second = ask(space, in_sight=[first.id])
    payload = AssemblyPayload.objects.select_related("assembly").get(pk=second.id)
    AssemblyPayload.objects.filter(pk=first.id).update(text="")
    outcome = recompute(payload)
    assert outcome.certificate == second.certificate
    assert outcome.ledger == second.ledger


def test_auto_carries_blocks_only_with_a_price(space: Space) -> None:
    first = ask(space, placement="auto")
    second = ask(space, placement="auto", in_sight=[first.id], max_records=1)
    assert second.placed.placement == "tail"
    assert second.in_sight == [second.id]


def test_auto_appends_for_a_model_that_reads_its_cache_cheaply(space: Space) -> None:
    first = ask(space, placement="auto", model=MODEL, system_tokens=2_000)
    second = ask(space, placement="auto", model=MODEL, system_tokens=2_000, in_sight=[first.id])
    assert second.placed.placement == "append"
    assert second.text == ""
    assert second.to_json()["placement"]["cached_tokens"] > 2_000


def test_the_same_system_prompt_and_context_share_everything(space: Space) -> None:
    request = {"placement": "system", "system_tokens": 1_200}
    first = ask(space, **request)
    second = ask(space, **request)
    assert second.placed.shared_tokens == first.placed.split.tokens == 1_200 + first.certificate.tokens


def test_blocks_of_another_team_or_space_are_not_found(space: Space) -> None:
    theirs = make_space(make_team("others"))
    make_record(theirs, date=NOW)
    foreign = ask(theirs)
    elsewhere = ask(make_space(space.team, "elsewhere"))
    for found in (foreign, elsewhere):
        with pytest.raises(NotFound, match="in_sight"):
            ask(space, in_sight=[found.id])


@pytest.mark.parametrize("placement", [None, "system", "tail"])
def test_blocks_need_a_placement_that_keeps_them(space: Space, placement: str | None) -> None:
    first = ask(space)
    with pytest.raises(InvalidInput, match="in_sight"):
        ask(space, placement=placement, in_sight=[first.id])


def test_without_placement_and_conversation_nothing_is_measured(space: Space) -> None:
    row = Assembly.objects.get(pk=ask(space, placement=None, conversation="").id)
    assert (row.placement, row.prompt_tokens, row.shared_prefix_tokens) == ("", None, None)


@pytest.mark.django_db
def test_prices_come_from_the_package() -> None:
    prices = cache_prices(MODEL, NOW.date())
    assert prices.read == pytest.approx(0.1)
    assert prices.write == pytest.approx(1.25)
    listed = list_price("gpt-4o")
    assert listed is not None
    assert listed.to_shares().write == 1


@pytest.mark.django_db
def test_an_unknown_model_has_no_discount() -> None:
    assert cache_prices("nobody-knows-it", NOW.date()) == NO_DISCOUNT
    assert cache_prices("", NOW.date()) == NO_DISCOUNT
