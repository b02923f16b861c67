"""Template filters for the formats of `dashboard.kit.formats`."""

import json
from datetime import datetime

from django import template
from django.core.serializers.json import DjangoJSONEncoder
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from dashboard.kit import formats
from dashboard.kit.charts.plots import Json, share_lists
from dashboard.kit.markdownhtml import render_markdown

register = template.Library()

register.filter("whole", formats.whole)
register.filter("signed", formats.signed)
register.filter("percent", formats.percent)
register.filter("percentage", formats.percentage)
register.filter("decimals", formats.decimals)
register.filter("ratio", formats.ratio)
register.filter("milliseconds", formats.milliseconds)
register.filter("setting_label", formats.setting_label)
register.filter("setting_words", formats.setting_words)
register.filter("reason_words", formats.reason_words)
register.filter("code_words", formats.code_words)
register.filter("actor_words", formats.actor_words)
register.filter("action_words", formats.action_words)
register.filter("cost_words", formats.cost_words)
register.filter("fewer_words", formats.fewer_words)
register.filter("money", formats.money)
register.filter("markdown", render_markdown)


@register.filter
def to_the_second(moment: datetime) -> str:
    """Return a moment in the current time zone. Django's own filter is slow for long lists."""
    local = timezone.localtime(moment)
    return f"{local.day} {local:%b %Y %H:%M:%S}"


@register.filter
def in_this_year(moment: datetime) -> str:
    """Return a moment as `to_the_second` does, without the year if that is the current one."""
    local, now = timezone.localtime(moment), timezone.localtime()
    return f"{local.day} {local:%b %H:%M:%S}" if local.year == now.year else to_the_second(moment)


@register.filter
def moment_input(value: object) -> SafeString:
    """Return the type and value of an input for a day, or for a date-time if the value has a time."""
    try:
        moment = parse_datetime(str(value or "").strip()) if "T" in str(value or "") else None
    except ValueError:
        moment = None
    if moment is None:
        return format_html('type="date" value="{}"', value or "")
    local = timezone.localtime(moment) if timezone.is_aware(moment) else moment
    return format_html('type="datetime-local" step="1" value="{}"', local.strftime("%Y-%m-%dT%H:%M:%S"))


@register.filter
def coloured_cost(saved: int) -> str:
    """Return `cost_words` in green for a saving and in red for a cost."""
    words = formats.cost_words(saved)
    return (
        format_html('<span class="{}">{}</span>', "good" if saved > 0 else "bad", words) if saved else words
    )


@register.filter
def pretty_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


@register.filter
def chart_island(figures: dict[str, Json]) -> SafeString:
    """Return a page's figures by slug, for `charts.js` to draw.

    Escapes like `json_script`, whose way of doing it takes longer than the queries of a page.
    """
    text = json.dumps(share_lists(figures), cls=DjangoJSONEncoder, separators=(",", ":"))
    for sign, escaped in (("<", "\\u003C"), (">", "\\u003E"), ("&", "\\u0026")):
        text = text.replace(sign, escaped)
    island = '<script id="chart-data" type="application/json">{}</script>'
    return format_html(island, mark_safe(text))  # noqa: S308 escaped above


@register.filter
def state_words(value: object) -> str:
    """Return a field of a record as text; "nothing" if it is empty."""
    if isinstance(value, datetime):
        return f"{timezone.localtime(value):%Y-%m-%d %H:%M:%S}"
    if isinstance(value, list):
        value = ", ".join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)[:300]
    return "nothing" if value in (None, "") else str(value)
