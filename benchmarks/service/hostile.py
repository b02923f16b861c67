"""Budgets with hostile records, whose texts break estimates, under random settings."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

from benchmarks.corpus import generate_hostile
from benchmarks.figures import Figure, Section, at_most
from benchmarks.service.recount import Recount
from benchmarks.spaces import describe_space, fill
from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.results import AssemblyResult
from contextopt.engine.text.cleaning import flatten
from contextopt.engine.validation import BudgetExceeded
from contextopt.people.models import Team
from contextopt.spaces.inputs import SpaceIn
from contextopt.spaces.models import Space
from contextopt.spaces.spaces import create_space, delete_space

RECORDS = 150
ASSEMBLIES_PER_SPACE = 25
STAGE_3_TOKENS = 4_000
CONTEXT_TOKENS = 2_000
RESPONSE_TOKENS = 1_000
# Maximum random sizes in a request, large enough that the context often has to shrink.
LARGEST_CONTEXT = 6_000
LARGEST_PROMPT = 5_000


def measure_hostile(team: Team, *, spaces: int, recount: Recount) -> Section:
    """Assemble contexts of hostile records. Count every text again, and derive its budget from the parts."""
    answers: Counter[str] = Counter()
    own = Recount()
    for number in range(spaces):
        space = _make_space(team, number)
        rng = random.Random(number)
        for _ in range(ASSEMBLIES_PER_SPACE):
            answers[_assemble_once(space, rng, own)] += 1
        delete_space(space=Space.objects.get(pk=space.pk))
    recount.add(own.checked, own.violations, own.examples)
    figure = Figure("hostile records: violations", "texts", own.checked, own.violations)
    note = (
        f"{spaces} spaces of {RECORDS} hostile records, {ASSEMBLIES_PER_SPACE} requests each with random "
        f"stage, sizes and order: {answers['assembled']:,} assembled, {answers['refused']:,} refused because "
        "no room was left for the response."
    )
    return Section("Budgets on a hostile corpus", (figure,), (note,))


def total_section(recount: Recount) -> Section:
    """Return the count of violations over all texts of the run."""
    bar = at_most(0, recount.violations, "0 violations")
    figure = Figure("every text of this run", "violations", recount.checked, recount.violations, bar=bar)
    note = (
        "tiktoken itself counted each returned text again. The count was compared with the request's budget "
        "and the certificate, and the text with the certified SHA-256."
    )
    return Section("Budget violations", (figure,), (note, *recount.examples))


def _make_space(team: Team, number: int) -> Space:
    data = describe_space(f"hostile-{number}")
    if number % 2:
        title = next(generate_hostile(1, seed=10_000 + number, until=datetime.now(UTC))).title
        data = SpaceIn(slug=data.slug, name=flatten(title)[:110] + "x", description=(title * 2)[:1_000])
    space = create_space(team=team, data=data, actor="benchmarks")
    fill(space, generate_hostile(RECORDS, seed=number, until=datetime.now(UTC)))
    return space


def _assemble_once(space: Space, rng: random.Random, recount: Recount) -> str:
    request = _draw_request(space, rng)
    try:
        result = assemble_space(team_id=space.team_id, request=request, actor="benchmarks")
    except BudgetExceeded:
        return "refused"
    recount.check(result.text, budget=_budget_of(request, result), certificate=result.certificate.to_json())
    return "assembled"


def _draw_request(space: Space, rng: random.Random) -> AssemblyIn:
    def drawn(most: int) -> int | None:
        return rng.choice((None, rng.randrange(most), rng.randrange(60)))

    return AssemblyIn(
        space=space.slug,
        stage=rng.choice((2, 3, 4, 4, 4)),
        as_of=datetime.now(UTC) - timedelta(days=rng.random() * 5),
        context_tokens=drawn(LARGEST_CONTEXT),
        system_tokens=drawn(LARGEST_PROMPT),
        history_tokens=drawn(LARGEST_PROMPT),
        max_records=rng.choice((None, 1, 20, 200, "all")),
        record_order=rng.choice(("score", "stable")),
        window_days=rng.choice((7, 14, 30, "all")),
    )


def _budget_of(request: AssemblyIn, result: AssemblyResult) -> int:
    """Return the budget of the text: the requested share, or the rest of the total after the other parts."""
    default = STAGE_3_TOKENS if request.stage == 3 else CONTEXT_TOKENS
    share: int = request.overrides.get("context_tokens", default)
    parts = result.allocation
    left = parts.total - parts.system - parts.history - max(parts.response, RESPONSE_TOKENS)
    return min(share, left)
