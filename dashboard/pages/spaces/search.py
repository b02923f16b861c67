"""Search over records and memories, with the reasons for each hit's rank."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone

from contextopt.people.models import Role
from contextopt.search import registry
from dashboard.kit.formats import NONE
from dashboard.kit.permissions import TeamRequest, page_for
from dashboard.kit.responses import render_page
from dashboard.pages.spaces.filters import SearchForm
from memory.search.search import Found, ResultOut, find
from memory.search.snippets import Run, Snippet, load_snippets


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason for a hit's rank: its name, figure, bar (0 to 100) and meaning."""

    name: str
    figure: str
    width: str
    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A result with its title, its passage, its URL if it has a page, and its reasons."""

    result: ResultOut
    url: str | None
    title: tuple[Run, ...]
    passage: tuple[Run, ...]
    reasons: tuple[Reason, ...]

    @property
    def score_words(self) -> str:
        """Return the match and its cosine, which say how well it fits, and the score, which only compares
        results.
        """
        similarity = self.result["parts"]["similarity"]
        cosine = "" if similarity is None else f"cosine {similarity:.2f}, "
        match, score = self.result["match_score"], self.result["decayed_score"]
        return f"match {match:.2f}, {cosine}score {score:.2f} by rank among the results"

    @property
    def has_words(self) -> bool:
        """Return whether the hit contains a word of the question."""
        return self.result["parts"]["lexical_rank"] is not None


def show_hits(found: Found, space: str | None) -> list[ShownHit]:
    """Return the results for the page, with one query for each kind."""
    best = max((result["lexical_score"] for result in found.results), default=0.0)
    snippets = _snippets(found)
    return [
        ShownHit(
            result=result,
            url=_url(result, space),
            title=snippet.title or (Run("Memory", is_match=False),),
            passage=snippet.passages,
            reasons=explain(result, best),
        )
        for result in found.results
        for snippet in [snippets.get((result["kind"], result["id"]), Snippet())]
    ]


def _snippets(found: Found) -> dict[tuple[str, int], Snippet]:
    snippets: dict[tuple[str, int], Snippet] = {}
    for kind in sorted({result["kind"] for result in found.results}):
        ids = [result["id"] for result in found.results if result["kind"] == kind]
        loaded = load_snippets(registry.get(kind), ids, found.question.lexemes)
        snippets |= {(kind, row_id): snippet for row_id, snippet in loaded.items()}
    return snippets


def _url(result: ResultOut, space: str | None) -> str | None:
    if result["kind"] == "record":
        return reverse("dashboard:record", args=[space, result["id"]])
    if result["kind"] == "memory":
        return reverse("dashboard:memory", args=[result["id"]])
    return None


def explain(result: ResultOut, best_lexical: float) -> tuple[Reason, ...]:
    """Explain in plain words how the hit got its rank."""
    parts = result["parts"]
    return (
        Reason(
            "Words",
            f"{parts['lexical']:.2f}",
            _width(parts["lexical"] / best_lexical if best_lexical else 0.0),
            "response",
            _by_rank(parts["lexical_rank"], "by its words (BM25)", "Contains none of the words."),
        ),
        Reason(
            "Meaning",
            NONE if parts["similarity"] is None else f"{parts['similarity']:.2f}",
            _width(parts["similarity"] or 0.0),
            "system",
            _by_rank(parts["vector_rank"], "by its meaning (cosine)", "Not embedded yet."),
        ),
        Reason(
            "Both",
            f"{parts['relevance']:.2f}",
            _width(parts["relevance"]),
            "context",
            "Combined rank; 1.0 means first in both.",
        ),
        Reason(
            "Freshness",
            f"{parts['decay']:.2f}",
            _width(parts["decay"]),
            "history",
            "Records do not fade." if result["kind"] == "record" else "Unused memories fade.",
        ),
    )


def _by_rank(rank: int | None, how: str, otherwise: str) -> str:
    return otherwise if rank is None else f"Number {rank} {how}."


def _width(share: float) -> str:
    return f"{100 * min(1.0, max(0.0, share)):.1f}"


@page_for(Role.VIEWER, "GET")
def search(request: TeamRequest) -> HttpResponse:
    """Show the results for the question and filters in the URL. Search results don't count as views."""
    form = SearchForm(request.GET, team=request.team)
    context: dict[str, Any] = {"form": form, "chosen_space": form.chosen_space}
    if form.is_valid() and form.cleaned_data["q"].strip():
        found = find(team=request.team, request=form.to_request(), now=timezone.now())
        hits = show_hits(found, form.chosen_space)
        context |= {"found": found, "hits": hits, "has_words": any(hit.has_words for hit in hits)}
    return render_page(request, "dashboard/search.html", context, partials=("results",))
