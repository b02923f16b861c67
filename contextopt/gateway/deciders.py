"""Processes that decide on contexts, so that the event loop, which forwards chunks, never waits for them.

A thread would share the interpreter with the loop. A process keeps its decisions in memory until it is told
to log them. This module has first their work, then the processes.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from multiprocessing import get_context

import structlog
from django.db import OperationalError, close_old_connections

from contextopt.assemblies.assemble import decide_space
from contextopt.assemblies.inputs import IN_SIGHT_MAX, AssemblyIn
from contextopt.assemblies.log import log_assembly
from contextopt.assemblies.models import Assembly
from contextopt.assemblies.results import AssemblyResult
from contextopt.assemblies.tokenfactors import choose_tokenizer
from contextopt.engine.placement.choice import APPEND, AUTO, CARRIED_TIMES, TAIL
from contextopt.engine.settings import MAX_PART_TOKENS, MAX_TOTAL_TOKENS, ContextConfig
from contextopt.engine.text.promptpassages import shortened
from contextopt.engine.text.tokens import DEFAULT_ENCODING, Tokenizer
from contextopt.engine.validation import BudgetExceeded
from contextopt.gateway.admission import Admission
from contextopt.gateway.insertion import (
    BlockPlace,
    Composed,
    Plan,
    find_in_history,
    held_cut,
    place_of,
    settled,
)
from contextopt.gateway.models import Keep, Reason
from contextopt.gateway.prompts import Prompt, Sizes, count_tokens, cut_history, dropped_items
from contextopt.inputs import QUERY_MAX, make_storable
from contextopt.limits import MODEL_MAX
from contextopt.locks import unless_deleted
from contextopt.sql import DATABASE_UNREACHABLE
from contextopt.telemetry import Parent, inside

# The second works while the first waits for the database.
DECIDERS = 2
# They are logged immediately, unless the database is slow.
COMPOSED_MAX = 200

type Make = Callable[[], ProcessPoolExecutor]

log = structlog.get_logger(__name__)

_composed: "OrderedDict[int, tuple[Admission, AssemblyResult]]" = OrderedDict()
"""The contexts that went into prompts and are not logged yet, by the ids drawn for them."""


@dataclass(frozen=True)
class PromptTask:
    """A prompt that may get a context: whose it is, its conversation so far with its latest cut, and the id
    drawn for it. If only its tokens are to be counted, the context is not kept for the log.
    """

    admission: Admission
    prompt: Prompt
    name: str
    plan: Plan | None
    cut: BlockPlace | None
    drawn_id: int | None
    is_count: bool = False

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Counts in the tokens of the prompt's model."""
        space, model = self.admission.space, make_storable(self.prompt.model)[:MODEL_MAX]
        usual = space.settings.encoding if space else DEFAULT_ENCODING
        return choose_tokenizer(self.admission.key.team_id, model=model, encoding=None, usual=usual)

    @cached_property
    def cut_turn(self) -> int:
        """The turn that the history begins with, 0 unless the space sets a limit."""
        limit = self.admission.policy.history_tokens
        if limit is None:
            return 0
        count = partial(count_tokens, tokenizer=self.tokenizer)
        return cut_history(self.prompt, limit, count, held=held_cut(self.prompt, self.cut))

    @property
    def settled(self) -> Composed | None:
        """The outcome without a decision, or None for a new question."""
        return settled(self.prompt, self.plan, self.admission.policy.internal_phrases)

    def decide(self) -> AssemblyResult:
        """Decide on the context of the last user text.

        Raises:
            NotFound: the space was deleted.
            BudgetExceeded: the space's total leaves no room.
        """
        space, prompt, plan = self.admission.space, self.prompt, self.plan
        assert space is not None
        sizes = Sizes.of(prompt, self.tokenizer, self.cut_turn)
        placement = TAIL if prompt.continues else self.admission.policy.placement
        # The conversation's blocks that will stand in the prompt.
        in_sight: list[int] = []
        if placement in {APPEND, AUTO} and plan is not None and plan.carries_on:
            in_sight = list(plan.standing(prompt, dropped_items(prompt, self.cut_turn)))[:IN_SIGHT_MAX]
        request = AssemblyIn(
            space=space.slug,
            query=shortened(make_storable(prompt.turns[-1].text), QUERY_MAX),
            model=make_storable(prompt.model)[:MODEL_MAX],
            conversation=f"gateway:{self.name}",
            placement=placement,
            in_sight=in_sight,
            in_history=find_in_history(prompt, self.admission.key.team_id, space.id)[-IN_SIGHT_MAX:],
            system_tokens=min(sizes.system, MAX_PART_TOKENS),
            history_tokens=min(sizes.history, MAX_PART_TOKENS),
            total_tokens=_total_tokens(space.settings, sizes),
        )
        return decide_space(team_id=self.admission.key.team_id, request=request, actor=self.admission.actor)

    def plan_of(self, decision: AssemblyResult) -> Plan:
        """Return the plan that a decision makes for the conversation."""
        placed = decision.placed
        assert self.drawn_id is not None
        kept = {block.id: self.plan.blocks[block.id] for block in placed.kept} if self.plan else {}
        own_parts = self.plan.own_parts.intersection(kept) if self.plan else frozenset()
        place, is_part = place_of(self.prompt), self.prompt.turns[-1].is_part
        return Plan(
            place=place,
            placement=placed.placement,
            assembly_id=self.drawn_id,
            blocks={**kept, self.drawn_id: place},
            tokens=decision.stats.tokens_used,
            carries_on=placed.carries_on,
            own_parts=own_parts | {self.drawn_id} if is_part else own_parts,
        )


