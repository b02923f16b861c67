"""Detect English or Norwegian, well enough to choose a stemmer, from function words and letters."""

import re
from typing import Literal

type LanguageCode = Literal["en", "no"]

READ_MAX = 400
"""Only this many characters of each text are read, since the first sentences are enough."""

_WORD = re.compile(r"[^\W\d_]+")
# Words that both languages have (for, i, at, over, under, den, her, men, far) are left out.
_ENGLISH_WORDS = """
the of and to is are was were with that this it its from by on as be been has have had not or an which will
would when after before they we you he she there their than then into should could can do does did if but no
all any each about what who why how our your my me us these those while where because so
"""
_NORWEGIAN_WORDS = """
og ikke det som på til av er med har jeg vi et ei fra kan skal vil må når også bare eller etter ble blir blitt
være vært denne dette disse hva hvordan hvorfor hvem hvis hvor mot inn ut opp seg sin vår vårt våre før noe
noen alle mange så nå ved om hos mellom uten fordi mens både enten enn skulle ville kunne måtte gjør gjøre
gjort får fikk gikk går lag legg fiks feil feilen ny nye nytt dere deg meg oss dem deres aldri alltid igjen
siden derfor slik sånn ingen af hvad blev efter nogle mod kun altid
"""
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_NORWEGIAN = frozenset(_NORWEGIAN_WORDS.split())
_NORDIC_LETTER = re.compile("[æøå]")


def detect_language(*texts: str) -> LanguageCode:
    """Return "no" for text that reads more like Norwegian or Danish than English, else "en"."""
    text = " ".join([text[:READ_MAX] for text in texts]).lower()
    words = set(_WORD.findall(text))
    nordic = len(words & _NORWEGIAN)
    if not text.isascii():
        nordic += sum(1 for word in words - _NORWEGIAN if _NORDIC_LETTER.search(word))
    return "no" if nordic > len(words & _ENGLISH) else "en"
