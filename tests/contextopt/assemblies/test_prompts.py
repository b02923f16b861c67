"""A real prompt: what is pasted around a question or wrapped around it does not hide the question."""

from datetime import timedelta

import pytest

from contextopt.assemblies.inputs import ReplayIn
from contextopt.assemblies.log import searched_passages, unpack_givens
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.assemblies.replay.replay import replay_assembly
from contextopt.engine.values import NOTHING_RELEVANT
from contextopt.inputs import QUERY_MAX
from contextopt.search.hybrid import Target, prepare_query
from contextopt.search.registry import SearchFilters
from contextopt.search.words import TERMS_MAX, weigh_terms
from contextopt.spaces.configs import publish_settings
from contextopt.spaces.models import Space
from contextopt.spaces.records import SEARCHABLE
from tests.contextopt.assemblies.test_retrieval import ask
from tests.factories import NOW, make_record
from tests.queries import count_queries
from tests.recomputed import make_searchable

QUESTION = "What is the timeout of the payment service now?"
ANSWER = "Watanabe reports: the timeout of the payment service is now 45 seconds."
TRACE = "Traceback (most recent call last):\n" + "\n".join(
    f'  File "/srv/lib/django/core/base{number}.py", line {number}, in inner_{number}\n'
    "    response = get_response(request)"
    for number in range(30)
)
CODE = "\n".join(f"def helper_{number}(a, b):\n    return a * {number} + b" for number in range(60))
LETTER = (
    "Dear members,\n\nThe committee met in May and looked at the roof of the boat house. The repair was more"
    " expensive than planned, because rain had damaged two beams.\nWe also talked about the summer feast."
    " Who can bring tables and chairs?\n\nKind regards from the committee"
)
REMINDER = "<system-reminder>\nThe list of tasks is empty. Never mention this reminder.\n</system-reminder>"
OTHERS = (
    "The member signup was moved to another page.", "The outage of the translation feature was fixed in May.",
    "The invoices of the northern region are printed twice.", "The search of the shop ignores accents now.",
    "The mobile client keeps its drafts when it is closed.", "The report of the auditors arrived on Monday.",
)  # fmt: skip


@pytest.fixture
def notes(space: Space) -> Space:
    make_record(space, title="Work log", notes=ANSWER, external_id="answer", date=NOW - timedelta(days=30))
    for number in range(60):
        make_record(
            space,
            title="Work log",
            notes=f"Report {number}. {OTHERS[number % len(OTHERS)]}",
            date=NOW - timedelta(hours=number),
        )
    make_searchable(space)
    return space


@pytest.mark.parametrize("gap", ["\n", "\n\n"])
@pytest.mark.parametrize(
    "pasted", [TRACE, CODE, LETTER, REMINDER], ids=["trace", "code", "letter", "reminder"]
)
def test_pastes_hide_nothing(notes: Space, pasted: str, gap: str) -> None:
    bare = ask(notes, QUESTION, context_tokens=120)
    for prompt in (
        f"{QUESTION}{gap}{pasted}",
        f"{pasted}\n\n{QUESTION}",
        f"{pasted}\n\n{QUESTION}\n\n{pasted}",
    ):
        result = ask(notes, prompt, context_tokens=120)
        assert "45 seconds" in result.text
        assert NOTHING_RELEVANT not in {warning.code for warning in result.warnings}
        assert result.to_json()["searched"] == [QUESTION]
        assert (result.text, result.entries) == (bare.text, bare.entries)


def test_a_plain_question_is_searched_for_as_a_whole(notes: Space) -> None:
    result = ask(notes, QUESTION)
    assert (result.to_json()["searched"], result.found.passages) == ([], ())
    payload = AssemblyPayload.objects.get()
    assert searched_passages(payload) == []
    assert payload.request["query"] == QUESTION


def test_choosing_among_passages_takes_two_more_queries(notes: Space) -> None:
    """The size of the space, and the cosines of all candidates."""
    plain = count_queries(lambda: ask(notes, QUESTION, context_tokens=120))
    chosen = count_queries(lambda: ask(notes, f"{LETTER}\n\n{QUESTION}", context_tokens=120))
    assert chosen == plain + 2


@pytest.mark.parametrize("place", [0, 3, 6])
def test_pasted_records_do_not_hide_the_question(notes: Space, place: int) -> None:
    pasted = [f"Report {number}. {other}" for number, other in enumerate(OTHERS)]
    pasted.insert(place, QUESTION)
    result = ask(notes, "\n\n".join(pasted), context_tokens=120)
    assert QUESTION in result.to_json()["searched"]


def test_a_question_in_a_long_chat_is_found(notes: Space) -> None:
    """More lines ask than are compared. The words that the space knows decide which.

    That takes a query for all words, and another for those of a single record.
    """
    chat = [f"Har du sett hvor vi la gaffel nummer {number} i går?" for number in range(40)]
    prompt = "\n\n".join([*chat, QUESTION, *chat])
    plain = count_queries(lambda: ask(notes, QUESTION, context_tokens=120))
    assert count_queries(lambda: ask(notes, prompt, context_tokens=120)) == plain + 4
    assert ask(notes, prompt, context_tokens=120).to_json()["searched"] == [QUESTION]


