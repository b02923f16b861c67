"""Find the lines of a build or test log that report a failure, and how clearly they do.

The forms are general: those in which compilers, test runners, package managers, shells and CI services print
failures.
"""

import re
from enum import IntEnum


class Marker(IntEnum):
    """The kind of failure a line reports; a higher value is clearer."""

    NONE = 0
    MENTION = 1
    """The line only contains an error word."""
    DETAIL = 2
    """The place of the failure, the expected value, or the actual value."""
    EXIT = 3
    """Something ended with a code."""
    TROUBLE = 4
    """Something could not be done."""
    SUMMARY = 5
    """The number of failures."""
    ERROR = 6


_TRIGGERS = (
    "error", "fail", "fatal", "exception", "panic", "traceback", "err!", "fault", "critical", "severe",
    "abort",
    "denied", "not found", "no such", "timed out", "timeout", "refused", "cannot", "can't", "could not",
    "couldn't",
    "unable", "killed", "out of memory", "oom", "undefined", "caused by", "not accessible", "forbidden",
    "unauthorized", "mismatch", "invalid", "unexpected", "unresolved", "conflict", "exit", "expected",
    "received",
    "actual", "✕", "✖", "✗", "✘", "❌", "●", "***", "-->", "no tests", "problem", "unrecognized", "not ok",
    "×", "went wrong", "issue", "[e]",
)  # fmt: skip
# The word for an error in other languages, with which programs begin a line.
_LATIN_WORDS = (
    "fehler", "panik", "feil", "fejl", "fel", "erreur", "panique", "errore", "erro", "fallo", "fout", "virhe",
    "chyba", "hata", "hiba", "eroare",
)  # fmt: skip
_OTHER_WORDS = (
    "błąd", "lỗi", "pánico", "ошибка", "паника", "помилка", "грешка", "σφάλμα", "エラー", "致命的", "错误",
    "錯誤", "오류", "خطأ", "שגיאה",
)  # fmt: skip
_WORDS = "|".join([*_LATIN_WORDS, *_OTHER_WORDS])
_LEVELS = "|".join([*map(str.upper, _LATIN_WORDS), *map(str.upper, _OTHER_WORDS)])
_CAPITALS = "|".join(map(str.capitalize, _LATIN_WORDS))
# As a level of severity, near the start of a line; as the first word; or before a colon.
_ABROAD = re.compile(
    rf"""^.{{0,60}}?(?<![^\s\]>|:(│\[])(?:{_LEVELS})(?=[\s:;,!\])]|$)
      | ^\W*(?:{_CAPITALS})(?=[\s:;,!]|$)
      | (?:^|[\s\]>|:(│])(?i:{_WORDS})(?:\s?\[?[\w-]*\d\w*\]?)?\s*[::](?=\s|$)
    """,
    re.VERBOSE,
)
_ANY_WORD_ABROAD = re.compile(_WORDS, re.IGNORECASE)
# A number of errors. None is a success.
_COUNT_ABROAD = re.compile(
    r"(?:^|[\s(])([\d.,]+)\s(?:fehler|feil|fejl|fel|erreurs?|errores|errori|erros|fouten|ошиб\w{0,3})\b"
    r"|エラー\s?[::]?\s?(\d+)\s?(?:個|件)?",
    re.IGNORECASE,
)
_SHAPES = re.compile(
    r"""^(?:
        E[ ]{2,}\S                              # pytest's explanation
      | (?:\./)?[\w./\\@+-]+\.\w+:\d+:\d+:?\s   # file.go:12:5: …, as most compilers and linters print
      | [ \t]*+(?:\./)?[\w./\\@+-]+\.\w+:\d+:[^\d\n]  # file.py:12: …, indented under a test by Go
      | [ \t]+(?:at[ ].*:\d+|File[ ]".*",[ ]line[ ]\d+)
      | _{3,}[ ].+[ ]_{3,}$                     # pytest's heading of one failure
      | [ \t]*\d{1,3}\)[ ]+\S | [eE]:[ ]\S
      | [ \t]*[Ii]n[ ]"?[\w./-]++"?,?[ ]line[ ]\d   # in "file.yaml", line 12
      | [ \t#]*(?:got|want|left|right|got:.*|Got|Want|-|\+)[ ]*:.*
    )""",
    re.MULTILINE | re.VERBOSE,
)

