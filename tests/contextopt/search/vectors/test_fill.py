"""Vectors follow every write even if a process dies, and models change without a gap in search."""

import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import numpy as np
import psycopg
import pytest
import time_machine
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextopt import tasks
from contextopt.assemblies.purge import purge_record
from contextopt.people.models import Team
from contextopt.search import registry
from contextopt.search.embedders import current
from contextopt.search.embedders.current import QueryVector, embed_queries, get_embedder
from contextopt.search.embedders.values import EmbeddingUnavailable
from contextopt.search.hybrid import rate_rows
from contextopt.search.models import EmbeddingFill, EmbeddingModel, EmbeddingTodo
from contextopt.search.registry import SearchFilters
from contextopt.search.vectors import fill, indexes
from contextopt.search.vectors.fill import Work, ensure_embedded, work_through
from contextopt.search.vectors.nearest import (
    NO_CONDITION,
    Condition,
    best_cosines,
    is_best_compared,
    nearest,
)
from contextopt.search.vectors.storage import embedding_status
from contextopt.search.wordcounts import count_words
from contextopt.search.words import Terms
from contextopt.spaces.models import Record, RecordEmbedding, Space
from contextopt.sql import own_conninfo
from tests.factories import make_record, make_space, make_team
from tests.model_server import FAILING, ModelServer

TITLES = ("Queue stuck after deploy", "Price rounding in the cart", "Login page times out", "Cake recipe")
WAIT = {"seconds": 30.0, "index_seconds": None}


@pytest.fixture
def record_table() -> registry.Searchable:
    return registry.get("record")


@pytest.fixture
def endpoint(settings) -> Iterator[ModelServer]:
    """A server of embeddings, named in the settings."""
    with ModelServer(dimensions=16) as server:
        settings.EMBEDDING_BASE_URL, settings.EMBEDDING_ENDPOINT_MODEL = server.base_url, "small"
        settings.EMBEDDING_DIMENSIONS, settings.EMBEDDING_API_KEY = 16, "key"
        current._loaded.pop("endpoint:small:16", None)
        yield server
        current._loaded.pop("endpoint:small:16", None)


def work() -> Work:
    done = Work()
    assert work_through(**WAIT, work=done)
    return done


def titles_near(text: str, space: Space, **asked) -> list[str]:
    vector = embed_queries([text])[0]
    assert vector is not None
    found = nearest(registry.get("record"), space.pk, vector, limit=asked.pop("limit", 10), **asked)
    return [Record.objects.get(pk=number).title for number, _ in found]


def cosines(space: Space, vector: QueryVector, ids: list[int]) -> dict[int, float | None]:
    table, words = registry.get("record"), Terms((), 0, 0.0)
    rated = rate_rows(table, space.pk, words, vector, ids, filters=SearchFilters())
    return {row: parts.similarity for row, parts in rated.items()}


def test_written_records_are_found_by_meaning(space: Space) -> None:
    for title in TITLES:
        make_record(space, title=title, notes="")
    assert embed_queries(["anything"])[0] is None
    assert work().embedded == 4
    assert not EmbeddingTodo.objects.exists()
    assert titles_near("the queue is stuck", space)[0] == TITLES[0]
    assert work().embedded == 0


def test_only_a_changed_text_is_embedded_again(space: Space) -> None:
    record = make_record(space)
    work()
    before = RecordEmbedding.objects.get()
    Record.objects.filter(pk=record.pk).update(view_count=9)
    assert not EmbeddingTodo.objects.exists()
    Record.objects.filter(pk=record.pk).update(title="Another")
    assert work().embedded == 1
    after = RecordEmbedding.objects.get()
    assert bytes(after.content_hash) != bytes(before.content_hash)


def test_deleted_and_purged_records_lose_their_vectors_and_restored_ones_get_them_back(space: Space) -> None:
    record, other = make_record(space), make_record(space, title="Other")
    work()
    Record.objects.filter(pk=record.pk).update(deleted_at=timezone.now())
    assert titles_near("queue", space) == ["Other"]
    work()
    assert RecordEmbedding.objects.get().record_id == other.pk
    Record.objects.filter(pk=record.pk).update(deleted_at=None)
    work()
    purge_record(record=record)
    assert RecordEmbedding.objects.get().record_id == other.pk
    work()
    assert RecordEmbedding.objects.get().record_id == other.pk


