"""Spaces to measure on, filled by COPY with all values that the product's own writes compute."""

import random
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import batched

from django.db import connection
from django.db.models import Avg, Max, Min
from django.db.models.functions import Length
from django.utils import timezone

from benchmarks.corpus import Generated, generate
from contextopt.assemblies.models import AssemblyPayload
from contextopt.engine.rendering import summary_line
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.people.models import Team
from contextopt.search import registry
from contextopt.search.embedders.current import configured_embedder
from contextopt.search.models import EmbeddingFill, EmbeddingModel
from contextopt.search.vectors.indexes import build_index
from contextopt.spaces.inputs import RecordIn, SpaceIn
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import upsert_records
from contextopt.spaces.spaces import create_space, delete_space

COPY_ROWS = 20_000
IMPORTED_ROWS = 1_000
ENCODING = "cl100k_base"
WINDOW_DAYS = 14
SETTLE_SECONDS = 120.0
_COLUMNS = (
    "space_id", "title", "type", "date", "tags", "notes", "pinned", "thread", "position", "metadata",
    "view_count", "deleted_at", "source", "external_id", "content_hash", "summary", "summary_tokens",
    "summary_encoding", "created_by", "created_at", "updated_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Filled:
    """A space with records, and the moments it can be queried at."""

    space: Space
    records: int
    first: datetime
    last: datetime

    @property
    def slug(self) -> str:
        return self.space.slug

    def moments(self, count: int, *, seed: int) -> list[datetime]:
        """Return random moments whose whole window lies within the records' dates."""
        rng = random.Random(seed)
        earliest = min(self.first + timedelta(days=WINDOW_DAYS), self.last)
        span = self.last - earliest
        return [earliest + span * rng.random() for _ in range(count)]


def generated_space(team: Team, size: int) -> Filled:
    """Return a space with this many generated records; reuse that of an earlier run with --keep."""
    slug = f"generated-{size}"
    space = Space.objects.filter(team=team, slug=slug).first()
    if space is not None and space.records.count() != size:
        delete_space(space=space)
        space = None
    if space is None:
        space = create_space(team=team, data=describe_space(slug), actor="benchmarks")
        started = time.monotonic()
        fill(space, generate(size, seed=size, until=datetime.now(UTC)))
        say(f"{size:,} records written in {time.monotonic() - started:.0f} s")
    return measured(space)


def new_space(team: Team, data: SpaceIn) -> Space:
    """Create a space, in place of one that an interrupted run has left."""
    Space.objects.filter(team=team, slug=data.slug).delete()
    return create_space(team=team, data=data, actor="benchmarks")


def space_of(team: Team, slug: str, name: str, rows: Iterable[RecordIn]) -> Space:
    """Create a space with these records."""
    space = new_space(team, SpaceIn(slug=slug.lower(), name=name))
    for batch in batched(rows, IMPORTED_ROWS):
        upsert_records(space=space, rows=batch, actor="benchmarks")
    return space


def describe_space(slug: str) -> SpaceIn:
    return SpaceIn(
        slug=slug,
        name="Platform team",
        description="Decisions, incidents, commits and notes of the team that runs shop and billing.",
        categories=["engineering", "operations", "product"],
    )


def measured(space: Space) -> Filled:
    dates = Record.objects.filter(space=space).aggregate(first=Min("date"), last=Max("date"))
    return Filled(space, space.records.count(), dates["first"], dates["last"])


def fill(space: Space, records: Iterable[Generated]) -> None:
    """Write records as an import would, without its checks and with simulated views.

    The statement triggers update the space's counters, as for every writer.
    """
    columns = ", ".join(f'"{name}"' for name in _COLUMNS)
    with connection.cursor() as cursor:
        for batch in batched(_rows(space, records), COPY_ROWS):
            with cursor.copy(f"COPY contextopt_record ({columns}) FROM STDIN") as copy:
                for row in batch:
                    copy.write_row(row)


def _rows(space: Space, records: Iterable[Generated]) -> Iterator[tuple[object, ...]]:
    tokenizer = get_tokenizer(ENCODING)
    rng = random.Random(0)
    now = timezone.now()
    for number, record in enumerate(records):
        line = summary_line(record.title, record.type, record.date, record.tags, record.notes)
        yield (
            space.pk, record.title, record.type, record.date, record.tags, record.notes, record.is_pinned,
            record.thread, record.position, "{}", record.views, now if record.is_deleted else None,
            "generated", f"{number}", rng.randbytes(16), line, tokenizer.count(line), ENCODING,
            "benchmarks", now, now,
        )  # fmt: skip


def build_indexes() -> None:
    """Build the index of the records' vectors, as the worker does beyond a few thousand of them."""
    records = registry.get("record")
    model = EmbeddingModel.objects.get(name=configured_embedder())
    build_index(records, model, wait_seconds=None)
    EmbeddingFill.objects.filter(model=model, searchable=records.name).update(is_indexed=True)


def describe_givens(space: Space) -> str:
    """Describe how many bytes the space's assemblies log about what the engine was given."""
    sizes = (
        AssemblyPayload.objects.filter(assembly__space=space)
        .values("assembly__stage")
        .annotate(mean=Avg(Length("givens")), most=Max(Length("givens")))
        .order_by("assembly__stage")
    )
    shown = "; ".join(
        f"stage {size['assembly__stage']} {size['mean']:,.0f}, at most {size['most']:,}" for size in sizes
    )
    return f"Bytes logged per assembly about what the engine was given, on average: {shown}."


def settle() -> None:
    """Vacuum and analyze after a bulk load, and wait until autovacuum is done."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")
        cursor.execute("CHECKPOINT")
        ends = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < ends:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'")
            if cursor.fetchone() == (0,):
                return
            time.sleep(1)


def say(text: str) -> None:
    """Report progress. Standard output is for the results."""
    print(text, file=sys.stderr, flush=True)