def _total_tokens(settings: ContextConfig, sizes: Sizes) -> int | None:
    """Return a total that fits the actual prompt; None if the settings fit it or have their own total."""
    system, history = settings.system_tokens, settings.history_tokens
    is_within = sizes.system <= system and sizes.history <= history
    if settings.total_tokens is not None or is_within:
        return None
    own = settings.response_tokens + settings.context_tokens * (1 + CARRIED_TIMES)
    return min(max(system, sizes.system) + max(history, sizes.history) + own, MAX_TOTAL_TOKENS)


def compose(task: PromptTask, deadline: float) -> Composed:
    """Decide on a new context for a new question, and on where the history begins.

    Nobody waits for the result after the deadline, a time of the monotonic clock.
    """
    began = time.monotonic()
    if began > deadline:
        return Composed(reason=Reason.BUSY)
    composed, decision = task.settled, None
    if composed is None:
        try:
            decision = task.decide()
            text = decision.text if _has_records(decision) else ""
            composed = Composed(task.plan_of(decision), text, is_new=True)
        except BudgetExceeded:
            composed = Composed(reason=Reason.OVER_BUDGET)
    ended = time.monotonic()
    if ended > deadline:
        return Composed(reason=Reason.TIMEOUT, seconds=ended - began)
    if decision is not None and composed.plan is not None and not task.is_count:
        _composed[composed.plan.assembly_id] = task.admission, decision
        while len(_composed) > COMPOSED_MAX:
            _composed.popitem(last=False)
    return replace(composed, cut_turn=task.cut_turn, seconds=ended - began)


def log_composed(drawn_id: int, parent: Parent | None) -> None:
    """Log a context of this process that went into a prompt. `parent` is the span of its request.

    Raises:
        KeyError: this process does not have it. It was lost when the process that decided it died.
    """
    admission, decision = _composed[drawn_id]
    with unless_deleted(), inside(parent):
        _log_once(decision, drawn_id, admission, is_sent=True)
    del _composed[drawn_id]


def foresee(task: PromptTask, parent: Parent | None) -> Composed:
    """Decide on the context that insert mode would have inserted, and log it.

    A context without records has a reason too.
    """
    with unless_deleted(), inside(parent):
        try:
            decision = task.decide()
        except BudgetExceeded:
            return Composed(reason=Reason.OVER_BUDGET, cut_turn=task.cut_turn)
        plan = task.plan_of(decision)
        _log_once(decision, plan.assembly_id, task.admission, is_sent=False)
        reason = None if _has_records(decision) else Reason.EMPTY
        return Composed(plan, reason=reason, cut_turn=task.cut_turn)
    return Composed()


def _log_once(decision: AssemblyResult, drawn_id: int, admission: Admission, *, is_sent: bool) -> None:
    """Log a decision, unless an earlier try that seemed to fail has logged it."""
    if not Assembly.objects.filter(pk=drawn_id).exists():
        keeps_question = admission.policy.keep != Keep.SIZES
        log_assembly(decision, drawn_id=drawn_id, keeps_question=keeps_question, is_sent=is_sent)


