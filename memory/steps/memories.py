"""The memories for a step: those of its repository, and those of none, that suit the task."""

from typing import Any

from contextopt.models import Team
from contextopt.search.hybrid import Hit, prepare_query, search
from contextopt.search.registry import SearchFilters
from contextopt.search.vectors.fill import ensure_embedded
from memory.memories.memories import EMBEDDED_AT_ONCE, SEARCHABLE
from memory.memories.models import STRATEGY, Memory
from memory.steps.found import LOW_RELEVANCE, Found, leave_out

MEMORIES_MAX = 40
SIMILARITY_NEEDED = 0.3
"""A memory that shares no word with the task needs this cosine similarity."""


def find_memories(team: Team, *, task: str, repository: str) -> Found:
    """Return the memories that suit the task, the best first. Strategies are left to the hint.

    A memory of another repository is no candidate. Without a repository, all of the team's are.
    """
    ensure_embedded(SEARCHABLE, team.pk, limit=EMBEDDED_AT_ONCE)
    allowed = (("repository", (repository, "")),) if repository else ()
    hits = search(
        SEARCHABLE,
        team.pk,
        prepare_query(task),
        filters=SearchFilters(without_types=(STRATEGY,), conditions=allowed),
        limit=MEMORIES_MAX,
    )
    memories = Memory.objects.live().filter(team=team).in_bulk([hit.id for hit in hits])
    candidates = [hit for hit in hits if hit.id in memories]
    kept = [hit for hit in candidates if _is_relevant(hit)]
    return Found(
        items=tuple(_item(memories[hit.id]) for hit in kept),
        names=tuple(_name(hit) for hit in kept),
        left_out=leave_out((_name(hit), LOW_RELEVANCE) for hit in candidates if not _is_relevant(hit)),
    )


def _is_relevant(hit: Hit) -> bool:
    return hit.lexical > 0 or (hit.similarity is not None and hit.similarity >= SIMILARITY_NEEDED)


def _name(hit: Hit) -> str:
    return f"memory {hit.id}"


def _item(memory: Memory) -> dict[str, Any]:
    """Return the memory as an item of a context. One from outside is fenced there as data."""
    title = {"title": memory.title} if memory.title else {}
    return {"type": memory.memory_type, **title, "content": memory.content, "trust_level": memory.trust_level}
