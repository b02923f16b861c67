"""Tell statements from names and headings by their verb, and find words that limit or retract them."""

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache

from contextopt.engine.text.entities import Entity, words_of
from contextopt.engine.text.lexical import stem
from contextopt.engine.text.sentences import is_unfinished

MIN_CONTENT = 2
"""Minimum words of a statement without names, not counting words that are in every text."""

FOREIGN_WORDS = 5
"""Minimum words of a statement in a language whose verbs are not known."""

_AUXILIARIES_WORDS = """
am is are was were be been being has have had do does did done can cannot could will would shall should
may might must let lets 's it's that's he's she's there's here's what's who's let's er var vært være blir
ble blitt bli har hadde hatt ha kan kunne skal skulle vil ville må måtte bør burde får fikk fått
"""
_AUXILIARIES = frozenset(_AUXILIARIES_WORDS.split())
_ENGLISH_WORDS = """
accept access achieve act adapt add address adjust adopt affect agree aim align allow announce answer
appear append apply approve archive arrive ask assert assign assume attach avoid back become begin belong
break bring build bump buy cache calculate call cancel capture carry cast catch cause change charge check
choose clarify clean clear close collect combine come comment commit compare compile complete compress
compute configure confirm connect consider contain continue contribute control convert copy correct cost
count cover crash create cut decide declare default define delete deliver depend deploy deprecate
describe design detect determine disable discuss display document draw drop duplicate emit enable encode
end enforce ensure enter escape evaluate exclude execute exist expand expect explain export expose extend
extract fail fall feel fetch fill filter find finish fit fix flag flatten follow force format forward
generate get give go grow guard guess handle happen help hide highlight hold ignore implement import
improve include increase index inherit insert install integrate introduce invalidate invoke involve issue
join keep know lead learn leave link list listen live load lock log look lose lower maintain make manage
mark match matter mean meet mention merge migrate miss modify mount move need normalize normalise note
notify offer omit open optimize order override own parse pass patch pay perform persist pick pin place
plan point prefer prepare prevent print process produce promise propose protect prove provide publish
pull push put raise rank reach read rebuild receive recommend record redirect reduce refactor refer
refine reflect refresh refuse register reject relate release rely remain remember remind remove rename
render reorder repeat replace report represent require reset resolve respect respond restart restore
restrict retry return reuse revert review rewrite rotate round run save say scan see seem select sell
send serialize serve set share ship shorten show sign simplify skip sort specify speed split start state
stay stop store strip suggest support suppose suppress survive swap switch sync take talk target tell
test think throw tidy track treat trigger trim try tune turn tweak type understand undo unify untag
update upgrade upload use vacuum validate verify vote wait want warn watch wonder work wrap write yield
went gave took came made said told thought knew found kept left lost meant met paid put ran saw sent sold
spent stood taught understood wrote written built bought brought broke broken began became chose chosen
drew ran drawn fell felt got gotten held hidden led lay let read rose shown spoke stuck swapped threw
thrown won
"""
_ENGLISH = _ENGLISH_WORDS.split()
_NORWEGIAN_WORDS = """
avvis behold bekreft beskriv bety bruk bytt bygg dekk del eksporter endr erstatt fikk finn fjern fjerner
flytt fung fungerer følg før gi gir gikk gjeld gjelder gjenta gjør gjorde godta hent hold hopp importer
innehold kall kom kommer kontroller koster krev kreve kriv kjør kryptér lagr last legg lag les lever ligg
loggfør lukk lås mang mangl markér meld merk mist mål møt nevn oppdat oppdater opprett overskriv pass
planlegg prøv rett returner roter rull rydd samle se send ser sett si sier sjekk skann skriv slett slipp
slå spor start stemm stopp støtt svar ta tar tenk test tillat tok tom tro tror tømm ta tilb trenger utløp
utvid varer velg vent verifis vis vise åpn
"""
_NORWEGIAN = _NORWEGIAN_WORDS.split()
_STEMS = frozenset(_ENGLISH) | frozenset(map(stem, _ENGLISH))
_NORWEGIAN_STEMS = frozenset(_NORWEGIAN)
_NORWEGIAN_ENDING = re.compile(r"(?:eres|ere|ene|ert|er|es|et|te|de|dde|ne|e|t|r)$")
_PAST = re.compile(r"[a-z]{2,}(?:[^e]ed|ised|ized|ied)$")
_WORD = re.compile(r"[^\W\d_]+(?:[’'][^\W\d_]+)?|['’][a-z]+")
_LINK = re.compile(r"\[[^\]]*\]\([^)]*\)\W*")
_REFERENCE = re.compile(r"#\d+$")
_REFERRING_WORDS = """
close closes closed fixes fixed resolves resolved refs also commits changelog thanks issue
"""
_REFERRING = frozenset(_REFERRING_WORDS.split())
_EMPTY_WORDS = """
disfmarker vocalsound nonvocalsound
that this these those there here with have from they them their what when where which will would could
should about been being were your you're it's that's don't didn't isn't think know just like really okay
yeah well good right alright something anything everything some more most much many very also into over
only then than because want thing things going kind sort maybe probably actually basically mean sure make
does doing done didn said says guess even still such other each yes gonna wanna dunno course fine nice
great thank thanks sorry dette disse skal ville kunne være vært blir ble eller ikke også bare noen noe
hvor hva mine dine deres veldig
"""
_NUMBER_WORDS = """
one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand point
percent to tre fire fem seks syv sju åtte ni ti elleve tolv tjue tretti førti femti hundre tusen komma
prosent
"""
_NUMBERS = frozenset(_NUMBER_WORDS.split())
_EMPTY = frozenset(_EMPTY_WORDS.split())
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")
# Frequent words of the two languages whose verbs are known.
_KNOWN = re.compile(
    r"\b(?:the|of|and|to|in|on|for|with|from|that|this|it|you|we|they|a|an|"
    r"og|på|som|til|av|med|fra|det|den|de|et|en|ikke|jeg|vi|i)\b",
    re.IGNORECASE,
)


