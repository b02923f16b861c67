"""Stage 4, engine and database: the time of one assembly as a space grows, compared with other ways.

All contenders take turns on all spaces, round by round, so that other load on the machine affects everyone
equally.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from time import perf_counter

from benchmarks.figures import Figure, Sample, Section, at_most, describe_shares
from benchmarks.service.contenders import BUDGET_TOKENS, Contender, Taken, load_contenders
from benchmarks.service.recount import Recount
from benchmarks.spaces import Filled, describe_givens
from contextopt.assemblies.assemble import assemble_space, prepare_request
from contextopt.assemblies.candidates import load_candidates
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.results import AssemblyResult
from contextopt.engine.placement.blocks import NOTHING

STORED = "Contextopt, logged durably"
PREVIEW = "Contextopt, not logged"
BAR_RECORDS = 1_000_000
BAR_P95_MS = 8.0
REFERENCE_RECORDS = 10_000
BAR_RATIO = 1.5
# Each backend reads every shared page once for the first time, and a plan settles after five runs.
WARM_UP_ROUNDS = 50
# The others are slower by orders of magnitude, so they only run every few rounds.
SQL_EVERY = 10
LIBRARY_EVERY = 60
STEP_RUNS = 60

_CONDITIONS = (
    "Every request has a different `as_of`, a window of 14 days, a limit of 20 records and 2,000 tokens. "
    "The ratio compares the median with that at 10,000 records."
)
_OTHERS = (
    "All read the same table and count with the same encoding. The libraries take a list of messages, so "
    "their time includes reading the window's records. They keep the newest that fit and do not rank."
)

type Times = dict[tuple[str, int], list[float]]


@dataclass(slots=True)
class _Run:
    """Results gathered over the rounds; times in milliseconds by contender and size."""

    recount: Recount
    times: Times = field(default_factory=lambda: defaultdict(list))
    considered: dict[tuple[str, int], int] = field(default_factory=dict)
    compared: int = 0
    agreed: int = 0


def measure_assembly(spaces: Sequence[Filled], *, rounds: int, recount: Recount) -> Section:
    contenders, notes = load_contenders()
    run = _Run(recount)
    moments = {filled.records: filled.moments(2 * (rounds + WARM_UP_ROUNDS), seed=7) for filled in spaces}
    for number in range(-WARM_UP_ROUNDS, rounds):
        for filled in spaces:
            # Two moments, because a second request for the same one would find every page in memory.
            two = moments[filled.records][2 * number : 2 * number + 2 or None]
            _take_turns(run, filled, two, contenders, number)
    figures = [figure for filled in spaces for figure in _figures(run, filled.records, contenders)]
    largest = spaces[-1]
    notes = [*_notes(run, contenders), *notes, _where_time_goes(largest), describe_givens(largest.space)]
    return Section("Assembly, stage 4: engine and database", tuple(figures), tuple(notes))


def _take_turns(
    run: _Run, filled: Filled, moments: Sequence[datetime], contenders: Sequence[Contender], number: int
) -> None:
    """Run everyone whose turn it is. Rounds below zero warm up and are not counted."""
    stored = _assemble(run, filled, moments[0], is_stored=True, is_counted=number >= 0)
    _assemble(run, filled, moments[1], is_stored=False, is_counted=number >= 0)
    for index, contender in enumerate(contenders):
        every = SQL_EVERY if contender.most is None else LIBRARY_EVERY
        if number == -1:
            contender.run(filled, stored.asked.as_of)
        elif number >= 0 and number % every == index:
            _measure_other(run, contender, filled, stored)


def _measure_other(run: _Run, contender: Contender, filled: Filled, ours: AssemblyResult) -> None:
    key = contender.name, filled.records
    started = perf_counter()
    taken = contender.run(filled, ours.asked.as_of)
    run.times[key].append((perf_counter() - started) * 1_000)
    run.considered[key] = max(taken.considered, run.considered.get(key, 0))
    if taken.ids:
        _compare(run, ours, taken)


def _assemble(
    run: _Run, filled: Filled, now: datetime, *, is_stored: bool, is_counted: bool
) -> AssemblyResult:
    request = AssemblyIn(space=filled.slug, as_of=now)
    started = perf_counter()
    result = assemble_space(
        team_id=filled.space.team_id, request=request, actor="benchmarks", store=is_stored
    )
    took_ms = (perf_counter() - started) * 1_000
    run.recount.check(result.text, budget=BUDGET_TOKENS, certificate=result.certificate.to_json())
    if is_counted:
        run.times[STORED if is_stored else PREVIEW, filled.records].append(took_ms)
    return result


def _compare(run: _Run, ours: AssemblyResult, theirs: Taken) -> None:
    """Count whether scoring every row in the database chooses the same records, apart from pinned ones."""
    kept = [entry.id for entry in ours.ledger if entry.kept and not entry.pinned]
    run.compared += 1
    run.agreed += kept == list(theirs.ids[: len(kept)])


def _figures(run: _Run, records: int, contenders: Sequence[Contender]) -> list[Figure]:
    names = [STORED, PREVIEW, *(contender.name for contender in contenders)]
    figures = []
    for name in names:
        if not (times := run.times.get((name, records))):
            continue
        sample = Sample(tuple(times))
        reference = run.times.get((name, REFERENCE_RECORDS))
        ratio = sample.median / Sample(tuple(reference)).median if reference else None
        what = f"{records:,} records: {name}"
        figures.append(Figure.of(what, sample, ratio=ratio))
        if name == STORED and records >= BAR_RECORDS:
            figures[-1] = Figure.of(
                what, sample, ratio=ratio, bar=at_most(BAR_P95_MS, sample.p95, f"p95 ≤ {BAR_P95_MS:g} ms")
            )
            if ratio is not None:
                bar = at_most(BAR_RATIO, ratio, f"≤ {BAR_RATIO:g} × the median at {REFERENCE_RECORDS:,}")
                figures.append(Figure("the same, against 10,000 records", "×", len(times), ratio, bar=bar))
    return figures


def _notes(run: _Run, contenders: Sequence[Contender]) -> list[str]:
    notes = [_CONDITIONS, _OTHERS]
    for contender in contenders:
        if contender.most is not None:
            given = ", ".join(
                f"{count:,} of the space of {size:,}"
                for (name, size), count in run.considered.items()
                if name == contender.name
            )
            notes.append(
                f"{contender.name} got the newest {contender.most:,} of the window at most: {given}."
            )
    notes.append(
        f"Scoring every row chose the same records in the same order in {run.agreed} of {run.compared} runs."
    )
    return notes


def _where_time_goes(filled: Filled) -> str:
    """Describe how the time of one assembly divides into steps, in the largest space."""
    steps: dict[str, list[float]] = {"settings": [], "candidates": [], "engine": [], "log (one insert)": []}
    for now in filled.moments(STEP_RUNS, seed=11):
        times = _time_steps(filled, now)
        for step, took_ms in zip(steps, times, strict=True):
            steps[step].append(took_ms)
    shares = describe_shares([(step, Sample(tuple(times))) for step, times in steps.items()])
    return f"Where the time goes at {filled.records:,} records (medians of {STEP_RUNS} runs): {shares}."


def _time_steps(filled: Filled, now: datetime) -> tuple[float, float, float, float]:
    request = AssemblyIn(space=filled.slug, as_of=now)
    marks = [perf_counter()]
    asked = prepare_request(team_id=filled.space.team_id, request=request, actor="benchmarks")
    marks.append(perf_counter())
    found = load_candidates(asked)
    marks.append(perf_counter())
    asked.decide(found, NOTHING)
    marks.append(perf_counter())
    result = assemble_space(team_id=filled.space.team_id, request=request, actor="benchmarks")
    # `assembly_ms` stops before the insert, so the rest of the call is the log.
    log_ms = (perf_counter() - marks[-1]) * 1_000 - result.assembly_ms
    first, second, third = (1_000 * (after - before) for before, after in pairwise(marks))
    return first, second, third, log_ms
