"""The effect that a draft of the settings would have on the last requests of a space."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from pydantic import ValidationError

from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.models import Assembly, Kind
from contextopt.assemblies.results import AssemblyResult
from contextopt.engine.settings import SETTINGS, STAGES, ContextConfig
from contextopt.errors import PRODUCT_ERRORS
from contextopt.spaces.models import Space

REQUESTS_TRIED = 6
REQUESTS_READ = 60
SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Effect:
    """One past request assembled again now: under the active settings, and under the draft.

    `refused` says why the draft cannot assemble it.
    """

    assembly_id: int
    question: str
    tokens_before: int
    tokens_after: int
    records_before: int
    records_after: int
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Effects:
    rows: Sequence[Effect]

    @property
    def refused(self) -> list[str]:
        """The reasons, each once, why the draft can assemble none of them; empty if it can."""
        reasons = list(dict.fromkeys(row.refused for row in self.rows))
        return reasons if all(reasons) else []

    @property
    def tokens_before(self) -> int:
        return sum(row.tokens_before for row in self.rows if not row.refused)

    @property
    def tokens_after(self) -> int:
        return sum(row.tokens_after for row in self.rows if not row.refused)

    @property
    def records_before(self) -> int:
        return sum(row.records_before for row in self.rows if not row.refused)

    @property
    def records_after(self) -> int:
        return sum(row.records_after for row in self.rows if not row.refused)


def last_context(space: Space, settings: Collection[str]) -> int | None:
    """Return the space's last logged context, if possible one in whose stage one of the settings decides."""
    newest = Assembly.objects.filter(space=space, kind=Kind.SPACE, payload__purged_at=None).newest_first()
    stages = [each for each in STAGES if any(SETTINGS[name].decides_in(each) for name in settings)]
    ids = newest.values_list("pk", flat=True)
    return ids.filter(stage__in=stages).first() or ids.first()


def read_effects(space: Space, changes: Mapping[str, Any], actor: str) -> Effects:
    """Assemble the newest different requests of the space twice; stop after two seconds."""
    settings = space.configs.active().get().settings.replace(**changes)
    ends = monotonic() + SECONDS
    rows: list[Effect] = []
    for assembly_id, request in _last_requests(space):
        if len(rows) == REQUESTS_TRIED or monotonic() > ends:
            break
        rows.append(_try(space, assembly_id, request, settings, actor))
    return Effects(rows)


def _last_requests(space: Space) -> Iterator[tuple[int, AssemblyIn]]:
    """Yield requests of contexts, newest first: each question once, and one request without a question."""
    newest = Assembly.objects.filter(space=space, kind=Kind.SPACE, payload__purged_at=None).newest_first()
    seen = set()
    for assembly_id, stored in newest.values_list("pk", "payload__request")[:REQUESTS_READ]:
        try:
            request = AssemblyIn.model_validate({**(stored or {}), "space": space.slug, "as_of": None})
        except ValidationError:
            # An older version allowed what is refused now.
            continue
        key = (request.query, request.stage)
        if key not in seen:
            seen.add(key)
            yield assembly_id, request


def _try(space: Space, assembly_id: int, request: AssemblyIn, settings: ContextConfig, actor: str) -> Effect:
    try:
        before = _preview(space, request, None, actor)
        after = _preview(space, request, settings, actor)
    except PRODUCT_ERRORS as error:
        return Effect(assembly_id, request.query or "", 0, 0, 0, 0, refused=str(error))
    return Effect(
        assembly_id,
        request.query or "",
        before.stats.tokens_used,
        after.stats.tokens_used,
        before.stats.records_included,
        after.stats.records_included,
    )


def _preview(space: Space, request: AssemblyIn, settings: ContextConfig | None, actor: str) -> AssemblyResult:
    return assemble_space(team_id=space.team_id, request=request, actor=actor, store=False, settings=settings)
