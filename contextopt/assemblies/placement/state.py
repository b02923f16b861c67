"""Reads the state of a conversation: the blocks that the caller still holds, and its last prompt."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import cast

from django.db.models import QuerySet
from django.utils import timezone

from contextopt.assemblies.candidates import PreparedRequest
from contextopt.assemblies.log import unpack_givens
from contextopt.assemblies.models import AssemblyPayload, Kind
from contextopt.engine.placement.blocks import Block, read_block
from contextopt.engine.placement.choice import (
    APPEND,
    AUTO,
    SYSTEM,
    CachePrices,
    Conversation,
    LastPrompt,
    Placement,
    PromptSizes,
)
from contextopt.engine.text.tokens import Tokenizer
from contextopt.errors import InvalidInput, NotFound
from contextopt.sql import fetch_one


def load_conversation(asked: PreparedRequest) -> Conversation:
    """Return the conversation before the requested prompt, which names it or blocks of it.

    Raises:
        InvalidInput: blocks are named for a placement that keeps none.
        NotFound: a named block is not an assembly of the space.
    """
    request, space, tokenizer, sizes = asked.request, asked.space, asked.tokenizer, asked.sizes
    system, history, question_tokens = sizes.system or 0, sizes.history or 0, 0
    if request.in_sight and request.placement not in {APPEND, AUTO}:
        raise InvalidInput.of("in_sight", "is only for the placements append and auto")
    named = {"in_sight": request.in_sight, "in_history": request.in_history}
    loaded = {}
    for field, ids in named.items():
        loaded[field] = blocks = _load_blocks(asked.team_id, space.id, ids, tokenizer)
        missing = next((one for one in ids if one not in {block.id for block in blocks}), None)
        if missing is not None:
            raise NotFound(f"There is no assembly {missing} of the space {space.slug!r} ({field}).")
    if request.query:
        question_tokens = tokenizer.count(request.query)
        if request.history is not None and request.history.endswith(request.query):
            history = max(0, history - question_tokens)
    return Conversation(
        system,
        history,
        question_tokens,
        loaded["in_sight"],
        _last_prompt(asked),
        in_history=loaded["in_history"],
    )


def _payloads(team_id: int) -> QuerySet[AssemblyPayload]:
    """Return the team's payloads with their rows, without the columns that measure no prompt."""
    rows = AssemblyPayload.objects.filter(assembly__team=team_id)
    return rows.select_related("assembly").defer("baseline_text", "config")


def _load_blocks(
    team_id: int, space_id: int | None, ids: Sequence[int], tokenizer: Tokenizer
) -> tuple[Block, ...]:
    """Read the named assemblies in their order in the conversation, which is the order of their ids.

    Those that are not contexts of the space are left out.
    """
    if not ids:
        return ()
    contexts = _payloads(team_id).filter(assembly__space=space_id, assembly__kind=Kind.SPACE)
    found = contexts.filter(assembly__in=ids).order_by("assembly_id")
    return tuple(_read(payload, tokenizer) for payload in found)


def block_tokens(payload: AssemblyPayload, tokenizer: Tokenizer) -> int:
    """Return the tokens that a block takes in the caller's prompt, as certified, even if purged since.

    For another tokenizer or other factors, count the stored text.
    """
    factors = payload.ledger.get("token_factors")
    is_same = payload.assembly.encoding == tokenizer.name and factors == tokenizer.factors_json()
    return payload.assembly.new_tokens if is_same or payload.purged_at else tokenizer.count(payload.text)


def _read(payload: AssemblyPayload, tokenizer: Tokenizer) -> Block:
    order: list[int] = payload.ledger["order"]
    versions: dict[int, int] = {}
    # The versions of old assemblies are unknown, so they are never shown.
    if payload.givens is not None:
        wanted = set(order)
        given = unpack_givens(bytes(payload.givens)).records
        versions = {one.id: one.version for one in given if one.is_candidate and one.id in wanted}
    block = read_block(
        payload.assembly_id,
        payload.text,
        [(record_id, versions.get(record_id, 0)) for record_id in order],
        tokenizer,
        after_tokens=_history_before(payload),
        question_tokens=payload.ledger.get("question_tokens", 0),
    )
    return replace(block, tokens=block_tokens(payload, tokenizer))


def _history_before(payload: AssemblyPayload) -> int:
    """Return the tokens of history before the prompt's question."""
    row = payload.assembly
    if row.prompt_tokens is None:
        return int(payload.request.get("history_tokens", 0))
    system, asked = payload.request.get("system_tokens", 0), payload.ledger.get("question_tokens", 0)
    return int(row.prompt_tokens - system - row.tokens_after - asked)


