"""The cost of prompts after the provider's cache, why fewer tokens can cost more, and savings by space."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from contextopt.assemblies.models import Kind
from contextopt.engine.wording import plural
from contextopt.sql import fetch_all, fetch_rows
from dashboard.kit.charts.tiles import Tile, describe_change, in_points, points, unit
from dashboard.kit.formats import money, percent, whole
from dashboard.kit.periods import custom_period
from dashboard.pages.overview.figures import Figures, Series
from dashboard.rollups.queries import (
    PRICE_JOIN,
    SAVED_DOLLARS,
    FigureFilter,
    detailed_rows,
    read_prices,
    rollup_parameters,
    rollup_rows,
)

# A smaller share is not worth a sentence.
NOTABLE = 0.005


class Reported(NamedTuple):
    """The cached tokens that endpoints reported with the chat's answers. An absent report does not count."""

    answers: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0

    @property
    def rate(self) -> float | None:
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else None


# The index of answers with a report has the time of the answer, which follows its context.
_REPORTED = """
    SELECT count(*) AS answers, coalesce(sum(answer.prompt_tokens), 0)::bigint AS prompt_tokens,
           coalesce(sum(answer.cached_tokens), 0)::bigint AS cached_tokens
      FROM (SELECT asked.assembly_id, answer.prompt_tokens, answer.cached_tokens
              FROM contextopt_message answer JOIN contextopt_message asked ON asked.id = answer.reply_to_id
             WHERE answer.cached_tokens IS NOT NULL AND answer.created_at >= %(start)s
             UNION ALL
            SELECT assembly_id, input_tokens, cached_tokens FROM contextopt_gatewayrequest
             WHERE team_id = %(team_id)s AND created_at >= %(start)s AND is_inserted
               AND cached_tokens IS NOT NULL) answer
      JOIN contextopt_assembly a ON a.id = answer.assembly_id
     WHERE answer.prompt_tokens IS NOT NULL
       AND a.team_id = %(team_id)s AND a.created_at >= %(start)s AND a.created_at < %(until)s
       {narrowed}
"""


def read_reported(wanted: FigureFilter) -> Reported:
    """Return what endpoints reported of the period's prompts, in one query."""
    query = _REPORTED.format(narrowed=wanted.where("a."))
    (found,) = fetch_rows(Reported, query, rollup_parameters(wanted))
    return found


@dataclass(frozen=True, slots=True)
class CostCard:
    """The cost of a period's prompts. `missing` says for which contexts it is not known, and `reasons` why
    fewer tokens can cost more.
    """

    tiles: tuple[Tile, ...]
    missing: str
    reasons: tuple[str, ...]


def build_cost(now: Figures, before: Figures, reported: Reported, link: str) -> CostCard:
    tiles = (
        Tile(
            "cost", "Input cost after the cache", money(now.dollars), "",
            describe_change(_each(now), _each(before), "lower", money),
            f"{money(_each(now))} a prompt" if now.priced else "no price is known", link=link,
        ),
        Tile(
            "shared", "Shared prefix", points(now.shared_rate), unit(now.shared_rate),
            describe_change(now.shared_rate, before.shared_rate, "higher", in_points),
            f"of {whole(now.prompt_tokens / now.prompts)} tokens a prompt"
            if now.prompts else "no conversation is known", link=link,
        ),
        Tile(
            "cached", "Cached tokens", points(now.cached_rate), unit(now.cached_rate),
            describe_change(now.cached_rate, before.cached_rate, "higher", in_points),
            f"{percent(reported.rate)} reported for {plural(reported.answers, 'answer')}"
            if reported.answers else "expected; no endpoint reported any", link=link,
        ),
    )  # fmt: skip
    return CostCard(tiles if now.prompts else (), _missing(now), _reasons(now))


def _each(figures: Figures) -> float | None:
    return figures.dollars / figures.priced if figures.dollars is not None and figures.priced else None


def _missing(now: Figures) -> str:
    """Say how many contexts have a price, and what the others lack."""
    lacks = [
        (now.contexts - now.prompts, "names no conversation, so its cache is unknown",
         "name no conversation, so their cache is unknown"),
        (now.prompts - now.priced, "has a model without a price, or no model",
         "have a model without a price, or no model"),
    ]  # fmt: skip
    told = [plural(count, one, many) for count, one, many in lacks if count]
    counted = f"{whole(now.priced)} of {plural(now.contexts, 'context has', 'contexts have')} a price"
    return f"{counted}{': ' if told else ''}{'; '.join(told)}."


