"""The filters of the list of assemblies, and its pages: newest first, sorted by a figure, or with words."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django import forms
from django.db.models import Exists, OuterRef, Q, QuerySet

from contextopt.assemblies.figures import SORTS
from contextopt.assemblies.models import CONVERSATION_MAX, SLOW_MS, Assembly, AssemblyQuerySet, Kind
from contextopt.engine.agents.phases import MAX_PHASE_CHARS
from contextopt.engine.values import INSUFFICIENT
from contextopt.gateway.models import GatewayRequest
from contextopt.inputs import INT_MAX, read_digits
from contextopt.limits import MODEL_MAX
from contextopt.people.models import Team
from contextopt.spaces.configs import ContextConfig
from dashboard.kit.filters import AGENTS, STAGES, MomentField, SpaceFilterForm
from dashboard.kit.formats import code_words
from dashboard.kit.responses import PAGE_ROWS, Page, cursor_moment, newest_page
from dashboard.rollups.quarters import Narrowing, narrow

WARNINGS = [(code, code_words(code).capitalize()) for code in sorted(INSUFFICIENT)]
GATEWAY = "gateway"
HASH_START = re.compile(r"[0-9a-f]{6,64}")


class AssembliesForm(SpaceFilterForm):
    """Filters of the list of assemblies.

    `find` looks up an id, the start of a SHA-256, or a conversation; `words` searches questions and contexts;
    `live` makes the list follow the log.
    """

    chip_names = (
        "space", "kind", "phase", "stage", "truncated", "empty", "undelivered", "warning", "slow", "start",
        "end", "conversation", "config", "model", "source",
    )  # fmt: skip
    kind = forms.ChoiceField(
        choices=[("", "All kinds"), *Kind.choices, (AGENTS, "All agent contexts")], required=False
    )
    phase = forms.CharField(max_length=MAX_PHASE_CHARS, required=False, strip=False)
    stage = forms.ChoiceField(choices=[("", "All stages"), *STAGES], required=False)
    truncated = forms.ChoiceField(
        choices=[("", "Truncated or not"), ("yes", "Truncated"), ("no", "Not truncated")], required=False
    )
    empty = forms.ChoiceField(choices=[("", "Empty or not"), ("yes", "Empty")], required=False)
    undelivered = forms.ChoiceField(
        choices=[("", "Delivered or not"), ("yes", "Not delivered")], required=False, label="Delivery"
    )
    warning = forms.ChoiceField(choices=[("", "Any warning"), *WARNINGS], required=False)
    slow = forms.ChoiceField(
        label="Time", choices=[("", "Any assembly time"), ("yes", f"Over {SLOW_MS} ms")], required=False
    )
    source = forms.ChoiceField(choices=[("", "Any source"), (GATEWAY, "Gateway")], required=False)
    conversation = forms.CharField(max_length=CONVERSATION_MAX, required=False)
    config = forms.IntegerField(min_value=1, max_value=INT_MAX, required=False)
    model = forms.CharField(max_length=MODEL_MAX, required=False, strip=False)
    start = MomentField(label="From")
    end = MomentField(is_end=True, label="To")
    find = forms.CharField(max_length=200, required=False)
    words = forms.CharField(max_length=200, required=False)
    sort = forms.ChoiceField(
        choices=[("", "Newest first"), *((sort.slug, sort.label) for sort in SORTS)], required=False
    )
    live = forms.BooleanField(required=False)

    @property
    def first_space(self) -> str:
        """The slug of a space to use in examples; empty if the team has none."""
        return next(iter(self.spaces), "")

    @property
    def is_live(self) -> bool:
        """Whether the list follows the log. Sorted and searched lists cannot."""
        return self.is_valid() and bool(self.cleaned_data["live"]) and not (self.order or self.search_words)

    @property
    def order(self) -> str:
        return str(self.cleaned_data.get("sort", ""))

    @property
    def search_words(self) -> str:
        return str(self.cleaned_data.get("words", ""))

    def is_exportable(self) -> bool:
        """Tell whether the filters are valid and need no search through texts, which has no bound."""
        if self.is_valid() and self.search_words:
            self.add_error(
                "words",
                "Exports don't support word search. Clear the search words and use filters instead.",
            )
        return self.is_valid()

    def select(self) -> AssemblyQuerySet:
        """Return the team's matching assemblies; none if the filters are invalid."""
        found = Assembly.objects.of(self.team)
        if not self.is_valid():
            return found.none()
        given = self.cleaned_data
        if given["space"]:
            found = found.filter(space=self.space_id)
        if given["kind"] == AGENTS:
            found = found.exclude(kind=Kind.SPACE)
        elif given["kind"]:
            found = found.filter(kind=given["kind"])
        exact = ("phase", "model", "conversation")
        found = found.filter(**self.lookups(*exact, created_at__gte="start", created_at__lt="end"))
        if given["config"]:
            found = found.filter(config__in=self._config_ids())
        if given["stage"]:
            found = found.filter(stage=int(given["stage"]))
        found = self._by_outcome(found)
        if given["source"]:
            found = found.filter(Exists(GatewayRequest.objects.filter(assembly=OuterRef("pk"))))
        return found.filter(pk__in=find_assemblies(self.team, given["find"])) if given["find"] else found

    def _by_outcome(self, found: AssemblyQuerySet) -> AssemblyQuerySet:
        given = self.cleaned_data
        if given["truncated"]:
            found = found.filter(truncated=given["truncated"] == "yes")
        if given["empty"]:
            found = found.empty()
        if given["undelivered"]:
            found = found.not_delivered()
        if given["warning"]:
            found = found.warned(given["warning"])
        return found.slow() if given["slow"] else found

    def select_page(self, cursor: str) -> AssemblyQuerySet:
        """Return the matching assemblies, narrowed to the times of the page after a cursor.

        Filters with an index of their own are not narrowed: their rows are rare, and rollups do not tell
        where they are. Sorting and searching read more rows than those of a page.
        """
        found = self.select()
        indexed = (
            "find",
            "conversation",
            "empty",
            "undelivered",
            "warning",
            "slow",
            "sort",
            "words",
            "source",
        )
        if not self.is_valid() or any(self.cleaned_data[name] for name in indexed):
            return found
        wanted = self._narrowing(cursor)
        return found.filter(narrow(wanted)) if wanted.is_needed else found

    def _narrowing(self, cursor: str) -> Narrowing:
        given = self.cleaned_data
        ends = [moment for moment in (cursor_moment(cursor), given["end"]) if moment]
        return Narrowing(
            team_id=self.team.pk,
            before=min(ends, default=None),
            since=given["start"],
            space_id=self.space_id,
            stage=int(given["stage"]) if given["stage"] else None,
            kind=None if given["kind"] == AGENTS else given["kind"] or None,
            phase=given["phase"] or None,
            config_version=given["config"],
            model=given["model"] or None,
            truncated=given["truncated"],
        )

    def _config_ids(self) -> list[int]:
        """Return the ids of the settings with that version: each space has its own."""
        versions = ContextConfig.objects.filter(version=self.cleaned_data["config"], space__team=self.team)
        return list(versions.values_list("pk", flat=True))


