"""Points out unusual figures, the rows behind them, and possible causes.

The figures show what happened but not why, so causes are only suggested. A card's advice depends on the
others: no setting is to be changed in two directions, and none that bounds nothing is to be eased.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from contextopt.assemblies.models import SLOW_MS, Kind
from contextopt.engine.settings import ADAPTIVE, SCORED_STAGE, SEARCH_STAGE
from contextopt.engine.wording import plural
from contextopt.spaces.configs import parse_settings
from contextopt.sql import fetch_all
from dashboard.kit.formats import kinds_of, milliseconds, percent, whole
from dashboard.pages.overview.figures import NOTHING, Figures, Series, StageFigures
from dashboard.pages.overview.tiles import Rows
from dashboard.rollups.histograms import EXACT_BELOW
from dashboard.rollups.queries import FigureFilter


@dataclass(frozen=True, slots=True)
class SpaceFacts:
    """Facts about the records of some spaces, and about their settings.

    Settings for questions stand apart, since contexts without a question use the others. A window or limit
    is bounded if a space has one: without it, all records are considered.
    """

    records: int = 0
    is_viewed: bool = False
    has_ages: bool = False
    weighs_views: bool = True
    is_adaptive: bool = False
    has_window: bool = True
    has_limit: bool = True
    has_question_window: bool = False
    has_question_limit: bool = False


SPACES_READ = 20

# Both sides of each comparison are the ends of an index, so no space is scanned. The ORM takes 1.4 ms longer,
# a twentieth of the page.
_FACTS = """
    SELECT coalesce(records, 0), viewed, newest - oldest > interval '1 day', c.settings
    FROM (
        SELECT s.id,
               (SELECT n.live + n.pinned FROM contextopt_spacecounts n WHERE n.space_id = s.id) AS records,
               EXISTS (
                   SELECT 1 FROM contextopt_record r
                   WHERE r.space_id = s.id AND r.deleted_at IS NULL AND NOT r.pinned AND r.frequency > 0
               ) AS viewed,
               (SELECT max(r.date) FROM contextopt_record r
                WHERE r.space_id = s.id AND r.deleted_at IS NULL) AS newest,
               (SELECT min(r.date) FROM contextopt_record r
                WHERE r.space_id = s.id AND r.deleted_at IS NULL) AS oldest
        FROM contextopt_space s
        WHERE s.team_id = %(team)s AND (%(space)s::bigint IS NULL OR s.id = %(space)s)
        ORDER BY s.id LIMIT %(limit)s
    ) AS spaces
    LEFT JOIN contextopt_contextconfig c
      ON c.space_id = spaces.id AND CASE WHEN %(version)s::integer IS NULL THEN c.is_active
                                         ELSE c.version = %(version)s END
    WHERE newest IS NOT NULL
