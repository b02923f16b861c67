"""Decides on a prompt's context and where it goes, and logs it. Everything here runs in a decider."""

import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import cached_property

from contextopt.assemblies.assemble import DecidedContext, decide_space
from contextopt.assemblies.inputs import IN_SIGHT_MAX, AssemblyIn
from contextopt.assemblies.models import Assembly
from contextopt.assemblies.placement.modelcatalog import list_price
from contextopt.engine.placement.choice import APPEND, AUTO, CARRIED_TIMES, TAIL
from contextopt.engine.settings import MAX_PART_TOKENS, MAX_TOTAL_TOKENS
from contextopt.engine.validation import BudgetExceeded
from contextopt.gateway.admission import Admission
from contextopt.gateway.counts import count_tokens
from contextopt.gateway.models import Keep, Reason
from contextopt.gateway.protocols.history import cut_history, dropped_items, spoken_tokens
from contextopt.gateway.protocols.prompts import Prompt
from contextopt.gateway.recognition import BlockPlace, Plan, held_cut, place_of
from contextopt.inputs import QUERY_MAX, make_storable
from contextopt.limits import MODEL_MAX
from contextopt.locks import unless_deleted
from contextopt.search.embedders import configured_embedder, get_embedder
from contextopt.search.embedders.values import WORDLLAMA
from contextopt.search.hybrid import prepare_query
from contextopt.telemetry.spans import Parent, inside

# They are logged immediately, unless the database is slow.
COMPOSED_MAX = 200

_composed: "OrderedDict[int, tuple[Admission, DecidedContext]]" = OrderedDict()
"""The contexts that went into prompts and are not logged yet, by the ids drawn for them."""


@dataclass(frozen=True)
class PromptTask:
    """A prompt that may get a context: whose it is, its conversation so far with its latest cut, and the id
    drawn for it.
    """

    admission: Admission
    prompt: Prompt
    name: str
    plan: Plan | None
    cut: BlockPlace | None
    drawn_id: int | None

    @cached_property
    def cut_turn(self) -> int:
        """The turn that the history begins with, 0 unless the space sets a limit."""
        limit = self.admission.policy.history_tokens
        if limit is None:
            return 0
        return cut_history(self.prompt, limit, count_tokens, held=held_cut(self.prompt, self.cut))

    @property
    def is_repeat(self) -> bool:
        return self.plan is not None and self.plan.is_for(self.prompt)

    @cached_property
    def sizes(self) -> "Sizes":
        return Sizes.of(self.prompt, self.cut_turn)

    def in_sight(self) -> list[int]:
        """Return the conversation's blocks that will stand in the prompt."""
        if self.plan is None or not self.plan.carries_on:
            return []
        return list(self.plan.standing(self.prompt, dropped_items(self.prompt, self.cut_turn)))[:IN_SIGHT_MAX]

    def decide(self) -> DecidedContext:
        """Decide on the context of the last user text.

        Raises:
            NotFound: the space was deleted.
            BudgetExceeded: the space's total leaves no room.
        """
        space, policy, sizes = self.admission.space, self.admission.policy, self.sizes
        assert space is not None
        placement = TAIL if self.prompt.continues else policy.placement
        request = AssemblyIn(
            space=space.slug,
            query=make_storable(self.prompt.turns[-1].text)[:QUERY_MAX],
            model=make_storable(self.prompt.model)[:MODEL_MAX],
            conversation=f"gateway:{self.name}",
            placement=placement,
            in_sight=self.in_sight() if placement in {APPEND, AUTO} else [],
            system_tokens=min(sizes.system, MAX_PART_TOKENS),
            history_tokens=min(sizes.history, MAX_PART_TOKENS),
            total_tokens=self._total(),
        )
        return decide_space(team_id=self.admission.key.team_id, request=request, actor=self.admission.actor)

    def _total(self) -> int | None:
        """Return a total that fits the actual prompt; None if the settings fit it or have their own total."""
        assert self.admission.space is not None
        settings, sizes = self.admission.space.settings, self.sizes
        system, history = settings.system_tokens, settings.history_tokens
        is_within = sizes.system <= system and sizes.history <= history
        if settings.total_tokens is not None or is_within:
            return None
        own = settings.response_tokens + settings.context_tokens * (1 + CARRIED_TIMES)
        return min(max(system, sizes.system) + max(history, sizes.history) + own, MAX_TOTAL_TOKENS)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The tokens of a prompt's parts in cl100k."""

    system: int
    history: int
    question: int

    @classmethod
    def of(cls, prompt: Prompt, cut_turn: int = 0) -> "Sizes":
        question = count_tokens(prompt.turns[-1].text) if prompt.turns else 0
        history = max(0, spoken_tokens(prompt, cut_turn, count_tokens) - question)
        return cls(count_tokens(prompt.system_text) + count_tokens(prompt.tools), history, question)

    @property
    def all(self) -> int:
        return self.system + self.history + self.question


