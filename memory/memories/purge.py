"""Erases deleted memories for good: at once by a purge, or some time after their deletion.

Numbers and hashes stay, and so do type and repository, which figures are counted by.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import batched
from typing import Any

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models.functions import Coalesce
from django.utils import timezone
from pydantic_core import from_json

from contextopt.agents.completions import Completion
from contextopt.assemblies.models import AssemblyPayload, Kind
from contextopt.assemblies.purge import agent_payloads, erase_fence, erase_from_payloads, erase_section
from contextopt.engine.text.quoting import STRATEGY_HINT
from contextopt.locks import Lock, only_here, unless_deleted
from contextopt.people.audit import SYSTEM, note_event
from contextopt.people.models import StoredResponse
from contextopt.search.wordcounts import count_words
from contextopt.spaces.models import PURGED, Space
from contextopt.spaces.storedresponses import erase_responses, erase_texts
from contextopt.sql import fetch_column
from memory.memories.memories import SEARCHABLE, find_memory
from memory.memories.models import Memory, MemoryEmbedding
from memory.strategies.models import StrategyUse

KEPT_FOR = timedelta(days=30)
# Whatever was being stored during a purge is stored within this time.
RACE = timedelta(minutes=10)
BATCH = 200
# A job must end well within its time limit. The next run does the rest.
BATCHES = 20

# The name of a memory among the items of an agent's context.
ITEM = "memory "
# Later figures are grouped by these.
REPORT_FIGURES = ("repository", "outcome", "model")
# Every JSON form of a memory names it in one of these ways.
_MENTIONS = (b'"memory_type"', b'"memory_id"', b'"memory ')
_MENTIONING = f"""
SELECT s.id FROM contextopt_storedresponse s JOIN contextopt_apikey k ON k.id = s.api_key_id
 WHERE k.team_id = %s AND ({" OR ".join(["position(%s::bytea in s.body) > 0"] * len(_MENTIONS))})
 ORDER BY s.id
"""
_LEARNED_FROM = """
SELECT c.id FROM contextopt_completion c
 WHERE c.team_id = %s AND c.learned IS NOT NULL AND EXISTS (
       SELECT FROM jsonb_array_elements(c.learned -> 'stored') AS stored
        WHERE (stored ->> 'id')::bigint = ANY(%s::bigint[]))
 ORDER BY c.id
"""
_SENT_TO_AGENTS = """
SELECT p.assembly_id FROM contextopt_assemblypayload p JOIN contextopt_assembly a ON a.id = p.assembly_id
 WHERE a.team_id = %s AND a.kind = 'agent' AND a.created_at >= %s
   AND jsonb_path_query_array(
           p.ledger, '$.sections[*] ? (@.name == "memories").items[*] ? (@.kept == true).id'
       ) ?| %s::text[]
"""


def purge_memory(*, memory: Memory, actor: str = SYSTEM) -> Memory:
    """Erase the memory's text everywhere. There is no undo. Idempotent."""
    purge_memories(memory.team_id, [memory.pk], actor=actor)
    return find_memory(memory.team_id, memory.pk)


def purge_memories(team_id: int, ids: Sequence[int], *, actor: str = SYSTEM) -> int:
    """Erase the text of these memories of the team, a batch at a time; return how many were not purged yet.

    The memories go last, so if the process dies before, calling again does the rest.
    """
    purged = 0
    for some in batched(sorted(ids), BATCH):
        erase_copies(team_id, some)
        purged += _erase_memories(team_id, some, actor)
    return purged


def purge_space_memories(space: Space) -> None:
    """Purge the memories of a space that is deleted."""
    ids = Memory.objects.filter(space=space, purged_at=None).values_list("pk", flat=True)
    purge_memories(space.team_id, list(ids), actor=SYSTEM)


def purge_due(now: datetime) -> None:
    """Purge memories that were deleted long enough ago, and erase what was stored during a recent purge."""
    with only_here(Lock.PURGE_MEMORIES) as is_ours:
        if not is_ours:
            return
        recent = Memory.objects.filter(purged_at__gte=now - RACE).order_by("team_id", "pk")
        for team_id, ids in _by_team(recent.values_list("team_id", "pk")[: BATCH * BATCHES]):
            erase_copies(team_id, ids)
        due = Memory.objects.filter(purged_at=None, deleted_at__lt=now - KEPT_FOR).order_by("team_id", "pk")
        for team_id, ids in _by_team(due.values_list("team_id", "pk")[: BATCH * BATCHES]):
            with unless_deleted():
                purge_memories(team_id, ids)


