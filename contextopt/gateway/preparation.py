"""Prepares a prompt: reads it, finds its conversation, and inserts a context in insert mode.

Nothing here raises or takes long. A prompt whose context fails or is late goes on with the contexts that its
conversation has already; one that cannot be read goes on unchanged.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID, uuid4

import structlog

from contextopt.assemblies.log import draw_ids
from contextopt.assemblies.warmup import warm_up
from contextopt.engine.text.promptparts import BlockPattern
from contextopt.errors import Busy
from contextopt.fairness import Lane, Turns
from contextopt.gateway.admission import Admission
from contextopt.gateway.clientprompts import is_client_internal
from contextopt.gateway.deciders import (
    DECIDERS,
    Decider,
    Deciders,
    PromptTask,
    compose,
    log_composed,
)
from contextopt.gateway.insertion import (
    BlockPlace,
    BlockTexts,
    Composed,
    Conversation,
    Conversations,
    Plan,
    change_prompt,
    held_cut,
    load_texts,
    place_at,
    place_of,
    reason_without_question,
    recall,
    settled,
)
from contextopt.gateway.models import Mode, Protocol, Reason
from contextopt.gateway.prompts import Prompt, TooLargeError, UnreadablePromptError, cut_spans, splice
from contextopt.gateway.protocols import read_prompt
from contextopt.gateway.relay import Headers
from contextopt.sql import DATABASE_UNREACHABLE, in_thread, until_answered
from contextopt.strictjson import has_more_values
from contextopt.telemetry import OpenExchange, Parent

# Two pieces of work for each decider, so that another team's never waits for more than one.
TURNS = 2 * DECIDERS
# Weight of the newest context in the moving average of the time that contexts take.
NEWEST_SHARE = 0.1
# A smaller prompt is read in the event loop, because handing it to a thread usually takes as long. Streams
# wait for that, up to 20 ms for this many values.
READ_AT_ONCE_BYTES = 100_000
READ_AT_ONCE_VALUES = 3_000
# After this time the gateway starts even without the database.
START_SECONDS = 10.0
IDS_DRAWN = 200
IDS_LEAST = 50

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A prompt that has arrived as a whole: whose it is, and where it goes.

    `created_at` is when its headers arrived, `started` a time of `perf_counter` after its last byte, and
    `session` what the client calls its session. If only its tokens are to be counted, nothing is logged or
    remembered.
    """

    admission: Admission
    protocol: Protocol
    url: str
    size_bytes: int
    created_at: datetime
    opened: OpenExchange | None = None
    session: bytes = b""
    uid: UUID = field(default_factory=uuid4)
    started: float = field(default_factory=time.perf_counter)
    is_count: bool = False

    def ms_until(self, at: float) -> float:
        """Return the milliseconds from its arrival until a time of `perf_counter`."""
        return (at - self.started) * 1_000

    @property
    def is_piece(self) -> bool:
        """Whether it may be a part of a prompt and no question. Coding tools count each of their tools, and
        pieces of their system prompt.
        """
        return self.is_count and bool(self.session)

    @property
    def parent(self) -> Parent | None:
        """The parent span for those of its context."""
        return self.opened.parent if self.opened else None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prompt as it goes on, with its context or the reason why it has none.

    `drawn_id` is the id of the context that would have been inserted in audit mode. `blocks` are the texts
    that went into it, or back to their places, with a new context or without. `cut` is the user text that its
    history begins with. `context_logged` ends once its new context is logged.
    """

    prompt: Prompt | None = None
    conversation: Conversation | None = None
    reason: Reason | None = None
    plan: Plan | None = None
    drawn_id: int | None = None
    is_new_question: bool = False
    blocks: tuple[str, ...] = ()
    cut: BlockPlace | None = None
    context_logged: asyncio.Future[bool] | None = None

    @property
    def mode(self) -> Mode:
        return self.conversation.mode if self.conversation else Mode.AUDIT

    @property
    def is_without_question(self) -> bool:
        """Whether it goes on with an earlier question, which may have a context in the log."""
        is_reason = self.reason in {Reason.TOOL_RESULTS, Reason.CLIENT_INTERNAL}
        return is_reason and self.prompt is not None and self.prompt.goes_on

    @property
    def is_inserted(self) -> bool:
        return self.mode == Mode.INSERT and self.reason is None

    @property
    def is_late(self) -> bool:
        """Whether it did not get its context within the space's time limit."""
        return self.reason in {Reason.TIMEOUT, Reason.BUSY}

    @property
    def status(self) -> str:
        """The value of X-Contextopt-Status."""
        return "inserted" if self.is_inserted else (self.reason or self.mode).value

    @property
    def headers(self) -> Headers:
        """The headers that tell the client what was done."""
        assembly_id = self.plan.assembly_id if self.plan else self.drawn_id
        named = [] if assembly_id is None else [(b"x-contextopt-assembly", str(assembly_id).encode())]
        return [(b"x-contextopt-status", self.status.encode()), *named]


