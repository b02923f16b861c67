"""The only functions that write memories. Each is one transaction."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from contextopt.agents.tasks import check_task
from contextopt.engine.text.lexical import detect_language
from contextopt.engine.text.promptpassages import is_plain
from contextopt.errors import Conflict, InvalidInput
from contextopt.people.audit import SYSTEM, note_event
from contextopt.people.models import Team
from contextopt.search.hybrid import PreparedQuery, Target, prepare_query
from contextopt.search.registry import Searchable, SearchFilters
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.models import Space
from contextopt.sql import find_one
from memory.memories.inputs import MemoryIn, MemoryPatch
from memory.memories.models import Memory, MemoryEmbedding

# In days. Memories that go stale with the code fade fast; decisions last long.
HALF_LIVES = MappingProxyType(
    {"general": 30.0, "error_pattern": 60.0, "code_pattern": 90.0, "strategy": 90.0, "decision": 180.0}
)
OTHER_HALF_LIFE = HALF_LIVES["general"]
SECONDS_A_DAY = 86_400.0
# PostgreSQL refuses a power that underflows. After this many half-lives nothing is left anyway.
HALVINGS_MAX = 1_000

_DEFAULTS = " ".join(f"WHEN '{name}' THEN {days}" for name, days in HALF_LIVES.items())
HALF_LIFE_SQL = f"""
coalesce((SELECT h.days FROM memory_halflife h
           WHERE h.team_id = t.team_id AND h.memory_type = t.memory_type),
         CASE t.memory_type {_DEFAULTS} ELSE {OTHER_HALF_LIFE} END)
"""
DECAY_SQL = f"""
power(0.5::float8, least({HALVINGS_MAX}, greatest(0,
    extract(epoch FROM %(now)s::timestamptz - coalesce(t.last_accessed_at, t.created_at))::float8
    / {SECONDS_A_DAY} / {HALF_LIFE_SQL})))
"""


# Embed this many new memories before a search, so that they count at once. The job does the rest.
EMBEDDED_AT_ONCE = 200

SEARCHABLE = Searchable(
    name="memory",
    model=Memory,
    embedding=MemoryEmbedding,
    owner_column="memory_id",
    corpus_column="team_id",
    text_columns=("title", "content"),
    live_sql="t.deleted_at IS NULL AND t.retired_at IS NULL",
    decay_sql=DECAY_SQL,
    type_column="memory_type",
    source_column=None,
    date_column="created_at",
    tags_column="tags",
    conditions=(("repository", "repository"), ("category", "category"), ("trust_level", "trust_level")),
)


def prepare_memory_query(
    team_id: int, text: str, space: str | None = None, *, targets: Sequence[Target] = ()
) -> PreparedQuery:
    """Prepare a text that memories are searched for, or these targets.

    Its space names the blocks of its tools. Without a space, those of all spaces of the team count.
    """
    if is_plain(text):
        return prepare_query(text)
    patterns = ContextConfig.objects.tool_patterns(team_id, space)
    targets = targets or [Target(SEARCHABLE, team_id, SearchFilters())]
    return prepare_query(text, patterns, targets=targets)


def find_memory(team_id: int, memory_id: int) -> Memory:
    """Return the team's memory, even if deleted.

    Raises:
        NotFound: the team has no such memory.
    """
    rows = Memory.objects.select_related("space", "task").filter(team_id=team_id, pk=memory_id)
    return find_one(rows, f"memory {memory_id}")


@transaction.atomic
def create_memory(*, team: Team, data: MemoryIn, actor: str) -> Memory:
    """Add a memory.

    Raises:
        InvalidInput: the team has no such space or task.
    """
    fields = _resolved(team.pk, data.model_dump())
    return Memory.objects.create(
        team=team, **fields, language=detect_language(data.title, data.content), created_by=actor
    )


@transaction.atomic
def update_memory(*, memory: Memory, changes: MemoryPatch) -> Memory:
    """Change the given fields.

    Raises:
        Conflict: the memory is deleted.
        InvalidInput: the team has no such space or task.
    """
    current = Memory.objects.select_for_update(no_key=True).get(pk=memory.pk)
    if current.deleted_at is not None:
        raise Conflict(f"Memory {memory.pk} is deleted. Restore it first.")
    fields = _resolved(current.team_id, changes.model_dump(exclude_unset=True))
    if not fields:
        return current
    for name, value in fields.items():
        setattr(current, name, value)
    current.language = detect_language(current.title, current.content)
    current.save(update_fields=[*fields, "language", "updated_at"])
    return current


@transaction.atomic
def delete_memory(*, memory: Memory, actor: str = SYSTEM) -> Memory:
    """Remove the memory from every search; `restore_memory` brings it back. Idempotent."""
    if Memory.objects.filter(pk=memory.pk, deleted_at=None).update(deleted_at=timezone.now()):
        note_event(
            team_id=memory.team_id, actor=actor, action="memory.deleted", subject=f"memory {memory.pk}"
        )
    return find_memory(memory.team_id, memory.pk)


@transaction.atomic
def restore_memory(*, memory: Memory, actor: str = SYSTEM) -> Memory:
    """Undo a deletion. Idempotent.

    Raises:
        Conflict: there is nothing left to restore.
    """
    current = Memory.objects.select_for_update(no_key=True).get(pk=memory.pk)
    if current.purged_at is not None:
        raise Conflict("The memory's text was erased for good.")
    if Memory.objects.filter(pk=memory.pk).exclude(deleted_at=None).update(deleted_at=None):
        note_event(
            team_id=memory.team_id, actor=actor, action="memory.restored", subject=f"memory {memory.pk}"
        )
    return find_memory(memory.team_id, memory.pk)


def access_memories(*, memory_ids: list[int]) -> None:
    """Count an access of each memory and restart its decay. Simultaneous accesses are all counted."""
    Memory.objects.filter(pk__in=memory_ids).update(
        access_count=F("access_count") + 1, last_accessed_at=timezone.now()
    )


def _resolved(team_id: int, fields: dict[str, Any]) -> dict[str, Any]:
    """Replace the space's slug by its key, and check that space and task are the team's."""
    if "space" in fields:
        slug = fields.pop("space")
        fields["space_id"] = None if slug is None else _space_id(team_id, slug)
    check_task(team_id, fields.get("task_id"))
    return fields


def _space_id(team_id: int, slug: str) -> int:
    found = Space.objects.filter(team_id=team_id, slug=slug).values_list("pk", flat=True).first()
    if found is None:
        raise InvalidInput.of("space", f"there is no space {slug!r}")
    return found
