"""The end of an agent's task, as the person confirms it in a session.

The agent's calls of `task_step` name the task. When the agent stops, the person is asked once whether the
task is done, and answers with a prompt that only the hook reads.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from contextopt_connect.product import Product
    from contextopt_connect.sessions import Session

# The tools whose calls are noted: the first names the task, the others hold its plan.
TOOLS = ("mcp__contextopt__task_step", "TodoWrite", "TaskCreate", "ExitPlanMode")
ASK = "Task {id} done? Type `contextopt done {id} quality 8` (0 to 10) or `contextopt failed {id}`."
REPORT = re.compile(
    r"\s*contextopt (done|failed|impossible) ([0-9]{1,18})(?: quality ([0-9]{1,3}(?:\.[0-9]{1,6})?))?\s*"
)
NUMBER = re.compile(r"\bTask ([0-9]{1,18}), ")
PLAN_CHARS = 4_000


def note_step(session: Session, event: dict[str, Any]) -> None:
    """Note the task that the agent works on, its plan, or that it has reported the task's end itself."""
    given = event.get("tool_input") or {}
    if plan := plan_in(given):
        session.note_plan(plan[:PLAN_CHARS], is_more=event.get("tool_name") == "TaskCreate")
    if event.get("tool_name") != TOOLS[0]:
        return
    # The answer of a tool is a text, or a list of parts with texts.
    named = NUMBER.search(json.dumps(event.get("tool_response"), ensure_ascii=False))
    task_id = int(given.get("task_id") or (named and named[1]) or 0)
    if given.get("action") == "complete":
        session.end_task(task_id)
    elif task_id:
        session.begin_task(task_id)


def plan_in(given: dict[str, Any]) -> str:
    """Return the plan in a tool's arguments, one step a line."""
    steps = [each["content"] for each in given.get("todos") or ()]
    return str(given.get("plan") or "\n".join(steps) or given.get("subject") or "")


def ask(session: Session, event: dict[str, Any]) -> str:
    """Return the question about each task that the person was not asked about in this session."""
    if event.get("stop_hook_active"):
        return ""
    return "\n".join(ASK.format(id=task_id) for task_id in session.ask_once())


def report(product: Product, asked: re.Match[str], files: list[str]) -> str:
    """Report the end that a prompt confirms. Return a line for the person: what was stored, or why not."""
    task_id, quality = int(asked[2]), asked[3]
    body = {
        "task_id": task_id,
        "outcome": "completed" if asked[1] == "done" else asked[1],
        "plan": product.session.plan,
        "files_changed": files,
    }
    if quality is not None:
        body["quality_score"] = float(quality)
    request = product.send("/completions", body)
    answer = request.answer()
    if answer is None:
        more = f" Type `contextopt done {task_id} quality 8`." if "quality_score" in request.refusal else ""
        return f"Nothing was stored for task {task_id}: {request.refusal.rstrip('.')}.{more}"
    product.session.end_task(task_id)
    return f"Task {task_id} is stored as {answer['state']}. {describe(answer)}"


def describe(answer: dict[str, Any]) -> str:
    """Return what was learned from the task."""
    if answer["strategy_id"]:
        return f"Its plan is remembered as strategy {answer['strategy_id']}."
    reasons = [each["reason"] for each in answer["not_stored"] if each["memory_type"] in {"strategy", "all"}]
    return f"No strategy: {reasons[0]}." if reasons else ""
