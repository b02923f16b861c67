"""Tell what a line of a prompt is by its shape: a person's prose, or a line of something pasted."""

import re
from enum import StrEnum


class PartKind(StrEnum):
    """The kind of a prompt's part."""

    PROSE = "prose"
    CODE = "code"
    LOG = "log"
    DATA = "data"
    QUOTE = "quote"
    """Someone else's words, each line after a `>`."""
    WRAPPED = "wrapped"
    """A block that a tool wrapped around the prompt."""


_PLAIN_SHARE, _LETTER_SHARE = 0.7, 0.85
"""Least share of a line's words that are plain, and of its characters that are letters, if it is prose."""
_ASKING_PLAIN_SHARE, _ASKING_LETTER_SHARE = 0.5, 0.7
"""The same if it asks: a question may name files and code."""
_WIDE = 4
"""This many characters of a script without spaces are a text."""

_QUOTE = re.compile(r"(?:>\s?)+(?:\S+\s+){2}|>+\s*$")
_BULLET = re.compile(r"\s{0,3}(?:[-*•‣]|\d{1,3}[.)]|#{1,6})\s+")
_LABEL = re.compile(r"(?:\*\*)?[^\W\d_][\w'’ /()-]{0,30}:(?:\*\*)?\s+")
_LOG = re.compile(
    r"""\W{0,3}(?:
        \d{4}[-/.]\d\d[-/.]\d\d[T\s_]+\d\d[:.]\d\d | \d\d:\d\d:\d\d | [A-Z][a-z]{2}\s+\d{1,2}\s\d\d:\d\d
      | (?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE|PASS|FAIL|FAILED|FEIL|FEHLER)\b
      | Traceback\b | Caused\ by: | Exception\ in\ | goroutine\ \d | thread\ '
      | \w[\w.$]*(?:Error|Exception)\b(?!\s\w)
    )
    | \w*(?:error|exception|warning|note|panic|fatal)(?:\[\w+\])?:\s | -{2,}
    | \s*at\s[\w$.<>/\[\]`]+[(\s:] | \s*File\ " | \s*\S+\.\w{1,5}:\d+(?::\d+)? | \s*\d+:\s+0x
    | [$%❯➜]\s\S | [\w.-]{1,40}@[\w.-]{1,40}[:~][^$\#]{0,60}[$\#]\s | PS\s[A-Z]: | [A-Z]:\\
    | >>>\s | \.{3}\s | \[\d+\]:
    """,
    re.VERBOSE,
)
_DATA = re.compile(
    r"""\s*(?:
        [\[\]{}"|<&] | [\w.-]+:\s*$ | [\w.-]+\s*[:=]\s*["'\[{\d-] | -\s[\w.-]+:\s | ---+\s*$ | \+-[-+]+
      | \(\d+\ rows?\)
    )""",
    re.VERBOSE,
)
_CODE = re.compile(
    r"""\s*(?:
        //|/\*|\*/|\*\s{0,1}@|--\s|\#!|\#include|\#define|@\w+|"\"\"|\'\'\'|;|\$\w|%\w|::|\.\w|&
      | (?:import|package|return|use|using|module|require|include|export|namespace|goto|yield|raise|throw|del)
        \s+[\w.*{}"'/:,()]+\s*;?$
      | (?:end|begin|else|break|continue|pass|done|fi|esac|then|do|try|finally)\s*[:{;]?$
      | from\s\S+\simport\b | (?:async\s)?def\s\w+\(
      | class\s\w+\s*[:({] | class\s[A-Z]\w+(?:\s(?:extends|implements)\b.*)?$
      | (?:pub\s|export\s|public\s|private\s|protected\s|internal\s|static\s|abstract\s|final\s)
        (?:\w+\s)*(?:fn|class|function|const|interface|static|void|async|struct|enum|\w+\s\w+\()
      | (?:const|let|var|val|auto)\s\w+\s*[:=] | func\s[\w(] | fn\s\w | function\s*\w*\( | impl[\s<]
      | type\s\w+\s | (?:if|for|while|switch|catch|foreach|elseif|elsif|unless)\s*\(
      | (?:if|for|while|with|elif|except)\s.*:$
      | SELECT\b | INSERT\sINTO | UPDATE\s\S+\sSET | DELETE\sFROM | CREATE\s[A-Z] | ALTER\sTABLE
      | DROP\s[A-Z] | FROM\s\w | WHERE\s | (?:LEFT|RIGHT|INNER|OUTER|CROSS)?\s?JOIN\s | GROUP\sBY
      | ORDER\sBY | HAVING\s | VALUES\b | BEGIN; | COMMIT
    )""",
    re.VERBOSE,
)
_SEPARATED = re.compile(r"[^,;\t|]*(?:[,;\t|][^,;\t|]*){2,}$")
_GAP = re.compile(r"[^\s.!?:,](?:\t| {2})\s*(?=\S)")
"""A gap between two columns. Some people write two spaces after a sentence."""
_ASSIGNS = re.compile(r"\s[-+*/:|&<>=!]?=\s")
_INLINE_CODE = re.compile(r"`[^`]*`")
_TOKEN = re.compile(r"[^\s、。，．！？「」『』（）：；]+")
_OPERATOR = re.compile(r"[=<>+*|&^{}$#\\]+$")
_EDGES = ".,;:!?\"'()[]“”‘’„«»…*_–—-/"
_PLAIN = re.compile(r"[^\W\d_]+(?:['’.-][^\W\d_]+)*$")
_NEUTRAL = re.compile(r"[\d.,:/%$€£+-]+(?:st|nd|rd|th|am|pm|k|kr|ms|s|h|%)?$|@\w+$|https?://", re.IGNORECASE)
"""Numbers, names and addresses are in prose and pastes alike."""
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def kind_of_line(line: str) -> PartKind | None:
    """Return what a line is by itself; None if it is blank."""
    if not line.strip():
        return None
    if _QUOTE.match(line):
        return PartKind.QUOTE
    begin = _BULLET.match(line)
    said = line[begin.end() :] if begin else line
    is_indented = not begin and line.startswith(("\t", "  "))
    if is_indented and (line.startswith(("\t", "    ")) or not is_asking(line)):
        return _kind_of_paste(line)
    if _LOG.match(line):
        return PartKind.LOG
    if _ASSIGNS.search(line) and not line.rstrip().endswith("?"):
        return PartKind.CODE
    if _has_columns(line) or _CODE.match(line) or (_DATA.match(said) and not is_asking(said)):
        return _kind_of_paste(line)
    if label := _LABEL.match(said):
        said = said[label.end() :]
    return PartKind.PROSE if _is_prose(said) else _kind_of_paste(line)


