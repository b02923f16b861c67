"""Each logged assembly is replayed with the same result, whatever happened since, or says why not."""

import random
import zlib
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn, ReplayIn
from contextopt.assemblies.models import Assembly, AssemblyPayload, pack_entries
from contextopt.assemblies.purge import purge_record
from contextopt.assemblies.replay.material import Reason
from contextopt.assemblies.replay.replay import Replay, replay_assembly
from contextopt.assemblies.results import AssemblyResult
from contextopt.assemblies.verify import verify_assembly
from contextopt.engine.values import ENGINE_VERSION, PLAIN_ENGINE_VERSION
from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.spaces.configs import publish_settings
from contextopt.spaces.inputs import RecordPatch
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import delete_record, update_record
from tests.factories import NOW, make_assembly, make_filtering, make_record
from tests.recomputed import STAGES, Restless, make_searchable, recompute


def logged(assembly_id: int | None) -> Assembly:
    return Assembly.objects.select_related("payload", "space", "config", "team").get(pk=assembly_id)


def replay(assembly_id: int | None, **settings: Any) -> Replay:
    data = ReplayIn.model_validate(settings) if settings else None
    return replay_assembly(logged(assembly_id), data)


@pytest.mark.parametrize("seed", range(2))
def test_each_assembly_of_a_busy_space_comes_out_the_same_again(space: Space, seed: int) -> None:
    """After edits, undos, deletions, views, imports and changed headers of the space."""
    restless = Restless(space, random.Random(seed))
    restless.fill(90)
    make_searchable(space)
    logged_ids = []
    for number in range(80):
        logged_ids.append(restless.assemble(stage=STAGES[number % 5]).id)
        restless.change()
        restless.change()
        if number % 30 == 29:
            make_searchable(space)
    again = {pk: replay(pk) for pk in logged_ids}
    assert {pk: one.differences for pk, one in again.items()} == dict.fromkeys(logged_ids, ())
    assert all(one.is_same and not one.added and not one.removed for one in again.values())
    assert Record.objects.filter(space=space, version__gt=1).count() > 20


def test_a_replay_does_not_read_the_logged_result(space: Space) -> None:
    """With texts and ledgers blanked, it still gives the certificate's hash."""
    restless = Restless(space, random.Random(7))
    restless.fill(60)
    make_searchable(space)
    results = [restless.assemble(stage=stage) for stage in STAGES]
    blank = {"candidates": pack_entries([]), "order": [], "baseline_order": [], "counts": {}}
    AssemblyPayload.objects.update(text="", baseline_text=None, ledger=blank)
    for result in results:
        again = replay(result.id)
        assert again.result is not None
        assert (again.result.text, again.result.certificate) == (result.text, result.certificate)
        assert "sha256" not in again.differences
    # Ledgers that hold something differ from the blank ones, so they are compared.
    assert any("ledger" in replay(result.id).differences for result in results)


@pytest.mark.parametrize("placement", ["system", "tail", "append", "auto"])
def test_each_context_of_a_conversation_comes_out_the_same_again(space: Space, placement: str) -> None:
    """With earlier blocks in sight, some lost by the caller, others removed at the bound."""
    rng = random.Random(placement)
    restless = Restless(space, rng)
    restless.fill(60)
    make_searchable(space)
    results: list[AssemblyResult] = []
    held: list[int] = []
    for turn in range(20):
        request = {"conversation": "c-1", "placement": placement, "model": "claude-sonnet-4-5"}
        request |= {
            "context_tokens": 300,
            "carried_tokens": 450,
            "system_tokens": 1_500,
            "total_tokens": 20_000,
        }
        request |= {"history_tokens": 200 * turn, **({"in_sight": held} if held else {})}
        results.append(restless.assemble(STAGES[turn % 5], **request))
        held = [one for one in results[-1].in_sight if rng.random() < 0.9]
        restless.change()
    again = {result.id: replay(result.id) for result in results}
    assert {pk: one.differences for pk, one in again.items()} == dict.fromkeys(again, ())
    assert all(one.is_same for one in again.values())
    certificates = [(one.result.certificate if one.result else None) for one in again.values()]
    assert certificates == [result.certificate for result in results]
    if placement == "append":
        assert any(result.certificate.carried_tokens for result in results)
        assert any(result.placed.is_rewritten for result in results)
    for result in results:
        assert verify_assembly(logged(result.id).payload) == []


