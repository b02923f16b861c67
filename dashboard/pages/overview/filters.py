"""The filters of the Overview."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from urllib.parse import urlencode

from django import forms
from django.db import connection
from django.urls import reverse

from contextopt.agents.models import PHASE_MAX
from contextopt.assemblies.models import Kind
from contextopt.inputs import INT_MAX
from contextopt.limits import MODEL_MAX
from dashboard.kit.filters import STAGES, PeriodForm, SpaceFilterForm
from dashboard.rollups.coverage import FigureFilter


@dataclass(frozen=True, slots=True)
class Choices:
    """The values that the filters offer: phases and models in use most of the time, newest versions."""

    phases: tuple[str, ...]
    models: tuple[str, ...]
    versions: tuple[int, ...]


CHOICES_SHOWN = 50
CHOICES_DAYS = 100

# Counts summaries, not their assemblies: the index alone answers, in a third of the time.
_CHOICES = """
    WITH seen AS MATERIALIZED (
        SELECT phase, model, count(*) AS summaries FROM dashboard_daysummary
         WHERE team_id = %(team)s AND start >= %(since)s GROUP BY 1, 2
    )
    SELECT ARRAY(SELECT phase FROM seen WHERE phase <> ''
                  GROUP BY 1 ORDER BY sum(summaries) DESC, 1 LIMIT %(limit)s),
           ARRAY(SELECT model FROM seen WHERE model <> ''
                  GROUP BY 1 ORDER BY sum(summaries) DESC, 1 LIMIT %(limit)s),
           ARRAY(SELECT DISTINCT c.version FROM contextopt_contextconfig c
                   JOIN contextopt_space s ON s.id = c.space_id
                  WHERE s.team_id = %(team)s AND (%(space)s::bigint IS NULL OR s.id = %(space)s)
                  ORDER BY 1 DESC LIMIT %(limit)s)
"""


def read_choices(team_id: int, space_id: int | None, now: datetime) -> Choices:
    """Return the values that the filters offer, in one query, leaving out assemblies not summarised yet."""
    since = now - timedelta(days=CHOICES_DAYS)
    values = {"team": team_id, "space": space_id, "since": since, "limit": CHOICES_SHOWN}
    with connection.cursor() as cursor:
        cursor.execute(_CHOICES, values)
        return Choices(*map(tuple, cursor.fetchone()))


APART = "apart"


class OverviewForm(SpaceFilterForm, PeriodForm):
    """Filters of the overview. Callers choose the names of phases and models, so those are text fields."""

    chip_names = ("space", "stage", "kind", "phase", "config", "model", "kinds")
    stage = forms.ChoiceField(choices=[("", "All stages"), *STAGES], required=False)
    kind = forms.ChoiceField(choices=[("", "All kinds"), *Kind.choices], required=False)
    phase = forms.CharField(max_length=PHASE_MAX, required=False, strip=False)
    config = forms.IntegerField(min_value=1, max_value=INT_MAX, required=False)
    model = forms.CharField(max_length=MODEL_MAX, required=False, strip=False)
    kinds = forms.ChoiceField(
        choices=[("", "Combined"), (APART, "Split by kind")], required=False, label="Charts"
    )

    @property
    def is_apart(self) -> bool:
        return self.cleaned_data.get("kinds") == APART

    @cached_property
    def kept(self) -> dict[str, object]:
        """The valid filters that the list of assemblies has too."""
        names = ("space", "stage", "kind", "phase", "config", "model")
        return {name: self.cleaned_data.get(name) or None for name in names}

    def rows_url(self, **more: str) -> str:
        """Return the URL of the assemblies that pass the filters and `more`; a bucket's query may follow."""
        query = urlencode({name: value for name, value in (self.kept | more).items() if value})
        return f"{self._list_url}?{query}{'&' if query else ''}"

    @cached_property
    def _list_url(self) -> str:
        return reverse("dashboard:assemblies")

    def to_filter(self, now: datetime) -> FigureFilter:
        """Return the filter; invalid fields are ignored."""
        given = self.cleaned_data
        stage = given.get("stage")
        return FigureFilter(
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
        """Return the options of the phase, config and model filters, including the chosen ones."""
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
