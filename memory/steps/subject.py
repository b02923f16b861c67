"""The subject of a step: its task, phase, repository and failure, checked and looked up."""

from dataclasses import dataclass
from functools import cached_property

from django.db.models import QuerySet

from contextopt.agents.inputs import TaskIn
from contextopt.agents.models import Attempt, Task
from contextopt.agents.phases import ActiveProfile, load_active_profile, load_active_profiles
from contextopt.agents.receivers import load_receiver_files
from contextopt.agents.retries import PlannedAttempt, latest_retry, plan_attempt
from contextopt.agents.standingdocuments import StandingDocument
from contextopt.agents.tasks import create_task, find_task
from contextopt.engine.agents.contexts import AgentContext
from contextopt.engine.agents.deltas import ReceiverFiles
from contextopt.engine.agents.retries import Diagnosis, FailedAttempt, RetryContext, retry_task
from contextopt.engine.text.tokens import Counter
from contextopt.errors import InvalidInput, NotFound
from contextopt.people.models import Team
from contextopt.repositories.models import Repository
from contextopt.spaces.models import Space
from memory.memories.models import Memory
from memory.steps.inputs import AgentStepIn


@dataclass(frozen=True)
class Asked:
    """A step to be composed. `repository` is None if the named one is not indexed, or none is named."""

    team: Team
    data: AgentStepIn
    actor: str
    counter: Counter
    profile: ActiveProfile
    task: Task
    repository_name: str
    repository: Repository | None
    known: ReceiverFiles
    planned: PlannedAttempt | None
    latest: Attempt | None

    @property
    def budget(self) -> int:
        most = self.profile.value.budget_tokens
        return most if self.data.budget is None else min(self.data.budget, most)

    @cached_property
    def given(self) -> AgentContext:
        """The caller's own context, or else the files that are sent again in full after a failure."""
        if self.data.context is not None:
            return self.data.context.to_value()
        if self.planned and self.planned.retry.plan.action == "refetch":
            everything = self.planned.retry.plan.everything
            return everything.context if everything else AgentContext()
        return AgentContext()

    @cached_property
    def retry(self) -> RetryContext | None:
        """The receiver's latest failure, posted with this step or before."""
        if self.planned:
            return self.planned.retry.plan.context
        return RetryContext.from_json(self.latest.retry_context) if self.latest else None

    @property
    def task_text(self) -> str:
        """The task as it is sent, with the latest diagnosis if the agent tries again."""
        if self.planned:
            return self.planned.retry.plan.task
        if self.latest is None or self.latest.action == "replan":
            return self.task.description
        diagnosis = Diagnosis(**self.latest.diagnosis)
        return retry_task(FailedAttempt(self.task.description, "", "", diagnosis, self.latest.number))


def read_request(team: Team, data: AgentStepIn, counter: Counter, actor: str) -> Asked:
    """Look up everything that the request names, and record a new task or a failed attempt's number.

    Raises:
        InvalidInput: there is no such phase.
        NotFound: the team has no such task, repository or space.
        Conflict: the task accepts no more attempts, or this is not the next one.
    """
    profile = _find_profile(team, data.phase)
    if data.space is not None:
        Space.objects.find(team.pk, data.space)
    stored = find_task(team.pk, data.task_id) if data.task_id is not None else None
    name = data.repository or (stored.repository if stored else "")
    repository = _find_repository(team, name, is_asked=bool(data.repository))
    task = stored or create_task(
        team=team,
        data=TaskIn(description=data.task or "", repository=name, receiver=data.receiver),
        actor=actor,
    )
    planned = None
    if data.failure is not None:
        planned = plan_attempt(
            team_id=team.pk,
            task_id=task.pk,
            data=data.failure.as_attempt(data),
            counter=counter,
            has_all_files=False,
        )
    return Asked(
        team=team,
        data=data,
        actor=actor,
        counter=counter,
        profile=profile,
        task=planned.task if planned else task,
        repository_name=name,
        repository=repository,
        known=planned.known if planned else load_receiver_files(task, data.receiver),
        planned=planned,
        latest=None if planned else latest_retry(task, data.receiver),
    )


def _find_profile(team: Team, phase: str) -> ActiveProfile:
    profile = load_active_profile(team.pk, phase)
    if profile is None:
        known = ", ".join(each.value.phase for each in load_active_profiles(team.pk))
        raise InvalidInput.of("phase", f"there is no phase {phase!r:.80}; there are: {known}")
    return profile


def _find_repository(team: Team, name: str, *, is_asked: bool) -> Repository | None:
    """Return the indexed repository, or None. A name that a caller gives must occur somewhere.

    Raises:
        NotFound: nothing of the team has this name.
    """
    repository = Repository.objects.filter(team=team, name=name).first() if name else None
    if repository is None and is_asked and not any(rows.exists() for rows in _named(team, name)):
        raise NotFound(f"There is no repository {name!r}.")
    return repository


def _named(team: Team, name: str) -> tuple[QuerySet[Task], QuerySet[StandingDocument], QuerySet[Memory]]:
    """Return the rows that name a repository which may not be indexed."""
    return (
        Task.objects.filter(team=team, repository=name),
        StandingDocument.objects.of(team.pk, name),
        Memory.objects.filter(team=team, repository=name, deleted_at=None),
    )
