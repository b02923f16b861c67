"""Makes the objects of the tests. Each factory uses the product's own functions."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from contextopt.agents.handoffs.findings import add_finding, advance_phase
from contextopt.agents.handoffs.inputs import AdvanceIn, FindingIn
from contextopt.agents.handoffs.models import Finding
from contextopt.agents.inputs import AttemptIn, ProfileIn, TaskIn
from contextopt.agents.models import PhaseProfile, Task
from contextopt.agents.phaselinks import LinkIn, PhaseLink, publish_link
from contextopt.agents.phases import FilterResult, filter_agent_context, publish_profile
from contextopt.agents.retries import AttemptResult, record_attempt
from contextopt.agents.tasks import create_task
from contextopt.assemblies.assemble import assemble_space, decide_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.log import log_assembly
from contextopt.assemblies.results import AssemblyResult
from contextopt.chat.endpoint import Completion
from contextopt.chat.inputs import ConversationIn, MessageIn
from contextopt.chat.models import Conversation, Message
from contextopt.chat.outbox import claim_message, create_conversation, send_message, store_answer
from contextopt.engine.agents.contexts import AgentContext, ContextFile
from contextopt.engine.text.tokens import get_counter, get_tokenizer
from contextopt.gateway.models import GatewayRequest
from contextopt.people.models import ApiKey, Membership, Role, Scope, Team, User
from contextopt.repositories.indexing import create_posted
from contextopt.repositories.models import Repository
from contextopt.spaces.inputs import RecordIn, SpaceIn
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import create_record
from contextopt.spaces.spaces import create_space
from tests.gitrepos import SHOP

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)


def make_team(slug: str = "platform", **overrides: Any) -> Team:
    return Team.objects.create(slug=slug, **{"name": slug.title(), **overrides})


def make_user(username: str, team: Team | None = None, role: Role = Role.ADMIN, **overrides: Any) -> User:
    user = User.objects.create_user(username, password="correct horse", **overrides)
    if team is not None:
        Membership.objects.create(team=team, user=user, role=role)
    return user


def make_key(team: Team, scope: Scope = Scope.ADMIN, name: str = "test") -> tuple[ApiKey, str]:
    """Return the key and its secret."""
    return ApiKey.objects.create_with_secret(team=team, name=name, scope=scope)


def make_space(team: Team, slug: str = "support", **overrides: Any) -> Space:
    data = {"slug": slug, "name": "Support notes", "description": "What the support team writes down."}
    return create_space(team=team, data=SpaceIn(**{**data, **overrides}), actor="test")


def make_record(space: Space, **overrides: Any) -> Record:
    """Make a record; `view_count` and `deleted_at` may be given too."""
    state = {name: overrides.pop(name) for name in ("view_count", "deleted_at") if name in overrides}
    data = {"title": "Queue stuck after deploy", "date": NOW, "notes": "Workers hold the old lock."}
    record = create_record(space=space, data=RecordIn(**{**data, **overrides}), actor="test")
    if state:
        Record.objects.filter(pk=record.pk).update(**state)
        record.refresh_from_db()
    return record


def make_agent_context(**overrides: Any) -> AgentContext:
    """Return the full context of the documented table: 5,175 tokens by the heuristic."""
    files = tuple(ContextFile(f"src/module_{number}.py", "f" * 2_000) for number in range(5))
    fields: dict[str, Any] = {
        "tree": "t" * 2_000, "package_manifest": "m" * 200, "files": files, "memories": ("y" * 500,) * 10,
        "docs": ("d" * 1_000,) * 3, "tools": ("o" * 100,) * 5, "task": "Remember the user at login.",
    }  # fmt: skip
    return AgentContext(**{**fields, **overrides})


def make_profile(team: Team, phase: str = "building", **settings: Any) -> PhaseProfile:
    return publish_profile(team=team, phase=phase, data=ProfileIn(**settings), created_by="test")


def make_filtering(team: Team, phase: str = "building", **overrides: Any) -> FilterResult:
    """Filter the documented context for a phase and log it."""
    counter = get_counter(overrides.pop("counter", "tokenizer"), get_tokenizer("cl100k_base"))
    context = overrides.pop("context", None) or make_agent_context()
    return filter_agent_context(
        team_id=team.pk, phase=phase, context=context, counter=counter, actor="test", **overrides
    )


def make_repository(team: Team, name: str = "shop", files: Mapping[str, str] = SHOP) -> Repository:
    return create_posted(team=team, name=name, files=files, actor="test").repository


def make_task(team: Team, **overrides: Any) -> Task:
    data = {"description": "Fix the rounding of prices in the cart."}
    return create_task(team=team, data=TaskIn(**{**data, **overrides}), actor="test")


def make_link(team: Team, phase: str, **settings: Any) -> PhaseLink:
    """Publish the next version of a phase's link."""
    return publish_link(team=team, phase=phase, data=LinkIn(**settings), created_by="test")


