"""The subject of a step: its task, phase, repository and failure, checked and looked up."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from django.db.models import QuerySet

from contextopt.agents.inputs import TaskIn
from contextopt.agents.models import Attempt, Task
from contextopt.agents.phaselinks import ActiveLink, load_active_link, load_active_links
from contextopt.agents.phases import ActiveProfile, load_active_profile
from contextopt.agents.receivers import load_receiver_files
from contextopt.agents.retries import PlannedAttempt, latest_retry, plan_attempt
from contextopt.agents.standingdocuments import StandingDocument
from contextopt.agents.tasks import create_task, find_task
from contextopt.engine.agents.contexts import FIELDS, AgentContext, ContextFile
from contextopt.engine.agents.deltas import ReceiverFiles, is_binary
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
    link: ActiveLink
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
        """The caller's own context. If context was missing, also all files posted or sent before."""
        given = AgentContext() if self.data.context is None else self.data.context.to_value()
        if self.action != "refetch":
            return given
        return replace(given, files=(*given.files, *self._files_sent_again(given)))

    def _files_sent_again(self, given: AgentContext) -> Iterator[ContextFile]:
        posted = self.planned.data.files if self.planned else {}
        sent = {path: file.content for path, file in self.known.items()}
        shown = {file.path for file in given.files}
        for path, content in sorted({**sent, **posted}.items()):
            if isinstance(content, str) and not is_binary(content) and path not in shown:
                yield ContextFile(path, content)

    @property
    def action(self) -> str:
        """The action that follows from the failure in this request, or an empty text without one."""
        return self.planned.retry.plan.action if self.planned else ""

    @property
    def sends_changes(self) -> bool:
        """Whether a retry or a replan is sent, beside which its receiver only gets what it lacks."""
        return self.action in ("retry", "replan")

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that are sent: what the phase keeps, everything if context was missing, else nothing.

        A retry is only sent what changed, and a replan the plan and its diagnosis.
        """
        if self.sends_changes:
            return ()
        return FIELDS if self.action == "refetch" else self.profile.value.fields

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
    link = load_active_link(team.pk, data.phase)
    profile = _find_profile(team, data.phase, link)
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
        link=link,
        profile=profile,
        task=planned.task if planned else task,
        repository_name=name,
        repository=repository,
        known=planned.known if planned else load_receiver_files(task, data.receiver),
        planned=planned,
        latest=None if planned else latest_retry(task, data.receiver),
    )


def _find_profile(team: Team, phase: str, link: ActiveLink) -> ActiveProfile:
    profile = load_active_profile(team.pk, link.value.profile)
    if profile is None:
        known = ", ".join(each.value.phase for each in load_active_links(team.pk))
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
