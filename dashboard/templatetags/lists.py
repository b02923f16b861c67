"""Template tags for the filters of pages."""

from django import template
from django.template import Context
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString

register = template.Library()


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
