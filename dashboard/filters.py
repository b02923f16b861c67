"""What may stand behind the question mark: the filters of the pages, validated."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, cast
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django import forms
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from contextopt.engine.retries import ROOT_CAUSES
from contextopt.inputs import QUERY_MAX, AssemblyIn
from contextopt.models import Assembly, Attempt, Kind, Record, Space, Task, TaskState, Team
from contextopt.models.phases import PHASE_MAX
from contextopt.models.spaces import DATE_MAX, DATE_MIN
from contextopt.models.tasks import REPOSITORY_MAX, TASK_EXTERNAL_ID_MAX
from contextopt.repositoryinputs import BUDGET_DEFAULT, RelevantIn
from dashboard.metrics import Choices, OverviewFilter
from dashboard.periods import CUSTOM, MAX_DAYS, RANGES, Period, custom_period, recent_period
from dashboard.phases import PhaseFilter

STAGE_NAMES = {2: "no records", 3: "last 10 records", 4: "scored and budgeted", 5: "with search"}
STAGES = [(str(stage), f"{stage} · {name}") for stage, name in STAGE_NAMES.items()]
MODEL_MAX = 120
INT_MAX = 2**31 - 1
APART = "apart"
# More than a screenful of files, and of arcs between them, says nothing.
CHOSEN_FILES = 30
# A question stands in the address, and servers refuse long ones; the API takes more.
TASK_WORDS_MAX = 2_000
EARLIEST, LATEST = DATE_MIN.date(), date(DATE_MAX.year - 1, 12, 31)


class FilterForm(forms.Form):
    """Fields of a GET form, and the query string that says the same."""

    def query(self, **changes: object) -> str:
        """Return the filters as a query string, without empty ones."""
        values: Mapping[str, object] = {name: self[name].value() for name in self.fields} | changes
        given = {name: value for name, value in values.items() if value not in (None, "", False)}
        return urlencode({name: "on" if value is True else value for name, value in given.items()})


class DayField(forms.DateField):
    """A day that PostgreSQL and Python both know."""

    widget = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")

    def to_python(self, value: Any) -> date | None:
        day = super().to_python(value)
        if day is not None and not EARLIEST <= day <= LATEST:
            raise forms.ValidationError(f"Give a day from {EARLIEST:%Y} to {LATEST:%Y}.")
        return day


class MomentField(forms.CharField):
    """A day, or a date-time; without an offset it is the team's wall clock."""

    def clean(self, value: Any) -> datetime | None:
        text = super().clean(value)
        if not text:
            return None
        try:
            moment = parse_datetime(text)
            if moment is None and (day := parse_date(text)):
                moment = datetime(day.year, day.month, day.day)  # noqa: DTZ001 made aware below
        except ValueError:
            moment = None
        if moment is None or not EARLIEST <= moment.date() <= LATEST:
            raise forms.ValidationError(
                "Give a day such as 2026-01-31, or a date-time such as 2026-01-31T12:00."
            )
        return (moment if moment.tzinfo else timezone.make_aware(moment)).astimezone(UTC)


class PeriodForm(FilterForm):
    """A stretch of time, by name or by its first and last day."""

    range = forms.ChoiceField(
        choices=[*((name, name) for name in RANGES), (CUSTOM, "Custom")], required=False
    )
    first = DayField(required=False, label="From")
    last = DayField(required=False, label="To")

    def __init__(self, data: Any, *, team: Team) -> None:
        super().__init__(data)
        self.team = team

    def clean(self) -> dict[str, Any]:
        cleaned = cast("dict[str, Any]", super().clean())
        if cleaned.get("range") != CUSTOM or self.errors:
            return cleaned
        first, last = cleaned.get("first"), cleaned.get("last")
        if first is None or last is None:
            raise forms.ValidationError({"first": "Give the first and the last day."})
        if not timedelta(0) <= last - first < timedelta(days=MAX_DAYS):
            raise forms.ValidationError({"last": f"Give at most {MAX_DAYS} days, the first before the last."})
        return cleaned

    @property
    def chosen_range(self) -> str:
        return cast(str, self.cleaned_data.get("range")) or "14d"

    def ranges(self) -> list[tuple[str, str, bool]]:
        """Return the named ranges, each with its query string and whether it is the chosen one."""
        return [
            (name, self.query(range=name, first=None, last=None), name == self.chosen_range)
            for name in RANGES
        ]

    @property
    def is_custom(self) -> bool:
        return self.chosen_range == CUSTOM

    def period(self, now: datetime) -> Period:
        """Return the period; fields that were refused count as not given."""
        zone = ZoneInfo(self.team.time_zone)
        if self.chosen_range != CUSTOM:
            return recent_period(self.chosen_range, now, zone)
        if not self.is_valid():
            return recent_period("14d", now, zone)
        return custom_period(self.cleaned_data["first"], self.cleaned_data["last"], now, zone)


