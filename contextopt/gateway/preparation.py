"""Prepares a prompt: reads it, finds its conversation, and inserts a context in insert mode.

Nothing here raises or takes long. A prompt whose context fails or is late goes on with the contexts that its
conversation has already; one that cannot be read goes on unchanged.
"""

import asyncio
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from contextopt.assemblies.log import draw_ids
from contextopt.gateway.admission import Admission
from contextopt.gateway.deciders import DECIDERS, Decider, Deciders
from contextopt.gateway.decisions import Composed, PromptTask, compose, log_composed, settled, warm_up
from contextopt.gateway.exchanges import Exchange
from contextopt.gateway.insertion import Changes, Known, change_prompt, splice
from contextopt.gateway.models import Mode, Reason
from contextopt.gateway.promptlog import until_answered
from contextopt.gateway.protocols.history import cut_spans
from contextopt.gateway.protocols.prompts import Prompt, TooLargeError, UnreadablePromptError
from contextopt.gateway.protocols.reading import read_prompt
from contextopt.gateway.recognition import (
    BlockTexts,
    Conversation,
    Conversations,
    Plan,
    held_cut,
    load_texts,
    mode_of,
    name_conversation,
    place_at,
    place_of,
    recall,
)
from contextopt.gateway.relay import has_upstream
from contextopt.gateway.threads import in_thread
from contextopt.sql import DATABASE_UNREACHABLE
from contextopt.strictjson import has_more_values

