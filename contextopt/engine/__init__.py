"""The algorithms of Contextopt. They need no Django, and use no clock and no network of their own.

>>> from datetime import UTC, datetime, timedelta
>>> from contextopt import engine
>>> tokenizer = engine.get_tokenizer("cl100k_base")
>>> now = datetime(2026, 3, 15, 12, tzinfo=UTC)
>>> def record(id, title, days_old, views):
...     date = now - timedelta(days=days_old)
...     line = engine.summary_line(title, "note", date, ["infra"], "Notes of\\nany length")
...     return engine.RecordSummary(id, date, views, line, tokenizer.count(line))
>>> space = engine.SpaceContext(
...     name="Platform team",
...     description="How we run the clusters.",
...     categories=("incidents", "decisions"),
...     records=(record(1, "Old and read often", 12, 10), record(2, "New", 1, 0), record(3, "Stale", 20, 9)),
... )
>>> assembled = engine.assemble(space, engine.ContextConfig(), now, tokenizer)
>>> print(assembled.text, end="")
Space: Platform team
How we run the clusters.
Categories: incidents, decisions
<BLANKLINE>
- [note] Old and read often (2026-03-03) #infra: Notes of any length
- [note] New (2026-03-14) #infra: Notes of any length
>>> [(entry.id, round(entry.score, 3), entry.reason) for entry in assembled.ledger]
[(1, 7.2, ''), (2, 6.767, '')]
>>> assembled.stats.outside_window, assembled.stats.tokens_used == tokenizer.count(assembled.text)
(1, True)
"""

from contextopt.engine.assembly import assemble
from contextopt.engine.briefs.claims import Claim, check_claims
from contextopt.engine.briefs.compressor import Compression, compress
from contextopt.engine.briefs.findings import Finding, parse_findings, render_finding
from contextopt.engine.briefs.settings import BriefSettings, PhaseBrief
from contextopt.engine.budget import Cut, allocate, truncate
from contextopt.engine.details import Query, RecordDetail
from contextopt.engine.ranking import filter_records, rank, score, score_float
from contextopt.engine.relevance import Match, Relevance, rate_neighbours, relevances
from contextopt.engine.rendering import fit_header, header, render, summary_line
from contextopt.engine.settings import ContextConfig
from contextopt.engine.text.tokens import HeuristicTokenizer, Tokenizer, get_tokenizer
from contextopt.engine.validation import BudgetExceeded, EngineError, InvalidValue, UnknownEncoding
from contextopt.engine.values import (
    Assembled,
    Certificate,
    ContextStats,
    DateRange,
    FilterCounts,
    LedgerEntry,
    PartSizes,
    RecordSummary,
    SpaceContext,
    TokenAllocation,
)

__all__ = [
    "Assembled",
    "BriefSettings",
    "BudgetExceeded",
    "Certificate",
    "Claim",
    "Compression",
    "ContextConfig",
    "ContextStats",
    "Cut",
    "DateRange",
    "EngineError",
    "FilterCounts",
    "Finding",
    "HeuristicTokenizer",
    "InvalidValue",
    "LedgerEntry",
    "Match",
    "PartSizes",
    "PhaseBrief",
    "Query",
    "RecordDetail",
    "RecordSummary",
    "Relevance",
    "SpaceContext",
    "TokenAllocation",
    "Tokenizer",
    "UnknownEncoding",
    "allocate",
    "assemble",
    "check_claims",
    "compress",
    "filter_records",
    "fit_header",
    "get_tokenizer",
    "header",
    "parse_findings",
    "rank",
    "rate_neighbours",
    "relevances",
    "render",
    "render_finding",
    "score",
    "score_float",
    "summary_line",
    "truncate",
]
