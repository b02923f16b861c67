"""Reads a stored assembly for the Inspector: the text by line, the ledger by row, warnings with a remedy."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contextopt.assemblies.models import AssemblyPayload, EntryJson
from contextopt.engine.ranking import TOPIC_WEIGHT
from contextopt.engine.settings import SETTINGS, name_in_request
from contextopt.engine.values import ContextWarning
from contextopt.people.models import Role
from contextopt.spaces.models import Record
from dashboard.kit.charts.shapes import PARTS, Segment, score_parts
from dashboard.kit.formats import decimals, reason_words
from dashboard.kit.permissions import TeamRequest

SHOWS = ("all", "kept", "dropped")
LEDGER_ROWS = 1_200
WEIGHTS = tuple(name for name in SETTINGS if name.endswith("_weight"))


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A candidate and its outcome; `line` is the id of its line in the text, if it has one.

    `sum` holds the parts of its score that are not zero. `shared` holds the words that an answer probably
    took from it.
    """

    rank: int
    id: int
    title: str
    space_slug: str
    score: str
    parts: tuple[Segment, ...]
    parts_label: str
    tokens: int
    is_kept: bool
    is_pinned: bool
    reason: str
    line: str
    sum: tuple[str, ...] = ()
    shared: str = ""


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of the prompt; lines of records have an id."""

    text: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Titled:
    title: str
    space_slug: str


def split_text(text: str, order: list[int]) -> list[TextLine]:
    """Split a rendered text. Its last lines are the records, one line each, in the given order."""
    lines = text.removesuffix("\n").split("\n") if text else []
    first = len(lines) - len(order)
    return [
        TextLine(line, f"line-{order[number - first]}" if number >= first else "")
        for number, line in enumerate(lines)
    ]


def find_titles(entries: Iterable[EntryJson], team_id: int) -> dict[int, Titled]:
    """Return the current titles of the named records, in one query."""
    ids = [entry["id"] for entry in entries][:LEDGER_ROWS]
    rows = Record.objects.filter(pk__in=ids, space__team_id=team_id).values_list("pk", "title", "space__slug")
    return {pk: Titled(title, slug) for pk, title, slug in rows}


def title_of(record_id: int, titles: Mapping[int, Titled]) -> Titled:
    """Return a record's title, or its number if the record is gone."""
    return titles.get(record_id) or Titled(f"Record {record_id}", "")


def read_ledger(
    entries: Sequence[EntryJson],
    rendered: Iterable[int],
    config: Mapping[str, Any],
    titles: dict[int, Titled],
) -> list[LedgerRow]:
    """Return the ledger's rows in rank order."""
    weights, origins = weights_of(config), _weight_origins(config)
    lines, best = frozenset(rendered), _best_score(entries, weights)
    return [
        _row(rank, entry, weights, origins, best, lines, titles)
        for rank, entry in enumerate(entries[:LEDGER_ROWS], start=1)
    ]


def _best_score(entries: Sequence[EntryJson], weights: Mapping[str, float]) -> float:
    """Return the score that fills a bar.

    Without a question, it is the highest that the weights allow. With one, no score comes near that, so it is
    the highest in the ledger.
    """
    if not entries or "semantic" not in entries[0]["parts"]:
        return 10 * (weights["recency"] + weights["frequency"])
    return max(sum(value * weights[name] for name, value in entry["parts"].items()) for entry in entries)


def weights_of(config: Mapping[str, Any]) -> dict[str, float]:
    """Return the weight of each part of a score.

    The neighbours' is that of meaning and words together, and the topic's depends on both.
    """
    weights = {name.removesuffix("_weight"): float(config.get(name) or 0) for name in WEIGHTS}
    matched = weights["semantic"] + weights["lexical"]
    topic = TOPIC_WEIGHT * float(config.get("neighbour_share") or 0) * matched
    return {**weights, "neighbour": matched, "topic": topic}


