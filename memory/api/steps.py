"""The endpoint that gives an agent everything for one step of a task."""

from typing import TypedDict

from django.http import HttpResponse
from ninja import Router

from contextopt.api.assemblies import CertificateOut
from contextopt.api.protocol.authentication import WRITE, ApiRequest, actor
from contextopt.api.protocol.outputs import created, reply
from contextopt.api.tasks import ActionName
from contextopt.engine.values import WarningJson
from contextopt.inputs import fields_of
from memory.steps.inputs import AgentStepIn
from memory.steps.received import HandoffJson
from memory.steps.step import StepRecordOut, build_step
from memory.strategies.matches import MatchJson

router = Router(tags=["Tasks"])


class SectionItemOut(TypedDict):
    """One thing of a section. `tokens` counts a kept one alone; a cut or partial one has a reason, too."""

    id: str
    kept: bool
    reason: str
    tokens: int | None


class SectionOut(TypedDict):
    """One section of the text. The tokens of all sections add up to the certificate's.

    `items` names all that were kept and the best of the dropped. `counts` has all of the dropped by reason.
    """

    name: str
    tokens: int
    kept: int
    dropped: int
    items: list[SectionItemOut]
    counts: dict[str, int]


class StepAttemptOut(TypedDict):
    """The failed attempt that the request recorded, and what follows from it."""

    id: int
    number: int
    action: ActionName
    wait_seconds: int
    error: str | None


@fields_of(MatchJson)
class StepStrategyOut(TypedDict):
    """The strategy in the text, and how it matches the task. Rate it by its `use_id`."""

    memory_id: int
    use_id: int


class AgentStepOut(TypedDict):
    """Everything that an agent is sent for one step.

    `id` is the assembly's, and null if nothing is sent because the task waits or stops. Send `task` beside
    the text; it is not counted. Without a `context` in the request there is nothing to compare with, and
    `saved_tokens` is null.
    """

    id: int | None
    task_id: int
    task: str
    phase: str
    profile: str
    profile_version: int | None
    handoff: HandoffJson | None
    repository: str
    space: str | None
    budget_tokens: int
    text: str
    sections: list[SectionOut]
    certificate: CertificateOut
    warnings: list[WarningJson]
    full_tokens: int | None
    saved_tokens: int | None
    saved_percent: float | None
    attempt: StepAttemptOut | None
    strategy: StepStrategyOut | None
    records: list[StepRecordOut]


@router.post(
    "/agent-context",
    auth=WRITE,
    response={200: AgentStepOut, 201: AgentStepOut},
    summary="Build the context for a step",
)
def build_agent_context(request: ApiRequest, data: AgentStepIn) -> HttpResponse:
    """Returns everything that an agent needs for one step of a task as one text, and logs it.

    The phase's profile says which sections the text has: tree, manifest, the files that the task needs,
    memories, the records of a space. The repository's standing documents and the changes since a failed
    attempt are sent in every phase, and a strategy hint before planning. The budget is the smaller of the
    requested one and the phase's.

    A new `task` is stored. A `failure` is recorded as an attempt. A context sent in full is remembered, so
    that the next retry is sent only changes.
    """
    result = build_step(team=request.auth.team, data=data, actor=actor(request)).to_json()
    if result["id"] is None:
        return reply(result)
    return created(result, f"/api/v1/assemblies/{result['id']}")
