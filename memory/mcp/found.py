"""The tool `search`: hits or dropped records as blocks of quoted text, as many as fit."""

from collections.abc import Iterator
from datetime import datetime

from django.utils import timezone

from contextopt.engine.text.cleaning import flatten_to
from contextopt.engine.text.tokens import DEFAULT_ENCODING, get_tokenizer
from contextopt.engine.wording import plural
from contextopt.errors import InvalidInput
from contextopt.lookups import find_one
from contextopt.models import Record
from memory.mcp.answers import QUOTED, fit_blocks, quote
from memory.mcp.callers import Caller
from memory.search.inputs import SearchIn
from memory.search.search import ResultOut, find

TITLE_CHARS = 200
CONTENT_CHARS = 800
TEXT_CHARS = 20_000


def find_hits(caller: Caller, query: str, space: str, *, limit: int, max_tokens: int) -> str:
    """Return the hits of a search, best first.

    Raises:
        NotFound: the team has no such space.
        InvalidInput: there is no query.
        NotAllowed: a key that is limited to spaces names none.
    """
    if not query.strip():
        raise InvalidInput.of("query", "is missing")
    request = SearchIn(query=query, space=space or None, limit=limit)
    if caller.limited_to is not None:
        if not space:
            caller.check_team()
        caller.check_space(space)
        request = request.for_records()
    found = find(team=caller.team, request=request, now=timezone.now())
    note = ". The embedding model is unavailable, so results match by words only." if found.degraded else "."
    return _fit(map(_describe_hit, found.results), len(found.results), "hit", note, max_tokens)


def find_dropped(caller: Caller, assembly_id: int, *, limit: int, max_tokens: int) -> str:
    """Return the best records that a logged context dropped, with the reason.

    Raises:
        NotFound: the team has no such context.
    """
    rows = caller.contexts().select_related("payload").filter(pk=assembly_id)
    assembly = find_one(rows, f"context {assembly_id}")
    reasons = {entry["id"]: entry["reason"] for entry in assembly.payload.entries if not entry["kept"]}
    records = Record.objects.live().filter(space__team_id=caller.team.pk).in_bulk(list(reasons))
    kept = [(records[record_id], reason) for record_id, reason in reasons.items() if record_id in records]
    blocks = (_describe_dropped(record, reason) for record, reason in kept[:limit])
    note = f", best first; {assembly.records_dropped:,} were dropped in all."
    return _fit(blocks, min(limit, len(kept)), "dropped record", note, max_tokens)


def _fit(blocks: Iterator[str], count: int, thing: str, note: str, max_tokens: int) -> str:
    def head(shown: int) -> str:
        left = count - shown
        more = f" {left} more {'does' if left == 1 else 'do'} not fit." if left else ""
        return f"{plural(shown, thing)}{note}{more} {QUOTED if shown else ''}".rstrip()

    return fit_blocks(head, blocks, max_tokens, get_tokenizer(DEFAULT_ENCODING))


def _describe_hit(hit: ResultOut) -> str:
    similarity = "" if hit["similarity"] is None else f", similarity {hit['similarity']:.2f}"
    place = f"{hit['kind']} {hit['id']}, {_day(hit['date'] or hit['created_at'])}{similarity}"
    trust = ", from outside the team" if hit["trust_level"] == "external" else ""
    return _block(f"{place}{trust}", hit["title"], hit["content"])


def _describe_dropped(record: Record, reason: str) -> str:
    words = reason.replace("_", " ")
    return _block(f"record {record.pk}, {_day(record.date)}, dropped: {words}", record.title, record.notes)


def _block(line: str, title: str, content: str) -> str:
    shown = flatten_to(content[:TEXT_CHARS], CONTENT_CHARS)
    return "\n".join([line, quote(flatten_to(title, TITLE_CHARS)), *([quote(shown)] if shown else [])])


def _day(moment: datetime) -> str:
    return moment.date().isoformat()