def has_predicate(text: str) -> bool:
    """Return whether the text has a verb, as far as its language is known."""
    words = _WORD.findall(text.lower())
    if any(map(_is_verb, words)):
        return True
    return not _LATIN.search(text) or (len(words) >= FOREIGN_WORDS and not _KNOWN.search(text))


def tells(text: str, entities: Sequence[Entity]) -> bool:
    """Return whether a text with these names is a statement: it has a verb, and a name or some content words.

    A reference is not enough ("Closes #12").
    """
    if is_unfinished(text) or _LINK.fullmatch(text):
        return False
    rest, after = [], 0
    for entity in entities:
        rest.append(text[after : entity.start])
        after = entity.end
    besides = " ".join([*rest, text[after:]])
    if not any(map(str.isalpha, besides)) or not has_predicate(besides):
        return False
    if any(entity.kind != "address" and not _REFERENCE.match(entity.text) for entity in entities):
        return True
    return len(content_words(besides) - _REFERRING) >= MIN_CONTENT


def content_words(text: str) -> frozenset[str]:
    """Return the words of a text that are not in every text; single characters if its script has no blanks.

    A text of numbers only has none.
    """
    words = frozenset(words_of(text)) - _EMPTY
    return words if words - _NUMBERS else frozenset()


@lru_cache(maxsize=20_000)
def _is_verb(word: str) -> bool:
    word = word.replace("’", "'")
    if word in _AUXILIARIES or word.endswith(("n't", "'re", "'ve", "'ll", "'m", "'d")):
        return True
    if word in _STEMS or stem(word) in _STEMS or _PAST.match(word):
        return True
    return _NORWEGIAN_ENDING.sub("", word) in _NORWEGIAN_STEMS or word in _NORWEGIAN_STEMS


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
_WORD_OF_ANY_SCRIPT = re.compile(r"[^\W\d_\u3040-\u30ff\u3400-\u9fff]+(?:[’'][^\W\d_]+)?")


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
        self.words = frozenset(_WORD_OF_ANY_SCRIPT.findall(self._lower))

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
