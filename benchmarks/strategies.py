"""Tickets: is the kind of task detected, and does a like strategy come as the hint?

The tickets and their labels are our own, made and split before the detector was tuned; the labels say what a
person would call the ticket, also where none of its words says so. Each dev ticket with a kind becomes a
strategy, each test ticket asks for a hint. Run: `python -m benchmarks.strategies`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from contextopt.embedding import get_embedder
from contextopt.engine.taskpatterns import PATTERNS, detect_task_pattern

TICKETS = Path(__file__).with_name("data") / "tickets.jsonl"
NEEDED = 0.3
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


@dataclass(frozen=True, slots=True)
class Ticket:
    task: str
    split: str
    pattern: str | None


def load_tickets() -> list[Ticket]:
    rows = [json.loads(line) for line in TICKETS.read_text().splitlines()]
    return [Ticket(row["task"], row["split"], row["pattern"]) for row in rows]


def describe_detection(tickets: Sequence[Ticket]) -> str:
    names = {pattern.name for pattern in PATTERNS}
    said = [(ticket.pattern, found if (found := detect_task_pattern(ticket.task)) in names else None)
            for ticket in tickets]  # fmt: skip
    right = sum(1 for label, found in said if found and found == label)
    named = sum(1 for _, found in said if found)
    labelled = sum(1 for label, _ in said if label)
    return f"precision {right / named:.3f}, recall {right / labelled:.3f}, {len(said)} tickets"


def describe_hints(tickets: Sequence[Ticket], *, with_title: bool, model: str) -> str:
    kept = [ticket for ticket in tickets if ticket.split == "dev" and ticket.pattern]
    asked = [ticket for ticket in tickets if ticket.split == "test"]
    texts = [f'Strategy for "{ticket.pattern}": {PLANS[ticket.pattern or ""]}' for ticket in kept]
    if with_title:
        texts = [f"{ticket.task}\n{text}" for ticket, text in zip(kept, texts, strict=True)]
    embedder = get_embedder(model)
    similar = embedder.embed([ticket.task for ticket in asked]) @ embedder.embed(texts).T
    best = similar.argmax(axis=1)
    hinted = [
        (ticket.pattern, kept[place].pattern)
        for row, (ticket, place) in enumerate(zip(asked, best, strict=True))
        if similar[row, place] > NEEDED
    ]
    right = sum(1 for label, found in hinted if label == found)
    labelled = sum(1 for ticket in asked if ticket.pattern)
    unwanted = sum(1 for label, _ in hinted if label is None)
    return (
        f"{len(hinted)} hints for {len(asked)} tickets: {right} of the same kind (precision "
        f"{right / max(1, len(hinted)):.2f}, recall {right / labelled:.2f}), {unwanted} for those of no kind"
    )


def main() -> None:
    tickets = load_tickets()
    for split in ("dev", "test"):
        print(f"pattern, {split}: {describe_detection([t for t in tickets if t.split == split])}")
    for model in ("wordllama-256", "onnx:all-MiniLM-L6-v2-int8"):
        for with_title in (False, True):
            print(f"hints, {model}, {'task and steps' if with_title else 'steps alone'}: "
                  f"{describe_hints(tickets, with_title=with_title, model=model)}")  # fmt: skip


if __name__ == "__main__":
    main()
