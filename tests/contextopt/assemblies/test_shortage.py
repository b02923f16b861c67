"""Contexts without records say why, in numbers, with a remedy that works."""

from datetime import timedelta

import pytest

from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.assemblies.results import AssemblyResult
from contextopt.assemblies.verify import verify_assembly
from contextopt.engine.values import ContextWarning, Remedy
from contextopt.search import registry
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.search.wordcounts import count_words
from contextopt.spaces.configs import publish_settings
from contextopt.spaces.models import Record, Space
from tests.factories import NOW, make_assembly, make_record
from tests.queries import count_queries

LONG_AGO = NOW - timedelta(days=400)


def only_warning(result: AssemblyResult) -> ContextWarning:
    (warning,) = result.warnings
    return warning


def apply(space: Space, remedy: Remedy | None, **settings: object) -> AssemblyResult:
    """Assemble again with the remedy's setting in the request."""
    assert remedy is not None
    name = {"question_window_days": "window_days", "stage3_context_tokens": "context_tokens"}.get(
        remedy.setting, remedy.setting
    )
    return make_assembly(space, **{**settings, name: remedy.value})


def test_old_records_alone_are_an_empty_window(space: Space) -> None:
    for number in range(3):
        make_record(space, title=f"Old {number}", date=LONG_AGO - timedelta(days=number))
    warning = only_warning(make_assembly(space))
    assert warning.code == "empty_window"
    assert warning.message == (
        "All 3 records are older than the window of 14 days; the newest is from 11 May 2025."
    )
    assert warning.remedy == Remedy("window_days", "all", "Include all records")
    assert apply(space, warning.remedy).stats.records_included == 3


def test_the_message_about_one_old_record_is_singular(space: Space) -> None:
    make_record(space, date=LONG_AGO)
    assert only_warning(make_assembly(space)).message == (
        "The only record is older than the window of 14 days; it is from 11 May 2025."
    )


@pytest.mark.parametrize(("days_old", "value"), [(10, 14), (20, 30), (31, "all")])
def test_the_remedy_is_the_smallest_window_that_holds_a_record(
    space: Space, days_old: int, value: object
) -> None:
    make_record(space, date=NOW - timedelta(days=days_old))
    warning = only_warning(make_assembly(space, window_days=7))
    assert warning.remedy is not None
    assert warning.remedy.value == value
    assert apply(space, warning.remedy).stats.records_included == 1


def test_records_of_the_future_have_their_own_message(space: Space) -> None:
    for days in (40, 50):
        make_record(space, date=NOW + timedelta(days=days))
    warning = only_warning(make_assembly(space))
    assert warning.message == "All 2 records are dated after 15 June 2026; the first is from 25 July 2026."
    assert warning.remedy is None
    make_record(space, date=LONG_AGO)
    assert "None of the 3 records is in the window of 14 days" in only_warning(make_assembly(space)).message


def test_a_question_looks_at_all_records_by_default(space: Space) -> None:
    make_record(space, notes="The blueprint has a prefix. " + "It is long. " * 200, date=LONG_AGO)
    result = make_assembly(space, query="blueprint prefix")
    assert only_warning(result).code == "not_embedded"
    assert result.stats.records_included == 1
    assert result.text.count("It is long.") > 30


def test_a_question_of_another_subject_is_warned_about(space: Space) -> None:
    make_record(space, title="Printer", notes="The printer on the second floor broke again.")
    make_record(space, title="Lunch", notes="Soup and bread at noon in the canteen.")
    pinned = make_record(space, title="House rules", notes="Lock the door.", pinned=True)
    ensure_embedded(registry.get("record"), space.pk, limit=9)
    about = make_assembly(space, query="Which printer broke?", budget_mode="adaptive")
    assert about.warnings == ()
    assert "The printer on the second floor" in about.text
    question = "How do volcanoes form under an ocean?"
    fixed = make_assembly(space, query=question)
    adaptive = make_assembly(space, query=question, budget_mode="adaptive")
    assert only_warning(fixed).code == only_warning(adaptive).code == "nothing_relevant"
    assert fixed.stats.records_included == 3
    assert [entry["id"] for entry in adaptive.entries if entry["kept"]] == [pinned.pk]
    assert adaptive.stats.dropped_by_reason == {"low_relevance": 2}
    assert "the best match is 0." in only_warning(fixed).message
    for result in (fixed, adaptive):
        assert result.stats.tokens_saved is None
        stored = Assembly.objects.get(pk=result.id)
        assert (stored.warning_codes, stored.saving_counts) == (["nothing_relevant"], False)
        assert verify_assembly(AssemblyPayload.objects.get(pk=result.id)) == []


