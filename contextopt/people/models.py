"""Users, teams, memberships, API keys and invitations: who may do what."""

import hashlib
import secrets
from datetime import timedelta
from enum import StrEnum
from typing import ClassVar, Self
from zoneinfo import available_timezones

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import F, Func, JSONField, Q, Value
from django.utils import timezone
from django.utils.functional import cached_property

from contextopt.limits import ACTOR_MAX, NAME_MAX
from contextopt.sql import fetch_column

KEY_PREFIX = "ctx_"
DEFAULT_TEAM = "default"
# Write a key's last use at most this often, so that reading rarely costs a write.
LAST_USED_RESOLUTION = timedelta(minutes=1)


def time_zones() -> list[str]:
    """Return the time zones that both Python and PostgreSQL know, because both compute days in them."""
    known = fetch_column("SELECT name FROM pg_timezone_names")
    return sorted(available_timezones().intersection(known))


def validate_time_zone(name: str) -> None:
    if name not in time_zones():
        raise ValidationError(f"{name!r} is not a time zone; use a name such as Europe/Oslo")


class DateOrder(models.TextChoices):
    """How the people of a team write 3 April 2026 in figures."""

    ZONE = "", "As usual in the time zone"
    DAY = "day", "Day first (31/12/2026)"
    MONTH = "month", "Month first (12/31/2026)"


class User(AbstractUser):
    """A person who logs in. Their memberships say what they may do."""


class TeamQuerySet(models.QuerySet["Team"]):
    def ensure_default(self) -> "Team":
        """Return the team that commands use by default, creating it if it is missing."""
        team, _ = self.get_or_create(slug=DEFAULT_TEAM, defaults={"name": "Default team"})
        return team

    def visible_to(self, user: User) -> Self:
        """Return the teams that the user is a member of, oldest first."""
        return self.filter(memberships__user=user).order_by("created_at", "id")


class Team(models.Model):
    """The unit of isolation: spaces, keys and assemblies belong to one team."""

    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=NAME_MAX)
    time_zone = models.CharField(max_length=64, default="UTC", validators=[validate_time_zone])
    date_order = models.CharField(
        max_length=5,
        choices=DateOrder,
        blank=True,
        help_text="How imports read dates such as 03/04/2026 if no date in the column shows the order.",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    objects = TeamQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(date_order__in=DateOrder.values), name="team_date_order"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def command_option(self) -> str:
        """The option with which commands work on this team; they need none for the default one."""
        return "" if self.slug == DEFAULT_TEAM else f" --team {self.slug}"

    def lock(self) -> None:
        """Make others who lock the team, and its deletion, wait until the transaction ends.

        Raises:
            Team.DoesNotExist: the team was deleted in the meantime.
        """
        Team.objects.select_for_update(no_key=True).get(pk=self.pk)


class Rank(models.TextChoices):
    """Choices from least to most powerful; each includes the ones before it."""

    def includes(self, needed: Self) -> bool:
        order = list(type(self))
        return order.index(self) >= order.index(needed)


class Role(Rank):
    """The roles of a team's members."""

    VIEWER = "viewer", "Viewer"
    REVIEWER = "reviewer", "Reviewer"
    EDITOR = "editor", "Editor"
    ADMIN = "admin", "Admin"


class Membership(models.Model):
    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="memberships")
    user = models.ForeignKey(User, models.DB_CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role, default=Role.VIEWER)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "user"], name="membership_once"),
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="membership_role"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.team} ({self.role})"

    def allows(self, needed: Role) -> bool:
        return Role(self.role).includes(needed)


class Scope(Rank):
    """The scopes of API keys. One with scope `gateway` opens the gateway's paths and nothing else."""

    GATEWAY = "gateway", "Gateway"
    READ = "read", "Read"
    WRITE = "write", "Write"
    ADMIN = "admin", "Admin"