def test_a_blank_text_has_no_vector(space: Space, record_table: registry.Searchable) -> None:
    record = make_record(space, title="\u200b", notes="")
    filled = make_record(space, title="Queue")
    Record.objects.filter(pk=record.pk).update(title=" ")
    work()
    assert RecordEmbedding.objects.get().record_id == filled.pk
    vector = embed_queries(["queue"])[0]
    assert vector is not None
    found = cosines(space, vector, [record.pk, filled.pk])
    assert found[record.pk] is None
    assert found[filled.pk] is not None


def test_the_next_job_continues_one_that_died(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        make_record(space, title=f"Record {number}")
    monkeypatch.setattr(fill, "BATCH_ROWS", 2)

    def die(_: Work) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work_through(**WAIT, work=Work(), on_progress=die)
    assert RecordEmbedding.objects.count() == 2
    assert work().embedded == 3
    assert RecordEmbedding.objects.count() == 5


def test_rows_from_before_the_first_model_are_filled_in(space: Space) -> None:
    for title in TITLES:
        make_record(space, title=title)
    EmbeddingTodo.objects.all().delete()
    assert work().embedded == 4
    assert EmbeddingFill.objects.filter(searchable="record", is_filled=True, walked=4, total=4).exists()


def test_one_corpus_is_embedded_at_once_for_a_command(
    space: Space, team: Team, record_table: registry.Searchable
) -> None:
    other = make_space(team, "other")
    for title in TITLES:
        make_record(space, title=title)
        make_record(other, title=title)
    EmbeddingTodo.objects.filter(row_id__in=Record.objects.filter(space=space)[:2].values("pk")).delete()
    assert ensure_embedded(record_table, space.pk, limit=3).embedded == 3
    assert ensure_embedded(record_table, space.pk, limit=100).embedded == 1
    assert ensure_embedded(record_table, space.pk, limit=100).embedded == 0
    assert set(RecordEmbedding.objects.values_list("corpus_id", flat=True)) == {space.pk}


def test_nothing_of_another_corpus_is_near(space: Space, record_table: registry.Searchable) -> None:
    theirs = make_space(make_team("rivals"), "theirs")
    mine, foreign = make_record(space), make_record(theirs)
    work()
    vector = embed_queries(["queue stuck"])[0]
    assert vector is not None
    assert [row for row, _ in nearest(record_table, space.pk, vector, limit=10)] == [mine.pk]
    assert cosines(space, vector, [mine.pk, foreign.pk]).keys() == {mine.pk}


def test_a_title_is_not_lost_among_the_file_names_of_the_notes(space: Space) -> None:
    files = ", ".join(f"src/{name}/tables.py" for name in ("shop", "billing", "users", "orders", "reports"))
    make_record(space, title="Bake a chocolate cake", notes=f"Files: {files}")
    make_record(space, title="Bake fresh bread", notes="")
    make_record(space, title="Move tables", notes=f"Files: {files}")
    work()
    best = titles_near("how was the chocolate cake baked", space)
    assert best == ["Bake a chocolate cake", "Bake fresh bread", "Move tables"]


def test_models_change_while_searches_go_on(space: Space, settings, endpoint: ModelServer) -> None:
    for title in TITLES:
        make_record(space, title=title, notes="")
    work()
    settings.EMBEDDING_MODEL = "endpoint"
    endpoint.script += [FAILING] * 3
    with pytest.raises(EmbeddingUnavailable):
        work_through(**WAIT, work=Work())
    status = embedding_status()
    assert (status.model, status.building, status.is_settled) == ("wordllama-256", "endpoint:small:16", False)
    assert titles_near("the queue is stuck", space)[0] == TITLES[0]
    # A record written now is found at once with the old model, and later with the new one.
    make_record(space, title="Written meanwhile", notes="")
    endpoint.script += [FAILING] * 30
    with pytest.raises(EmbeddingUnavailable):
        work_through(**WAIT, work=Work())
    assert titles_near("written meanwhile", space)[0] == "Written meanwhile"
    endpoint.script.clear()
    assert work().embedded == 5
    assert EmbeddingModel.objects.active().get().name == "endpoint:small:16"
    assert titles_near("Written meanwhile\nWritten meanwhile\n", space, limit=1) == ["Written meanwhile"]
    assert RecordEmbedding.objects.count() == 10
    with time_machine.travel(timezone.now() + fill.RETIRED_FOR * 2):
        work()
    assert set(RecordEmbedding.objects.values_list("model__name", flat=True)) == {"endpoint:small:16"}


def test_a_reverted_setting_keeps_the_old_model(space: Space, settings, endpoint: ModelServer) -> None:
    make_record(space)
    work()
    settings.EMBEDDING_MODEL = "endpoint"
    fill.choose_models()
    settings.EMBEDDING_MODEL = "wordllama"
    work()
    assert dict(EmbeddingModel.objects.values_list("name", "state")) == {
        "wordllama-256": "active",
        "endpoint:small:16": "retired",
    }


def test_an_unavailable_model_does_not_stop_the_active_one(space: Space, settings) -> None:
    make_record(space)
    work()
    settings.EMBEDDING_MODEL, settings.EMBEDDING_MODEL_PATH = "onnx", "/nowhere/model"
    make_record(space, title="New")
    assert work().embedded == 1


@pytest.mark.django_db(transaction=True)
def test_an_index_is_built_used_and_built_again_when_broken(
    monkeypatch: pytest.MonkeyPatch, settings, endpoint: ModelServer
) -> None:
    space = make_space(make_team())
    monkeypatch.setattr(fill, "EXACT_ROWS", 3)
    monkeypatch.setattr("contextopt.search.vectors.nearest.EXACT_ROWS", 3)
    monkeypatch.setattr("contextopt.search.vectors.nearest.GRAPH_VISIT", 0)
    for title in TITLES:
        make_record(space, title=title, notes="")
    work()
    model = EmbeddingModel.objects.get()
    table = registry.get("record")
    assert EmbeddingFill.objects.get(searchable="record").is_indexed
    assert titles_near("the queue is stuck", space, limit=2)[0] == TITLES[0]
    only = Condition("t.title LIKE %(wanted)s", {"wanted": "Cake%"})
    assert titles_near("the queue is stuck", space, condition=only) == ["Cake recipe"]
    name = next(iter(indexes.indexes_of(table, model)))
    with connection.cursor() as cursor:
        # An interrupted build leaves this behind.
        cursor.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass(%s)", [name])
    assert not indexes.index_is_ready(table, model)
    assert indexes.build_index(table, model, wait_seconds=None)
    assert indexes.index_is_ready(table, model)
    settings.EMBEDDING_MODEL = "endpoint"
    work()
    with time_machine.travel(timezone.now() + fill.RETIRED_FOR * 2):
        work()
    assert not indexes.index_is_ready(table, model)


@pytest.mark.django_db(transaction=True)
def test_searches_are_right_while_an_index_is_being_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build waits for older writers. One is held open, so the index exists but isn't complete."""
    ours, theirs = (make_space(make_team(slug)) for slug in ("ours", "theirs"))
    for space in (ours, theirs):
        for title in TITLES:
            make_record(space, title=title, notes="")
    work()
    model, table = EmbeddingModel.objects.get(), registry.get("record")
    monkeypatch.setattr("contextopt.search.vectors.nearest.EXACT_ROWS", 0)
    monkeypatch.setattr("contextopt.search.vectors.nearest.GRAPH_VISIT", 0)
    with psycopg.connect(own_conninfo()) as older:
        older.execute(f"LOCK TABLE {table.embedding_table} IN ROW EXCLUSIVE MODE")
        assert not indexes.build_index(table, model, wait_seconds=0.5)
        graph = next(iter(indexes.indexes_of(table, model)))
        assert indexes._is_valid(graph) is False
        gone = Record.objects.get(space=ours, title=TITLES[0])
        Record.objects.filter(pk=gone.pk).update(deleted_at=timezone.now())
        make_record(ours, title="The queue is stuck again", notes="")
        fill.embed_next([model], Work())
        near = titles_near("the queue is stuck", ours, limit=9)
        assert near[0] == "The queue is stuck again"
        assert sorted(near) == sorted([*TITLES[1:], "The queue is stuck again"])
        assert TITLES[0] in titles_near("the queue is stuck", theirs, limit=9)
        older.rollback()
    assert _becomes_ready(table, model)
    assert titles_near("the queue is stuck", ours, limit=9) == near


def _becomes_ready(table: registry.Searchable, model: EmbeddingModel) -> bool:
    """Wait as the job does: for a running build, or by starting a missing one."""
    for _ in range(100):
        if indexes.build_index(table, model, wait_seconds=None):
            return indexes.index_is_ready(table, model)
        time.sleep(0.05)
    return False


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(st.sampled_from([0, 1]), st.booleans(), st.sampled_from(TITLES)), min_size=1, max_size=8
    ),
    limit=st.integers(1, 5),
    way=st.sampled_from(["graph", "dates", "keys"]),
)
def test_the_nearest_are_live_rows_of_the_corpus(
    rows: list[tuple[int, bool, str]], limit: int, way: str, db: None, monkeypatch
) -> None:
    """Search by each method, with deletions that the vectors don't know yet. Two methods are exact."""
    monkeypatch.setattr("contextopt.search.vectors.nearest.SPARE_ROWS", 1)
    monkeypatch.setattr("contextopt.search.vectors.nearest.SAMPLED", 1)
    monkeypatch.setattr("contextopt.search.vectors.nearest.EXACT_ROWS", 0 if way == "graph" else 1_000)
    monkeypatch.setattr("contextopt.search.vectors.nearest.GRAPH_VISIT", 0)
    team = Team.objects.create(slug=f"t{Team.objects.count()}", name="T")
    spaces = [make_space(team, "one"), make_space(team, "two")]
    made = [make_record(spaces[place], title=title, notes="") for place, _, title in rows]
    work()
    model = EmbeddingModel.objects.active().get()
    EmbeddingFill.objects.update(is_indexed=True)
    gone = [record.pk for record, (_, is_deleted, _) in zip(made, rows, strict=True) if is_deleted]
    Record.objects.filter(pk__in=gone).update(deleted_at=timezone.now())
    vector = embed_queries(["queue"])[0]
    assert vector is not None
    assert vector.model_id == model.pk
    for space in spaces:
        live = set(Record.objects.filter(space=space, deleted_at=None).values_list("pk", flat=True))
        condition = Condition("true") if way == "keys" else NO_CONDITION
        found = nearest(registry.get("record"), space.pk, vector, condition=condition, limit=limit)
        assert {row for row, _ in found} <= live
        assert len(found) == min(limit, len(live))
        shares = [share for _, share in found]
        assert shares == sorted(shares, reverse=True)
        if way != "graph":
            cosine = cosines(space, vector, sorted(live))
            assert shares == sorted((cosine[row] or 0.0 for row in live), reverse=True)[:limit]


