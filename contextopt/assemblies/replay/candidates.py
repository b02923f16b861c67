"""Finds the candidates that a logged request would have had under other settings."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from contextopt.assemblies.assemble import REACHES, resolve_config
from contextopt.assemblies.candidates import Candidates, PreparedRequest, load_candidates, load_space
from contextopt.assemblies.inputs import AssemblyIn, ReplayIn
from contextopt.assemblies.replay.material import Material, NotReplayable, Reason, detail_of, summary_of
from contextopt.assemblies.retrieval import load_for_question, read_at_most
from contextopt.engine.details import Query
from contextopt.engine.queryanalysis import Mentions, add_mentions
from contextopt.engine.ranking import MAX_PART, NOT_RELEVANT, Match, Relevance, rank_by_query, relevances
from contextopt.engine.rendering import MESSAGE
from contextopt.engine.settings import SCORED_STAGE, ContextConfig
from contextopt.engine.values import Assembled, DateRange, FilterCounts, RecordSummary
from contextopt.errors import Conflict, FieldProblem, InvalidInput, ServiceUnavailable
from contextopt.search.hybrid import Question, Target, best_match, look_up, prepare_passages, rate
from contextopt.search.registry import SearchFilters
from contextopt.spaces.configs import find_config, given_settings
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import SEARCHABLE
from contextopt.spaces.versions import RecordVersion, read_changed

# Settings that change the ranking of records.
RANKING = (
    "recency_weight", "frequency_weight", "semantic_weight", "lexical_weight", "neighbour_share",
    "date_weight", "who_weight", "question_record_tokens",
)  # fmt: skip
# Settings that change how much the neighbours of a match count.
NEIGHBOURS = ("semantic_weight", "lexical_weight", "neighbour_share", "question_record_tokens")


def settings_for(material: Material, data: ReplayIn) -> ContextConfig:
    """Return the engine's config: as logged or of another version, with the changed settings.

    Raises:
        NotFound: the space has no such version.
        Conflict: the request can no longer be made under another version.
        InvalidInput, InvalidValue: a setting is outside its range; the error names it.
    """
    config = material.asked.config if data.config is None else _config_of(material, data.config)
    given = given_settings(data.settings)
    if not material.assembly.model:
        return config.replace(**given)
    # A model's tokens are counted in its own encoding, whatever a version says.
    own = material.asked.config.encoding
    if given.get("encoding", own) != own:
        rule = f"the model of the context, {material.assembly.model!r}, decides its encoding"
        raise InvalidInput([FieldProblem("settings.encoding", rule), FieldProblem("model", rule)])
    return config.replace(**{**given, "encoding": own})


def _config_of(material: Material, version: int) -> ContextConfig:
    """Return the settings of a version with the request's overrides."""
    space = Space.objects.get(pk=material.asked.space.id)
    stored, logged = find_config(space, version), material.assembly.payload.request
    try:
        request = AssemblyIn.model_validate({**logged, "space": space.slug})
    except ValidationError as error:
        raise Conflict("An older version logged the request, and this one does not accept it.") from error
    under_version = replace(load_space(space.team_id, space.slug), settings=stored.settings)
    return resolve_config(under_version, request)[0]


def differ(one: ContextConfig, other: ContextConfig, names: tuple[str, ...]) -> bool:
    """Return whether one of the named settings differs."""
    return any(getattr(one, name) != getattr(other, name) for name in names)


# Consider at most this many of the records that have changed since.
CHANGED_MAX = 2_000
# How often to ask for more candidates if records that were added later took some of the places.
ROUNDS = 4


class Reached(NamedTuple):
    """The decision on candidates, of which `looked_up` were not given to the engine then."""

    found: Candidates
    outcome: Assembled
    looked_up: int = 0
    is_reconstructed: bool = False


def decide_under(material: Material, asked: PreparedRequest) -> Reached:
    """Let the engine decide under other settings.

    Raises:
        NotReplayable: further records must be rated for the question, and the encoder has changed.
        ServiceUnavailable: the question cannot be embedded now.
    """
    given, sight = _among_given(material, asked), material.givens.sight
    if given is not None:
        outcome = asked.decide(given, sight)
        if not outcome.wants_more_candidates:
            return Reached(given, outcome)
    search = _Search.of(material, asked)
    for reach in (reach for reach in REACHES if reach >= material.givens.reach):
        found, looked_up = search.find(reach)
        outcome = asked.decide(found, sight)
        if found.is_all or not outcome.wants_more_candidates:
            break
    return Reached(found, outcome, looked_up, is_reconstructed=True)


