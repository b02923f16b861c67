"""Build one context: filter, score, allocate, truncate, render, count."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import tee

from contextopt.engine.budget import (
    LEAN_SHARE,
    LOW_RELEVANCE,
    OVER_BUDGET,
    Cut,
    Dropped,
    allocate,
    cut_by_content,
    cut_by_worth,
    pack,
    truncate,
)
from contextopt.engine.details import (
    DUPLICATE_OF,
    Query,
    Selection,
    record_limits,
    select,
    shared_day,
)
from contextopt.engine.placement.blocks import NOTHING, Sight, digest
from contextopt.engine.ranking import (
    NOT_RELEVANT,
    SCORE_SCALE,
    Scored,
    filter_records,
    parts_of,
    precedence,
    rank,
    rank_by_query,
)
from contextopt.engine.rendering import FittedHeader, add_day, fit_header, join_lines, order_records
from contextopt.engine.settings import (
    ADAPTIVE,
    HEADER_STAGE,
    LAST_RECORDS_STAGE,
    SCORED_STAGE,
    SEARCH_STAGE,
    ContextConfig,
)
from contextopt.engine.text.tokens import Tokenizer
from contextopt.engine.validation import BudgetExceeded, utc
from contextopt.engine.values import (
    WHOLE_SHARES,
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
    check_distinct,
)

STAGE_3_RECORDS = 10
LEDGER_DROPPED = 100
"""Maximum number of dropped records named in the ledger."""
IN_SIGHT = "in_sight"
"""Reason for kept records that are not in the text, because an earlier block shows them."""
NOT_LOADED = "not_loaded"
"""Reason for candidates that were counted but not loaded, although all loaded ones fit."""


@dataclass(frozen=True, slots=True)
class _Request:
    """The inputs of one assembly. `query` is None unless the stage ranks by it."""

    space: SpaceContext
    config: ContextConfig
    now: datetime
    tokenizer: Tokenizer
    query: Query | None
    sight: Sight
    is_adaptive: bool


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Records in rank order, their total number, the record limit of the stage, and the day that the header
    shows instead of their lines.
    """

    ranked: list[Scored]
    counts: FilterCounts
    max_records: int | None
    day: date | None = None

    @property
    def unseen(self) -> int:
        """Return the candidates that were counted but not loaded."""
        return self.counts.filtered - len(self.ranked)