def _weight_origins(config: Mapping[str, Any]) -> dict[str, str]:
    """Explain how the weights that are not settings are computed from settings."""
    weights, share = weights_of(config), decimals(float(config.get("neighbour_share") or 0))
    matched = f"meaning {decimals(weights['semantic'])} + words {decimals(weights['lexical'])}"
    return {
        "neighbour": f" ({matched}; the part includes the neighbour share of {share})",
        "topic": f" ({TOPIC_WEIGHT} × neighbour share {share} × ({matched}))",
    }


def _row(
    rank: int,
    entry: EntryJson,
    weights: dict[str, float],
    origins: dict[str, str],
    best: float,
    lines: frozenset[int],
    titles: dict[int, Titled],
) -> LedgerRow:
    known = titles.get(entry["id"])
    parts: dict[str, float] = entry["parts"]
    return LedgerRow(
        rank=rank,
        id=entry["id"],
        title=known.title if known else entry["external_id"] or "a deleted record",
        space_slug=known.space_slug if known else "",
        score=decimals(entry["score"]) if parts else "–",
        parts=score_parts(parts, weights, best),
        parts_label=", ".join(
            f"{_part_name(name).lower()} {decimals(value, 1)} of 10" for name, value in parts.items()
        ),
        tokens=entry["tokens"],
        is_kept=entry["kept"],
        is_pinned=entry["pinned"],
        reason=_reason(entry, titles),
        line=f"line-{entry['id']}" if entry["id"] in lines else "",
        sum=tuple(
            f"{_part_name(name)}: {decimals(value)} of 10 × weight {decimals(weights[name])}"
            f"{origins.get(name, '')} = {decimals(value * weights[name])}"
            for name, value in parts.items()
            if value * weights[name]
        ),
    )


def _part_name(name: str) -> str:
    return PARTS[name][1] if name in PARTS else name


def _reason(entry: EntryJson, titles: dict[int, Titled]) -> str:
    original = entry["duplicate_of"]
    if original is None:
        return reason_words(entry["reason"])
    known = titles.get(original)
    return f"near-duplicate of “{known.title}”" if known else f"near-duplicate of record {original}"


def keep_shown(rows: list[LedgerRow], show: str) -> list[LedgerRow]:
    if show == "all":
        return rows
    return [row for row in rows if row.is_kept == (show == "kept")]


def unnamed_counts(payload: AssemblyPayload) -> dict[str, int]:
    """Return the number of dropped records that the ledger does not name, by reason in words."""
    named: dict[str, int] = {}
    for entry in payload.entries:
        if not entry["kept"]:
            named[entry["reason"]] = named.get(entry["reason"], 0) + 1
    rest = {reason: count - named.get(reason, 0) for reason, count in payload.ledger["counts"].items()}
    return {reason_words(reason): count for reason, count in rest.items() if count > 0}


@dataclass(frozen=True, slots=True)
class ShownWarning:
    """A warning and its remedy.

    `space_slug` is the space whose settings the remedy changes. It is empty if the remedy would not help or
    the reader may not apply it. `obstacle` is the parameter of the request that overrides those settings.
    """

    warning: ContextWarning
    space_slug: str = ""
    obstacle: str = ""


def show_warnings(
    request: TeamRequest, warnings: Iterable[ContextWarning], space_slug: str, overrides: Collection[str]
) -> list[ShownWarning]:
    """Offer each remedy to those who may change settings, unless the request overrode the setting."""
    return [_show(request, warning, space_slug, overrides) for warning in warnings]


def _show(
    request: TeamRequest, warning: ContextWarning, space_slug: str, overrides: Collection[str]
) -> ShownWarning:
    if warning.remedy is None:
        return ShownWarning(warning)
    name = name_in_request(warning.remedy.setting)
    if name in overrides:
        return ShownWarning(warning, obstacle=name)
    return ShownWarning(warning, space_slug if request.membership.allows(Role.EDITOR) else "")
