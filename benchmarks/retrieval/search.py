"""Stage 5 and search as a space grows: the time of one question. No question is asked twice."""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter

from benchmarks.corpus import generate_varied
from benchmarks.figures import Figure, Sample, Section, at_most
from benchmarks.retrieval.recall import use_model
from benchmarks.service.recount import Recount
from benchmarks.spaces import (
    Filled,
    build_indexes,
    describe_givens,
    describe_space,
    fill,
    measured,
    new_space,
    settle,
)
from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.results import AssemblyResult
from contextopt.people.models import Team
from contextopt.search import registry
from contextopt.search.hybrid import prepare_query, search
from contextopt.search.registry import SearchFilters
from contextopt.spaces.models import Record
from contextopt.spaces.spaces import delete_space

BUDGET_TOKENS = 2_000
QUESTION_WORDS = 6
HITS = 20
WARM_UP_ROUNDS = 15
BAR_RECORDS = 100_000
BAR_P95_MS = 30.0
STAGE_4 = "stage 4, logged durably"
STAGE_5 = "stage 5, logged durably"
STAGE_5_NARROW = "stage 5, 14 days, 20 records"
SEARCH = "search, 20 hits"

_CONDITIONS = (
    "Each question consists of six words from a record's notes, in any order. Stage 5 has its default "
    "settings (all 90 days, no record limit, 120 tokens a record) and 2,000 tokens, and embeds, searches, "
    "assembles and logs. The narrow variant has a window of 14 days and a limit of 20 records. Words come "
    "from a skewed vocabulary of 20,000, plus a hundred words that every fifth record contains. Vectors are "
    "those of the configured model, with their indexes. The ratio compares with stage 4 without a question, "
    "in the same space and run."
)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A space, and questions about it."""

    filled: Filled
    questions: list[str]


def measure_search(team: Team, sizes: Sequence[int], *, rounds: int, recount: Recount) -> Section:
    asked = [_prepare(team, size, rounds + WARM_UP_ROUNDS) for size in sizes]
    build_indexes()
    settle()
    times: dict[tuple[str, int], list[float]] = defaultdict(list)
    for number in range(-WARM_UP_ROUNDS, rounds):
        for one in asked:
            for name, run in _CONTENDERS.items():
                started = perf_counter()
                result = run(one.filled, one.questions[number])
                took_ms = (perf_counter() - started) * 1_000
                if number >= 0:
                    times[name, one.filled.records].append(took_ms)
                if result is not None:
                    _check(result, recount)
    logged = describe_givens(asked[-1].filled.space)
    for one in asked:
        delete_space(space=one.filled.space)
    figures = [
        _figure(name, records, Sample(tuple(taken)), Sample(tuple(times[STAGE_4, records])))
        for (name, records), taken in times.items()
    ]
    return Section("Search and stage 5: time of one question", tuple(figures), (_CONDITIONS, logged))


def _prepare(team: Team, size: int, count: int) -> _Asked:
    """Fill a space with records in varied words, embed and count them, and generate questions."""
    slug = f"varied-{size}"
    space = new_space(team, describe_space(slug))
    fill(space, generate_varied(size, seed=size, until=datetime.now(UTC)))
    use_model([space])
    rng = random.Random(size)
    notes = list(Record.objects.filter(space=space).order_by("id").values_list("notes", flat=True))
    return _Asked(measured(space), [_question(rng, text) for text in rng.choices(notes, k=count)])


def _question(rng: random.Random, text: str) -> str:
    words = text.replace(".", " ").replace(",", " ").split()
    return " ".join(rng.sample(words, min(QUESTION_WORDS, len(words))))


def _assemble_plain(filled: Filled, _question: str) -> AssemblyResult:
    return _assemble(filled, AssemblyIn(space=filled.slug))


def _assemble_asked(filled: Filled, question: str) -> AssemblyResult:
    return _assemble(filled, AssemblyIn(space=filled.slug, query=question))


def _assemble_narrow(filled: Filled, question: str) -> AssemblyResult:
    request = AssemblyIn(space=filled.slug, query=question, window_days=14, max_records=20)
    return _assemble(filled, request)


def _assemble(filled: Filled, request: AssemblyIn) -> AssemblyResult:
    return assemble_space(team_id=filled.space.team_id, request=request, actor="benchmarks")


def _check(result: AssemblyResult, recount: Recount) -> None:
    recount.check(result.text, budget=BUDGET_TOKENS, certificate=result.certificate.to_json())


def _search(filled: Filled, question: str) -> None:
    query = prepare_query(question)
    search(registry.get("record"), filled.space.pk, query, filters=SearchFilters(), limit=HITS)


_CONTENDERS: dict[str, Callable[[Filled, str], AssemblyResult | None]] = {
    STAGE_4: _assemble_plain,
    STAGE_5: _assemble_asked,
    STAGE_5_NARROW: _assemble_narrow,
    SEARCH: _search,
}


def _figure(name: str, records: int, sample: Sample, plain: Sample) -> Figure:
    bar = None
    if name == STAGE_5 and records >= BAR_RECORDS:
        bar = at_most(BAR_P95_MS, sample.p95, f"p95 ≤ {BAR_P95_MS:g} ms")
    return Figure.of(f"{records:,} records: {name}", sample, ratio=sample.median / plain.median, bar=bar)