def _last_prompt(asked: PreparedRequest) -> LastPrompt | None:
    """Return the last prompt of the named conversation, or else of the latest block."""
    request, space_id, last_id = asked.request, asked.space.id, None
    if request.conversation:
        # Most conversations have none yet, so avoid the cost of the ORM.
        row = fetch_one(
            """
            SELECT id FROM contextopt_assembly
             WHERE team_id = %s AND space_id = %s AND kind = %s AND conversation = %s AND conversation <> ''
             ORDER BY created_at DESC, id DESC LIMIT 1
            """,
            [asked.team_id, space_id, Kind.SPACE.value, request.conversation],
        )
        last_id = row[0] if row else None
    else:
        last_id = max(request.in_sight, default=None)
    if last_id is None:
        return None
    contexts = _payloads(asked.team_id).filter(assembly__space=space_id, assembly__kind=Kind.SPACE)
    payload = contexts.filter(assembly=last_id).first()
    if payload is None:
        return None
    idle = timezone.now() - payload.assembly.created_at
    return _to_last_prompt(payload, max(0.0, idle.total_seconds()))


def _to_last_prompt(payload: AssemblyPayload, idle_seconds: float) -> LastPrompt:
    return LastPrompt(
        placement=cast("Placement", payload.assembly.placement or SYSTEM),
        text=payload.text,
        system_tokens=payload.request.get("system_tokens", 0),
        history_tokens=_history_before(payload),
        question_tokens=payload.ledger.get("question_tokens", 0),
        block_id=payload.assembly_id,
        idle_seconds=idle_seconds,
    )


def measure_again(payload: AssemblyPayload, tokenizer: Tokenizer) -> PromptSizes | None:
    """Measure a logged prompt again, from its conversation's earlier assemblies and the sizes in its request.

    None if the conversation is unknown, or logged before this could be verified.
    """
    logged = logged_prompt(payload, tokenizer)
    if logged is None:
        return None
    if payload.purged_at is not None or logged.is_purged:
        return PromptSizes(logged.prompt_tokens(payload.assembly.new_tokens))
    return logged.measure(payload.text, payload.assembly.new_tokens, tokenizer)


@dataclass(frozen=True, slots=True)
class LoggedPrompt:
    """A logged prompt without its context: the conversation before it, its placement, and how many of the
    earlier blocks it kept. `last_id` is the assembly of the last prompt; `is_purged` means that its text was
    purged.
    """

    conversation: Conversation
    placement: Placement
    kept: int
    prices: CachePrices
    last_id: int | None
    is_purged: bool

    def prompt_tokens(self, new_tokens: int) -> int:
        return self.conversation.prompt_tokens(self.kept, new_tokens)

    def measure(self, text: str, new_tokens: int, tokenizer: Tokenizer) -> PromptSizes:
        """Return the sizes of the prompt with this context."""
        tokens, prefix = self.prompt_tokens(new_tokens), partial(shared_prefix, tokenizer, after=text)
        shared = min(tokens, self.conversation.shared_tokens(self.placement, self.kept, prefix))
        idle = self.conversation.idle_seconds
        return PromptSizes(tokens, shared, self.prices.split(tokens, shared, idle_seconds=idle))

    def after(self, last_text: str) -> "LoggedPrompt":
        """Return the prompt as it would be if the last one had had this context."""
        last = self.conversation.last
        changed = replace(last, text=last_text) if last else None
        return replace(self, conversation=replace(self.conversation, last=changed), is_purged=False)


def logged_prompt(payload: AssemblyPayload, tokenizer: Tokenizer) -> LoggedPrompt | None:
    """Return the prompt as it was logged; None outside of a conversation."""
    stored = payload.ledger.get("prompt")
    if stored is None:
        return None
    row = payload.assembly
    blocks = _load_blocks(row.team_id, row.space_id, payload.request.get("in_sight", []), tokenizer)
    named = _payloads(row.team_id).filter(assembly=stored["last"])
    last = named.first() if stored["last"] is not None else None
    conversation = Conversation(
        payload.request.get("system_tokens", 0),
        stored["history_tokens"],
        payload.ledger.get("question_tokens", 0),
        blocks,
        _to_last_prompt(last, stored["idle_seconds"]) if last else None,
    )
    return LoggedPrompt(
        conversation,
        cast("Placement", row.placement or SYSTEM),
        len(payload.ledger.get("carried", [])),
        CachePrices(minimum_tokens=stored["minimum_tokens"], lifetime_seconds=stored["lifetime_seconds"]),
        stored["last"],
        last is not None and last.purged_at is not None,
    )


def shared_prefix(tokenizer: Tokenizer, before: str, after: str) -> tuple[int, bool]:
    """Return the tokens of the longest common prefix, and whether the texts are equal."""
    if before == after:
        return tokenizer.count(after), True
    same = takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    return tokenizer.count(after[: sum(1 for _ in same)]), False


def held_blocks(team_id: int, space: str, conversation: str) -> list[int]:
    """Return the blocks that a conversation holds if it drops nothing, as an agent's keeps tool results."""
    rows = AssemblyPayload.objects.filter(
        assembly__team=team_id, assembly__space__slug=space, assembly__conversation=conversation
    ).select_related("assembly")
    payload = rows.order_by("-assembly__created_at", "-assembly_id").first() if conversation else None
    if payload is None or payload.assembly.placement != APPEND:
        return []
    return [*payload.ledger.get("carried", []), payload.assembly_id]
