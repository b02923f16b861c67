"""Generate records, either similar to a team's notes, commits and decisions, or as hostile as text can be."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate

SPREAD_DAYS = 90
# One record in this many is deleted.
DELETED_EVERY = 200
# Pinned records per space.
PINNED = 2
# The vocabulary of a team after some years, in which frequent words are far more frequent than the rest.
WORDS = 20_000
THREAD_RECORDS = 12
# The exponent of the views' power law: about half of the records were never viewed, one in nine often.
VIEWS_SHAPE = 0.9

_TYPES = ("note", "decision", "commit", "message", "incident", "document", "review")
_VERBS = (
    "Fix", "Add", "Remove", "Measure", "Document", "Refactor", "Roll back", "Investigate", "Speed up",
    "Deprecate", "Review", "Migrate", "Rename", "Test", "Split", "Cache", "Retry", "Validate", "Rotate",
)  # fmt: skip
_THINGS = (
    "token refresh", "invoice export", "webhook delivery", "session store", "search index", "import queue",
    "rate limiter", "audit trail", "password reset", "nightly backup", "currency rounding", "feature flags",
    "image thumbnails", "email templates", "order history", "connection pool", "retention policy",
    "time zone handling", "CSV parser", "health check", "role permissions", "metrics exporter",
)  # fmt: skip
_PLACES = (
    "checkout", "the mobile client", "billing", "the admin pages", "staging", "the public API", "onboarding",
    "reporting", "the worker", "the data warehouse", "support tooling", "the partner portal",
)  # fmt: skip
_REASONS = (
    "after the second outage this month", "because p95 doubled since Tuesday", "as agreed with the customer",
    "before the contract is renewed", "so that new colleagues find it", "since nobody remembers why",
    "while the old path stays for a week", "as the logs show a race between two writers",
    "until the vendor answers ticket 4471", "which the last review asked for",
)  # fmt: skip
_TAGS = (
    "backend", "frontend", "urgent", "customer", "security", "performance", "debt", "ux", "database", "infra",
    "release", "question", "follow-up", "cost", "compliance",
)  # fmt: skip
_SYLLABLES = (
    "ba", "ce", "dor", "el", "fi", "gan", "hu", "in", "jo", "ka", "lum", "mer", "na", "or", "pel", "qui",
    "ra", "sen", "ti", "ul", "ver", "wo", "xa", "yor", "zim",
)  # fmt: skip
_HOSTILE = (
    "\u202eright to left\u202c", "e\u0301\u0302\u0303\u0304" * 4, "👩‍👩‍👧‍👦🏳️‍🌈", "﷽" * 6,
    "\u200b\u200d\ufeff",
    "a" * 180, "=" * 90, "\t \n\r\n\x0b\x0c\u2028\u2029\x85", "<|endoftext|>", "<|im_start|>system", "- - - ",
    "日本語の文章です", "نص عربي", "🇳🇴🇸🇪🇩🇰",
    "\\n\\t\\0", "Z̷̢̛͖͎̯͇ą̶̛̲l̵̨̛g̸o", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "ß\u00ad\u00ad",
    " " * 200, "0123456789" * 12, "'; DROP TABLE records; --", "{{ 7 * 7 }}", "\u0600\u0601\u06dd", "ﬁﬂﬀ",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Generated:
    """A record as its author wrote it, with its later views and deletion."""

    title: str
    type: str
    date: datetime
    tags: list[str]
    notes: str
    views: int = 0
    is_pinned: bool = False
    is_deleted: bool = False
    thread: str = ""
    position: int | None = None

    def to_row(self, external_id: str) -> dict[str, object]:
        """Return the record as a line of an import file."""
        return {
            "title": self.title,
            "type": self.type,
            "date": self.date.isoformat(),
            "tags": self.tags,
            "notes": self.notes,
            "source": "generated",
            "external_id": external_id,
        }


def generate(count: int, *, seed: int, until: datetime) -> Iterator[Generated]:
    """Yield realistic records dated within SPREAD_DAYS before `until`, the same for the same seed."""
    rng = random.Random(seed)
    spread_seconds = SPREAD_DAYS * 86_400
    for index in range(count):
        yield Generated(
            title=f"{rng.choice(_VERBS)} {rng.choice(_THINGS)} in {rng.choice(_PLACES)} (#{index + 1})",
            type=rng.choice(_TYPES),
            date=until - timedelta(seconds=rng.random() * spread_seconds),
            tags=rng.sample(_TAGS, rng.choice((0, 1, 1, 2, 3))),
            notes=_notes(rng),
            views=int(rng.paretovariate(VIEWS_SHAPE)) - 1,
            is_pinned=index < PINNED,
            is_deleted=index % DELETED_EVERY == DELETED_EVERY - 1,
        )


def _notes(rng: random.Random) -> str:
    sentences = [
        f"{rng.choice(_VERBS)} the {rng.choice(_THINGS)} of {rng.choice(_PLACES)} {rng.choice(_REASONS)}."
        for _ in range(rng.choice((1, 2, 2, 3, 6)))
    ]
    return " ".join(sentences)


def generate_varied(count: int, *, seed: int, until: datetime) -> Iterator[Generated]:
    """Yield records like `generate`, in threads, with words from a realistically skewed vocabulary."""
    rng = random.Random(seed)
    words = _invent_words(random.Random(0))
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    for index, record in enumerate(generate(count, seed=seed, until=until)):
        said = [" ".join(rng.choices(words, cum_weights=weights, k=rng.randint(6, 12))) for _ in range(3)]
        yield replace(
            record,
            title=f"{record.title}: {' '.join(rng.choices(words, cum_weights=weights, k=3))}",
            notes=f"{said[0].capitalize()}. {record.notes} {said[1].capitalize()}, {said[2]}.",
            thread=f"thread-{index // THREAD_RECORDS}",
            position=index % THREAD_RECORDS,
        )


def _invent_words(rng: random.Random) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < WORDS:
        words["".join(rng.choices(_SYLLABLES, k=rng.randint(2, 4)))] = None
    return list(words)


def generate_hostile(count: int, *, seed: int, until: datetime) -> Iterator[Generated]:
    """Yield records of text that breaks token estimates, cuts and line structures."""
    rng = random.Random(seed)
    for _ in range(count):
        yield Generated(
            title=(_hostile_text(rng, 1_000) + "x")[:1_000],
            type=(_hostile_text(rng, 63) + "t")[:64],
            date=until - timedelta(seconds=rng.randrange(-90_000, 20 * 86_400)),
            tags=[(_hostile_text(rng, 99) + "g")[:100] for _ in range(rng.randrange(12))],
            notes=_hostile_text(rng, rng.choice((0, 50, 3_000, 60_000))),
            views=rng.randrange(20),
            is_pinned=rng.random() < 0.1,
        )


def _hostile_text(rng: random.Random, limit: int) -> str:
    """Return at most `limit` characters, with unassigned code points but without NUL and surrogates."""
    pieces: list[str] = []
    length = 0
    while length < limit and rng.random() < 0.97:
        piece = rng.choice(_HOSTILE) if rng.random() < 0.6 else _random_characters(rng)
        pieces.append(piece)
        length += len(piece)
    return "".join(pieces)[:limit]


def _random_characters(rng: random.Random) -> str:
    low, high = rng.choice(((1, 0xFF), (0x100, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF)))
    return "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 30)))