def hash_key(secret: str) -> str:
    """Return the SHA-256 of a key, in hex.

    A key has 256 random bits and cannot be guessed, so a fast hash is enough.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


# A key for all spaces has no IDs, so this reads nothing.
SPACE_SLUGS_SQL = """ARRAY(
    SELECT slug FROM contextopt_space AS space
     WHERE space.id = ANY(contextopt_apikey.space_ids) AND space.team_id = contextopt_apikey.team_id
     ORDER BY slug)"""


class Way(StrEnum):
    """How software calls: over plain HTTP, with a client, the gateway or MCP, or as a coding agent.

    Except at the gateway, the user agent tells which. The page Connect shows it, and nothing depends on it.
    """

    HTTP = "http"
    PYTHON = "python"
    GATEWAY = "gateway"
    MCP = "mcp"
    CLAUDE = "claude"
    CODEX = "codex"
    CURSOR = "cursor"


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def usable(self) -> Self:
        """Return the keys that are neither revoked nor expired."""
        now = timezone.now()
        return self.filter(revoked_at=None).filter(models.Q(expires_at=None) | models.Q(expires_at__gt=now))

    def with_space_slugs(self) -> Self:
        """Load the slugs of the spaces that each key is limited to in the same query."""
        slugs = Func(template=SPACE_SLUGS_SQL, output_field=ArrayField(models.SlugField()))
        return self.annotate(space_slugs=slugs)

    def create_with_secret(
        self, *, team: Team, name: str, scope: str, created_by: str = "", **fields: object
    ) -> tuple["ApiKey", str]:
        """Create a key and return it with its secret. Only a hash of the secret is stored."""
        secret = KEY_PREFIX + secrets.token_urlsafe(32)
        key = self.create(
            team=team,
            name=name,
            scope=scope,
            created_by=created_by,
            prefix=secret[:12],
            secret_hash=hash_key(secret),
            **fields,
        )
        return key, secret


class ApiKey(models.Model):
    """A secret that lets software act for a team. Only its hash is stored."""

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="api_keys")
    name = models.CharField(max_length=NAME_MAX)
    scope = models.CharField(max_length=8, choices=Scope, default=Scope.WRITE)
    prefix = models.CharField(max_length=16, editable=False)
    secret_hash = models.CharField(max_length=64, unique=True, editable=False)
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    # IDs are never reused, so the key of a deleted space keeps only the others.
    space_ids = ArrayField(
        models.BigIntegerField(), null=True, blank=True, editable=False, help_text="empty for all spaces"
    )
    requests_per_minute = models.PositiveIntegerField(
        null=True, blank=True, help_text="blank for the installation's limit"
    )
    # The first key of a series of rotations. The series shares its limit and its stored responses.
    first_key = models.ForeignKey("self", models.DB_CASCADE, null=True, editable=False, related_name="+")
    # The time of the first request in each way.
    ways = models.JSONField(default=dict, db_default={}, editable=False)

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        verbose_name = "API key"
        constraints: ClassVar = [
            models.CheckConstraint(condition=models.Q(scope__in=Scope.values), name="api_key_scope"),
            # An admin could give itself another key.
            models.CheckConstraint(
                condition=Q(space_ids=None) | ~Q(scope=Scope.ADMIN), name="api_key_limited_is_no_admin"
            ),
            # It stands in addresses, which are often stored or shown.
            models.CheckConstraint(
                condition=~Q(scope=Scope.GATEWAY) | Q(space_ids__len__gte=1, expires_at__isnull=False),
                name="api_key_gateway_is_limited",
            ),
            models.CheckConstraint(
                condition=Q(requests_per_minute=None) | Q(requests_per_minute__gte=1), name="api_key_requests"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()

    @property
    def first_id(self) -> int:
        """The ID of the key that rotations began with, or of this one."""
        return self.first_key_id or self.pk

    @property
    def is_limited(self) -> bool:
        """Whether the key reaches only some of the team's spaces."""
        return self.space_ids is not None

    @cached_property
    def space_slugs(self) -> list[str]:
        """The slugs of the spaces that the key is limited to, in order; empty if it is not limited."""
        rows = self.team.spaces.filter(pk__in=self.space_ids or ())
        return list(rows.order_by("slug").values_list("slug", flat=True))

    def allows(self, needed: Scope) -> bool:
        return Scope(self.scope).includes(needed)

    def touch(self, way: Way | None = Way.HTTP) -> None:
        """Store the time of the key's last use, at most once a minute, and of its first use by this way."""
        now = timezone.now()
        if way is not None and way not in self.ways:
            first = Func(
                F("ways"),
                Value({way: now.isoformat()}, JSONField()),
                template="(%(expressions)s)",
                arg_joiner=" || ",
                output_field=JSONField(),
            )
            ApiKey.objects.filter(pk=self.pk).exclude(ways__has_key=way).update(ways=first)
        if self.last_used_at is None or now - self.last_used_at > LAST_USED_RESOLUTION:
            ApiKey.objects.filter(pk=self.pk).update(last_used_at=now)

    def revoke(self) -> None:
        """Revoke the key. Revoking it again keeps the first time."""
        ApiKey.objects.filter(pk=self.pk, revoked_at=None).update(revoked_at=timezone.now())
        self.refresh_from_db(fields=["revoked_at"])


