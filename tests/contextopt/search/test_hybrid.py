"""Search finds existing rows by words and by meaning, and never another team's or deleted ones."""

import math
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextopt import tasks
from contextopt.assemblies.purge import purge_record
from contextopt.people.models import Team
from contextopt.search import registry, words
from contextopt.search.hybrid import Passage, Target, look_up, prepare_passages, prepare_query, rate, search
from contextopt.search.models import DocumentFrequency, SearchCorpus
from contextopt.search.registry import Searchable, SearchFilters
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.search.wordcounts import changed_corpora, count_words, ensure_counted, tidy_index
from contextopt.search.words import Term, Terms, _steps, read_lexemes
from contextopt.spaces.inputs import RecordIn, RecordPatch
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import update_record, upsert_records
from contextopt.spaces.spaces import delete_space
from tests.factories import NOW, make_record, make_space
from tests.speed import within

EVERYTHING = SearchFilters()


@pytest.fixture
def table() -> Searchable:
    return registry.get("record")


def passage(text: str) -> Passage:
    return prepare_passages(text, ()).passages[0]


def found(space: Space, text: str, **filters) -> list[str]:
    table = registry.get("record")
    hits = search(table, space.pk, prepare_query(text), filters=SearchFilters(**filters), limit=20)
    return [Record.objects.get(pk=hit.id).title for hit in hits]


@pytest.mark.parametrize(
    "query",
    ["users_table", "users table", "USERS", "auth.ts", "auth", "getUserName", "getusername", "user name",
     "src/http/HTTPServer.py", "http server", "F-001", "kø-feil"],
)  # fmt: skip
def test_names_of_code_are_found_whole_and_by_their_parts(space: Space, query: str) -> None:
    make_record(space, title="Other", notes="nothing of it")
    make_record(
        space,
        title="Change",
        notes="users_table read by getUserName in auth.ts and src/http/HTTPServer.py, see F-001 kø-feil",
        language="en",
    )
    assert found(space, query) == ["Change"]


@pytest.mark.parametrize("part", ["user_", "aA1@"])
def test_a_long_run_without_spaces_does_not_keep_the_database_busy(space: Space, part: str) -> None:
    with connection.cursor() as cursor:
        # PostgreSQL's parser alone takes minutes.
        cursor.execute("SET LOCAL statement_timeout = '20s'")
    make_record(space, title="Long", notes=f"queue {part * 20_000}")
    assert found(space, "queue") == ["Long"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("Drop support for Python 3.7.", {"3.7"}),
        ("requests-2.31.0.tar.gz replaces v2.30.0-rc1, not python3.12", {"2.31.0", "2.30.0", "3.12"}),
        ("see 127.0.0.1:8000", {"127.0.0.1"}),
        ("1, 2 or 3,5 on 2026-03-01", set()),
        (".5 and 5. and 1..2", set()),
        ("1.2.3.4.5.6.7.8.9.10 and 1234567890.1", {"1.2.3.4.5.6.7.8"}),
    ],
)
def test_version_numbers_are_words(text: str, versions: set[str]) -> None:
    assert {lexeme for lexeme in read_lexemes(text)["en"] if "." in lexeme} == versions


def test_a_version_outranks_its_separate_numbers(space: Space) -> None:
    make_record(space, title="3 of 7 workers run python", notes="")
    make_record(space, title="Run 7 python workers, 3 at night", notes="")
    make_record(
        space, title="Workers", notes="From now on they run with python 3.7 at least, wherever they are"
    )
    assert found(space, "python 3.7")[0] == "Workers"


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Migrasjonene ble kjørt på nytt etter feilen", "migrasjon"),
        ("Brukerne kan ikke logge inn", "bruker"),
        ("Vi må rette feilene i fakturaen før mandag", "feil faktura"),
        ("The migrations were applied again", "migration"),
        ("Users cannot log in because sessions expire", "session expired"),
    ],
)
def test_inflections_are_found_in_both_languages(space: Space, text: str, query: str) -> None:
    make_record(space, title="Annet", notes="ingenting her som er likt")
    make_record(space, title="It", notes=text)
    assert found(space, query) == ["It"]


