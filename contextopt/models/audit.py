"""Who changed what, and when: settings, keys, roles, invitations, deletions, rules."""

from typing import ClassVar, Self

from django.db import models
from django.utils import timezone

from contextopt.models.access import Team

ACTION_MAX = 40
SUBJECT_MAX = 200


class AuditEventQuerySet(models.QuerySet["AuditEvent"]):
    def of(self, team: Team) -> Self:
        return self.filter(team=team)


class AuditEvent(models.Model):
    """One change, written in the transaction that makes it. A trigger refuses to change it."""

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="audit_events", db_index=False)
    at = models.DateTimeField(default=timezone.now)
    actor = models.CharField(max_length=160)
    action = models.CharField(max_length=ACTION_MAX, help_text="what was done, such as key.created")
    subject = models.CharField(max_length=SUBJECT_MAX, help_text="to what, by its name")
    before = models.JSONField(default=dict, help_text="the values that changed, as they were")
    after = models.JSONField(default=dict, help_text="the values that changed, as they are")

    objects = AuditEventQuerySet.as_manager()

    class Meta:
        # A team's log, newest first.
        indexes: ClassVar = [models.Index(fields=["team", "-at", "-id"], name="audit_event_newest")]

    def __str__(self) -> str:
        return f"{self.action} {self.subject}"
