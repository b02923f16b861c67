"""Plays a conversation under a placement: what its prompts cost, and which records they show."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from contextopt.engine.placement.blocks import Sight, read_block
from contextopt.engine.placement.choice import Conversation, LastPrompt, Place, Split, place_context
from contextopt.engine.rendering import record_lines
from contextopt.engine.text.tokens import Tokenizer
from contextopt.engine.values import Assembled


@dataclass(frozen=True, slots=True)
class Turn:
    """A question of the conversation. `decide` builds its context for what is in sight.

    `versions` maps the candidates' ids to their versions.
    """

    question_tokens: int
    decide: Callable[[Sight], Assembled]
    versions: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Played:
    """A prompt that was played: its split by the cache, its cost, and the lines in sight by record id."""

    split: Split
    cost: float
    new_tokens: int
    carried_tokens: int
    lines: Mapping[int, str]


def play(
    turns: Sequence[Turn],
    request: Place,
    tokenizer: Tokenizer,
    *,
    system_tokens: int,
    answer_tokens: int,
) -> Iterator[Played]:
    """Yield the conversation's prompts, each sent before the cache expires. History is never cut."""
    conversation = Conversation(system_tokens)
    shown: dict[int, dict[int, str]] = {}
    for number, turn in enumerate(turns):
        conversation = replace(conversation, question_tokens=turn.question_tokens)
        placed = place_context(request, conversation, turn.decide)
        outcome = placed.outcome
        shown[number] = record_lines(outcome.text, outcome.order)
        yield Played(
            placed.split,
            placed.cost,
            placed.outcome.certificate.tokens_at_most,
            placed.sight.tokens,
            _in_sight([*(shown[block.id] for block in placed.kept), shown[number]]),
        )
        block = read_block(
            number,
            outcome.text,
            [(record_id, turn.versions[record_id]) for record_id in outcome.order],
            tokenizer,
            after_tokens=conversation.history_tokens,
            question_tokens=turn.question_tokens,
        )
        conversation = Conversation(
            system_tokens,
            conversation.history_tokens + turn.question_tokens + answer_tokens,
            blocks=(*placed.kept, block) if placed.carries_on else (),
            last=LastPrompt(
                placed.placement,
                outcome.text,
                system_tokens,
                conversation.history_tokens,
                turn.question_tokens,
                number,
            ),
        )


def _in_sight(blocks: Sequence[Mapping[int, str]]) -> dict[int, str]:
    """Join the lines that show the same record in several blocks."""
    lines: dict[int, str] = {}
    for block in blocks:
        for record_id, line in block.items():
            before = lines.get(record_id)
            lines[record_id] = line if before is None else f"{before.rstrip()} {line}"
    return lines
