"""The overview's first card: was it enough, what did it cost, how fast was it, a sentence each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contextopt.assemblies.models import BASELINES, LAST_RECORDS, SLOW_MS, Kind
from contextopt.engine.settings import SEARCH_STAGE
from contextopt.engine.wording import plural
from dashboard.kit.charts.tiles import NO_VOTES, Proportion
from dashboard.kit.filters import AGENTS
from dashboard.kit.formats import compact, fewer_words, kinds_of, milliseconds, money, percent, whole
from dashboard.pages.overview.cost import Side, SpaceSavings, saving_of
from dashboard.pages.overview.falls import Fall, say_when
from dashboard.pages.overview.figures import Figures, Series
from dashboard.pages.overview.recall import Recall
from dashboard.pages.overview.tiles import AGENT_KINDS, Compared, Places, side_filters
from dashboard.rollups.queries import LogRow

# A young period's slowest context is named if it took this many times as long as the next one.
OUTLIER = 3.0


@dataclass(frozen=True, slots=True)
class Fact:
    """A line below an answer, with the figure that it rests on; `figure` opens its rows at `url`."""

    before: str
    figure: str = ""
    after: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    slug: str
    question: str
    sentence: str
    facts: tuple[Fact, ...]
    has_fallen: bool = False


def build_answers(
    found: Compared, falls: Sequence[Fall], savings: SpaceSavings, places: Places
) -> tuple[Answer, ...]:
    """Return the three answers. Only the first can be about a fall: more cost or time is no lower quality."""
    return (
        Answer(
            "enough", "Was it enough?", falls[0].sentence if falls else _say_enough(found),
            tuple(_enough_facts(found, places)), has_fallen=bool(falls),
        ),
        Answer(
            "cost", "What did it cost?", _say_cost(found.now, savings),
            tuple(_cost_facts(found.now, savings, places)),
        ),
        Answer("speed", "How fast was it?", _say_speed(found.now), tuple(_speed_facts(found.now, places))),
    )  # fmt: skip


def _say_enough(found: Compared) -> str:
    recall, votes = _recall_of(found), _votes_of(found)
    said = []
    if recall.recall is not None:
        said.append(f"{percent(recall.recall)} of the expected records were sent")
    if votes.is_comparable:
        said.append(f"{percent(votes.rate)} of votes are upvotes")
    elif votes.count:
        said.append(f"{votes.hits} of {plural(votes.count, 'vote is an upvote', 'votes are upvotes')}")
    if said:
        # A yes needs a minimum that was reached.
        is_yes = any(each.minimum is not None for each in recall.evaluated)
        return f"{'Yes: ' if is_yes else ''}{', and '.join(said)}."
    return f"Nobody has judged yet. {_say_filled(found.now)}".rstrip()


def _say_filled(series: Series) -> str:
    """Say how many contexts of spaces had records; nothing if there are none."""
    contexts, filled = series.total.contexts, series.total.contexts - series.total.empties
    if not contexts:
        return ""
    if filled == contexts:
        return (
            "The context held records." if contexts == 1 else f"All {whole(contexts)} contexts held records."
        )
    return f"{whole(filled)} of {plural(contexts, 'context')} held records."


def _recall_of(found: Compared) -> Recall:
    return found.recall[0] if found.recall else Recall()


def _votes_of(found: Compared) -> Proportion:
    return found.votes.total if found.votes else NO_VOTES


def _enough_facts(found: Compared, places: Places) -> list[Fact]:
    """Return up to four facts. The answer itself says what fell below a minimum."""
    facts = [*_recall_fact(found, places), _votes_fact(found, places)]
    faults, total = found.quality.faults, found.now.total
    if faults.count:
        counted = f"{whole(faults.hits)} of {plural(faults.count, 'verdict')}"
        facts.append(
            Fact(
                "",
                counted,
                " blame the context" if faults.hits != 1 else " blames the context",
                places.reviews,
            )
        )
    if total.contexts:
        of = f" of {plural(total.contexts, 'space context')} {'was' if total.empties == 1 else 'were'} empty"
        facts.append(
            Fact("", whole(total.empties), of, places.rows({"empty": "yes"}))
            if total.empties
            else Fact(f"None of {plural(total.contexts, 'space context')} was empty")
        )
    ended = found.quality.completed
    if ended.count and len(facts) < 4:
        counted = f"{whole(ended.hits)} of {whole(ended.count)}"
        facts.append(Fact("", counted, " ended tasks were completed", places.tasks))
    return facts


def _recall_fact(found: Compared, places: Places) -> list[Fact]:
    if found.recall is None:
        return []
    recall, before = found.recall
    if not recall.evaluated:
        if recall.sets:
            return [
                Fact(
                    "",
                    plural(recall.sets, "question set"),
                    " not evaluated under the active settings",
                    places.questions,
                )
            ]
        return [Fact("", "Write five questions with known answers", "", places.questions)]
    when = say_when(max(each.at for each in recall.evaluated), found.now.period)
    least = {each.minimum for each in recall.evaluated if each.minimum is not None}
    minimum = f"; minimum {percent(min(least))}" if len(least) == 1 and recall.below is None else ""
    same, then = recall.among(before), before.among(recall)
    was = f"; it was {percent(then.recall)}" if same.proportion.is_below(then.proportion) else ""
    counted = plural(recall.questions, "question")
    return [Fact("Recall on ", counted, f", {when}{minimum}{was}", places.questions)]


def _votes_fact(found: Compared, places: Places) -> Fact:
    votes = _votes_of(found)
    if not votes.count:
        return Fact("", "Vote on the latest answers", "", places.rows({}))
    before = found.votes_before.total if found.votes_before else NO_VOTES
    if not votes.is_comparable:
        compared = ", too few to compare"
    elif not before.is_comparable:
        compared = "; too few before to compare"
    elif votes.is_below(before):
        compared = f", {percent(votes.rate)} upvotes; it was {percent(before.rate)}"
    elif before.is_below(votes):
        compared = f"; more upvotes than before, when it was {percent(before.rate)}"
    else:
        compared = ", no change beyond chance"
    return Fact("", plural(votes.count, "vote"), compared, places.votes)


def _say_cost(series: Series, savings: SpaceSavings) -> str:
    total = series.total
    if total.priced and total.dollars is not None:
        each = f"{money(total.dollars / total.priced)} a prompt"
    else:
        each = f"{whole(total.tokens_after / total.assemblies)} tokens a context"
    if series.is_young or savings.is_mixed:
        return f"{each}."
    side = savings.gains if savings.gains.listed else savings.losses
    if side.listed:
        return f"{each}, with {_than(side.rate, LAST_RECORDS)}."
    agents = saving_of(series, AGENT_KINDS)
    kinds = series.kinds.keys() & AGENT_KINDS
    if agents.rate is not None and len(kinds) == 1:
        return f"{each}, with {_than(agents.rate, BASELINES[Kind(min(kinds))])}."
    return f"{each}."


def _than(rate: float, baseline: str) -> str:
    words = fewer_words(rate)
    if words.startswith("about"):
        return f"about as many tokens as {baseline}"
    return f"{words} tokens than {baseline}"


def _cost_facts(series: Series, savings: SpaceSavings, places: Places) -> list[Fact]:
    total = series.total
    sent = f"{' '.join(compact(total.tokens_after)).rstrip()} tokens"
    contexts = plural(total.assemblies, "context")
    if total.priced and total.dollars is not None:
        part = f" in all after the cache, for {plural(total.priced, 'context')} with a price"
        facts = [Fact("", money(total.dollars), part, places.rows({}))]
    else:
        facts = [
            Fact("", sent, f" in all, in {contexts}", places.rows({})),
            *([Fact("", "No price is known", " for these prompts", "#more-money")] if total.contexts else []),
        ]
    if series.is_young:
        return facts
    if savings.is_mixed:
        facts += [_side_fact(savings.gains, places), _side_fact(savings.losses, places)]
    return [*facts, *_agent_facts(series, places)]


def _side_fact(side: Side, places: Places) -> Fact:
    name = side.listed[0].name if side.spaces == 1 else plural(side.spaces, "space")
    return Fact("", name, f" took {fewer_words(side.rate)} tokens", places.rows(side_filters(side)))


def _agent_facts(series: Series, places: Places) -> list[Fact]:
    """Return what agents took fewer, and what they took more, each over its own kinds."""
    facts = []
    by_kind = {kind: saving_of(series, {kind}) for kind in series.kinds.keys() & AGENT_KINDS}
    for word, sign in (("fewer", 1), ("more", -1)):
        side = {kind: each for kind, each in by_kind.items() if each.tokens_saved * sign > 0}
        if not side:
            continue
        saved = sum(abs(each.tokens_saved) for each in side.values())
        before = sum(each.tokens_before for each in side.values())
        amount = percent(saved / before) if before else " ".join(compact(saved)).rstrip()
        kind = min(side) if len(side) == 1 else AGENTS
        name = kinds_of(kind).capitalize() if len(side) == 1 else "Agents"
        if len(side) < len(by_kind) and len(side) > 1:
            name = f"Agents, in {len(side)} kinds,"
        facts.append(Fact("", name, f" took {amount} {word} tokens", places.rows({"kind": kind})))
    return facts


def _say_speed(series: Series) -> str:
    own, kinds = series.of_kind.total, kinds_of(series.kind)
    if series.is_young:
        return _say_few_times([row for row in series.log if row.kind == series.kind], kinds)
    if own.p95_ms is None:
        return "No time was measured."
    words = f"95 of 100 {kinds} {{}} {milliseconds(own.p95_ms)} ms"
    if own.p95_ms > SLOW_MS:
        return f"Slow: {words.format('took up to')}; the target is {SLOW_MS} ms."
    return f"Fast: {words.format('were ready in')}." if own.assemblies else ""


def _say_few_times(rows: Sequence[LogRow], kinds: str) -> str:
    times = sorted(row.ms for row in rows)
    if len(times) == 1:
        return f"The only {kinds.removesuffix('s')} was ready in {milliseconds(times[0])} ms."
    if outlier_of(rows):
        return f"{len(times) - 1} of {len(times)} {kinds} were ready in {milliseconds(times[-2])} ms."
    return (
        f"All {len(times)} {kinds} were ready in {milliseconds(times[-1])} ms."
        if times
        else "No time was measured."
    )


def outlier_of(rows: Sequence[LogRow]) -> LogRow | None:
    """Return the slowest assembly if it took much longer than the next one."""
    times = sorted(rows, key=lambda row: row.ms)
    is_far = len(times) > 1 and times[-1].ms > OUTLIER * times[-2].ms
    return times[-1] if is_far else None


def _speed_facts(series: Series, places: Places) -> list[Fact]:
    own = series.of_kind.total
    rows = places.rows({"kind": series.kind, "sort": "slowest"})
    return [
        *(_few_facts(series, rows) if series.is_young else _target_facts(own, series.kind, rows)),
        *_other_kinds(series),
    ]


def _target_facts(own: Figures, kind: str, rows: str) -> list[Fact]:
    if own.p95_ms is None:
        return []
    counted = plural(own.assemblies, kinds_of(kind).removesuffix("s"), kinds_of(kind))
    near = "well below" if own.p95_ms < SLOW_MS / 2 else "below"
    return [Fact("Measured on ", counted, f"; {near} the target" if own.p95_ms <= SLOW_MS else "", rows)]


def _few_facts(series: Series, rows: str) -> list[Fact]:
    own = sorted((row for row in series.log if row.kind == series.kind), key=lambda row: row.created_at)
    slowest = outlier_of(own)
    facts = []
    if slowest is not None:
        which = "The first" if slowest is own[0] else "The slowest"
        loads = slowest.stage == SEARCH_STAGE or slowest.kind in {Kind.AGENT, Kind.HINT}
        why = ": the first search of a process loads the model" if loads else ""
        facts.append(Fact(f"{which} took ", f"{milliseconds(slowest.ms)} ms", why, rows))
    return [*facts, Fact("Targets are checked from 20 assemblies on")]


def _other_kinds(series: Series) -> list[Fact]:
    """Name the kinds whose time stands apart."""
    others: Mapping[str, Figures] = {
        kind: figures for kind, figures in series.totals.items() if kind != series.kind
    }
    if not others:
        return []
    if len(others) == 1:
        kind, figures = next(iter(others.items()))
        time = "" if figures.p95_ms is None else f": p95 {milliseconds(figures.p95_ms)} ms"
        return [Fact("", kinds_of(kind).capitalize(), f" have a time of their own{time}", "#more-time")]
    return [Fact("", f"{len(others)} other kinds", " have a time of their own", "#more-time")]