# Alternatives with the same anchor are grouped behind it, so most positions need one check instead of forty.
_QUIET = re.compile(
    r"""^(?:\s*+(?:PASS(?:ED)?|OK|ok|SKIP(?:PED)?|XFAIL|XPASS|DEBUG|TRACE|INFO)\b | \s*+[✓✔√]\s
          | \s*+(?:\[\w+\]\s*)?(?:\[\s*\d+%\]\s*)?PASSED\b
          | \s*+[\w./\\-]+::[\w:]+(?:\[.*\])?\s*$
          | \s*+\[(?:DEBUG|INFO|TRACE)\](?!.*\b(?:(?-i:FAILED)|failed\ [1-9])\b)
          | \#\#\[(?:group|endgroup|debug|section|warning)\]
          | ::(?:group|debug|warning)
          | \s*+(?:shell|env|with):\s | \s*+set\s-[a-z]+\b
          | \s*+(?:Downloading|Downloaded|Collecting|Installing|Compiling|Linking|Fetching|Unpacking)\b
          | \s*+(?:Requirement|Get:\d)\b
          | >\ Task\ :\S++(?:\s(?:UP-TO-DATE|FROM-CACHE|NO-SOURCE|SKIPPED))?\s*$   # names of Gradle tasks
          | \s*+(?!(?-i:(?:\w++\.)*+[A-Z]\w*+:\s*$))(?=[\w.-]*(?:error|fail|exception))[\w.-]*+\s*+[:=]\s*+
              (?:true|false|null|none|\d+|(?>\S*://\S*))?\s*$
        )
      | ^\W*(?:\[\w+\]\s*+)?   # advice
          (?:Run\ with\ --|Re-run\ |For\ more\ (?:info|details|on)|To\ see\ the\ full\ |\[Help\ \d)
      | (?:\.\.\.\s*ok|\sPASSED(?:\s+\[\s*\d+%\])?)\s*$ | \bpipefail\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WARNING = re.compile(
    r"^\W*(?:npm )?warn(?:ing)?\b(?!.*treated as error)|\b(?:warning:|deprecat)|\[warn(?:ing)?\]",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"^\s*(?:echo|printf|if|elif|raise|throw|print|except|catch|return|assert|\#|//|\*)\b"
    r"|^\s*[#*]\s(?!\s*(?:Failed test|got:|expected:))"
)

_SUMMARY = re.compile(
    r"""[\d,](?<![\d,][\d,])(?>(?<=\b[1-9])|(?<=,)[1-9]|[\d,]*?,[1-9])[\d,]*+   # from a number's start
          \s+(?:\w+\s+)?(?:failed|fails?|failures?|errors?|failing|problems?|broken)\b
      | ^\W*[1-9]\d*\ issues?\b | ^[\Wℹ]*fail\ [1-9]\d*\s*$ | \b[1-9]\d*\ files?\ would\ be\ \w
      | \berrors?\ occurred\b | ^Result:\ FAIL | ^\W*(?:Failed|Failing)\ \w+:\s*$
      | \b(?:(?:failed|failures?|errors?|failing)(?:\s+tests?)?\s*[:=]\s*[1-9]
          | test\ result:\ FAILED | BUILD\ FAIL | COMPILATION\ ERROR
          | Build\ failed | Some\ tests\ failed | No\ tests\ (?:were\ )?found
        )
      | ^\s*FAILED\s*\(
    """,
    re.VERBOSE | re.IGNORECASE,
)
_EXIT = re.compile(
    r"""\b(?:exit(?:ed|ing)?\b[^.\n]{0,40}?\b(?:code|status|with)\b\D{0,8}[1-9]
          | return(?:ed)?\s+(?:code|non-zero)\b | ELIFECYCLE\b | Command\ failed\b
        )
      | ^make(?:\[\d+\])?:\ \*\*\*
    """,
    re.VERBOSE | re.IGNORECASE,
)
_ERROR = re.compile(
    r"""^(?:\W*(?:ERROR|FATAL|CRITICAL|SEVERE|ERR!?|Error)\b(?!\S)
          | \W*\[(?:ERROR|FATAL|CRITICAL|SEVERE)\]\s+\S | \W*(?:error|fatal)\s | \#\#\[error\]
          | ::error | E[ ]{2,}\S | \s*panic: | Traceback\ \( | \s*Caused\ by: | \s*Failure/Error:
          | \s*\*\*\ \( | \W*(?:FAIL|FAILED|FAILURE)\b(?!\s*$) | \s*not\ ok\ \d+ | \s*[✕✖✗✘❌×]\s
          | \s*●\s(?!Console) | \#\s+Failed\ test\b | [eE]:\s\S | \s+\d+:\d+\s+error\s | \s*Error\s+from\s
        )
      | (?:^|[\s\]>|:(│])(?:fatal\ error|fatal|error|panic)(?:\[[\w-]+\]|\s+[A-Z]{1,6}\d+)?\s*:(?=\s|$)
      | \b(?:npm\ (?:ERR!|error)\s | error\s+(?:TS|CS|C|LNK|MSB|NU|FS|BC)\d+ | ERR_\w+
          | (?:[A-Z]\w*)?(?:Error|Exception|Failure|Panic|Fault)\b(?=:|\s*$|\() | panicked\ at
          | CMake\ Error | Unhandled\b
          | (?:Segmentation\ fault|core\ dumped|Out\ of\ memory|OOMKilled|stack\ overflow)\b
        )
      | \.(?:\.\.\s*(?:FAILED|ERROR|mismatch)\b | \.{3}\s*Failed\b) | :\s+FAILED\b
      | \S\s++(?:\*\*\*\s)?(?:FAILED|FAILURE!?|ERROR!)(?:\s\*\*\*)?\s*$   # a test or a task that failed
      | \[\s*FAIL(?:ED|URE)?\s*\] | \s\[E\]\s*$ | \bwent\ wrong\b | \b[Aa]ssertion\b.{0,100}\ failed\b
      | ^\s*Failed\s+(?!(?:to|with|due|in|at|on|after|tests)\b)\w.*\s[\[(][<\d]
    """,
    re.VERBOSE,
)
_ANY_CASE_ERROR = re.compile(
    r"(?:^|[\s\]>|:(│])(?:fatal error|fatal|error)(?:\[[\w-]+\])?\s*:(?=\s|$)", re.IGNORECASE
)
_TROUBLE = re.compile(
    r"""\b(?:denied\b | command\ not\ found\b | no\ such\ (?:file|module|package)\b
          | (?:could|can|did|does|was|were|is|are)\s?n(?:o|')t\ (?:\w+\ )?(?:find|found|resolve|open|connect|
              load|read|install|accessible|exist|import|be\ \w+|compile|complete)
          | cannot\ (?:find|resolve|open|connect|load|read|access|import|be|use|assign|borrow|move)\b
          | unable\ to\ \w+ | failed\ (?:to|with|due|in|at|on|after)\b | timed\ out\b
          | connection\ (?:refused|reset)\b
          | undefined\ (?:reference|symbol|variable|method|name)\b | unresolved\b | killed\b
          | not\ accessible\b | HTTP(?:/[\d.]+)?[ ]?[45]\d\d\b
          | [45]\d\d\ (?:Bad|Internal|Service|Forbidden|Unauth|Not\ Found)
          | (?:unauthorized|forbidden)\b | did\ not\ complete\b | code\ style\ issues\b
          | would\ (?:be\ )?reformat | session\ \S+\ failed\b | Failed\ asserting\b
        )
      | ^undefined: | ^\s*\d{1,3}\)\s+\S   # the heading of one failure among several
    """,
    re.VERBOSE | re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"\b(?:retry|retrying|retried|ignored|ignoring|(?:attempt|try)\s\d+\s?(?:/|of)\s?\d+|falling back"
    r"|skipping|used instead|handled|allowed to fail|non-?fatal)\b",
    re.IGNORECASE,
)
"""Signs that the run continues in spite of the error."""
_WORD = re.compile(
    r"(?<![\w./\\-])(?:errors?|err|fail(?:s|ed|ing|ures?)?|fatal|exceptions?|faults?)(?![\w/\\-])",
    re.IGNORECASE,
)
"""An error word that is not part of a name or path."""
_NAMED = re.compile(r"error|fail|fatal|exception|fault", re.IGNORECASE)
_PLACE = re.compile(
    r"""^\s*+(?:(?:\./)?[\w./\\@+-]+\.\w+:\d+(?::\d+)?(?::|:?\s+)\S|[Ii]n "?[\w./-]++"?,? line \d)"""
)
_DETAIL = re.compile(
    r"""^\s*-->\s | ^\s+at\s.*:\d+ | ^\s*File\ ".*",\ line\ \d+ | ^_{3,}\ .+\ _{3,}$
      | ^\s*+(?:[-+\#]\s*+)?(?:Expected|Received|Actual|Got|Want|Left|Right)\b[^:\n]{0,24}:
    """,
    re.VERBOSE | re.IGNORECASE,
)


def find_candidates(text: str) -> list[int]:
    """Return offsets into the lines that may report a failure. The rest need no closer look."""
    low = text.lower()
    # In lower case, a few rare characters have another length, which would shift the offsets.
    if len(low) != len(text):
        low = text
    offsets = {match.start() for match in _SHAPES.finditer(text)}
    for trigger in (*_TRIGGERS, *_LATIN_WORDS, *(() if low.isascii() else _OTHER_WORDS)):
        at = low.find(trigger)
        while at >= 0:
            offsets.add(at)
            end = low.find("\n", at)
            at = low.find(trigger, end) if end >= 0 else -1
    return sorted(offsets)


def is_quiet(line: str) -> bool:
    """Return whether a line reports a success or gives general advice, whatever words it has."""
    return _QUIET.search(line) is not None


def classify(line: str) -> Marker:
    """Return the kind of failure that a log line reports, `Marker.NONE` if it reports none."""
    if is_quiet(line):
        return Marker.NONE
    if _SUMMARY.search(line):
        return Marker.SUMMARY
    is_abroad = _ANY_WORD_ABROAD.search(line) is not None
    if is_abroad and (counted := _COUNT_ABROAD.search(line)):
        return Marker.SUMMARY if (counted[1] or counted[2]).strip("0.,") else Marker.NONE
    is_warning = _WARNING.search(line) is not None
    if _EXIT.search(line):
        return Marker.MENTION if is_warning else Marker.EXIT
    if _CODE.search(line):
        return Marker.MENTION
    if _ERROR.search(line) or _ANY_CASE_ERROR.search(line) or (is_abroad and _ABROAD.search(line)):
        is_mild = _GOES_ON.search(line) or (is_warning and not line.startswith("E  "))
        return Marker.DETAIL if is_mild else Marker.ERROR
    if _TROUBLE.search(line):
        return Marker.DETAIL if is_warning or _GOES_ON.search(line) else Marker.TROUBLE
    return Marker.MENTION if is_warning else _classify_rest(line)


def _classify_rest(line: str) -> Marker:
    if _PLACE.match(line):
        return Marker.TROUBLE
    if _DETAIL.search(line):
        return Marker.DETAIL
    return Marker.NONE if _NAMED.search(line) and not _WORD.search(line) else Marker.MENTION
