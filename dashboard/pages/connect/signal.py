"""The light of the page Connect: which ways have been used, and what the requests brought."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from contextopt.models import ApiKey, Assembly, Team
from contextopt.people.ways import Way

KEYS_SHOWN = 200
REQUESTS_SHOWN = 3
# Older requests are not looked for: the page shows what arrives while it is open.
REQUESTS_WITHIN = timedelta(days=1)
# `manage.py connect` makes a key of its own for these, so they light up for any key.
AGENTS = (Way.CLAUDE, Way.CODEX, Way.CURSOR)


@dataclass(frozen=True, slots=True)
class Signal:
    """The ways seen, with the time of the first request by each, and the newest assemblies."""

    ways: dict[Way, datetime]
    assemblies: tuple[Assembly, ...] = ()

    @property
    def first(self) -> tuple[Way, datetime] | None:
        return min(self.ways.items(), key=lambda seen: seen[1], default=None)

    @property
    def newest(self) -> Assembly | None:
        return self.assemblies[0] if self.assemblies else None


def usable_keys(team: Team) -> QuerySet[ApiKey]:
    return ApiKey.objects.usable().filter(team=team).order_by("-created_at", "-id")


def read_signal(team: Team, key: ApiKey) -> Signal:
    """Return what is known of a key's requests, in two queries."""
    keys = list(usable_keys(team)[:KEYS_SHOWN])
    agents = [other for other in keys if other.pk != key.pk and set(AGENTS) & set(other.ways)]
    ways = _first_times([key]) | {
        way: moment for way, moment in _first_times(agents).items() if way in AGENTS and way not in key.ways
    }
    if not ways:
        return Signal({})
    since = timezone.now() - REQUESTS_WITHIN
    rows = Assembly.objects.of(team).filter(
        actor__in=[f"key:{each.name}" for each in [key, *agents]], created_at__gte=since
    )
    return Signal(ways, tuple(rows.select_related("space").newest_first()[:REQUESTS_SHOWN]))


def _first_times(keys: Iterable[ApiKey]) -> dict[Way, datetime]:
    """Return the earliest request by each way among the keys."""
    first: dict[Way, datetime] = {}
    for key in keys:
        for name, text in key.ways.items():
            way, moment = Way(name), datetime.fromisoformat(text)
            first[way] = min(first.get(way, moment), moment)
    return first
