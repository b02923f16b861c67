"""Find what a question is about: its days, person, names and subject, and its part of a conversation."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from statistics import fmean
from typing import NamedTuple

import numpy as np

from contextopt.engine.ranking import MAX_PART, NOT_RELEVANT, Floats, Relevance
from contextopt.engine.text.dates import CALENDAR_WORDS, DateSpan, named_spans
from contextopt.engine.text.entities import find_entities
from contextopt.engine.values import DateRange

FADING_DAYS = 10
LONGEST_SPAN = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class Mentions:
    """The days that a question names, in a time zone."""

    question: str
    spans: tuple[DateSpan, ...]
    zone: tzinfo

    @classmethod
    def of(cls, question: str, now: datetime, zone: tzinfo) -> "Mentions":
        return cls(question, named_spans(question, now.astimezone(zone).date()), zone)

    def range(self) -> DateRange | None:
        """Return the range from the first named day to the last one that counts.

        Return None if no day is named, or if the range is too long to tell records apart.
        """
        firsts = [span.first for span in self.spans if span.first is not None]
        if not self.spans or len(firsts) < len(self.spans):
            return None
        first, last = min(firsts), max(span.last for span in self.spans)
        if last - first > LONGEST_SPAN:
            return None
        days = min(timedelta(days=FADING_DAYS), date.max - last)
        return DateRange(self._moment(first, time.min), self._moment(last + days, time.max))

    def _moment(self, day: date, clock: time) -> datetime:
        try:
            return datetime.combine(day, clock, self.zone).astimezone(UTC)
        except OverflowError:
            return datetime.combine(day, clock, UTC)

    def date_part(self, moment: datetime) -> float:
        """Return 10 inside a named span, a tenth less for each day after it, and 0 before it."""
        if not self.spans:
            return 0.0
        day = moment.astimezone(self.zone).date()
        late = [days for span in self.spans if (days := span.days_after(day)) is not None]
        return MAX_PART * max(0, FADING_DAYS - min(late)) / FADING_DAYS if late else 0.0


def named_person(question: str, names: Iterable[str]) -> str | None:
    """Return the only name that the question contains as whole words; None if there are none or several.

    A name inside a longer one that the question also contains does not count.
    """
    text = question.casefold()
    known = {name for name in map(_folded, names) if name and name in text}
    found = {name for name in known if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)}
    longest = [name for name in found if not any(name != other and name in other for other in found)]
    return longest[0] if len(longest) == 1 else None


def _folded(name: str) -> str:
    return " ".join(name.casefold().split())


def add_mentions(
    relevant: Mapping[int, Relevance],
    mentions: Mentions,
    dates: Mapping[int, datetime],
    people: Mapping[int, tuple[str, ...]],
) -> dict[int, Relevance]:
    """Return the relevances with the parts `date` and `who`.

    `dates` and `people` are those of the candidates by id. A record may have several people.
    """
    person = named_person(mentions.question, {name for names in people.values() for name in names})
    by_person = {record_id for record_id, names in people.items() if person and person in map(_folded, names)}
    added = dict(relevant)
    for record_id, moment in dates.items():
        day, who = mentions.date_part(moment), float(MAX_PART) if record_id in by_person else 0.0
        if day or who:
            added[record_id] = added.get(record_id, NOT_RELEVANT)._replace(date=day, who=who)
    return added


_FRAMING = re.compile(
    r"""
      (?:(?:can|could|would|will)\ you\ )?(?:please\ )?
      (?:(?:list|give\ me|tell\ me|show\ me|remind\ me\ of|walk\ me\ through)\ )?
      (?:the\ order\ in\ which|in\ order\ how|in\ (?:what|which)\ order\ did)\ (?:I|we)\ (?:first\ )?
      (?:br(?:ought|ing)\ up|mention(?:ed)?|discuss(?:ed)?|raised?|talk(?:ed)?\ about)\b
      (?:\ (?:the\ )?(?:different|various)\ (?:\w+\ )?
         (?:aspects|concepts|ideas|parts|sides|topics|ways)\b(?:\ (?:about|of|related\ to)\b)?)?
    | ,?\ (?:across|during|in|over|throughout)\ (?:all\ (?:of\ )?)?our\ (?:chat|conversation|discussion)s?\b
      (?:,?\ in\ order\b)?
    | (?<=[.?!])\s*(?:please\ )?(?:list|mention|name)\ only\b[^.?!]*[.?!]?\s*$
    | (?:(?:kan|kunne|vil)\ du\ )?
      (?:(?:liste?(?:\ opp)?|gi\ meg|fortell(?:e)?\ meg|vise?\ meg|minne?\ meg\ på)\ )?
      (?:rekkefølgen|i\ hvilken\ rekkefølge)\ (?:som\ )?(?:jeg|vi)
      \ (?:diskuterte|nevnte|snakket\ om|tok\ opp)\b
      (?:\ (?:de\ )?(?:forskjellige|ulike)\ (?:\w+\ )?
         (?:deler|emner|sider|temaer)\b(?:\ (?:av|i|innen|om|ved)\b)?)?
    | ,?\ (?:gjennom|i(?:\ løpet\ av)?|under)\ (?:alle\ )?(?:diskusjonen|samtalen)e?\ våre?\b
      (?:,?\ i\ rekkefølge\b)?
    | (?<=[.?!])\s*(?:list\ opp|nevn)\ (?:bare|kun)\b[^.?!]*[.?!]?\s*$
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Questions about the order of a conversation, references to it, and the wanted form of the answer."""
_ABOUT_TALK = re.compile(
    r"""(?<!\w)(?:
      summari[sz]e[sd]?|sum\ up|put\ forward|presentations?|present(?:ed|ing)|conversations?|conclusions?
    | opinions?|views?|attitudes?|thoughts?|thought|think(?:s|ing)?|sa(?:id|ys?|ying)|decisions?|meetings?
    | (?:dis)?agree(?:d|s|ing)?|discuss(?:e[sd]|ing|ions?)?|debat(?:e[sd]?|ing)|conclud(?:e[sd]?|ing)
    | describ(?:e[sd]?|ing)|propos(?:e[sd]?|ing)|reflect(?:ed|ing)?\ on|team|group(?:\ mates?)?
    | (?:talk|mention|explain|recommend|suggest|assess|question)(?:s|ed|ing)?|learn(?:s|ed|t)?
    | oppsummer(?:e|er|t|te|ing|ingen)?|sammendrag(?:et)?|presentasjon(?:en|er|ene)?|samtale[nr]?
    | konklusjon(?:en|er|ene)?|diskusjon(?:en|er|ene)?|diskuter(?:e|er|te|t)?|snakk(?:e|er|et)?
    | mening(?:en|er|ene)?|synes|syntes|mener|mente|tenker|tenkte|sa|sier|sagt|nevn(?:er|te|t)
    | forklar(?:er|te|t)|foreslår|foreslo|foreslått|anbefal(?:er|te|t)|møte[tr]?|møtene|teamet|grupp(?:a|en)
    )(?!\w)""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words about the conversation itself, English and Norwegian."""
_CONTENT = re.compile(
    r"\b(?!(?:what|when|where|which|whom|whose|does|were|have|with|that|they|their|this|about|from"
    r"|hvem|hvor|hvilke[nt]?|disse|dette|deres|over|under)\b)\w{4}",
    re.IGNORECASE,
)
"""The first letters of a word that can be the subject of a question."""


def without_framing(question: str) -> str:
    """Return the question without phrases like "the order in which I brought up" and "in our conversations".

    No record resembles such a phrase, so even the right ones would seem to be about something else.
    """
    subject, found = _FRAMING.subn(" ", question)
    return _unless_empty(subject, question) if found else question


def subject_of(question: str) -> str:
    """Return the question without words about the conversation itself, such as "summarize the discussion".

    Such words rarely occur in the discussion, so they would find other records. If nothing is left to look
    for, return the whole question.
    """
    return _unless_empty(_ABOUT_TALK.sub(" ", question), question)


def _unless_empty(subject: str, question: str) -> str:
    subject = " ".join(subject.split())
    return subject if _CONTENT.search(subject) else question


def without_names(question: str, names: Iterable[str]) -> str:
    """Return the question without the names and their possessive endings."""
    for name in sorted(names, key=len, reverse=True):
        question = re.sub(rf"(?<!\w){re.escape(name)}(?:['’]s)?(?!\w)", "", question, flags=re.IGNORECASE)
    return question


_NAME_PART = re.compile(r"[^\W_]{3,}")
_POSSESSIVE = re.compile(r"['’]s?(?!\w)")
_GERMAN = re.compile(
    r"""\b(?:
      auf|bei|das|dem|eine[mnrs]?|für|gibt|haben|hatten?|ich|im|ist|nach|nicht|sich|sind|über|und|unsere?[mnrs]?
    | wann|warum|welche[mnrs]?|wer|werden|wie|wieso|wir|wo|wurden?|zum|zur
    )\b""",
    re.VERBOSE,
)
"""Words that mark German, which capitalises every noun. English and Norwegian do not have them."""


class Name(NamedTuple):
    """A name in a question as written, and its words of at least three characters in lower case."""

    text: str
    words: tuple[str, ...]


def names_in(question: str) -> tuple[Name, ...]:
    """Return the names in a question.

    Names are identifiers, and words with a capital that do not begin a sentence. In German, and in questions
    with capitals nearly throughout, a capital says nothing: there, only identifiers count, in the latter only
    those with a digit or an underscore. Days, months and mere numbers are no names.
    """
    _, *further = question.split() or [""]
    is_loud = 3 * sum(word[:1].isupper() for word in further) > 2 * len(further)
    is_plain = not is_loud and not _GERMAN.search(question)
    names = []
    for entity in find_entities(question):
        is_code = "_" in entity.text or any(map(str.isdigit, entity.text))
        if is_plain if entity.kind == "name" else entity.kind == "identifier" and (is_code or not is_loud):
            parts = _NAME_PART.findall(_POSSESSIVE.sub("", entity.text).lower())
            words = [part for part in parts if not part.isdigit() and part not in CALENDAR_WORDS]
            names.append(Name(entity.text, tuple(words)))
    return tuple(name for name in names if name.words)


SPELLED_FROM, SPELLED_TO = 5, 12
"""Only words of so many letters are looked for in other spellings: most shorter ones are one edit away from
some other word, and longer ones have too many spellings.
"""
_LETTERS = "abcdefghijklmnopqrstuvwxyzæøå"


def spellings(word: str) -> Iterator[str]:
    """Yield what the word could be if one letter is wrong, missing or too many, or two are swapped."""
    if not SPELLED_FROM <= len(word) <= SPELLED_TO:
        return
    for at in range(len(word) + 1):
        before, after = word[:at], word[at:]
        yield from (before + letter + after for letter in _LETTERS)
        if after:
            yield before + after[1:]
            yield from (before + letter + after[1:] for letter in _LETTERS)
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]


MATCHES_MAX = 120
"""Only this many of the best matches count, each by how much it exceeds the next best one after them."""
BREAK = timedelta(hours=1)
"""A longer pause begins a new episode."""
SHORT_EPISODE, LONG_EPISODE = 60, 120
"""In records: an episode of the first length does not count, one of the second counts fully."""
TOPIC_RECORDS, TOPIC_TOKENS = 24, 600
"""A match counts for the records around it by a normal distribution. Its deviation is this many records, or
as many as have this many tokens if those are fewer.
"""


class Place(NamedTuple):
    """Where a record is: its thread, its position there, its date, and the tokens of its notes."""

    thread: str
    position: int
    date: datetime
    tokens: int


@dataclass(frozen=True, slots=True)
class _Episode:
    """The matches of an episode: their positions and their relevance."""

    thread: str
    first: datetime
    last: datetime
    positions: Floats
    matches: Floats
    deviation: float

    @classmethod
    def of(cls, members: Sequence[tuple[Place, float]]) -> "_Episode":
        places = [place for place, _ in members]
        dates = [place.date for place in places]
        tokens = max(1.0, fmean(place.tokens for place in places))
        return cls(
            places[0].thread,
            min(dates),
            max(dates),
            np.array([place.position for place in places], float),
            np.array([match for _, match in members]),
            min(TOPIC_RECORDS, TOPIC_TOKENS / tokens),
        )

    @property
    def weight(self) -> float:
        length = float(self.positions[-1] - self.positions[0])
        return min(1.0, max(0.0, (length - SHORT_EPISODE) / (LONG_EPISODE - SHORT_EPISODE)))

    def holds(self, place: Place) -> bool:
        return place.thread == self.thread and self.first - BREAK <= place.date <= self.last + BREAK

    def density(self, positions: Floats) -> Floats:
        """Return how dense the matches are at these positions."""
        apart = (positions[:, None] - self.positions[None, :]) / self.deviation
        return np.exp(-0.5 * apart**2) @ self.matches


class Topics:
    """The long episodes with matches for a question."""

    def __init__(self, own: Mapping[int, float], places: Mapping[int, Place]) -> None:
        """Find the episodes. `own` is each match's own relevance; matches without a place are ignored."""
        ranked = sorted(own.items(), key=lambda match: (-match[1], match[0]))
        least = ranked[min(MATCHES_MAX, len(ranked) - 1)][1] if ranked else 0.0
        members = [(places[row], value - least) for row, value in ranked if value > least and row in places]
        self._episodes = _long_episodes(members)
        densest = [float(each.density(each.positions).max()) for each in self._episodes]
        self._most = max(densest, default=0.0)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._episodes)

    def parts(self, places: Mapping[int, Place]) -> dict[int, float]:
        """Return the part of the records in the episodes, 0 to 10, highest where matches are densest."""
        found: dict[int, float] = {}
        for episode in self._episodes:
            held = [row for row, place in places.items() if episode.holds(place)]
            density = episode.density(np.array([places[row].position for row in held], float))
            shares = np.minimum(1.0, density / self._most)
            found |= zip(held, (MAX_PART * episode.weight * shares).tolist(), strict=True)
        return found

    def add(self, relevant: Mapping[int, Relevance], places: Mapping[int, Place]) -> dict[int, Relevance]:
        """Return the relevances with the `topic` part of the records in the episodes."""
        added = dict(relevant)
        for row, part in self.parts(places).items():
            added[row] = added.get(row, NOT_RELEVANT)._replace(topic=part)
        return added


def _long_episodes(members: Iterable[tuple[Place, float]]) -> list[_Episode]:
    """Split each thread's matches at breaks."""
    episodes: list[list[tuple[Place, float]]] = []
    for place, value in sorted(members, key=lambda member: member[0][:3]):
        before = episodes[-1][-1][0] if episodes else None
        if before and before.thread == place.thread and abs(place.date - before.date) <= BREAK:
            episodes[-1].append((place, value))
        else:
            episodes.append([(place, value)])
    long = [each for each in episodes if each[-1][0].position - each[0][0].position > SHORT_EPISODE]
    return [_Episode.of(each) for each in long]
