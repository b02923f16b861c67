"""Change teams, invitations, roles and passwords. A team always keeps an admin."""

from collections.abc import Collection, Iterable, Mapping
from copy import copy
from datetime import timedelta

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.locks import retry_deadlocks
from contextopt.people.audit import note_event
from contextopt.people.connectcodes import revoke_keys_of
from contextopt.people.inputs import AccountIn, InvitationIn
from contextopt.people.models import Invitation, Membership, Role, Team, User, hash_key

TOKEN_MAX = 200
# The most open invitations of a team at once.
OPEN_MAX = 200
LAST_ADMIN = "A team needs an admin. Make someone else an admin first."


@transaction.atomic
def update_team(*, team: Team, fields: Mapping[str, str], actor: str) -> None:
    """Store a team's new name, slug, time zone or order of dates."""
    before = Team.objects.filter(pk=team.pk).values("id", *fields).get()
    changes = {name: value for name, value in fields.items() if before[name] != value}
    for name, value in changes.items():
        setattr(team, name, value)
    if changes:
        team.save(update_fields=list(changes))
        old = {name: before[name] for name in changes}
        note_event(
            team_id=team.pk, actor=actor, action="team.changed", subject=team.name, before=old, after=changes
        )


@retry_deadlocks
def delete_team(*, team: Team) -> None:
    """Delete the team and everything it owns. Its members keep their accounts."""
    Team.objects.filter(pk=team.pk).delete()


@transaction.atomic
def invite(*, team: Team, data: InvitationIn, actor: str) -> tuple[Invitation, str]:
    """Create an invitation and return it with its token. Only a hash of the token is stored.

    Raises:
        Conflict: the team has OPEN_MAX open invitations.
    """
    team.lock()
    if Invitation.objects.usable().filter(team=team).count() >= OPEN_MAX:
        raise Conflict(f"The team has {OPEN_MAX} open invitations. Revoke some first.")
    invitation, token = Invitation.objects.create_with_token(
        team=team,
        role=data.role,
        name=data.name,
        created_by=actor,
        expires_at=timezone.now() + timedelta(days=data.days),
    )
    after = {"role": data.role, "expires_at": invitation.expires_at}
    note_event(team_id=team.pk, actor=actor, action="invitation.made", subject=data.name, after=after)
    return invitation, token


@transaction.atomic
def revoke_invitation(*, invitation: Invitation, actor: str) -> None:
    """Revoke an invitation. Revoking it again does nothing.

    Raises:
        Conflict: someone has accepted it.
    """
    current = Invitation.objects.select_for_update(no_key=True).get(pk=invitation.pk)
    if current.accepted_at is not None:
        raise Conflict("The invitation was accepted; remove the member instead.")
    if current.revoked_at is not None:
        return
    current.revoked_at = timezone.now()
    current.save(update_fields=["revoked_at"])
    note_event(team_id=current.team_id, actor=actor, action="invitation.revoked", subject=current.name)


def find_invitation(token: str) -> Invitation:
    """Return the usable invitation for a link's token.

    Raises:
        NotFound: there is none, or it was accepted or revoked, or has expired.
    """
    usable = Invitation.objects.usable().select_related("team")
    found = usable.filter(token_hash=hash_key(token)).first() if len(token) <= TOKEN_MAX else None
    if found is None:
        raise NotFound("This invitation is no longer valid. Ask for a new one.")
    return found


@transaction.atomic
def accept_as_user(*, token: str, user: User) -> Membership:
    """Add someone who has an account to the team.

    Raises:
        NotFound: the invitation is not usable.
        Conflict: they are already in the team; the invitation stays open.
    """
    invitation = _claim(token)
    if Membership.objects.filter(team=invitation.team, user=user).exists():
        raise Conflict(f"You are already in {invitation.team}.")
    return _join(invitation, user)


@transaction.atomic
def accept_with_account(*, token: str, data: AccountIn) -> Membership:
    """Create an account and add it to the team.

    Raises:
        NotFound: the invitation is not usable.
        InvalidInput: the username is taken or invalid, or the password is too weak.
    """
    invitation = _claim(token)
    user = User(username=User.normalize_username(data.username))
    try:
        user.full_clean(exclude=["password"])
        validate_password(data.password, user)
    except ValidationError as error:
        raise InvalidInput.of_model(error, field="password") from error
    user.set_password(data.password)
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError as error:
        # Someone else took the name after the check.
        raise InvalidInput.of("username", "A user with that username already exists.") from error
    return _join(invitation, user)


