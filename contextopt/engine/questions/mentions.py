"""Find the days and the person that a question names.

Records from these days get the whole `date` part of the score. Records from the ten days after them get less
with each day, since people talk about a day afterwards. Records by the person get the whole `who` part.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from contextopt.engine.prompts.relevance import NOT_RELEVANT, Relevance
from contextopt.engine.prompts.scoring import MAX_PART
from contextopt.engine.prompts.values import DateRange
from contextopt.engine.text.dates import named_spans
from contextopt.engine.text.datespans import DateSpan

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
