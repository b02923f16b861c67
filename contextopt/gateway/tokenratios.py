"""Learns how many tokens a provider counts for a team's prompts, per token that is counted here.

Only prompts teach that hold text alone, with their whole usage, of models without a tokenizer of their own.
"""

import math
from collections.abc import Sequence
from datetime import datetime

import structlog
from django.db import transaction

from contextopt.assemblies.tokenfactors import TokenFactor
from contextopt.engine.text.modeltokens import find_rule
from contextopt.engine.text.textkinds import kind_shares
from contextopt.engine.text.tokens import FACTOR_SCALE
from contextopt.gateway.modelanswers import Usage
from contextopt.gateway.models import Protocol
from contextopt.gateway.prompts import Prompt

# The edges of the histogram of ratios: each bucket is 1 % wide, from a quarter to four tokens for one.
LEAST_RATIO, STEP, BUCKETS = 0.25, 1.01, 280
LIMIT_SHARE = 0.99
"""The share of a team's tokens, by prompts, that stay below a factor's limit."""
DEVIATIONS, MOST_SHARE = 2, 0.999
"""The limit is higher by this many standard errors of that share, as a few prompts tell less, up to a share
that leaves out what hardly counts.
"""
MARGIN = 1.08
"""The lines of a context have dates and tags, which some tokenizers split into more tokens than prompts. With
less, contexts of Korean records exceeded their budget in Qwen's tokens (benchmarks, section `tokenizers`).
"""
LATEST = 50
"""The latest prompts are compared with those before them, to notice a jump."""
JUMP = 0.2
JUMP_TOKENS = 2_500
"""If they have fewer tokens together, what a provider adds around each message is too much of them."""
LEAST_TOKENS = 5
MOST_TOKENS = 1_000_000

log = structlog.get_logger(__name__)


def is_teaching(prompt: Prompt, protocol: str, usage: Usage) -> bool:
    """Return whether a prompt tells how the provider counts text: it holds nothing else, and its usage is
    complete, reads and writes of the cache included.
    """
    rule = find_rule(prompt.model)
    if not prompt.model or not prompt.is_text_alone or (rule and rule.encoding and rule.is_installed):
        return False
    has_cache = usage.cached is not None and usage.cache_write is not None
    return usage.input is not None and (has_cache or protocol != Protocol.MESSAGES)


def learn_ratio(
    *, team_id: int, model: str, texts: Sequence[str], counted: int, reported: int, moment: datetime
) -> None:
    """Add a prompt to the factor of its model and of the kind that most of its text is of."""
    if not (LEAST_TOKENS <= counted <= MOST_TOKENS and LEAST_RATIO < reported / counted < 1 / LEAST_RATIO):
        return
    kind = next(iter(kind_shares("\n".join(texts))))
    with transaction.atomic():
        TokenFactor.objects.bulk_create(
            [TokenFactor(team_id=team_id, model=model, kind=kind, since=moment)], ignore_conflicts=True
        )
        factor = TokenFactor.objects.select_for_update(no_key=True).get(
            team_id=team_id, model=model, kind=kind
        )
        _add_latest(factor, counted, reported, moment)
        factor.updated_at = moment
        factor.save()


def _add_latest(factor: TokenFactor, counted: int, reported: int, moment: datetime) -> None:
    factor.latest_counted.append(counted)
    factor.latest_reported.append(reported)
    if len(factor.latest_counted) >= LATEST:
        latest = list(zip(factor.latest_counted, factor.latest_reported, strict=True))
        if factor.is_used and sum(factor.latest_counted) >= JUMP_TOKENS and _has_jumped(factor):
            _start_anew(factor, moment)
        factor.latest_counted, factor.latest_reported = [], []
        for prompt in latest:
            _add(factor, *prompt)
        _set_factor(factor)


def _has_jumped(factor: TokenFactor) -> bool:
    before = factor.reported_tokens / factor.counted_tokens
    now = sum(factor.latest_reported) / sum(factor.latest_counted)
    return abs(now / before - 1) > JUMP


def _start_anew(factor: TokenFactor, moment: datetime) -> None:
    log.warning("token_factor_jumped", team_id=factor.team_id, model=factor.model, kind=factor.kind)
    factor.mean_before, factor.since = factor.mean, moment
    factor.prompts = factor.counted_tokens = factor.reported_tokens = 0
    factor.histogram = []


def _add(factor: TokenFactor, counted: int, reported: int) -> None:
    factor.histogram = factor.histogram or [0] * BUCKETS
    bucket = int(math.log(reported / counted / LEAST_RATIO) / math.log(STEP))
    factor.histogram[min(bucket, BUCKETS - 1)] += counted
    factor.prompts += 1
    factor.counted_tokens += counted
    factor.reported_tokens += reported


def _set_factor(factor: TokenFactor) -> None:
    """Set the mean, and the limit that 99 % of the tokens stay below."""
    error = math.sqrt(LIMIT_SHARE * (1 - LIMIT_SHARE) / factor.prompts)
    wanted = min(MOST_SHARE, LIMIT_SHARE + DEVIATIONS * error) * factor.counted_tokens
    below, bucket = 0, 0
    for bucket, tokens in enumerate(factor.histogram):  # noqa: B007 - the last one is the answer
        below += tokens
        if below >= wanted:
            break
    mean = factor.reported_tokens / factor.counted_tokens
    factor.mean = round(FACTOR_SCALE * mean)
    factor.limit = max(factor.mean, math.ceil(FACTOR_SCALE * MARGIN * LEAST_RATIO * STEP ** (bucket + 1)))
