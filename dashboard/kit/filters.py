"""The filters in the pages' query strings, validated, and saved under a name."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import Any, ClassVar, Self, cast
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django import forms
from django.db import models, transaction
from django.db.models import Q, QuerySet
from django.http import Http404, QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from contextopt.errors import Conflict
from contextopt.limits import ACTOR_MAX, DATE_MAX, DATE_MIN
from contextopt.people.models import Team, User
from contextopt.spaces.models import Space
from dashboard.kit.periods import CUSTOM, MAX_DAYS, RANGES, Period, custom_period, recent_period

STAGE_NAMES = {2: "no records", 3: "last 10 records", 4: "scored and budgeted", 5: "ranked by question"}
STAGES = [(str(stage), f"{stage} · {name}") for stage, name in STAGE_NAMES.items()]
# All kinds of assemblies but contexts of spaces.
AGENTS = "agents"
SPACES_OFFERED = 500
# Questions and tasks are part of the URL, and servers refuse long ones. The API accepts more.
URL_TEXT_MAX = 2_000
EARLIEST, LATEST = DATE_MIN.date(), date(DATE_MAX.year - 1, 12, 31)


@dataclass(frozen=True, slots=True)
class Chip:
    """An active filter. `query` is the page's query string without it."""

    label: str
    value: str
    query: str


class FilterForm(forms.Form):
    """A GET form that can also be written as a query string.

    `chip_names` are the filters that have a chip while they are set.
    """

    chip_names: ClassVar[tuple[str, ...]] = ()

    @cached_property
    def _values(self) -> dict[str, object]:
        """The values as given, whether or not they are valid."""
        return {name: self[name].value() for name in self.fields}

    def query(self, **changes: object) -> str:
        """Return the filters as a query string, without empty ones."""
        values = self._values | changes
        given = {name: value for name, value in values.items() if value not in (None, "", False)}
        return urlencode({name: "on" if value is True else value for name, value in given.items()})

    def lookups(self, *same: str, **others: str) -> dict[str, Any]:
        """Return the values of the fields that are set, for `filter`: under the field's name or another.

        The form must be valid.
        """
        names = {**dict(zip(same, same, strict=True)), **others}
        return {lookup: value for lookup, name in names.items() if (value := self.cleaned_data.get(name))}

    def chips(self) -> list[Chip]:
        return [
            Chip(str(self[name].label), self._shown(name), self.query(**{name: None}))
            for name in self.chip_names
            if self._values[name]
        ]

    def _shown(self, name: str) -> str:
        """Return a chosen value as the form's options name it."""
        value = str(self._values[name])
        if name == "config":
            return f"v{value}"
        choices = cast(list[tuple[str, str]], getattr(self.fields[name], "choices", []))
        return next((str(label) for given, label in choices if given == value), value)

    def query_without_chips(self) -> str:
        return self.query(**dict.fromkeys(self.chip_names))


def read_text(query: QueryDict, name: str) -> str:
    """Return a parameter that no form checks, without NUL characters: the database refuses them."""
    return query.get(name, "").replace("\0", "").strip()


def offered_spaces(team: Team, chosen: str = "") -> QuerySet[Space]:
    """Return the team's first spaces by name, and in any case the chosen one and those of the demo."""
    first = Space.objects.of(team).values("pk")[:SPACES_OFFERED]
    also = Q(slug=chosen.replace("\x00", "")) | Q(is_demo=True)
    return Space.objects.of(team).filter(Q(pk__in=first) | also).only("slug", "name", "is_demo")


def space_choices(team: Team, chosen: str = "") -> QuerySet[Space, tuple[str, str]]:
    """Return the slugs and names of the offered spaces, for a select. The query runs when it is shown."""
    return offered_spaces(team, chosen).values_list("slug", "name")


class DayField(forms.DateField):
    """A day within the range of both PostgreSQL and Python."""

    widget = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")

    def to_python(self, value: Any) -> date | None:
        day = super().to_python(value)
        if day is not None and not EARLIEST <= day <= LATEST:
            raise forms.ValidationError(f"Enter a date between {EARLIEST:%Y} and {LATEST:%Y}.")
        return day


class MomentField(forms.CharField):
    """A day, or a date-time; without an offset it is in the team's time zone.

    With `is_end`, a bare day stands for its end, so that the day is included.
    """

    def __init__(self, *, is_end: bool = False, label: str | None = None) -> None:
        super().__init__(required=False, max_length=40, label=label)
        self.is_end = is_end

    def clean(self, value: Any) -> datetime | None:
        text = super().clean(value)
        if not text:
            return None
        try:
            day, moment = parse_date(text), parse_datetime(text)
        except ValueError:
            day = moment = None
        if moment is None or not EARLIEST <= moment.date() <= LATEST:
            raise forms.ValidationError(
                "Enter a date such as 2026-01-31, or a date and time such as 2026-01-31T12:00."
            )
        if day and self.is_end:
            moment += timedelta(days=1)
        return (moment if moment.tzinfo else timezone.make_aware(moment)).astimezone(UTC)


