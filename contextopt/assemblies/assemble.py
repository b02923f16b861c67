"""The only way to assemble a context: settings → candidates → engine → log.

Without a question, an assembly usually takes three statements: the space with its settings, the candidates
with their counts, and one insert of the narrow row with its payload.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from django.utils import timezone

from contextopt.assemblies.candidates import (
    Candidates,
    ConfiguredSpace,
    PreparedRequest,
    load_candidates,
    load_space,
)
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.log import log_assembly
from contextopt.assemblies.placement.modelcatalog import cache_prices, model_window
from contextopt.assemblies.placement.state import load_conversation, shared_prefix
from contextopt.assemblies.results import AssemblyResult, entries_json
from contextopt.assemblies.retrieval import load_for_question
from contextopt.assemblies.shortage import shortage_warnings
from contextopt.assemblies.tokenfactors import choose_tokenizer, model_warnings
from contextopt.engine.placement.choice import (
    AUTO,
    CARRIED_TIMES,
    NO_DISCOUNT,
    SYSTEM,
    Conversation,
    Place,
    place_context,
)
from contextopt.engine.settings import SCORED_STAGE, SEARCH_STAGE, ContextConfig, setting_of_request
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.engine.validation import ALL, InvalidValue
from contextopt.engine.values import PartSizes
from contextopt.errors import InvalidInput
from contextopt.search.hybrid import PreparedQuery, Target, prepare_query
from contextopt.search.registry import SearchFilters
from contextopt.spaces.records import SEARCHABLE
from contextopt.telemetry import loading, work_seconds

# Multiples of the usual candidate count for a question. Read the next larger one only if every candidate fit
# and there is room left. That is rare, so start small. Never read more than the last.
REACHES = (1, 6, 36, 216)


def assemble_space(
    *,
    team_id: int,
    request: AssemblyIn,
    actor: str,
    store: bool = True,
    is_demo: bool = False,
    created_at: datetime | None = None,
    settings: ContextConfig | None = None,
    question: PreparedQuery | None = None,
) -> AssemblyResult:
    """Decide which of a space's records enter one prompt, and log it unless it is a preview.

    `created_at` dates the log row, so that demo data can be spread over past days. A preview may try
    `settings` that are not the space's active ones. `question` is as in `decide_space`.

    Raises:
        NotFound, InvalidInput, InvalidValue, BudgetExceeded, UnknownEncoding: see `decide_space`.
    """
    tried = None if store else settings
    result = decide_space(team_id=team_id, request=request, actor=actor, settings=tried, question=question)
    return log_assembly(result, is_demo=is_demo, created_at=created_at) if store else result


def decide_space(
    *,
    team_id: int,
    request: AssemblyIn,
    actor: str,
    settings: ContextConfig | None = None,
    question: PreparedQuery | None = None,
) -> AssemblyResult:
    """Decide which of a space's records enter one prompt, without logging it; `log_assembly` does.

    A caller that holds locks passes the request's `question`, prepared before it took them, because an
    endpoint may have to embed it.

    Raises:
        NotFound: the team has no such space.
        InvalidInput, InvalidValue: a setting is outside its range; the error names it.
        BudgetExceeded: system and history leave the response less than its reservation.
        UnknownEncoding: the tokenizer is not available.
    """
    started = work_seconds()
    asked = prepare_request(team_id=team_id, request=request, actor=actor, settings=settings)
    if request.asks:
        question = question or prepare_question(asked.space, request.query.strip())
    if request.is_in_conversation:
        conversation = load_conversation(asked)
    else:
        conversation = Conversation(asked.sizes.system or 0, asked.sizes.history or 0)
    place = _place(asked)
    for found in reach_out(asked, question):
        placed = place_context(place, conversation, partial(asked.decide, found))
        if not placed.outcome.wants_more_candidates:
            break
    warnings = (
        *found.warnings,
        *(model_warnings(asked.tokenizer) if request.model else ()),
        *shortage_warnings(asked, placed.outcome),
    )
    entries = entries_json(placed.outcome.ledger)
    return AssemblyResult(asked, found, placed, entries, warnings, (work_seconds() - started) * 1_000)


def prepare_request(
    *, team_id: int, request: AssemblyIn, actor: str, settings: ContextConfig | None = None
) -> PreparedRequest:
    """Read the space with its settings, and count the caller's own parts of the prompt.

    Raises:
        NotFound, InvalidInput, InvalidValue, UnknownEncoding: see `decide_space`.
    """
    as_of = request.as_of or timezone.now()
    space = load_space(team_id, request.space)
    if settings:
        space = replace(space, settings=settings)
    config, overrides = resolve_config(space, request)
    with loading():
        tokenizer = get_tokenizer(config.encoding)
        if request.model:
            tokenizer = choose_tokenizer(team_id, model=request.model, encoding=overrides.get("encoding"))
            config = config.replace(encoding=tokenizer.name)
    sizes = []
    for name in ("system", "history"):
        text, size = getattr(request, name), getattr(request, f"{name}_tokens")
        if text is not None and size is not None:
            raise InvalidInput.of(f"{name}_tokens", f"give {name} or {name}_tokens, not both")
        sizes.append(tokenizer.count(text) if text is not None else size)
    return PreparedRequest(
        team_id, actor, request, space, config, overrides, as_of, tokenizer, PartSizes(*sizes)
    )


def prepare_question(space: ConfiguredSpace, text: str) -> PreparedQuery:
    """Find the passages of a text that may be its question in the space."""
    return prepare_query(text, space.settings.tool_patterns, targets=[target_of(space)])


def target_of(space: ConfiguredSpace) -> Target:
    """Return the space's records as the target of a search."""
    return Target(SEARCHABLE, space.id, SearchFilters())


