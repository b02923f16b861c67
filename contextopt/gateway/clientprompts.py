"""Recognises what a client writes in a person's place.

It sends prompts to itself, for titles, summaries, compaction, topics, suggestions. They ask for a text about
the conversation, and fix its form as templates do. People ask for summaries too, but they rarely say how
long, in which format and without what, all at once. So such a prompt needs both: a sentence that asks for
such a text, at its beginning or end, and at least two kinds of rules for the answer.

And it adds texts to a person's conversation, after a compaction for example.
"""

import re
from collections.abc import Sequence

from contextopt.gateway.prompts import Prompt

# A template's subject, such as a whole chat, stands between its beginning and its end.
EDGE_CHARS = 1_500
RULES_MIN = 2
# A short text has to look even more like a template.
SHORT_CHARS = 300

_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?:\]])\s+|\n")
_MARKUP = " \t#*_>[(-=\"'"
_REQUEST = re.compile(
    r"(?:suggestion mode|your (?:only )?(?:task|job|goal)|you(?:'re| are| will| must| should)|please|briefly|"
    r"generate|create|write|provide|produce|summari[sz]e|suggest|analy[sz]e|determine|decide|extract|compact|"
    r"condense|give|based on|given|return|respond|reply|output)\b",
    re.IGNORECASE,
)
_TEXT = re.compile(
    r"\btitles?\b|\bsummar|\bcompact(?:ion|ing)?\b|\bcheckpoint|\bhand-?off|\btopic|\bfollow-?ups?\b|"
    r"\bsuggest|\btags\b|\bcommit messages?\b|\bbranch name|\b(?:search )?queries\b|\bcondens|"
    r"\bprompt for continuing\b|\bresponse based\b",
    re.IGNORECASE,
)
_SUBJECT = re.compile(
    r"\b(?:conversation|chat|session|thread|transcript|dialogue|context window|another (?:llm|model|agent)|"
    r"messages?\b|content above|users?(?:'s)? (?:input|request|prompt|query|might|would|will)|diffs?\b)",
    re.IGNORECASE,
)
_RULES = tuple(
    re.compile("|".join(rules), re.IGNORECASE | re.MULTILINE)
    for rules in (
        # The answer and nothing else.
        (
            r"\b(?:only|just|nothing but)\b[^.\n]{0,40}\b(?:respon|repl|output|return|title|summary|text\b)",
            r"\b(?:respond|reply|output|return|answer)\b[^.\n]{0,40}\b(?:only|just|nothing|exactly|solely)\b",
        ),
        # Its length.
        (
            r"\d+\s?(?:-|–|to|or)\s?\d+[ -](?:word|char|sentence)",
            r"\b(?:under|than|most|up to|exceed|within|max\w*|limit\w*)\W+(?:\w+\W+)?\d+[ -]?(?:char|token)",
            r"\b\d+[ -]words?\b|\bconcise\b|\bone[ -]line\b|\bsingle line\b",
        ),
        # Its format.
        (r"\bjson\b|</?[a-z][\w-]+>|\{\{|\bmarkdown\b|\b(?:sentence|title)[ -]case\b",),
        # Its exclusions.
        (
            r"\b(?:not|don't|never|without|no)\b[^.\n]{0,30}\b(?:tools?|quot\w+|explan\w+|preamble|prefix)\b",
            r"\b(?:not|don't|never|without|no)\b[^.\n]{0,30}\b(?:formatting|comment\w*|emojis?|punctuation)\b",
            r"\b(?:not|don't|never)\b[^.\n]{0,30}\b(?:answer|respond|ask|mention|include|call|use)\b",
        ),
        # A list of rules or sections.
        (r"(?:^[ \t]*(?:#+|\d+[.)]|[-*•])[ \t][^\n]*\n+){2}[ \t]*(?:#+|\d+[.)]|[-*•])[ \t]",),
        # Emphasis.
        (r"(?-i:\b(?:MUST|DO NOT|ONLY|NEVER|IMPORTANT|CRITICAL|ALWAYS)\b)",),
        # A heading for them.
        (r"^\W*(?:examples?|guidelines?|rules?|instructions?|task|output(?: format)?)\b\W*$",),
    )
)