def _among_given(material: Material, asked: PreparedRequest) -> Candidates | None:
    """Return the given candidates if they are enough under the settings, as far as can be told beforehand."""
    before, after = material.asked.effective_config, asked.effective_config
    given = material.candidates(asked.tokenizer)
    if before.stage < SCORED_STAGE:
        return given
    was, now = (DateRange.ending_at(asked.as_of, one.effective_window_days) for one in (before, after))
    is_complete = len(given.records) >= given.counts.filtered
    if was.start is not None and (now.start is None or now.start < was.start):
        return None
    if not is_complete and (was != now or differ(before, after, RANKING)):
        return None
    if material.givens.is_asked and _changes_ratings(before, after):
        return None
    counts = given.counts if was == now else _counts_in(now, given)
    query = given.query and _with_texts(material, given.query, given.records, after)
    return replace(given, counts=counts, query=query)


def _changes_ratings(before: ContextConfig, after: ContextConfig) -> bool:
    """Return whether records get another relevance. It is relative to the best record in the window."""
    return before.effective_window_days != after.effective_window_days or differ(before, after, NEIGHBOURS)


def _counts_in(window: DateRange, given: Candidates) -> FilterCounts:
    """Return the counts for a narrower window, when all candidates of the wider one were given."""
    inside = sum(record.pinned or record.date in window for record in given.records)
    outside = given.counts.outside_window + given.counts.filtered - inside
    return FilterCounts(inside, outside, given.counts.deleted)


