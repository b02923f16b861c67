"""Find names in a text, and the words that qualify its statements.

Names are recognised by their form, in any script: paths, identifiers, versions, numbers, references,
addresses, and capitalised words that do not just start a sentence.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

type EntityKind = Literal["address", "path", "identifier", "number", "name"]

# Letters of scripts that separate words. Chinese or Arabic around an identifier is not part of it.
_LETTER = "0-9A-Za-z_\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0370-\u052f"
_UNIT = (
    "[mµn]?s|min|h|[kKMGT]i?B|px|tokens?|rows?|times|seconds?|minutes?|hours?|days?|weeks?|months?|years?|"
    "sekunder|minutter|timer|dager|uker|måneder|år|rader|ganger"
)
_CAPITAL = "[A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a9\u0410-\u042f]"
_ENTITY = re.compile(
    rf"""
    (?P<address>https?://[^\s<>"'`|)\]}}\u3000-\u303f\uff00-\uffef]+[\w/=&\#]
      | [\w.+-]{{1,64}}@[\w-]+(?:\.[\w-]+)+)
  | (?P<path>(?:\b(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)[ ])?
      (?<![{_LETTER}/.])(?:~|\.\.?)?/?(?:[{_LETTER}.@+*<>:{{}}-]+/)+(?:[{_LETTER}.@+*<>{{}}-]*[{_LETTER}*>}}])?
      | (?<![{_LETTER}/.<])/[{_LETTER}.@<>{{}}-]*[{_LETTER}>}}]
      | (?<![{_LETTER}.])\.[a-z][{_LETTER}.-]*[{_LETTER}])
  | (?P<identifier>(?<![{_LETTER}])(?:
        --?[a-z][a-z0-9]*(?:-[a-z0-9]+)*\b(?<=..)
      | [@$]\w[\w.-]*\w
      | (?=[{_LETTER}.:]*[A-Za-z_])[{_LETTER}]+(?:(?:\.|::)[{_LETTER}]+)+(?:\(\))?
      | [{_LETTER}]+\(\)
      | (?=[{_LETTER}]*_)[{_LETTER}]*[0-9A-Za-z][{_LETTER}]*
      | [a-z]+[A-Z][{_LETTER}]*
      | [A-Z][a-z0-9]+[A-Z][{_LETTER}]*
      | [A-Z]{{2,}}[{_LETTER}]*
      | [{_LETTER}]+(?:-[{_LETTER}]+)*-[0-9][{_LETTER}.]*
      | (?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{{2,}}
    )(?![{_LETTER}]))
  | (?P<number>\#\d++(?![{_LETTER}])|(?<![{_LETTER}.])[<>=~≥≤±+-]{{0,2}}[$€£]?\d++(?:[.,:]\d++)*+
      (?:[%‰]|[ ]?(?:{_UNIT})(?![{_LETTER}]))?(?![{_LETTER}]))
  | (?P<name>(?<![{_LETTER}]){_CAPITAL}[{_LETTER}'’-]*[{_LETTER}]
      (?![{_LETTER}]))
    """,
    re.VERBOSE,
)
_INSIDE = re.compile(rf"[{_LETTER}]{{2}}")
_WORD = re.compile(
    rf"[{_LETTER}]{{4,}}|[\u0590-\u08ff\u0900-\u1fff]{{2,}}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)
_SENTENCE_END = re.compile(r"(?:^|[.!?:。！？：；\n]|^\W+)\s*[\"'“‘(\[*#>-]*\s*$")

_ABBREVIATIONS = frozenset({"e.g", "i.e", "a.k.a", "f.eks", "bl.a", "d.h", "z.b", "p.ex"})

# Denial, condition and contrast, doubt, status and duty, severity. A stem that ends in "*" matches all words
# that begin with it.
_QUALIFIERS = """
no not never none nothing nobody neither nor cannot without unable fail fails failed failing lack
lacks lacking missing nowhere hardly barely ikke ingen ingenting intet aldri uten hverken verken
mangler icke inte aldrig utan ikkje nicht kein* nie niemals ohne ne pas jamais aucun* sans nunca
jamás sin ningun* não nem sem niet geen nooit zonder не нет ни никогда без

excepting excluding barring provided assuming false untrue incorrect usann* uriktig* galt
if unless until only except but however although though instead rather otherwise depends depending
hvis dersom bare kun unntatt men derimot istedenfor istedet wenn falls nur außer aber sondern jedoch
si sauf seulement mais sólo solo pero excepto если только кроме но однако

may might could would can possibly perhaps maybe probably likely unlikely apparently presumably
seem* appear appears appeared suggest* assum* unclear unknown uncertain unverified untested roughly
approximately about around nearly almost mostly usually often sometimes rarely partly suspect*
believe* think guess* estimated potential* kan kanskje muligens trolig sannsynligvis antakelig
antagelig visstnok virker tilsynelatende omtrent cirka ca nesten ofte sjelden kunne ville uklar*
ukjent* usikker* vielleicht möglicherweise wahrscheinlich vermutlich könnte* kann etwa fast unklar
peut probablement pourrait environ semble* quizá quizás podría* puede* aproximadamente parece*
возможно вероятно может примерно

must should shall require* optional* mandatory forbidden deprecated obsolete rejected declined
postponed deferred blocked pending open unresolved resolved planned draft experimental todo wip må
skal bør valgfri* forbudt* utdatert* avvist* forkastet utsatt blokkert åpen uavklart avklart
planlagt muss soll* darf abgelehnt* offen veraltet* doit devrait obligat* rejeté* debe*

critical severe high medium low minor major blocker kritisk* alvorlig* høy middels lav hoch mittel
niedrig

لا لم لن ليس ليست غير بدون دون قد ربما يمكن يحتمل إذا إلا لكن فقط يجب مرفوض مؤجل ولا ولم ولن وليس
وقد وربما ولكن לא אין בלי אולי ייתכן אם אבל רק חייב नहीं मत शायद यदि लेकिन केवल
"""
_WORDS = frozenset(word for word in _QUALIFIERS.split() if not word.endswith("*"))
_STEMS = tuple(word[:-1] for word in _QUALIFIERS.split() if word.endswith("*"))
_STEM_STARTS = frozenset(stem[:3] for stem in _STEMS)
_PLAIN_WORD = re.compile(r"[^\W\d_\u3040-\u30ff\u3400-\u9fff]+(?:[’'][^\W\d_]+)?")
# Exceptions and conditions of several words, none of which qualifies on its own.
_PHRASE = re.compile(
    r"\b(?:save for|apart from|other than|as long as|so long as|in case|med mindre|så lenge|bortsett fra|"
    r"med unntak|forutsatt at|i tilfelle)\b",
    re.IGNORECASE,
)
# Scripts that do not separate words.
_JOINED = re.compile(
    "[不没沒无無未非勿别別]|可能|也许|也許|或许|或許|大概|大约|大約|似乎|好像|除非|如果|但是|但|只有|仅|必须|必須|应该|應該"
    "|ない|なく|ません|かもしれ|おそらく|たぶん|않|없|못"
)


class Entity(NamedTuple):
    """A name in a text, as written, from `start` to `end`."""

    start: int
    end: int
    text: str
    kind: EntityKind


def find_entities(text: str) -> Iterator[Entity]:
    """Yield the names in the text, in order."""
    for match in _ENTITY.finditer(text):
        kind: EntityKind = match.lastgroup  # type: ignore[assignment]  # the groups are the kinds
        if kind == "path" and not any(map(str.isalnum, match.group())):
            continue
        if kind == "identifier" and match.group().casefold() in _ABBREVIATIONS:
            continue
        if kind == "name" and _SENTENCE_END.search(text, max(0, match.start() - 12), match.start()):
            continue
        yield Entity(match.start(), match.end(), match.group(), kind)


def find_qualifiers(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the text denies, doubts, limits, or states a status or a severity."""
    for match in _PLAIN_WORD.finditer(text):
        if _qualifies(match.group().lower()):
            yield match.span()
    for match in _PHRASE.finditer(text):
        yield match.span()
    if not text.isascii():
        for match in _JOINED.finditer(text):
            yield match.span()


def _qualifies(word: str) -> bool:
    if word in _WORDS or word.endswith(("n't", "n’t")):
        return True
    return word[:3] in _STEM_STARTS and word.startswith(_STEMS)


def words_of(text: str) -> set[str]:
    """Return the meaningful words in lower case; single characters in scripts that do not separate words."""
    return set(_WORD.findall(text.lower()))


def has_word(name: str, text: str) -> bool:
    """Return whether the text contains the name as a separate word or words."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        before, after = text[max(0, start - 1) : start + 1], text[end - 1 : end + 1]
        if not (_INSIDE.fullmatch(before) or _INSIDE.fullmatch(after)):
            return True
        start = text.find(name, start + 1)
    return False
