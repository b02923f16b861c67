"""A request on its way through the gateway, and how it is logged after its answer."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID, uuid4

from django.db import transaction
from django.utils import timezone

from contextopt.assemblies.models import Assembly
from contextopt.chat.endpoint import ANSWER_MAX_CHARS
from contextopt.chat.models import MESSAGE_MAX
from contextopt.gateway.admission import Admission
from contextopt.gateway.contexts import PromptTask, Sizes, foresee
from contextopt.gateway.conversations import Conversation, Plan, load_plan, place_of
from contextopt.gateway.deciders import Deciders
from contextopt.gateway.models import (
    ANSWER_ID_MAX,
    MODEL_MAX,
    GatewayRequest,
    Keep,
    Mode,
    Outcome,
    Protocol,
    Reason,
)
from contextopt.gateway.protocols.answers import Answer, read_answer
from contextopt.gateway.protocols.prompts import Prompt
from contextopt.gateway.traces import exchange_of
from contextopt.inputs import make_storable
from contextopt.locks import hold_space, unless_deleted
from contextopt.telemetry.spans import OpenExchange, Parent, end_exchange

# Usage stands at an answer's beginning or end. A long answer's middle is not kept.
HEAD_BYTES = 2**20
TAIL_BYTES = 2**18


@dataclass(slots=True)
class Copy:
    """A copy of an answer, to read its usage from: all of it, or its beginning and its end."""

    size_bytes: int = 0
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)

    def add(self, chunk: bytes) -> None:
        self.size_bytes += len(chunk)
        room = HEAD_BYTES - len(self.head)
        self.head += chunk[:room]
        self.tail += chunk[max(room, 0) :]
        if len(self.tail) > 2 * TAIL_BYTES:
            del self.tail[:-TAIL_BYTES]

    @property
    def content(self) -> bytes:
        return bytes(self.head + self.tail)


@dataclass
class Passage:
    """One request: who sent it, what it asks, and what became of it."""

    admission: Admission
    protocol: Protocol
    request_bytes: int = 0
    started: float = field(default_factory=time.perf_counter)
    created_at: datetime = field(default_factory=timezone.now)
    uid: UUID = field(default_factory=uuid4)
    prompt: Prompt | None = None
    conversation: Conversation | None = None
    mode: Mode = Mode.AUDIT
    reason: Reason | None = None
    plan: Plan | None = None
    drawn_id: int | None = None
    is_inserted: bool = False
    is_new_question: bool = False
    context_logged: asyncio.Future[bool] | None = None
    outcome: Outcome = Outcome.UNREACHABLE
    status_code: int | None = None
    encoding: str = ""
    is_stream: bool = False
    copy: Copy = field(default_factory=Copy)
    added_ms: float = 0.0
    first_byte_ms: float | None = None
    total_ms: float = 0.0
    url: str = ""
    opened: OpenExchange | None = None

    def arrive(self, size_bytes: int) -> None:
        """Start the clock: the request is here."""
        self.request_bytes, self.started = size_bytes, time.perf_counter()

    def begin_answer(self, status: int, headers: Mapping[str, str]) -> None:
        self.status_code = status
        self.encoding = headers.get("content-encoding", "")
        self.is_stream = headers.get("content-type", "").startswith("text/event-stream")
        self.outcome = Outcome.BROKEN

    def add(self, chunk: bytes) -> None:
        if self.first_byte_ms is None:
            self.first_byte_ms = self.elapsed_ms()
        self.copy.add(chunk)

    def elapsed_ms(self) -> float:
        return (time.perf_counter() - self.started) * 1_000

    @property
    def status(self) -> str:
        """The value of X-Contextopt-Status."""
        if self.is_inserted:
            return "inserted"
        return self.reason.value if self.reason else self.mode.value

    @property
    def parent(self) -> Parent | None:
        """The span that those of the request's context belong to."""
        return self.opened.parent if self.opened else None

    @property
    def assembly_id(self) -> int | None:
        """The assembly that the answer names."""
        return self.plan.assembly_id if self.plan else self.drawn_id


