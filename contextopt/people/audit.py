"""The audit log. Each entry is written in the same transaction as its change, so neither exists alone."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from contextopt.limits import ACTOR_MAX
from contextopt.people.models import SUBJECT_MAX, AuditEvent, Team
from contextopt.sql import execute

# Never logged, whatever a caller passes.
SECRET_NAMES = ("secret", "token_hash", "password", "token")
TEXT_MAX = 500
ERASED = "[purged]"
# The actor of changes that the product makes itself.
SYSTEM = "system"


def note_event(
    *,
    team_id: int,
    actor: str,
    action: str,
    subject: str,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
    at: datetime | None = None,
) -> AuditEvent:
    """Log one change, with only the values that differ before and after; `at` backdates example data.

    Raises:
        ValueError: a value's name says that it is a secret.
    """
    changed = _differences(before or {}, after or {})
    return AuditEvent.objects.create(
        team_id=team_id,
        at=at or timezone.now(),
        actor=actor[:ACTOR_MAX],
        action=action,
        subject=subject[:SUBJECT_MAX],
        **changed,
    )


def note_everywhere(
    *,
    actor: str,
    action: str,
    subject: str,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
) -> None:
    """Log a change of the whole installation in the log of every team.

    Raises:
        ValueError: a value's name says that it is a secret.
    """
    changed = _differences(before or {}, after or {})
    shared = {"at": timezone.now(), "actor": actor[:ACTOR_MAX], "action": action, **changed}
    AuditEvent.objects.bulk_create(
        [
            AuditEvent(team_id=team_id, subject=subject[:SUBJECT_MAX], **shared)
            for team_id in Team.objects.order_by("pk").values_list("pk", flat=True)
        ],
        batch_size=1_000,
    )


def _differences(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    """Return the values that differ, `before` and `after`."""
    for name in (*old, *new):
        if name in SECRET_NAMES:
            raise ValueError(f"{name} is a secret, and the log is read by others")
    same = {name for name in old.keys() & new.keys() if old[name] == new[name]}
    return {
        side: {name: _plain(value) for name, value in values.items() if name not in same}
        for side, values in (("before", old), ("after", new))
    }


def _plain(value: object) -> Any:
    """Return a value that JSON can hold, with long texts cut."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value[:100]]
    return str(value)[:TEXT_MAX]


@transaction.atomic
def erase_texts_of(*, team_id: int, subject: str, action: str, names: Sequence[str]) -> int:
    """Replace these values in logged changes by `[purged]`, and return the number of changes that had one.

    The trigger that keeps the log from being changed lets this one through, and only for values.
    """
    events = AuditEvent.objects.filter(team_id=team_id, subject=subject[:SUBJECT_MAX], action=action)
    holding = events.filter(Q(before__has_any_keys=names) | Q(after__has_any_keys=names))
    _let_values_be_erased("on")
    changed = list(holding.select_for_update(no_key=True).order_by("pk"))
    for event in changed:
        for values in (event.before, event.after):
            values.update({name: ERASED for name in names if name in values})
    erased = AuditEvent.objects.bulk_update(changed, ["before", "after"], batch_size=500)
    _let_values_be_erased("off")
    return erased


def _let_values_be_erased(setting: str) -> None:
    """See the triggers of the log in `contextopt/immutable.sql`."""
    execute("SELECT set_config('contextopt.erasing', %s, true)", [setting])


def list_events(team: Team, *, action: str) -> QuerySet[AuditEvent]:
    """Return the team's log. An action without a dot, such as `key`, matches all actions on keys."""
    found = AuditEvent.objects.of(team)
    if action:
        found = found.filter(action__startswith=f"{action}." if "." not in action else action)
    return found