@dataclass(frozen=True, slots=True)
class Composed:
    """The plan of a prompt's contexts and the text of a new one, or the reason why there is none.

    `is_new` is true if the context was decided just now and must be logged. `cut_turn` is the turn that the
    history begins with, None if it is not known. `seconds` is how long it took, without waiting.
    """

    plan: Plan | None = None
    text: str = ""
    reason: Reason | None = None
    is_new: bool = False
    cut_turn: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The context that insert mode would have inserted, or the reason why there is none, and the turn with
    which the history would have begun.
    """

    plan: Plan | None = None
    reason: Reason | None = None
    cut_turn: int = 0


def settled(prompt: Prompt, plan: Plan | None) -> Composed | None:
    """Return what a prompt gets if no context has to be decided for it, or None for a new question."""
    if plan is not None and plan.is_for(prompt):
        return Composed(plan)
    return Composed(reason=Reason.TOOL_RESULTS) if prompt.ends_in_tool_results else None


def compose(task: PromptTask, deadline: float) -> Composed:
    """Decide on a new context for a new question, and on where the history begins.

    Nobody waits for the result after the deadline, a time of the monotonic clock.
    """
    began = time.monotonic()
    if began > deadline:
        return Composed(reason=Reason.TIMEOUT)
    composed, decision = _compose(task)
    ended = time.monotonic()
    if ended > deadline:
        return Composed(reason=Reason.TIMEOUT, seconds=ended - began)
    if decision is not None and composed.plan is not None:
        _composed[composed.plan.assembly_id] = task.admission, decision
        while len(_composed) > COMPOSED_MAX:
            _composed.popitem(last=False)
    return replace(composed, cut_turn=task.cut_turn, seconds=ended - began)


def _compose(task: PromptTask) -> tuple[Composed, DecidedContext | None]:
    """Return what the prompt gets, and the decision if a new one was needed."""
    if (composed := settled(task.prompt, task.plan)) is not None:
        return composed, None
    try:
        decision = task.decide()
    except BudgetExceeded:
        return Composed(reason=Reason.OVER_BUDGET), None
    text = decision.result.text if _has_records(decision) else ""
    return Composed(plan_of(task, decision), text, is_new=True), decision


def log_composed(drawn_id: int, parent: Parent | None) -> None:
    """Log a context of this process that went into a prompt. `parent` is the span of its request.

    Raises:
        KeyError: this process does not have it. It was lost when the process that decided it died.
    """
    admission, decision = _composed[drawn_id]
    with unless_deleted(), inside(parent):
        _log_once(decision, drawn_id, admission, is_sent=True)
    del _composed[drawn_id]


def foresee(task: PromptTask, parent: Parent | None) -> Foreseen:
    """Decide on the context that would have been inserted, and log it."""
    with unless_deleted(), inside(parent):
        try:
            decision = task.decide()
        except BudgetExceeded:
            return Foreseen(reason=Reason.OVER_BUDGET, cut_turn=task.cut_turn)
        plan = plan_of(task, decision)
        _log_once(decision, plan.assembly_id, task.admission, is_sent=False)
        return Foreseen(plan, None if _has_records(decision) else Reason.EMPTY, task.cut_turn)
    return Foreseen()


def _log_once(decision: DecidedContext, drawn_id: int, admission: Admission, *, is_sent: bool) -> None:
    """Log a decision, unless an earlier try that seemed to fail has logged it."""
    if not Assembly.objects.filter(pk=drawn_id).exists():
        keeps_question = admission.policy.keep != Keep.SIZES
        decision.log(drawn_id=drawn_id, keeps_question=keeps_question, is_sent=is_sent)


def _has_records(decision: DecidedContext) -> bool:
    return decision.result.outcome.stats.records_included > 0


def plan_of(task: PromptTask, decision: DecidedContext) -> Plan:
    """Return the plan that a decision makes for its conversation."""
    placed = decision.result.placed
    assert task.drawn_id is not None
    kept = {block.id: task.plan.blocks[block.id] for block in placed.kept} if task.plan else {}
    place = place_of(task.prompt)
    return Plan(
        place=place,
        placement=placed.placement,
        assembly_id=task.drawn_id,
        blocks={**kept, task.drawn_id: place},
        tokens=decision.result.stats.tokens_used,
        carries_on=placed.carries_on,
    )


def load_shared() -> None:
    """Load what forked processes can share: nothing that has threads or connections."""
    count_tokens("warm")
    list_price("gpt-4o-mini")
    if configured_embedder() == WORDLLAMA:
        get_embedder(WORDLLAMA)


def warm_up() -> None:
    """Load the rest of what contexts need, and connect to the database."""
    prepare_query("warm")
