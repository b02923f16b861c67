"""Decides on the context of a prompt, and puts it in. All of it needs the database and runs in threads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from django.db import InterfaceError, OperationalError

from contextopt.assemblies.assemble import Decision, decide_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.models import AssemblyPayload
from contextopt.assemblies.placement.prices import list_price
from contextopt.chat.endpoint import storable
from contextopt.engine.placement.choice import APPEND, AUTO, CARRIED_TIMES, SYSTEM, TAIL
from contextopt.engine.text.errors import BudgetExceeded
from contextopt.gateway.admission import Admission
from contextopt.gateway.conversations import Plan, mark_of, place_of
from contextopt.gateway.counts import count_tokens
from contextopt.gateway.insertion import cut_history, cut_spans, frame_block, splice
from contextopt.gateway.models import MODEL_MAX, Reason
from contextopt.gateway.protocols.prompts import Prompt, Turn
from contextopt.inputs import QUERY_MAX
from contextopt.limits import TOKENS_MAX
from contextopt.search.hybrid import prepare_query

TOTAL_MAX = 4 * TOKENS_MAX


@dataclass(frozen=True)
class Task:
    """A prompt that may get a context: whose it is, its conversation so far, and the id drawn for it."""

    admission: Admission
    prompt: Prompt
    name: str
    plan: Plan | None
    drawn_id: int | None

    @cached_property
    def dropped(self) -> frozenset[int]:
        """The items of the history that are cut: none unless the space sets a limit."""
        limit = self.admission.policy.history_tokens
        return frozenset() if limit is None else cut_history(self.prompt, limit, count_tokens)

    @cached_property
    def standing(self) -> dict[int, Turn]:
        """The conversation's blocks that can go back to their places."""
        found = self.plan.standing(self.prompt.turns) if self.plan and not self.prompt.continues else {}
        return {one: turn for one, turn in found.items() if turn.item not in self.dropped}

    @property
    def is_repeat(self) -> bool:
        """Whether the last user text has its context already, as in turns that end in tool results."""
        return self.plan is not None and self.plan.place == place_of(self.prompt)

    @cached_property
    def sizes(self) -> "Sizes":
        return Sizes.of(self.prompt, self.dropped)

    def decide(self) -> Decision:
        """Decide on the context of the last user text.

        Raises:
            NotFound: the space was deleted.
            BudgetExceeded: the space's total leaves no room.
        """
        space, policy, sizes = self.admission.space, self.admission.policy, self.sizes
        assert space is not None
        placement = TAIL if self.prompt.continues else policy.placement
        in_sight = list(self.standing) if self.plan and self.plan.carries_on else []
        request = AssemblyIn(
            space=space.slug,
            query=storable(self.prompt.turns[-1].text)[:QUERY_MAX],
            model=storable(self.prompt.model)[:MODEL_MAX],
            conversation=f"gateway:{self.name}",
            placement=placement,  # type: ignore[arg-type]  # a check constraint holds its values
            in_sight=in_sight if placement in {APPEND, AUTO} else [],
            system_tokens=min(sizes.system, TOKENS_MAX),
            history_tokens=min(sizes.history, TOKENS_MAX),
            total_tokens=self._total(),
        )
        return decide_space(team_id=self.admission.key.team_id, request=request, actor=self.admission.actor)

    def _total(self) -> int | None:
        """Return a total that has room for the prompt as it is, unless the space sets one or has room."""
        assert self.admission.space is not None
        settings, sizes = self.admission.space.settings, self.sizes
        system: int = settings["system_tokens"]
        history: int = settings["history_tokens"]
        is_within = sizes.system <= system and sizes.history <= history
        if settings["total_tokens"] is not None or is_within:
            return None
        own: int = settings["response_tokens"] + settings["context_tokens"] * (1 + CARRIED_TIMES)
        return min(max(system, sizes.system) + max(history, sizes.history) + own, TOTAL_MAX)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The tokens of a prompt's parts in cl100k."""

    system: int
    history: int
    question: int

    @classmethod
    def of(cls, prompt: Prompt, dropped: frozenset[int] = frozenset()) -> "Sizes":
        spoken = [
            item.text for at, item in enumerate(prompt.items) if not item.is_system and at not in dropped
        ]
        question = count_tokens(prompt.turns[-1].text) if prompt.turns else 0
        history = max(0, sum(map(count_tokens, spoken)) - question)
        return cls(count_tokens(prompt.system_text) + count_tokens(prompt.tools), history, question)

    @property
    def all(self) -> int:
        return self.system + self.history + self.question


