"""A prompt and its answer on their way through the gateway: who sent it, and what became of it."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID, uuid4

from django.utils import timezone

from contextopt.gateway.admission import Admission
from contextopt.gateway.models import Mode, Outcome, Protocol, Reason
from contextopt.gateway.protocols.answers import AnswerCopy
from contextopt.gateway.protocols.prompts import Prompt
from contextopt.gateway.recognition import BlockPlace, Conversation, Plan
from contextopt.telemetry.spans import OpenExchange, Parent


@dataclass
class Exchange:
    """One prompt and its answer, as far as they are known yet."""

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
    # The earlier blocks that went back to their places without a new context.
    put_back: tuple[str, ...] = ()
    cut: BlockPlace | None = None
    context_logged: asyncio.Future[bool] | None = None
    outcome: Outcome = Outcome.UNREACHABLE
    status_code: int | None = None
    answer: AnswerCopy = field(default_factory=AnswerCopy)
    added_ms: float = 0.0
    first_byte_ms: float | None = None
    total_ms: float = 0.0
    url: str = ""
    opened: OpenExchange | None = None

    def arrive(self, size_bytes: int) -> None:
        """Start the clock when the whole request has arrived."""
        self.request_bytes, self.started = size_bytes, time.perf_counter()

    def begin_answer(self, status: int, headers: Mapping[str, str]) -> None:
        self.status_code, self.outcome = status, Outcome.BROKEN
        self.answer = AnswerCopy.under(headers)

    def add(self, chunk: bytes) -> None:
        if self.first_byte_ms is None:
            self.first_byte_ms = self.elapsed_ms()
        self.answer.add(chunk)

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
        """The parent span for those of the request's context."""
        return self.opened.parent if self.opened else None

    @property
    def assembly_id(self) -> int | None:
        """The assembly that the answer names."""
        return self.plan.assembly_id if self.plan else self.drawn_id
