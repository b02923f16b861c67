"""Explains what a logged context did with a record that a person names: the steps it passed, and its rank."""

from collections.abc import Iterator
from dataclasses import dataclass

from contextopt.assemblies.models import Assembly
from contextopt.assemblies.replay.explanation import (
    EXPECTED_CHARS,
    Explanation,
    Step,
    explain_record,
    find_expected,
)
from contextopt.engine.settings import ADAPTIVE
from contextopt.engine.wording import plural
from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.search.hybrid import prepare_query, search
from contextopt.search.registry import SearchFilters
from contextopt.spaces.models import Record
from contextopt.spaces.records import SEARCHABLE
from dashboard.kit.charts.shapes import PARTS, Segment, score_parts
from dashboard.kit.formats import decimals, whole
from dashboard.kit.inspector import find_titles, weights_of

CHOICES = 5
# The check that each step makes, in order.
CHECKS = (
    (Step.NOT_IN_SPACE, "In the space at that time"),
    (Step.DELETED, "Not deleted"),
    (Step.OUTSIDE_WINDOW, "Inside the date window"),
    (Step.NOT_A_CANDIDATE, "Among the candidates"),
    (Step.DUPLICATE_OF, "Not a near-duplicate"),
    (Step.OVER_RECORD_LIMIT, "Within the record limit"),
    (Step.OVER_BUDGET, "Fits the budget"),
    (Step.LOW_RELEVANCE, "Worth its tokens"),
)


@dataclass(frozen=True, slots=True)
class Check:
    """One step, and whether the record passed it. `note` is a figure that belongs to it."""

    label: str
    is_passed: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class Explained:
    """The answer to what a person typed: an explanation, or records to choose from, or a problem.

    `parts` are those of the score by name, each weighted. `is_guess` says that the choices are only the
    closest records: none has that id or title.
    """

    asked: str
    found: Explanation | None = None
    checks: tuple[Check, ...] = ()
    parts: tuple[tuple[str, str], ...] = ()
    bar: tuple[Segment, ...] = ()
    choices: tuple[Record, ...] = ()
    is_guess: bool = False
    problem: str = ""


def explain_named(assembly: Assembly, asked: str) -> Explained:
    """Explain the record that is named by its id, by SOURCE:EXTERNAL_ID, by its external id or its title."""
    asked = asked.strip()[:EXPECTED_CHARS]
    if not asked:
        return Explained("")
    try:
        choices, is_guess = _choose(assembly, asked)
        if len(choices) == 1 and not is_guess:
            return _explain(assembly, choices[0], asked)
    except (Conflict, InvalidInput) as error:
        return Explained(asked, problem=str(error))
    problem = "" if choices else "No record of this space has this ID, external ID or title."
    return Explained(asked, choices=choices, is_guess=is_guess, problem=problem)


def _choose(assembly: Assembly, asked: str) -> tuple[tuple[Record, ...], bool]:
    """Return the record that is named exactly, or else the best matches by title.

    If there are none, return the closest records and true.
    """
    records = Record.objects.filter(space__team=assembly.team_id).select_related("space")
    try:
        return (find_expected(assembly, asked, records, field="record"),), False
    except (NotFound, InvalidInput):
        pass
    ids = list(dict.fromkeys([*_in_ledger(assembly, asked), *_by_search(assembly, asked)]))[:CHOICES]
    found = records.in_bulk(ids)
    choices = [found[record_id] for record_id in ids if record_id in found]
    words = asked.casefold()
    exact = [one for one in choices if words in (one.title.casefold(), one.external_id.casefold())]
    titled = [one for one in choices if words in one.title.casefold()]
    named = exact or titled
    return tuple(named or choices), not named


def _in_ledger(assembly: Assembly, asked: str) -> Iterator[int]:
    """Yield the candidates with this external id or these words in their title, best first."""
    entries, words = assembly.payload.entries, asked.casefold()
    titles = find_titles(entries, assembly.team_id)
    for entry in entries:
        title = titles[entry["id"]].title if entry["id"] in titles else ""
        if words in title.casefold() or words == entry["external_id"].casefold():
            yield entry["id"]


def _by_search(assembly: Assembly, asked: str) -> list[int]:
    if assembly.space_id is None:
        return []
    hits = search(
        SEARCHABLE,
        assembly.space_id,
        prepare_query(asked),
        filters=SearchFilters(),
        limit=CHOICES,
    )
    return [hit.id for hit in hits if hit.lexical_rank is not None]


def _explain(assembly: Assembly, record: Record, asked: str) -> Explained:
    found = explain_record(assembly, record)
    weights = weights_of(assembly.payload.config)
    parts = found.parts or {}
    score = sum(value * weights.get(name, 0.0) for name, value in parts.items())
    mode = "budget_mode" if assembly.payload.request.get("query") else "record_budget"
    return Explained(
        asked,
        found,
        tuple(_checks(found, is_adaptive=assembly.payload.config.get(mode) == ADAPTIVE)),
        tuple(
            (label, decimals(parts[name] * weights.get(name, 0.0)))
            for name, (_, label) in PARTS.items()
            if parts.get(name)
        ),
        score_parts(parts, weights, score) if score else (),
    )


def _checks(found: Explanation, *, is_adaptive: bool) -> Iterator[Check]:
    """Yield the steps that the record passed, and the one that lost it."""
    if found.step == Step.NO_RECORDS:
        return
    for step, label in CHECKS:
        if step == found.step:
            over = found.over_tokens
            yield Check(label, is_passed=False, note="" if over is None else f"{plural(over, 'token')} over")
            return
        if step == Step.LOW_RELEVANCE and not is_adaptive:
            continue
        rank = step == Step.NOT_A_CANDIDATE and found.rank is not None
        yield Check(label, is_passed=True, note=f"{whole(found.rank)} of {whole(found.of)}" if rank else "")
