"""The log of assemblies, and one assembly in full."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.db.models import F
from django.db.models.fields.json import KeyTextTransform
from django.db.models.fields.tuple_lookups import TupleGreaterThan, TupleLessThan
from django.http import HttpResponse, StreamingHttpResponse

from contextopt.assemblies.figures import IN_CSV, SORTS
from contextopt.assemblies.log import searched_passages
from contextopt.assemblies.models import BASELINES, Assembly, AssemblyPayload, AssemblyQuerySet, Kind
from contextopt.assemblies.verify import verify_assembly
from contextopt.chat.models import Author, Message
from contextopt.engine.details import DUPLICATE_OF
from contextopt.engine.text.quoting import without_marks
from contextopt.engine.validation import UnknownEncoding
from contextopt.gateway.models import GatewayRequest
from contextopt.people.models import Role
from dashboard.kit.charts.shapes import bar_of_assembly, part_legend, saving_bar
from dashboard.kit.diffs import field_rows, mark_left_out, unmarked
from dashboard.kit.filters import STAGE_NAMES, ViewPage
from dashboard.kit.formats import reason_words, whole
from dashboard.kit.forms import read_ticks
from dashboard.kit.inspector import (
    SHOWS,
    find_titles,
    keep_shown,
    read_ledger,
    show_warnings,
    split_text,
    unnamed_counts,
    weights_of,
)
from dashboard.kit.permissions import TeamRequest, get_assembly, page_for
from dashboard.kit.responses import STOP_POLLING, render_page, saved_views, stream_csv, stream_jsonl
from dashboard.pages.assemblies.comparison import compare_assemblies, entries_of
from dashboard.pages.assemblies.curve import draw_curve
from dashboard.pages.assemblies.explanations import explain_named
from dashboard.pages.assemblies.filters import SEARCHED_ROWS, AssembliesForm, follow, read_list
from dashboard.pages.assemblies.sections import mark_used, section_rows
from dashboard.pages.assemblies.votebox import read_assembly_feedback
from memory.feedback.trends import VoteFigures, count_votes

QUESTION = KeyTextTransform("query", "request")
CSV_CHUNK = 2_000
COMPARED = 2
LIST_TEMPLATE, TEMPLATE = "dashboard/assemblies.html", "dashboard/assembly.html"
CSV_COLUMNS = (
    "id", "created_at", "as_of", "space", "kind", "stage", "config_version", "model", "conversation",
    *(figure.name for figure in IN_CSV),
)  # fmt: skip
_CSV_SOURCES = {
    "space": "space__slug", "config_version": "config__version", "tokens_saved": "saved",
    "not_delivered": "undelivered",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ListRow:
    """An assembly in the list, with its question, which may be empty, and its votes, if any.

    `reported_tokens` are those that the endpoint found in its cache; None if it reported none.
    """

    assembly: Assembly
    question: str
    votes: VoteFigures | None
    reported_tokens: int | None
    is_from_gateway: bool


@page_for(Role.VIEWER, "GET")
def assemblies(request: TeamRequest) -> HttpResponse:
    context = _list_context(request, AssembliesForm(request.GET, team=request.team))
    status = STOP_POLLING if context["tail"] and context["tail"].is_over else 200
    return render_page(request, LIST_TEMPLATE, context, partials=("assemblies",), status=status)


def _list_context(request: TeamRequest, form: AssembliesForm) -> dict[str, Any]:
    cursor = request.GET.get("before", "")
    listed = read_list(form.select_page(cursor), sort=form.order, words=form.search_words, cursor=cursor)
    page = listed.page
    return {
        "form": form,
        "listed": listed,
        "searched_rows": SEARCHED_ROWS,
        "page": page,
        "rows": _list_rows(page.rows),
        "has_prefixes": any(row.prompt_tokens is not None for row in page.rows),
        # The active sort links back to the newest first.
        "sorts": {
            slug: form.query(sort=None if form.order == slug else slug, words=None, live=None)
            for slug in (sort.slug for sort in SORTS)
        },
        "chips": form.chips(),
        "query_without_chips": form.query_without_chips(),
        "query": form.query(),
        "still_query": form.query(live=None),
        "live_query": form.query(live="on"),
        "tail": follow(page, request.GET) if form.is_live and page.is_first else None,
        "views": saved_views(request, ViewPage.ASSEMBLIES),
    }


@page_for(Role.VIEWER, "GET")
def assemblies_csv(request: TeamRequest) -> HttpResponse | StreamingHttpResponse:
    form = AssembliesForm(request.GET, team=request.team)
    if not form.is_exportable():
        return _refused(request, form)
    rows = _export_rows(form.select(), request.team.time_zone)
    return stream_csv("contextopt-assemblies", CSV_COLUMNS, (row.values() for row in rows))


@page_for(Role.VIEWER, "GET")
def assemblies_jsonl(request: TeamRequest) -> HttpResponse | StreamingHttpResponse:
    form = AssembliesForm(request.GET, team=request.team)
    if not form.is_exportable():
        return _refused(request, form)
    return stream_jsonl("contextopt-assemblies", _export_rows(form.select(), request.team.time_zone))


def _refused(request: TeamRequest, form: AssembliesForm) -> HttpResponse:
    return render_page(request, LIST_TEMPLATE, _list_context(request, form), status=400)


def _list_rows(rows: Sequence[Assembly]) -> list[ListRow]:
    """Return the rows with their questions, votes and sources. Payloads are read for the questions alone."""
    ids = [row.pk for row in rows]
    questions = dict(AssemblyPayload.objects.filter(pk__in=ids).values_list("pk", QUESTION))
    votes = count_votes(ids)
    # A context's first prompt is read last.
    prompts = GatewayRequest.objects.filter(assembly__in=ids).order_by("-pk")
    passed = dict(prompts.values_list("assembly_id", "cached_tokens"))
    reported = passed | _answered_in_chat([row.pk for row in rows if row.prompt_tokens is not None])
    return [
        ListRow(row, questions.get(row.pk) or "", votes.get(row.pk), reported.get(row.pk), row.pk in passed)
        for row in rows
    ]


def _answered_in_chat(ids: Sequence[int]) -> dict[int, int | None]:
    """Return the cached tokens that endpoints reported for prompts of the chat, by assembly."""
    if not ids:
        return {}
    answers = Message.objects.filter(assembly__in=ids, author=Author.ASSISTANT, cached_tokens__isnull=False)
    return dict(answers.order_by("pk").values_list("assembly_id", "cached_tokens"))


@page_for(Role.VIEWER, "GET")
def assemblies_compare(request: TeamRequest) -> HttpResponse:
    """Show two assemblies side by side, the older first; unless two are named, explain how to choose them."""
    named = sorted(set(read_ticks(request.GET.getlist("id"))))
    found = [get_assembly(request, id, "config", "payload") for id in named[:COMPARED]]
    context: dict[str, Any] = {"found": found, "named": len(named)}
    if len(named) == COMPARED:
        before, after = found
        entries = [*entries_of(before), *entries_of(after)]
        context["comparison"] = compare_assemblies(before, after, find_titles(entries, request.team.pk))
    return render_page(request, "dashboard/compare.html", context)


def _export_rows(found: AssemblyQuerySet, time_zone: str) -> Iterator[dict[str, Any]]:
    """Yield the columns of each assembly, newest first."""
    zone = ZoneInfo(time_zone)
    sources = [_CSV_SOURCES.get(name, name) for name in CSV_COLUMNS]
    rows = found.with_saving().newest_first().values_list(*sources)
    for values in rows.iterator(chunk_size=CSV_CHUNK):
        row: dict[str, Any] = dict(zip(CSV_COLUMNS, values, strict=True))
        row["warning_codes"] = " ".join(row["warning_codes"])
        row["created_at"] = row["created_at"].astimezone(zone).isoformat()
        row["as_of"] = row["as_of"].astimezone(zone).isoformat()
        yield row


@page_for(Role.VIEWER, "GET")
def assembly(request: TeamRequest, assembly_id: int) -> HttpResponse:
    found = get_assembly(request, assembly_id, "config", "payload", "attempt", "correction")
    common = {
        **_neighbours(found),
        "feedback": read_assembly_feedback(found, request.actor),
    }
    if found.kind != Kind.SPACE:
        return render_page(request, "dashboard/saving.html", {**_saving_context(found), **common})
    payload = found.stored_payload
    if payload and request.htmx.target == "explain":
        explained = explain_named(found, request.GET.get("explain", ""))
        context = {"assembly": found, "explained": explained}
        return render_page(request, TEMPLATE, context, partials=("explain",))
    show = request.GET.get("show", "all")
    show = show if show in SHOWS else "all"
    context = {
        "assembly": found,
        "payload": payload,
        "stage_name": STAGE_NAMES.get(found.stage or 0, ""),
        "bar": bar_of_assembly(found),
        "left_out": _left_out(found),
        "show": show,
        "shows": SHOWS,
        **common,
        **(_payload_context(request, found, payload, show) if payload else {}),
    }
    chosen = {name: value for name in ("show", "explain") if (value := request.GET.get(name))}
    return render_page(request, TEMPLATE, context, partials=("ledger",), query=urlencode(chosen))


def _left_out(found: Assembly) -> list[str]:
    """Return how many candidates were dropped for each reason, in words."""
    counts = {name: getattr(found, name) for name in ("over_record_limit", "over_budget", "low_relevance")}
    words = [f"{whole(count)} {reason_words(name)}" for name, count in counts.items() if count]
    if found.duplicates:
        ending = "" if found.duplicates == 1 else "s"
        words.append(f"{whole(found.duplicates)} {reason_words(DUPLICATE_OF)}{ending}")
    return words


def _neighbours(found: Assembly) -> dict[str, int | None]:
    """Return the ids of the previous and next assembly of its space, or of its team if it has no space."""
    scope = {"space": found.space_id} if found.space_id else {"team": found.team_id}
    ids = Assembly.objects.filter(**scope).values_list("pk", flat=True)
    place, here = (F("created_at"), F("id")), (found.created_at, found.pk)
    return {
        "previous": ids.filter(TupleLessThan(place, here)).order_by("-created_at", "-id").first(),
        "next": ids.filter(TupleGreaterThan(place, here)).order_by("created_at", "id").first(),
    }


def _saving_context(found: Assembly) -> dict[str, Any]:
    payload = found.stored_payload
    before = found.tokens_before or 0
    return {
        "assembly": found,
        "payload": payload,
        "warnings": payload.warnings if payload else (),
        "attempt": getattr(found, "attempt", None),
        "correction": getattr(found, "correction", None),
        "rate": found.tokens_saved / before if before and found.tokens_saved is not None else None,
        "bar": saving_bar(before=before, after=found.tokens_after) if before else None,
        "baseline": payload.ledger.get("baseline", BASELINES[Kind(found.kind)]) if payload else "",
        **(_texts(found, payload) if payload else {}),
    }


def _texts(found: Assembly, payload: AssemblyPayload) -> dict[str, Any]:
    """Return the full context and the text that was sent. Only phases keep whole fields to compare."""
    full = payload.baseline_text or ""
    context = {"after": unmarked(payload.text), "before": unmarked(full), **_proof(payload)}
    if found.kind == Kind.PHASE:
        fields = field_rows(payload.ledger, payload.config, full, payload.text)
        context |= {"fields": fields, "before": mark_left_out(full, without_marks(payload.text))}
    if found.kind == Kind.AGENT:
        context["sections"] = section_rows(payload.ledger["sections"], found.tokens_after)
    return context


def _payload_context(
    request: TeamRequest, found: Assembly, payload: AssemblyPayload, show: str
) -> dict[str, Any]:
    entries, order = payload.entries, payload.ledger["order"]
    rows = read_ledger(entries, order, payload.config, find_titles(entries, request.team.pk))
    rows = mark_used(rows, found, payload)
    overrides = payload.config.get("overrides", {})
    space_slug = found.space.slug if found.space else ""
    return {
        "lines": split_text(payload.text, order),
        "rows": keep_shown(rows, show),
        "has_used": any(row.shared for row in rows),
        "curve": draw_curve(entries, payload.config, weights_of(payload.config)),
        "fixed_saved": payload.ledger.get("fixed_tokens", found.tokens_after) - found.tokens_after,
        "unnamed": unnamed_counts(payload),
        "explained": explain_named(found, request.GET.get("explain", "")),
        "question": payload.request.get("query", ""),
        "searched": searched_passages(payload),
        "parts": part_legend(payload.ledger["candidates"]["parts"]),
        "warnings": show_warnings(request, payload.warnings, space_slug, overrides),
        "overrides": overrides,
        **_proof(payload),
    }


def _proof(payload: AssemblyPayload) -> dict[str, Any]:
    """Compute every stored figure again and return those that differ."""
    try:
        return {"differences": verify_assembly(payload), "is_verified": True}
    except UnknownEncoding as error:
        return {"is_verified": False, "not_verified": str(error)}


@page_for(Role.VIEWER, "GET")
def assembly_text(request: TeamRequest, assembly_id: int) -> HttpResponse:
    """Return the exact text, whose SHA-256 is the certificate's. `of=before` returns the full context."""
    found = get_assembly(request, assembly_id, "payload")
    payload = found.stored_payload
    text = payload.text if payload else ""
    if request.GET.get("of") == "before":
        text = (payload.baseline_text if payload else None) or ""
    return HttpResponse(text, content_type="text/plain; charset=utf-8")
