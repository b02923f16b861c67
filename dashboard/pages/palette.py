"""The command palette: pages, actions, spaces, records and assemblies by a few typed characters."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Role, Team
from contextopt.spaces.models import Space
from contextopt.sql import fetch_all
from dashboard.kit.filters import read_text
from dashboard.kit.frame import NAVIGATION
from dashboard.kit.permissions import TeamRequest, page_for
from dashboard.pages.assemblies.filters import find_assemblies

TYPED_MAX = 100
SHOWN = 6
# No index has the words inside a title, so only the newest records of the first spaces are read: 10 ms.
SPACES_READ, RECORDS_READ = 20, 500
# Shorter starts of a hash are numbers or words.
HASH_MIN = 6


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the palette. It has an address, or it is a button with an attribute that scripts act on."""

    kind: str
    label: str
    url: str = ""
    note: str = ""
    attribute: str = ""
    value: str = ""


@page_for(Role.VIEWER, "GET")
def palette(request: TeamRequest) -> HttpResponse:
    typed = read_text(request.GET, "q")[:TYPED_MAX]
    context = {"entries": list(find_entries(request, typed))}
    return render(request, "dashboard/_palette_entries.html", context)


def find_entries(request: TeamRequest, typed: str) -> Iterator[Entry]:
    """Yield the entries that match, a few of each kind; without words, pages and actions alone."""
    words = typed.lower().split()
    fixed = [*_pages(request), *_actions(request)]
    yield from (entry for entry in fixed if all(word in entry.label.lower() for word in words))
    if typed:
        yield from _assemblies(request.team, typed)
        yield from _spaces(request.team, typed)
        yield from _records(request.team, typed)
        address = f"{reverse('dashboard:search')}?{urlencode({'q': typed})}"
        yield Entry("Search", f"Search records and memories for “{typed}”", address)


def _pages(request: TeamRequest) -> Iterator[Entry]:
    for _, links in NAVIGATION:
        for label, name, *_ in links:
            yield Entry("Page", label, reverse(name))
    yield Entry("Page", "API reference", "/api/docs")
    if request.user.is_staff:
        yield Entry("Page", "Admin", reverse("admin:index"))


def _actions(request: TeamRequest) -> Iterator[Entry]:
    if request.membership.allows(Role.EDITOR):
        yield Entry("Action", "New space", f"{reverse('dashboard:spaces')}#new-title")
        yield Entry("Action", "New task", reverse("dashboard:task_new"))
        yield Entry("Action", "New memory", reverse("dashboard:memory_new"))
    if request.membership.allows(Role.REVIEWER):
        yield Entry("Action", "Ask a question in the chat", reverse("dashboard:chat"))
    if request.membership.allows(Role.ADMIN):
        yield Entry("Action", "New API key", f"{reverse('dashboard:settings')}#keys")
        yield Entry("Action", "Change log", reverse("dashboard:audit"))
    yield Entry("Action", "Follow new assemblies live", f"{reverse('dashboard:assemblies')}?live=on")
    yield Entry("Action", "Change password", reverse("dashboard:password"))
    for theme in ("light", "dark", "auto"):
        yield Entry("Action", f"Theme: {theme}", attribute="data-theme-choice", value=theme)
    yield Entry("Action", "Help: shortcuts and terms", attribute="data-open", value="help")


def _assemblies(team: Team, typed: str) -> Iterator[Entry]:
    if not typed.isdecimal() and len(typed) < HASH_MIN:
        return
    found = Assembly.objects.filter(pk__in=find_assemblies(team, typed)).select_related("space")
    for row in found.newest_first()[:SHOWN]:
        of = row.space.name if row.space else row.get_kind_display()
        yield Entry("Assembly", f"Assembly {row.pk}", reverse("dashboard:assembly", args=[row.pk]), of)


def _spaces(team: Team, typed: str) -> Iterator[Entry]:
    found = Space.objects.of(team).filter(name__icontains=typed).order_by("name")[:SHOWN]
    for space in found:
        yield Entry("Space", space.name, reverse("dashboard:space", args=[space.slug]))
        yield Entry(
            "Space", f"{space.name}: settings", reverse("dashboard:space_settings", args=[space.slug])
        )


_RECORDS = """
SELECT s.slug, s.name, r.id, r.title
  FROM (SELECT id, slug, name FROM contextopt_space
         WHERE team_id = %(team)s ORDER BY id DESC LIMIT %(spaces)s) s
 CROSS JOIN LATERAL (
       SELECT id, title, date FROM contextopt_record
        WHERE space_id = s.id AND deleted_at IS NULL ORDER BY date DESC, id DESC LIMIT %(read)s) r
 WHERE strpos(lower(r.title), lower(%(typed)s)) > 0
 ORDER BY r.date DESC, r.id DESC LIMIT %(shown)s
"""


def _records(team: Team, typed: str) -> Iterator[Entry]:
    values = {"team": team.pk, "typed": typed, "spaces": SPACES_READ, "read": RECORDS_READ, "shown": SHOWN}
    for slug, name, pk, title in fetch_all(_RECORDS, values):
        yield Entry("Record", title, reverse("dashboard:record", args=[slug, pk]), name)
