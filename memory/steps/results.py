"""The result of a step: its text, ledger and proof, and its JSON form for the API and commands."""

from dataclasses import dataclass
from typing import Any, TypedDict

from contextopt.agents.models import Attempt
from contextopt.assemblies.models import Assembly, EntryJson
from contextopt.engine.agents.retries import percent_of
from contextopt.engine.agents.steps import SectionLedger
from contextopt.engine.values import Certificate, ContextWarning, LedgerEntry, warnings_json
from contextopt.responsetypes import fields_of
from memory.steps.subject import Asked
from memory.strategies.models import StrategyUse


@fields_of(LedgerEntry, without=("parts", "pinned", "duplicate_of"))
class StepRecordOut(TypedDict):
    """A record of the space that was a candidate."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """Everything that an agent is sent for one step.

    `attempt` is the failed attempt that this call recorded. `assembly` is None if nothing is sent, because
    the task waits or stops.
    """

    asked: Asked
    text: str
    sections: tuple[SectionLedger, ...]
    certificate: Certificate
    warnings: tuple[ContextWarning, ...]
    entries: tuple[EntryJson, ...] = ()
    assembly: Assembly | None = None
    attempt: Attempt | None = None
    use: StrategyUse | None = None
    full_tokens: int | None = None

    @property
    def saved_tokens(self) -> int | None:
        """Tokens saved against the caller's full context, or None if there is none or it doesn't count."""
        return self.assembly.tokens_saved if self.assembly else None

    def to_json(self) -> dict[str, Any]:
        """Return the response of the API and of `agent_context --json`."""
        asked = self.asked
        return {
            "id": self.assembly.pk if self.assembly else None,
            "task_id": asked.task.pk,
            "task": asked.task_text,
            "phase": asked.data.phase,
            "profile_version": asked.profile.version,
            "repository": asked.repository_name,
            "space": asked.data.space,
            "budget_tokens": asked.budget,
            "text": self.text,
            "sections": [section.to_json() for section in self.sections],
            "certificate": self.certificate.to_json(),
            "warnings": warnings_json(self.warnings),
            "full_tokens": self.full_tokens,
            "saved_tokens": self.saved_tokens,
            "saved_percent": percent_of(self.saved_tokens, self.full_tokens or 0),
            "attempt": self._attempt_json(),
            "strategy": {"memory_id": self.use.memory_id, "use_id": self.use.pk} if self.use else None,
            "records": [
                {name: value for name, value in entry.items() if name in StepRecordOut.__annotations__}
                for entry in self.entries
            ],
        }

    def _attempt_json(self) -> dict[str, Any] | None:
        """Return the failed attempt that this call recorded, and what follows from it."""
        planned = self.asked.planned
        if self.attempt is None or planned is None:
            return None
        return {
            "id": self.attempt.pk,
            "number": self.attempt.number,
            "action": self.attempt.action,
            "wait_seconds": planned.retry.plan.wait_seconds,
            "error": planned.retry.error,
        }
