"""A task of the demo: two phases of findings, the first handed on to the second."""

from datetime import timedelta
from typing import Any

from contextopt.agents.handoffs.findings import add_finding, advance_phase
from contextopt.agents.handoffs.inputs import AdvanceIn, FindingIn
from contextopt.agents.inputs import TaskIn
from contextopt.agents.retries import create_task
from contextopt.assemblies.models import DEMO_ACTOR
from contextopt.models import Assembly, Task, Team
from dashboard.demo.chapters import Chapter, Stage

REPOSITORY = "demo-invoicing"
DESCRIPTION = "Round prices to cents in the cart and on invoices, so that totals agree (demo)"


def _finding(category: str, confidence: float, text: str, **more: Any) -> FindingIn:
    where = more.pop("where", "shop/cart.py")
    content = {"description": text, "location": where}
    return FindingIn(category=category, confidence=confidence, content=content, **more)


ANALYSIS = (
    _finding("requirements", 0.95, "The total of an invoice must equal the sum of its rounded lines.",
             tags=["critical", "money"]),
    _finding("risks", 0.9, "Prices are floats: 0.1 added ten times is shown as 0.9999999999999999.",
             tags=["money"], depends_on=["F-001"]),
    _finding("constraints", 0.85, "Stored invoices must not change: 41,200 were sent with the old totals.",
             where="shop/models/invoice.py", tags=["critical"]),
    _finding("code_structure", 0.8, "Three places multiply price by quantity: cart, invoice and export."),
    _finding("code_structure", 0.6, "The export rounds twice, once per line and once per file.",
             where="shop/export.py"),
    _finding("observations", 0.5, "The front end formats with two digits, which hides the difference.",
             where="web/cart.ts"),
    _finding("observations", 0.4, "A comment from 2019 says that rounding waits for the new tax table."),
    _finding("test_coverage", 0.7, "No test has a quantity above 1 together with a discount.",
             where="tests/test_cart.py"),
    _finding("performance", 0.5, "A cart has 6 lines on average, so decimals cost nothing measurable."),
    _finding("decision", 0.9, "Round half to even or half up? Accounting uses half up in every country.",
             decision="resolved", depends_on=["F-001"]),
)  # fmt: skip
DESIGN = (
    _finding("decision", 0.9, "A type Money holds an integer of cents and its currency.",
             where="shop/money.py", implementation_ready=True, depends_on=["F-001", "F-002"]),
    _finding("interfaces", 0.85, "Money.times(quantity, discount) rounds half up, once, and returns Money.",
             where="shop/money.py", implementation_ready=True, depends_on=["F-011"]),
    _finding("migration", 0.8, "New invoices carry rounding=2; older ones are read as they were written.",
             where="shop/models/invoice.py", depends_on=["F-003"], tags=["critical"]),
    _finding("alternatives", 0.5, "Decimal everywhere was tried: it needs a context in every worker thread."),
    _finding("decision", 0.6, "Does the export keep its old column beside the new one for a quarter?",
             where="shop/export.py", decision="open"),
)  # fmt: skip


def load_task(stage: Stage) -> None:
    """Take a task through its analysis and into its design, where a decision is open."""
    data = TaskIn(description=DESCRIPTION, repository=REPOSITORY)
    task = create_task(team=stage.team, data=data, actor=DEMO_ACTOR)
    Task.objects.filter(pk=task.pk).update(created_at=stage.now - timedelta(hours=5))
    for finding in ANALYSIS:
        add_finding(team_id=stage.team.pk, task_id=task.pk, data=finding, actor=DEMO_ACTOR)
    advance_phase(team_id=stage.team.pk, task_id=task.pk, data=AdvanceIn(), actor=DEMO_ACTOR)
    for finding in DESIGN:
        add_finding(team_id=stage.team.pk, task_id=task.pk, data=finding, actor=DEMO_ACTOR)


def remove_tasks(team: Team) -> None:
    """Delete the demo's tasks, and the log of their hand-offs, which belongs to no space."""
    Assembly.objects.filter(team=team, space=None, is_demo=True).delete()
    Task.objects.of(team).filter(created_by=DEMO_ACTOR).delete()


def count_tasks(team: Team) -> dict[str, int]:
    return {"tasks": Task.objects.of(team).filter(created_by=DEMO_ACTOR).count()}


HANDOFFS = Chapter(load_task, remove_tasks, count_tasks)
