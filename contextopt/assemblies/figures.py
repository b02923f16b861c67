"""The table of figures: all that is measured for an assembly, each declared once.

From it come the columns that the log writes, the rows of the API, of exports and of the admin, the columns
of rollups and how they add up. A stored figure also needs a column in `Assembly`, and a migration.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from types import NoneType
from typing import Any, get_args

from django.db.models import Case, F, FloatField, OrderBy, When
from django.db.models.functions import Cast, NullIf

from contextopt.assemblies.models import COUNTS_SQL, EMPTY_SQL, UNDELIVERED_SQL, Kind
from contextopt.assemblies.results import AssemblyResult
from contextopt.engine.assembly import NOT_LOADED
from contextopt.engine.budget import LOW_RELEVANCE, OVER_BUDGET, OVER_RECORD_LIMIT
from contextopt.engine.details import DUPLICATE_OF


class Adds(Enum):
    """How a column of rollups adds up assemblies. A figure that is missing adds nothing."""

    SUM = "sum"
    COUNT = "count"


class Format(Enum):
    """How a figure is written for people."""

    WHOLE = "whole"
    SIGNED = "signed"
    RATIO = "ratio"
    PERCENT = "percent"
    MILLISECONDS = "milliseconds"
    YES_NO = "yes or no"


@dataclass(frozen=True, slots=True)
class Total:
    """A column of rollups."""

    column: str
    adds: Adds = Adds.SUM


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets of a figure's histogram: `edges` ascend, and the lowest possible value is 0.

    `name` is the beginning of its columns. Edges never change without a rebuild of the rollups.
    """

    name: str
    edges: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A value of each assembly. Its type includes None if some assemblies lack it.

    `help` describes it in the API, and `missing` adds when it is null there; a glossary may have other words.
    `measure` takes a stored figure from a result. Without it, the log itself knows the figure. `sql` is the
    value in SQL on log rows `a`, by default the column of this name. `totals` add it up over the rows for
    which `counted` holds, and `buckets` over all rows. `label` and `format` are for people, who read some
    figures as part of another, `out_of`.
    """

    name: str
    type: Any
    help: str = ""
    missing: str = ""
    measure: Callable[[AssemblyResult], object] | None = None
    is_stored: bool = True
    in_api: bool = True
    in_csv: bool = True
    in_admin: bool = False
    label: str = ""
    format: Format = Format.WHOLE
    out_of: str = ""
    sql: str = ""
    totals: tuple[Total, ...] = ()
    counted: str = ""
    buckets: Buckets | None = None

    @property
    def known_type(self) -> Any:
        """The type of a value that is not missing."""
        kinds = get_args(self.type)
        return kinds[0] if NoneType in kinds else self.type

    @property
    def value_sql(self) -> str:
        return self.sql or f"a.{self.name}"

    def describe(self, *, is_known: bool = False) -> str:
        """Return its description for the API, without when it is null if it is always known there."""
        return f"{self.help}{'' if is_known else self.missing}." if self.help else ""

    def total_sql(self, adds: Adds) -> str:
        """Return the aggregate over rows `a`. Its type is that of rollups: pages read both together, and
        converting takes a quarter of the query's time.
        """
        value = self.value_sql
        if adds is Adds.COUNT:
            known = value if self.known_type is bool else f"{value} IS NOT NULL"
            condition = f"{known} AND {self.counted}" if self.counted else known
            return f"(count(*) FILTER (WHERE {condition}))::integer"
        counted = f" FILTER (WHERE {self.counted})" if self.counted else ""
        return f"coalesce(sum({value}){counted}, 0)::{'float8' if self.known_type is float else 'bigint'}"


def _derived(name: str, kind: Any, help: str = "", missing: str = "", **more: Any) -> Figure:
    """Return a figure that is worked out from stored ones whenever it is read."""
    return Figure(name, kind, help, missing, is_stored=False, **more)


def _octaves(first: float, octaves: int, steps: int, digits: int = 6) -> tuple[float, ...]:
    """Return edges from `first`, each 2^(1/steps) times the previous one."""
    return tuple(round(first * 2 ** (n / steps), digits) for n in range(octaves * steps + 1))


def _dropped(*reasons: str) -> Callable[[AssemblyResult], int]:
    return lambda result: sum(result.outcome.stats.dropped_by_reason.get(reason, 0) for reason in reasons)


_SENT = "a.is_sent"
_SAVED = "a.tokens_before::bigint - a.tokens_after"
# Tokens at most, times this, are those that a model without a tokenizer of its own is billed for on average.
MEAN_SHARE_SQL = "coalesce(a.factor_mean / a.factor, 1)"
_MEAN_SAVED = f"round(({_SAVED}) * {MEAN_SHARE_SQL})::bigint"
# An empty prompt has no shares.
_SAVED_SHARE = f"({_SAVED})::float8 / nullif(a.prompt_tokens, 0) * {MEAN_SHARE_SQL}"


def _mean_sql(column: str) -> str:
    """Return the tokens of a column on average, for amounts of money."""
    return f"round(a.{column} * {MEAN_SHARE_SQL})::bigint"


_OWN = "null if the model has a tokenizer of its own"
_OUTSIDE = "null outside of a conversation"

OUTCOME = (
    Figure(
        "truncated", bool, "Whether something was dropped or cut for the budget or the record limit",
        measure=lambda result: result.outcome.stats.truncated, totals=(Total("truncated", Adds.COUNT),),
        label="Truncated", format=Format.YES_NO, in_admin=True,
    ),
    Figure(
        "is_sent", bool,
        "False for a context that the gateway would have inserted into a prompt it only audited, for a "
        "hand-off that no phase received, and for a context of a hook whose delivery was not confirmed",
    ),
    Figure("awaits_delivery", bool, in_api=False, in_csv=False),
    _derived(
        "not_delivered", bool, "Whether a hook asked for it and has not confirmed that it arrived",
        sql=UNDELIVERED_SQL,
    ),
    _derived(
        "empty", bool, sql=EMPTY_SQL, totals=(Total("empties", Adds.COUNT),), in_api=False,
    ),
    Figure(
        "warning_codes", list[str], in_api=False,
        measure=lambda result: [warning.code for warning in result.warnings],
    ),
)  # fmt: skip
RECORDS = (
    Figure(
        "records_filtered", int, "Number of candidates after filtering",
        measure=lambda result: result.outcome.stats.records_filtered, totals=(Total("records_filtered"),),
    ),
    Figure(
        "records_included", int, "Number of records in the context",
        measure=lambda result: result.outcome.stats.records_included, totals=(Total("records_included"),),
        label="Records included", out_of="records_filtered",
    ),
    _derived("records_dropped", int, "Number of candidates left out", in_csv=False),
    Figure(
        "over_record_limit", int, measure=_dropped(OVER_RECORD_LIMIT, NOT_LOADED), in_api=False
    ),
    Figure("over_budget", int, measure=_dropped(OVER_BUDGET), in_api=False),
    Figure("low_relevance", int, measure=_dropped(LOW_RELEVANCE), in_api=False),
    Figure("duplicates", int, measure=_dropped(DUPLICATE_OF), in_api=False),
    Figure("outside_window", int, measure=lambda result: result.outcome.stats.outside_window, in_api=False),
    Figure("deleted", int, measure=lambda result: result.outcome.stats.deleted, in_api=False),
    # 15 records of a million to all of them, each bucket 15 % wide: large spaces have tiny ratios.
    _derived(
        "compression_ratio", float | None, "Records included divided by records filtered",
        "; null if none were filtered", sql="a.records_included::float8 / nullif(a.records_filtered, 0)",
        totals=(Total("ratios"), Total("with_ratio", Adds.COUNT)),
        buckets=Buckets("ratio", _octaves(2**-16, 16, 5, digits=12)),
        label="Compression ratio", format=Format.RATIO, in_csv=False, in_admin=True,
    ),
)  # fmt: skip
TOKENS = (
    Figure(
        "tokens_before", int | None, "Tokens that would have been sent otherwise",
        ", null if there is nothing to compare with",
        measure=lambda result: result.outcome.stats.stage3_tokens,
        totals=(Total("tokens_before"),), counted=COUNTS_SQL,
    ),
    # 32 to 131,072 tokens, each bucket 19 % wide.
    Figure(
        "tokens_after", int, "Tokens that were sent or handed on",
        measure=lambda result: result.outcome.stats.tokens_used,
        totals=(Total("tokens_after"),), counted=_SENT, buckets=Buckets("tokens", _octaves(32, 12, 4)),
        label="Tokens used", out_of="tokens_available",
    ),
    Figure(
        "tokens_available", int, "Token budget of the context",
        measure=lambda result: result.outcome.stats.tokens_available,
    ),
    Figure("total_tokens", int, measure=lambda result: result.outcome.allocation.total, in_api=False),
    Figure("system_tokens", int, measure=lambda result: result.outcome.allocation.system, in_api=False),
    Figure("history_tokens", int, measure=lambda result: result.outcome.allocation.history, in_api=False),
    Figure("response_tokens", int, measure=lambda result: result.outcome.allocation.response, in_api=False),
    _derived(
        "tokens_saved", int | None, "Tokens saved compared with the baseline: negative if it was smaller",
        ", null if not counted", sql=_SAVED, totals=(Total("tokens_saved"),), counted=COUNTS_SQL,
        label="Tokens saved", format=Format.SIGNED, in_admin=True,
    ),
    _derived("not_counted", str, "Why the saving does not count, empty if it does", in_csv=False),
)  # fmt: skip
SIZES = (
    Figure(
        "prompt_tokens", int | None,
        "Tokens of the prompt as far as the request tells them: system, history, context and question",
        f"; {_OUTSIDE}",
        sql=_mean_sql("prompt_tokens"), counted=_SENT,
        totals=(Total("prompts", Adds.COUNT), Total("prompt_tokens")),
    ),
    Figure(
        "shared_prefix_tokens", int | None,
        "Tokens of the prompt's beginning that the conversation's last prompt had too",
        sql=_mean_sql("shared_prefix_tokens"), totals=(Total("shared_tokens"),), counted=_SENT,
        label="Shared with the last prompt",
    ),
    Figure(
        "cached_tokens", int | None,
        "Tokens of the prompt that the provider's cache should hold, by the model's prices", f"; {_OUTSIDE}",
        sql=_mean_sql("cached_tokens"), totals=(Total("cached_tokens"),), counted=_SENT,
    ),
    Figure(
        "cacheable_tokens", int | None,
        "Tokens of the prompt that enter the provider's cache; 0 if the prompt is shorter than the model's "
        "minimum",
        f", {_OUTSIDE}",
        sql=_mean_sql("cacheable_tokens"), totals=(Total("cacheable_tokens"),), counted=_SENT,
    ),
)  # fmt: skip
"""The sizes of a prompt in a conversation, which `PromptSizes` measures."""
PROMPT = (
    Figure("placement", str),
    Figure(
        "carried_tokens", int, measure=lambda result: result.placed.sight.tokens,
        totals=(Total("carried_tokens"),), counted=_SENT,
    ),
    *SIZES,
)  # fmt: skip
TIME = (
    # Other kinds have no budget, or one of their own.
    _derived(
        "utilisation", float | None, "Tokens used divided by tokens available", ", null without a budget",
        sql="CASE WHEN a.kind = 'space' AND a.tokens_available > 0 "
        "THEN a.tokens_after::float8 / a.tokens_available END",
        totals=(Total("utilisations"), Total("with_utilisation", Adds.COUNT)),
        buckets=Buckets("utilisation", tuple(n / 20 for n in range(1, 21))),
        label="Budget utilisation", format=Format.PERCENT, in_csv=False, in_admin=True,
    ),
    # Half a millisecond to eight seconds, each bucket 12 % wide.
    Figure(
        "assembly_ms", float, "Time to build the context, in milliseconds",
        measure=lambda result: result.assembly_ms, buckets=Buckets("ms", _octaves(0.5, 14, 6)),
        label="Assembly time (ms)", format=Format.MILLISECONDS, in_admin=True,
    ),
)  # fmt: skip
PROOF = (
    Figure("encoding", str, measure=lambda result: result.certificate.encoding),
    Figure("tokenizer_version", str, measure=lambda result: result.certificate.tokenizer_version),
    Figure("sha256", str, measure=lambda result: result.certificate.sha256),
    Figure(
        "counted_tokens", int | None, "Tokens of the text in the encoding", f", {_OWN}",
        measure=lambda result: None if result.certificate.factor is None else result.certificate.tokens,
    ),
    Figure(
        "factor", float | None, "Tokens of the model at most, per token of the encoding", f", {_OWN}",
        measure=lambda result: result.certificate.factor,
    ),
    Figure(
        "factor_mean", float | None, "The same on average, for amounts of money", f", {_OWN}",
        measure=lambda result: result.certificate.factor_mean,
    ),
    Figure(
        "factor_source", str, "`learned` from the team's prompts, or `shipped`; empty without a factor",
        measure=lambda result: result.certificate.factor_source or "",
    ),
    Figure(
        "factor_prompts", int | None, "Prompts that the factor was learned from", "; null if it was not",
        measure=lambda result: result.certificate.factor_prompts,
    ),
    _derived(
        "tokens_at_most", int, "Tokens of its own text that the model is billed for at most",
        sql="a.tokens_after - a.carried_tokens", in_csv=False,
    ),
)  # fmt: skip
# These only add up. The saving of each prompt is as cached and as cacheable as the prompt itself.
SUMMED = tuple(
    _derived(name, kind, sql=sql, totals=(Total(name, adds),), counted=counted, in_api=False, in_csv=False)
    for name, kind, adds, sql, counted in (
        ("assemblies", bool, Adds.COUNT, "true", ""),
        ("saved_in_prompts", int, Adds.SUM, _MEAN_SAVED, f"{COUNTS_SQL} AND a.prompt_tokens > 0"),
        ("saved_cached", float, Adds.SUM, f"{_SAVED_SHARE} * a.cached_tokens", COUNTS_SQL),
        ("saved_cacheable", float, Adds.SUM, f"{_SAVED_SHARE} * a.cacheable_tokens", COUNTS_SQL),
    )
)
FIGURES = (*OUTCOME, *RECORDS, *TOKENS, *PROMPT, *TIME, *PROOF, *SUMMED)
BY_NAME = {figure.name: figure for figure in FIGURES}
STORED = tuple(figure for figure in FIGURES if figure.is_stored)
IN_API = tuple(figure for figure in FIGURES if figure.in_api)
IN_CSV = tuple(figure for figure in (*RECORDS, *PROMPT, *TOKENS, *OUTCOME, *TIME, *PROOF) if figure.in_csv)
"""The order of columns that readers of exports know."""


@dataclass(frozen=True, slots=True)
class Sort:
    """An order of the list of assemblies, by a figure. The log's rows have `saved` annotated."""

    slug: str
    label: str
    order: OrderBy


_INCLUDED = Case(When(kind=Kind.SPACE, then=F("records_included")))
_USED = Cast("tokens_after", FloatField()) / NullIf(F("tokens_available"), 0)
SORTS = (
    Sort("saved", "Most tokens saved first", F("saved").desc(nulls_last=True)),
    Sort("slowest", "Slowest first", F("assembly_ms").desc()),
    Sort("dropped", "Most records dropped first", (F("records_filtered") - F("records_included")).desc()),
    Sort("emptiest", "Lowest budget utilisation first", _USED.asc(nulls_last=True)),
    Sort("fewest", "Fewest records first", _INCLUDED.asc(nulls_last=True)),
)