class OverviewForm(PeriodForm):
    """Filters of the overview. Phases and models are whatever callers name, so they are no fixed choices."""

    space = forms.ChoiceField(required=False)
    stage = forms.ChoiceField(choices=[("", "All stages"), *STAGES], required=False)
    kind = forms.ChoiceField(choices=[("", "All kinds"), *Kind.choices], required=False)
    phase = forms.CharField(max_length=PHASE_MAX, required=False, strip=False)
    config = forms.IntegerField(min_value=1, max_value=INT_MAX, required=False)
    model = forms.CharField(max_length=MODEL_MAX, required=False, strip=False)
    kinds = forms.ChoiceField(choices=[("", "Kinds together"), (APART, "Kinds apart")], required=False)

    def __init__(self, data: Any, *, team: Team) -> None:
        super().__init__(data, team=team)
        self.spaces = {space.slug: space for space in Space.objects.of(team)}
        field = cast(forms.ChoiceField, self.fields["space"])
        field.choices = [("", "All spaces"), *((slug, space.name) for slug, space in self.spaces.items())]

    @property
    def space_id(self) -> int | None:
        chosen = self.spaces.get(self.cleaned_data.get("space", ""))
        return chosen.pk if chosen else None

    @property
    def is_apart(self) -> bool:
        return self.cleaned_data.get("kinds") == APART

    @property
    def kept(self) -> dict[str, object]:
        """The filters that the list of assemblies has too; what was refused is not kept."""
        names = ("space", "stage", "kind", "phase", "config", "model")
        return {name: self.cleaned_data.get(name) or None for name in names}

    def to_filter(self, now: datetime) -> OverviewFilter:
        """Return the filter; fields that were refused count as not given."""
        given = self.cleaned_data
        stage = given.get("stage")
        return OverviewFilter(
            team_id=self.team.pk,
            period=self.period(now),
            space_id=self.space_id,
            stage=int(stage) if stage else None,
            kind=given.get("kind") or None,
            phase=given.get("phase") or None,
            config_version=given.get("config"),
            model=given.get("model") or None,
        )

    def offered(self, choices: Choices) -> dict[str, list[tuple[str, str]]]:
        """Return the options of the open filters; the chosen one is among them whether it was seen or not."""
        seen = {
            "phase": [(phase, phase) for phase in choices.phases],
            "config": [(str(version), f"v{version}") for version in choices.versions],
            "model": [(model, model) for model in choices.models],
        }
        for name, options in seen.items():
            chosen = str(self.cleaned_data.get(name) or "")
            if chosen and chosen not in dict(options):
                options.append((chosen, f"v{chosen}" if name == "config" else chosen))
        return seen


class PhasesForm(PeriodForm):
    phase = forms.CharField(max_length=PHASE_MAX, required=False, strip=False)

    def to_filter(self, now: datetime) -> PhaseFilter:
        """Return the filter; fields that were refused count as not given."""
        return PhaseFilter(self.team.pk, self.period(now), self.cleaned_data.get("phase") or None)

    def select(self, period: Period) -> QuerySet[Assembly]:
        """Return the filterings of the period."""
        found = Assembly.objects.of(self.team).filter(
            kind=Kind.PHASE, created_at__gte=period.start, created_at__lt=period.until
        )
        phase = self.cleaned_data.get("phase")
        return found.filter(phase=phase) if phase else found