def find_assemblies(team: Team, find: str) -> QuerySet[Assembly, int]:
    """Return the ids with this number, conversation or start of a hash.

    Each part of the union reads one index. The range of hashes can use its index with any collation.
    """
    mine, prefix = Assembly.objects.of(team).order_by(), find.lower()
    parts = [mine.filter(conversation=find).exclude(conversation="")]
    if (number := read_digits(find)) is not None:
        parts.append(mine.filter(pk=number))
    if HASH_START.fullmatch(prefix):
        parts.append(mine.filter(sha256__gte=prefix, sha256__lt=f"{prefix}g"))
    ids = [part.values_list("pk", flat=True) for part in parts]
    return ids[0].union(*ids[1:], all=True) if len(ids) > 1 else ids[0]


# No index has the order of a figure, so only this many of the newest rows are sorted: 30 ms.
SORTED_ROWS = 10_000
# Texts have no index either. Reading this many of 8 kB each takes 50 ms a word.
SEARCHED_ROWS = 1_000
WORDS_MAX = 8

ORDERS = {sort.slug: sort.order for sort in SORTS}


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page, and which part of the log it covers if that is not all of it.

    `sorted_rows` is the number of newest rows that were sorted. `searched_to` is the time of the oldest row
    that was searched; None if all were.
    """

    page: Page[Assembly]
    sorted_rows: int | None = None
    searched_to: datetime | None = None


def read_list(found: AssemblyQuerySet, *, sort: str, words: str, cursor: str) -> ListPage:
    """Return a page of the assemblies found; a sort order applies only without words."""
    found = found.select_related("space", "config")
    if words:
        return _matching_page(found, words, cursor)
    if sort:
        return _sorted_page(found, sort, cursor)
    return ListPage(newest_page(found, "created_at", cursor))


def _sorted_page(found: AssemblyQuerySet, sort: str, cursor: str) -> ListPage:
    """Return a page of the newest rows, sorted; the cursor is the number of rows before the page."""
    offset = min(read_digits(cursor) or 0, SORTED_ROWS)
    newest = found.select_related(None).newest_first()
    window = newest[:SORTED_ROWS].values("pk")
    ordered = found.model.objects.filter(pk__in=window).with_saving().order_by(ORDERS[sort], "-id")
    rows = list(ordered.select_related("space", "config")[offset : offset + PAGE_ROWS + 1])
    older = str(offset + PAGE_ROWS) if len(rows) > PAGE_ROWS else ""
    has_more = newest[SORTED_ROWS : SORTED_ROWS + 1].exists()
    return ListPage(Page(rows[:PAGE_ROWS], older, offset == 0), SORTED_ROWS if has_more else None)


def _matching_page(found: AssemblyQuerySet, words: str, cursor: str) -> ListPage:
    """Return the rows with all words in question or text, among the next rows after the cursor."""
    searched = newest_page(
        found.only("id", "created_at", "space", "config"), "created_at", cursor, SEARCHED_ROWS
    )
    ids = [row.pk for row in searched.rows]
    matching = (
        found.model.objects.filter(pk__in=ids).filter(_has_words(words)).select_related("space", "config")
    )
    page = newest_page(matching, "created_at", "")
    older = page.older or searched.older
    oldest = page.rows[-1] if page.older else searched.rows[-1] if searched.older else None
    return ListPage(
        Page(page.rows, older, searched.is_first), searched_to=oldest.created_at if oldest else None
    )


def _has_words(words: str) -> Q:
    """Match rows that have every word, in any case, in the question or in the context's text."""
    condition = Q()
    for word in words.split()[:WORDS_MAX]:
        condition &= Q(payload__text__icontains=word) | Q(payload__request__query__icontains=word)
    return condition


FASTEST_SECONDS = 2
SLOWEST_SECONDS = 15
# About an hour without news. Then the page says that it has stopped.
MAX_QUIET = 240


@dataclass(frozen=True, slots=True)
class Tail:
    """When to poll next: `newest` is the last id seen, `quiet` the number of polls without anything newer."""

    newest: int
    quiet: int

    @property
    def seconds(self) -> int:
        return min(SLOWEST_SECONDS, FASTEST_SECONDS + self.quiet)

    @property
    def is_over(self) -> bool:
        return self.quiet >= MAX_QUIET


def follow(page: Page[Assembly], asked: Mapping[str, str]) -> Tail:
    """Compare the current list with what the polling page had seen."""
    newest = page.rows[0].pk if page.rows else 0
    is_news = (read_digits(asked.get("newest", "")) or 0) != newest
    return Tail(newest, 0 if is_news else (read_digits(asked.get("quiet", "")) or 0) + 1)