@dataclass(frozen=True, slots=True)
class Composed:
    """A prompt's bytes with contexts, or as they were with the reason why. `decision` is not logged yet."""

    body: bytes
    plan: Plan | None
    is_inserted: bool
    reason: Reason | None = None
    decision: Decision | None = None


def compose(task: Task, body: bytes) -> Composed:
    """Put the conversation's contexts into the prompt, and a new one for a new question."""
    if task.is_repeat or task.prompt.ends_in_tool_results:
        if task.plan is None:
            return Composed(body, None, is_inserted=False, reason=Reason.TOOL_RESULTS)
        return _with_blocks(task, body, task.plan, _load_texts(task, list(task.standing)))
    decision = task.decide()
    plan = plan_of(task, decision)
    kept = [one for one in plan.blocks if one != plan.assembly_id]
    has_records = decision.result.outcome.stats.records_included > 0
    own = {plan.assembly_id: decision.result.text} if has_records else {}
    return _with_blocks(task, body, plan, {**_load_texts(task, kept), **own}, decision)


def plan_of(task: Task, decision: Decision) -> Plan:
    """Return the plan that a decision makes for its conversation."""
    placed = decision.result.placed
    assert task.drawn_id is not None
    kept = {block.id: task.plan.blocks[block.id] for block in placed.kept} if task.plan else {}
    place = place_of(task.prompt)
    return Plan(
        place=place,
        placement=placed.placement,
        assembly_id=task.drawn_id,
        blocks={**kept, task.drawn_id: place},
        tokens=decision.result.stats.tokens_used,
        carries_on=placed.carries_on,
    )


def _with_blocks(
    task: Task, body: bytes, plan: Plan, texts: Mapping[int, str], decision: Decision | None = None
) -> Composed:
    mark = mark_of(task.name)
    turns = {**task.standing, **({plan.assembly_id: task.prompt.turns[-1]} if decision else {})}
    splices = []
    for assembly_id in plan.blocks:
        if texts.get(assembly_id) and assembly_id in turns:
            is_system = plan.placement == SYSTEM and task.prompt.system_slot is not None
            slot = task.prompt.system_slot if is_system else turns[assembly_id].slot
            assert slot is not None
            splices.append(slot.splice(frame_block(texts[assembly_id], mark)))
    cut = cut_spans(task.prompt.items, task.dropped)
    reason = None if splices else Reason.EMPTY
    return Composed(splice(body, splices, cut), plan, bool(splices), reason, decision)


def _load_texts(task: Task, ids: Sequence[int]) -> dict[int, str]:
    """Read the texts of logged contexts, without what was purged from them since."""
    if not ids:
        return {}
    rows = AssemblyPayload.objects.filter(
        assembly__in=ids, assembly__team=task.admission.key.team_id, assembly__records_included__gt=0
    )
    return dict(rows.values_list("assembly_id", "text"))


def warm_up() -> None:
    """Load the tokenizer, the encoder and the prices."""
    count_tokens("warm")
    prepare_query("warm")
    list_price("gpt-4o-mini")


def reason_for(error: BaseException) -> Reason:
    """Return why a prompt goes on without a context after this error."""
    if isinstance(error, BudgetExceeded):
        return Reason.OVER_BUDGET
    if isinstance(error, (OperationalError, InterfaceError)):
        return Reason.UNAVAILABLE
    return Reason.FAILED
