"""Makes connect codes, exchanges each for a key, once, and makes a person's own keys for the gateway."""

import secrets
from collections.abc import Mapping
from datetime import timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.crypto import salted_hmac

from contextopt.engine.text.cleaning import flatten_to
from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.limits import NAME_MAX
from contextopt.people.audit import note_event
from contextopt.people.inputs import CodeIn, GatewayKeyIn, KeyIn, RedemptionIn
from contextopt.people.keys import create_key, find_spaces, revoke_key
from contextopt.people.models import ApiKey, ConnectCode, Membership, Role, Team, User

LIFE = timedelta(minutes=15)
# A key for the gateway may stand in an address, so it ends by itself.
GATEWAY_DAYS = 90
# A person's open codes in a team at once.
OPEN_MAX = 20
# A tool's key may write records, as its person may.
NEEDED = Role.EDITOR
# Crockford's base 32, in which no letter looks like a digit. Eight characters have 40 bits.
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH = 8
_LOOK_ALIKE = str.maketrans({"O": "0", "I": "1", "L": "1", "-": None, " ": None})
INVALID = "This connect code is not valid. It works once, for 15 minutes. Make a new one on the page Connect."
LABELS: Mapping[str, str] = {
    "aider": "aider",
    "claude": "Claude Code",
    "codex": "Codex",
    "cursor": "Cursor",
    "opencode": "opencode",
}


@transaction.atomic
def make_code(*, team: Team, user: User, data: CodeIn) -> tuple[ConnectCode, str]:
    """Make a code for a person, and return it with its text, of which only a keyed hash is stored.

    Raises:
        InvalidInput: the team has no such space, or the space of the contexts is not among those of the key.
        Conflict: the person has OPEN_MAX open codes.
    """
    if data.spaces is not None and data.space not in data.spaces:
        raise InvalidInput.of("spaces", f"must include {data.space!r}, where the contexts come from")
    team.lock()
    if ConnectCode.objects.open().filter(team=team, user=user).count() >= OPEN_MAX:
        raise Conflict(f"You have {OPEN_MAX} unused connect codes. Use one, or wait until they expire.")
    [space_id] = find_spaces(team, [data.space])
    text = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
    now = timezone.now()
    code = ConnectCode.objects.create(
        team=team,
        user=user,
        space_id=space_id,
        space_ids=None if data.spaces is None else find_spaces(team, data.spaces),
        code_hash=hash_code(text),
        created_at=now,
        expires_at=now + LIFE,
    )
    after = {"space": data.space, "spaces": data.spaces, "expires_at": code.expires_at}
    name = user.get_username()
    note_event(team_id=team.pk, actor=f"user:{name}", action="code.made", subject=name, after=after)
    return code, f"{text[:4]}-{text[4:]}"


@transaction.atomic
def redeem_code(data: RedemptionIn) -> tuple[ConnectCode, ApiKey, str]:
    """Exchange a code for a key of its person. Return the code, the key and its secret.

    Raises:
        NotFound: the code is wrong, used or expired, or its person may no longer connect tools.
    """
    held = ConnectCode.objects.open().select_for_update(of=("self",), no_key=True)
    code = held.select_related("team", "user", "space").filter(code_hash=hash_code(data.code)).first()
    if code is None or not may_connect(code.user, code.team):
        raise NotFound(INVALID)
    name = code.user.get_username()
    place = f" on {data.machine.strip()}" if data.machine.strip() else ""
    key, secret = create_key(
        team=code.team,
        data=KeyIn(
            name=flatten_to(f"{LABELS[data.tool]}: {name}{place}", NAME_MAX),
            scope="write",
            spaces=code.space_slugs,
        ),
        actor=f"user:{name}",
    )
    code.redeemed_at, code.key, code.machine = timezone.now(), key, data.machine.strip()
    code.save(update_fields=["redeemed_at", "key", "machine"])
    after = {"prefix": key.prefix, "tool": data.tool, "machine": code.machine}
    note_event(
        team_id=code.team_id, actor=f"user:{name}", action="code.redeemed", subject=key.name, after=after
    )
    return code, key, secret


@transaction.atomic
def make_gateway_key(*, team: Team, user: User, data: GatewayKeyIn) -> tuple[ApiKey, str]:
    """Create a person's own key for the gateway, and return it with its secret.

    It is kept as a code that is used already, so it is revoked with the keys of the person's tools.

    Raises:
        InvalidInput: the team has no such space.
    """
    actor, now = f"user:{user.get_username()}", timezone.now()
    [space_id] = find_spaces(team, [data.space])
    ends = now + timedelta(days=GATEWAY_DAYS)
    asked = KeyIn(name=data.name, scope="gateway", spaces=[data.space], expires_at=ends)
    key, secret = create_key(team=team, data=asked, actor=actor)
    ConnectCode.objects.create(
        team=team,
        user=user,
        space_id=space_id,
        space_ids=[space_id],
        code_hash=hash_code(secret),
        created_at=now,
        expires_at=now,
        redeemed_at=now,
        key=key,
    )
    return key, secret


def own_keys(*, team: Team, user: User) -> QuerySet[ApiKey]:
    """Return the usable keys that belong to a person: those of their tools, and for the gateway."""
    return ApiKey.objects.usable().filter(team=team, connect_codes__user=user)


def may_connect(user: User, team: Team) -> bool:
    membership = Membership.objects.filter(user=user, team=team).first()
    return user.is_active and membership is not None and membership.allows(NEEDED)


def revoke_keys_of(*, user: User, team: Team, actor: str) -> None:
    """Revoke the keys that belong to a person, and end their open codes."""
    ConnectCode.objects.open().filter(user=user, team=team).delete()
    for key in own_keys(team=team, user=user):
        revoke_key(key=key, actor=actor)


def sweep_codes() -> None:
    """Delete the codes that nobody used."""
    ConnectCode.objects.filter(redeemed_at=None, expires_at__lt=timezone.now()).delete()


def hash_code(text: str) -> str:
    """Return the code's hash, keyed because a code is short. Case, hyphens and look-alikes do not matter."""
    plain = text.upper().translate(_LOOK_ALIKE)
    return salted_hmac("contextopt.connectcodes", plain, algorithm="sha256").hexdigest()
