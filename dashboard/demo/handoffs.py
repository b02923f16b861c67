"""The demo's task: two phases of findings, the first handed on to the second."""

from datetime import timedelta

from contextopt.agents.handoffs.findings import add_finding, advance_phase
from contextopt.agents.handoffs.inputs import AdvanceIn, FindingIn
from contextopt.agents.inputs import TaskIn
from contextopt.agents.tasks import create_task
from contextopt.assemblies.models import DEMO_ACTOR
from contextopt.models import Assembly, Task, Team
from dashboard.demo.chapters import Chapter, Stage
from dashboard.demo.stories import read_texts

_TEXTS = read_texts("handoffs")
ANALYSIS, DESIGN = ([FindingIn(**finding) for finding in _TEXTS[name]] for name in ("analysis", "design"))


def load_task(stage: Stage) -> None:
    """Take a task through its analysis and into its design, where a decision is still open."""
    data = TaskIn(description=_TEXTS["description"], repository=_TEXTS["repository"])
    task = create_task(team=stage.team, data=data, actor=DEMO_ACTOR)
    Task.objects.filter(pk=task.pk).update(created_at=stage.now - timedelta(hours=5))
    for finding in ANALYSIS:
        add_finding(team_id=stage.team.pk, task_id=task.pk, data=finding, actor=DEMO_ACTOR)
    advance_phase(team_id=stage.team.pk, task_id=task.pk, data=AdvanceIn(), actor=DEMO_ACTOR)
    for finding in DESIGN:
        add_finding(team_id=stage.team.pk, task_id=task.pk, data=finding, actor=DEMO_ACTOR)


def remove_tasks(team: Team) -> None:
    """Delete the demo's tasks and the log of their hand-offs, which belongs to no space."""
    Assembly.objects.filter(team=team, space=None, is_demo=True).delete()
    Task.objects.of(team).filter(created_by=DEMO_ACTOR).delete()


def count_tasks(team: Team) -> dict[str, int]:
    return {"tasks": Task.objects.of(team).filter(created_by=DEMO_ACTOR).count()}


HANDOFFS = Chapter(load_task, remove_tasks, count_tasks)