def test_records_in_sight_are_neither_added_nor_removed(space: Space) -> None:
    for number in range(3):
        make_record(space, title=f"Note {number}", date=NOW)
    first = make_assembly(space, placement="append", conversation="c-1")
    new = make_record(space, title="Brand new", date=NOW)
    second = make_assembly(space, placement="append", conversation="c-1", in_sight=[first.id])
    assert second.outcome.order == (new.pk,)
    again = replay(second.id)
    assert (again.added, again.removed) == ([], [])
    assert again.to_json()["added"] == []
    # The caller holds the earlier block, so its records stay whatever the limit.
    fewer = replay(second.id, settings={"max_records": 1})
    assert (fewer.added, fewer.removed) == ([], [])


def test_a_changed_text_is_a_difference(space: Space) -> None:
    """Rows are immutable, so the text is what changes: an edit that raised no version."""
    record = make_record(space)
    result = make_assembly(space)
    Record.objects.filter(pk=record.pk).update(title="Changed behind the product's back")
    again = replay(result.id)
    assert not again.is_same
    assert "sha256" in again.differences


def test_a_purged_record_is_the_reason(space: Space) -> None:
    secret, other = make_record(space, title="Secret"), make_record(space, title="Other")
    first = make_assembly(space)
    purge_record(record=secret)
    second = make_assembly(space)
    again = replay(first.id)
    assert (again.reason, again.is_same, again.result) == (Reason.PURGED, False, None)
    assert again.to_json()["same"] is None
    assert "A record that it considered has been purged" in again.message
    assert recompute(logged(second.id).payload).text == second.text
    assert other.title in second.text


def test_an_assembly_without_logged_inputs_says_so(space: Space) -> None:
    make_record(space)
    result = make_assembly(space)
    AssemblyPayload.objects.update(givens=None)
    assert replay(result.id).reason == Reason.LOGGED_BEFORE


def test_another_engine_says_so(space: Space) -> None:
    make_record(space)
    result = make_assembly(space)
    payload = AssemblyPayload.objects.get(pk=result.id)
    assert payload.givens is not None
    packed = bytes(payload.givens)
    older = zlib.decompress(packed[1:]).replace(b'"engine":', b'"engine":9', 1)
    AssemblyPayload.objects.update(givens=packed[:1] + zlib.compress(older))
    again = replay(result.id)
    assert again.reason == Reason.ENGINE_CHANGED
    assert again.message.startswith(f"It was assembled by engine version 9{ENGINE_VERSION}.")


def test_an_older_engine_decided_the_same_without_a_question(space: Space) -> None:
    make_record(space, title="Printer")
    plain, asked = make_assembly(space), make_assembly(space, query="Which printer?")
    for payload in AssemblyPayload.objects.all():
        assert payload.givens is not None
        packed = bytes(payload.givens)
        now, then = (f'"engine":{version}'.encode() for version in (ENGINE_VERSION, PLAIN_ENGINE_VERSION))
        older = zlib.decompress(packed[1:]).replace(now, then, 1)
        AssemblyPayload.objects.filter(pk=payload.pk).update(givens=packed[:1] + zlib.compress(older))
    assert replay(plain.id).is_same
    assert replay(asked.id).reason == Reason.ENGINE_CHANGED


def test_only_contexts_of_spaces_are_replayed(space: Space) -> None:
    make_filtering(space.team)
    with pytest.raises(Conflict, match="not the context of a space"):
        replay(Assembly.objects.get().pk)


# ---- other settings


def make_space(space: Space, count: int = 60) -> None:
    restless = Restless(space, random.Random(3))
    restless.fill(count)
    make_searchable(space)