def _reasons(now: Figures) -> tuple[str, ...]:
    """Explain in a few sentences, with the period's own figures, why fewer tokens can cost more."""
    first = (
        "Providers charge less for the beginning that a prompt shares with the conversation's previous one. "
        "If the context before a conversation changes, everything after it is charged in full."
    )
    if now.dollars is None or not now.dollars_anew:
        return first, _without_prices(now), "Until then, savings in dollars are unknown."
    cheaper = 1 - now.dollars / now.dollars_anew
    if abs(cheaper) < NOTABLE:
        second = f"These prompts cost {money(now.dollars)}, as much as without a cache."
        return first, second, "Nothing is read from the cache so far, so fewer tokens cost less."
    second = (
        f"{percent(now.cached_rate)} of the tokens come from the cache, so these prompts cost "
        f"{money(now.dollars)} instead of {money(now.dollars_anew)}."
    )
    third = (
        f"A change that breaks the cache must shorten prompts by {percent(cheaper)} to break even. "
        "If it shortens them by less, it costs more despite fewer tokens."
    )
    return first, second, third


def _without_prices(now: Figures) -> str:
    if not now.prompts:
        return "Name the conversation in your requests to see how much of your prompts repeats."
    share = percent(now.shared_rate)
    return f"{share} of each prompt repeats the previous one. Set prices to see the saving in dollars."


@dataclass(frozen=True, slots=True)
class Saving:
    """The saving of some kinds of assemblies together. That of the `priced` ones is worth about `dollars`
    after the provider's cache, and `dollars_listed` at list price.
    """

    tokens_before: int = 0
    tokens_saved: int = 0
    assemblies: int = 0
    priced: int = 0
    dollars: float | None = None
    dollars_listed: float | None = None

    @property
    def rate(self) -> float | None:
        """Tokens saved as a share of the baseline's; negative if it cost more."""
        return self.tokens_saved / self.tokens_before if self.tokens_before else None


def saving_of(series: Series, kinds: Collection[str]) -> Saving:
    """Return the saving of the period's assemblies of these kinds."""
    points = [point for kind in series.kinds.keys() & kinds for point in series.kinds[kind]]
    return Saving(
        sum(point.tokens_before for point in points),
        sum(point.tokens_saved for point in points),
        sum(point.assemblies for point in points),
        sum(point.priced for point in points),
        _sum_known(point.saved_dollars for point in points),
        _sum_known(point.saved_dollars_listed for point in points),
    )


def _sum_known(values: Iterable[float | None]) -> float | None:
    """Return the sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


# Spaces that are listed on each side, those with the largest difference first.
SPACES_LISTED = 5


class SpaceSaving(NamedTuple):
    """A space's contexts, and the tokens by which those with a baseline differ from it.

    `spaces` and the sums `side_saved` and `side_before` are those of all spaces on its side.
    """

    name: str
    slug: str
    contexts: int
    tokens_before: int
    tokens_saved: int
    spaces: int
    side_before: int
    side_saved: int

    @property
    def rate(self) -> float:
        """Tokens saved as a share of the baseline's; negative if it took more."""
        return self.tokens_saved / self.tokens_before


@dataclass(frozen=True, slots=True)
class Side:
    """All spaces that took fewer tokens than their baseline, or all that took more."""

    listed: tuple[SpaceSaving, ...] = ()

    @property
    def spaces(self) -> int:
        return self.listed[0].spaces if self.listed else 0

    @property
    def tokens_saved(self) -> int:
        return self.listed[0].side_saved if self.listed else 0

    @property
    def rate(self) -> float:
        """Tokens saved as a share of the baselines'; 0 without any."""
        return self.tokens_saved / self.listed[0].side_before if self.listed else 0.0


@dataclass(frozen=True, slots=True)
class SpaceSavings:
    """The spaces that gained and those that lost. Their sums are never added up: one would hide the other."""

    gains: Side = Side()
    losses: Side = Side()

    @property
    def is_mixed(self) -> bool:
        return bool(self.gains.listed and self.losses.listed)

    @property
    def listed(self) -> Sequence[SpaceSaving]:
        return (*self.gains.listed, *self.losses.listed)


# Summaries have no spaces, so this reads day rollups, which have one row a day for each combination.
_SAVINGS = """
    WITH by_space AS (
        SELECT space_id, sum(assemblies)::bigint AS contexts, sum(tokens_before)::bigint AS tokens_before,
               sum(tokens_saved)::bigint AS tokens_saved
          FROM ({rows}) AS rollups WHERE kind = %(space_kind)s AND space_id IS NOT NULL
         GROUP BY 1 HAVING sum(tokens_before) > 0
    ), sides AS (
        SELECT *, count(*) OVER side AS spaces, sum(tokens_before) OVER side AS side_before,
               sum(tokens_saved) OVER side AS side_saved,
               row_number() OVER (PARTITION BY tokens_saved < 0
                                  ORDER BY abs(tokens_saved) DESC, space_id) AS place
          FROM by_space WINDOW side AS (PARTITION BY tokens_saved < 0)
    )
    SELECT s.name, s.slug, contexts, tokens_before, tokens_saved, spaces, side_before::bigint,
           side_saved::bigint
      FROM sides JOIN contextopt_space s ON s.id = space_id
     WHERE place <= %(listed)s ORDER BY place
"""
_COLUMNS = "space_id, kind, assemblies, tokens_before, tokens_saved"