def test_a_question_that_names_what_no_record_does(space: Space) -> None:
    make_record(space, title="Printer", notes="The printer in Oslo broke again.", metadata={"author": "Kari"})
    make_record(space, title="Lunch", notes="Soup and bread at noon in the canteen.", source="jira")
    ensure_embedded(registry.get("record"), space.pk, limit=9)
    count_words(registry.get("record"), space.pk)
    question = "Which printer broke in Trondheim?"
    fixed = make_assembly(space, query=question)
    adaptive = make_assembly(space, query=question, budget_mode="adaptive")
    message = (
        "The question names “Trondheim”, and no record of this space does, so the answer may not be here."
    )
    for result in (fixed, adaptive):
        assert (only_warning(result).code, only_warning(result).message) == ("nothing_relevant", message)
        assert verify_assembly(AssemblyPayload.objects.get(pk=result.id)) == []
    assert (fixed.stats.records_included, adaptive.stats.records_included) == (2, 0)


@pytest.mark.parametrize(
    "question",
    [
        "Which printer broke in Oslo?",
        "Which printer broke in Trondheim, or in Oslo?",
        "Which printer did Kari see when it broke?",
        "Which printer broke in the Support space?",
        "Which printer broke, says Jira?",
        "Which printer broke in Olso or Canteenn?",
        "Welcher Printer ist im Keller, und wann broke der Printer?",
    ],
)
def test_one_known_name_is_enough(space: Space, question: str) -> None:
    make_record(space, title="Printer", notes="The printer in Oslo broke again.", metadata={"author": "Kari"})
    make_record(space, title="Lunch", notes="Soup and bread at noon in the canteen.", source="jira")
    ensure_embedded(registry.get("record"), space.pk, limit=9)
    count_words(registry.get("record"), space.pk)
    assert make_assembly(space, query=question).warnings == ()


def test_a_question_about_the_order_of_a_conversation_finds_its_subject(space: Space) -> None:
    make_record(space, title="Printer", notes="The printer on the second floor broke again.")
    ensure_embedded(registry.get("record"), space.pk, limit=9)
    question = "Can you list the order in which I brought up problems of the printer across our chats?"
    result = make_assembly(space, query=question, budget_mode="adaptive")
    assert result.warnings == ()
    assert result.stats.records_included == 1


def test_a_question_keeps_a_window_that_is_given(space: Space) -> None:
    make_record(space, date=LONG_AGO)
    warning = only_warning(make_assembly(space, query="queue", window_days=14))
    assert warning.remedy == Remedy("question_window_days", "all", "Include all records")
    assert apply(space, warning.remedy, query="queue").stats.records_included == 1


def test_records_dated_later_are_no_reason_to_widen_the_window(space: Space) -> None:
    make_record(space, title="The printer was repaired", date=NOW - timedelta(days=1))
    make_record(space, title="The printer broke again", date=NOW + timedelta(days=3))
    ensure_embedded(registry.get("record"), space.pk, limit=9)
    warning = only_warning(make_assembly(space, query="How do volcanoes form under an ocean?"))
    assert (warning.code, warning.remedy) == ("nothing_relevant", None)
    assert warning.message.endswith("1 record is dated later.")


def test_a_question_has_no_record_limit_unless_one_is_given(space: Space) -> None:
    for number in range(30):
        make_record(space, title=f"Queue {number}", notes="")
    assert make_assembly(space, query="queue").stats.records_included == 30
    assert make_assembly(space, query="queue", max_records=4).stats.records_included == 4


@pytest.mark.parametrize("stage", [3, 4, 5])
def test_a_budget_without_room_names_one_that_suffices(space: Space, stage: int) -> None:
    make_record(space, notes="word " * 300)
    settings = {"stage": stage, "query": "queue" if stage == 5 else "", "context_tokens": 30}
    warning = make_assembly(space, **settings).warnings[-1]
    assert warning.code == "budget_too_small"
    assert warning.message.startswith("The context budget of 30 tokens is too small for the only record")
    assert apply(space, warning.remedy, **settings).stats.records_included == 1


@pytest.mark.parametrize("stage", [3, 4, 5])
def test_a_share_without_room_names_one_that_suffices(space: Space, stage: int) -> None:
    make_record(space, notes="word " * 300)
    settings = {
        "stage": stage,
        "query": "queue" if stage == 5 else "",
        "model": "gpt-4",
        "window_share": "0.001",
    }
    remedy = make_assembly(space, **settings).warnings[-1].remedy
    assert remedy is not None
    assert remedy.label == "Raise the share of the model's window to 1.3 %"
    assert apply(space, remedy, **settings).stats.records_included == 1


def test_a_small_budget_is_raised_before_a_large_share(space: Space) -> None:
    make_record(space)
    settings = {"context_tokens": 5, "model": "gpt-4", "window_share": "0.5"}
    warning = only_warning(make_assembly(space, **settings))
    assert warning.remedy is not None
    assert warning.remedy.setting == "context_tokens"
    assert apply(space, warning.remedy, **settings).stats.records_included == 1