@dataclass(slots=True)
class Known:
    """A prompt in insert mode with its contexts so far: the plan that it goes on with, the texts of the
    plan's blocks, and the context that `decider` composed, or else the reason why there is none. `begins_at`
    is how much work the decider will have done when it begins with this.
    """

    admission: Admission
    prompt: Prompt
    conversation: Conversation
    plan: Plan | None
    texts: Mapping[int, str]
    is_count: bool = False
    is_piece: bool = False
    composed: Composed | None = None
    decider: Decider | None = None
    begins_at: int = 0
    reason: Reason = Reason.BUSY

    @property
    def phrases(self) -> Sequence[str]:
        return self.admission.policy.internal_phrases

    @property
    def has_begun(self) -> bool:
        """Whether a decider has begun to decide on its context."""
        return self.decider is not None and self.decider.done >= self.begins_at


@dataclass
class Preparation:
    """The conversations of this process, and the ids drawn for their contexts."""

    deciders: Deciders
    conversations: Conversations = field(default_factory=Conversations)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "gateway-database"))
    # For prompts that get no new context because too many wait for one.
    _late: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "gateway-late"))
    # Separate from those two, whose threads may wait for the database.
    _readers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "gateway-reading"))
    _texts: BlockTexts = field(default_factory=BlockTexts)
    _ids: list[int] = field(default_factory=list)
    _drawing: asyncio.Task[None] | None = None
    _turns: Turns = field(default_factory=lambda: Turns(TURNS, wait_seconds=None))
    _composing: Counter[int] = field(default_factory=Counter)
    _usual_seconds: float = 0.0

    async def start(self) -> None:
        """Load what contexts need and draw ids, so that the first prompt does not wait for it."""
        begun = [
            asyncio.create_task(self._draw()),
            *(asyncio.wrap_future(decider.submit(warm_up)) for decider in self.deciders.all),
        ]
        await asyncio.wait(begun, timeout=START_SECONDS)
        for work in begun:
            if not work.done() or work.exception() is not None:
                log.warning("gateway_started_cold")

    async def prepare(self, arrival: Arrival, body: bytes, given: str) -> tuple[bytes, Prepared]:
        """Return the bytes to forward, and what was done.

        `given` is the caller's name for the conversation, which may be empty.
        """
        limit = arrival.admission.policy.time_limit_ms / 1_000
        deadline = time.monotonic() + limit
        read = Prepared()
        try:
            read = await self._read(arrival, body, given, limit)
            if read.prompt is not None and read.conversation is not None and read.mode == Mode.INSERT:
                return await self._insert(arrival, read.prompt, read.conversation, body, deadline)
        except Exception:  # Whatever fails here, the prompt goes on.
            log.exception("gateway_preparation_failed")
            read = replace(read, reason=Reason.FAILED)
        return body, read

    async def _read(self, arrival: Arrival, body: bytes, given: str, limit: float) -> Prepared:
        """Read the prompt and find its conversation. In insert mode, nothing else is done yet."""
        is_small = len(body) <= READ_AT_ONCE_BYTES and not has_more_values(body, READ_AT_ONCE_VALUES)
        admission, protocol = arrival.admission, arrival.protocol
        space = admission.space
        given_patterns = space.settings.tool_patterns if space else None
        patterns = BlockPattern.parse_all(given_patterns) if given_patterns else []
        try:
            async with asyncio.timeout(limit):
                if is_small:
                    prompt = read_prompt(protocol, body, patterns)
                else:
                    prompt = await in_thread(self._readers, read_prompt, protocol, body, patterns)
        except TimeoutError:
            return Prepared(reason=Reason.TIMEOUT)
        except TooLargeError:
            return Prepared(reason=Reason.TOO_LARGE)
        except UnreadablePromptError:
            return Prepared(reason=Reason.UNREADABLE)
        if space is None:
            return Prepared(prompt, reason=admission.reason or Reason.NO_SPACE)
        if not prompt.turns:
            return Prepared(prompt, reason=Reason.NO_QUESTION)
        conversation = self.conversations.find(admission, given, prompt, arrival.session)
        if conversation.mode == Mode.INSERT or arrival.is_count:
            return Prepared(prompt, conversation)
        return self._audit(prompt, conversation, admission.policy.internal_phrases)

    def _audit(self, prompt: Prompt, conversation: Conversation, phrases: Sequence[str]) -> Prepared:
        """Draw an id for the context that would have been inserted, or reuse that of the same question."""
        place = place_of(prompt)
        if conversation.drawn is not None and conversation.drawn[0] == place:
            return Prepared(prompt, conversation, drawn_id=conversation.drawn[1])
        if prompt.goes_on:
            return Prepared(prompt, conversation, reason_without_question(prompt))
        if is_client_internal(prompt, phrases):
            return Prepared(prompt, conversation, Reason.CLIENT_INTERNAL)
        drawn_id = self._take_id()
        if drawn_id is None:
            return Prepared(prompt, conversation, Reason.UNAVAILABLE)
        conversation.drawn = place, drawn_id
        return Prepared(prompt, conversation, drawn_id=drawn_id, is_new_question=True)

    async def _insert(
        self, arrival: Arrival, prompt: Prompt, conversation: Conversation, body: bytes, deadline: float
    ) -> tuple[bytes, Prepared]:
        plan, admission = conversation.plan, arrival.admission
        texts = self._texts.find(plan.blocks) if plan else {}
        known = Known(admission, prompt, conversation, plan, texts, arrival.is_count, arrival.is_piece)
        work = asyncio.create_task(self._learn_contexts(known, deadline))
        await asyncio.wait([work], timeout=deadline - time.monotonic())
        if not work.done():
            # A decider that has begun finishes, but its context is not used.
            known.reason = Reason.TIMEOUT if known.has_begun else Reason.BUSY
            work.cancel()
        elif (error := work.exception()) is not None:
            known.reason = reason_of(error)
            if known.reason == Reason.FAILED:
                log.error("gateway_context_failed", exc_info=error)
        composed = known.composed or Composed(reason=known.reason)
        held = 0 if admission.policy.history_tokens is None else held_cut(prompt, conversation.cut)
        changes = change_prompt(prompt, conversation.name, known.plan, known.texts, composed, held)
        plan, logged = changes.plan, None
        cut = place_at(prompt, changes.cut_turn) if changes.cut_turn else None
        changed = splice(body, changes.splices, cut_spans(prompt, changes.cut_turn))
        self._texts.keep(changes.texts)
        if composed.cut_turn is not None and not arrival.is_count:
            conversation.cut = cut
        if composed.is_new and plan is not None and known.decider is not None and not arrival.is_count:
            conversation.plan = plan
            logging = self._log(known.decider, plan.assembly_id, arrival.parent)
            logged = conversation.logged = asyncio.create_task(logging)
        return changed, Prepared(
            prompt,
            conversation,
            changes.reason,
            plan,
            blocks=tuple(changes.texts.values()),
            cut=cut,
            context_logged=logged,
        )

    async def _learn_contexts(self, known: Known, deadline: float) -> None:
        """Find the blocks of the prompt's conversation, and have a context decided for a new question."""
        team = known.admission.key.team_id
        is_in_time = self._is_in_time(team, deadline)
        self._composing[team] += is_in_time
        try:
            pool = self._pool if is_in_time else self._late
            known.plan = await _recall(pool, known)
            if known.admission.policy.history_tokens is None:
                known.composed = settled(known.prompt, known.plan, known.phrases)
            if known.is_piece and settled(known.prompt, known.plan, known.phrases) is None:
                known.composed = Composed(reason=Reason.CLIENT_INTERNAL)
            work = [self._read_texts(pool, known)]
            if known.composed is None and is_in_time:
                work.append(self._compose(known, deadline))
            for error in await asyncio.gather(*work, return_exceptions=True):
                if error is not None:
                    raise error
        finally:
            self._composing[team] -= is_in_time
            if not self._composing[team]:
                del self._composing[team]

    async def _read_texts(self, pool: Executor, known: Known) -> None:
        """Read the blocks' texts from the log: a record in them may have been purged since they were sent."""
        ids = known.plan.standing(known.prompt) if known.plan else {}
        known.texts = self._texts.find(ids)
        if ids:
            with suppress(*DATABASE_UNREACHABLE):
                known.texts = await in_thread(pool, load_texts, known.admission.key.team_id, ids)

    async def _compose(self, known: Known, deadline: float) -> None:
        """Have a context decided if the question is new, and the history cut if the space sets a limit."""
        prompt, plan, conversation = known.prompt, known.plan, known.conversation
        is_new = settled(prompt, plan, known.phrases) is None
        drawn_id = (self._take_id() or await self._draw_one()) if is_new else None
        task = PromptTask(
            known.admission, prompt, conversation.name, plan, conversation.cut, drawn_id, known.is_count
        )
        lane = Lane(known.admission.key.team_id)
        if not self._turns.start(lane):
            await self._turns.wait(lane)
        decider = known.decider = self.deciders.least_busy()
        known.begins_at = decider.done + decider.waiting
        work = asyncio.wrap_future(decider.submit(compose, task, deadline))
        work.add_done_callback(self._learn)
        work.add_done_callback(lambda _: self._turns.end(lane))
        # The decider goes on even if the prompt no longer waits for it.
        known.composed = await asyncio.shield(work)

    def _is_in_time(self, team: int, deadline: float) -> bool:
        """Tell whether another context of the team can be expected in time. If not, waiting would only delay
        this prompt and those behind it.
        """
        left, before = deadline - time.monotonic(), self._composing[team]
        return left > 0 and (before < DECIDERS or (before / DECIDERS + 1) * self._usual_seconds < left)

    def _learn(self, work: asyncio.Future[Composed]) -> None:
        """Update the average with a context's time, even if it came too late."""
        if work.cancelled() or work.exception() is not None:
            return
        if (seconds := work.result().seconds) is not None:
            self._usual_seconds += NEWEST_SHARE * (seconds - self._usual_seconds)

    async def _log(self, decider: Decider, drawn_id: int, parent: Parent | None) -> bool:
        """Log a context while its answer is on its way. Return whether it was logged."""
        error = await until_answered(
            lambda: asyncio.wrap_future(decider.submit(log_composed, drawn_id, parent))
        )
        if error is not None:
            log.error("gateway_context_not_logged", exc_info=error)
        return error is None

    def _take_id(self) -> int | None:
        """Return a drawn id, or None if none is left. Draw more before they run out."""
        if len(self._ids) < IDS_LEAST and (self._drawing is None or self._drawing.done()):
            self._drawing = asyncio.create_task(self._draw())
        return self._ids.pop(0) if self._ids else None

    async def _draw(self) -> None:
        task = asyncio.create_task(in_thread(self._pool, draw_ids, IDS_DRAWN))
        await asyncio.wait([task])
        if task.exception() is None:
            self._ids += task.result()

    async def _draw_one(self) -> int:
        """Wait for ids. Raises: OperationalError, InterfaceError: the database does not answer."""
        if self._drawing is not None:
            await asyncio.wait([self._drawing])
        if not self._ids:
            self._ids += await in_thread(self._pool, draw_ids, IDS_DRAWN)
        return self._ids.pop(0)


def reason_of(error: BaseException) -> Reason:
    """Return why a prompt whose context raised this goes on without one."""
    if isinstance(error, Busy):
        return Reason.BUSY
    return Reason.UNAVAILABLE if isinstance(error, DATABASE_UNREACHABLE) else Reason.FAILED


async def _recall(pool: Executor, known: Known) -> Plan | None:
    """Return the plan that the prompt goes on with, from the log if it is not remembered."""
    admission, prompt, conversation = known.admission, known.prompt, known.conversation
    if conversation.logged is not None and not await asyncio.shield(conversation.logged):
        # The latest context was lost, so only the log knows the conversation.
        conversation.plan, conversation.is_loaded, conversation.logged = None, False, None
    if conversation.needs_log(prompt):
        found = await in_thread(pool, recall, admission, conversation)
        conversation.plan = conversation.plan or found.plan
        conversation.cut = conversation.cut or found.cut
    conversation.is_loaded = True
    plan = conversation.plan
    if plan is not None and prompt.goes_on and not plan.is_for(prompt):
        # The user went back to an earlier question, or the question has no context.
        earlier = await in_thread(pool, recall, admission, conversation, place_of(prompt))
        return earlier.plan or plan
    return plan