class StoredResponse(models.Model):
    """The response to a write with an Idempotency-Key, returned again if the write is repeated."""

    api_key = models.ForeignKey(ApiKey, models.DB_CASCADE, related_name="stored_responses")
    idempotency_key = models.CharField(max_length=255)
    request_hash = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    body = models.BinaryField(default=b"")
    content_type = models.CharField(max_length=80, default="application/json")
    location = models.TextField(blank=True)
    # The records that the response shows, so that a purge can erase them here. None if unknown.
    record_ids = ArrayField(models.BigIntegerField(), null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["api_key", "idempotency_key"], name="stored_response_once"),
        ]
        # The sweep deletes expired responses by age.
        indexes: ClassVar = [models.Index(fields=["created_at"], name="stored_response_age")]

    def __str__(self) -> str:
        return self.idempotency_key


ACTION_MAX = 40
SUBJECT_MAX = 200


class AuditEventQuerySet(models.QuerySet["AuditEvent"]):
    def of(self, team: Team) -> Self:
        return self.filter(team=team)


class AuditEvent(models.Model):
    """One change, written in the same transaction. A trigger refuses to change the entry."""

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="audit_events", db_index=False)
    at = models.DateTimeField(default=timezone.now)
    actor = models.CharField(max_length=ACTOR_MAX)
    action = models.CharField(max_length=ACTION_MAX, help_text="type of the change, such as key.created")
    subject = models.CharField(max_length=SUBJECT_MAX, help_text="name of the changed item")
    before = models.JSONField(default=dict, help_text="changed values before the change")
    after = models.JSONField(default=dict, help_text="changed values after the change")

    objects = AuditEventQuerySet.as_manager()

    class Meta:
        verbose_name = "change"
        verbose_name_plural = "change log"
        # A team's log, newest first.
        indexes: ClassVar = [models.Index(fields=["team", "-at", "-id"], name="audit_event_newest")]

    def __str__(self) -> str:
        return f"{self.action} {self.subject}"


INVITED_MAX = 120
MACHINE_MAX = 60


class InvitationQuerySet(models.QuerySet["Invitation"]):
    def usable(self) -> Self:
        """Return the invitations that were neither accepted nor revoked, and have not expired."""
        return self.filter(accepted_at=None, revoked_at=None, expires_at__gt=timezone.now())

    def create_with_token(self, **fields: object) -> tuple["Invitation", str]:
        """Create an invitation and return it with its token. Only a hash of the token is stored."""
        token = secrets.token_urlsafe(32)
        return self.create(token_hash=hash_key(token), **fields), token


class Invitation(models.Model):
    """Lets one person into the team, once. Only a hash of its token is stored."""

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="invitations")
    role = models.CharField(max_length=16, choices=Role, default=Role.VIEWER)
    name = models.CharField(max_length=INVITED_MAX, help_text="name of the invited person")
    token_hash = models.CharField(max_length=64, unique=True, editable=False)
    created_by = models.CharField(max_length=ACTOR_MAX)
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


class ConnectCodeQuerySet(models.QuerySet["ConnectCode"]):
    def open(self) -> Self:
        """Return the codes that nobody has used, and that have not expired."""
        return self.filter(redeemed_at=None, expires_at__gt=timezone.now())


class ConnectCode(models.Model):
    """Lets one person connect one tool, once. Only a keyed hash of the code is stored.

    `space` is where the tool's contexts come from, `space_ids` limits the key.
    """

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="connect_codes")
    user = models.ForeignKey(User, models.DB_CASCADE, related_name="connect_codes")
    space = models.ForeignKey("contextopt.Space", models.DB_CASCADE, related_name="+")
    space_ids = ArrayField(models.BigIntegerField(), null=True, editable=False)
    code_hash = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    redeemed_at = models.DateTimeField(null=True)
    key = models.ForeignKey(ApiKey, models.DB_CASCADE, null=True, related_name="connect_codes")
    machine = models.CharField(max_length=MACHINE_MAX, blank=True)

    objects = ConnectCodeQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(redeemed_at=None, key=None) | Q(redeemed_at__isnull=False, key__isnull=False),
                name="connect_code_redeemed",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.team}"

    @property
    def space_slugs(self) -> list[str] | None:
        """The slugs of the spaces that the key is limited to, None if it is not limited."""
        if self.space_ids is None:
            return None
        return list(self.team.spaces.filter(pk__in=self.space_ids).values_list("slug", flat=True))


class Throttle(models.Model):
    """How busy one limit is for one address or account, stored as a single time.

    Each attempt moves `free_at` further ahead. Once it has passed, the row means nothing and is swept. The
    key is a keyed hash, so the table reveals no names and no addresses.
    """

    key = models.CharField(max_length=64, primary_key=True)
    free_at = models.DateTimeField()

    class Meta:
        # The sweep looks for rows that have passed.
        indexes: ClassVar = [models.Index(fields=["free_at"], name="throttle_free_at")]

    def __str__(self) -> str:
        return self.key
