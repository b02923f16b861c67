"""Rebuilds what the engine was given for a logged assembly, from the log and the records' versions.

The stored text, hash and ledger are not read, because a replay is compared with them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from contextopt.assemblies.candidates import Candidates, ConfiguredSpace, PreparedRequest
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.log import Givens, unpack_givens
from contextopt.assemblies.models import NO_QUESTION_KEPT, Assembly, Kind
from contextopt.assemblies.retrieval import NOTES_READ
from contextopt.assemblies.verify import read_config
from contextopt.engine.details import Query, RecordDetail
from contextopt.engine.duplicates import numbers_in
from contextopt.engine.rendering import summary_line
from contextopt.engine.text.lexical import terms
from contextopt.engine.text.promptpassages import searched_text
from contextopt.engine.text.tokens import Tokenizer
from contextopt.engine.validation import UnknownEncoding
from contextopt.engine.values import ENGINE_VERSION, PLAIN_ENGINE_VERSION, PartSizes, RecordSummary
from contextopt.errors import Conflict
from contextopt.search.embedders.current import USUAL_SIMILARITIES
from contextopt.spaces.versions import RecordVersion, read_versions


class Reason(StrEnum):
    """Why an assembly cannot be computed again."""

    PURGED = "purged"
    ENCODER_CHANGED = "encoder_changed"
    ENGINE_CHANGED = "engine_changed"
    LOGGED_BEFORE = "logged_before"
    QUESTION_NOT_KEPT = "question_not_kept"


class NotReplayable(Conflict):
    """The assembly cannot be computed again, for one of the reasons."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Material:
    """A logged assembly with its request as it was `asked`, and what the engine was given for it.

    `states` holds the records at the versions that were given, by id and version.
    """

    assembly: Assembly
    asked: PreparedRequest
    givens: Givens
    states: Mapping[tuple[int, int], RecordVersion]

    def candidates(self, tokenizer: Tokenizer) -> Candidates:
        """Return exactly what the engine was given, counted with the tokenizer."""
        given = [
            (one, summary_of(self.states[one.id, one.version], one.views, tokenizer))
            for one in self.givens.records
        ]
        return Candidates(
            records=tuple(summary for one, summary in given if one.is_candidate),
            baseline=tuple(summary for one, summary in given if one.is_baseline),
            counts=self.givens.counts,
            query=self._query() if self.givens.is_asked else None,
            passages=self.givens.passages,
            encoder=self.givens.encoder,
        )

    def _query(self) -> Query:
        candidates = [given for given in self.givens.records if given.is_candidate]
        question = searched_text(self.asked.request.query, self.givens.passages)
        return Query(
            frozenset(terms(question)),
            {given.id: given.relevance for given in candidates},
            {
                given.id: detail_of(self.states[given.id, given.version])
                for given in candidates
                if given.has_detail
            },
            self.givens.is_relevant,
            numbers_in(question),
            USUAL_SIMILARITIES.get(self.givens.encoder),
        )


def load_material(assembly: Assembly) -> Material:
    """Read what the engine was given. The assembly comes with its payload.

    Raises:
        NotReplayable: see `Reason`.
        Conflict: the assembly is not the context of a space.
    """
    if assembly.kind != Kind.SPACE or assembly.space_id is None:
        raise Conflict(f"Assembly {assembly.pk} is not the context of a space.")
    payload = assembly.stored_payload
    if payload is None or payload.givens is None:
        raise NotReplayable(
            Reason.LOGGED_BEFORE, "It was logged before Contextopt stored the inputs of decisions."
        )
    if NO_QUESTION_KEPT in payload.request:
        raise NotReplayable(
            Reason.QUESTION_NOT_KEPT,
            "Its question was not kept, because the space's gateway policy keeps sizes only.",
        )
    givens = unpack_givens(bytes(payload.givens))
    tokenizer = _tokenizer(assembly, givens)
    versions = [(given.id, given.version) for given in givens.records]
    states = read_versions(assembly.space_id, versions)
    gone = {record_id for record_id, version in versions if (record_id, version) not in states}
    gone |= {state.id for state in states.values() if state.is_purged}
    if gone:
        count, have = ("A record", "has") if len(gone) == 1 else (f"{len(gone):,} records", "have")
        raise NotReplayable(Reason.PURGED, f"{count} that it considered {have} been purged since.")
    return Material(assembly, _asked(assembly, givens, tokenizer), givens, states)