def test_a_given_language_wins_and_a_new_text_is_detected_again(space: Space) -> None:
    given_one = make_record(space, title="Vi er ikke enige om dette", notes="", language="en")
    assert given_one.language == "en"
    detected = make_record(space, title="Vi er ikke enige om dette", notes="")
    assert detected.language == "no"
    update_record(record=detected, changes=RecordPatch(pinned=True), actor="test")
    changes = RecordPatch(title="We do not agree about this", notes="")
    assert update_record(record=detected, changes=changes, actor="test").language == "en"
    (row,) = upsert_records(
        space=space, rows=[RecordIn(title="Det er ikke sant", language="en")], actor="test"
    )
    assert Record.objects.get(pk=row.record_id).language == "en"


def test_rows_found_only_by_words_or_only_by_meaning_stay(space: Space, table: Searchable) -> None:
    by_word = make_record(space, title="xqzvbn", notes="")
    by_meaning = make_record(space, title="The database is slow", notes="")
    make_record(space, title="Cake recipe", notes="")
    ensure_embedded(table, space.pk, limit=100)
    target = Target(table, space.pk, EVERYTHING)
    parts = rate(look_up(target, passage("xqzvbn sluggish SQL"), limit=10))
    assert parts[by_word.pk].lexical > 0
    assert parts[by_meaning.pk].lexical == 0
    assert (parts[by_meaning.pk].similarity or 0) > 0
    hits = search(table, space.pk, prepare_query("xqzvbn sluggish SQL"), filters=EVERYTHING, limit=2)
    assert {hit.id for hit in hits} == {by_word.pk, by_meaning.pk}


def test_without_vectors_similarity_is_absent(space: Space, table: Searchable) -> None:
    make_record(space)
    (hit,) = search(table, space.pk, prepare_query("queue"), filters=EVERYTHING, limit=5)
    assert hit.similarity is None
    assert hit.lexical > 0


def test_bm25_is_exact(space: Space, table: Searchable) -> None:
    texts = ["red red blue", "red green", "blue", "green green green red", "yellow"]
    ids = [make_record(space, title="title", notes=text).pk for text in texts]
    count_words(table, space.pk)
    query = passage("red blue")
    terms = words.weigh_terms(table, space.pk, query.lexemes)
    scores = words.best_by_words(table, space.pk, terms, filters=EVERYTHING, limit=9)
    # The title, the corpus and the week are also words of each document.
    documents = [Counter(text.split()) for text in texts]
    lengths = [len(document) + 3 for document in documents]
    expected = {}
    for row_id, document, length in zip(ids, documents, lengths, strict=True):
        norm = 0.9 * (0.25 + 0.75 * length / (sum(lengths) / len(lengths)))
        expected[row_id] = sum(
            math.log(1 + (5 - n + 0.5) / (n + 0.5)) * document[word] * 1.9 / (document[word] + norm)
            for word, n in (("red", 3), ("blue", 2))
        )
    assert scores == pytest.approx({row_id: score for row_id, score in expected.items() if score})


HOSTILE = [
    "", " ", "\x00", "a\x00b",
    "the and of", "og ikke det", "!!! & | <-> ((", "'", "''", "\\", "a\\'b", "%s %%",
    "x" * 10_000, "word " * 2_000,
    "'; DROP TABLE contextopt_record; --", "日本語", "🙂", "\ud800", "a:*", "!a",
    " ".join(f"word{n}" for n in range(2_000)),
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_any_question_is_answered(space: Space, table: Searchable, text: str) -> None:
    make_record(space, notes="word1 the 'quoted' back\\slash")
    with within(2):
        assert len(search(table, space.pk, prepare_query(text), filters=EVERYTHING, limit=5)) <= 1


@pytest.mark.parametrize(
    "notes",
    ["a" * 1_000_000, "ab " * 333_000, "aB" * 500_000, "𝔘𝔫 " * 250_000,
     " ".join(f"{n:x}Xy" for n in range(110_000)), "a.b/" * 250_000, "å" * 1_000_000,
     "https://a.b/c?" * 71_000, "1" * 1_000_000, "1." * 500_000, "1.1 " * 250_000],
    ids=range(11),
)  # fmt: skip
def test_a_hostile_note_is_written_in_time(space: Space, notes: str) -> None:
    with within(3):
        make_record(space, title="Hostile", notes=notes)
    assert found(space, "hostile") == ["Hostile"]


def test_a_purged_record_leaves_no_word(space: Space) -> None:
    record = make_record(space, title="Secret", notes="hemmelighet", tags=["intern"])
    purge_record(record=record)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tsvector_to_array(search_vector) FROM contextopt_record WHERE id = %s", [record.pk]
        )
        assert cursor.fetchone()[0] == [
            f" {space.pk}",
            *words.week_words(space.pk, record.date, record.date),
            "purg",
        ]