def test_a_long_system_prompt_leaves_a_total_to_raise(space: Space) -> None:
    make_record(space)
    settings = {"system_tokens": 2_790}
    warning = only_warning(make_assembly(space, **settings))
    assert warning.remedy is not None
    assert warning.remedy.setting == "total_tokens"
    assert apply(space, warning.remedy, **settings).stats.records_included == 1


@pytest.mark.parametrize("context_tokens", [30, 300])
def test_a_long_history_is_named_as_the_cause(space: Space, context_tokens: int) -> None:
    make_record(space)
    settings = {"context_tokens": context_tokens, "system_tokens": 0, "history_tokens": 1_312}
    warning = only_warning(make_assembly(space, **settings))
    assert warning.message.startswith("The context budget of 0 tokens is too small for the only record")
    cause = "because the history is 312 tokens over its share of 1,000."
    assert warning.message.endswith(f" 0 of its {context_tokens} tokens are left, {cause}")
    assert apply(space, warning.remedy, **settings).stats.records_included == 1


def test_a_total_without_room_is_named_as_the_cause(space: Space) -> None:
    make_record(space)
    publish_settings(space=space, created_by="test", total_tokens=2_805)
    warning = only_warning(make_assembly(space))
    assert warning.message.endswith(" 5 of its 2,000 tokens are left, because the total is limited to 2,805.")
    assert apply(space, warning.remedy).stats.records_included == 1


def test_no_warning_with_a_record_or_in_an_empty_space(space: Space) -> None:
    assert make_assembly(space).warnings == ()
    make_record(space)
    assert make_assembly(space).warnings == ()
    assert make_assembly(space, stage=2).warnings == ()


def test_an_empty_context_is_no_saving(space: Space) -> None:
    for number in range(12):
        make_record(space, title=f"Old {number}", date=LONG_AGO)
    result = make_assembly(space)
    answer = result.to_json()
    assert answer["stats"]["tokens_saved"] is None
    assert answer["stats"]["stage3_tokens"] > 100
    assert answer["baselines"] == [
        {"name": "the last 10 records", "tokens": answer["stats"]["stage3_tokens"], "saved": None}
    ]
    assert answer["warnings"][0]["code"] == "empty_window"
    stored = Assembly.objects.get(pk=result.id)
    assert stored.warning_codes == ["empty_window"]
    payload = AssemblyPayload.objects.get(pk=result.id)
    assert [warning.code for warning in payload.warnings] == ["empty_window"]
    assert verify_assembly(payload) == []


def test_a_context_with_records_says_what_it_saved(space: Space) -> None:
    make_record(space)
    result = make_assembly(space)
    (baseline,) = result.baselines()
    assert baseline["saved"] == baseline["tokens"] - result.certificate.tokens


def test_an_adaptive_budget_is_compared_with_a_fixed_one(space: Space) -> None:
    make_record(space, title="Printer", notes="The printer on the second floor broke again.")
    for number in range(8):
        make_record(space, title=f"Lunch {number}", notes="Soup and bread at noon in the canteen.")
    ensure_embedded(registry.get("record"), space.pk, limit=20)
    asked = {"query": "Which printer broke on the second floor?"}
    fixed = make_assembly(space, **asked)
    adaptive = make_assembly(space, **asked, budget_mode="adaptive")
    assert [each["name"] for each in fixed.baselines()] == ["the last 10 records"]
    used = adaptive.certificate.tokens
    assert used < fixed.certificate.tokens
    assert adaptive.baselines()[1] == {
        "name": "the same question with a fixed budget",
        "tokens": fixed.certificate.tokens,
        "saved": fixed.certificate.tokens - used,
    }
    assert AssemblyPayload.objects.get(pk=adaptive.id).ledger["fixed_tokens"] == fixed.certificate.tokens


def test_the_record_that_answers_enters_before_recent_ones(space: Space) -> None:
    make_record(space, title="Lunch", notes="Soup and bread at noon in the canteen.")
    make_record(space, title="Printer", notes="The printer on the second floor broke.", date=LONG_AGO)
    ensure_embedded(registry.get("record"), space.pk, limit=9)
    asked = {"query": "Which printer broke?", "budget_mode": "adaptive", "recency_weight": 10}
    result = make_assembly(space, **asked)
    assert (result.warnings, result.stats.records_included) == ((), 2)


