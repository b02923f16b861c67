"""Contents of files, stored once per team, as read by the current version of the parser."""

from collections.abc import Iterable, Sequence
from itertools import batched

from contextopt.engine.code.graph import PARSER_VERSION
from contextopt.repositories.checkouts import Entry
from contextopt.repositories.models import CodeBlob
from contextopt.repositories.storedfiles import StoredReading, kind_of

type BlobKey = tuple[str, str]


def blob_ids(team_id: int, keys: Iterable[BlobKey]) -> dict[BlobKey, int]:
    """Return the ids of the contents that the current version of the parser has read."""
    wanted = set(keys)
    oids = sorted({oid for _, oid in wanted})
    found: dict[BlobKey, int] = {}
    for some in batched(oids, 5_000):
        rows = CodeBlob.objects.filter(team_id=team_id, parser=PARSER_VERSION, oid__in=some)
        found |= {(kind, oid): pk for kind, oid, pk in rows.values_list("kind", "oid", "id")}
    return {key: pk for key, pk in found.items() if key in wanted}


def blob_row(team_id: int, entry: Entry, content: bytes, reading: StoredReading) -> CodeBlob:
    return CodeBlob(
        team_id=team_id,
        kind=kind_of(entry.path),
        oid=entry.oid,
        parser=PARSER_VERSION,
        symbols=reading.symbols,
        content=content,
        parsed=reading.parsed,
        definitions=reading.definitions,
        terms=reading.terms,
    )


def save_blobs(rows: Sequence[CodeBlob]) -> None:
    CodeBlob.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["team", "kind", "oid"],
        update_fields=["parser", "symbols", "content", "parsed", "definitions", "terms"],
    )


def drop_orphans(blobs: Iterable[int]) -> None:
    """Delete the contents that no file uses any longer."""
    for some in batched(sorted(blobs), 5_000):
        CodeBlob.objects.filter(pk__in=some).filter(files=None).delete()