class TestFilters:
    @pytest.fixture(autouse=True)
    def _records(self, space: Space, table: Searchable) -> None:
        make_record(space, title="one", type="commit", source="git", tags=["a"], date=NOW)
        make_record(
            space, title="two", type="note", source="wiki", tags=["a", "b"], date=NOW - timedelta(days=9)
        )
        make_record(space, title="three", type="note", deleted_at=NOW)
        ensure_embedded(table, space.pk, limit=100)

    @pytest.mark.parametrize(
        ("filters", "expected"),
        [
            ({}, {"one", "two"}),
            ({"types": ("note",)}, {"two"}),
            ({"types": ("note", "commit")}, {"one", "two"}),
            ({"sources": ("git",)}, {"one"}),
            ({"tags": ("b", "c")}, {"two"}),
            ({"date_from": NOW - timedelta(days=1)}, {"one"}),
            ({"date_to": NOW - timedelta(days=1)}, {"two"}),
            ({"types": ("note",), "sources": ("git",)}, set()),
            ({"conditions": (("repository", ("x",)),)}, set()),
        ],
    )
    def test_filters(self, space: Space, filters, expected) -> None:
        assert set(found(space, "workers lock", **filters)) == expected

    def test_rated_rows_are_filtered(self, space: Space, table: Searchable, team: Team) -> None:
        elsewhere = make_record(make_space(team, "elsewhere"))
        ids = [*Record.objects.values_list("pk", flat=True)]
        query = passage("unrelated question")
        leads = look_up(Target(table, space.pk, SearchFilters(types=("note",))), query, limit=1)
        parts = rate(leads, ids)
        assert elsewhere.pk in ids
        assert [Record.objects.get(pk=row_id).title for row_id in parts] == ["two"]


WORDS = ("red", "blue", "green", "queue", "lock")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
ROWS = st.lists(
    st.tuples(TEXTS, st.booleans(), st.booleans(), st.sampled_from(["note", "commit"])), max_size=8
)


@given(ROWS, TEXTS, st.sampled_from([None, ("note",), ("commit", "note"), ("other",)]), st.booleans())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_search_never_finds_another_corpus_or_deleted_records(
    space: Space, team: Team, rows, text, types, is_counted
) -> None:
    other = make_space(team, f"other-{Space.objects.count()}")
    Record.objects.filter(space=space).delete()
    allowed = set()
    for title, is_ours, is_deleted, kind in rows:
        record = make_record(
            space if is_ours else other,
            title=title,
            notes="",
            type=kind,
            deleted_at=NOW if is_deleted else None,
        )
        if is_ours and not is_deleted and (types is None or kind in types):
            allowed.add(record.pk)
    table = registry.get("record")
    if is_counted:
        count_words(table, space.pk)
        ensure_embedded(table, space.pk, limit=100)
    query = prepare_query(text)
    filters = SearchFilters(types=types)
    hits = {hit.id for hit in search(table, space.pk, query, filters=filters, limit=50)}
    assert hits <= allowed
    shared = {pk for pk in allowed if set(Record.objects.get(pk=pk).title.split()) & set(text.split())}
    assert shared <= hits


WEEK_EDGES = [
    datetime(1900, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2026, 3, 4, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2026, 3, 5, tzinfo=UTC),
    datetime(2998, 12, 31, tzinfo=UTC),
]


