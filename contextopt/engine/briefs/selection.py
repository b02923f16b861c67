"""Which statements and names enter a brief: coverage of what the findings name, per token, greedily.

Statements come first, up to a share of the budget; the names that they leave uncovered fill the rest, the
cheapest first, as plain mentions; room that is left then goes to statements again.
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
"""Of the budget, for statements before names: where findings are free text, and where they fill slots. Text
names far more than can be said again in full; slots hold what matters."""
WORD_VALUE = 0.1
"""What a word is worth that no statement has said yet; a name is worth 1."""
FIRST_VALUE = 0.5
"""What it is worth to say anything of a finding at all."""
SLOT_VALUE = 1.5
"""What the known fields of a finding are worth besides: they are what a brief is for."""
MENTIONS = "also: "
MAX_SHORTENINGS = 5
"""Of one sentence that are looked at."""
MAX_STATEMENT_CHARS = 1_000
_HEAD = -1


@dataclass(frozen=True, slots=True)
class Statement:
    """Something to say of a draft, by its number. `place` is that of the sentence; -1 is the head alone."""

    draft: int
    place: int
    text: str
    names: frozenset[str]
    words: frozenset[str]
    tokens: int
    weight: float


@dataclass(frozen=True, slots=True)
class Selection:
    """What a brief says: statements by the number of their draft, in its order, and names besides."""

    statements: dict[int, tuple[Statement, ...]]
    mentions: tuple[str, ...]


@dataclass
class Selector:
    """The state of one selection. `weights` and `headings` are those of the drafts' categories."""

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
        """Choose by the sum of the parts; what is rendered may need `shrink`."""
        self.heads = [self._statement(number, _HEAD, draft.head) for number, draft in enumerate(self.drafts)]
        statements = list(self._statements())
        self._choose(statements, int(self.budget_tokens * self._statement_share()))
        self._mention()
        self._choose(statements, self.budget_tokens)
        self._lengthen()
        # What was said since need not be mentioned, which leaves room for what could not be.
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
        """Leave out what was chosen last: a name, else a statement."""
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
        """Take statements, the most worth a token first, while they fit; values only fall, so look lazily."""
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
                # Once its head is paid for, more of the same finding costs less.
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
        """Name what no statement names yet, the cheapest first, what several findings name before that."""
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
        """Put sentences whole where they were shortened for room that nothing else took."""
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
    """Yield what may stand for a sentence: the shortest of its spans for each set of names."""
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
