"""Tasks from their analysis to their end by the tools alone, with the SDK's client and a server process."""

import re
from typing import Any

import httpx2
import pytest
from mcp import Client

from contextopt.agents.models import Task
from contextopt.agents.timeline.account import verify_account
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.people.models import Team
from memory.memories.models import Memory
from tests import factories
from tests.gitrepos import SHOP
from tests.memory.mcp.conftest import MODES, Door, text_of

PLAN = "Write a failing test\nSum in whole cents\nRound the total once"
RISK = {
    "category": "risks",
    "content": {"description": "Prices in shop/cart.py lose cents.", "severity": "high"},
    "confidence": 0.8,
}
QUESTION = {
    "category": "open_questions",
    "content": {"description": "Which way is half a cent rounded?"},
    "confidence": 0.5,
    "decision": "open",
}
MODEL = {
    "category": "data_model",
    "content": {"description": "A cart keeps whole cents."},
    "confidence": 0.95,
}
CHANGED = SHOP["shop/cart.py"].replace("sum(", "round(").replace("in cart)", "in cart if item)")
ERROR = "tests/test_cart.py F\nE   assert 7.004 == 7.0"


class Agent:
    """Works on one task through `task_step`, and keeps what it was answered."""

    def __init__(self, client: Client, description: str) -> None:
        self.client, self.description = client, description
        self.task_id = 0
        self.answers: list[str] = []

    async def step(self, **arguments: Any) -> str:
        named = {"task_id": self.task_id} if self.task_id else {"task": self.description}
        answer = await self.client.call_tool("task_step", {**named, "repository": "shop", **arguments})
        text = text_of(answer)
        assert not answer.is_error, text
        self.task_id = self.task_id or int(re.findall(r"^Task (\d+),", text)[0])
        self.answers.append(text)
        return text


async def fail_once(client: Client) -> Agent:
    """Take a task through all phases. Its first implementation fails."""
    agent = Agent(client, "Fix the wrong rounding of prices in the cart")
    await agent.step(phase="analysis")
    for finding in (RISK, QUESTION):
        await agent.step(task_id=agent.task_id, action="add_finding", finding=finding)
    await agent.step(action="resolve_finding", finding_id="F-002", answer="Half up")
    await agent.step(action="advance")
    design = await agent.step(phase="design")
    assert "Prices in shop/cart.py lose cents" in design
    assert "Half up" in design
    await agent.step(action="add_finding", finding=MODEL)
    await agent.step(action="advance")
    implementation = await agent.step(phase="implementation")
    assert "A cart keeps whole cents." in implementation
    assert "### shop/cart.py\n" in implementation
    failed = await agent.step(
        action="failed",
        phase="implementation",
        error=ERROR,
        root_cause="implementation_error",
        plan=PLAN,
        files={"shop/cart.py": CHANGED},
    )
    assert "> E   assert 7.004 == 7.0" in failed
    assert ">     return round(price_of(item) for item in cart if item)\n" in failed
    assert "### shop/prices.py\n" not in failed
    end = {"quality": 8, "plan": PLAN, "files": {"shop/cart.py": None}}
    assert (await agent.step(action="complete", **end)).startswith("The task is completed, 0 memories")
    return agent


async def succeed(client: Client) -> Agent:
    """Take a task like it to its end at the first attempt."""
    agent = Agent(client, "Fix the rounding of totals in the cart")
    assert "[STRATEGY HINT" not in await agent.step(phase="analysis")
    end = {"quality": 9, "plan": PLAN, "files": {"shop/cart.py": None}}
    assert (await agent.step(action="complete", **end)).startswith("The task is completed, 1 memory")
    return agent


async def work(client: Client) -> tuple[Agent, Agent, Agent]:
    """Do two tasks, and begin another like them."""
    third = Agent(client, "Fix wrong rounding of the prices in a shopping cart")
    first, second = await fail_once(client), await succeed(client)
    await third.step(phase="analysis")
    return first, second, third


@pytest.mark.parametrize("each_door", [("stdio", MODES[0]), ("http", MODES[1])], indirect=True, ids="-".join)
def test_tasks_are_done_by_the_tools_alone(each_door: Door, team: Team) -> None:
    factories.make_repository(team)
    first, second, third = each_door.visit(work)
    timeline = read_timeline(each_door, first)
    assert [event["title"] for event in timeline["items"]] == [
        "Context sent",
        "F-001 added",
        "F-002 added",
        "Decision on F-002 resolved",
        "Handed to design",
        "Context sent",
        "F-003 added",
        "Handed to implementation",
        "Context sent",
        "Context sent",
        "Attempt 1 failed",
        "Retry with the changes",
        "Completed, quality 8",
    ]
    by_title = {event["title"]: event for event in timeline["items"]}
    assert by_title["Decision on F-002 resolved"]["text"] == "Half up"
    assert by_title["Attempt 1 failed"]["text"] == "E assert 7.004 == 7.0"
    assert "2 attempts" in by_title["Completed, quality 8"]["note"]
    check_texts(first, timeline)
    check_account(first, timeline)
    check_account(second, read_timeline(each_door, second))
    strategy = Memory.objects.get()
    [hinted] = third.answers
    assert "[STRATEGY HINT" in hinted
    assert all(f"{line} → " in strategy.content for line in PLAN.splitlines()[:2])
    assert strategy.content in hinted


def read_timeline(door: Door, agent: Agent) -> dict[str, Any]:
    url = f"{door.address}/api/v1/tasks/{agent.task_id}/timeline"
    answer = httpx2.get(url, headers={"Authorization": f"Bearer {door.secret}"}, params={"limit": 100})
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    assert found["next_cursor"] is None
    return found


def check_texts(agent: Agent, timeline: dict[str, Any]) -> None:
    """Check that each text that the agent was sent is the text of an event, and the other way round."""
    sent = {int(number): answer for answer in agent.answers for number in named_contexts(answer)}
    events = [event for event in timeline["items"] if event["kind"] == "context"]
    assert [event["assembly_id"] for event in events] == sorted(sent)
    for event in events:
        payload = AssemblyPayload.objects.get(assembly_id=event["assembly_id"])
        assert payload.text.rstrip("\n") in sent[event["assembly_id"]]
        assert event["sent_tokens"] == payload.assembly.tokens_after


def named_contexts(answer: str) -> list[str]:
    return re.findall(r"^Task \d+, phase \w+, context (\d+)\.", answer)


def check_account(agent: Agent, timeline: dict[str, Any]) -> None:
    """Check that the account, its phases and its events all equal the sum of the task's assemblies."""
    rows = Assembly.objects.filter(task=agent.task_id)
    sent = sum(row.tokens_after for row in rows if row.is_sent)
    account = timeline["account"]
    assert (account["assemblies"], account["sent_tokens"]) == (len(rows), sent)
    for phases in (timeline["phases"].values(), [*timeline["agent_phases"], *timeline["handoffs"].values()]):
        assert sum(each["sent_tokens"] for each in phases) == sent
    assert sum(event["sent_tokens"] or 0 for event in timeline["items"]) == sent
    payloads = AssemblyPayload.objects.select_related("assembly").filter(assembly__task=agent.task_id)
    assert list(verify_account(agent.task_id, payloads)) == []
    assert Task.objects.get(pk=agent.task_id).state == "completed"
