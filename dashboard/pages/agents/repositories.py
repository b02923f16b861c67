"""Repositories: facts about their files, and the files that a task needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect

from contextopt.agents.standingdocuments import StandingDocument, attach_document, detach_document
from contextopt.engine.code.filescores import RankedFile
from contextopt.engine.code.packing import FULL, HUNKS, PATH, SIGNATURES, Packed
from contextopt.people.models import Role
from contextopt.repositories.graphs import load_graph, load_index
from contextopt.repositories.models import Repository, RepositoryFile
from contextopt.repositories.relevantfiles import rank_repository
from contextopt.sql import find_one
from dashboard.kit.charts.shapes import Segment, stack_parts
from dashboard.kit.permissions import TeamRequest, as_404, get_repository, page_for
from dashboard.kit.responses import render_page
from dashboard.pages.agents.filters import RelevantForm
from dashboard.pages.agents.forms import StandingDocumentForm
from dashboard.pages.agents.indexruns import AddressForm

ROW_HEIGHT = 28
ARCS_WIDTH = 150
# The files' dots lie on a line near the right edge, from which the arcs bend to the left.
SPINE = ARCS_WIDTH - 12

MODE_WORDS = {FULL: "whole", HUNKS: "hunks", SIGNATURES: "signatures", PATH: "path only"}
# The description of each part of a score, and the colour it borrows.
PARTS = {
    "content": ("words in the file", "context"),
    "identifiers": ("whole identifiers", "neighbour"),
    "path": ("words in the path", "system"),
    "symbols": ("defined names", "history"),
    "similar": ("changed for similar tasks", "topic"),
    "recency": ("changed recently", "phase-5"),
    "cochange": ("changed together", "phase-6"),
    "graph": ("linked by imports", "response"),
    "kind": ("documentation, example, changelog or migration", "empty"),
    "seed": ("named in the task", "over"),
}


@dataclass(frozen=True, slots=True)
class ChosenFile:
    """A ranked file: the parts of its score, how the text shows it, and its imports among the chosen."""

    rank: int
    path: str
    score: float
    parts: tuple[Segment, ...]
    parts_label: str
    mode: str
    mode_words: str
    tokens: int | None
    imports: tuple[int, ...]
    imported_by: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Arc:
    """One import, from the row of the importing file to that of the imported one."""

    source: int
    target: int
    shape: str
    tip: str
    is_down: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """The chosen files from top to bottom, with an arc for each import among them."""

    arcs: tuple[Arc, ...]
    nodes: tuple[tuple[int, str, str], ...]
    width: int
    spine: int
    height: int
    label: str


def choose_files(
    ranked: Sequence[RankedFile], packed: Packed, imports: Mapping[str, Sequence[str]]
) -> list[ChosenFile]:
    """Return the ranked files, each with how the text shows it."""
    shown = {file.path: file for file in packed.files}
    ranks = {file.path: rank for rank, file in enumerate(ranked, start=1)}
    links = {path: [ranks[target] for target in imports.get(path, ()) if target in ranks] for path in ranks}
    importers: dict[int, list[int]] = {}
    for path, targets in links.items():
        for target in targets:
            importers.setdefault(target, []).append(ranks[path])
    best = max((sum(part for part in file.parts.values() if part > 0) for file in ranked), default=0.0)
    return [
        ChosenFile(
            rank=rank,
            path=file.path,
            score=file.score,
            parts=stack_parts([(PARTS[name][1], value) for name, value in file.parts.items()], best),
            parts_label=", ".join(f"{PARTS[name][0]} {value:.2f}" for name, value in file.parts.items()),
            mode=shown[file.path].mode if file.path in shown else "",
            mode_words=MODE_WORDS[shown[file.path].mode] if file.path in shown else "left out",
            tokens=shown[file.path].tokens if file.path in shown else None,
            imports=tuple(sorted(links[file.path])),
            imported_by=tuple(sorted(importers.get(rank, ()))),
        )
        for rank, file in enumerate(ranked, start=1)
    ]


def draw_imports(files: Sequence[ChosenFile]) -> Picture:
    """Draw arcs between the rows of the files; the further apart, the wider."""
    arcs = [_arc(file.rank, target, len(files)) for file in files for target in file.imports]
    best = max((file.score for file in files), default=0.0) or 1.0
    nodes = tuple(
        (file.rank, f"{_middle(file.rank):g}", f"{3 + 4 * max(0.0, file.score / best):.1f}") for file in files
    )
    words = f"{len(arcs)} imports among {len(files)} files, listed in the table."
    return Picture(tuple(arcs), nodes, ARCS_WIDTH, SPINE, ROW_HEIGHT * len(files), words)


def _middle(rank: int) -> float:
    return ROW_HEIGHT * (rank - 0.5)


def _arc(source: int, target: int, rows: int) -> Arc:
    """Draw an arc from the spine to the left and back."""
    room = SPINE - 18
    start, end = _middle(source), _middle(target)
    depth = 14 + (room - 14) * abs(target - source) / max(1, rows - 1)
    # A cubic curve reaches three quarters of the way to its control points.
    bend = SPINE - depth / 0.75
    tip = f"{SPINE - 14:g},{end - 4:g} {SPINE - 6:g},{end:g} {SPINE - 14:g},{end + 4:g}"
    shape = f"M{SPINE:g} {start:g}C{bend:.1f} {start:g} {bend:.1f} {end:g} {SPINE - 10:g} {end:g}"
    return Arc(source, target, shape, tip, target > source)


REPOSITORIES_SHOWN = 500
GAPS_SHOWN = 200


@page_for(Role.VIEWER, "GET")
def repositories(request: TeamRequest) -> HttpResponse:
    found = Repository.objects.of(request.team)[:REPOSITORIES_SHOWN]
    return render_page(request, "dashboard/repositories.html", {"repositories": found})


@page_for(Role.VIEWER, "GET", get_repository)
def repository(request: TeamRequest, found: Repository) -> HttpResponse:
    """Show a repository; with a task, also the files that it needs and why."""
    return _render(request, found, StandingDocumentForm())


@page_for(Role.EDITOR, "POST", get_repository)
def document_attach(request: TeamRequest, found: Repository) -> HttpResponse:
    """Attach a standing document, or replace the one with the same title."""
    form = StandingDocumentForm(request.POST, repository=found.name)
    if not form.is_valid():
        return _render(request, found, form, status=422)
    with form.refusals():
        attached = attach_document(team=request.team, data=form.value, actor=request.actor)
        messages.success(request, "Document attached." if attached.is_new else "Document replaced.")
        return redirect("dashboard:repository", found.pk)
    return _render(request, found, form, status=409)


@page_for(Role.EDITOR, "POST", get_repository)
def document_detach(request: TeamRequest, found: Repository, document_id: int) -> HttpResponse:
    rows = StandingDocument.objects.of(request.team.pk, found.name).filter(pk=document_id)
    with as_404():
        document = find_one(rows, f"document {document_id}")
    detach_document(document=document, actor=request.actor)
    messages.success(request, f"“{document.title[:60]}” detached.")
    return redirect("dashboard:repository", found.pk)


def _render(
    request: TeamRequest, found: Repository, attaching: StandingDocumentForm, status: int = 200
) -> HttpResponse:
    form = RelevantForm(RelevantForm.with_default(request.GET) if "task" in request.GET else None)
    context: dict[str, Any] = {
        "repository": found,
        "form": form,
        "query": form.query(),
        "attaching": attaching,
    }
    if found.is_address and request.membership.allows(Role.EDITOR):
        context["update_form"] = AddressForm(initial={"url": found.source}, auto_id="id_update_%s")
    if not request.htmx:
        context["documents"] = StandingDocument.objects.of(request.team.pk, found.name)
    if form.is_valid():
        context |= _chosen(found, form)
    if request.GET.get("show") == "gaps":
        # The gaps in the graph are imports that lead nowhere, and files that were not read.
        skipped = RepositoryFile.objects.of(found).exclude(skipped="").values_list("path", "skipped")
        unresolved = load_graph(found).unresolved[:GAPS_SHOWN]
        context |= {"shows_gaps": True, "unresolved": unresolved, "skipped": list(skipped[:GAPS_SHOWN])}
    partials = ("chosen", "gaps")
    return render_page(request, "dashboard/repository.html", context, partials=partials, status=status)


def _chosen(found: Repository, form: RelevantForm) -> dict[str, Any]:
    relevant = rank_repository(found, form.to_request())
    files = choose_files(relevant.ranked, relevant.packed, load_index(found).index.graph.imports)
    present = {name for file in relevant.ranked for name in file.parts}
    return {
        "relevant": relevant,
        "files": files,
        "picture": draw_imports(files),
        "parts": [(kind, words) for name, (words, kind) in PARTS.items() if name in present],
    }