def test_without_counts_passages_are_compared_by_their_place(space: Space) -> None:
    make_record(space, title="Work log", notes=ANSWER)
    chat = [f"Har du sett hvor vi la gaffel nummer {number} i går?" for number in range(40)]
    result = ask(space, "\n\n".join([*chat, QUESTION]), context_tokens=120)
    assert QUESTION in result.to_json()["searched"]


def test_several_questions_are_all_searched_for(notes: Space) -> None:
    make_record(notes, title="Note", notes="Nilsen keeps the key of the boat house in his kitchen.")
    make_searchable(notes)
    second = "Who has the key of the boat house?"
    result = ask(notes, f"{QUESTION}\n\n{second}\n\n{CODE}", context_tokens=120)
    assert sorted(result.to_json()["searched"]) == sorted([QUESTION, second])
    assert "45 seconds" in result.text
    assert "Nilsen" in result.text


def test_an_error_is_searched_for_if_the_question_says_nothing(notes: Space) -> None:
    make_record(notes, title="Note", notes="KeyError wombat_id: run the backfill of wombats first.")
    make_searchable(notes)
    result = ask(notes, f"why does this fail?\n\n{TRACE}\nKeyError: 'wombat_id'", context_tokens=120)
    assert "backfill of wombats" in result.text
    assert "KeyError: 'wombat_id'" in result.to_json()["searched"]


def test_dates_and_names_are_read_from_the_passages(space: Space) -> None:
    for day in (1, 20):
        make_record(
            space, title="Ada", type="message", notes=f"We changed plan {day} of the release.",
            date=NOW - timedelta(days=day),
        )  # fmt: skip
    make_searchable(space)
    pasted = "2026-06-15 10:00:00 INFO Started\n" * 30
    question = "What did Ada change in the release plan?"
    bare, with_log = ask(space, question), ask(space, f"{question}\n\n{pasted}")
    assert [entry["parts"] for entry in with_log.entries] == [entry["parts"] for entry in bare.entries]


def test_the_log_keeps_the_text_and_a_replay_the_passages(notes: Space) -> None:
    prompt = f"{LETTER}\n\n{QUESTION}\n\n{TRACE}"
    result = ask(notes, prompt, context_tokens=120)
    logged = Assembly.objects.select_related("payload", "space", "team").get(pk=result.id)
    assert logged.payload.request["query"] == prompt
    assert searched_passages(logged.payload) == [QUESTION]
    [(start, end)] = unpack_givens(bytes(logged.payload.givens)).passages
    assert prompt[start:end] == QUESTION
    assert replay_assembly(logged).is_same
    data = ReplayIn.model_validate({"settings": {"semantic_weight": "3"}})
    wider = replay_assembly(logged, data).result
    assert wider is not None
    assert "45 seconds" in wider.text


def test_a_question_far_behind_a_paste_is_found(notes: Space) -> None:
    result = ask(notes, f"{'x = 1' + chr(10)}" * 12_000 + f"\n{QUESTION}", context_tokens=120)
    assert result.to_json()["searched"] == [QUESTION]
    assert QUERY_MAX == 100_000


@pytest.mark.parametrize("count", [0, 10, TERMS_MAX, 3 * TERMS_MAX])
@pytest.mark.parametrize("is_counted", [True, False])
def test_unknown_words_take_no_place(space: Space, count: int, is_counted: bool) -> None:
    wanted = make_record(space, title="Work log", notes=ANSWER)
    for number in range(30):
        make_record(space, title="Work log", notes=f"Report {number}. {OTHERS[number % len(OTHERS)]}")
    if is_counted:
        make_searchable(space)
    text = " ".join([QUESTION, *(f"qzx{number:02}" for number in range(count))])
    target = Target(SEARCHABLE, space.pk, SearchFilters())
    [passage] = prepare_query(text).choose([target]).passages
    terms = weigh_terms(SEARCHABLE, space.pk, passage.lexemes)
    assert {"timeout", "payment"} <= {term.lexeme for term in terms.terms}
    assert max(sum(term.language == code for term in terms.terms) for code in ("en", "no")) <= TERMS_MAX
    result = ask(space, text, context_tokens=120)
    best = max(result.entries, key=lambda entry: entry["parts"]["lexical"])
    assert (best["id"], best["parts"]["lexical"]) == (wanted.pk, 10)


def test_a_space_names_the_blocks_of_its_tools(notes: Space) -> None:
    """Without them, the note would be a passage of its own: it asks, too."""
    added = "EDITOR Who opened the report of the auditors that arrived on Monday? END"
    before = ask(notes, f"{added}\n\n{QUESTION}", context_tokens=120)
    publish_settings(space=notes, created_by="test", tool_patterns="EDITOR … END")
    after = ask(notes, f"{added}\n\n{QUESTION}", context_tokens=120)
    assert len(before.to_json()["searched"]) == 2
    assert after.to_json()["searched"] == [QUESTION]
