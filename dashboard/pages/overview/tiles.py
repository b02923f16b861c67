"""The overview's tiles: a value, its change against the period before, and one more fact."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from contextopt.assemblies.models import BASELINES, SLOW_MS, Kind
from contextopt.engine.wording import plural
from dashboard.kit.charts.tiles import (
    NO_VOTES,
    Change,
    Proportion,
    Tile,
    describe_change,
    describe_growth,
    in_points,
    points,
    unit,
)
from dashboard.kit.filters import AGENTS
from dashboard.kit.formats import (
    NONE,
    compact,
    decimals,
    fewer_words,
    kinds_of,
    milliseconds,
    money,
    percent,
    ratio,
    whole,
)
from dashboard.pages.overview.cost import MonthProjection, Saving, Side, SpaceSavings, saving_of
from dashboard.pages.overview.figures import NOTHING, Figures, Series
from dashboard.pages.overview.quality import Feedback, Quality
from dashboard.pages.overview.recall import Recall

AGENT_KINDS = frozenset(Kind.values) - {Kind.SPACE}

# Returns the URL of the period's assemblies that also pass these filters.
type Rows = Callable[[Mapping[str, str]], str]


@dataclass(frozen=True, slots=True)
class Compared:
    """A period's figures and those of the period before. Feedback is None if the team has never voted, recall
    if a stage, phase, config or model is filtered.
    """

    now: Series
    before: Series
    quality: Quality
    quality_before: Quality
    votes: Feedback | None = None
    votes_before: Feedback | None = None
    recall: tuple[Recall, Recall] | None = None


@dataclass(frozen=True, slots=True)
class Places:
    """The URLs that tiles open."""

    rows: Rows
    downvotes: str
    reviews: str
    tasks: str
    questions: str
    question_set: Callable[[int], str]
    votes: str


def quality_tiles(found: Compared, places: Places) -> list[Tile]:
    """Return the tiles of votes, verdicts, recall, empty contexts and ended tasks, as far as they apply."""
    now, before = found.quality, found.quality_before
    tiles = [
        *([_liked_tile(found.votes, found.votes_before, places.downvotes)] if found.votes else []),
        *_faults_tile(found, places.reviews),
        *([_recall_tile(*found.recall, places.questions)] if found.recall else []),
    ]
    if Kind.SPACE in found.now.kinds:
        empty = places.rows({"empty": "yes"})
        tiles.append(empty_tile(found.now.total, found.before.total, empty))
    for slug, label, ended, earlier in (
        ("completed", "Tasks completed", now.completed, before.completed),
        ("retried", "Completed after a retry", now.retried, before.retried),
    ):
        if ended.count:
            tiles.append(_ended_tile(slug, label, ended, earlier, places.tasks))
    return tiles


def saving_tiles(found: Compared, savings: SpaceSavings, places: Places) -> list[Tile]:
    """Return the tokens saved by contexts of spaces, and by those of agents.

    Spaces that took more tokens than their baseline have a tile of their own.
    """
    tiles = []
    if savings.is_mixed:
        tiles += [_side_tile(savings.gains, places), _side_tile(savings.losses, places)]
    elif Kind.SPACE in found.now.kinds:
        tiles.append(_saved_tile("saved", "Tokens saved, space contexts", found, {Kind.SPACE}, places))
    if AGENT_KINDS & found.now.kinds.keys():
        tiles.append(_saved_tile("agents", "Tokens saved, agents", found, AGENT_KINDS, places))
    return tiles


def _side_tile(side: Side, places: Places) -> Tile:
    slug, name = ("saved", "Tokens saved") if side.tokens_saved >= 0 else ("costly", "Extra tokens")
    value, magnitude = compact(abs(side.tokens_saved))
    return Tile(
        slug, f"{name}, {plural(side.spaces, 'space')}", value, magnitude, Change(),
        f"{fewer_words(side.rate)} than the last 10 records",
        link=places.rows(side_filters(side)),
    )  # fmt: skip


def side_filters(side: Side) -> dict[str, str]:
    """Return the filters that select the contexts of a side: of its only space, or else of all spaces."""
    if side.spaces == 1:
        return {"space": side.listed[0].slug, "kind": str(Kind.SPACE)}
    return {"kind": str(Kind.SPACE), **({"sort": "saved"} if side.tokens_saved >= 0 else {})}


def _saved_tile(
    slug: str, label: str, found: Compared, kinds: set[Kind] | frozenset[str], places: Places
) -> Tile:
    saving, before = saving_of(found.now, kinds), saving_of(found.before, kinds)
    value, magnitude = compact(saving.tokens_saved) if saving.tokens_before else (NONE, "")
    mine = found.now.kinds.keys() & kinds
    kind = mine.pop() if len(mine) == 1 else AGENTS
    return Tile(
        slug, label, value, magnitude,
        describe_growth(saving.tokens_saved, before.tokens_saved, "higher")
        if saving.tokens_before else Change(),
        _compared(saving, found.now.kinds.keys() & kinds),
        "target 20–30 %" if kinds == {Kind.SPACE} else "",
        places.rows({"kind": kind, "sort": "saved"}), more=_priced(saving),
    )  # fmt: skip


def _liked_tile(now: Feedback, before: Feedback | None, link: str) -> Tile:
    liked, earlier = now.total, before.total if before else NO_VOTES
    few = "" if liked.is_comparable or not liked.count else ", too few to compare"
    margin = f", ± {whole(liked.margin * 100)} pt" if liked.is_comparable else ""
    return Tile(
        "liked", "Upvoted answers", points(liked.rate), unit(liked.rate),
        describe_change(liked.rate, earlier.rate_to_compare(liked), "higher", in_points),
        f"of {plural(liked.count, 'vote')}{margin}{few}",
        link=link if liked.hits < liked.count else "", is_worse=liked.is_below(earlier),
    )  # fmt: skip


def _faults_tile(found: Compared, link: str) -> list[Tile]:
    """Return the tile of verdicts that blame the context, if there are any verdicts."""
    now, before = found.quality.faults, found.quality_before.faults
    if not now.count:
        return []
    return [
        Tile(
            "faults", "Context at fault", whole(now.hits), f"of {whole(now.count)}",
            describe_change(now.rate, before.rate_to_compare(now), "lower", in_points),
            "verdicts: missing, cut or wrong", link=link, is_worse=before.is_below(now),
        )
    ]  # fmt: skip


def _recall_tile(now: Recall, before: Recall, link: str) -> Tile:
    """Return the tile of the last evaluations. Without a question set it says how to get one."""
    if not now.questions:
        none = "no question set yet; make one from reviews"
        fact = "not evaluated under the active settings" if now.sets else none
        return Tile("recall", "Recall on question sets", NONE, "", Change(), fact, link=link)
    few = "" if now.proportion.is_comparable else ", too few to compare"
    same, then = now.among(before), before.among(now)
    return Tile(
        "recall", "Recall on question sets", points(now.recall), unit(now.recall),
        describe_change(same.recall, then.recall, "higher", in_points),
        f"of {plural(now.questions, 'question')}, last evaluation{few}",
        link=link, is_worse=now.below is not None or same.proportion.is_below(then.proportion),
        more=f"“{now.below.name}” is below its minimum" if now.below else "",
    )  # fmt: skip


def _ended_tile(slug: str, label: str, now: Proportion, before: Proportion, link: str) -> Tile:
    return Tile(
        slug, label, whole(now.hits), f"of {whole(now.count)}",
        describe_change(now.rate, before.rate_to_compare(now), "higher", in_points),
        "ended tasks of this period", link=link, is_worse=now.is_below(before),
    )  # fmt: skip


def build_tiles(series: Series, earlier: Series, rows: Rows, kind: str | None) -> list[Tile]:
    """Return the tiles of tokens, records and times. `kind` is the kind that the page is filtered by, if any.

    Time and truncation are those of one kind. Few assemblies are compared with nothing, not even a target.
    """
    tiles = _tiles(series, earlier, rows, kind)
    if series.is_young:
        return [replace(tile, target="", change=Change()) for tile in tiles]
    return tiles


def _tiles(series: Series, earlier: Series, rows: Rows, kind: str | None) -> list[Tile]:
    now, before = series.total, earlier.total
    own, own_before = series.of_kind.total, earlier.totals.get(series.kind, NOTHING)
    return [
        Tile(
            "time", "Assembly time, p95", milliseconds(own.p95_ms), "ms" if own.p95_ms is not None else "",
            describe_change(own.p95_ms, own_before.p95_ms, "lower", lambda d: f"{milliseconds(d)} ms"),
            f"p50 {milliseconds(own.p50_ms)}, p99 {milliseconds(own.p99_ms)}", f"target < {SLOW_MS} ms",
            rows({"kind": series.kind, "sort": "slowest"}), more=kinds_of(series.kind),
        ),
        Tile(
            "ratio", "Compression ratio", ratio(now.ratio), "",
            describe_change(now.ratio, before.ratio, "lower", ratio),
            f"mean; median {ratio(now.median_ratio)}", "target 0.2–0.4",
            rows({"sort": "dropped"}),
        ),
        Tile(
            "utilisation", "Budget utilisation", points(now.utilisation), unit(now.utilisation),
            describe_change(now.utilisation, before.utilisation, "none", in_points),
            f"mean; median {percent(now.median_utilisation)}", "target 80–95 %",
            rows({"kind": str(Kind.SPACE), "sort": "emptiest"}),
        ),
        Tile(
            "records", "Records per request", decimals(now.records_included, 1), "",
            describe_change(
                now.records_included, before.records_included, "none", lambda d: decimals(d, 1)
            ),
            "of space contexts", "target 10–20",
            rows({"kind": str(Kind.SPACE), "sort": "fewest"}),
        ),
        Tile(
            "truncation", "Truncation rate", points(own.truncation_rate), unit(own.truncation_rate),
            describe_change(own.truncation_rate, own_before.truncation_rate, "none", in_points),
            f"of {whole(own.assemblies)} {kinds_of(series.kind)}",
            link=rows({"kind": series.kind, "truncated": "yes", "sort": "dropped"}),
        ),
        Tile(
            "assemblies", "Assemblies", *compact(now.assemblies),
            describe_growth(now.assemblies, before.assemblies, "none"),
            "of this kind" if kind else "of all kinds", link=rows({}),
        ),
    ]  # fmt: skip


def headline_words(series: Series) -> dict[str, tuple[str, str]]:
    """Return the figure and the note of each headline chart. Time and truncation are of one kind."""
    own, kinds = series.of_kind.total, kinds_of(series.kind)
    time = NONE if own.p95_ms is None else f"{milliseconds(own.p95_ms)} ms"
    return {
        "ratio": (ratio(series.total.ratio), "mean share of records kept"),
        "time": (time, f"p95 of {kinds}"),
        "truncation": (percent(own.truncation_rate), f"share of {kinds} that dropped a record"),
    }


@dataclass(frozen=True, slots=True)
class KindRow:
    """The time and the truncation of a kind of assembly, with the URL of its slowest ones."""

    name: str
    figures: Figures
    url: str


def kind_rows(series: Series, rows: Rows) -> list[KindRow]:
    """Return a row for each kind, the most frequent first."""
    by_count = sorted(series.totals.items(), key=lambda item: -item[1].assemblies)
    return [
        KindRow(str(Kind(kind).label), figures, rows({"kind": kind, "sort": "slowest"}))
        for kind, figures in by_count
    ]


def empty_tile(now: Figures, before: Figures, link: str) -> Tile:
    value, magnitude = compact(now.empties) if now.contexts else (NONE, "")
    return Tile(
        "empty", "Empty contexts", value, magnitude,
        describe_growth(now.empties, before.empties, "lower"),
        f"{percent(now.emptiness.rate, 1)} of {plural(now.contexts, 'space context')}",
        "never counted as savings", link if now.empties else "",
        is_worse=before.emptiness.is_below(now.emptiness),
    )  # fmt: skip


def month_tile(month: MonthProjection) -> Tile:
    """Return the tile of the month's projected savings; there is nothing to compare it with yet."""
    so_far, letter = compact(month.so_far)
    worth = "" if month.dollars is None else f"priced part: about {money(month.dollars)}"
    return Tile(
        "month", "Projected this month", *compact(month.projected), Change(),
        f"tokens saved; {so_far} {letter}".rstrip() + " so far", more=worth,
    )  # fmt: skip


def _compared(saving: Saving, kinds: set[str]) -> str:
    """Describe the saving's share, and its baseline."""
    if saving.rate is None:
        return "nothing to compare with"
    names = {BASELINES[Kind(kind)] for kind in kinds}
    baseline = names.pop() if len(names) == 1 else "without Contextopt"
    words = fewer_words(saving.rate)
    return f"{words} {'as' if words.startswith('about') else 'than'} {baseline}"


def _priced(saving: Saving) -> str:
    """Say what a saving is worth, the list price if that differs, and which contexts count if not all do.

    Nothing if no price is known.
    """
    if saving.dollars is None or saving.dollars_listed is None:
        return ""
    listed = money(abs(saving.dollars_listed))
    differs = listed != money(abs(saving.dollars))
    is_partial = saving.priced < saving.assemblies
    part = f", for {whole(saving.priced)} of {plural(saving.assemblies, 'context')}" if is_partial else ""
    much = f"about {money(abs(saving.dollars))}"
    worth = f"worth {much} after" if saving.dollars >= 0 else f"cost {much} more after"
    return f"{worth} the cache" + (f", {listed} at list price" if differs else "") + part
