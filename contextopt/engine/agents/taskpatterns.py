"""Detect the kind of task from its description, by its words in English and Norwegian.

Words, their inflections and compounds count, but never parts of other words: "rapid" is no API and "require"
no UI. A word that means something else next to its neighbours ("the server side", "handler om") does not
count. If several kinds match, the first in `PATTERNS` wins. The prefix of a conventional commit, such as
`perf(core)!: `, decides before the words do.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from contextopt.engine.text.cleaning import flatten

GENERAL = "general task"
OWN_WORDS = 3
OWN_WORD_CHARS = 4
OWN_CHARS = 100
# Longer descriptions state their subject at the beginning.
READ_CHARS = 20_000

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-zæøå])|[A-ZÆØÅ]?[a-zæøå]+|[0-9]+")
# Names whose parts are not words of their own.
_NAMES = frozenset((
    "mysql", "postgresql", "sqlite", "nosql", "mssql", "plsql", "sqlalchemy", "pagerank", "javascript",
    "typescript",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pattern:
    """A kind of task: whole-word expressions that name it, and pairs of neighbouring words that do.

    `unless` returns whether a word at a place means something else there.
    """

    name: str
    words: re.Pattern[str]
    pairs: re.Pattern[str] | None = None
    unless: Callable[[Sequence[str], int], bool] | None = None

    def matches(self, words: Sequence[str]) -> bool:
        for place, word in enumerate(words):
            if self.words.fullmatch(word) and not (self.unless and self.unless(words, place)):
                return True
        if self.pairs is None:
            return False
        return any(self.pairs.fullmatch(f"{first} {second}") for first, second in pairwise(words))


def _any(*expressions: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{expression})" for expression in expressions))


# Endings of Norwegian nouns.
_NOUN = "(?:s|en|ens|et|ets|er|ers|ene|enes|a)?"
_STORED = re.compile(
    "(?:tables?|tabell\\w*|schemas?|skjema\\w*|columns?|kolonne\\w*|databases?|databasen?|db|rows?|rader)"
)
_MIGRATING = re.compile("migrat(?:e|es|ed|ing)|migrer(?:e|er|t|te|es|ing|ingen|inger)?")
_NO_FIXING = frozenset((
    "width", "point", "position", "positioned", "size", "sized", "length", "price", "prices", "cost",
    "costs", "rate", "header", "footer", "layout", "window", "number", "set", "seed",
))  # fmt: skip
_NO_PAGE_BEFORE = frozenset((
    "server", "client", "driver", "other", "another", "each", "both", "one", "left", "right", "far",
    "wrong", "that", "this", "either", "upper", "lower", "back", "front", "flip", "any", "every",
    "whose", "same", "our", "your", "their", "my", "user", "supply", "demand", "buy", "sell",
))  # fmt: skip
_NO_PAGE_AFTER = frozenset((
    "effect", "effects", "by", "of", "project", "projects", "note", "notes", "channel", "channels",
    "table", "tables", "car", "load", "loads",
))  # fmt: skip
_BEFORE_THE_PAGE = frozenset((
    "på", "til", "av", "denne", "hele", "den", "for", "fra", "med", "gjør", "lag", "oppdater", "endre",
    "oversett", "hver", "fjern",
))  # fmt: skip
_VERB_BEFORE = frozenset(
    ["and", "to", "please", "must", "should", "also", "then", "og", "å", "må", "bør", "skal"]
)


def _is_no_migration(words: Sequence[str], place: int) -> bool:
    """Migrating only counts if the text mentions a database; "migration" always counts."""
    is_verb = _MIGRATING.fullmatch(words[place]) is not None
    return is_verb and not any(_STORED.fullmatch(word) for word in words)


def _is_no_endpoint(words: Sequence[str], place: int) -> bool:
    """Norwegian "handler om" means "is about"."""
    return words[place] == "handler" and _next(words, place) in {"om", "i", "mer"}


def _is_no_fault(words: Sequence[str], place: int) -> bool:
    return words[place] == "fixed" and _next(words, place) in _NO_FIXING


def _is_no_frontend(words: Sequence[str], place: int) -> bool:
    """English "side" is no page, and Norwegian "siden" means "since" and "ago" more often than "the page"."""
    word, before, after = words[place], _previous(words, place), _next(words, place)
    if word in {"side", "sides"}:
        return before in _NO_PAGE_BEFORE or after in _NO_PAGE_AFTER or (before == "the" and after == "")
    if word == "siden":
        return before not in _BEFORE_THE_PAGE
    return False


def _is_no_documentation(words: Sequence[str], place: int) -> bool:
    """ "To document" is documentation; "a document" is not."""
    is_ambiguous = words[place] in {"document", "dokumenter"}
    return is_ambiguous and not (place == 0 or _previous(words, place) in _VERB_BEFORE)


def _previous(words: Sequence[str], place: int) -> str:
    return words[place - 1] if place else ""


def _next(words: Sequence[str], place: int) -> str:
    return words[place + 1] if place + 1 < len(words) else ""


PATTERNS = (
    Pattern(
        "database migration",
        _any(
            r"(?!emigr)\w*(?<!im)migrations?(?:(?:script|file|plan|job|tool)s?)?", r"migrat(?:e|es|ed|ing)",
            r"(?!emigr)\w*(?<!im)migrasjon(?:s\w+|en|ens|er|ers|ene|enes)?",
            r"(?!emigr)\w*(?<!im)migrer(?:e|er|t|te|es|ing\w*)?",
            r"sql(?:en|s)?", r"sql(?:fil|skript|script|spørring|setning|kode|quer)\w*",
        ),
        _any(r"(?:alter|create)(?:s|ing|ed)? tables?", r"(?:endre|opprett|lag) tabell(?:en)?"),
        _is_no_migration,
    ),
    Pattern(
        "new api endpoint",
        _any(
            r"(?:rest|web|graph)?api(?:s|er|et|en|ets|ene|enes)?",
            r"api(?:kall|nøk|klient|tjeneste|versjon|lag|server|key|call|client)\w*",
            r"endpoints?", r"ende?punkt(?:et|er|ene|a)?",
            r"(?:sub|api)?route(?:s|d|r|rs|ne|ren)?", r"routing(?:en)?",
            r"(?!\w*(?:be|for|av|om|mis)handle)\w*handler(?:s|en|e|ne)?",
        ),
        unless=_is_no_endpoint,
    ),
    Pattern(
        "fix bug",
        _any(
            r"(?:hot|bug|quick)?fix(?:es|ed|ing|er|en|et)?",
            r"(?:hurtig|bug|hot)?fiks(?:e|er|et|a|es|ing|en|ene)?",
            r"(?:heisen)?bug(?:s|gy|gs|gen|gene|ger)?", r"bug(?:report|rapport)\w*",
            r"(?:type|value|key|name|index|runtime|syntax|import|server)?errors?", r"error(?:en|ene|ed)",
            r"error(?:håndter|melding|logg|kode)\w*",
            r"feil\w*", r"\w+feil(?:en|ene|ens|a)?",
        ),
        unless=_is_no_fault,
    ),
    Pattern(
        "refactoring",
        _any(
            r"refactor(?:s|ed|ing|ings|able)?", r"refaktor\w*", r"decompos(?:e|es|ed|ing|ition)",
            r"dekompon\w+",
            r"extract(?:s|ed|ing|ion|ions)?", r"ekstraher\w*", r"split(?:s|ting|ted)?",
            r"splitt(?:e|er|et|a|es|ing|ingen)?",
            r"oppsplitt\w*",
        ),
    ),
    Pattern(
        "add tests",
        _any(
            r"(?:unit|integration|regression|smoke|load|py|e2e)?test(?:s|ed|ing|er|ers|able)?",
            r"(?:enhets|integrasjons|regresjons|ende|ytelses|system|akseptanse|last|røyk|bruker|komponent|nettleser)?test(?:e|en|ens|er|ene|et|es|ing|ingen)?",
            r"test(?:dekning|tilfelle|data|suite|fil|miljø|løp|runner|case|bed|bench|rapport|oppsett|klasse|s[kc]ript|kode|plan)\w*",
            r"(?:r|open)?specs?", r"specen",
        ),
    ),
    Pattern(
        "security improvement",
        _any(
            r"(?:cyber)?security", r"o?auth[nz2s]?", r"authenticat\w*",
            r"o?auth(?:flow|flyt|token|header|guard|middleware|server|service|tjeneste|modul|lag)\w*",
            r"authori[sz](?:e|es|ed|er|ing|ation|ations)",
            r"unauthori[sz]ed", r"au(?:t|th)entiser\w*", r"autentisitet\w*", r"autoriser\w*",
            r"autorisasjon\w*",
            r"(?:data|informasjons|it|nett|app)?sikkerhet(?:en|ens|s(?!kopi)\w*)?", r"owasp",
        ),
    ),
    Pattern(
        "frontend change",
        _any(
            r"(?:mi[ck]ro)?frontend(?:s|en|er|ene)?", r"frontend(?:kode|lag|prosjekt|utvikl|app|bygg)\w*",
            r"uis?", r"uiet", r"(?:web|ui|sub)?components?",
            r"\w*komponent" + _NOUN, r"komponent(?:bibliotek|kode|tre|mal|katalog|struktur|stil)\w*",
            r"(?:home|web|front|sub|landing|start)?pages?",
            r"sides?", r"sider|siden|sidene|sidens",
            r"(?:nett|web|for|hjem|hjemme|under|start|produkt|profil|landings|hoved|bruker|konto|feil|"
            r"\w+s|\w+ings)side(?:n|ns|r|ne)?(?<!inside)(?<!insider)(?<!outsider)(?<!utside)(?<!utsiden)(?<!upside)"
            r"(?<!downside)(?<!dagside)",
            r"side(?:bar|panel|oppsett|meny|visning|tittel|mal|navigasjon|innhold|layout|topp|bunn|hode)\w*",
        ),
        re.compile(r"front ends?"),
        _is_no_frontend,
    ),
    Pattern(
        "configuration",
        _any(
            r"(?:mis|re|pre|de|un)?config\w*", r"(?:kube|ts|web|app)config", r"\w*konfig(?!ent)\w*",
            r"setups?", r"setup(?:fil|s[kc]ript|guide)\w*",
            r"oppsett(?:et|ene|s(?:guide|fil|s[kc]ript|veiledning)\w*)?",
            r"(?:re|un|pre)?install(?!ment)(?:s|ed|er|ers|ing|ation|ations|able)?",
            r"(?:av|re)?install(?:er|ere|erer|eres|ert|erte|ering|eringen|asjon|asjonen|asjons\w+|asjoner)",
        ),
        re.compile(r"(?:set|sets|setting) up"),
    ),
    Pattern(
        "documentation",
        _any(
            r"(?:api|js|java)?docs?", r"docstrings?", r"docblocks?", r"document(?:ation|ed|ing)?",
            r"\w*dokumentasjon(?:en|s\w+)?", r"dokumenter(?:e|er|t|te|ing|es)?", r"readmes?", r"readmeen",
            r"readmefil\w*",
        ),
        unless=_is_no_documentation,
    ),
    Pattern(
        "performance optimization",
        _any(
            r"performan(?:ce|t)", r"ytelse\w*", r"optimi[sz](?:e|es|ed|er|ers|ing|ation|ations)",
            r"optimaliser\w*",
            r"(?:mem|lru|http|query)?cach(?:e|es|ed|ing|er|en|ene|et|eable)",
            r"cache(?:lag|nøk|tid|treff|strategi|minne|logikk|invalid|layer|key|hit|miss)\w*",
            r"mellomlagr\w*",
            r"speed(?:s|y|ing|up|ups|ier)?", r"hastighet(?:en|er|ene|s\w+)?",
        ),
    ),
)  # fmt: skip


_PREFIX = re.compile(r"\s*([a-z]{2,8})(?:\(([^()\n]{0,80})\))?!?:(?=\s+\S)", re.IGNORECASE)
_FEATURE = frozenset(("feat", "feature"))
_PREFIXES = {
    "fix": "fix bug", "bugfix": "fix bug", "hotfix": "fix bug", "refactor": "refactoring",
    "style": "refactoring", "test": "add tests", "tests": "add tests", "docs": "documentation",
    "doc": "documentation", "perf": "performance optimization", "build": "configuration",
    "ci": "configuration", "chore": "configuration",
}  # fmt: skip
_NO_FEATURE = frozenset(("fix bug", "refactoring", "add tests", "documentation"))
"""A commit of one of these kinds has a prefix of its own."""


def detect_task_pattern(description: str) -> str:
    """Return the kind of task. If no kind matches, return the first three words longer than three letters.

    An empty description, or one with short words only, is a `general task`.
    """
    text = description[:READ_CHARS]
    prefix = _PREFIX.match(text)
    kind = prefix[1].lower() if prefix else ""
    if kind in _PREFIXES:
        return _PREFIXES[kind]
    excluded: frozenset[str] = frozenset()
    if prefix and kind in _FEATURE:
        # The scope, such as "api", says what the feature is about.
        excluded, text = _NO_FEATURE, f"{prefix[2] or ''} {text[prefix.end() :]}"
    words = task_words(text)
    for pattern in PATTERNS:
        if pattern.name not in excluded and pattern.matches(words):
            return pattern.name
    long = [word for word in flatten(text).lower().split() if sum(map(str.isalnum, word)) >= OWN_WORD_CHARS]
    own = [stripped for word in long[: 2 * OWN_WORDS] if (stripped := word.strip("\"'`“”«».,;:!?()[]{}<>*#"))]
    # The name is displayed in quotation marks.
    return " ".join(own[:OWN_WORDS])[:OWN_CHARS].replace('"', "'") or GENERAL


def task_words(text: str) -> list[str]:
    """Return the words in lower case, in order. A camel-case name is followed by its parts."""
    words: list[str] = []
    for word in _WORD.findall(text):
        lower = word.lower()
        words.append(lower)
        parts = _CAMEL.findall(word)
        if len(parts) > 1 and lower not in _NAMES and not lower[0].isdigit():
            words += [part.lower() for part in parts if len(part) > 1]
    return words