@pytest.mark.parametrize("date", WEEK_EDGES)
@pytest.mark.parametrize("time_zone", ["UTC", "Pacific/Kiritimati"])
def test_a_record_knows_the_week_of_its_date(space: Space, date: datetime, time_zone: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('TimeZone', %s, true)", [time_zone])
        record = make_record(space, date=date)
        cursor.execute(
            "SELECT tsvector_to_array(search_vector) FROM contextopt_record WHERE id = %s", [record.pk]
        )
        stored = cursor.fetchone()[0]
    assert [word for word in stored if word.startswith(f" {space.pk}w")] == words.week_words(
        space.pk, date, date
    )


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    days=st.lists(st.integers(-150, 150), min_size=1, max_size=8),
    first=st.integers(-150, 150),
    length=st.integers(0, 120),
)
def test_a_range_of_dates_is_kept_whatever_weeks_it_touches(
    space: Space, days: list[int], first: int, length: int
) -> None:
    Record.objects.filter(space=space).delete()
    start, end = (NOW + timedelta(days=day) for day in (first, first + length))
    dates = [NOW + timedelta(days=day) for day in days]
    ids = {make_record(space, title="red", date=date).pk: date for date in dates}
    filters = SearchFilters(date_from=start, date_to=end)
    hits = {
        hit.id
        for hit in search(registry.get("record"), space.pk, prepare_query("red"), filters=filters, limit=50)
    }
    assert hits == {row for row, date in ids.items() if start <= date <= end}


def test_a_record_whose_date_moves_is_found_in_its_new_week(space: Space, table: Searchable) -> None:
    record = make_record(space, title="red", date=NOW)
    update_record(record=record, changes=RecordPatch(date=NOW - timedelta(days=40)), actor="test")
    filters = SearchFilters(date_from=NOW - timedelta(days=41), date_to=NOW - timedelta(days=39))
    assert [hit.id for hit in search(table, space.pk, prepare_query("red"), filters=filters, limit=5)] == [
        record.pk
    ]


def test_frequent_words_alone_find_something(space: Space, table: Searchable, monkeypatch) -> None:
    """Every look-up is bounded, and each kind of look-up finds what it should."""
    rows = [RecordIn(title=f"red {'blue' if n % 2 else 'green'} {n}", date=NOW) for n in range(40)]
    upsert_records(space=space, rows=rows, actor="test")
    count_words(table, space.pk)
    for name, value in {"CANDIDATES_MAX": 10, "CANDIDATES_MIN": 10, "READ_MAX": 30}.items():
        monkeypatch.setattr(words, name, value)
    assert all("blue" in title for title in found(space, "red blue")[:10])
    assert "red blue 7" in found(space, "red 7")
    monkeypatch.setattr(words, "READ_MAX", 5)
    assert len(found(space, "red")) == 10


class TestFrequencies:
    def test_the_job_counts_what_has_changed(self, space: Space, table: Searchable) -> None:
        for number in range(3):
            make_record(space, title=f"red {number}", notes="")
        tasks.count_words()
        corpus = SearchCorpus.objects.get(corpus_id=space.pk)
        assert (corpus.documents, corpus.mean_length) == (3, 4.0)
        assert dict(corpus.frequencies.values_list("lexeme", "documents")) == {"red": 3}
        assert list(changed_corpora(table, now=timezone.now())) == []
        for number in range(12):
            make_record(space, title=f"red {number}", notes="")
        assert list(changed_corpora(table, now=timezone.now())) == [space.pk]
        ensure_counted(table, space.pk)
        tasks.count_words()
        assert DocumentFrequency.objects.get(lexeme="red").documents == 15

    def test_a_day_later_it_counts_again(self, space: Space, table: Searchable) -> None:
        make_record(space)
        count_words(table, space.pk)
        later = timezone.now() + timedelta(days=2)
        assert list(changed_corpora(table, now=later)) == [space.pk]

    def test_a_space_that_is_gone_leaves_no_counts(self, space: Space, table: Searchable) -> None:
        make_record(space)
        tasks.count_words()
        delete_space(space=space)
        tasks.count_words()
        assert not SearchCorpus.objects.exists()

    def test_stale_counts_find_the_same(self, space: Space, table: Searchable) -> None:
        make_record(space, title="old", notes="")
        count_words(table, space.pk)
        make_record(space, title="brand new words", notes="")
        tidy_index(table)
        assert found(space, "brand") == ["brand new words"]


