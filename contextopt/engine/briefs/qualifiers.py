"""Words that limit or retract a statement: denials, exceptions, conditions, doubts, statuses.

They only decide which sentences of a text are kept together, since sentences are never cut. A superfluous
word makes a brief longer; a missing one could separate a sentence from its exception.
"""

import re
from functools import cached_property

# A stem that ends in "*" matches all words that begin with it.
_EXCEPTING = """
except* exempt* exclud* excl omit* besides barring minus aside apart differ* otherwise another unlike
unntatt unntak* utenom utelat* utelukk* utenfor ekskl derimot annerledes ellers außer ausgenommen sauf
excepto кроме

but however although though instead rather yet still despite merely men imidlertid likevel selv
istedenfor istedet aber sondern jedoch mais pero но однако
"""
_LIMITING = """
no nope not never none nothing nobody neither nor cannot without unable fail fails failed failing lack
lacks lacking missing nowhere hardly barely few rarely seldom ikke nei ingen ingenting intet aldri uten
hverken verken mangler sjelden icke inte aldrig utan ikkje nicht kein* nie niemals ohne ne pas jamais
aucun* sans nunca jamás sin ningun* não nem sem niet geen nooit zonder не нет ни никогда без

unless until only provided providing assuming subject pending depends depending condition* caveat*
restrict* limit* bare kun inntil forutsatt forutset* forutsetning* betinge* vilkår* forbehold* begrens*
såfremt såframt nur sofern seulement sólo solo только

false untrue incorrect wrong mistake* myth* refut* disprov* disproved debunk* doubt* unverified
unconfirmed unproven untested invalid bogus retract* revert* outdated obsolete deprecated rejected
reject* declined postponed deferred abandon* dropped withdrawn cancel* shelv* scrap* overturn* overrul*
supersed* unfounded baseless blocked forbidden disabled off usann* uriktig* galt feil motbevis*
tilbakevist* tvil* myte* ubekreftet avvis* avvist* forkast* utsatt avlyst trukket skrinlagt skrot*
droppet grunnløs* blokkert forbudt* utdatert* foreldet abgelehnt* veraltet* rejeté*

لا لم لن ليس ليست غير بدون دون إلا لكن فقط مرفوض مؤجل ولا ولم ولن وليس ولكن לא אין בלי אבל רק नहीं मत
लेकिन केवल
"""
_HEDGING = """
if when where while once whenever given hvis dersom når hvor mens wenn falls si если إذا אם यदि may might
could would can should possibly perhaps maybe probably likely unlikely apparently presumably allegedly
supposedly seem* appear* suggest* assum* suppos* unclear unknown uncertain roughly approximately about
around nearly almost mostly usually often sometimes partly suspect* believe* think guess* estimated
potential* claim* rumour* rumor* kan kanskje muligens trolig sannsynligvis antakelig antagelig visstnok
virker tilsynelatende omtrent cirka ca nesten ofte kunne ville burde uklar* ukjent* usikker* anta* påstå*
vielleicht möglicherweise wahrscheinlich vermutlich könnte* kann etwa fast unklar peut probablement
pourrait environ semble* quizá quizás podría* puede* aproximadamente parece* возможно вероятно может
примерно must shall require* optional* mandatory open unresolved resolved planned draft experimental todo
wip proposed proposal status verdict verified valid holds true confirmed må skal bør valgfri* åpen
uavklart avklart planlagt utkast foreslått forslag gyldig bekreft* sann gjelder applies apply scope
applicable قد ربما يمكن يحتمل وقد وربما אולי ייתכן शायद
"""
_PHRASES = (
    "save for", "other than", "as long as", "so long as", "in case", "with the exception",
    "at least", "in theory", "so lenge", "så lenge", "med mindre", "bortsett fra", "sett bort fra",
    "så nær som", "i tilfelle",
    "mind that", "do so", "det er sagt", "note that", "beware", "ruled out", "that is.",
    "det vil si.", "i alle fall", "the other way round", "merk at", "lagt bort", "i det minste",
    "i teorien", "stemmer ikke",
)  # fmt: skip
# Scripts that do not separate words.
_JOINED = re.compile(
    "[不没沒无無未非勿别別]|可能|也许|也許|或许|或許|大概|大约|大約|似乎|好像|除非|如果|但是|但|只有|仅|必须|必須|应该|應該"
    "|除外|例外|ない|なく|ません|かもしれ|おそらく|たぶん|않|없|못"
)
_WORD = re.compile(r"[^\W\d_\u3040-\u30ff\u3400-\u9fff]+(?:[’'][^\W\d_]+)?")


class _Words:
    """Words and stems to look for in a text."""

    def __init__(self, words: str) -> None:
        every = words.split()
        self.plain = frozenset(word for word in every if not word.endswith("*"))
        self.stems = tuple(word[:-1] for word in every if word.endswith("*"))
        self.starts = frozenset(stem[:3] for stem in self.stems)

    def are_in(self, words: frozenset[str]) -> bool:
        if not self.plain.isdisjoint(words):
            return True
        return any(word[:3] in self.starts and word.startswith(self.stems) for word in words)


_EXCEPTIONS = _Words(_EXCEPTING)
_LIMITS = _Words(_EXCEPTING + _LIMITING)
_HEDGES = _Words(_HEDGING)


class Wording:
    """A text, and whether its words limit or retract the sentences beside it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lower = text.lower()
        self.words = frozenset(_WORD.findall(self._lower))

    @cached_property
    def excepts(self) -> bool:
        """Return whether the text makes an exception or a contrast, to one sentence or to more."""
        return _EXCEPTIONS.are_in(self.words) or self._has_phrase

    @cached_property
    def takes_back(self) -> bool:
        """Return whether the text denies, excepts, restricts, contrasts or rejects something."""
        if "n't" in self._lower or "n’t" in self._lower or _LIMITS.are_in(self.words) or self._has_phrase:
            return True
        return not self.text.isascii() and bool(_JOINED.search(self.text))

    @cached_property
    def qualifies(self) -> bool:
        """Return whether the text takes something back, or is a condition, a doubt or a status."""
        return self.takes_back or _HEDGES.are_in(self.words)

    @cached_property
    def _has_phrase(self) -> bool:
        return any(phrase in self._lower for phrase in _PHRASES)