LIMIT_SECONDS = 0.15
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
    _composing: int = 0
    _usual_seconds: float = 0.0

    async def start(self) -> None:
        """Load what contexts need and draw ids, so that the first prompt does not wait for it."""
        if not has_upstream():
            return
        begun = [
            asyncio.create_task(self._draw()),
            *(asyncio.wrap_future(decider.submit(warm_up)) for decider in self.deciders.all),
        ]
        await asyncio.wait(begun, timeout=START_SECONDS)
        for work in begun:
            if not work.done() or work.exception() is not None:
                log.warning("gateway_started_cold")

    async def prepare(self, exchange: Exchange, body: bytes, conversation_name: str) -> bytes:
        """Return the bytes to forward, and note in the exchange what was done."""
        work = asyncio.create_task(self._prepare(exchange, body, conversation_name))
        await asyncio.wait([work])
        if (error := work.exception()) is None:
            return work.result()
        log.error("gateway_preparation_failed", exc_info=error)
        exchange.reason, exchange.is_inserted, exchange.plan = Reason.FAILED, False, None
        return body

    async def _prepare(self, exchange: Exchange, body: bytes, conversation_name: str) -> bytes:
        deadline = time.monotonic() + LIMIT_SECONDS
        admission = exchange.admission
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                exchange.prompt = await self._read(exchange, body)
        except TimeoutError:
            exchange.reason = Reason.TIMEOUT
            return body
        except TooLargeError:
            exchange.reason = Reason.TOO_LARGE
            return body
        except UnreadablePromptError:
            exchange.reason = Reason.UNREADABLE
            return body
        if admission.space is None:
            exchange.reason = admission.reason or Reason.NO_SPACE
        elif not exchange.prompt.turns:
            exchange.reason = Reason.NO_QUESTION
        else:
            name = name_conversation(admission, conversation_name, exchange.prompt)
            exchange.mode = mode_of(admission, name)
            exchange.conversation = self.conversations.find(name, exchange.mode)
            if exchange.mode == Mode.INSERT:
                return await self._insert(exchange, exchange.prompt, exchange.conversation, body, deadline)
            self._audit(exchange, exchange.prompt, exchange.conversation)
        return body

    async def _read(self, exchange: Exchange, body: bytes) -> Prompt:
        if len(body) <= READ_AT_ONCE_BYTES and not has_more_values(body, READ_AT_ONCE_VALUES):
            return read_prompt(exchange.protocol, body)
        return await in_thread(self._readers, read_prompt, exchange.protocol, body)

    def _audit(self, exchange: Exchange, prompt: Prompt, conversation: Conversation) -> None:
        """Draw an id for the context that would have been inserted, or reuse that of the same question."""
        place = place_of(prompt)
        if conversation.drawn is not None and conversation.drawn[0] == place:
            exchange.drawn_id = conversation.drawn[1]
        elif prompt.ends_in_tool_results:
            exchange.reason = Reason.TOOL_RESULTS
        else:
            exchange.drawn_id = self._take_id()
            if exchange.drawn_id is None:
                exchange.reason = Reason.UNAVAILABLE
            else:
                exchange.is_new_question, conversation.drawn = True, (place, exchange.drawn_id)

    async def _insert(
        self, exchange: Exchange, prompt: Prompt, conversation: Conversation, body: bytes, deadline: float
    ) -> bytes:
        plan = conversation.plan
        known = Known(plan, self._texts.find(plan.blocks) if plan else {})
        work = asyncio.create_task(self._learn_contexts(exchange, prompt, conversation, known, deadline))
        await asyncio.wait([work], timeout=deadline - time.monotonic())
        if not work.done():
            # Work that has not started is cancelled. The rest finishes, but its context is not used.
            work.cancel()
        elif (error := work.exception()) is not None:
            is_unreachable = isinstance(error, DATABASE_UNREACHABLE)
            known.reason = Reason.UNAVAILABLE if is_unreachable else Reason.FAILED
            if not is_unreachable:
                log.error("gateway_context_failed", exc_info=error)
        is_limited = exchange.admission.policy.history_tokens is not None
        held = held_cut(prompt, conversation.cut) if is_limited else 0
        changes = change_prompt(prompt, known, conversation.name, held)
        self._note(exchange, prompt, conversation, known, changes)
        return splice(body, changes.splices, cut_spans(prompt, changes.cut_turn))

    async def _learn_contexts(
        self, exchange: Exchange, prompt: Prompt, conversation: Conversation, known: Known, deadline: float
    ) -> None:
        """Find the blocks of the prompt's conversation, and have a context decided for a new question."""
        admission = exchange.admission
        is_in_time = self._is_in_time(deadline)
        self._composing += is_in_time
        try:
            pool = self._pool if is_in_time else self._late
            known.plan = await _recall(pool, admission, prompt, conversation)
            if admission.policy.history_tokens is None:
                known.composed = settled(prompt, known.plan)
            work = [self._read_texts(pool, admission, prompt, known)]
            if known.composed is None and is_in_time:
                work.append(self._compose(admission, prompt, conversation, known, deadline))
            for error in await asyncio.gather(*work, return_exceptions=True):
                if error is not None:
                    raise error
        finally:
            self._composing -= is_in_time

    async def _read_texts(self, pool: Executor, admission: Admission, prompt: Prompt, known: Known) -> None:
        """Read the blocks' texts from the log: a record in them may have been purged since they were sent."""
        ids = known.plan.standing(prompt) if known.plan else {}
        known.texts = self._texts.find(ids)
        if ids:
            with suppress(*DATABASE_UNREACHABLE):
                known.texts = await in_thread(pool, load_texts, admission.key.team_id, ids)

    async def _compose(
        self, admission: Admission, prompt: Prompt, conversation: Conversation, known: Known, deadline: float
    ) -> None:
        """Have a context decided if the question is new, and the history cut if the space sets a limit."""
        is_new = settled(prompt, known.plan) is None
        drawn_id = (self._take_id() or await self._draw_one()) if is_new else None
        task = PromptTask(admission, prompt, conversation.name, known.plan, conversation.cut, drawn_id)
        decider = self.deciders.least_busy()
        work = decider.submit(compose, task, deadline)
        work.add_done_callback(self._learn)
        known.composed, known.decider = await asyncio.wrap_future(work), decider

    def _is_in_time(self, deadline: float) -> bool:
        """Tell whether another context can be expected in time. If not, waiting would only delay this prompt
        and those behind it.
        """
        left = deadline - time.monotonic()
        before = self._composing / DECIDERS
        return left > 0 and (self._composing < DECIDERS or (before + 1) * self._usual_seconds < left)

    def _learn(self, work: Future[Composed]) -> None:
        """Update the average with a context's time, even if it came too late."""
        if work.cancelled() or work.exception() is not None:
            return
        if (seconds := work.result().seconds) is not None:
            self._usual_seconds += NEWEST_SHARE * (seconds - self._usual_seconds)

    def _note(
        self, exchange: Exchange, prompt: Prompt, conversation: Conversation, known: Known, changes: Changes
    ) -> None:
        """Note what was done, and have a new context logged."""
        plan = changes.plan
        exchange.plan, exchange.reason = plan, changes.reason
        exchange.is_inserted = plan is not None and bool(changes.splices)
        exchange.put_back = () if plan else tuple(changes.texts.values())
        exchange.cut = place_at(prompt, changes.cut_turn) if changes.cut_turn else None
        self._texts.keep(changes.texts)
        composed = known.composed
        if composed is not None and composed.cut_turn is not None:
            conversation.cut = exchange.cut
        if composed is not None and composed.is_new and plan is not None and known.decider is not None:
            conversation.plan = plan
            logged = self._log(known.decider, plan.assembly_id, exchange)
            exchange.context_logged = conversation.logged = asyncio.create_task(logged)

    async def _log(self, decider: Decider, drawn_id: int, exchange: Exchange) -> bool:
        """Log a context while its answer is on its way. Return whether it was logged."""
        parent = exchange.parent
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


async def _recall(
    pool: Executor, admission: Admission, prompt: Prompt, conversation: Conversation
) -> Plan | None:
    """Return the plan that the prompt goes on with, from the log if it is not remembered."""
    if conversation.logged is not None and not await asyncio.shield(conversation.logged):
        # The latest context was lost, so only the log knows the conversation.
        conversation.plan, conversation.is_loaded, conversation.logged = None, False, None
    if conversation.needs_log(prompt):
        found = await in_thread(pool, recall, admission, conversation)
        conversation.plan = conversation.plan or found.plan
        conversation.cut = conversation.cut or found.cut
    conversation.is_loaded = True
    plan = conversation.plan
    if plan is not None and prompt.ends_in_tool_results and not plan.is_for(prompt):
        # The user went back to an earlier question, or the question has no context.
        earlier = await in_thread(pool, recall, admission, conversation, place_of(prompt))
        return earlier.plan or plan
    return plan