@pytest.mark.parametrize("wants", ["printer", "lunch"])
def test_pinned_records_that_crowd_out_a_better_one_are_warned_about(space: Space, wants: str) -> None:
    for day in ("Monday", "Tuesday", "Wednesday"):
        make_record(space, title=f"Lunch on {day}", notes=f"Soup and bread for {day} " * 10, pinned=True)
    make_record(space, title="Printer", notes="The printer on the second floor broke.", date=LONG_AGO)
    ensure_embedded(registry.get("record"), space.pk, limit=9)
    asked = {"query": f"What about the {wants}?", "context_tokens": 150}
    result = make_assembly(space, **asked)
    assert {entry.pinned for entry in result.outcome.ledger if entry.kept} == {True}
    if wants == "lunch":
        assert result.warnings == ()
        return
    warning = only_warning(result)
    assert warning.code == "budget_too_small"
    assert warning.message == (
        "The pinned records leave no room for others in the context budget of 150 tokens. "
        "A record that suits the question better needs 21 tokens."
    )
    assert not Assembly.objects.get(pk=result.id).saving_counts
    again = apply(space, warning.remedy, **asked)
    assert again.warnings == ()
    assert not all(entry.pinned for entry in again.outcome.ledger if entry.kept)


def test_a_small_record_beside_the_pinned_ones_does_not_hide_that_the_better_one_is_missing(
    space: Space,
) -> None:
    make_record(space, title="Lunch", notes="Soup and bread for Monday. " * 10, pinned=True)
    make_record(space, title="Printer", notes="The printer on the second floor broke.", date=LONG_AGO)
    make_record(space, title="Ink", date=LONG_AGO)
    ensure_embedded(registry.get("record"), space.pk, limit=9)
    result = make_assembly(space, query="What about the printer?", context_tokens=95)
    assert [entry.pinned for entry in result.outcome.ledger if entry.kept] == [True, False]
    message = only_warning(result).message
    assert message.startswith("The pinned records leave too little room in the context budget of 95 tokens.")


def test_one_waiting_record_is_told_of_in_the_singular(space: Space) -> None:
    make_record(space, title="Printer", notes="The printer on the second floor broke again.")
    warning = only_warning(make_assembly(space, query="How do volcanoes form under an ocean?"))
    assert warning.message == (
        "1 record waits to be embedded, so it was matched by words only. "
        "The worker embeds it in the background."
    )


def test_records_that_wait_to_be_embedded_cause_a_warning(space: Space) -> None:
    for number in range(3):
        make_record(space, title=f"Printer {number}", notes="The printer on the second floor broke again.")
    # Each of them waits twice now, and is counted once.
    Record.objects.filter(space=space).update(notes="The printer on the second floor broke twice.")
    question = "How do volcanoes form under an ocean?"
    result = make_assembly(space, query=question)
    assert only_warning(result).code == "not_embedded"
    assert only_warning(result).message.startswith("3 records wait to be embedded")
    assert not Assembly.objects.get(pk=result.id).saving_counts
    ensure_embedded(registry.get("record"), space.pk, limit=9)
    assert only_warning(make_assembly(space, query=question)).code == "nothing_relevant"
    for number in range(40):
        make_record(space, title=f"Copier {number}", notes="The copier on the first floor works.")
    ensure_embedded(registry.get("record"), space.pk, limit=50)
    # A single new record is embedded within seconds.
    make_record(space, title="Fax", notes="The fax has no paper.")
    assert make_assembly(space, query="Which printer broke?").warnings == ()


def test_warnings_stored_as_text_are_notes(space: Space) -> None:
    make_record(space)
    payload = AssemblyPayload.objects.get(pk=make_assembly(space).id)
    payload.ledger["warnings"] = ["The question could not be embedded."]
    assert payload.warnings == [ContextWarning("note", "The question could not be embedded.")]


def test_only_an_empty_context_takes_an_extra_statement(space: Space) -> None:
    def count(**settings: object) -> int:
        make_assembly(space, **settings)
        return count_queries(lambda: make_assembly(space, **settings))

    make_record(space, date=NOW - timedelta(days=20))
    # The space, the candidates, the log.
    assert count(window_days=30) == 3
    # The same, and the dates nearest to the window.
    assert count(window_days=7) == 4


def test_an_adaptive_budget_sends_nothing_about_another_subject(space: Space) -> None:
    make_record(space, title="Printer", notes="The printer on the second floor is out of toner again.")
    ensure_embedded(registry.get("record"), space.pk, limit=9)
    question = "Which sourdough recipe did grandmother like best?"
    warned = {mode: make_assembly(space, query=question, budget_mode=mode) for mode in ("fixed", "adaptive")}
    for result in warned.values():
        assert [warning.code for warning in result.warnings] == ["nothing_relevant"]
        assert not result.saving_counts
    assert warned["fixed"].stats.records_included == 1
    assert warned["adaptive"].stats.records_included == 0
    assert warned["adaptive"].stats.dropped_by_reason == {"low_relevance": 1}
