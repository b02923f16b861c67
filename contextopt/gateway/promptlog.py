"""Logs prompts in the background, after their answers, and reports them to OpenTelemetry.

The queue is bounded. Entries that don't fit, or are refused for good, are counted and the count is stored, so
that nothing is lost silently. The log waits until the database is back after an outage.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus

import structlog
from django.db import transaction

from contextopt.assemblies.models import Assembly
from contextopt.assemblies.tokenfactors import choose_tokenizer
from contextopt.chat.endpoint import ANSWER_MAX_CHARS
from contextopt.chat.models import MESSAGE_MAX
from contextopt.engine.text.encodings import CL100K
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.gateway.deciders import Deciders, PromptTask, foresee
from contextopt.gateway.insertion import place_at, place_of, recall
from contextopt.gateway.modelanswers import Answer
from contextopt.gateway.models import (
    ANSWER_ID_MAX,
    GatewayGap,
    GatewayRequest,
    Keep,
    Mode,
    Outcome,
    Protocol,
)
from contextopt.gateway.preparation import Arrival, Prepared
from contextopt.gateway.prompts import Sizes, count_tokens
from contextopt.gateway.relay import Relayed
from contextopt.gateway.tokenratios import is_teaching, learn_ratio
from contextopt.inputs import make_storable
from contextopt.limits import MODEL_MAX
from contextopt.locks import hold_space, unless_deleted
from contextopt.people.models import Team
from contextopt.sql import DATABASE_UNREACHABLE, in_thread, until_answered
from contextopt.telemetry import ExchangeReport, end_exchange

QUEUE_MAX = 10_000
QUEUE_MAX_BYTES = 128 * 2**20
# One per decider, since a lane mostly waits for a decider.
CONVERSATION_LANES = 2
CLOSE_SECONDS = 4.0

log = structlog.get_logger(__name__)


@dataclass
class RequestJob:
    """Logs a request after its answer. In audit mode, its context is decided only now.

    A second try writes nothing twice.
    """

    arrival: Arrival
    prepared: Prepared
    relayed: Relayed
    deciders: Deciders

    @property
    def team_id(self) -> int:
        return self.arrival.admission.key.team_id

    @property
    def size_bytes(self) -> int:
        # The prompt's texts take about as much as its bytes.
        texts = self.arrival.size_bytes if self.prepared.prompt is not None else 0
        return texts + len(self.relayed.answer.head)

    @property
    def lane(self) -> int | None:
        """One number per conversation; None for a request outside any."""
        conversation = self.prepared.conversation
        return int(conversation.name[:8], 16) if conversation else None

    @property
    def after(self) -> asyncio.Future[bool] | None:
        """Ends once the inserted context is logged, which this row refers to."""
        return self.prepared.context_logged

    def write(self) -> None:
        arrival, admission = self.arrival, self.arrival.admission
        wants_text = admission.policy.keep == Keep.ALL
        answer = self.relayed.answer.read(arrival.protocol, wants_text=wants_text)
        is_audit = self.prepared.mode == Mode.AUDIT
        if is_audit and (self.prepared.drawn_id is not None or self.prepared.is_without_question):
            self.prepared = self._foresee()
        row = None
        with unless_deleted(), transaction.atomic():
            if admission.space is not None:
                hold_space(admission.space.id)
            row = self._row(answer)
            GatewayRequest.objects.bulk_create([row], ignore_conflicts=True)
            self._learn(row, answer)
        if arrival.opened is not None and row is not None:
            end_exchange(arrival.opened, self._report(row, answer.model))

    def _foresee(self) -> Prepared:
        """Find the context that would have been inserted. Have one decided if the question is new."""
        prepared, admission = self.prepared, self.arrival.admission
        if prepared.plan is not None:
            # An earlier try has found it.
            return prepared
        prompt, conversation = prepared.prompt, prepared.conversation
        assert prompt is not None
        assert conversation is not None
        if conversation.needs_log(prompt):
            # Tool results may belong to a question from before a restart. They have its context.
            conversation.plan, conversation.cut = recall(admission, conversation)
        conversation.is_loaded = True
        earlier, cut = conversation.plan, conversation.cut
        if earlier is not None and earlier.is_for(prompt):
            return replace(prepared, plan=earlier, reason=None)
        if prepared.is_without_question:
            # The user may have gone back to an earlier question.
            plan = recall(admission, conversation, place_of(prompt)).plan
            return replace(prepared, plan=plan, reason=None if plan else prepared.reason)
        if not prepared.is_new_question:
            return prepared
        task = PromptTask(admission, prompt, conversation.name, earlier, cut, prepared.drawn_id)
        foreseen = self.deciders.run(foresee, task, self.arrival.parent)
        conversation.cut = place_at(prompt, foreseen.cut_turn) if foreseen.cut_turn else None
        conversation.plan = foreseen.plan or earlier
        reason = foreseen.reason or prepared.reason
        return replace(prepared, plan=foreseen.plan, reason=reason, cut=conversation.cut)

    def _outcome(self, answer: Answer) -> Outcome:
        """Return what became of the answer. A client may leave at a stream's last event, as OpenAI's does, or
        as soon as it sees the status of an error.
        """
        outcome, status = self.relayed.outcome, self.relayed.answer.status_code
        is_refused = status is not None and status >= HTTPStatus.BAD_REQUEST
        if answer.is_failed and status is not None and not is_refused:
            # An answer that has begun can report a failure only in its body.
            return Outcome.BROKEN
        has_all = answer.is_ended or is_refused
        return Outcome.ANSWERED if outcome == Outcome.ABANDONED and has_all else outcome

    def _row(self, answer: Answer) -> GatewayRequest:
        arrival, prepared, relayed = self.arrival, self.prepared, self.relayed
        admission, usage = arrival.admission, answer.usage
        prompt, plan, cut = prepared.prompt, prepared.plan, prepared.cut
        keep = admission.policy.keep
        model = make_storable(prompt.model)[:MODEL_MAX] if prompt else ""
        tokenizer = choose_tokenizer(self.team_id, model=model, encoding=None)
        count = partial(count_tokens, tokenizer=tokenizer)
        place = place_of(prompt) if prompt and prompt.turns else None
        question = prompt.turns[-1].text if prompt and prompt.turns and keep != Keep.SIZES else ""
        return GatewayRequest(
            uid=arrival.uid,
            team_id=self.team_id,
            api_key_id=admission.key.pk,
            space_id=admission.space.id if admission.space else None,
            assembly=Assembly.objects.only("pk").filter(pk=plan.assembly_id).first() if plan else None,
            protocol=arrival.protocol,
            model=model,
            is_streamed=prompt.is_streamed if prompt else relayed.answer.is_stream,
            mode=prepared.mode,
            is_inserted=prepared.is_inserted,
            reason=prepared.reason or "",
            outcome=self._outcome(answer),
            status_code=relayed.answer.status_code,
            answer_id=make_storable(answer.id)[:ANSWER_ID_MAX],
            conversation=prepared.conversation.name if prepared.conversation else "",
            turn=place.turn if place else None,
            question_hash=place.digest if place else "",
            is_own_part=plan is not None and plan.assembly_id in plan.own_parts,
            cut_turn=cut.turn if cut else None,
            cut_hash=cut.digest if cut else "",
            request_bytes=arrival.size_bytes,
            answer_bytes=relayed.answer.size_bytes,
            prompt_tokens=Sizes.of(prompt, tokenizer).all if prompt else None,
            context_tokens=plan.tokens if plan else sum(map(count, prepared.blocks)) or None,
            input_tokens=usage.input,
            cached_tokens=usage.cached,
            cache_write_tokens=usage.cache_write,
            output_tokens=usage.output,
            added_ms=relayed.added_ms,
            time_limit_ms=admission.policy.time_limit_ms if prepared.is_late else None,
            first_byte_ms=relayed.first_byte_ms,
            total_ms=relayed.total_ms,
            question=make_storable(question)[:MESSAGE_MAX],
            answer=make_storable(answer.text)[:ANSWER_MAX_CHARS] if keep == Keep.ALL else "",
            created_at=arrival.created_at,
        )

    def _learn(self, row: GatewayRequest, answer: Answer) -> None:
        """Compare the provider's count with ours, if nothing was left out of the prompt that we counted."""
        prompt, arrival = self.prepared.prompt, self.arrival
        is_whole = prompt is not None and row.outcome == Outcome.ANSWERED and row.cut_turn is None
        if prompt is None or not is_whole or not is_teaching(prompt, arrival.protocol, answer.usage):
            return
        tokenizer = get_tokenizer(CL100K)
        blocks = self.prepared.blocks
        counted = Sizes.of(prompt, tokenizer).all + sum(count_tokens(text, tokenizer) for text in blocks)
        learn_ratio(
            team_id=self.team_id,
            model=row.model,
            texts=[*prompt.texts, *blocks],
            counted=counted,
            reported=answer.usage.input or 0,
            moment=arrival.created_at,
        )

    def _report(self, row: GatewayRequest, answer_model: str) -> ExchangeReport:
        """Return the report of a logged prompt. It has only the texts that the space keeps."""
        space = self.arrival.admission.space
        return ExchangeReport(
            provider="anthropic" if row.protocol == Protocol.MESSAGES else "openai",
            url=self.arrival.url,
            team_id=row.team_id,
            seconds=row.total_ms / 1_000,
            mode=row.mode,
            status=self.prepared.status,
            reason=row.reason,
            outcome=row.outcome,
            http_status=row.status_code,
            model=row.model,
            answer_model=answer_model,
            answer_id=row.answer_id,
            conversation=row.conversation,
            space=space.slug if space else "",
            is_streamed=row.is_streamed,
            first_byte_seconds=None if row.first_byte_ms is None else row.first_byte_ms / 1_000,
            added_seconds=row.added_ms / 1_000,
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
            cached_tokens=row.cached_tokens,
            written_tokens=row.cache_write_tokens,
            question=row.question,
            answer=row.answer,
        )


