"""Choose the statements and names of a brief: greedy coverage of the names in the findings, per token.

Statements come first, up to a share of the budget. Names that they leave uncovered follow as plain mentions,
the cheapest first. Any room left goes to statements again.
"""

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from contextopt.engine.briefs.slots import Draft
from contextopt.engine.text.entities import find_entities, has_word, words_of
from contextopt.engine.text.sentences import Sentence
from contextopt.engine.text.tokens import Tokenizer

TEXT_SHARE, SLOT_SHARE = 0.4, 0.85
"""Share of the budget for statements before names, for free-text findings and for slots. Free text names far
more than a brief can repeat; slots hold the essentials.
"""
WORD_VALUE = 0.1
"""Value of a word that no statement contains yet, relative to a name."""
FIRST_VALUE = 0.5
"""Value of mentioning a finding at all."""
SLOT_VALUE = 1.5
"""Extra value of a finding's known fields, which a brief is meant to carry."""
MENTIONS = "also: "
MAX_SHORTENINGS = 5
"""Maximum shortened forms tried for one sentence."""
MAX_STATEMENT_CHARS = 1_000
_HEAD = -1


@dataclass(frozen=True, slots=True)
class Statement:
    """A possible statement from a draft (by number). `place` is the sentence's; -1 is the head only."""

    draft: int
    place: int
    text: str
    names: frozenset[str]
    words: frozenset[str]
    tokens: int
    weight: float


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
    mentions: list[str] = field(default_factory=list)
    heads: list[Statement] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def run(self) -> None:
        """Choose by the sum of the parts. The rendered text may still need `shrink`."""
        self.heads = [self._statement(number, _HEAD, draft.head) for number, draft in enumerate(self.drafts)]
        statements = list(self._statements())
        self._choose(statements, int(self.budget_tokens * self._statement_share()))
        self._mention()
        self._choose(statements, self.budget_tokens)
        self._lengthen()
        # Names that a statement has covered since need no mention. This frees room for others.
        self._mention()

    def _statement_share(self) -> float:
        filled = sum(bool(draft.head) for draft in self.drafts) / max(1, len(self.drafts))
        return TEXT_SHARE + (SLOT_SHARE - TEXT_SHARE) * filled

    def selection(self) -> Selection:
        statements: dict[int, tuple[Statement, ...]] = {}
        for key in sorted(self.chosen):
            statements[key[0]] = (*statements.get(key[0], ()), self.chosen[key])
        return Selection(statements, tuple(self.mentions))

    def shrink(self) -> None:
        """Remove the last choice: a name, or else a statement."""
        if self.mentions:
            self.mentions.pop()
        else:
            self.chosen.popitem()

    def _statements(self) -> Iterator[Statement]:
        for number, draft in enumerate(self.drafts):
            if draft.head and draft.stands_alone:
                yield self.heads[number]
            is_terse = not any(each.is_field or each.sentence.is_telling for each in draft.bodies)
            for place, body in enumerate(draft.bodies):
                if body.is_field or (is_terse and body.sentence.has_words):
                    yield self._statement(number, place, body.sentence.text)
                elif body.sentence.is_telling:
                    for text, names in _shortenings(body.sentence):
                        yield self._statement(number, place, text, names)

    def _statement(
        self, number: int, place: int, text: str, names: frozenset[str] | None = None
    ) -> Statement:
        if names is None:
            names = frozenset(entity.text for entity in find_entities(text))
        tokens = self._count(f" {text}") + 1 if text else 0
        words = frozenset(words_of(text))
        return Statement(number, place, text, names, words, tokens, self.weights[number])

    def _choose(self, statements: Sequence[Statement], limit: int) -> None:
        """Take statements while they fit, the highest value per token first. Values only fall, so check
        lazily.
        """
        by_draft: dict[int, list[int]] = {}
        for index, statement in enumerate(statements):
            by_draft.setdefault(statement.draft, []).append(index)
        heap = [(-self._density(statement), index) for index, statement in enumerate(statements)]
        heapq.heapify(heap)
        while heap:
            before, index = heapq.heappop(heap)
            statement = statements[index]
            if self._is_said(statement):
                continue
            density = self._density(statement)
            if density <= 0:
                continue
            if density < -before:
                heapq.heappush(heap, (-density, index))
            elif self.used + self._price(statement) <= limit:
                is_first = statement.draft not in self.told
                self._take(statement)
                # Once its head is included, more of the same finding costs less.
                for other in (
                    by_draft[statement.draft] if is_first and self.heads[statement.draft].text else ()
                ):
                    heapq.heappush(heap, (-self._density(statements[other]), other))

    def _is_said(self, statement: Statement) -> bool:
        return (statement.draft, statement.place) in self.chosen or (
            statement.place == _HEAD and statement.draft in self.told
        )

    def _price(self, statement: Statement) -> int:
        price = statement.tokens
        if statement.draft not in self.told:
            price += self.heads[statement.draft].tokens if statement.place != _HEAD else 0
            heading = self.headings[statement.draft]
            price += 0 if heading in self.opened else self._count(f"{heading}:\n")
        return price

    def _density(self, statement: Statement) -> float:
        names, words = statement.names, statement.words
        first = 0.0
        if statement.draft not in self.told:
            head = self.heads[statement.draft]
            names, words = names | head.names, words | head.words
            first = FIRST_VALUE + (SLOT_VALUE if head.text else 0.0)
        gain = len(names - self.covered) + WORD_VALUE * len(words - self.said) + first
        return gain * statement.weight / max(1, self._price(statement))

    def _take(self, statement: Statement) -> None:
        self.used += self._price(statement)
        head = self.heads[statement.draft]
        self.covered |= statement.names | head.names
        self.said |= statement.words | head.words
        self.told.add(statement.draft)
        self.opened.add(self.headings[statement.draft])
        self.chosen[statement.draft, statement.place] = statement

    def _mention(self) -> None:
        """Mention names that no statement covers yet, the cheapest first, names of several findings before
        that.
        """
        self.used -= self._mentions_price()
        text = "\n".join(statement.text for statement in (*self.heads_said(), *self.chosen.values()))
        times = Counter(name for draft in self.drafts for name in draft.names)
        prices = {name: self._count(f" {name}") for name in times if not has_word(name, text)}
        left = self.budget_tokens - self.used - self._count(MENTIONS)
        self.mentions = []
        for name in sorted(prices, key=lambda name: (prices[name] / (1 + 0.1 * (times[name] - 1)), name)):
            if prices[name] <= left:
                left -= prices[name]
                self.mentions.append(name)
        self.covered.update(self.mentions)
        self.used += self._mentions_price()

    def _count(self, text: str) -> int:
        count = self.counts.get(text)
        if count is None:
            count = self.counts[text] = self.tokenizer.count(text)
        return count

    def _lengthen(self) -> None:
        """Replace shortened sentences by full ones while there is room."""
        for key, statement in sorted(self.chosen.items()):
            number, place = key
            if place == _HEAD:
                continue
            whole = self._statement(number, place, self.drafts[number].bodies[place].sentence.text)
            if len(whole.text) > MAX_STATEMENT_CHARS or whole.tokens == statement.tokens:
                continue
            if self.used + whole.tokens - statement.tokens <= self.budget_tokens:
                self.used += whole.tokens - statement.tokens
                self.chosen[key] = whole

    def _mentions_price(self) -> int:
        if not self.mentions:
            return 0
        return self._count(MENTIONS) + sum(self._count(f" {name}") for name in self.mentions)

    def heads_said(self) -> Iterator[Statement]:
        return (self.heads[number] for number in sorted(self.told))


def _shortenings(sentence: Sentence) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield shortened forms of a sentence: the shortest of its spans for each set of names."""
    spans = [span for span in sentence.spans() if span[1] - span[0] <= MAX_STATEMENT_CHARS]
    seen: set[frozenset[str]] = set()
    for start, end in sorted(spans, key=lambda span: (span[1] - span[0], span)):
        names = frozenset(entity.text for entity in sentence.within(start, end))
        is_telling = names or not sentence.entities
        if is_telling and names not in seen and sentence.says_something(start, end):
            seen.add(names)
            yield sentence.text[start:end], names
            if len(seen) == MAX_SHORTENINGS:
                return