def _asked(assembly: Assembly, givens: Givens, tokenizer: Tokenizer) -> PreparedRequest:
    """Return the logged request with the settings and the space of then. Only the prompt's question and sizes
    matter again.
    """
    payload, space = assembly.payload, assembly.space
    assert space is not None
    config, question = read_config(payload.config), str(payload.request.get("query") or "").strip()
    # The logged question is taken as it is, even if this version would not accept it.
    request = AssemblyIn.model_construct(
        space=space.slug, stage=config.stage, query=question, model=assembly.model
    )
    then = ConfiguredSpace(
        id=space.pk,
        slug=space.slug,
        shown=givens.space,
        time_zone=assembly.team.time_zone,
        config_id=assembly.config_id or 0,
        config_version=assembly.config_version or 0,
        settings=config,
    )
    return PreparedRequest(
        team_id=assembly.team_id,
        actor=assembly.actor,
        request=request,
        space=then,
        config=config,
        overrides=payload.config.get("overrides", {}),
        as_of=assembly.as_of,
        tokenizer=tokenizer,
        sizes=PartSizes.from_json(payload.request),
    )


def _tokenizer(assembly: Assembly, givens: Givens) -> Tokenizer:
    """Return the tokenizer that the assembly used, if neither it nor the engine has changed since."""
    try:
        tokenizer = assembly.payload.tokenizer
    except UnknownEncoding as error:
        raise NotReplayable(Reason.ENGINE_CHANGED, str(error)) from error
    oldest = ENGINE_VERSION if givens.is_asked else PLAIN_ENGINE_VERSION
    if not oldest <= givens.engine_version <= ENGINE_VERSION:
        message = (
            f"It was assembled by engine version {givens.engine_version}. Version {ENGINE_VERSION}, which "
            "runs now, may decide differently."
        )
        raise NotReplayable(Reason.ENGINE_CHANGED, message)
    if tokenizer.version != assembly.tokenizer_version:
        message = f"Its tokens were counted by version {assembly.tokenizer_version} of {tokenizer.name}."
        raise NotReplayable(Reason.ENGINE_CHANGED, message)
    return tokenizer


def summary_of(state: RecordVersion, views: int, tokenizer: Tokenizer) -> RecordSummary:
    """Return a record at a version as the engine reads it."""
    line = summary_line(state.title, state.type, state.date, state.tags, state.notes)
    return RecordSummary(
        id=state.id,
        date=state.date,
        view_count=views,
        line=line,
        tokens=tokenizer.count(line),
        pinned=state.pinned,
        source=state.source,
        external_id=state.external_id,
        version=state.version,
    )


def detail_of(state: RecordVersion) -> RecordDetail:
    """Return a record at a version, as far as the engine reads it."""
    notes = state.notes[:NOTES_READ]
    return RecordDetail(state.title, state.type, tuple(state.tags), notes, state.thread, state.position)


CHUNK = 200


def last_contexts(team_id: int, last: int) -> list[int]:
    """Return the ids of the team's last contexts of spaces, newest first."""
    contexts = Assembly.objects.filter(team_id=team_id, kind=Kind.SPACE, space__isnull=False)
    return list(contexts.newest_first().values_list("pk", flat=True)[:last])


def read_contexts(team_id: int, ids: Sequence[int]) -> Iterator[Assembly]:
    """Yield the team's assemblies in the order of `ids`, without those deleted in the meantime."""
    rows = Assembly.objects.filter(team_id=team_id).for_replay()
    for start in range(0, len(ids), CHUNK):
        chunk = ids[start : start + CHUNK]
        found = rows.in_bulk(chunk)
        yield from (found[one] for one in chunk if one in found)
