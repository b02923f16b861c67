"""The cost of prompts after the provider's cache, and why fewer tokens can cost more."""

from dataclasses import dataclass
from typing import NamedTuple

from contextopt.engine.wording import plural
from contextopt.sql import fetch_rows
from dashboard.kit.charts.tiles import Tile, describe_change, in_points, points, unit
from dashboard.kit.formats import money, percent, whole
from dashboard.pages.overview.figures import Figures
from dashboard.rollups.sources import FigureFilter, rollup_parameters

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
      LEFT JOIN contextopt_contextconfig c ON c.id = a.config_id
     WHERE answer.prompt_tokens IS NOT NULL
       AND a.team_id = %(team_id)s AND a.created_at >= %(start)s AND a.created_at < %(until)s
       AND (%(space_id)s::bigint IS NULL OR a.space_id = %(space_id)s)
       AND (%(stage)s::smallint IS NULL OR a.stage = %(stage)s)
       AND (%(config_version)s::integer IS NULL OR c.version = %(config_version)s)
       AND (%(kind)s::text IS NULL OR a.kind = %(kind)s)
       AND (%(phase)s::text IS NULL OR a.phase = %(phase)s)
       AND (%(model)s::text IS NULL OR a.model = %(model)s)
"""


def read_reported(wanted: FigureFilter) -> Reported:
    """Return what endpoints reported of the period's prompts, in one query."""
    (found,) = fetch_rows(Reported, _REPORTED, rollup_parameters(wanted))
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