def _claim(token: str) -> Invitation:
    """Lock the invitation, so that only one of two people who share its link gets in."""
    found = find_invitation(token)
    held = Invitation.objects.usable().select_for_update(of=("self",), no_key=True).select_related("team")
    claimed = held.filter(pk=found.pk).first()
    if claimed is None:
        raise NotFound("This invitation is no longer valid. Ask for a new one.")
    return claimed


def _join(invitation: Invitation, user: User) -> Membership:
    invitation.accepted_at, invitation.accepted_by = timezone.now(), user
    invitation.save(update_fields=["accepted_at", "accepted_by"])
    membership = Membership.objects.create(team=invitation.team, user=user, role=invitation.role)
    note_event(
        team_id=invitation.team_id,
        actor=f"user:{user.get_username()}",
        action="invitation.accepted",
        subject=invitation.name,
        after={"user": user.get_username(), "role": invitation.role},
    )
    return membership


@transaction.atomic
def change_role(*, membership: Membership, role: Role, actor: str) -> Membership:
    """Give a member another role.

    Raises:
        NotFound: they have left the team in the meantime.
        Conflict: they are the team's last admin.
    """
    current = _hold(membership)
    if current.role == role:
        return current
    _keep_an_admin(current)
    before, current.role = copy(current), role
    current.save(update_fields=["role"])
    note_changed(membership=current, before=before, actor=actor)
    return current


@transaction.atomic
def remove_member(*, membership: Membership, actor: str) -> None:
    """Remove a member from the team, with the keys of their tools. Their account stays.

    Raises:
        NotFound: they have left the team in the meantime.
        Conflict: they are the team's last admin.
    """
    current = _hold(membership)
    _keep_an_admin(current)
    revoke_keys_of(user=current.user, team=current.team, actor=actor)
    note_removed(membership=current, actor=actor)
    current.delete()


@transaction.atomic
def change_password(*, user: User, password: str) -> None:
    """Set a new password. It ends the user's sessions on all other devices."""
    user.set_password(password)
    user.save(update_fields=["password"])
    note_password(user=user, actor=f"user:{user.get_username()}")


def _hold(membership: Membership) -> Membership:
    """Lock the team, so that its last two admins cannot both leave at once."""
    _hold_teams([membership.team_id])
    current = Membership.objects.select_related("user").filter(pk=membership.pk).first()
    if current is None:
        raise NotFound("This person is no longer in the team.")
    return current


def _hold_teams(ids: Iterable[int]) -> None:
    list(Team.objects.filter(pk__in=ids).select_for_update(no_key=True).order_by("pk").values_list("pk"))


def _keep_an_admin(membership: Membership) -> None:
    if find_last_admins([membership.pk]):
        raise Conflict(LAST_ADMIN)


def find_last_admins(leaving: Collection[int]) -> list[Membership]:
    """Return those memberships whose team would have no admin left once all of them are gone.

    Users who cannot log in don't count as admins. The teams stay locked until the caller's transaction ends.
    """
    _hold_teams(Membership.objects.filter(pk__in=leaving).values_list("team_id", flat=True))
    admins = Membership.objects.filter(role=Role.ADMIN, user__is_active=True)
    safe = admins.exclude(pk__in=leaving).values("team")
    return list(admins.filter(pk__in=leaving).exclude(team__in=safe).select_related("user", "team"))


def note_created(*, team: Team, actor: str) -> None:
    """Log a new team."""
    noted = ("name", "slug", "time_zone", "date_order")
    after = {name: value for name in noted if (value := getattr(team, name))}
    note_event(team_id=team.pk, actor=actor, action="team.created", subject=team.name, after=after)


def note_password(*, user: User, actor: str) -> None:
    """Log a new password in each of the user's teams."""
    for membership in user.memberships.select_related("user"):
        _note(membership, actor, "password.changed")


def note_added(*, membership: Membership, actor: str) -> None:
    """Log that someone joined the team."""
    _note(membership, actor, "member.added", after={"role": membership.role})


def note_removed(*, membership: Membership, actor: str) -> None:
    """Log that someone left the team."""
    _note(membership, actor, "member.removed", before={"role": membership.role})


def note_changed(*, membership: Membership, before: Membership, actor: str) -> None:
    """Log a new role. If the user or team changed, log one member removed and one added."""
    if (before.user_id, before.team_id) != (membership.user_id, membership.team_id):
        note_removed(membership=before, actor=actor)
        note_added(membership=membership, actor=actor)
    elif before.role != membership.role:
        _note(
            membership, actor, "role.changed", before={"role": before.role}, after={"role": membership.role}
        )


def _note(
    membership: Membership,
    actor: str,
    action: str,
    *,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
) -> None:
    note_event(
        team_id=membership.team_id,
        actor=actor,
        action=action,
        subject=membership.user.get_username(),
        before=before,
        after=after,
    )
