"""Find what a question is about, apart from its words about the conversation itself and about the answer."""

import re
from collections.abc import Iterable

_FRAMING = re.compile(
    r"""
      (?:(?:can|could|would|will)\ you\ )?(?:please\ )?
      (?:(?:list|give\ me|tell\ me|show\ me|remind\ me\ of|walk\ me\ through)\ )?
      (?:the\ order\ in\ which|in\ order\ how|in\ (?:what|which)\ order\ did)\ (?:I|we)\ (?:first\ )?
      (?:br(?:ought|ing)\ up|mention(?:ed)?|discuss(?:ed)?|raised?|talk(?:ed)?\ about)\b
      (?:\ (?:the\ )?(?:different|various)\ (?:\w+\ )?
         (?:aspects|concepts|ideas|parts|sides|topics|ways)\b(?:\ (?:about|of|related\ to)\b)?)?
    | ,?\ (?:across|during|in|over|throughout)\ (?:all\ (?:of\ )?)?our\ (?:chat|conversation|discussion)s?\b
      (?:,?\ in\ order\b)?
    | (?<=[.?!])\s*(?:please\ )?(?:list|mention|name)\ only\b[^.?!]*[.?!]?\s*$
    | (?:(?:kan|kunne|vil)\ du\ )?
      (?:(?:liste?(?:\ opp)?|gi\ meg|fortell(?:e)?\ meg|vise?\ meg|minne?\ meg\ på)\ )?
      (?:rekkefølgen|i\ hvilken\ rekkefølge)\ (?:som\ )?(?:jeg|vi)
      \ (?:diskuterte|nevnte|snakket\ om|tok\ opp)\b
      (?:\ (?:de\ )?(?:forskjellige|ulike)\ (?:\w+\ )?
         (?:deler|emner|sider|temaer)\b(?:\ (?:av|i|innen|om|ved)\b)?)?
    | ,?\ (?:gjennom|i(?:\ løpet\ av)?|under)\ (?:alle\ )?(?:diskusjonen|samtalen)e?\ våre?\b
      (?:,?\ i\ rekkefølge\b)?
    | (?<=[.?!])\s*(?:list\ opp|nevn)\ (?:bare|kun)\b[^.?!]*[.?!]?\s*$
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Questions about the order of a conversation, references to it, and the wanted form of the answer."""
_ABOUT_TALK = re.compile(
    r"""(?<!\w)(?:
      summari[sz]e[sd]?|sum\ up|put\ forward|presentations?|present(?:ed|ing)|conversations?|conclusions?
    | opinions?|views?|attitudes?|thoughts?|thought|think(?:s|ing)?|sa(?:id|ys?|ying)|decisions?|meetings?
    | (?:dis)?agree(?:d|s|ing)?|discuss(?:e[sd]|ing|ions?)?|debat(?:e[sd]?|ing)|conclud(?:e[sd]?|ing)
    | describ(?:e[sd]?|ing)|propos(?:e[sd]?|ing)|reflect(?:ed|ing)?\ on|team|group(?:\ mates?)?
    | (?:talk|mention|explain|recommend|suggest|assess|question)(?:s|ed|ing)?|learn(?:s|ed|t)?
    | oppsummer(?:e|er|t|te|ing|ingen)?|sammendrag(?:et)?|presentasjon(?:en|er|ene)?|samtale[nr]?
    | konklusjon(?:en|er|ene)?|diskusjon(?:en|er|ene)?|diskuter(?:e|er|te|t)?|snakk(?:e|er|et)?
    | mening(?:en|er|ene)?|synes|syntes|mener|mente|tenker|tenkte|sa|sier|sagt|nevn(?:er|te|t)
    | forklar(?:er|te|t)|foreslår|foreslo|foreslått|anbefal(?:er|te|t)|møte[tr]?|møtene|teamet|grupp(?:a|en)
    )(?!\w)""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words about the conversation itself, English and Norwegian."""
_CONTENT = re.compile(
    r"\b(?!(?:what|when|where|which|whom|whose|does|were|have|with|that|they|their|this|about|from"
    r"|hvem|hvor|hvilke[nt]?|disse|dette|deres|over|under)\b)\w{4}",
    re.IGNORECASE,
)
"""The first letters of a word that can be the subject of a question."""


def without_framing(question: str) -> str:
    """Return the question without phrases like "the order in which I brought up" and "in our conversations".

    No record resembles such a phrase, so even the right ones would seem to be about something else.
    """
    subject, found = _FRAMING.subn(" ", question)
    return _unless_empty(subject, question) if found else question


def subject_of(question: str) -> str:
    """Return the question without words about the conversation itself, such as "summarize the discussion".

    Such words rarely occur in the discussion, so they would find other records. If nothing is left to look
    for, return the whole question.
    """
    return _unless_empty(_ABOUT_TALK.sub(" ", question), question)


def _unless_empty(subject: str, question: str) -> str:
    subject = " ".join(subject.split())
    return subject if _CONTENT.search(subject) else question


def without_names(question: str, names: Iterable[str]) -> str:
    """Return the question without the names and their possessive endings."""
    for name in sorted(names, key=len, reverse=True):
        question = re.sub(rf"(?<!\w){re.escape(name)}(?:['’]s)?(?!\w)", "", question, flags=re.IGNORECASE)
    return question
