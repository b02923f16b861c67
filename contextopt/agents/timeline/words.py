"""Sentences about the events of a task."""

from collections.abc import Iterable, Mapping
from typing import Any

from contextopt.agents.models import Attempt
from contextopt.assemblies.models import Kind
from contextopt.engine.agents.contexts import FIELDS
from contextopt.engine.agents.logmarkers import classify
from contextopt.engine.text.cleaning import flatten_to
from contextopt.engine.wording import listed, plural

ERROR_SHOWN_CHARS = 240
FIELD_WORDS = {"package_manifest": "manifest", "tree_paths": "paths"}
# One and several of each field that has items.
ITEM_WORDS = {
    "files": ("file", "files"),
    "memories": ("memory", "memories"),
    "docs": ("document", "documents"),
    "tools": ("tool", "tools"),
}


def context_note(ledger: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """Return which fields of the context were kept, or how they were trimmed."""
    if cuts := ledger.get("trimmed"):
        parts = [_cut(cut) for cut in cuts]
        return f"Trimmed to {config['budget_tokens']:,} tokens: {listed(parts)}"
    if "sections" in ledger:
        return _sections_note(ledger["sections"])
    kept = config.get("fields")
    if kept is None:
        return ""
    if not kept:
        return "No fields kept"
    if set(kept) >= set(FIELDS):
        return "All fields"
    return f"{listed(FIELD_WORDS.get(name, name) for name in kept)} only".capitalize()


def _sections_note(sections: Iterable[Mapping[str, Any]]) -> str:
    """Return what a context for a step consists of."""
    kept = [section["name"] for section in sections if section["kept"]]
    words = listed(FIELD_WORDS.get(name, name.replace("_", " ")) for name in kept)
    return words.capitalize() if kept else "Nothing"


def _cut(cut: Mapping[str, Any]) -> str:
    words = ITEM_WORDS.get(cut["field"])
    if words and cut["dropped_items"]:
        return f"{plural(cut['dropped_items'], *words)} left out"
    return f"{FIELD_WORDS.get(cut['field'], cut['field'].replace('_', ' '))} shortened"


def error_line(text: str) -> str:
    """Return the first of the lines that report an error most clearly, cut to fit one line."""
    return flatten_to(max(text.splitlines(), key=classify, default=""), ERROR_SHOWN_CHARS)


def attempt_note(attempt: Attempt) -> str:
    """Return what the retry holds, or why there is none."""
    if attempt.assembly and attempt.assembly.kind == Kind.AGENT:
        return f"Part of the context of assembly {attempt.assembly_id}"
    if attempt.action == "wait":
        return "The plan is repeated unchanged. Waiting is not a saving."
    if attempt.action == "stop":
        return "The task is impossible. Stopping is not a saving."
    return f"{plural(attempt.changed_files, 'changed file')} sent to {attempt.receiver}"


def learned_note(learned: Mapping[str, Any] | None) -> str:
    """Return what was learned from the completion."""
    if learned is None:
        return "Its lessons are not stored yet"
    if learned["strategy_id"]:
        return "Remembered as a strategy"
    reasons = [each["reason"] for each in learned["not_stored"] if each["memory_type"] == "strategy"]
    return f"No strategy: {reasons[0]}" if reasons else ""