def _with_texts(
    material: Material, query: Query, records: Iterable[RecordSummary], config: ContextConfig
) -> Query:
    """Add those texts of the records that an assembly under these settings would have read."""
    ranked = rank_by_query(records, query.relevant, material.asked.as_of, config)
    most = read_at_most(ranked, config) * material.givens.reach
    wanted = [scored.record for scored in ranked[:most]]
    states = ((record.id, material.states.get((record.id, record.version))) for record in wanted)
    texts = {record_id: detail_of(state) for record_id, state in states if state is not None}
    return replace(query, details={**texts, **query.details})


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for candidates of a request under other settings, in the space as it is now and as it was.

    `changed` are the records that have changed since, as they were.
    """

    material: Material
    asked: PreparedRequest
    question: Question | None
    changed: dict[int, RecordVersion]

    @classmethod
    def of(cls, material: Material, asked: PreparedRequest) -> "_Search":
        assembly, past = material.assembly, []
        question = _prepare(material) if material.givens.is_asked else None
        # A demo's assemblies have made-up times, so its records are taken as they are.
        if not assembly.is_demo:
            past = read_changed(asked.space.id, assembly.created_at, limit=CHANGED_MAX)
        return cls(material, asked, question, {state.id: state for state in past if not state.is_purged})

    @property
    def config(self) -> ContextConfig:
        return self.asked.effective_config

    def find(self, reach: int) -> tuple[Candidates, int]:
        """Return the candidates, and how many of them were looked up."""
        given = self.material.candidates(self.asked.tokenizer)
        known = {record.id for record in given.records}
        present, late = self._present(reach)
        others = [
            record
            for record in present.records
            if record.id not in known and record.id not in self.changed and record.id not in late
        ]
        window = DateRange.ending_at(self.asked.as_of, self.config.effective_window_days)
        past = [
            state
            for state in self.changed.values()
            if state.id not in known and state.deleted_at is None
            and (state.pinned or state.date in window)
        ]  # fmt: skip
        others += [summary_of(state, state.view_count, self.asked.tokenizer) for state in past]
        logged = self.material.asked.effective_config
        is_same = self.config.effective_window_days == logged.effective_window_days
        found = replace(
            given,
            records=(*given.records, *others),
            counts=given.counts if is_same else present.counts,
            query=given.query and self._query(given, present, past, others),
            is_all=present.is_all,
        )
        return found, len(others)

    def _present(self, reach: int) -> tuple[Candidates, set[int]]:
        """Return today's candidates, and the ids of those added after the assembly."""
        if self.question is not None:
            found = load_for_question(self.asked, self.question, reach=reach)
            return found, self._late(found)
        found = load_candidates(self.asked)
        for _ in range(ROUNDS):
            late = self._late(found)
            if not late or len(found.records) >= found.counts.filtered:
                break
            found = load_candidates(self.asked, limit=len(found.records) + len(late))
        return found, self._late(found)

    def _late(self, found: Candidates) -> set[int]:
        assembly = self.material.assembly
        if assembly.is_demo:
            return set()
        ids = [record.id for record in found.records]
        later = Record.objects.filter(pk__in=ids, created_at__gt=assembly.created_at)
        return set(later.values_list("pk", flat=True))

    def _query(
        self,
        given: Candidates,
        present: Candidates,
        past: list[RecordVersion],
        others: list[RecordSummary],
    ) -> Query:
        """Return the question with the ratings and texts of all candidates."""
        assert given.query is not None
        assert present.query is not None
        relevant = {record.id: present.query.relevant.get(record.id, NOT_RELEVANT) for record in others}
        relevant |= self._rate_past(past, present.query)
        relevant |= self._given_ratings(given.query, present.query)
        query = replace(given.query, relevant=relevant)
        query = replace(query, is_relevant=query.is_relevant or present.query.is_relevant)
        texts = {state.id: detail_of(state) for state in past}
        query = _with_texts(self.material, query, (*given.records, *others), self.config)
        return replace(query, details={**present.query.details, **query.details, **texts})

    def _given_ratings(self, given: Query, present: Query) -> dict[int, Relevance]:
        """Return the logged ratings, or today's if the settings change how records are rated.

        Records that have changed since keep the logged ones, scaled to today's.
        """
        if not _changes_ratings(self.material.asked.effective_config, self.config):
            return dict(given.relevant)
        both = given.relevant.keys() & present.relevant.keys() - self.changed.keys()
        then = sum(given.relevant[row].lexical for row in both)
        scale = sum(present.relevant[row].lexical for row in both) / then if then else 1.0
        return {
            row: present.relevant[row]
            if row in both
            else parts._replace(lexical=min(float(MAX_PART), parts.lexical * scale))
            for row, parts in given.relevant.items()
        }

    def _rate_past(self, past: list[RecordVersion], present: Query) -> dict[int, Relevance]:
        """Rate records that have changed since, by their current texts, including deleted ones."""
        if not past or self.question is None:
            return {}
        target = Target(SEARCHABLE, self.asked.space.id, SearchFilters())
        dead_too = replace(target, searchable=replace(SEARCHABLE, live_sql="true"))
        best = max(present.relevant, key=lambda row: present.relevant[row].lexical, default=0)
        matches: dict[int, Match] = {}
        for passage in self.question.passages:
            leads = replace(look_up(target, passage, limit=1), target=dead_too, lexical={}, cosines={})
            rated = rate(leads, [*(state.id for state in past), best])
            matches |= {row: best_match(matches.get(row, match), match) for row, match in rated.items()}
        scale = present.relevant[best].lexical / matches[best].lexical if _is_worded(matches, best) else 0.0
        parts = relevances(matches)
        relevant = {
            state.id: parts[state.id]._replace(lexical=min(float(MAX_PART), match.lexical * scale))
            for state in past
            if (match := matches.get(state.id)) is not None
        }
        dates = {state.id: state.date for state in past}
        people = {state.id: tuple(_people(state)) for state in past}
        zone = ZoneInfo(self.asked.space.time_zone)
        return add_mentions(relevant, Mentions.of(self.question.text, self.asked.as_of, zone), dates, people)


def _is_worded(matches: dict[int, Match], row: int) -> bool:
    return row in matches and matches[row].lexical > 0


def _people(state: RecordVersion) -> Iterator[str]:
    if state.type == MESSAGE:
        yield state.title
    if author := state.metadata.get("author"):
        yield str(author)


def _prepare(material: Material) -> Question:
    """Return the question, with a vector only if it had one, of the same model, at the time."""
    encoder = material.givens.encoder
    asked = prepare_passages(material.asked.request.query, material.givens.passages)
    if not encoder:
        passages = tuple(replace(passage, vector=None) for passage in asked.passages)
        return replace(asked, passages=passages, degraded=False)
    if asked.degraded:
        raise ServiceUnavailable("The question cannot be embedded now. Try again later.")
    vector = asked.passages[0].vector
    if vector is None or vector.model != encoder:
        now = vector.model if vector else "none"
        message = f"Its question was embedded by {encoder}, but the current model is {now}."
        raise NotReplayable(Reason.ENCODER_CHANGED, message)
    return asked
