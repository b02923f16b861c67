"""Titles of found texts and the passages that contain the question's words, as plain runs of text."""

import string
from collections.abc import Sequence
from typing import NamedTuple

from contextopt.search.registry import Searchable
from contextopt.search.words import TERMS_MAX, Lexemes, quoted
from contextopt.sql import fetch_all

READ_MAX = 20_000
# Characters that no stored text should contain; any that do occur are removed here.
BEGIN, END = "\x02", "\x03"
GAP = " … "
MARKS = f"StartSel={BEGIN}, StopSel={END}"
WHOLE = f"{MARKS}, HighlightAll=true"
PASSAGES = f'{MARKS}, MaxWords=36, MinWords=18, MaxFragments=2, FragmentDelimiter="{GAP}"'
# Texts up to this many characters are shown whole.
WHOLE_MAX = 240
TITLE_MAX = 160
# Read only this many characters from each end, to see whether a passage leaves anything out there.
ENDS = 60


class Run(NamedTuple):
    """A piece of a text, and whether it matches a word of the question."""

    text: str
    is_match: bool


class Snippet(NamedTuple):
    """A row's title and matching passages, or the text's beginning if no word matches.

    Text left out before and after is marked "…".
    """

    title: tuple[Run, ...] = ()
    passages: tuple[Run, ...] = ()


def load_snippets(searchable: Searchable, ids: Sequence[int], lexemes: Lexemes) -> dict[int, Snippet]:
    """Return the snippet of each row, in one query."""
    if not ids:
        return {}
    title, body = searchable.text_columns[0], searchable.text_columns[-1]
    asked = {code: " | ".join(map(quoted, found[: 2 * TERMS_MAX])) for code, found in lexemes.items()}
    rows = fetch_all(
        f"""
        SELECT t.id,
               ts_headline(q.language, translate(left(t.{title}, {TITLE_MAX}), %(signs)s, ''), q.words,
                           %(whole)s) || CASE WHEN length(t.{title}) > {TITLE_MAX} THEN '…' ELSE '' END,
               ts_headline(q.language, translate(left(t.{body}, {READ_MAX}), %(signs)s, ''), q.words,
                           CASE WHEN length(t.{body}) <= {WHOLE_MAX} THEN %(whole)s
                                ELSE %(passages)s END),
               left(ltrim(t.{body}, %(blanks)s), {ENDS}), right(rtrim(t.{body}, %(blanks)s), {ENDS})
          FROM {searchable.table} t
         CROSS JOIN LATERAL (
               SELECT contextopt_search_config(t.language) AS language,
                      CASE t.language WHEN 'no' THEN %(no)s ELSE %(en)s END::tsquery AS words) AS q
         WHERE t.id = ANY(%(ids)s::bigint[])
        """,
        {
            "ids": list(ids),
            "signs": BEGIN + END,
            "no": asked.get("no", ""),
            "en": asked.get("en", ""),
            "whole": WHOLE,
            "passages": PASSAGES,
            "blanks": string.whitespace,
        },
    )
    return {
        row_id: Snippet(split_runs(title), split_runs(mark_gaps(text, first, last)))
        for row_id, title, text, first, last in rows
    }


def mark_gaps(marked: str, first: str, last: str) -> str:
    """Put "…" before passages that start after the text's beginning, and after those that stop before its
    end.
    """
    shown = marked.replace(BEGIN, "").replace(END, "").strip()
    first, last = (end.replace(BEGIN, "").replace(END, "") for end in (first, last))
    before = "" if shown.startswith(first[: len(shown)]) else GAP.lstrip()
    after = "" if not shown or shown.endswith(last[-len(shown) :]) else GAP.rstrip()
    return f"{before}{marked.strip()}{after}"


def split_runs(marked: str) -> tuple[Run, ...]:
    """Split a text at its marks. The runs hold no markup: a page escapes each of them."""
    first, *rest = marked.split(BEGIN)
    runs = [Run(first, is_match=False)]
    for piece in rest:
        match, _, after = piece.partition(END)
        runs += [Run(match, is_match=True), Run(after, is_match=False)]
    return tuple(run for run in runs if run.text)
