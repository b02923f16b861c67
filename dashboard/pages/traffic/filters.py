"""The filters of the page Traffic, and of the list of prompts behind its figures."""

from datetime import datetime
from typing import Any, ClassVar, cast

from django import forms
from django.db.models import Q, QuerySet

from contextopt.gateway.models import GatewayRequest, Mode, Outcome, Reason
from contextopt.inputs import read_digits
from contextopt.limits import MODEL_MAX
from contextopt.people.models import ApiKey, Team
from dashboard.kit.filters import MomentField, PeriodForm, SpaceFilterForm
from dashboard.kit.responses import cursor_moment
from dashboard.rollups.traffic import TrafficFilter, narrow_prompts

# Stands for prompts without a space, without a key, or that name no model.
ABSENT = "-"
KEYS_OFFERED = 200
CACHED = [
    ("", "Cached tokens: all"),
    ("reported", "Cached tokens reported"),
    ("not", "Cached tokens not reported"),
]
CONTEXTS = [
    ("", "With and without context"),
    ("inserted", "Context inserted"),
    ("without", "Without context"),
]
FAILED = "failed"
OUTCOMES = [("", "All answers"), (FAILED, "Failed"), *Outcome.choices]
# The prompts behind each figure; `dashboard.rollups.traffic.HOLDS` finds the quarters that have such prompts.
CONDITIONS = {
    "inserted": Q(is_inserted=True),
    "without": ~Q(reason=""),
    "failed": ~Q(outcome=Outcome.ABANDONED) & (~Q(outcome=Outcome.ANSWERED) | Q(status_code__gte=400)),
    "abandoned": Q(outcome=Outcome.ABANDONED),
    "reported": Q(cached_tokens__isnull=False),
    "not": Q(cached_tokens__isnull=True),
    "keyless": Q(api_key=None),
}
_COLUMNS = {"key_id": "api_key"}
# The figure that counts such answers, so that the quarters without any can be skipped.
_HOLDING = {
    FAILED: "failed", Outcome.UNREACHABLE: "failed", Outcome.BROKEN: "failed", Outcome.ABANDONED: "abandoned",
}  # fmt: skip


class _Narrowed(SpaceFilterForm):
    """The filters that figures and lists share."""

    chip_names: ClassVar[tuple[str, ...]] = ("space", "key", "model", "mode", "reason")
    key = forms.ChoiceField(required=False)
    model = forms.CharField(max_length=MODEL_MAX, required=False, strip=False)
    mode = forms.ChoiceField(choices=[("", "All modes"), *Mode.choices], required=False)
    reason = forms.ChoiceField(
        choices=[("", "All reasons"), *Reason.choices], required=False, label="Without context because"
    )

    def __init__(self, data: Any, *, team: Team) -> None:
        super().__init__(data, team=team)
        keys = ApiKey.objects.filter(team=team).order_by("-id")
        offered_keys = Q(pk__in=keys.values("pk")[:KEYS_OFFERED]) | Q(
            pk=read_digits(self.data.get("key", ""))
        )
        self.team_keys = dict(keys.filter(offered_keys).values_list("pk", "name"))
        offered = [(str(pk), name) for pk, name in self.team_keys.items()]
        cast(forms.ChoiceField, self.fields["key"]).choices = [("", "All keys"), *offered]

    @property
    def key_id(self) -> int | None:
        """The chosen key; a choice that is not offered is an error, so this is a number."""
        key = self.cleaned_data.get("key")
        return int(key) if key else None


class TrafficForm(_Narrowed, PeriodForm):
    """The filters of the figures."""

    def to_filter(self, now: datetime) -> TrafficFilter:
        """Return the filter; invalid fields are ignored."""
        given = self.cleaned_data
        return TrafficFilter(
            team_id=self.team.pk,
            period=self.period(now),
            space_id=self.space_id,
            key_id=self.key_id,
            model=given.get("model") or None,
            mode=given.get("mode") or None,
            reason=given.get("reason") or None,
        )

    @property
    def kept(self) -> dict[str, object]:
        """The valid filters, which the list has too."""
        names = ("space", "key", "model", "mode", "reason")
        return {name: self.cleaned_data.get(name) or None for name in names}


class PromptsForm(_Narrowed):
    """The filters of the list. An empty model, space or key is asked for as `-`."""

    chip_names: ClassVar[tuple[str, ...]] = (
        "space", "key", "model", "mode", "reason", "context", "outcome", "cached", "start", "end",
    )  # fmt: skip
    context = forms.ChoiceField(choices=CONTEXTS, required=False)
    outcome = forms.ChoiceField(choices=OUTCOMES, required=False, label="Answer")
    cached = forms.ChoiceField(choices=CACHED, required=False, label="Cached")
    start = MomentField(label="From")
    end = MomentField(is_end=True, label="To")

    def __init__(self, data: Any, *, team: Team) -> None:
        super().__init__(data, team=team)
        for name, label in (("space", "No space"), ("key", "A deleted key")):
            field = cast(forms.ChoiceField, self.fields[name])
            field.choices = [*field.choices, (ABSENT, label)]  # type: ignore[misc]

    def select(self, cursor: str = "") -> QuerySet[GatewayRequest]:
        """Return the team's matching prompts; with filters, only those in the quarters of the cursor's page.

        An invalid filter matches nothing.
        """
        rows = GatewayRequest.objects.of(self.team).defer("question", "answer")
        if not self.is_valid():
            return rows.none()
        given = self.cleaned_data
        same, figures = self._dimensions(), self._holds()
        rows = rows.filter(**self.lookups(created_at__gte="start", created_at__lt="end"))
        rows = rows.filter(**{_COLUMNS.get(name, name): value for name, value in same.items()})
        for name in figures:
            rows = rows.filter(CONDITIONS[name])
        if given["outcome"] != FAILED and given["outcome"]:
            rows = rows.filter(outcome=given["outcome"])
        if not same and not figures:
            return rows
        before = cursor_moment(cursor) or given["end"]
        return rows.filter(narrow_prompts(self.team.pk, before, given["start"], same, figures))

    def _dimensions(self) -> dict[str, Any]:
        """Return the values that rollups distinguish, by their names there."""
        given = self.cleaned_data
        found: dict[str, Any] = {name: given[name] for name in ("mode", "reason") if given[name]}
        if given["model"]:
            found["model"] = "" if given["model"] == ABSENT else given["model"]
        if given["space"]:
            found["space_id"] = None if given["space"] == ABSENT else self.space_id
        if given["key"] and given["key"] != ABSENT:
            found["key_id"] = self.key_id
        return found

    def _holds(self) -> list[str]:
        given = self.cleaned_data
        keyless = "keyless" if given["key"] == ABSENT else ""
        ended = _HOLDING.get(given["outcome"], "")
        return [name for name in (given["context"], given["cached"], ended, keyless) if name]