@pytest.mark.parametrize("way", ["graph", "all"])
def test_the_best_cosine_of_each_vector(space: Space, way: str, monkeypatch) -> None:
    monkeypatch.setattr("contextopt.search.vectors.nearest.EXACT_ROWS", 0 if way == "graph" else 1_000)
    monkeypatch.setattr("contextopt.search.vectors.nearest.GRAPH_VISIT", 0)
    for title in ("queue stuck", "red paint", "login cookie"):
        make_record(space, title=title, notes="")
    work()
    table = registry.get("record")
    count_words(table, space.pk)
    EmbeddingFill.objects.update(is_indexed=True)
    vectors = [vector for vector in embed_queries(["a stuck queue", "paint", "cookies"]) if vector]
    expected = [nearest(table, space.pk, vector, limit=1)[0][1] for vector in vectors]
    with CaptureQueriesContext(connection) as queries:
        assert best_cosines(table, space.pk, vectors) == pytest.approx(expected, abs=1e-6)
    asked = [query["sql"] for query in queries if "<=>" in query["sql"]]
    assert len(asked) == 1
    assert ("ORDER BY" in asked[0]) == (way == "graph")
    assert best_cosines(table, space.pk + 1, vectors) == [None] * 3
    assert best_cosines(table, space.pk, []) == []