def _by_team(rows: Any) -> Iterator[tuple[int, list[int]]]:
    found: dict[int, list[int]] = {}
    for team_id, pk in rows:
        found.setdefault(team_id, []).append(pk)
    yield from found.items()


@transaction.atomic
def _erase_memories(team_id: int, ids: Sequence[int], actor: str) -> int:
    now = timezone.now()
    kept = Memory.objects.filter(team=team_id, pk__in=ids, purged_at=None)
    fresh = list(kept.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
    Memory.objects.filter(pk__in=fresh).update(
        title="", content=PURGED, category="", tags=[], payload={}, retired_reason="",
        deleted_at=Coalesce("deleted_at", now), purged_at=now, updated_at=now,
    )  # fmt: skip
    # A vector reveals what a text was about. If one is just being made from the old text, the job that this
    # write triggers deletes it.
    MemoryEmbedding.objects.filter(memory__in=fresh).delete()
    entries = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(Memory))
    entries.filter(object_id__in=[str(pk) for pk in fresh]).update(object_repr=PURGED)
    for pk in fresh:
        note_event(team_id=team_id, actor=actor, action="memory.purged", subject=f"memory {pk}")
    if fresh:
        # Words of the erased texts may be listed until the next count.
        count_words(SEARCHABLE, team_id)
    return len(fresh)


def erase_copies(team_id: int, ids: Sequence[int]) -> None:
    """Erase what was copied from the memories into agents' contexts, reports and stored responses."""
    oldest = Memory.objects.filter(pk__in=ids).order_by("created_at").values_list("created_at", flat=True)
    since = oldest.first()
    if since is None:
        return
    sent = fetch_column(_SENT_TO_AGENTS, [team_id, since - RACE, [f"{ITEM}{pk}" for pk in ids]])
    erase_from_payloads(sent, _erase_memories_section)
    of_team = AssemblyPayload.objects.filter(assembly__team=team_id)
    own = of_team.filter(assembly__kind=Kind.HINT, ledger__memory_id__in=list(ids))
    uses = StrategyUse.objects.filter(memory__in=ids).exclude(assembly=None).values("assembly")
    in_steps = agent_payloads().filter(assembly__team=team_id, pk__in=uses)
    erase_from_payloads(
        [*own.values_list("pk", flat=True), *in_steps.values_list("pk", flat=True)], _erase_hint
    )
    _erase_from_reports(team_id, ids)
    _erase_from_responses(team_id, set(ids))


def _erase_memories_section(payload: AssemblyPayload) -> None:
    # The ledger does not say which lines a memory has, so those of all memories go.
    payload.text = erase_section(payload.text, "memories")


def _erase_hint(payload: AssemblyPayload) -> None:
    payload.text = erase_fence(payload.text, STRATEGY_HINT)


def _erase_from_reports(team_id: int, ids: Sequence[int]) -> None:
    """Erase the reports that the memories were learned from. Nothing but their figures is used again."""
    for some in batched(fetch_column(_LEARNED_FROM, [team_id, list(ids)]), BATCH):
        with transaction.atomic():
            held = Completion.objects.select_for_update(no_key=True).filter(pk__in=some).order_by("pk")
            for completion in held:
                learned: Any = completion.learned
                for stored in learned["stored"]:
                    stored["content"] = PURGED if stored["id"] in ids else stored["content"]
                completion.report = {
                    name: value if name in REPORT_FIGURES else erase_texts(value)
                    for name, value in completion.report.items()
                }
                completion.save(update_fields=["learned", "report"])


def _erase_from_responses(team_id: int, ids: Collection[int]) -> None:
    mentioning = fetch_column(_MENTIONING, [team_id, *_MENTIONS])
    for some in batched(mentioning, BATCH):
        bodies = StoredResponse.objects.filter(pk__in=some).values_list("pk", "body")
        erase_responses([pk for pk, body in bodies if _names_one(from_json(bytes(body)), ids)])


def _names_one(value: Any, ids: Collection[int]) -> bool:
    """Return whether a response has one of the memories, in any of the forms that they have in JSON."""
    if isinstance(value, dict):
        own = value.get("id")
        if value.get("memory_id") in ids or ("memory_type" in value and own in ids):
            return True
        if isinstance(own, str) and own.startswith(ITEM) and own.removeprefix(ITEM) in map(str, ids):
            return True
        value = list(value.values())
    return isinstance(value, list) and any(_names_one(inner, ids) for inner in value)
