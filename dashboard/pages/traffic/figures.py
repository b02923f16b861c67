"""The tiles and tables of the page Traffic. Each figure leads to the prompts behind it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from contextopt.engine.wording import plural
from contextopt.gateway.models import Mode, Outcome, Reason
from contextopt.spaces.models import Space
from dashboard.kit.charts.tiles import Change, Tile, describe_change, describe_growth, in_points, points, unit
from dashboard.kit.formats import compact, cost_words, milliseconds, money, percent, tenths, whole
from dashboard.kit.periods import Bucket
from dashboard.pages.traffic.filters import ABSENT, FAILED, TrafficForm
from dashboard.rollups.traffic import Groups, Traffic, TrafficFilter

P50, P95 = 0.5, 0.95
# The targets for the time that the gateway adds, by mode.
AUDIT_MS, INSERT_MS = 15, 40


@dataclass(frozen=True, slots=True)
class Links:
    """Builds the URL of a list of prompts with the page's filters and some more."""

    kept: Mapping[str, object]
    start: str
    end: str

    @classmethod
    def of(cls, form: TrafficForm, wanted: TrafficFilter) -> "Links":
        return cls(form.kept, wanted.period.start.isoformat(), wanted.period.until.isoformat())

    def to(self, **more: object) -> str:
        asked = {**self.kept, "start": self.start, "end": self.end, **more}
        given = {name: value for name, value in asked.items() if value not in (None, "")}
        return f"{reverse('dashboard:traffic_prompts')}?{urlencode(given)}"

    def bucket(self, bucket: Bucket) -> str:
        return self.to(start=bucket.start.isoformat(), end=bucket.end.isoformat())


@dataclass(frozen=True, slots=True)
class GroupRow:
    """The figures of a model, a key or a space. Its numbers link to the prompts behind them."""

    name: str
    url: str
    traffic: Traffic
    cached_url: str
    failed_url: str
    abandoned_url: str
    without_url: str
    about: str = ""

    @property
    def cached(self) -> str:
        return cached_words(self.traffic)

    @property
    def cost(self) -> str:
        return money(self.traffic.dollars)

    @property
    def added(self) -> str:
        halfway, slow = self.traffic.added_ms(P50), self.traffic.added_ms(P95)
        return f"{milliseconds(halfway)} / {milliseconds(slow)}"


@dataclass(frozen=True, slots=True)
class ReasonRow:
    words: str
    traffic: Traffic
    share: float
    url: str


def cached_words(traffic: Traffic) -> str:
    """Return the cached share of the prompts whose provider reported it, in words."""
    return "not reported" if traffic.cached_share is None else percent(traffic.cached_share)


def build_tiles(now: Traffic, before: Traffic, links: Links) -> list[Tile]:
    return [
        Tile(
            "prompts", "Prompts", *compact(now.requests),
            describe_growth(now.requests, before.requests, "none"),
            f"{whole(now.failed)} failed, {whole(now.abandoned)} abandoned", link=links.to(),
        ),
        Tile(
            "tokens", "Input tokens", *compact(now.input_tokens),
            describe_growth(now.input_tokens, before.input_tokens, "none"),
            f"{whole(now.output_tokens)} output; reported for {whole(now.with_usage)}", link=links.to(),
        ),
        Tile(
            "cached", "From the provider's cache", points(now.cached_share), unit(now.cached_share),
            describe_change(now.cached_share, before.cached_share, "higher", in_points), _cached_fact(now),
            link=links.to(cached="reported"),
        ),
        Tile(
            "cost", "Input cost", money(now.dollars), "", _cost_change(now, before), _cost_fact(now),
            link=links.to(),
        ),
        Tile(
            "added", "Time added, p95", milliseconds(now.added_ms(P95)), "ms" if now.requests else "",
            describe_change(now.added_ms(P95), before.added_ms(P95), "lower", lambda ms: f"{tenths(ms)} ms"),
            f"p50 {milliseconds(now.added_ms(P50))} ms", f"target < {AUDIT_MS} audit, < {INSERT_MS} insert",
            link=links.to(),
        ),
        Tile(
            "without", "Without context", *compact(now.without),
            describe_growth(now.without, before.without, "lower"),
            f"{percent(now.without / now.requests if now.requests else None)} of prompts",
            link=links.to(context="without"),
        ),
    ]  # fmt: skip


def _cached_fact(now: Traffic) -> str:
    if not now.with_cached:
        return "no provider reported it"
    return f"reported for {whole(now.with_cached)} of {whole(now.requests)}"