class RecordsForm(FilterForm):
    """Filters of a space's records."""

    type = forms.CharField(max_length=64, required=False)
    tag = forms.CharField(max_length=100, required=False)
    source = forms.CharField(max_length=200, required=False)
    show = forms.ChoiceField(
        choices=[("", "Live records"), ("pinned", "Pinned"), ("deleted", "Deleted")], required=False
    )

    def select(self, space: Space) -> QuerySet[Record]:
        """Return the space's records that pass, without their notes."""
        found = Record.objects.filter(space=space).defer("notes", "metadata", "summary", "content_hash")
        if not self.is_valid():
            return found.none()
        given = self.cleaned_data
        found = found.filter(deleted_at__isnull=given["show"] != "deleted")
        if given["show"] == "pinned":
            found = found.filter(pinned=True)
        if given["tag"]:
            found = found.filter(tags__contains=[given["tag"]])
        exact = {name: given[name] for name in ("type", "source") if given[name]}
        return found.filter(**exact)


class PreviewForm(FilterForm):
    """How the preview departs from the space's own settings."""

    question = forms.CharField(max_length=QUERY_MAX, required=False)
    stage = forms.ChoiceField(
        choices=[("", "By the question"), ("5", "5"), ("4", "4"), ("3", "3"), ("2", "2")], required=False
    )
    window = forms.ChoiceField(
        choices=[("", "As set"), ("7", "7 days"), ("14", "14 days"), ("30", "30 days"), ("all", "All")],
        required=False,
    )
    as_of = MomentField(required=False, max_length=40, label="As of")

    def to_request(self, space: Space) -> AssemblyIn:
        """Return the request; the form must be valid."""
        given = self.cleaned_data
        window = given["window"]
        return AssemblyIn(
            space=space.slug,
            query=given["question"],
            stage=cast(Literal[2, 3, 4, 5], int(given["stage"])) if given["stage"] else None,
            window_days=None if not window else "all" if window == "all" else int(window),
            as_of=given["as_of"],
        )


class TasksForm(FilterForm):
    """Filters of the list of tasks; `find` looks one up by id or by the caller's own id."""

    state = forms.ChoiceField(choices=[("", "All states"), *TaskState.choices], required=False)
    cause = forms.ChoiceField(
        choices=[("", "All root causes"), *((name, name.replace("_", " ")) for name in ROOT_CAUSES)],
        required=False,
        label="Root cause",
    )
    repository = forms.CharField(max_length=REPOSITORY_MAX, required=False)
    find = forms.CharField(max_length=TASK_EXTERNAL_ID_MAX, required=False)

    def __init__(self, data: Any, *, team: Team) -> None:
        super().__init__(data)
        self.team = team

    def select(self) -> QuerySet[Task]:
        """Return the team's tasks that pass; a list whose filters were refused is empty."""
        found = Task.objects.of(self.team)
        if not self.is_valid():
            return found.none()
        given = self.cleaned_data
        found = found.filter(**{name: given[name] for name in ("state", "repository") if given[name]})
        if given["cause"]:
            causes = Attempt.objects.filter(task=OuterRef("pk"), root_cause=given["cause"])
            found = found.filter(Exists(causes))
        find = given["find"]
        if find:
            is_id = find.isascii() and find.isdecimal() and int(find) < 2**63
            found = found.filter(Q(external_id=find) | Q(pk=int(find)) if is_id else Q(external_id=find))
        return found


class RelevantForm(FilterForm):
    """A task to find the files of, and the tokens that they may take."""

    task = forms.CharField(
        max_length=TASK_WORDS_MAX,
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
        """Say the budget where the address does not, so that the page shows the one that was used."""
        complete = given.copy()
        complete.setdefault("budget", str(BUDGET_DEFAULT))
        return complete

    def to_request(self) -> RelevantIn:
        """Return the request; the form must be valid."""
        given = self.cleaned_data
        return RelevantIn(task=given["task"], budget=given["budget"] or BUDGET_DEFAULT, limit=CHOSEN_FILES)
