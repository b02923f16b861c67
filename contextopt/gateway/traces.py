"""Tells OpenTelemetry of the prompts that passed."""

from contextopt.gateway.models import GatewayRequest, Protocol
from contextopt.gateway.protocols.answers import Answer
from contextopt.telemetry.spans import Exchange

_MS = 1_000


def exchange_of(row: GatewayRequest, *, answer: Answer, space: str, url: str, status: str) -> Exchange:
    """Return what a logged prompt tells. Texts are those that its space keeps."""
    return Exchange(
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
