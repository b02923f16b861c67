"""The filters of the agents' pages."""

from datetime import datetime

from django import forms
from django.db.models import Exists, OuterRef, QuerySet
from django.http import QueryDict

from contextopt.agents.models import (
    REPOSITORY_MAX,
    TASK_EXTERNAL_ID_MAX,
    Attempt,
    HandoffPhase,
    Task,
    TaskState,
)
from contextopt.assemblies.models import Assembly, Kind
from contextopt.engine.agents.phases import MAX_PHASE_CHARS
from contextopt.engine.agents.retries import ROOT_CAUSES
from contextopt.repositories.inputs import BUDGET_DEFAULT, RelevantIn
from dashboard.kit.filters import URL_TEXT_MAX, FilterForm, PeriodForm, TeamFilterForm
from dashboard.kit.periods import Period
from dashboard.rollups.queries import FigureFilter

# More than a screenful of files and arcs is unreadable.
CHOSEN_FILES = 30


class PhasesForm(PeriodForm):
    phase = forms.CharField(max_length=MAX_PHASE_CHARS, required=False, strip=False)

    def to_filter(self, now: datetime) -> FigureFilter:
        """Return the filter; invalid fields are ignored."""
        phase = self.cleaned_data.get("phase") or None
        return FigureFilter(self.team.pk, self.period(now), kind=Kind.PHASE, phase=phase)

    def select(self, period: Period) -> QuerySet[Assembly]:
        """Return the filtered contexts of the period."""
        found = Assembly.objects.of(self.team).filter(
            kind=Kind.PHASE, created_at__gte=period.start, created_at__lt=period.until
        )
        phase = self.cleaned_data.get("phase")
        return found.filter(phase=phase) if phase else found


class _TaskFilters(TeamFilterForm):
    """Filters of a list of tasks; `find` matches an id or the caller's own id."""

    repository = forms.CharField(max_length=REPOSITORY_MAX, required=False)
    find = forms.CharField(max_length=TASK_EXTERNAL_ID_MAX, required=False, label="Number or external ID")

    def select(self) -> QuerySet[Task]:
        """Return the team's matching tasks; none if the filters are invalid."""
        found = Task.objects.of(self.team)
        if not self.is_valid():
            return found.none()
        found = found.filter(**self.lookups("repository", "phase", "state"))
        find = self.cleaned_data["find"]
        return found.named(find) if find else found


class HandoffTasksForm(_TaskFilters):
    phase = forms.ChoiceField(choices=[("", "All phases"), *HandoffPhase.choices], required=False)


class TasksForm(_TaskFilters):
    state = forms.ChoiceField(choices=[("", "All states"), *TaskState.choices], required=False)
    cause = forms.ChoiceField(
        choices=[("", "All root causes"), *((name, name.replace("_", " ")) for name in ROOT_CAUSES)],
        required=False,
        label="Root cause",
    )

    def select(self) -> QuerySet[Task]:
        found = super().select()
        if not self.cleaned_data.get("cause"):
            return found
        causes = Attempt.objects.filter(task=OuterRef("pk"), root_cause=self.cleaned_data["cause"])
        return found.filter(Exists(causes))


class RelevantForm(FilterForm):
    """A task to find the files for, and the token budget for them."""

    task = forms.CharField(
        max_length=URL_TEXT_MAX,
        widget=forms.Textarea(attrs={"rows": 3, "placeholder": "Round prices to whole cents in the cart"}),
    )
    budget = forms.TypedChoiceField(
        label="Budget",
        choices=[(2_000, "2,000 tokens"), (8_000, "8,000 tokens"), (24_000, "24,000 tokens")],
        coerce=int,
        initial=BUDGET_DEFAULT,
        required=False,
    )

    @staticmethod
    def with_default(given: QueryDict) -> QueryDict:
        """Add the default budget if the URL has none, so that the page shows the budget it used."""
        complete = given.copy()
        complete.setdefault("budget", str(BUDGET_DEFAULT))
        return complete

    def to_request(self) -> RelevantIn:
        """Return the request; the form must be valid."""
        given = self.cleaned_data
        return RelevantIn(task=given["task"], budget=given["budget"] or BUDGET_DEFAULT, limit=CHOSEN_FILES)
