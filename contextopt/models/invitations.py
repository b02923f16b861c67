"""Links that let people into a team."""

import secrets
from typing import ClassVar, Self

from django.db import models
from django.db.models import Q
from django.utils import timezone

from contextopt.models.access import Role, Team, User, hash_key

INVITED_MAX = 120


class InvitationQuerySet(models.QuerySet["Invitation"]):
    def usable(self) -> Self:
        """Invitations that were neither accepted nor revoked, and have not expired."""
        return self.filter(accepted_at=None, revoked_at=None, expires_at__gt=timezone.now())

    def create_with_token(self, **fields: object) -> tuple["Invitation", str]:
        """Make an invitation and return it with its token, which is stored nowhere."""
        token = secrets.token_urlsafe(32)
        return self.create(token_hash=hash_key(token), **fields), token


class Invitation(models.Model):
    """Lets one person into the team, once. Only the hash of its token is stored."""

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="invitations")
    role = models.CharField(max_length=16, choices=Role, default=Role.VIEWER)
    name = models.CharField(max_length=INVITED_MAX, help_text="whom it is for, as the team knows them")
    token_hash = models.CharField(max_length=64, unique=True, editable=False)
    created_by = models.CharField(max_length=160)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True)
    accepted_by = models.ForeignKey(User, models.DB_SET_NULL, null=True, related_name="invitations")
    revoked_at = models.DateTimeField(null=True)

    objects = InvitationQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(role__in=Role.values), name="invitation_role"),
            models.CheckConstraint(
                condition=Q(accepted_at=None) | Q(revoked_at=None), name="invitation_one_end"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} to {self.team} ({self.role})"

    @property
    def state(self) -> str:
        if self.accepted_at:
            return "accepted"
        if self.revoked_at:
            return "revoked"
        return "open" if self.expires_at > timezone.now() else "expired"