def test_loading_a_record_leaves_its_words_in_the_database(space: Space) -> None:
    record = make_record(space)
    assert "search_vector" in Record.objects.get(pk=record.pk).get_deferred_fields()
    assert "search_vector" in space.records.get().get_deferred_fields()


def test_a_filter_that_excludes_rows_with_all_words_finds_others(space: Space, monkeypatch) -> None:
    """The words often stand together in all rows, but never in rows that pass the filter."""
    monkeypatch.setattr(words, "CANDIDATES_MIN", 5)
    monkeypatch.setattr(words, "CANDIDATES_EACH", 0)
    titles = [f"invoice paid {n}" for n in range(60)] + [f"invoice {n}" for n in range(5)]
    rows = [RecordIn(title=title, type="note", date=NOW) for title in titles]
    rows += [RecordIn(title=f"nothing of it {n}", type="note", date=NOW) for n in range(100)]
    rows += [RecordIn(title=f"paid late {n}", type="incident", date=NOW) for n in range(3)]
    upsert_records(space=space, rows=rows, actor="test")
    count_words(registry.get("record"), space.pk)
    assert sorted(found(space, "invoice paid", types=("incident",))) == [f"paid late {n}" for n in range(3)]


def look_ups(*counted: tuple[str, str, int]) -> list[tuple[str, ...]]:
    """Return the look-ups for words given as (text, language, documents), in a corpus of 100,000."""
    words = sorted((Term(code, word, count) for word, code, count in counted), key=lambda t: t.documents)
    terms = Terms(tuple(words), 100_000, 50.0)
    steps = _steps(terms, "'all'", 200, 1.0, reads_newest=True)
    return [step.tsqueries for step in steps]


QUEUE_STUCK = [("queue", "en", 3_000), ("stuck", "en", 20_000)]
NORWEGIAN = [("queuer", "no", 1), ("stuck", "no", 20_000), ("now", "no", 20_000)]


def test_words_that_are_nearly_everywhere_do_not_narrow_a_look_up() -> None:
    """The rare word has another stem in the other language, which then has only frequent words left."""
    assert look_ups(*QUEUE_STUCK, ("the", "en", 90_000), *NORWEGIAN) == [
        ("'all'", "'queuer'"),
        ("'all'", "'queue'", "'stuck'"),
        ("'queue' | 'stuck' | 'now'",),
    ]


def test_two_languages_with_the_same_words_look_up_once() -> None:
    norwegian = [(word, "no", count) for word, _, count in QUEUE_STUCK]
    assert look_ups(*QUEUE_STUCK, *norwegian) == [("'all'", "'queue'", "'stuck'"), ("'queue' | 'stuck'",)]


def test_few_matches_are_looked_up_instead_of_the_newest_rows() -> None:
    assert look_ups(("queue", "en", 900), ("stuck", "en", 20_000), ("now", "en", 20_000)) == [
        ("'all'", "'queue'", "'stuck'", "'now'"),
        ("'all'", "'queue'", "'stuck' | 'now'"),
        ("'all'", "'queue'"),
    ]


def test_a_language_with_more_words_than_the_other_is_not_looked_up() -> None:
    norwegian = [(word, "no", count) for word, _, count in QUEUE_STUCK]
    found = look_ups(*QUEUE_STUCK, ("slowly", "en", 9_000), *norwegian)
    assert found[0] == ("'all'", "'queue'", "'stuck'")


def test_words_that_languages_share_are_looked_up_once() -> None:
    found = look_ups(*QUEUE_STUCK, ("slowly", "en", 9_000), ("queue", "no", 3_000), ("slow", "no", 9_000))
    assert found[0] == ("'all'", "'queue'", "('slowly' & 'stuck') | ('slow')")