@dataclass(frozen=True, slots=True)
class _Room:
    """The header, the tokens for the whole text, and those for the records below the header."""

    header: FittedHeader
    budget_tokens: int
    record_tokens: int

    @classmethod
    def below(cls, header: FittedHeader, budget_tokens: int, tokenizer: Tokenizer) -> "_Room":
        """Count the header with the blank line after it. A cut header leaves no room for records."""
        left = 0 if header.is_cut else budget_tokens - tokenizer.count(header.text + "\n")
        return cls(header, budget_tokens, left)

    def lean_tokens(self, stage3: "_Baseline") -> int:
        """Return the tokens of records with which the context stays well below the last 10 records."""
        if stage3.tokens is None:
            return self.record_tokens
        return int(LEAN_SHARE * stage3.tokens) - (self.budget_tokens - self.record_tokens)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The records that fit, rendered and counted, and near-duplicates of higher-ranked records.

    An earlier block shows kept records that are not in `order`.
    """

    cut: Cut
    selection: Selection
    order: tuple[int, ...]
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class _Baseline:
    """The context of stage 3. `tokens` is None if stage 3 could not be assembled."""

    text: str | None = None
    tokens: int | None = None
    order: tuple[int, ...] = ()


def assemble(
    space: SpaceContext,
    config: ContextConfig,
    now: datetime,
    tokenizer: Tokenizer,
    *,
    sizes: PartSizes = WHOLE_SHARES,
    counts: FilterCounts | None = None,
    baseline: tuple[RecordSummary, ...] | None = None,
    query: Query | None = None,
    sight: Sight = NOTHING,
) -> Assembled:
    """Build the context, with its ledger and certificate.

    Without `counts`, `space.records` are all the space's records. With `counts`, they are the best of a
    larger set that a database filtered and counted; they are filtered again, and the counts cover the rest.
    `baseline` holds the space's last records by date, for the comparison with stage 3; without it, they are
    taken from `space.records`. Stage 5 ranks by `query`; without one it equals stage 4. The text leaves out
    what is in `sight`. Its tokens are added to the budget, and count as used.

    Raises:
        BudgetExceeded: system and history leave the response less than its reservation.
        InvalidValue: a naive `now`, a negative size, or a duplicate record.
    """
    if baseline is not None:
        check_distinct("baseline", baseline)
    if query is None:
        config = config.without_question()
    asked = query if config.stage == SEARCH_STAGE else None
    mode = config.budget_mode if asked else config.record_budget
    is_adaptive = config.stage >= SCORED_STAGE and mode == ADAPTIVE
    request = _Request(space, config, utc("now", now), tokenizer, asked, sight, is_adaptive)
    allocation = allocate(config, sizes, carried_tokens=sight.tokens)
    budget_tokens = allocation.context - sight.tokens
    header = fit_header(space, budget_tokens, tokenizer)
    candidates = _candidates(request, counts)
    opening = add_day(header, candidates.day, budget_tokens, tokenizer) if candidates.day else header
    room = _Room.below(opening, budget_tokens, tokenizer)
    stage3 = _baseline(request, space.records if baseline is None else baseline, header, sizes)
    selections, same_selections = tee(_selections(request, candidates, room))
    chosen = _choose(request, candidates, selections, room, stage3)
    fixed = None
    if is_adaptive:
        plain = replace(request, is_adaptive=False)
        fixed = _choose(plain, candidates, same_selections, room, stage3)
    return Assembled(
        text=chosen.text,
        allocation=allocation,
        stats=_stats(candidates, chosen, opening, allocation, stage3, sight),
        certificate=Certificate.of(chosen.text, chosen.tokens, tokenizer, sight.tokens),
        ledger=_ledger(chosen, request),
        order=chosen.order,
        baseline_text=stage3.text,
        baseline_order=stage3.order,
        fixed_tokens=fixed.tokens + sight.tokens if fixed else None,
        day=candidates.day,
        wants_more_candidates=_wants_more(candidates, chosen, query),
    )


def _candidates(request: _Request, counts: FilterCounts | None) -> _Candidates:
    config, records, query = request.config, request.space.records, request.query
    limit, day = config.record_limit, None
    if config.stage == HEADER_STAGE:
        return _Candidates([], FilterCounts(0), 0)
    if config.stage == LAST_RECORDS_STAGE:
        limit = STAGE_3_RECORDS if limit is None else min(STAGE_3_RECORDS, limit)
        ranked, found = _last_records(records, request.now)
    else:
        window = DateRange.ending_at(request.now, config.effective_window_days)
        kept, found = filter_records(records, window)
        if query is None:
            ranked = rank(kept, request.now, config)
        else:
            ranked = rank_by_query(kept, query.relevant, request.now, config)
            day = shared_day(ranked, query)
    if counts is not None:
        # They may lag behind the loaded rows.
        found = FilterCounts(max(counts.filtered, found.filtered), counts.outside_window, counts.deleted)
    return _Candidates(ranked, found, limit, day)


def _last_records(records: tuple[RecordSummary, ...], now: datetime) -> tuple[list[Scored], FilterCounts]:
    """Return the records newest first, as stage 3 takes them: no window, no score, no pins."""
    window = DateRange.ending_at(now, None)
    present = [record for record in records if not record.deleted]
    dated = [record for record in present if record.date in window]
    dated.sort(key=lambda record: (record.date, record.id), reverse=True)
    counts = FilterCounts(len(dated), len(present) - len(dated), len(records) - len(present))
    return [Scored(record, 0) for record in dated], counts


def _selections(request: _Request, candidates: _Candidates, room: _Room) -> Iterator[Selection]:
    """Yield the selections to try, those with shorter records first."""
    query, config = request.query, request.config
    if query is None:
        yield Selection(tuple(candidates.ranked))
        return
    for limit in record_limits(config, room.record_tokens):
        yield select(
            candidates.ranked,
            query,
            config,
            request.tokenizer,
            room_tokens=room.record_tokens,
            limit_tokens=limit,
            has_dates=candidates.day is None,
        )


def _choose(
    request: _Request,
    candidates: _Candidates,
    selections: Iterator[Selection],
    room: _Room,
    stage3: _Baseline,
) -> _Chosen:
    """Render records at the largest size at which all of them fit, or else at the smallest."""
    packed = (_pack(request, candidates, selection, room, stage3) for selection in selections)
    chosen = next(packed)
    while chosen.selection.is_shortened and not chosen.cut.dropped and not candidates.unseen:
        larger = next(packed, None)
        if larger is None or larger.cut.dropped:
            break
        chosen = larger
    return chosen


def _pack(
    request: _Request, candidates: _Candidates, selection: Selection, room: _Room, stage3: _Baseline
) -> _Chosen:
    """Cut the ranking, render it and count the exact text. Drop the last record until the count fits."""
    header, sight = room.header, request.sight
    ranked, room_tokens, limit = selection.ranked, room.record_tokens, candidates.max_records
    if request.query is not None:
        cut = pack(ranked, room_tokens, limit)
        cut = cut_by_worth(cut, request.query, request.config) if request.is_adaptive else cut
    elif request.is_adaptive:
        cut = cut_by_content(ranked, room_tokens, limit, room.lean_tokens(stage3))
    else:
        cut = truncate(ranked, room_tokens, limit)
    is_in_sight = bool(sight.headers) and digest(header.text) in sight.headers
    unseen = FittedHeader("", 0, header.is_cut) if is_in_sight else header
    order: tuple[int, ...] = ()
    text, tokens = unseen.text, unseen.tokens
    while cut.kept:
        fresh = [scored for scored in cut.kept if not sight.shows(scored.record)]
        # Lines without a date need the header right before them. Another day may follow an earlier header.
        head = header if fresh and candidates.day else unseen
        records = order_records(fresh, request.config.record_order)
        lines = join_lines(head.text, records)
        counted = request.tokenizer.count(lines)
        if counted <= room.budget_tokens:
            text, tokens, order = lines, counted, tuple([record.id for record in records])
            break
        cut = cut.without_last()
    if sight.records:
        # Dropped records that an earlier block shows are kept, since they are in the prompt anyway.
        seen = [one.scored for one in cut.dropped if sight.has(one.scored.record)]
        cut = Cut.of([*cut.kept, *seen], [one for one in cut.dropped if not sight.has(one.scored.record)])
    return _Chosen(cut, selection, order, text, tokens)


def _wants_more(candidates: _Candidates, chosen: _Chosen, query: Query | None) -> bool:
    """Return whether the context could improve with candidates or texts that were not loaded.

    Small records that fill the room left by larger ones need no more than their summary.
    """
    if candidates.unseen > 0 and not chosen.cut.dropped:
        return True
    if query is None or not query.details:
        return False
    too_large = (one.scored for one in chosen.cut.dropped if one.reason == OVER_BUDGET)
    first = next(too_large, None)
    return any(
        scored.record.id not in query.details and (first is None or precedence(scored) > precedence(first))
        for scored in chosen.cut.kept
    )


def _baseline(
    request: _Request, records: tuple[RecordSummary, ...], header: FittedHeader, sizes: PartSizes
) -> _Baseline:
    """Assemble stage 3 for comparison. If the tokenizer is additive, add up tokens instead of counting."""
    config, tokenizer = request.config, request.tokenizer
    if config.stage < SCORED_STAGE:
        return _Baseline()
    try:
        budget_tokens = allocate(config, sizes, stage=LAST_RECORDS_STAGE).context
    except BudgetExceeded:
        # Stage 3's share may be set below stage 4's, which also lowers the total.
        return _Baseline()
    if header.is_cut or header.tokens > budget_tokens:
        header = fit_header(request.space, budget_tokens, tokenizer)
    room = _Room.below(header, budget_tokens, tokenizer)
    ranked, _ = _last_records(records, request.now)
    kept = truncate(ranked, room.record_tokens, STAGE_3_RECORDS).kept
    ordered = order_records(kept, config.record_order)
    text = join_lines(header.text, ordered)
    order = tuple([record.id for record in ordered])
    if kept and tokenizer.is_additive:
        header_tokens = budget_tokens - room.record_tokens
        return _Baseline(text, header_tokens + sum([scored.record.tokens for scored in kept]), order)
    return _Baseline(text, tokenizer.count(text), order)


def _stats(
    candidates: _Candidates,
    chosen: _Chosen,
    header: FittedHeader,
    allocation: TokenAllocation,
    baseline: _Baseline,
    sight: Sight,
) -> ContextStats:
    filtered = candidates.counts.filtered
    used = chosen.tokens + sight.tokens
    included = len(chosen.cut.kept)
    dropped = filtered - included
    reasons = Counter(one.reason for one in chosen.cut.dropped)
    # Candidates that were not loaded rank below the last one that was.
    rest = chosen.cut.dropped[-1].reason if chosen.cut.dropped else NOT_LOADED
    reasons[rest] += dropped - len(chosen.cut.dropped) - len(chosen.selection.duplicates)
    is_cut = any(count for reason, count in reasons.items() if reason != LOW_RELEVANCE)
    reasons[DUPLICATE_OF] = len(chosen.selection.duplicates)
    return ContextStats(
        records_filtered=filtered,
        records_included=included,
        records_dropped=dropped,
        tokens_used=used,
        tokens_available=allocation.context,
        utilisation=used / allocation.context if allocation.context else None,
        compression_ratio=included / filtered if filtered else None,
        truncated=header.is_cut or is_cut,
        outside_window=candidates.counts.outside_window,
        deleted=candidates.counts.deleted,
        dropped_by_reason={reason: count for reason, count in reasons.items() if count},
        stage3_tokens=baseline.tokens,
        tokens_saved=None if baseline.tokens is None else baseline.tokens - used,
    )


def _ledger(chosen: _Chosen, request: _Request) -> tuple[LedgerEntry, ...]:
    """List all kept records, then the best dropped ones, each in rank order."""
    selection, rendered = chosen.selection, set(chosen.order)
    kept = [
        _entry(scored, request, "" if scored.record.id in rendered else IN_SIGHT)
        for scored in chosen.cut.kept
    ]
    dropped: Sequence[Dropped] = chosen.cut.dropped
    if selection.duplicates:
        repeated = [Dropped(scored, DUPLICATE_OF) for scored in selection.duplicates]
        dropped = Cut.of([], [*dropped, *repeated]).dropped
    return (
        *kept,
        *[
            _entry(scored, request, reason, selection.originals.get(scored.record.id))
            for scored, reason in dropped[:LEDGER_DROPPED]
        ],
    )


def _entry(scored: Scored, request: _Request, reason: str, duplicate_of: int | None = None) -> LedgerEntry:
    record = scored.record
    parts: dict[str, float] = {}
    if request.config.stage >= SCORED_STAGE:
        parts = parts_of(record, request.now)
    if request.query is not None:
        parts |= request.query.relevant.get(record.id, NOT_RELEVANT).to_parts()
    return LedgerEntry(
        id=record.id,
        source=record.source,
        external_id=record.external_id,
        score=scored.score / SCORE_SCALE,
        parts=parts,
        tokens=record.tokens,
        kept=reason in {"", IN_SIGHT},
        reason=reason,
        pinned=record.pinned,
        duplicate_of=duplicate_of,
    )
