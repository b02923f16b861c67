"""Template filters: the forms of `dashboard.formats`."""

from django import template

from dashboard import formats

register = template.Library()

register.filter("whole", formats.whole)
register.filter("signed", formats.signed)
register.filter("percent", formats.percent)
register.filter("decimals", formats.decimals)
register.filter("milliseconds", formats.milliseconds)
register.filter("reason_words", formats.reason_words)


@register.filter
def short_hash(digest: str) -> str:
    """Return the first eight characters in two groups."""
    return f"{digest[:4]} {digest[4:8]}"
