"""Logs prompts after their answers, and reports them to OpenTelemetry."""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus

from django.db import transaction

from contextopt.assemblies.models import Assembly
from contextopt.chat.endpoint import ANSWER_MAX_CHARS
from contextopt.chat.models import MESSAGE_MAX
from contextopt.gateway.counts import count_tokens
from contextopt.gateway.deciders import Deciders
from contextopt.gateway.decisions import PromptTask, Sizes, foresee
from contextopt.gateway.exchanges import Exchange
from contextopt.gateway.models import ANSWER_ID_MAX, GatewayRequest, Keep, Mode, Outcome, Protocol, Reason
from contextopt.gateway.protocols.answers import Answer
from contextopt.gateway.protocols.prompts import Prompt
from contextopt.gateway.recognition import place_at, place_of, recall
from contextopt.inputs import make_storable
from contextopt.limits import MODEL_MAX
from contextopt.locks import hold_space, unless_deleted
from contextopt.telemetry.spans import ExchangeReport, end_exchange

_MS = 1_000


@dataclass
class RequestJob:
    """Logs a request after its answer. In audit mode, its context is decided only now."""

    exchange: Exchange
    deciders: Deciders

    @property
    def team_id(self) -> int:
        return self.exchange.admission.key.team_id

    @property
    def size_bytes(self) -> int:
        # The prompt's texts take about as much as its bytes.
        return self.exchange.request_bytes * (self.exchange.prompt is not None) + len(
            self.exchange.answer.head
        )

    @property
    def lane(self) -> int | None:
        conversation = self.exchange.conversation
        return int(conversation.name[:8], 16) if conversation else None

    @property
    def after(self) -> asyncio.Future[bool] | None:
        """Ends once the inserted context is logged, which this row refers to."""
        return self.exchange.context_logged

    def write(self) -> None:
        exchange = self.exchange
        wants_text = exchange.admission.policy.keep == Keep.ALL
        answer = exchange.answer.read(exchange.protocol, wants_text=wants_text)
        if exchange.mode == Mode.AUDIT and (
            exchange.drawn_id is not None or exchange.reason == Reason.TOOL_RESULTS
        ):
            self._foresee()
        row = None
        with unless_deleted(), transaction.atomic():
            if exchange.admission.space is not None:
                hold_space(exchange.admission.space.id)
            row = self._row(answer)
            GatewayRequest.objects.bulk_create([row], ignore_conflicts=True)
        if exchange.opened is not None and row is not None:
            space = exchange.admission.space
            named = {"space": space.slug if space else "", "url": exchange.url, "status": exchange.status}
            end_exchange(exchange.opened, _report(row, answer=answer, **named))

    def _foresee(self) -> None:
        """Find the context that would have been inserted. Have one decided if the question is new."""
        exchange = self.exchange
        prompt, conversation = exchange.prompt, exchange.conversation
        assert prompt is not None
        assert conversation is not None
        if conversation.needs_log(prompt):
            # Tool results may belong to a question from before a restart. They have its context.
            conversation.plan, conversation.cut = recall(exchange.admission, conversation)
        conversation.is_loaded = True
        task = PromptTask(
            exchange.admission, prompt, conversation.name, conversation.plan, conversation.cut,
            exchange.drawn_id,
        )  # fmt: skip
        if exchange.plan is None and task.is_repeat:
            exchange.plan, exchange.reason = conversation.plan, None
        elif exchange.plan is None and exchange.reason == Reason.TOOL_RESULTS:
            # The user may have gone back to an earlier question.
            exchange.plan = recall(exchange.admission, conversation, place_of(prompt)).plan
            exchange.reason = None if exchange.plan else exchange.reason
        if exchange.plan is not None or not exchange.is_new_question:
            return
        foreseen = self.deciders.run(foresee, task, exchange.parent)
        exchange.reason = foreseen.reason or exchange.reason
        exchange.cut = conversation.cut = place_at(prompt, foreseen.cut_turn) if foreseen.cut_turn else None
        if foreseen.plan is not None:
            exchange.plan = conversation.plan = foreseen.plan

    def _outcome(self, answer: Answer) -> Outcome:
        """Return what became of the answer. A client may leave at a stream's last event, as OpenAI's does, or
        as soon as it sees the status of an error.
        """
        outcome, status = self.exchange.outcome, self.exchange.status_code
        is_refused = status is not None and status >= HTTPStatus.BAD_REQUEST
        if answer.is_failed and status is not None and not is_refused:
            # An answer that has begun can report a failure only in its body.
            return Outcome.BROKEN
        has_all = answer.is_ended or is_refused
        return Outcome.ANSWERED if outcome == Outcome.ABANDONED and has_all else outcome

    def _row(self, answer: Answer) -> GatewayRequest:
        exchange = self.exchange
        usage, prompt, plan, cut = answer.usage, exchange.prompt, exchange.plan, exchange.cut
        put_back = sum(map(count_tokens, exchange.put_back)) or None
        keep = Keep(exchange.admission.policy.keep)
        space = exchange.admission.space
        place = place_of(prompt) if prompt and prompt.turns else None
        return GatewayRequest(
            uid=exchange.uid,
            team_id=self.team_id,
            api_key_id=exchange.admission.key.pk,
            space_id=space.id if space else None,
            assembly=Assembly.objects.only("pk").filter(pk=plan.assembly_id).first() if plan else None,
            protocol=exchange.protocol,
            model=make_storable(prompt.model)[:MODEL_MAX] if prompt else "",
            is_streamed=prompt.is_streamed if prompt else exchange.answer.is_stream,
            mode=exchange.mode,
            is_inserted=exchange.is_inserted,
            reason=exchange.reason or "",
            outcome=self._outcome(answer),
            status_code=exchange.status_code,
            answer_id=make_storable(answer.id)[:ANSWER_ID_MAX],
            conversation=exchange.conversation.name if exchange.conversation else "",
            turn=place.turn if place else None,
            question_hash=place.digest if place else "",
            cut_turn=cut.turn if cut else None,
            cut_hash=cut.digest if cut else "",
            request_bytes=exchange.request_bytes,
            answer_bytes=exchange.answer.size_bytes,
            prompt_tokens=Sizes.of(prompt).all if prompt else None,
            context_tokens=plan.tokens if plan else put_back,
            input_tokens=usage.input,
            cached_tokens=usage.cached,
            cache_write_tokens=usage.cache_write,
            output_tokens=usage.output,
            added_ms=exchange.added_ms,
            first_byte_ms=exchange.first_byte_ms,
            total_ms=exchange.total_ms,
            question=_question(prompt) if keep != Keep.SIZES else "",
            answer=make_storable(answer.text)[:ANSWER_MAX_CHARS] if keep == Keep.ALL else "",
            created_at=exchange.created_at,
        )


def _question(prompt: Prompt | None) -> str:
    return make_storable(prompt.turns[-1].text)[:MESSAGE_MAX] if prompt and prompt.turns else ""


def _report(row: GatewayRequest, *, answer: Answer, space: str, url: str, status: str) -> ExchangeReport:
    """Return the report of a logged prompt. It has only the texts that the space keeps."""
    return ExchangeReport(
        provider="anthropic" if row.protocol == Protocol.MESSAGES else "openai",
        url=url,
        team_id=row.team_id,
        seconds=row.total_ms / _MS,
        mode=row.mode,
        status=status,
        reason=row.reason,
        outcome=row.outcome,
        http_status=row.status_code,
        model=row.model,
        answer_model=answer.model,
        answer_id=row.answer_id,
        conversation=row.conversation,
        space=space,
        is_streamed=row.is_streamed,
        first_byte_seconds=None if row.first_byte_ms is None else row.first_byte_ms / _MS,
        added_seconds=row.added_ms / _MS,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        cached_tokens=row.cached_tokens,
        written_tokens=row.cache_write_tokens,
        question=row.question,
        answer=row.answer,
    )
