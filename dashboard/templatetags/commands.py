"""Template tags for commands that a reader copies into a shell."""

from django import template
from django.template import Context
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


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
