"""The key or code that the page Connect waits for, and the requests that have arrived."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, QuerySet
from django.http import Http404
from django.utils import timezone

from contextopt.assemblies.models import Assembly
from contextopt.engine.values import NOTHING_RELEVANT
from contextopt.engine.wording import plural
from contextopt.gateway.models import GatewayRequest
from contextopt.inputs import read_digits
from contextopt.people.models import ApiKey, ConnectCode, Team, Way
from dashboard.kit.permissions import TeamRequest
from dashboard.pages.connect.codesamples import LABELS

REQUESTS_SHOWN = 3
# Older requests are not looked for: the page shows what arrives while it is open.
REQUESTS_WITHIN = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Signal:
    """A key's use: the ways with the time of the first request by each, and the newest contexts. Without
    any, `passed` is the newest prompt at the gateway, which has the reason.
    """

    ways: dict[Way, datetime]
    assemblies: tuple[Assembly, ...] = ()
    passed: GatewayRequest | None = None

    @property
    def first(self) -> tuple[Way, datetime] | None:
        return min(self.ways.items(), key=lambda seen: seen[1], default=None)

    @property
    def newest(self) -> Assembly | None:
        return self.assemblies[0] if self.assemblies else None

    @property
    def remark(self) -> str:
        """Say why the newest context did not reach a model; empty if it did."""
        if self.newest is None or self.newest.is_sent:
            return ""
        if not self.newest.awaits_delivery:
            return "It was not inserted: the prompt was only audited."
        if NOTHING_RELEVANT in self.newest.warning_codes:
            return "Nothing in it was relevant, so the prompt went on without it. Ask what the space knows."
        return "The tool has not confirmed yet that it arrived."


@dataclass(frozen=True, slots=True)
class Step:
    """A step on the way to the first context. `note` says when it was done, or what to do."""

    label: str
    note: str
    is_done: bool


@dataclass(frozen=True, slots=True)
class Subject:
    """What the page waits for: requests of a key, which a code of this visitor may still have to make."""

    key: ApiKey | None
    code: ConnectCode | None = None

    @property
    def query(self) -> str:
        if self.code is not None:
            return f"code={self.code.pk}"
        return f"key={self.key.pk}" if self.key else ""


def usable_keys(team: Team) -> QuerySet[ApiKey]:
    """Return the team's keys, the one that was used last first."""
    used = F("last_used_at").desc(nulls_last=True)
    return ApiKey.objects.usable().filter(team=team).order_by(used, "-created_at", "-id")


def read_signal(team: Team, key: ApiKey | None) -> Signal:
    """Return what is known of a key's requests."""
    if key is None or not key.ways:
        return Signal({})
    ways = {Way(name): datetime.fromisoformat(text) for name, text in key.ways.items()}
    since = timezone.now() - REQUESTS_WITHIN
    rows = Assembly.objects.of(team).filter(actor=f"key:{key.name}", created_at__gte=since)
    newest = tuple(rows.select_related("space").newest_first()[:REQUESTS_SHOWN])
    passed = None
    if not newest and Way.GATEWAY in ways:
        prompts = GatewayRequest.objects.of(team).filter(api_key=key, created_at__gte=since)
        passed = prompts.exclude(reason="").newest_first().first()
    return Signal(ways, newest, passed)


def find_subject(request: TeamRequest, keys: QuerySet[ApiKey]) -> Subject:
    """Return the key or the code that the address names, else the key that was used last.

    Raises:
        Http404: there is none of that number.
    """
    number, code_number = request.GET.get("key", ""), request.GET.get("code", "")
    if code_number:
        codes = ConnectCode.objects.filter(team=request.team, user=request.user).select_related("key")
        code = codes.filter(pk=read_digits(code_number) or 0).first()
        if code is None or not (code.key or code.expires_at > timezone.now()):
            raise Http404("No such code.")
        key = code.key
        if key is not None and (key.revoked_at or key.is_expired):
            raise Http404("Its key is no longer valid.")
        return Subject(key, code)
    if not number:
        return Subject(keys.first())
    key = keys.filter(pk=read_digits(number) or 0).first()
    if key is None:
        raise Http404("No such key.")
    return Subject(key)


def list_steps(subject: Subject, signal: Signal) -> list[Step]:
    """Return the steps to the first context, with what has happened so far."""
    key, code, first, newest = subject.key, subject.code, signal.first, signal.newest
    if code is not None:
        place = f"on {code.machine}, " if code.machine else ""
        ran = f"{place}{clock(code.redeemed_at)}" if code.redeemed_at else "in your repository"
        steps = [
            Step("Code made", clock(code.created_at), is_done=True),
            Step("Command ran", ran, is_done=code.redeemed_at is not None),
        ]
    else:
        made = f"{key.name}, {clock(key.created_at)}" if key else "or a connect code"
        steps = [Step("Key created", made, is_done=key is not None)]
    seen = f"{clock(first[1])}, {LABELS[first[0]]}" if first else "with the next prompt"
    is_sent = newest is not None and newest.is_sent
    return [
        *steps,
        Step("First request seen", seen, is_done=first is not None),
        Step("Context sent", describe_context(signal), is_done=is_sent),
    ]


def describe_context(signal: Signal) -> str:
    """Say when the newest context was sent, or why none was."""
    first, newest = signal.first, signal.newest
    if newest is not None and newest.is_sent:
        size = f"{plural(newest.records_included, 'record')}, {plural(newest.tokens_after, 'token')}"
        return f"{clock(newest.created_at)}, {size}"
    if newest is not None:
        return f"not with the prompt of {clock(newest.created_at)}"
    if signal.passed is not None:
        return f"{clock(signal.passed.created_at)}, passed without"
    is_old = first is not None and first[1] < timezone.now() - REQUESTS_WITHIN
    return "none in the last day" if is_old else "with the same prompt"


def clock(moment: datetime) -> str:
    """Return a time of today as 10:04, another with its day, in the team's time zone."""
    local = timezone.localtime(moment)
    return f"{local:%H:%M}" if local.date() == timezone.localdate() else f"{local.day} {local:%b %Y}"