def test_texts_are_embedded_in_one_batch(space: Space) -> None:
    work()
    one, nothing, other = embed_queries(["queue", " ", "red paint"])
    assert nothing is None
    assert one is not None
    assert other is not None
    alone = embed_queries(["red paint"])[0]
    assert alone is not None
    assert other.values == pytest.approx(alone.values, abs=1e-6)
    assert embed_queries([""]) == [None]


def test_half_precision_changes_a_cosine_in_the_fourth_decimal(space: Space) -> None:
    record = make_record(space, notes="")
    work()
    vector = embed_queries(["queue stuck"])[0]
    assert vector is not None
    text = f"{record.title}\n{record.title}\n"
    exact = float(get_embedder("wordllama-256").embed([text])[0] @ vector.values)
    found = cosines(space, vector, [record.pk])[record.pk]
    assert found == pytest.approx(exact, abs=1e-3)
    assert np.isclose(np.linalg.norm(vector.values), 1, atol=1e-5)


def test_the_job_does_nothing_twice_and_logs_what_it_cannot_reach(
    space: Space, settings, endpoint: ModelServer
) -> None:
    settings.EMBEDDING_MODEL = "endpoint"
    make_record(space)
    endpoint.script += [FAILING]
    tasks.embed()
    assert not RecordEmbedding.objects.exists()
    tasks.embed()
    tasks.embed()
    assert RecordEmbedding.objects.count() == 1