def _cost_change(now: Traffic, before: Traffic) -> Change:
    if now.dollars is None or not before.dollars:
        return Change()
    return describe_change(now.dollars / before.dollars - 1, 0.0, "none", percent)


def _cost_fact(now: Traffic) -> str:
    if not now.priced:
        return "no price is known for these models"
    return f"of {plural(now.priced, 'prompt')} with a known price"


@dataclass(frozen=True, slots=True)
class Effect:
    """The contexts that were inserted, or that audit mode would have inserted."""

    title: str
    words: str
    url: str


def describe_effects(groups: Groups, links: Links) -> list[Effect]:
    """Say what insertion did, and what it would have done to audited prompts."""
    modes = dict(groups.by["mode"])
    return [
        effect
        for mode, title, verb in (
            (Mode.INSERT, "Inserted", "received"),
            (Mode.AUDIT, "If inserted", "would have received"),
        )
        if (effect := _effect(mode, title, verb, modes.get(mode), links))
    ]


def _effect(mode: Mode, title: str, verb: str, found: Traffic | None, links: Links) -> Effect | None:
    if found is None:
        return None
    count = found.inserted if mode == Mode.INSERT else found.requests - found.without
    if not count:
        return None
    each = found.context_tokens / count
    prompts = "prompt" if count == 1 else "prompts"
    saved = f"{cost_words(found.saved_tokens)} than" if found.saved_tokens else "as many tokens as"
    words = (
        f"{whole(count)} {prompts} {verb} a context, {whole(each)} tokens on average. "
        f"In total, contexts whose savings count have {saved} the last 10 records."
    )
    context = "inserted" if mode == Mode.INSERT else ""
    return Effect(title, words, links.to(mode=mode.value, context=context))


def build_groups(
    groups: Groups, links: Links, spaces: Mapping[int, Space], keys: Mapping[int, str]
) -> list[dict[str, Any]]:
    """Return the tables by model, key and space."""

    def rows(
        field: str, found: list[tuple[Any, Traffic]], show: Callable[[Any], tuple[str, str, str]]
    ) -> list[GroupRow]:
        return [_row(links, field, traffic, *show(value)) for value, traffic in found]

    def show_space(pk: int | None) -> tuple[str, str, str]:
        space = spaces.get(pk or 0)
        if space is None:
            return ABSENT, "No space", ""
        return space.slug, space.name, reverse("dashboard:traffic_policy", args=[space.slug])

    return [
        {
            "slug": "models",
            "title": "By model",
            "rows": rows("model", groups.by["model"], lambda name: (name or ABSENT, name or "No model", "")),
        },
        {
            "slug": "keys",
            "title": "By key",
            "rows": rows(
                "key", _merge_deleted(groups.by["key_id"], keys),
                lambda pk: (str(pk), keys[pk], "") if pk in keys else (ABSENT, "A deleted key", ""),
            ),
        },
        {"slug": "spaces", "title": "By space", "rows": rows("space", groups.by["space_id"], show_space)},
    ]  # fmt: skip


def _merge_deleted(found: list[tuple[Any, Traffic]], keys: Mapping[int, str]) -> list[tuple[Any, Traffic]]:
    """Put the prompts of all deleted keys into one group."""
    rows = [(pk, traffic) for pk, traffic in found if pk in keys]
    deleted = [traffic for pk, traffic in found if pk not in keys]
    if deleted:
        rows.append((None, sum(deleted, Traffic())))
    return sorted(rows, key=lambda row: -row[1].requests)


def _row(links: Links, field: str, traffic: Traffic, value: str, name: str, about: str) -> GroupRow:
    return GroupRow(
        name=name,
        url=links.to(**{field: value}),
        traffic=traffic,
        cached_url=links.to(**{field: value}, cached="reported"),
        failed_url=links.to(**{field: value}, outcome=FAILED),
        abandoned_url=links.to(**{field: value}, outcome=Outcome.ABANDONED),
        without_url=links.to(**{field: value}, context="without"),
        about=about,
    )


def build_reasons(groups: Groups, links: Links) -> list[ReasonRow]:
    """Return why prompts went on without a context, the most frequent reason first."""
    labels = dict(Reason.choices)
    return [
        ReasonRow(
            str(labels.get(reason, reason)), traffic, traffic.requests / groups.total.requests,
            links.to(reason=reason),
        )
        for reason, traffic in groups.by["reason"]
        if reason
    ]  # fmt: skip