def _kind_of_paste(line: str) -> PartKind:
    if _LOG.match(line):
        return PartKind.LOG
    if _CODE.match(line):
        return PartKind.CODE
    is_data = _DATA.match(line) or _has_columns(line) or _SEPARATED.match(line)
    return PartKind.DATA if is_data else PartKind.CODE


def _has_columns(line: str) -> bool:
    return "\t" in line or ("  " in line and len(_GAP.findall(line)) > 1)


def _is_prose(line: str) -> bool:
    """Return whether a line consists mostly of plain words."""
    tokens = [token for token in _TOKEN.findall(_INLINE_CODE.sub(" ", line)) if not _NEUTRAL.match(token)]
    words = [word for token in tokens if (word := token.strip(_EDGES) or _OPERATOR.match(token))]
    plain = sum(isinstance(word, str) and _PLAIN.match(word) is not None for word in words)
    asks = is_asking(line)
    if plain < 2 and not (plain and (asks or len(_UNSPACED.findall(line)) >= _WIDE)):
        return False
    if _SEPARATED.match(line) and not asks and len(words) <= 2 * sum(map(line.count, ",;\t|")):
        return False
    chars = "".join(tokens)
    letters = sum(map(str.isalpha, chars)) / len(chars)
    if asks:
        return plain >= _ASKING_PLAIN_SHARE * len(words) and letters >= _ASKING_LETTER_SHARE
    return plain >= _PLAIN_SHARE * len(words) and letters >= _LETTER_SHARE


def is_labelled(line: str) -> bool:
    """Return whether a line begins with a label, as in the head of an e-mail."""
    return _LABEL.match(line) is not None


_ASKS = re.compile(
    r"""\W*(?:(?:hi|hey|hello|hei|so|and|but|ok|okay|also|now|then|please|og|men|så)[\s,]+)?(?:
        what|when|where|who|whom|whose|which|why|how
      | (?:can|could|would|will|should|do|does|did|is|are|was|were|has|have|had|may|might)\s
        (?:you|we|i|it|he|she|they|there|this|that|these|those|the|my|our|any|anyone|someone|(?-i:[A-Z]))
      | (?:tell|show|give|remind|help|walk)\s(?:me|us)
      | list|name|explain|describe|summari[sz]e|compare|find|identify|outline
      | hva|når|hvor|hvem|hvilke[nt]?|hvorfor|hvordan
      | (?:kan|kunne|skal|vil|har|er|var|finnes|gjør)\s(?:du|vi|jeg|det|den|han|hun|de|noen|(?-i:[A-Z]))
      | (?:fortell|vis|gi|minn|hjelp)\s(?:meg|oss)
      | list\sopp|nevn|forklar|beskriv|oppsummer|sammenlign
    )(?![\w:(=])""",
    re.VERBOSE | re.IGNORECASE,
)


def is_asking(sentence: str) -> bool:
    """Return whether a sentence asks for something, in English or Norwegian, or ends in a question mark."""
    said = sentence.rstrip(" \t\r\"'”’)*_")
    if said.endswith(("?", "？", "؟")):
        return True
    return _ASKS.match(sentence) is not None and not said.endswith((";", "{", ":", ","))