@dataclass
class RequestJob:
    """Logs a request after its answer. In audit mode, its context is decided only now."""

    passage: Passage
    deciders: Deciders

    @property
    def team_id(self) -> int:
        return self.passage.admission.key.team_id

    @property
    def size_bytes(self) -> int:
        # The prompt's texts take about as much as its bytes.
        return self.passage.request_bytes * (self.passage.prompt is not None) + len(self.passage.copy.head)

    @property
    def lane(self) -> int | None:
        conversation = self.passage.conversation
        return int(conversation.name[:8], 16) if conversation else None

    @property
    def after(self) -> asyncio.Future[bool] | None:
        """Ends once the inserted context is logged, which this row refers to."""
        return self.passage.context_logged

    def write(self) -> None:
        passage = self.passage
        answer = self._read_answer()
        if passage.mode == Mode.AUDIT and (
            passage.drawn_id is not None or passage.reason == Reason.TOOL_RESULTS
        ):
            self._foresee()
        row = None
        with unless_deleted(), transaction.atomic():
            if passage.admission.space is not None:
                hold_space(passage.admission.space.id)
            row = self._row(answer)
            GatewayRequest.objects.bulk_create([row], ignore_conflicts=True)
        if passage.opened is not None and row is not None:
            space = passage.admission.space
            told = {"space": space.slug if space else "", "url": passage.url, "status": passage.status}
            end_exchange(passage.opened, exchange_of(row, answer=answer, **told))

    def _foresee(self) -> None:
        """Name the context that would have been inserted, and have it decided if the question is new."""
        passage = self.passage
        prompt, conversation = passage.prompt, passage.conversation
        assert prompt is not None
        assert conversation is not None
        if conversation.needs_log(prompt):
            # Also tool results of a question that was asked before a restart have its context.
            conversation.plan = load_plan(passage.admission, conversation)
        conversation.is_loaded = True
        task = PromptTask(passage.admission, prompt, conversation.name, conversation.plan, passage.drawn_id)
        if passage.plan is None and task.is_repeat:
            passage.plan, passage.reason = conversation.plan, None
        if passage.plan is not None or not passage.is_new_question:
            return
        foreseen = self.deciders.run(foresee, task, passage.parent)
        passage.reason = foreseen.reason or passage.reason
        if foreseen.plan is not None:
            passage.plan = conversation.plan = foreseen.plan

    def _row(self, answer: Answer) -> GatewayRequest:
        passage = self.passage
        usage, prompt, plan = answer.usage, passage.prompt, passage.plan
        keep = Keep(passage.admission.policy.keep)
        space = passage.admission.space
        place = plan.place if plan else place_of(prompt) if prompt and prompt.turns else None
        return GatewayRequest(
            uid=passage.uid,
            team_id=self.team_id,
            api_key_id=passage.admission.key.pk,
            space_id=space.id if space else None,
            assembly=Assembly.objects.only("pk").filter(pk=plan.assembly_id).first() if plan else None,
            protocol=passage.protocol,
            model=make_storable(prompt.model)[:MODEL_MAX] if prompt else "",
            is_streamed=prompt.is_streamed if prompt else passage.is_stream,
            mode=passage.mode,
            is_inserted=passage.is_inserted,
            reason=passage.reason or "",
            outcome=passage.outcome,
            status_code=passage.status_code,
            answer_id=make_storable(answer.id)[:ANSWER_ID_MAX],
            conversation=passage.conversation.name if passage.conversation else "",
            turn=place.turn if place else None,
            question_hash=place.digest if place else "",
            request_bytes=passage.request_bytes,
            answer_bytes=passage.copy.size_bytes,
            prompt_tokens=Sizes.of(prompt).all if prompt else None,
            context_tokens=plan.tokens if plan else None,
            input_tokens=usage.input,
            cached_tokens=usage.cached,
            cache_write_tokens=usage.cache_write,
            output_tokens=usage.output,
            added_ms=passage.added_ms,
            first_byte_ms=passage.first_byte_ms,
            total_ms=passage.total_ms,
            question=_question(prompt) if keep != Keep.SIZES else "",
            answer=make_storable(answer.text)[:ANSWER_MAX_CHARS] if keep == Keep.ALL else "",
            created_at=passage.created_at,
        )

    def _read_answer(self) -> Answer:
        passage = self.passage
        return read_answer(
            passage.protocol,
            passage.copy.content,
            passage.encoding,
            is_stream=passage.is_stream,
            wants_text=passage.admission.policy.keep == Keep.ALL,
        )


def _question(prompt: Prompt | None) -> str:
    return make_storable(prompt.turns[-1].text)[:MESSAGE_MAX] if prompt and prompt.turns else ""
