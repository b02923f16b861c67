"""Choose the statements of a brief: greedy coverage of the names in the findings, per token.

Findings that fit whole go first, the shortest before the others, while each of the rest still has room for a
statement. A statement of each leading finding follows, however few names it has. Other statements come next,
each with the sentences that must be kept with it, and then terse texts without a verb. A sentence that is too
long for the room is cut at a clause. Paths and identifiers that no statement mentions fill the remaining
room.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from contextopt.engine.briefs.bonds import opens_with_reference
from contextopt.engine.briefs.slots import Draft
from contextopt.engine.briefs.statements import Wording, content_words, tells
from contextopt.engine.text.entities import Entity, find_entities, has_word
from contextopt.engine.text.sentences import clause_ends, count_stumbles, is_unfinished
from contextopt.engine.text.tokens import Tokenizer

WORD_VALUE, MAX_TIMES = 0.03, 4
"""Value of a word that is not in the brief yet, relative to a name, for each finding with the word up to a
maximum.
"""
FIRST_VALUE = 0.25
"""Value of mentioning a finding at all."""
SLOT_VALUE = 1.5
"""Extra value of a finding's known fields, which a brief is meant to carry."""
UNCLEAR_SHARE = 0.5
"""Share of its value that a statement has if it begins with a reference to something outside its finding."""
QUESTION_SHARE = 0.5
"""Share of its value that a question has in free text."""
CLARITY_POWER = 2
RESERVED_TOKENS = 40
"""Room for a statement, which is kept free for every finding while others go whole."""
STATEMENT_TOKENS = 6
"""Added to the price of a statement when its value per token is compared, so that a few full statements go
before many short ones.
"""
MENTIONS = "also: "
MENTIONED_KINDS = ("address", "path", "identifier")
"""Kinds of names that mean something by themselves."""
_HEAD = -1
_CLAUSE_MARKS = " ,;:–—-"
_FINAL = (".", "!", "?")


class Statement(NamedTuple):
    """A text of a draft, which is given by number. `place` is that of the body; -1 is the head.

    `mentionable` are the names that mean something by themselves.
    """

    draft: int
    place: int
    text: str
    tokens: int
    names: frozenset[str]
    mentionable: frozenset[str]
    words: frozenset[str]
    is_telling: bool
    stumbles: int
    is_named: bool
    """Whether there are names other than numbers."""
    is_reference: bool
    """Whether there are names other than addresses and bare numbers."""


class Choice(NamedTuple):
    """Statements of one draft that are only taken together."""

    draft: int
    places: tuple[int, ...]
    value_share: float


@dataclass(frozen=True, slots=True)
class Selection:
    """The contents of a brief: statements by draft number, in its order, and additional names."""

    statements: dict[int, tuple[Statement, ...]]
    mentions: tuple[str, ...]


