"""The demo's repository and tasks: two phases of findings, and a whole way from a hint to its completion."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from contextopt.agents.completions import Completion
from contextopt.agents.handoffs.findings import add_finding, advance_phase, resolve_finding
from contextopt.agents.handoffs.inputs import AdvanceIn, FindingIn, ResolutionIn
from contextopt.agents.handoffs.models import Finding, PhaseCompression
from contextopt.agents.inputs import AgentContextIn, AttemptIn, StandingDocumentIn, TaskIn
from contextopt.agents.models import Attempt, Task
from contextopt.agents.phases import filter_agent_context
from contextopt.agents.retries import record_attempt
from contextopt.agents.standingdocuments import StandingDocument, attach_document
from contextopt.agents.tasks import create_task
from contextopt.assemblies.models import DEMO_ACTOR, Assembly
from contextopt.engine.agents.contexts import AgentContext
from contextopt.engine.text.tokens import get_counter, get_tokenizer
from contextopt.people.models import Team
from contextopt.repositories.indexing import create_posted, delete_repository
from contextopt.repositories.models import Repository
from dashboard.demo.stories import Chapter, Stage, read_texts
from memory.memories.inputs import HintIn
from memory.steps.inputs import AgentStepIn
from memory.steps.step import build_step
from memory.strategies.hints import give_hint
from memory.strategies.inputs import CompletionIn
from memory.strategies.models import StrategyUse, TrustChange
from memory.strategies.reports import complete_task

_HANDOFF_TEXTS = read_texts("handoffs")
ANALYSIS, DESIGN = (
    [FindingIn(**finding) for finding in _HANDOFF_TEXTS[name]] for name in ("analysis", "design")
)


def load_task(stage: Stage) -> None:
    """Take a task through its analysis and into its design, where a decision is still open."""
    data = TaskIn(description=_HANDOFF_TEXTS["description"], repository=_HANDOFF_TEXTS["repository"])
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


_REPOSITORY_TEXTS = read_texts("repository")
_TASK = read_texts("timeline")
NAME: str = _TASK["repository"]


def billing_file(noun: str) -> str:
    """Return the module of one kind of row."""
    text: str = _TASK["file"]
    return text.replace("{noun}", noun).replace("{Noun}", noun.capitalize()).lstrip()


def billing_files() -> dict[str, str]:
    """Return the modules that the demo's tasks are about, by path."""
    return {f"billing/{noun}.py": billing_file(noun) for noun in _TASK["nouns"]}


def load_repository(stage: Stage) -> None:
    """Index the files and attach the documents, unless the team has a repository of this name."""
    if Repository.objects.filter(team=stage.team, name=NAME).exists():
        return
    others = {path: text.lstrip() for path, text in _REPOSITORY_TEXTS["files"].items()}
    files = {**billing_files(), **others, "pyproject.toml": _TASK["manifest"].lstrip()}
    create_posted(team=stage.team, name=NAME, files=files, actor=DEMO_ACTOR)
    for given in _REPOSITORY_TEXTS["documents"]:
        data = StandingDocumentIn(
            repository=NAME, title=given["title"], content=given["content"].strip() + "\n"
        )
        if not StandingDocument.objects.of(stage.team.pk, NAME).filter(title=data.title).exists():
            attach_document(team=stage.team, data=data, actor=DEMO_ACTOR)


def remove_repository(team: Team) -> None:
    StandingDocument.objects.of(team.pk, NAME).filter(created_by=DEMO_ACTOR).delete()
    for repository in Repository.objects.filter(team=team, name=NAME, created_by=DEMO_ACTOR):
        delete_repository(repository=repository)


def count_repositories(team: Team) -> dict[str, int]:
    return {"repositories": Repository.objects.filter(team=team, created_by=DEMO_ACTOR).count()}


REPOSITORY = Chapter(load_repository, remove_repository, count_repositories)


_TEXTS = read_texts("timeline")
QUALITY = 8.5
AGO = timedelta(hours=26)