def reach_out(asked: PreparedRequest, question: PreparedQuery | None) -> Iterator[Candidates]:
    """Yield the candidates for each reach, until there are no more to find."""
    chosen = question.choose([target_of(asked.space)]) if question else None
    for reach in REACHES:
        found = load_for_question(asked, chosen, reach=reach) if chosen else load_candidates(asked)
        yield found
        if found.is_all:
            return


def _place(asked: PreparedRequest) -> Place:
    request, config = asked.request, asked.config
    bound = request.carried_tokens
    if bound is None:
        bound = CARRIED_TIMES * config.context_share(config.stage)
    prices = NO_DISCOUNT
    # Prices matter in a conversation, and where the placement depends on them.
    if request.is_in_conversation or request.placement == AUTO:
        prices = cache_prices(
            request.model, timezone.now().astimezone(ZoneInfo(asked.space.time_zone)).date()
        )
    return Place(request.placement or SYSTEM, prices, bound, partial(shared_prefix, asked.tokenizer))


def resolve_config(space: ConfiguredSpace, request: AssemblyIn) -> tuple[ContextConfig, dict[str, Any]]:
    """Return the engine's config, and the settings that the request overrides, as JSON."""
    stage = request.effective_stage
    # Without a question, stage 5 works as stage 4, and settings that only a question has are left out.
    ranked = SCORED_STAGE if stage == SEARCH_STAGE and not request.asks else stage
    given = request.overrides
    changes = {
        setting.name: None if value == ALL else value
        for name, value in given.items()
        if (setting := setting_of_request(name, ranked))
    }
    config = space.settings.replace(stage=stage, **changes)
    if request.window_share is not None:
        tokens = _within_model(config, request.model, request.window_share)
        share = setting_of_request("context_tokens", ranked)
        assert share is not None
        config = config.replace(**{share.name: tokens})
        given |= {"context_tokens": tokens, "window_share": request.window_share}
    shown = {name: str(value) if isinstance(value, Decimal) else value for name, value in given.items()}
    return config, shown


def _within_model(config: ContextConfig, model: str, share: Decimal) -> int:
    """Return the tokens of the context, at most this share of the model's window."""
    if not model:
        raise InvalidValue("model", "is needed with window_share")
    return min(config.context_share(config.stage), int(model_window(model) * share))