def _has_records(decision: AssemblyResult) -> bool:
    return decision.outcome.stats.records_included > 0


class DeciderError(Exception):
    """The work failed in its process, which logged why."""


class Decider:
    """One process, which does one piece of work at a time. If it dies, the next work starts a new one.

    Starting takes a while and is done in a thread, so that an event loop can submit work without waiting.
    """

    def __init__(self, make: Make) -> None:
        self._make = make
        # Set once its process was started.
        self._pool: ProcessPoolExecutor | None = None
        self._starter = ThreadPoolExecutor(1, "gateway-starter")
        self._lock = threading.Lock()
        self.waiting = self.done = 0

    def submit[*Ts, R](self, work: Callable[[*Ts], R], *args: *Ts) -> Future[R]:
        """Queue the work. Its future may raise:

        OperationalError: the database does not answer.
        DeciderError: any other error of the work.
        BrokenProcessPool: the process died, or could not be started.
        """
        future = self._submit(work, args)
        if future is None:
            future = Future()
            self._starter.submit(self._start_for, future, work, args)
        with self._lock:
            self.waiting += 1
        future.add_done_callback(lambda _: self._end())
        return future

    def close(self) -> None:
        self._starter.shutdown(wait=False, cancel_futures=True)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _submit[*Ts, R](self, work: Callable[[*Ts], R], args: tuple[*Ts]) -> Future[R] | None:
        """Queue the work unless a process must be started for it."""
        if self._pool is not None:
            with suppress(BrokenProcessPool):
                return self._pool.submit(_run, work, args)
        return None

    def _start_for[*Ts, R](self, future: Future[R], work: Callable[[*Ts], R], args: tuple[*Ts]) -> None:
        """Start the process, unless earlier work has started it, and submit the work to it."""
        if not future.set_running_or_notify_cancel():
            return
        try:
            done = self._submit(work, args)
            if done is None:
                pool = self._make()
                done = pool.submit(_run, work, args)
                self._pool = pool
        # The process that forks others died, or the system has no room for one more process or thread.
        except (OSError, EOFError, RuntimeError) as error:
            future.set_exception(BrokenProcessPool(str(error)))
        else:
            done.add_done_callback(partial(_pass_on, future))

    def _end(self) -> None:
        with self._lock:
            self.waiting -= 1
            self.done += 1


class Deciders:
    """All such processes of one gateway.

    They are forked from one process that has loaded the module `name`, so that they start faster and share
    memory. The module's `begin` runs in each.
    """

    def __init__(self, name: str) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload([name])
        make = partial(ProcessPoolExecutor, 1, context, _begin, (name,))
        self.all = tuple(Decider(make) for _ in range(DECIDERS))

    def least_busy(self) -> Decider:
        return min(self.all, key=lambda decider: decider.waiting)

    def run[*Ts, R](self, work: Callable[[*Ts], R], *args: *Ts) -> R:
        """Do the work, and repeat it once if its process dies. Doing it twice must do no harm.

        Raises:
            OperationalError, DeciderError, BrokenProcessPool: see `Decider.submit`.
        """
        decider = self.least_busy()
        try:
            return decider.submit(work, *args).result()
        except BrokenProcessPool:
            # This one starts a new process now. Another may be dying at the same moment.
            return decider.submit(work, *args).result()

    def close(self) -> None:
        for decider in self.all:
            decider.close()


def _pass_on[R](future: Future[R], done: Future[R]) -> None:
    try:
        future.set_result(done.result())
    except Exception as error:  # Any error of the work goes to its caller.
        future.set_exception(error)


def _begin(name: str) -> None:
    import_module(name).begin()


def _run[*Ts, R](work: Callable[[*Ts], R], args: tuple[*Ts]) -> R:
    """Do the work in its process. Raise only errors that the gateway can unpickle."""
    try:
        return work(*args)
    except DATABASE_UNREACHABLE as error:
        raise OperationalError(str(error)) from None
    except Exception as error:  # An error that the gateway cannot unpickle would break the pool.
        log.exception("gateway_decider_failed", work=work.__name__)
        raise DeciderError(type(error).__name__) from None
    finally:
        close_old_connections()