class Journey:
    """A task in progress. The methods take the time of their step in minutes after the start."""

    def __init__(self, stage: Stage) -> None:
        self.team, self.begun = stage.team, stage.now - AGO
        self.files: dict[str, str | None] = {**billing_files()}
        given = {key: _TEXTS[key] for key in ("description", "repository")}
        self.task = create_task(team=self.team, data=TaskIn(**given, files=self.files), actor=DEMO_ACTOR)

    def moment(self, minutes: float) -> datetime:
        return self.begun + timedelta(minutes=minutes)

    def ask_hint(self, minutes: float) -> None:
        data = HintIn(task=_TEXTS["description"], repository=_TEXTS["repository"], task_id=self.task.pk)
        give_hint(team=self.team, data=data, actor=DEMO_ACTOR)
        StrategyUse.objects.filter(task=self.task).update(created_at=self.moment(minutes))
        self.date(minutes)

    def filter(self, phase: str, minutes: float) -> None:
        filter_agent_context(
            team_id=self.team.pk,
            phase=phase,
            context=_context(self.files),
            counter=get_counter("tokenizer", get_tokenizer(_TEXTS["encoding"])),
            actor=DEMO_ACTOR,
            task_id=self.task.pk,
        )
        self.date(minutes)

    def step(self, phase: str, minutes: float) -> None:
        """Send everything for a step at once: documents, files, memories and records."""
        data = AgentStepIn(task_id=self.task.pk, phase=phase, space=_TEXTS["space"], receiver="coder")
        build_step(team=self.team, data=data, actor=DEMO_ACTOR)
        self.date(minutes)

    def add_findings(self, phase: str, minutes: float) -> None:
        for given in _TEXTS[phase]:
            data = FindingIn(**given)
            add_finding(team_id=self.team.pk, task_id=self.task.pk, data=data, actor=DEMO_ACTOR)
            self.date(minutes)

    def resolve(self, number: int, minutes: float) -> None:
        given = _TEXTS["resolution"]
        resolve_finding(
            team_id=self.team.pk,
            task_id=self.task.pk,
            number=number,
            data=ResolutionIn(answer=given["text"]),
            actor=given["by"],
        )
        found = Finding.objects.filter(task=self.task, number=number)
        found.update(resolved_at=self.moment(minutes))

    def advance(self, minutes: float) -> None:
        entered = advance_phase(
            team_id=self.team.pk, task_id=self.task.pk, data=AdvanceIn(), actor=DEMO_ACTOR
        )
        self.date(minutes)
        # The hand-off is made just before the next phase begins.
        begins = {f"{entered.phase}_at": self.moment(minutes + 0.1)}
        Task.objects.filter(pk=self.task.pk).update(**begins)

    def fail(self, given: dict[str, Any], minutes: float) -> None:
        path = "billing/reminder.py"
        files = {**self.files, path: billing_file("reminder").replace(given["before"], given["after"])}
        data = AttemptIn(plan=_TEXTS["plan"], error=given["error"], diagnosis=given["diagnosis"], files=files)
        record_attempt(
            team_id=self.team.pk,
            task_id=self.task.pk,
            data=data,
            counter=get_counter("tokenizer", get_tokenizer(_TEXTS["encoding"])),
            actor=DEMO_ACTOR,
        )
        self.date(minutes)

    def complete(self, minutes: float) -> None:
        report = CompletionIn(task_id=self.task.pk, plan=_TEXTS["plan"], quality_score=QUALITY)
        complete_task(team=self.team, data=report, actor=DEMO_ACTOR)
        moment = self.moment(minutes)
        Completion.objects.filter(task=self.task).update(created_at=moment, learned_at=moment)
        TrustChange.objects.filter(reason__startswith=f"task {self.task.pk}:").update(changed_at=moment)
        Task.objects.filter(pk=self.task.pk).update(created_at=self.begun, completed_at=moment)

    def date(self, minutes: float) -> None:
        """Replace the rows that the last step made by dated copies, since rows of the log never change."""
        moment = self.moment(minutes)
        made = {"task": self.task, "created_at__gt": self.begun + AGO / 2}
        for assembly in Assembly.objects.filter(**made).select_related("payload"):
            _restore_assembly(assembly, moment)
        for row in (*Finding.objects.filter(**made), *Attempt.objects.filter(**made)):
            _restore(row, moment)


def _restore_assembly(assembly: Assembly, moment: datetime) -> None:
    payload, old = assembly.payload, assembly.pk
    linked = [*Attempt.objects.filter(assembly=old), *PhaseCompression.objects.filter(assembly=old)]
    Assembly.objects.filter(pk=old).delete()
    assembly.pk, assembly.created_at, assembly.as_of, assembly.is_demo = None, moment, moment, True
    assembly.save(force_insert=True)
    payload.assembly = assembly
    payload.save(force_insert=True)
    for row in linked:
        row.assembly = assembly
        row.save(update_fields=["assembly"])


def _restore(row: Finding | Attempt, moment: datetime) -> None:
    type(row).objects.filter(pk=row.pk).delete()
    row.pk, row.created_at = None, moment
    if isinstance(row, Attempt):
        row.available_at = moment
    row.save(force_insert=True)


def _context(files: Mapping[str, str | None]) -> AgentContext:
    paths = sorted(files)
    context = AgentContextIn.model_validate(
        {
            "tree": "billing/\n" + "".join(f"  {path.removeprefix('billing/')}\n" for path in paths),
            "tree_paths": paths,
            "package_manifest": _TEXTS["manifest"].lstrip(),
            "files": files,
            "memories": _TEXTS["memories"],
            "docs": _TEXTS["docs"],
            "task": _TEXTS["description"],
        }
    )
    return context.to_value()


def load_journey(stage: Stage) -> None:
    """Take a task from its hint to its completion, with a decision, two failures and a wait."""
    journey = Journey(stage)
    journey.ask_hint(0)
    journey.filter("confidence", 0.5)
    journey.filter("planning", 2)
    journey.add_findings("analysis", 6)
    journey.resolve(4, 9)
    journey.advance(10)
    journey.step("planning", 11)
    journey.add_findings("design", 17)
    journey.advance(18)
    journey.filter("building", 19)
    journey.fail(_TEXTS["attempts"][0], 31)
    journey.filter("diagnosis", 32)
    journey.fail(_TEXTS["attempts"][1], 40)
    journey.step("building", 45)
    journey.filter("reviewing", 52)
    journey.complete(54)


TIMELINE = Chapter(load_journey)