class TeamFilterForm(FilterForm):
    """Filters of a team's rows."""

    def __init__(self, data: Any, *, team: Team) -> None:
        super().__init__(data)
        self.team = team


class SpaceFilterForm(TeamFilterForm):
    """Filters of a team's rows, among them the space."""

    space = forms.ChoiceField(required=False)

    def __init__(self, data: Any, *, team: Team) -> None:
        super().__init__(data, team=team)
        self.spaces = {space.slug: space for space in offered_spaces(team, self.data.get("space", ""))}
        offered = [(slug, space.name) for slug, space in self.spaces.items()]
        cast(forms.ChoiceField, self.fields["space"]).choices = [("", "All spaces"), *offered]

    @property
    def space_id(self) -> int | None:
        chosen = self.spaces.get(self.cleaned_data.get("space", ""))
        return chosen.pk if chosen else None


class PeriodForm(TeamFilterForm):
    """A period of time, by name or by its first and last day."""

    range = forms.ChoiceField(
        choices=[*((name, name) for name in RANGES), (CUSTOM, "Custom")], required=False
    )
    first = DayField(required=False, label="From")
    last = DayField(required=False, label="To")

    def clean(self) -> dict[str, Any]:
        cleaned = cast("dict[str, Any]", super().clean())
        if cleaned.get("range") != CUSTOM or self.errors:
            return cleaned
        first, last = cleaned.get("first"), cleaned.get("last")
        if first is None or last is None:
            raise forms.ValidationError({"first": "Enter the first and last day."})
        if not timedelta(0) <= last - first < timedelta(days=MAX_DAYS):
            raise forms.ValidationError(
                {"last": f"Enter at most {MAX_DAYS} days, with the first day before the last."}
            )
        return cleaned

    @property
    def chosen_range(self) -> str:
        return cast(str, self.cleaned_data.get("range")) or "14d"

    def ranges(self) -> list[tuple[str, str, bool]]:
        """Return the named ranges, each with its query string and whether it is selected."""
        return [
            (name, self.query(range=name, first=None, last=None), name == self.chosen_range)
            for name in RANGES
        ]

    @property
    def is_custom(self) -> bool:
        return self.chosen_range == CUSTOM

    def refuse_errors(self) -> None:
        """Validate the filters of an export, which has no place for errors.

        Raises:
            Http404: a filter is wrong, such as a space that was deleted. The export would not be filtered.
        """
        for name, errors in self.errors.items():
            raise Http404(f"{self.fields[name].label or name.capitalize()}: {errors[0]}")

    def period(self, now: datetime) -> Period:
        """Return the period; invalid fields are ignored."""
        zone = ZoneInfo(self.team.time_zone)
        if self.chosen_range != CUSTOM:
            return recent_period(self.chosen_range, now, zone)
        if not self.is_valid():
            return recent_period("14d", now, zone)
        return custom_period(self.cleaned_data["first"], self.cleaned_data["last"], now, zone)


NAME_MAX = 80
QUERY_MAX = 2_000


class ViewPage(models.TextChoices):
    OVERVIEW = "overview", "Overview"
    ASSEMBLIES = "assemblies", "Assemblies"


class SavedViewQuerySet(models.QuerySet["SavedView"]):
    def visible_to(self, user: User, team: Team) -> Self:
        """The team's shared views and the user's own."""
        return self.filter(team=team).filter(Q(owner=user) | Q(owner=None)).order_by("name", "id")


class SavedView(models.Model):
    """A page's query string, saved by one person or, without an owner, for the team."""

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="saved_views")
    owner = models.ForeignKey(User, models.DB_CASCADE, null=True, blank=True, related_name="saved_views")
    page = models.CharField(max_length=16, choices=ViewPage)
    name = models.CharField(max_length=NAME_MAX)
    query = models.CharField(max_length=QUERY_MAX, blank=True)
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = SavedViewQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["team", "owner", "page", "name"], name="saved_view_once", nulls_distinct=False
            ),
            models.CheckConstraint(condition=Q(page__in=ViewPage.values), name="saved_view_page"),
        ]

    def __str__(self) -> str:
        return self.name


# Enough for a menu.
VIEWS_MAX = 50


@transaction.atomic
def save_view(
    *, team: Team, owner: User | None, page: str, name: str, query: str, created_by: str
) -> SavedView:
    """Save a query string, replacing one of the same name. Without an owner it belongs to the team.

    Raises:
        Conflict: the person, or the team, has the maximum number of views.
    """
    team.lock()
    mine = SavedView.objects.filter(team=team, owner=owner, page=page)
    if not mine.filter(name=name).exists() and mine.count() >= VIEWS_MAX:
        raise Conflict(f"You already have {VIEWS_MAX} saved views. Delete one first.")
    view, _ = SavedView.objects.update_or_create(
        team=team, owner=owner, page=page, name=name, defaults={"query": query, "created_by": created_by}
    )
    return view