def is_client_internal(prompt: Prompt, phrases: Sequence[str] = ()) -> bool:
    """Tell whether a client sends a prompt to itself.

    Its last text is such a template, or its system prompt is one, it offers no tools, and nothing was
    answered yet. An answer of a single token is no answer to a person. A team can add phrases that such
    prompts contain.
    """
    last, system = prompt.turns[-1].text, prompt.system_text()
    if phrases and any(_plain(phrase) in _plain(text) for phrase in phrases for text in (last, system)):
        return True
    least = RULES_MIN + (len(last) < SHORT_CHARS)
    edges = {last[:EDGE_CHARS], last[-EDGE_CHARS:]}
    if prompt.answer_tokens == 1 or any(_is_template(edge, least) for edge in edges):
        return True
    is_begun = sum(not item.is_system for item in prompt.items) > len(prompt.turns)
    return not prompt.tools and not is_begun and _is_template(system[:EDGE_CHARS])


_OPENING_CHARS = 600
_HANDOVER = (
    re.compile(r"\b(?:summar[iy]|hand-?off|handover|checkpoint|compact)", re.IGNORECASE),
    re.compile(
        r"\b(?:language|different|another|other|previous|earlier|prior) (?:model|llm|agent|assistant)\b|"
        r"\banother language model\b|\bcontext (?:window|limit|length)\b|\bout of (?:context|tokens|room)\b",
        re.IGNORECASE,
    ),
    re.compile(
        r"\b(?:here is|here's|below|following|produced|this is|was|were|has been|have been)\b", re.IGNORECASE
    ),
)
_GO_ON = re.compile(
    r"(?:please )?(?:continue|proceed|resume|go on|carry on|keep (?:going|working))\b", re.IGNORECASE
)
_GO_ON_CHARS = 300
_GO_ON_TEXT = """
a all and any anything are as ask carry clarification clear clearer continue do does doing done else for
further go going have how if in instructions is it keep left more needed need needs next no not of on or
otherwise please proceed remaining resume step steps still stop task tasks that the there things this to
uncertain unclear unsure until up wait what with work working you your
"""
_GO_ON_WORDS = frozenset(_GO_ON_TEXT.split())
_WORDS = re.compile(r"[^\W\d_]+")


def says_go_on(text: str) -> bool:
    """Tell whether a text lets the model go on by itself or ask, and names nothing to go on with.

    People speak of themselves or of their work ("go on with the deploy, or ask me").
    """
    said = text.strip()
    if len(said) > _GO_ON_CHARS or not _GO_ON.match(said):
        return False
    words = {word.casefold() for word in _WORDS.findall(said)}
    return words <= _GO_ON_WORDS and "if" in words and not words.isdisjoint({"ask", "stop", "wait"})


def is_handover(text: str) -> bool:
    """Tell whether a text begins as the summary of a conversation that was cut, written by another model."""
    opening = text.strip()[:_OPENING_CHARS]
    return not text.rstrip().endswith("?") and all(sign.search(opening) for sign in _HANDOVER)


def _is_template(text: str, least: int = RULES_MIN) -> bool:
    """Tell whether a text asks for another about a conversation, with at least so many kinds of rules."""
    text = _FENCED.sub(" ", text)
    sentences = [sentence.lstrip(_MARKUP) for sentence in _SENTENCE_END.split(text)]
    asks = any(
        _REQUEST.match(sentence) and _TEXT.search(sentence) and _SUBJECT.search(sentence + following)
        for sentence, following in zip(sentences, [*sentences[1:], ""], strict=True)
    )
    return asks and sum(rule.search(text) is not None for rule in _RULES) >= least


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
