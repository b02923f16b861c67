"""The algorithms of Contextopt. They need no Django, and use no clock and no network of their own.

>>> from datetime import UTC, datetime, timedelta
>>> from contextopt.engine.assembly import assemble
>>> from contextopt.engine.rendering import summary_line
>>> from contextopt.engine.settings import ContextConfig
>>> from contextopt.engine.text.tokens import get_tokenizer
>>> from contextopt.engine.values import RecordSummary, SpaceContext
>>> tokenizer = get_tokenizer("cl100k_base")
>>> now = datetime(2026, 3, 15, 12, tzinfo=UTC)
>>> def record(id, title, days_old, views):
...     date = now - timedelta(days=days_old)
...     line = summary_line(title, "note", date, ["infra"], "Notes of\\nany length")
...     return RecordSummary(id, date, views, line, tokenizer.count(line))
>>> space = SpaceContext(
...     name="Platform team",
...     description="How we run the clusters.",
...     categories=("incidents", "decisions"),
...     records=(record(1, "Old and read often", 12, 10), record(2, "New", 1, 0), record(3, "Stale", 20, 9)),
... )
>>> assembled = assemble(space, ContextConfig(), now, tokenizer)
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