@dataclass
class Log:
    """Lanes of jobs. Each lane writes one job at a time, so that conversations stay in order.

    Jobs outside any conversation use the last lane, where nothing waits for a decider.
    """

    waiting: int = 0
    bytes_waiting: int = 0
    lost: dict[int, int] = field(default_factory=dict)
    _lanes: tuple[asyncio.Queue[RequestJob], ...] = field(
        default_factory=lambda: tuple(asyncio.Queue() for _ in range(CONVERSATION_LANES + 1))
    )
    _pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(CONVERSATION_LANES + 1, "gateway-log")
    )
    _running: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self) -> None:
        self._running = [asyncio.create_task(self._empty(lane)) for lane in self._lanes]

    def put(self, job: RequestJob) -> None:
        if self.waiting >= QUEUE_MAX or self.bytes_waiting + job.size_bytes > QUEUE_MAX_BYTES:
            self._lose(job, "queue_full")
            return
        self.waiting += 1
        self.bytes_waiting += job.size_bytes
        self._lanes[-1 if job.lane is None else job.lane % CONVERSATION_LANES].put_nowait(job)

    async def close(self) -> None:
        """Write what is queued, for a few seconds at most."""
        deadline = asyncio.get_running_loop().time() + CLOSE_SECONDS
        while self.waiting and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.05)
        for lane in self._running:
            lane.cancel()
        if self.waiting:
            log.error("gateway_log_incomplete", requests=self.waiting)

    async def _empty(self, lane: asyncio.Queue[RequestJob]) -> None:
        while True:
            job = await lane.get()
            await self._write(job)
            self.waiting -= 1
            self.bytes_waiting -= job.size_bytes
            if lane.empty():
                await self._store_lost()

    async def _write(self, job: RequestJob) -> None:
        """Write one job, and retry as long as the database cannot be reached."""
        if job.after is not None:
            await asyncio.wait([job.after])
        error = await until_answered(lambda: in_thread(self._pool, job.write))
        if error is not None:
            self._lose(job, type(error).__name__, error)

    def _lose(self, job: RequestJob, why: str, error: BaseException | None = None) -> None:
        log.error("gateway_request_not_logged", reason=why, exc_info=error)
        self.lost[job.team_id] = self.lost.get(job.team_id, 0) + 1

    async def _store_lost(self) -> None:
        if not self.lost:
            return
        lost, self.lost = self.lost, {}
        task = asyncio.create_task(in_thread(self._pool, _store_gaps, lost))
        await asyncio.wait([task])
        if (error := task.exception()) is None:
            return
        self.lost = {team: lost.get(team, 0) + self.lost.get(team, 0) for team in {*lost, *self.lost}}
        if not isinstance(error, DATABASE_UNREACHABLE):
            log.error("gateway_gaps_not_stored", exc_info=error)


@transaction.atomic
def _store_gaps(lost: dict[int, int]) -> None:
    """Store all counts or none, so that a second try counts nothing twice; deleted teams need none."""
    teams = Team.objects.select_for_update(no_key=True).filter(pk__in=lost).order_by("pk")
    GatewayGap.objects.bulk_create(GatewayGap(team=team, requests=lost[team.pk]) for team in teams)
