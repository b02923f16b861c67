"""Find names in a text.

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
# Names rarely begin between two letters, so most forms are not tried there.
_BEGIN = rf"(?:(?<![{_LETTER}])|(?=[^{_LETTER}]|https?://|[\w.+-]{{64}}@))"
_ENTITY = re.compile(
    rf"""
    {_BEGIN}(?:
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
    )
    """,
    re.VERBOSE,
)
_INSIDE = re.compile(rf"[{_LETTER}]{{2}}")
_WORD = re.compile(
    rf"[{_LETTER}]{{4,}}|[\u0590-\u08ff\u0900-\u1fff]{{2,}}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)
_SENTENCE_END = re.compile(r"(?:^|[.!?:。！？：；\n]|^\W+)\s*[\"'“‘(\[*#>-]*\s*$")

_ABBREVIATIONS = frozenset({"e.g", "i.e", "a.k.a", "f.eks", "bl.a", "d.h", "z.b", "p.ex"})
_NAMELESS_WORDS = """
i'm i've i'll i'd ok okay yeah yep yes no nope oh ah um uh hmm mm mm-hmm uh-huh well so and but the this
that it it's you we they he she what how why when where who if is are do does ja nei jo og men det den
one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty seventy
eighty ninety hundred
"""
_NAMELESS = frozenset(_NAMELESS_WORDS.split())
"""Words that are not names even if they are capitalised in mid-sentence, as in transcripts."""


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
        name, (start, end) = match[0], match.span()
        if kind == "path" and not any(map(str.isalnum, name)):
            continue
        if kind == "identifier" and name.casefold() in _ABBREVIATIONS:
            continue
        if kind in ("name", "identifier") and name.lower().replace("’", "'") in _NAMELESS:
            continue
        if kind == "name" and _SENTENCE_END.search(text, max(0, start - 12), start):
            continue
        yield Entity(start, end, name, kind)


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