def make_finding(task: Task, **overrides: Any) -> Finding:
    """Add a finding to the task's current phase."""
    data: dict[str, Any] = {
        "category": "risks",
        "content": {
            "description": "Prices in shop/cart.py are floats and may lose cents.",
            "severity": "high",
            "mitigation": "Count in whole cents.",
        },
        "confidence": 0.8,
    }
    return add_finding(
        team_id=task.team_id, task_id=task.pk, data=FindingIn(**{**data, **overrides}), actor="test"
    )


def make_advance(task: Task, **overrides: Any) -> Task:
    """Hand the task's findings on to its next phase."""
    return advance_phase(team_id=task.team_id, task_id=task.pk, data=AdvanceIn(**overrides), actor="test")


def make_attempt(task: Task, **overrides: Any) -> AttemptResult:
    """Post a failed attempt of the task; `root_cause` may be given too."""
    counter = get_counter(overrides.pop("counter", "tokenizer"), get_tokenizer("cl100k_base"))
    root_cause = overrides.pop("root_cause", "implementation_error")
    data: dict[str, Any] = {
        "files": {"cart.py": "price = 1\n"},
        "plan": ["Read the cart", "Round the price", "Run the tests"],
        "error": "E   AssertionError: assert 7 == 8",
        "diagnosis": {"root_cause": root_cause, "reason": "Off by one", "suggested_action": "Count from 0"},
    }
    return record_attempt(
        team_id=task.team_id,
        task_id=task.pk,
        data=AttemptIn(**{**data, **overrides}),
        counter=counter,
        actor="test",
    )


def make_assembly(space: Space, **overrides: Any) -> AssemblyResult:
    """Assemble a context of the space and log it."""
    created_at = overrides.pop("created_at", None)
    request = AssemblyIn(**{"space": space.slug, "as_of": NOW, **overrides})
    return assemble_space(team_id=space.team_id, request=request, actor="test", created_at=created_at)


def make_audited_assembly(space: Space) -> AssemblyResult:
    """Log the context that the gateway would have inserted into a prompt."""
    request = AssemblyIn(space=space.slug, as_of=NOW)
    return log_assembly(decide_space(team_id=space.team_id, request=request, actor="test"), is_sent=False)


def make_gateway_request(space: Space, **overrides: Any) -> GatewayRequest:
    """Store a prompt that passed the gateway for the space."""
    values = {
        "protocol": "chat", "model": "gpt-4o-mini", "mode": "audit", "outcome": "answered",
        "status_code": 200, "request_bytes": 800, "answer_bytes": 300, "prompt_tokens": 120,
        "input_tokens": 128, "output_tokens": 20, "added_ms": 2.5, "first_byte_ms": 300.0, "total_ms": 900.0,
    }  # fmt: skip
    return GatewayRequest.objects.create(team=space.team, space=space, **{**values, **overrides})


def make_conversation(space: Space, **overrides: Any) -> Conversation:
    data = ConversationIn(**{"space": space.slug, "stage": 4, **overrides})
    return create_conversation(team=space.team, data=data, actor="user:olga")


def make_message(conversation: Conversation, text: str = "Why is the queue stuck?") -> Message:
    """Store a message as it arrives: queued, or held without an endpoint."""
    return send_message(conversation=conversation, data=MessageIn(text=text), actor="user:olga")


def make_answer(
    conversation: Conversation,
    settings: Any,
    text: str = "An old lock.",
    asked: str = "Why is the queue stuck?",
) -> Message:
    """Answer a message, as a worker does once the endpoint has replied."""
    settings.LLM_BASE_URL = "http://127.0.0.1:9/v1"
    message = make_message(conversation, asked)
    assert claim_message(message.pk)
    answer = store_answer(message, Completion(text, "small", 7, 3, 12.5))
    assert answer is not None
    return answer