OTHERS: list[dict[str, Any]] = [
    {"context_tokens": 300},
    {"context_tokens": 6_000},
    {"max_records": 3, "question_max_records": 3},
    {"max_records": 90, "question_max_records": 90},
    {"record_order": "stable"},
    {"window_days": 7, "question_window_days": 7},
    {"window_days": "all", "question_window_days": "all"},
    {"recency_weight": "0", "frequency_weight": "3"},
    {"semantic_weight": "1", "lexical_weight": "9"},
    {"budget_mode": "adaptive"},
    {"record_budget": "adaptive"},
    {"question_record_tokens": 64},
    {"encoding": "heuristic"},
    {"neighbour_share": "0"},
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("query", ["", "queue printer last week"])
@pytest.mark.parametrize("settings", OTHERS, ids="-".join)
def test_other_settings_give_the_same_as_a_new_assembly(
    space: Space, settings: dict[str, Any], query: str
) -> None:
    """Nothing changed in between, so an assembly under the settings now is what it would have been then."""
    make_space(space)
    publish_settings(space=space, created_by="test", question_window_days=30)
    result = make_assembly(space, query=query, as_of=NOW)
    data = ReplayIn.model_validate({"settings": settings})
    again = replay_assembly(logged(result.id), data)
    publish_settings(
        space=space,
        created_by="test",
        **{name: None if value == "all" else Decimal(value) if name.endswith(("weight", "share")) else value
           for name, value in settings.items()},
    )  # fmt: skip
    wanted = make_assembly(space, query=query, as_of=NOW)
    assert again.result is not None
    assert again.result.text == wanted.text
    assert {entry["id"] for entry in again.result.entries if entry["kept"]} == {
        entry["id"] for entry in wanted.entries if entry["kept"]
    }


def test_a_version_of_the_settings_keeps_what_the_request_overrode(space: Space) -> None:
    make_space(space)
    wide = publish_settings(space=space, created_by="test", window_days=None, context_tokens=4_000)
    publish_settings(space=space, created_by="test", window_days=7, context_tokens=4_000)
    request = AssemblyIn(space=space.slug, as_of=NOW, max_records=5)
    result = assemble_space(team_id=space.team_id, request=request, actor="test")
    again = replay(result.id, config=wide.version)
    assert again.result is not None
    assert again.config is not None
    assert (again.config.window_days, again.config.max_records) == (None, 5)
    assert again.result.asked.space.config_version == wide.version
    assert again.result.stats.records_filtered > result.stats.records_filtered


def test_a_smaller_budget_needs_no_other_candidates(space: Space) -> None:
    make_space(space)
    result = make_assembly(space, as_of=NOW)
    again = replay(result.id, settings={"context_tokens": 300})
    assert (again.is_reconstructed, again.looked_up, again.added) == (False, 0, [])
    assert again.removed
    assert not again.is_same
    assert {"sha256", "tokens", "ledger", "counts", "order"} <= set(again.differences)


def test_under_other_settings_the_same_text_is_the_same(space: Space) -> None:
    make_space(space)
    result = make_assembly(space, as_of=NOW, max_records=3)
    again = replay(result.id, settings={"recency_weight": 1, "frequency_weight": 0})
    assert (again.is_same, "ledger" in again.differences) == (True, True)


@pytest.mark.django_db(transaction=True)
def test_records_changed_since_are_taken_as_they_were(space: Space) -> None:
    """A wider window reaches a record that was deleted, one that was edited, and none that came later."""
    old = NOW - timedelta(days=20)
    gone = make_record(space, title="Gone since", date=old)
    edited = make_record(space, title="As it was", date=old)
    make_record(space, title="Inside the window", date=NOW)
    result = make_assembly(space, as_of=NOW)
    delete_record(record=gone, actor="test")
    update_record(record=edited, changes=RecordPatch(title="As it is now"), actor="test")
    make_record(space, title="Came later", date=old)
    again = replay(result.id, settings={"window_days": "all"})
    assert again.result is not None
    assert again.is_reconstructed
    assert again.looked_up == 2
    assert set(again.added) == {gone.pk, edited.pk}
    assert "As it was" in again.result.text
    assert "Gone since" in again.result.text
    assert "As it is now" not in again.result.text
    assert "Came later" not in again.result.text


@pytest.mark.django_db(transaction=True)
def test_a_question_finds_what_was_deleted_since_by_its_words(space: Space) -> None:
    publish_settings(space=space, created_by="test", question_window_days=7)
    gone = make_record(
        space, title="Vaccine fridge", notes="The fridge alarm.", date=NOW - timedelta(days=20)
    )
    make_record(space, title="Printer queue", notes="Fridge is fine.", date=NOW)
    make_searchable(space)
    result = make_assembly(space, query="vaccine fridge", as_of=NOW)
    delete_record(record=gone, actor="test")
    again = replay(result.id, settings={"question_window_days": "all"})
    assert again.added == [gone.pk]
    assert again.result is not None
    entry = next(entry for entry in again.result.entries if entry["id"] == gone.pk)
    assert entry["parts"]["lexical"] > 0


def test_another_encoder_stops_only_replays_that_rate_records(space: Space) -> None:
    make_space(space)
    publish_settings(space=space, created_by="test", question_window_days=7)
    result = make_assembly(space, query="queue", as_of=NOW)
    payload = AssemblyPayload.objects.get(pk=result.id)
    assert payload.givens is not None
    packed = bytes(payload.givens)
    other = zlib.decompress(packed[1:]).replace(b"wordllama-256", b"wordllama-999", 1)
    AssemblyPayload.objects.update(givens=packed[:1] + zlib.compress(other))
    assert replay(result.id).is_same
    assert replay(result.id, settings={"context_tokens": 100}).result is not None
    assert replay(result.id, settings={"question_window_days": "all"}).reason == Reason.ENCODER_CHANGED


def test_bad_settings_are_named(space: Space) -> None:
    make_record(space)
    result = make_assembly(space)
    with pytest.raises(NotFound, match="no config version 99"):
        replay(result.id, config=99)
    with pytest.raises(InvalidInput, match="context_tokens: must not be null"):
        replay(result.id, settings={"context_tokens": None})