def read_space_savings(wanted: FigureFilter) -> SpaceSavings:
    """Return the spaces' savings in one query, without spaces that have nothing to compare with."""
    query = _SAVINGS.format(rows=detailed_rows(wanted, _COLUMNS))
    values = {**rollup_parameters(wanted), "space_kind": str(Kind.SPACE), "listed": SPACES_LISTED}
    rows = fetch_rows(SpaceSaving, query, values)
    gains = tuple(row for row in rows if row.tokens_saved >= 0)
    return SpaceSavings(Side(gains), Side(tuple(row for row in rows if row.tokens_saved < 0)))


RATE_DAYS = 7


@dataclass(frozen=True, slots=True)
class MonthProjection:
    """The tokens that the month saved so far, and at its end at the pace of the last full days.

    The saving will then be worth about `dollars` after the provider's cache; None if no price is known.
    """

    so_far: int
    projected: int
    dollars: float | None


class _Known(NamedTuple):
    """The tokens saved in the month and in the last full days, what they are worth, and the first known day
    with assemblies.
    """

    month: int
    week: int
    month_dollars: float | None
    week_dollars: float | None
    first: datetime | None


_MONTH = f"""
    SELECT coalesce(sum(tokens_saved) FILTER (WHERE start >= %(month)s), 0)::bigint,
           coalesce(sum(tokens_saved) FILTER (WHERE start >= %(week)s AND start < %(today)s), 0)::bigint,
           sum({SAVED_DOLLARS}) FILTER (WHERE prompts > 0 AND start >= %(month)s),
           sum({SAVED_DOLLARS})
               FILTER (WHERE prompts > 0 AND start >= %(week)s AND start < %(today)s),
           min(start)
      FROM ({{rows}}) AS rollups {PRICE_JOIN}
"""


def project_month(series: Series, wanted: FigureFilter, now: datetime) -> MonthProjection:
    """Project the month that contains `now`, in the team's time zone, in two queries.

    Without any, if the page's own days reach back far enough.
    """
    today = now.astimezone(wanted.period.zone).replace(hour=0, minute=0, second=0, microsecond=0)
    month, week = today.replace(day=1), today - timedelta(days=RATE_DAYS)
    next_month = (month + timedelta(days=32)).replace(day=1)
    period = series.period
    # Only what began within the last full days has fewer of them.
    since = min(month, week - timedelta(days=RATE_DAYS))
    is_covered = period.step == "day" and period.start <= since and now < period.edges[-1]
    known = (
        _known_sums(series, month, week, today) if is_covered else _read_sums(wanted, since, month, week, now)
    )
    known_days = (today.date() - known.first.astimezone(period.zone).date()).days if known.first else 0
    measured = min(known_days, RATE_DAYS)
    days_left = (next_month.date() - today.date()).days - (now - today) / timedelta(days=1)
    share = days_left / measured if measured > 0 else 0.0
    dollars = None
    if known.month_dollars is not None or known.week_dollars is not None:
        dollars = (known.month_dollars or 0.0) + (known.week_dollars or 0.0) * share
    return MonthProjection(known.month, round(known.month + known.week * share), dollars)


def _known_sums(series: Series, month: datetime, week: datetime, today: datetime) -> _Known:
    days = [(bucket.start, figures) for bucket, figures in series.rows if figures.assemblies]
    of_month = [figures for start, figures in days if month <= start]
    of_week = [figures for start, figures in days if week <= start < today]
    return _Known(
        sum(figures.tokens_saved for figures in of_month),
        sum(figures.tokens_saved for figures in of_week),
        _sum_known(figures.saved_dollars for figures in of_month),
        _sum_known(figures.saved_dollars for figures in of_week),
        days[0][0] if days else None,
    )


def _read_sums(
    wanted: FigureFilter, since: datetime, month: datetime, week: datetime, now: datetime
) -> _Known:
    today = week + timedelta(days=RATE_DAYS)
    period = custom_period(since.date(), today.date(), now, wanted.period.zone)
    asked = wanted.over(period)
    prices = read_prices(asked).parameters()
    values = {**rollup_parameters(asked), **prices, "month": month, "week": week, "today": today}
    [found] = fetch_all(_MONTH.format(rows=rollup_rows(asked)), values)
    return _Known(*found)
