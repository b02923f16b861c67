"""The tool `remember`: a record of a space, or a memory of the team. Repeating it changes nothing."""

import hashlib
from collections.abc import Sequence

from django.db import transaction

from contextopt.models import Record
from contextopt.spaces.inputs import RecordIn
from contextopt.spaces.records import restore_record, upsert_records
from contextopt.spaces.spaces import find_space
from memory.mcp.callers import Caller
from memory.memories.inputs import MemoryIn
from memory.memories.memories import create_memory
from memory.models import Memory

SOURCE = "mcp"


def keep_record(
    caller: Caller, space: str, *, title: str, content: str, kind: str, tags: Sequence[str]
) -> tuple[int, bool]:
    """Write a record, which `get_context` of the space considers from then on; return its id, and whether it
    is new.

    Its external ID is a hash of title and text, so a repeated call finds it.

    Raises:
        NotFound: the team has no such space.
    """
    caller.check_space(space)
    digest = hashlib.sha256(f"{title}\0{content}".encode()).hexdigest()
    row = RecordIn(
        title=title, notes=content, type=kind, tags=list(tags), source=SOURCE, external_id=digest[:32]
    )
    result = upsert_records(space=find_space(caller.team.pk, space), rows=[row], actor=caller.actor)[0]
    # A deleted record that is written again is restored.
    deleted = Record.objects.filter(pk=result.record_id).exclude(deleted_at=None).first()
    if deleted is not None:
        restore_record(record=deleted, actor=caller.actor)
    is_new = result.status == "created" or deleted is not None
    return result.record_id, is_new


@transaction.atomic
def keep_memory(
    caller: Caller, *, title: str, content: str, kind: str, tags: Sequence[str]
) -> tuple[Memory, bool]:
    """Write a memory that belongs to no space; return it, and whether it is new.

    Raises:
        NotAllowed: the key is limited to spaces.
    """
    caller.check_team()
    # A simultaneous identical call waits here and then finds the memory.
    caller.team.lock()
    same = Memory.objects.filter(team=caller.team, title=title, content=content, deleted_at=None)
    if (found := same.first()) is not None:
        return found, False
    data = MemoryIn(title=title, content=content, memory_type=kind, tags=list(tags), trust_level="agent")
    return create_memory(team=caller.team, data=data, actor=caller.actor), True