"""


def read_space_facts(wanted: FigureFilter) -> SpaceFacts:
    """Return the facts about the first spaces, in one query."""
    values = {
        "team": wanted.team_id, "space": wanted.space_id, "version": wanted.config_version,
        "limit": SPACES_READ,
    }  # fmt: skip
    rows = fetch_all(_FACTS, values)
    configs = [parse_settings(stored) for _, _, _, stored in rows if stored is not None]
    return SpaceFacts(
        records=sum(records for records, _, _, _ in rows),
        is_viewed=any(viewed for _, viewed, _, _ in rows),
        has_ages=any(has_ages for _, _, has_ages, _ in rows),
        weighs_views=not configs or any(config.frequency_weight > 0 for config in configs),
        is_adaptive=any(ADAPTIVE in {config.budget_mode, config.record_budget} for config in configs),
        has_window=any(config.window_days is not None for config in configs),
        has_limit=any(config.max_records is not None for config in configs),
        has_question_window=any(config.question_window_days is not None for config in configs),
        has_question_limit=any(config.question_max_records is not None for config in configs),
    )


LOW_UTILISATION = 0.5
MOST_REQUESTS = 0.5

type Setting = Literal["window", "limit", "budget"]
type Direction = Literal["more", "less"]
type Advice = tuple[Setting, Direction]

ADVICE: Mapping[Advice, str] = {
    ("window", "more"): "widen the date window",
    ("window", "less"): "narrow the date window",
    ("limit", "more"): "raise the record limit",
    ("limit", "less"): "lower the record limit",
    ("budget", "more"): "raise the context budget",
    ("budget", "less"): "lower the context budget",
}


@dataclass(frozen=True, slots=True)
class Observation:
    """Something worth a look. `slug` names it in tests and links; `rows` are the filters that select it, and
    `advice` the settings that the remedy names.
    """

    slug: str
    title: str
    seen: str
    causes: tuple[str, ...]
    remedy: str
    rows: Mapping[str, str] | None = None
    advice: tuple[Advice, ...] = ()


@dataclass(frozen=True, slots=True)
class _Contexts:
    """Everything that stands out about the contexts of spaces, and whether a setting bounds their records."""

    figures: Figures
    costly: StageFigures | None
    is_half_empty: bool
    is_truncated: bool
    has_window: bool
    has_limit: bool

    @classmethod
    def of(cls, series: Series, facts: SpaceFacts) -> "_Contexts":
        figures = series.totals.get(Kind.SPACE, NOTHING)
        is_enough = figures.contexts >= EXACT_BELOW
        by_stage = {row.stage: row for row in series.stages}
        scored, search = by_stage.get(SCORED_STAGE), by_stage.get(SEARCH_STAGE)
        asks = (search.assemblies if search else 0) > (scored.assemblies if scored else 0)
        # A question's context may cost more: it pays for the answer.
        costs = scored is not None and scored.assemblies >= EXACT_BELOW and scored.tokens_saved < 0
        used = figures.utilisation
        # Adaptive budgets leave out what helps little on purpose.
        is_low = used is not None and used < LOW_UTILISATION and not facts.is_adaptive
        return cls(
            figures,
            scored if costs else None,
            is_enough and is_low,
            is_enough and (figures.truncation_rate or 0.0) > MOST_REQUESTS,
            facts.has_question_window if asks else facts.has_window,
            facts.has_question_limit if asks else facts.has_limit,
        )


def point_out(found: list[Observation], rows: Rows) -> list[tuple[Observation, str]]:
    """Return each observation with the URL of the rows behind it, empty if there are none."""
    return [(each, "" if each.rows is None else rows(each.rows)) for each in found]


def observe(series: Series, facts: SpaceFacts) -> list[Observation]:
    """Return the unusual findings, most urgent first. Fewer than 20 assemblies raise no alarm."""
    if series.total.assemblies < EXACT_BELOW:
        return []
    contexts = _Contexts.of(series, facts)
    found = [
        *(_slow(kind, figures, series.stages) for kind, figures in series.totals.items()),
        _costly(contexts),
        _half_empty(contexts),
        _truncated(contexts),
        _flat(facts),
    ]
    return [observation for observation in found if observation]


# Causes of slow assemblies by kind: of a few of them, and of most.
_BUSY = "other work on the machine, such as an import"
_SLOW: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    Kind.SPACE: (
        (_BUSY, "one very large space or text"),
        ("a database low on memory or connections", "very large spaces or texts"),
    ),
    Kind.AGENT: (
        ("the embedding model, which each process loads before its first agent context",
         "memories that are embedded first", _BUSY),
        ("large repositories or long documents", "a slow embedding endpoint"),
    ),
    Kind.PHASE: ((_BUSY, "a few very long contexts"), ("long full contexts", _BUSY)),
    Kind.RETRY: ((_BUSY, "a few very large files or logs"), ("large files or long logs", _BUSY)),
    Kind.HANDOFF: ((_BUSY, "a few very long findings"), ("many or long findings", _BUSY)),
    Kind.HINT: (
        ("the embedding model, which each process loads before its first hint", _BUSY),
        ("a slow embedding endpoint", _BUSY),
    ),
}  # fmt: skip


def _slow(kind: str, figures: Figures, stages: Sequence[StageFigures]) -> Observation | None:
    p50, p95 = figures.p50_ms, figures.p95_ms
    if p50 is None or p95 is None or p95 <= SLOW_MS or figures.assemblies < EXACT_BELOW:
        return None
    few, most = _SLOW[kind]
    causes = most if p50 > SLOW_MS else few
    if kind == Kind.SPACE and any(row.stage == SEARCH_STAGE for row in stages):
        model = "the embedding model, which each process loads before its first question"
        causes = (*causes, "a slow embedding endpoint" if p50 > SLOW_MS else model)
    return Observation(
        f"slow-{kind}",
        f"Assembly time p95 of {kinds_of(kind)} is {milliseconds(p95)} ms",
        f"Half of {whole(figures.assemblies)} {kinds_of(kind)} took up to {milliseconds(p50)} ms, 5 % took "
        f"over {milliseconds(p95)} ms. The target is {SLOW_MS} ms.",
        causes,
        "Check whether the slow ones share a space or an hour.",
        {"slow": "yes", "kind": kind},
    )


def _advised(advice: Sequence[Advice], condition: str = "", otherwise: str = "") -> str:
    """Return a sentence that names the settings to change."""
    if not advice:
        return otherwise
    words = " or ".join(ADVICE[each] for each in advice)
    return f"{words[0].upper()}{words[1:]}{condition}."


def _costly(contexts: _Contexts) -> Observation | None:
    costly = contexts.costly
    if costly is None:
        return None
    # A budget that is half empty shortens nothing when it shrinks a little.
    advice: tuple[Advice, ...] = (("limit", "less"),)
    if not contexts.is_half_empty:
        advice += (("budget", "less"),)
    return Observation(
        "costly",
        f"Stage {costly.stage} costs {whole(-costly.tokens_saved)} tokens more than the last 10 records",
        f"{whole(costly.assemblies)} contexts took {whole(costly.tokens_before - costly.tokens_saved)} "
        f"tokens; the last 10 records would have taken {whole(costly.tokens_before)}.",
        ("a record limit above 10", "longer records than the last 10"),
        _advised(advice, " if answers stay good with less"),
        {"stage": str(costly.stage)},
        advice,
    )


def _half_empty(contexts: _Contexts) -> Observation | None:
    if not contexts.is_half_empty:
        return None
    figures, advice, causes = contexts.figures, list[Advice](), list[str]()
    included = figures.records_included
    records = "an unknown number of records" if included is None else f"{included:.1f} records"
    if contexts.is_truncated and contexts.has_limit:
        causes.append("a record limit that is reached long before the budget")
        if not contexts.costly:
            advice.append(("limit", "more"))
    elif not contexts.is_truncated:
        causes.append("few records in the date window" if contexts.has_window else "few records")
        if contexts.has_window and not contexts.costly:
            advice.append(("window", "more"))
    if contexts.costly or not contexts.is_truncated:
        advice.append(("budget", "less"))
    return Observation(
        "half-empty",
        f"Only {percent(figures.utilisation)} of the context budget is used",
        f"This is the mean of {plural(figures.contexts, 'context')}, with {records} on average.",
        (*causes, "a budget larger than the contexts need"),
        _advised(advice, otherwise="No change is needed if answers are good."),
        {"kind": "space"},
        tuple(advice),
    )


def _truncated(contexts: _Contexts) -> Observation | None:
    if not contexts.is_truncated:
        return None
    figures, advice = contexts.figures, list[Advice]()
    is_limited = contexts.is_half_empty and contexts.has_limit
    if is_limited and not contexts.costly:
        advice.append(("limit", "more"))
    elif not contexts.is_half_empty:
        advice.append(("window", "less"))
        if not contexts.costly:
            advice.append(("budget", "more"))
    limit = ("more records in the date window than the record limit allows",) if contexts.has_limit else ()
    small = () if contexts.is_half_empty else ("a budget too small for the records",)
    long = ("a description of the space that is too long for its share",) if not (limit or small) else ()
    return Observation(
        "truncated",
        f"{percent(figures.truncation_rate)} of space contexts dropped a record",
        f"{whole(round((figures.truncation_rate or 0.0) * figures.assemblies))} of "
        f"{whole(figures.assemblies)} left out something that passed the filters. In a large space this is "
        "normal.",
        (*limit, *small, *long),
        f"Check a few of them. {_advised(advice, ' if a needed record was dropped')}".rstrip(),
        {"truncated": "yes", "kind": str(Kind.SPACE)},
        tuple(advice),
    )


def _flat(facts: SpaceFacts) -> Observation | None:
    if not facts.records or facts.is_viewed or not facts.weighs_views:
        return None
    if facts.has_ages:
        return Observation(
            "unviewed",
            "No record has been viewed",
            f"The frequency part of every score is 0 for {plural(facts.records, 'record')}, so without a "
            "question, they are ranked by age alone.",
            ("records that are imported and assembled but never opened", "an import without view counts"),
            "Open records here or through the API to count views, or set the frequency weight to 0.",
        )
    return Observation(
        "flat",
        "All records score about the same",
        f"None of {plural(facts.records, 'record')} has been viewed, and all dates lie within one day.",
        ("an import that dated every record on the day of the import",),
        "Import records with their own dates, and open records in the dashboard or through the API.",
    )