def test_the_idle_job_makes_few_queries(space: Space, django_assert_max_num_queries) -> None:
    make_record(space)
    work()
    # Lock and unlock, models, fills, lines, lines of the model, open fills, the size of each table, building,
    # retired.
    with django_assert_max_num_queries(16):
        tasks.embed()


def test_the_command_reports(space: Space, capsys: pytest.CaptureFixture[str]) -> None:
    make_record(space)
    call_command("embed", "--json")
    assert '"embedded": 1' in capsys.readouterr().out
    call_command("embed", "--wait")
    assert capsys.readouterr().out == "All texts are already embedded with wordllama-256.\n"


@pytest.mark.parametrize(
    ("rows", "of", "by_key", "by_date"),
    [
        (5_000, 5_000_000, True, True),
        (10_000, 100_000, True, True),
        (15_000, 100_000, False, True),
        (25_000, 100_000, False, False),
        (15_000, 10_000_000, True, True),
        (100_000, 100_000, False, False),
    ],
)
def test_all_rows_are_compared_where_that_is_faster(
    record_table: registry.Searchable, rows: int, of: int, by_key: bool, by_date: bool
) -> None:
    vector = QueryVector(1, "m", 2, np.ones(2, np.float32), {"record": of})
    assert is_best_compared(record_table, vector, rows, limit=40) == by_key
    assert is_best_compared(record_table, vector, rows, limit=40, by_date=True) == by_date


def test_a_record_with_a_new_date_is_found_only_in_its_window(space: Space, monkeypatch) -> None:
    """Its own date applies at once; the index by date follows once the vector has the new date."""
    now = timezone.now()
    for title in TITLES:
        make_record(space, title=title, notes="", date=now)
    work()
    EmbeddingFill.objects.update(is_indexed=True)
    week = SearchFilters(date_from=now - timedelta(days=7), date_to=now)
    condition = Condition(*registry.get("record").passing(space.pk, week), (week.date_from, week.date_to))
    near = partial(titles_near, "the queue is stuck", space, condition=condition)
    assert near()[0] == TITLES[0]
    moved = Record.objects.get(title=TITLES[0])
    Record.objects.filter(pk=moved.pk).update(date=now - timedelta(days=30))
    assert sorted(near()) == sorted(TITLES[1:])
    assert work().unchanged == 1
    assert RecordEmbedding.objects.get(record=moved).date == now - timedelta(days=30)
    Record.objects.filter(pk=moved.pk).update(date=now)
    # Too few results make the search look the records up.
    assert sorted(near(limit=9)) == sorted(TITLES)
    assert TITLES[0] not in near(limit=2)
    work()
    assert near(limit=2)[0] == TITLES[0]


def test_many_dimensions_fit_no_index_by_date(record_table: registry.Searchable) -> None:
    small, large = (EmbeddingModel(pk=1, name=str(size), dimensions=size) for size in (1_300, 1_536))
    assert len(indexes.indexes_of(record_table, small)) == 2
    assert list(indexes.indexes_of(record_table, large)) == ["record_embedding_hnsw_1"]
