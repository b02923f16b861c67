"""Template tags and filters of the pages: formats, forms of filters, and commands to copy."""

import json
from datetime import datetime

from django import template
from django.core.serializers.json import DjangoJSONEncoder
from django.template import Context
from django.template.loader import render_to_string
from django.urls import reverse
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
def unbroken(sentence: str) -> str:
    """Return a sentence in which no line begins with a per cent sign or a unit."""
    return sentence.replace(" %", "\N{NO-BREAK SPACE}%").replace(" ms", "\N{NO-BREAK SPACE}ms")


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


@register.simple_block_tag
def filter_form(content: SafeString, target: str, view: str, *args: object) -> SafeString:
    """Wrap the fields that filter a list. When one changes, `target` is replaced by what `view` shows."""
    address = reverse(view, args=args)
    return render_to_string(
        "dashboard/_filter_form.html", {"content": content, "target": target, "address": address}
    )


@register.simple_block_tag(takes_context=True)
def figures_form(context: Context, content: SafeString, target: str, look: str) -> SafeString:
    """Wrap the fields that filter a page with figures. When one changes, the page reloads `target`."""
    names = {"request": context["request"], "form": context["form"]}
    return render_to_string(
        "dashboard/_figures_form.html", {**names, "content": content, "target": target, "look": look}
    )


@register.simple_block_tag
def command(content: SafeString, dom_id: str) -> SafeString:
    """Show a command with a button that copies it."""
    return render_to_string("dashboard/_command.html", {"content": content, "dom_id": dom_id})


@register.simple_block_tag(takes_context=True)
def curl(context: Context, content: SafeString, dom_id: str, *path: object) -> SafeString:
    """Show the command that posts the JSON in the block to a path of the API, given by its parts."""
    text = format_html(
        "curl -X POST {}{} \\\n"
        '  -H "Authorization: Bearer KEY" -H "Content-Type: application/json" \\\n'
        "  -d '{}'",
        context["request"].build_absolute_uri("/api/v1/"),
        "/".join(map(str, path)),
        content,
    )
    return command(text, dom_id)
