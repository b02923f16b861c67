"""Recomputes the accounts of tasks from the payloads of their assemblies, as proof."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields

from contextopt.agents.handoffs.compression import handed_findings, lost_findings
from contextopt.agents.handoffs.models import PhaseCompression
from contextopt.agents.models import Task
from contextopt.agents.timeline.account import NOTHING, Account, read_accounts
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.assemblies.verify import Difference, recompute

type Figures = Mapping[str, object]

FINDING_LINE = re.compile(r"^(F-[0-9]{3,}) \[", re.MULTILINE)
"""The first line of a finding in full. Its content is one line of JSON."""


@dataclass(slots=True)
class Accounts:
    """The accounts of tasks, added up from the figures that payloads give."""

    by_task: dict[int, Account] = field(default_factory=lambda: defaultdict(Account))

    def add(self, payload: AssemblyPayload, figures: Figures) -> None:
        """Add an assembly to the task that its request names, whatever its row says."""
        if task_id := payload.request.get("task_id"):
            self.by_task[task_id] += _account_of(payload.assembly, figures)

    def differing(self, team_id: int) -> list[int]:
        """Return the existing tasks whose account is not the sum of their assemblies."""
        shown = read_accounts(Assembly.objects.filter(team_id=team_id))
        ids = [
            task_id
            for task_id in self.by_task.keys() | shown.keys()
            if self.by_task.get(task_id, NOTHING) != shown.get(task_id, NOTHING)
        ]
        return list(
            Task.objects.filter(team_id=team_id, pk__in=ids).order_by("pk").values_list("pk", flat=True)
        )


def verify_account(task_id: int, payloads: Iterable[AssemblyPayload]) -> Iterator[Difference]:
    """Yield the figures of the task's account that differ from the sum of these payloads of its team."""
    accounts = Accounts()
    for payload in payloads:
        accounts.add(payload, recompute(payload))
    shown = read_accounts(Assembly.objects.filter(task=task_id)).get(task_id, NOTHING)
    added = accounts.by_task[task_id]
    for each in fields(Account):
        stored, recomputed = getattr(shown, each.name), getattr(added, each.name)
        if stored != recomputed:
            yield Difference(each.name, stored, recomputed)


def verify_handoffs(team_id: int) -> Iterator[tuple[int, Difference]]:
    """Yield the log entries of hand-offs that count although nobody received them, or that save by losing
    findings.
    """
    rows = PhaseCompression.objects.filter(task__team=team_id).select_related("assembly__payload")
    for compression in rows.exclude(assembly=None).order_by("pk").iterator(chunk_size=200):
        assembly = compression.assembly
        assert assembly is not None
        if assembly.is_sent != compression.is_received():
            yield assembly.pk, Difference("is_sent", assembly.is_sent, compression.is_received())
        payload = assembly.stored_payload
        lost = lost_findings(compression, handed_findings(compression))
        compared = set(FINDING_LINE.findall((payload.baseline_text if payload else "") or ""))
        if compared & lost:
            yield assembly.pk, Difference("compared findings", sorted(compared), sorted(compared - lost))


def _account_of(assembly: Assembly, figures: Figures) -> Account:
    """Return the account of one assembly. After a purge, the row alone knows the size of its text."""
    after = _number(figures.get("tokens_after", assembly.tokens_after)) if assembly.is_sent else 0
    before = figures.get("tokens_before", assembly.tokens_before)
    if figures["tokens_saved"] is None:
        return Account(1, after)
    return Account(1, after, 1, after, _number(before))


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
