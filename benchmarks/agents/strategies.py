"""Test on tickets whether the kind of task is detected, and whether a similar strategy is offered as a hint.

The tickets and their labels are our own, written and split before the detector was tuned. A label is the kind
that a person would choose, even if no word of the ticket names it. Each dev ticket with a kind becomes a
strategy, and each test ticket asks for a hint.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure, Section
from contextopt.engine.agents.taskpatterns import PATTERNS, detect_task_pattern
from contextopt.search.embedders.current import get_embedder

TICKETS = Path(__file__).parents[1] / "data" / "tickets.jsonl"
MIN_SIMILARITY = 0.3
MODELS = ("wordllama-256", "onnx:all-MiniLM-L6-v2-int8")
PLANS = {
    "database migration": "Write the migration → Try it on a copy → Write the way back → Deploy",
    "new api endpoint": "Describe request and answer → Write the handler → Check access",
    "fix bug": "Reproduce it in a failing test → Find the cause → Correct it → Run all tests",
    "refactoring": "Pin the behaviour by tests → Move one piece at a time → Remove what is left over",
    "add tests": "List the cases → Write the tests → See them fail for a broken version → Run them in CI",
    "security improvement": "List what an attacker can do → Close it → Write a test that attacks",
    "frontend change": "Sketch it → Build the component → Check keyboard and small screens",
    "configuration": "Read the value from the environment → Give it a default → Refuse bad ones",
    "documentation": "Ask a newcomer what is unclear → Write it → Try every command → Link it",
    "performance optimization": "Measure → Find the slowest part → Change it → Measure again",
}


_CONDITIONS = (
    "Tickets in English and Norwegian, labelled by hand and split before the detector was tuned. A hint is "
    "correct if its strategy has the ticket's kind. A hint for a ticket without a kind counts against "
    "precision."
)


@dataclass(frozen=True, slots=True)
class Ticket:
    task: str
    split: str
    pattern: str | None


def load_tickets() -> list[Ticket]:
    rows = [json.loads(line) for line in TICKETS.read_text().splitlines()]
    return [Ticket(row["task"], row["split"], row["pattern"]) for row in rows]


def measure_strategies() -> Section:
    tickets = load_tickets()
    figures: list[Figure] = []
    for split in ("dev", "test"):
        found = _detection([ticket for ticket in tickets if ticket.split == split])
        figures += _figures(f"kind of task, {split} tickets", found)
    for model in MODELS:
        for kept in ("steps alone", "task and steps"):
            found = _hints(tickets, with_title=kept == "task and steps", model=model)
            figures += _figures(f"hint, {model}, {kept}", found)
    return Section("Strategies: kinds of tasks and hints", tuple(figures), (_CONDITIONS,))


@dataclass(frozen=True, slots=True)
class _Found:
    """Pairs of the label and the detected kind; None is no kind."""

    pairs: tuple[tuple[str | None, str | None], ...]

    @property
    def right(self) -> int:
        return sum(1 for label, found in self.pairs if found and found == label)

    @property
    def precision(self) -> float:
        return self.right / max(1, sum(1 for _, found in self.pairs if found))

    @property
    def recall(self) -> float:
        return self.right / max(1, sum(1 for label, _ in self.pairs if label))


def _figures(what: str, found: _Found) -> Iterator[Figure]:
    yield Figure(f"{what}: precision", "", len(found.pairs), found.precision)
    yield Figure(f"{what}: recall", "", len(found.pairs), found.recall)


def _detection(tickets: Sequence[Ticket]) -> _Found:
    names = {pattern.name for pattern in PATTERNS}
    said = [(ticket.pattern, detect_task_pattern(ticket.task)) for ticket in tickets]
    return _Found(tuple((label, found if found in names else None) for label, found in said))


def _hints(tickets: Sequence[Ticket], *, with_title: bool, model: str) -> _Found:
    kept = [ticket for ticket in tickets if ticket.split == "dev" and ticket.pattern]
    asked = [ticket for ticket in tickets if ticket.split == "test"]
    texts = [f'Strategy for "{ticket.pattern}": {PLANS[ticket.pattern or ""]}' for ticket in kept]
    if with_title:
        texts = [f"{ticket.task}\n{text}" for ticket, text in zip(kept, texts, strict=True)]
    embedder = get_embedder(model)
    similar = embedder.embed([ticket.task for ticket in asked]) @ embedder.embed(texts).T
    nearest = similar.argmax(axis=1)
    return _Found(
        tuple(
            (ticket.pattern, kept[place].pattern if similar[row, place] > MIN_SIMILARITY else None)
            for row, (ticket, place) in enumerate(zip(asked, nearest, strict=True))
        )
    )
