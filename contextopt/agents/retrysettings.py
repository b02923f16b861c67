"""How much of the error and of the changes a retry is sent: the team's settings, or else the defaults."""

from dataclasses import asdict, fields, replace
from typing import Any, ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from contextopt.agents.inputs import RetryLimitsIn
from contextopt.engine.agents.deltas import MAX_DIFF_CHARS, MAX_DIFF_LINES, MIN_CHARS, UNCUT
from contextopt.engine.agents.errorlogs import MAX_ERROR_TOKENS, MIN_TOKENS
from contextopt.engine.agents.retries import RetryLimits
from contextopt.limits import ACTOR_MAX
from contextopt.people.models import Team

_DEFAULTS = RetryLimits()
_LIMITS = {each.name for each in fields(RetryLimits)}


def _limit(default: int | None, low: int, high: int, help_text: str) -> Any:
    limits = [MinValueValidator(low), MaxValueValidator(high)]
    return models.PositiveIntegerField(default=default, validators=limits, help_text=help_text)


class RetrySettings(models.Model):
    """A team's limits for retries; a team without a row has the defaults.

    They can be edited, because each logged retry keeps the limits it was made with.
    """

    team = models.OneToOneField(Team, models.DB_CASCADE, related_name="retry_settings", primary_key=True)
    error_tokens = _limit(
        _DEFAULTS.error_tokens, MIN_TOKENS, MAX_ERROR_TOKENS, "Maximum tokens of the error in a retry."
    )
    diff_lines = _limit(_DEFAULTS.diff_lines, 1, MAX_DIFF_LINES, "Maximum changed lines shown of each file.")
    diff_characters = _limit(
        _DEFAULTS.diff_characters, MIN_CHARS, MAX_DIFF_CHARS, "Maximum characters of each file's change."
    )
    updated_by = models.CharField(max_length=ACTOR_MAX, blank=True, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "retry settings"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(
                    error_tokens__range=(MIN_TOKENS, MAX_ERROR_TOKENS),
                    diff_lines__range=(1, MAX_DIFF_LINES),
                    diff_characters__range=(MIN_CHARS, MAX_DIFF_CHARS),
                ),
                name="retry_settings_range",
            ),
        ]

    def __str__(self) -> str:
        return f"retries of {self.team}"

    def to_value(self) -> RetryLimits:
        return RetryLimits(self.diff_lines, self.diff_characters, self.error_tokens)


def resolve_limits(team_id: int, asked: RetryLimitsIn) -> RetryLimits:
    """Return the limits of a retry: those asked for, else the team's, else the defaults."""
    stored = RetrySettings.objects.filter(team_id=team_id).first()
    limits = stored.to_value() if stored else _DEFAULTS
    limits = replace(limits, **asked.model_dump(include=_LIMITS, exclude_none=True))
    return replace(limits, **asdict(UNCUT)) if asked.uncut else limits
