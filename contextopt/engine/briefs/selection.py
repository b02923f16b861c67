"""Choose the statements of a brief: greedy coverage of the names in the findings, per token.

Statements come first, each with the sentences that it may not stand without. Terse texts without a verb
follow, and paths and identifiers that nothing mentions take the room that is left.
"""

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from contextopt.engine.briefs.predicates import content_words, tells
from contextopt.engine.briefs.bonds import opens_in_the_air
from contextopt.engine.briefs.slots import Body, Draft
from contextopt.engine.text.entities import find_entities, has_word
from contextopt.engine.text.tokens import Tokenizer

WORD_VALUE = 0.1
"""Value of a word that no statement contains yet, relative to a name."""
FIRST_VALUE = 0.5
"""Value of mentioning a finding at all."""
SLOT_VALUE = 1.5
"""Extra value of a finding's known fields, which a brief is meant to carry."""
UNCLEAR_SHARE = 0.5
"""Share of its value that a statement has if it begins with a reference to something outside of its finding."""
STATEMENT_TOKENS = 4
"""Added to the price of a statement when its value per token is compared, so that a few full ones go before
many short ones.
"""
MENTIONS = "also: "
MENTIONED_KINDS = ("address", "path", "identifier")
"""Kinds of names that mean something by themselves."""
_HEAD = -1


@dataclass(frozen=True, slots=True)
class Statement:
    """Some text of a draft (by number). `place` is that of the body; -1 is the head."""

    draft: int
    place: int
    text: str
    names: frozenset[str]
    words: frozenset[str]
    tokens: int


@dataclass(frozen=True, slots=True)
class Choice:
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
    chosen: dict[tuple[int, int], Statement] = field(default_factory=dict)
    choices: list[Choice] = field(default_factory=list)
    terse: list[Choice] = field(default_factory=list)
    order: list[Choice] = field(default_factory=list)
    mentions: list[str] = field(default_factory=list)
    statements: dict[tuple[int, int], Statement] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def prepare(self) -> None:
        """Count the statements, and collect what may be chosen."""
        for number, draft in enumerate(self.drafts):
            self.statements[number, _HEAD] = self._statement(number, _HEAD, draft.head)
            for place, body in enumerate(draft.bodies):
                self.statements[number, place] = self._statement(number, place, body.text)
        numbers = range(len(self.drafts))
        self.choices = [choice for number in numbers for choice in self._choices(number)]
        self.terse = [choice for number in numbers for choice in self._terse_choices(number)]

    def fill(self, used: int) -> bool:
        """Choose by the sum of the parts while `used` tokens leave room. Return whether anything was chosen."""
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
        """Yield the head, the fields and the statements of a draft. Terse texts go with a statement of theirs."""
        draft = self.drafts[number]
        if draft.head and draft.stands_alone:
            yield from self._choice(number, draft.head_needs)
        telling = [place for place, body in enumerate(draft.bodies) if _is_telling(body)]
        for place in telling:
            yield from self._choice(number, draft.bodies[place].needs | draft.head_needs)
        if not draft.head and not telling:
            return
        for place, body in enumerate(draft.bodies):
            if body.kind == "sentence" and place not in telling:
                anchor = max((each for each in telling if each < place), default=telling[0] if telling else place)
                needs = body.needs if draft.head else body.needs | draft.bodies[anchor].needs
                yield from self._choice(number, needs | draft.head_needs)

    def _terse_choices(self, number: int) -> Iterator[Choice]:
        """Yield the texts of a draft that makes no statement."""
        draft = self.drafts[number]
        if not draft.head and not any(map(_is_telling, draft.bodies)):
            for body in draft.bodies:
                yield from self._choice(number, body.needs)

    def _choice(self, number: int, needs: frozenset[int]) -> Iterator[Choice]:
        draft = self.drafts[number]
        if not all(draft.bodies[place].is_whole for place in needs):
            return
        is_clear = bool(draft.head) or not opens_in_the_air(draft.bodies[min(needs)].text)
        places = (_HEAD, *sorted(needs)) if draft.head else tuple(sorted(needs))
        yield Choice(number, places, self.weights[number] * (1.0 if is_clear else UNCLEAR_SHARE))

    def _statement(self, number: int, place: int, text: str) -> Statement:
        names = frozenset(entity.text for entity in find_entities(text))
        tokens = self._count(f" {text}") + 1 if text else 0
        return Statement(number, place, text, names, content_words(text), tokens)

    def _choose(self, choices: Sequence[Choice]) -> None:
        """Take choices while they fit, the highest value per token first. Values only fall, so check lazily."""
        by_draft: dict[int, list[int]] = {}
        for index, choice in enumerate(choices):
            by_draft.setdefault(choice.draft, []).append(index)
        heap = [(-self._density(choice), index) for index, choice in enumerate(choices)]
        heapq.heapify(heap)
        while heap:
            before, index = heapq.heappop(heap)
            choice = choices[index]
            density = self._density(choice)
            if density <= 0:
                continue
            if density < -before:
                heapq.heappush(heap, (-density, index))
            elif self.used + self._price(choice) <= self.budget_tokens:
                self._take(choice)
                # Sentences that go with the one taken cost less from now on.
                for other in by_draft[choice.draft]:
                    heapq.heappush(heap, (-self._density(choices[other]), other))

    def _missing(self, choice: Choice) -> list[Statement]:
        keys = ((choice.draft, place) for place in choice.places)
        return [self.statements[key] for key in keys if key not in self.chosen]

    def _price(self, choice: Choice) -> int:
        heading = self.headings[choice.draft]
        return sum(each.tokens for each in self._missing(choice)) + (
            0 if heading in self.opened else self._count(f"{heading}:\n")
        )

    def _density(self, choice: Choice) -> float:
        missing = self._missing(choice)
        if not missing:
            return 0.0
        names = frozenset[str]().union(*(each.names for each in missing))
        words = frozenset[str]().union(*(each.words for each in missing))
        gain = len(names - self.covered) + WORD_VALUE * len(words - self.said)
        if not self._is_told(choice.draft):
            gain += FIRST_VALUE + (SLOT_VALUE if self.drafts[choice.draft].head else 0.0)
        return gain * choice.value_share / (self._price(choice) + STATEMENT_TOKENS)

    def _is_told(self, number: int) -> bool:
        return any(choice.draft == number for choice in self.order)

    def _take(self, choice: Choice) -> None:
        self.used += self._price(choice)
        for statement in self._missing(choice):
            self.covered |= statement.names
            self.said |= statement.words
            self.chosen[choice.draft, statement.place] = statement
        self.opened.add(self.headings[choice.draft])
        self.order.append(choice)

    def mention(self, used: int) -> None:
        """Mention names that no statement contains, the cheapest first, names of several findings before that."""
        text = "\n".join(statement.text for statement in self.chosen.values())
        times = Counter(name for draft in self.drafts for name in draft.names_of(MENTIONED_KINDS))
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


def _is_telling(body: Body) -> bool:
    return body.kind == "field" or (body.kind == "sentence" and tells(body.text))