@dataclass
class Selector:
    """The state of one selection. `weights` and `headings` belong to the drafts' categories."""

    drafts: Sequence[Draft]
    weights: Sequence[float]
    headings: Sequence[str]
    budget_tokens: int
    tokenizer: Tokenizer
    used: int = 0
    covered: set[str] = field(default_factory=set)
    said: set[str] = field(default_factory=set)
    opened: set[str] = field(default_factory=set)
    told: set[int] = field(default_factory=set)
    chosen: dict[tuple[int, int], Statement] = field(default_factory=dict)
    choices: list[Choice] = field(default_factory=list)
    terse: list[Choice] = field(default_factory=list)
    offers: dict[int, list[Choice]] = field(default_factory=dict)
    """All choices by draft: if there is room, something of each of these drafts is taken."""
    order: list[Choice] = field(default_factory=list)
    mentions: list[str] = field(default_factory=list)
    statements: dict[tuple[int, int], Statement] = field(default_factory=dict)
    word_values: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def prepare(self) -> None:
        """Count the statements, and collect what may be chosen."""
        for number, draft in enumerate(self.drafts):
            if draft.head:
                self.statements[number, _HEAD] = self._statement(number, _HEAD, draft.head)
            for place, body in enumerate(draft.bodies):
                self.statements[number, place] = self._statement(number, place, body.text)
        findings = {
            (statement.draft, word) for statement in self.statements.values() for word in statement.words
        }
        times = Counter(word for _, word in findings)
        self.word_values = {word: WORD_VALUE * min(count, MAX_TIMES) for word, count in times.items()}
        numbers = range(len(self.drafts))
        self.choices = [choice for number in numbers for choice in self._choices(number)]
        self.terse = [choice for number in numbers for choice in self._terse_choices(number)]
        for choice in (*self.choices, *self.terse):
            self.offers.setdefault(choice.draft, []).append(choice)

    def worth(self, draft: int) -> float:
        """Return the value per token of the draft's best choice, whether or not it fits."""
        offers = [(choice, self._missing(choice)) for choice in self.offers.get(draft, ())]
        return max(
            (self._value(each, missing, self._price(each, missing)) for each, missing in offers), default=0
        )

    def take_whole(self) -> None:
        """Take the findings that fit with everything they say, and leave the others room for a statement."""
        wholes = [Choice(number, self._places(number), 1.0) for number in range(len(self.drafts))]
        prices = {each.draft: self._price(each, self._missing(each)) for each in wholes if each.places}
        reserved = sum(min(RESERVED_TOKENS, price) for price in prices.values())
        for whole in sorted((each for each in wholes if each.places), key=lambda each: prices[each.draft]):
            reserved -= min(RESERVED_TOKENS, prices[whole.draft])
            # An earlier finding may have the same heading.
            if self.used + self._price(whole, self._missing(whole)) + reserved > self.budget_tokens:
                break
            self._take(whole)

    def _places(self, number: int) -> tuple[int, ...]:
        draft = self.drafts[number]
        return (*([_HEAD] * bool(draft.head)), *range(len(draft.bodies)))

    def cut_long(self, used: int) -> bool:
        """Take the first clauses of findings that are too long for the room; return whether there are any.

        A cut never removes what limits or takes back the rest.
        """
        self.used = used
        before = len(self.order)
        for number in range(len(self.drafts)):
            if number in self.told:
                continue
            for place in range(len(self.drafts[number].bodies)):
                if (cut := self._cut(number, place)) is not None:
                    self.statements[number, place] = self._statement(number, place, cut)
                    head = (_HEAD,) if self.drafts[number].head else ()
                    self._take(Choice(number, (*head, place), 1.0))
                    break
        return len(self.order) > before

    def _cut(self, number: int, place: int) -> str | None:
        """Return the first clauses of a long sentence that stands for itself, or None if it cannot be cut."""
        draft = self.drafts[number]
        body = draft.bodies[place]
        others = [other for other in draft.bodies if other is not body]
        is_bound = body.is_whole and any(place in other.needs for other in others)
        is_short = self.statements[number, place].tokens < RESERVED_TOKENS
        if draft.head_needs or is_bound or is_short or body.needs != {place}:
            return None
        # A sentence that was read in pieces may go on in any other body.
        rest = "" if body.is_whole else " ".join(other.text for other in others)
        head = (_HEAD,) if draft.head else ()
        taken = Choice(number, head, 1.0)
        room = self.budget_tokens - self.used - self._price(taken, self._missing(taken))
        return self._clauses(body.text, rest, room)

    def _clauses(self, text: str, rest: str, room: int) -> str | None:
        """Return the longest beginning that ends at a clause, fits, and loses nothing that qualifies it."""
        for end in reversed(clause_ends(text)):
            if Wording(f"{text[end:]} {rest}").qualifies:
                return None
            beginning = text[:end].rstrip(_CLAUSE_MARKS)
            cut = f"{beginning} …"
            if self._count(f" {cut}") + 1 <= room and tells(beginning, list(find_entities(beginning))):
                return cut
        return None

    def lead(self, drafts: Iterable[int]) -> None:
        """Take the best choice of each of the drafts, in their order, while there is room."""
        for number in drafts:
            best = max(self.offers.get(number, ()), key=self._density, default=None)
            if best and self._density(best) > 0:
                self._take(best)

    def fill(self, used: int) -> bool:
        """Choose while `used` tokens leave room. Return whether anything was chosen."""
        before = len(self.order)
        self.used = used
        self._choose(self.choices)
        self._choose(self.terse)
        return len(self.order) > before

    def selection(self) -> Selection:
        statements: dict[int, tuple[Statement, ...]] = {}
        for key in sorted(self.chosen):
            statements[key[0]] = (*statements.get(key[0], ()), self.chosen[key])
        return Selection(statements, tuple(self.mentions))

    def shrink(self) -> None:
        """Remove the last choice: a name, or else statements that were taken together."""
        if self.mentions:
            self.mentions.pop()
            return
        self.order.pop()
        kept = {(choice.draft, place) for choice in self.order for place in choice.places}
        self.chosen = {key: each for key, each in self.chosen.items() if key in kept}

    def _choices(self, number: int) -> Iterator[Choice]:
        """Yield the head, the fields and the statements of a draft. References go with a statement."""
        draft = self.drafts[number]
        if draft.head and draft.stands_alone:
            yield from self._choice(number, draft.head_needs)
        telling = self._telling(number)
        for place in telling:
            yield from self._choice(number, draft.bodies[place].needs | draft.head_needs)
        if not draft.head and not telling:
            return
        for place, body in enumerate(draft.bodies):
            if place not in telling and self._is_reference(number, place):
                anchor = max(
                    (each for each in telling if each < place), default=telling[0] if telling else place
                )
                needs = body.needs if draft.head else body.needs | draft.bodies[anchor].needs
                yield from self._choice(number, needs | draft.head_needs)

    def _telling(self, number: int) -> list[int]:
        return [
            place
            for place, body in enumerate(self.drafts[number].bodies)
            if body.kind == "field" or (body.kind == "sentence" and self.statements[number, place].is_telling)
        ]

    def _is_reference(self, number: int, place: int) -> bool:
        """Return whether a text without a statement adds names to one."""
        body = self.drafts[number].bodies[place]
        return (
            body.kind == "sentence"
            and not is_unfinished(body.text)
            and self.statements[number, place].is_reference
        )

    def _terse_choices(self, number: int) -> Iterator[Choice]:
        """Yield the texts of a draft that makes no statement.

        A bare text is only used if the draft has a head, such as an open decision.
        """
        draft = self.drafts[number]
        if (draft.head and draft.stands_alone) or self._telling(number):
            return
        for place, body in enumerate(draft.bodies):
            statement = self.statements[number, place]
            is_bare = not statement.is_named and (body.text.endswith(_FINAL) or not statement.words)
            if (draft.head or not is_bare) and not is_unfinished(body.text):
                yield from self._choice(number, body.needs | draft.head_needs)

    def _choice(self, number: int, needs: frozenset[int]) -> Iterator[Choice]:
        draft = self.drafts[number]
        if not all(draft.bodies[place].is_whole for place in needs):
            return
        places = sorted(needs)
        if draft.head:
            yield Choice(number, (_HEAD, *places), self.weights[number])
        else:
            share = self._clarity([self.statements[number, place] for place in places])
            yield Choice(number, tuple(places), share * self.weights[number])

    def _clarity(self, statements: Sequence[Statement]) -> float:
        """Return the share of its value that free text keeps, by how well it reads on its own."""
        first, last = statements[0].text, statements[-1].text
        stumbles = sum(statement.stumbles for statement in statements)
        words = sum(len(statement.text.split()) for statement in statements)
        share = max(0.0, 1.0 - 2 * stumbles / max(1, words)) ** CLARITY_POWER
        if opens_with_reference(first) or (first[0].islower() and first.endswith(_FINAL)):
            is_named = any(statement.is_named for statement in statements)
            share *= UNCLEAR_SHARE if is_named else UNCLEAR_SHARE**2
        return share * QUESTION_SHARE if last.endswith("?") else share

    def _statement(self, number: int, place: int, text: str) -> Statement:
        entities = list(find_entities(text))
        return Statement(
            draft=number,
            place=place,
            text=text,
            tokens=self._count(f" {text}") + 1,
            names=frozenset(entity.text for entity in entities),
            mentionable=frozenset(entity.text for entity in entities if entity.kind in MENTIONED_KINDS),
            words=content_words(text),
            is_telling=tells(text, entities),
            stumbles=count_stumbles(text),
            is_named=any(entity.kind != "number" for entity in entities),
            is_reference=any(map(_is_reference, entities)),
        )

    def _choose(self, choices: Sequence[Choice]) -> None:
        """Take what fits, the highest value per token first. Values only fall, so check lazily."""
        by_draft: dict[int, list[int]] = {}
        for index, choice in enumerate(choices):
            by_draft.setdefault(choice.draft, []).append(index)
        heap: list[tuple[float, int]] = []
        self._push(heap, choices, range(len(choices)))
        while heap:
            before, index = heapq.heappop(heap)
            density = self._density(choices[index])
            if density <= 0:
                continue
            if density < -before:
                heapq.heappush(heap, (-density, index))
            else:
                self._take(choices[index])
                # Sentences that go with the one taken cost less from now on.
                self._push(heap, choices, by_draft[choices[index].draft])

    def _push(self, heap: list[tuple[float, int]], choices: Sequence[Choice], indexes: Iterable[int]) -> None:
        for index in indexes:
            if (density := self._density(choices[index])) > 0:
                heapq.heappush(heap, (-density, index))

    def _missing(self, choice: Choice) -> list[Statement]:
        keys = [(choice.draft, place) for place in choice.places]
        return [self.statements[key] for key in keys if key not in self.chosen]

    def _price(self, choice: Choice, missing: Sequence[Statement]) -> int:
        heading = self.headings[choice.draft]
        price = 0 if heading in self.opened else self._count(f"{heading}:\n")
        for statement in missing:
            price += statement.tokens
        return price

    def _density(self, choice: Choice) -> float:
        """Return the value per token, or 0 if the choice is already said or does not fit."""
        missing = self._missing(choice)
        price = self._price(choice, missing)
        return self._value(choice, missing, price) if self.used + price <= self.budget_tokens else 0.0

    def _value(self, choice: Choice, missing: Sequence[Statement], price: int) -> float:
        if not missing:
            return 0.0
        names, words = missing[0].names, missing[0].words
        for statement in missing[1:]:
            names, words = names | statement.names, words | statement.words
        gain = len(names - self.covered) + sum([self.word_values[word] for word in words - self.said])
        if not gain:
            return 0.0
        if choice.draft not in self.told:
            gain += FIRST_VALUE + (SLOT_VALUE if self.drafts[choice.draft].head else 0.0)
        return gain * choice.value_share / (price + STATEMENT_TOKENS)

    def _take(self, choice: Choice) -> None:
        missing = self._missing(choice)
        self.used += self._price(choice, missing)
        for statement in missing:
            self.covered |= statement.names
            self.said |= statement.words
            self.chosen[choice.draft, statement.place] = statement
        self.opened.add(self.headings[choice.draft])
        self.told.add(choice.draft)
        self.order.append(choice)

    def mention(self, used: int) -> None:
        """Mention names that no statement contains, the cheapest and those of several findings first."""
        text = "\n".join(statement.text for statement in self.chosen.values())
        findings = {(each.draft, name) for each in self.statements.values() for name in each.mentionable}
        times = Counter(name for _, name in findings)
        prices = {name: self._count(f" {name}") for name in times if not has_word(name, text)}
        left = self.budget_tokens - used - self._count(f"\n{MENTIONS}")
        for name in sorted(prices, key=lambda name: (prices[name] / (1 + 0.1 * (times[name] - 1)), name)):
            if prices[name] <= left:
                left -= prices[name]
                self.mentions.append(name)

    def _count(self, text: str) -> int:
        count = self.counts.get(text)
        if count is None:
            count = self.counts[text] = self.tokenizer.count(text)
        return count


def _is_reference(entity: Entity) -> bool:
    return entity.kind not in ("address", "number") or entity.text.startswith("#")
