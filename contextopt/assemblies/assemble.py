"""The only way to assemble a context: settings → candidates → engine → log.

Without a question, an assembly usually takes three statements: the space with its settings, the candidates
with their counts, and one insert of the narrow row with its payload.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from django.utils import timezone

from contextopt.assemblies.candidates import Candidates, ConfiguredSpace, load_candidates, load_space
from contextopt.assemblies.engineinputs import pack_givens
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.log import Occasion, log_assembly
from contextopt.assemblies.placement.modelcatalog import cache_prices, model_window
from contextopt.assemblies.placement.state import load_conversation, shared_prefix
from contextopt.assemblies.results import AssemblyResult, entries_json
from contextopt.assemblies.retrieval import load_for_question
from contextopt.assemblies.shortage import Emptiness
from contextopt.engine.assembly import assemble
from contextopt.engine.declarations import ALL
from contextopt.engine.placement.blocks import Sight
from contextopt.engine.placement.choice import AUTO, CARRIED_TIMES, NO_DISCOUNT, SYSTEM, Place, place_context
from contextopt.engine.queryanalysis import Mentions
from contextopt.engine.settings import SCORED_STAGE, SEARCH_STAGE, ContextConfig, setting_of_request
from contextopt.engine.text.tokens import Tokenizer, get_tokenizer
from contextopt.engine.validation import InvalidValue
from contextopt.engine.values import WHOLE_SHARES, Assembled, PartSizes
from contextopt.errors import InvalidInput
from contextopt.search.embedders.current import loading, work_seconds
from contextopt.search.hybrid import PreparedQuery, prepare_query

# Multiples of the usual candidate count for a question. Read the next larger one only if every candidate fit
# and there is room left. That is rare, so start small. Never read more than the last.
REACHES = (1, 6, 36, 216)


@dataclass(frozen=True, slots=True)
class UndecidedContext:
    """A context whose candidates are still to be found."""

    space: ConfiguredSpace
    config: ContextConfig
    question: PreparedQuery | None
    as_of: datetime
    tokenizer: Tokenizer
    sizes: PartSizes = WHOLE_SHARES

    def reach_out(self) -> Iterator[Candidates]:
        """Yield the candidates for each reach, until there are no more to find."""
        for reach in REACHES:
            found = self._find(reach)
            yield found
            if found.is_all:
                return

    def _find(self, reach: int) -> Candidates:
        space_id, question = self.space.id, self.question
        if question is None:
            config = self.config.without_question()
            return load_candidates(space_id, config=config, now=self.as_of, tokenizer=self.tokenizer)
        return load_for_question(
            space_id,
            question,
            Mentions.of(question.text, self.as_of, ZoneInfo(self.space.time_zone)),
            config=self.config,
            now=self.as_of,
            tokenizer=self.tokenizer,
            reach=reach,
        )

    def decide(self, found: Candidates, sight: Sight) -> Assembled:
        return assemble(
            self.space.to_value(found.records),
            self.config,
            self.as_of,
            self.tokenizer,
            sizes=self.sizes,
            counts=found.counts,
            baseline=found.baseline,
            query=found.query,
            sight=sight,
        )


@dataclass(frozen=True, slots=True)
class DecidedContext:
    """A context that is decided but not logged yet."""

    result: AssemblyResult
    occasion: Occasion
    found: Candidates

    def log(
        self,
        *,
        is_demo: bool = False,
        created_at: datetime | None = None,
        drawn_id: int | None = None,
        keeps_question: bool = True,
        is_sent: bool = True,
    ) -> AssemblyResult:
        """Log the context, and return it with its id, which may have been drawn beforehand.

        Without `keeps_question`, it cannot be replayed. Without `is_sent`, it counts neither as a saving nor
        as a cost.

        Raises:
            NotFound: the space was deleted in the meantime.
        """
        givens = pack_givens(self.occasion.space, self.found, self.result.placed.sight)
        occasion = replace(
            self.occasion,
            givens=givens,
            is_demo=is_demo,
            created_at=created_at,
            id=drawn_id,
            keeps_question=keeps_question,
            is_sent=is_sent,
        )
        return replace(self.result, id=log_assembly(self.result, occasion))


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
    decision = decide_space(team_id=team_id, request=request, actor=actor, settings=tried, question=question)
    return decision.log(is_demo=is_demo, created_at=created_at) if store else decision.result


def decide_space(
    *,
    team_id: int,
    request: AssemblyIn,
    actor: str,
    settings: ContextConfig | None = None,
    question: PreparedQuery | None = None,
) -> DecidedContext:
    """Decide which of a space's records enter one prompt, without logging it.

    A caller that holds locks passes the request's `question`, prepared before it took them, because an
    endpoint may have to embed it.

    Raises:
        NotFound: the team has no such space.
        InvalidInput, InvalidValue: a setting is outside its range; the error names it.
        BudgetExceeded: system and history leave the response less than its reservation.
        UnknownEncoding: the tokenizer is not available.
    """
    started = work_seconds()
    as_of = request.as_of or timezone.now()
    space = load_space(team_id, request.space)
    if settings:
        space = replace(space, settings=settings)
    config, overrides = resolve_config(space, request)
    with loading():
        tokenizer = get_tokenizer(config.encoding)
    sizes = part_sizes(request, tokenizer)
    asked = config if request.asks else config.without_question()
    question = (question or prepare_query(request.query.strip())) if request.asks else None
    conversation = load_conversation(team_id, space, request, tokenizer, sizes)
    place = _place(space, request, config, tokenizer)
    context = UndecidedContext(space, config, question, as_of, tokenizer, sizes)
    for found in context.reach_out():
        placed = place_context(place, conversation, partial(context.decide, found))
        if not placed.outcome.wants_more_candidates:
            break
    outcome = placed.outcome
    emptiness = Emptiness(
        space.id, space.to_value(()), asked, as_of, tokenizer, outcome, request.model, request.window_share
    )
    warnings = (*found.warnings, *emptiness.warnings())
    result = AssemblyResult(
        id=None,
        space=space.slug,
        stage=config.stage,
        as_of=as_of,
        config_version=space.config_version,
        overrides=overrides,
        outcome=outcome,
        entries=entries_json(outcome.ledger),
        assembly_ms=(work_seconds() - started) * 1_000,
        warnings=warnings,
        placed=placed,
    )
    occasion = Occasion(team_id, space, config, request, actor, sizes)
    return DecidedContext(result, occasion, found)


def _place(space: ConfiguredSpace, request: AssemblyIn, config: ContextConfig, tokenizer: Tokenizer) -> Place:
    bound = request.carried_tokens
    if bound is None:
        bound = CARRIED_TIMES * config.context_share(config.stage)
    # Prices matter in a conversation, and where the placement depends on them.
    is_priced = request.conversation or request.in_sight or request.placement == AUTO
    today = timezone.now().astimezone(ZoneInfo(space.time_zone)).date()
    prices = cache_prices(request.model, today) if is_priced else NO_DISCOUNT
    return Place(request.placement or SYSTEM, prices, bound, partial(shared_prefix, tokenizer))


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


def part_sizes(request: AssemblyIn, tokenizer: Tokenizer) -> PartSizes:
    """Return the token counts of the caller's system and history, which come as texts or as counts."""
    sizes = []
    for name in ("system", "history"):
        text, size = getattr(request, name), getattr(request, f"{name}_tokens")
        if text is not None and size is not None:
            raise InvalidInput.of(f"{name}_tokens", f"give {name} or {name}_tokens, not both")
        sizes.append(tokenizer.count(text) if text is not None else size)
    return PartSizes(*sizes)
