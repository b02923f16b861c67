"""Answers of models, written in Markdown, as safe HTML.

Text is never HTML: markup in an answer is shown, not interpreted. Nothing is loaded from another host, and no
style or script is inline, as the pages' policy demands.
"""

from collections.abc import MutableMapping, Sequence
from typing import Any, override
from urllib.parse import urlsplit

from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

# Parsing takes about 10 ms for 10,000 characters. Longer answers are shown as they were written.
RENDERED_MAX_CHARS = 60_000
# Headings inside an answer rank below those of the page.
FIRST_LEVEL, LAST_LEVEL = 3, 6
LANGUAGE_MAX_CHARS = 24


def render_markdown(text: str, name: str) -> SafeString:
    """Return Markdown as HTML; `name` makes the ids of its code blocks unique on the page."""
    if len(text) > RENDERED_MAX_CHARS:
        return format_html('<p class="words">{}</p>', text)
    html: str = _PARSER.render(text, {"name": name})
    return SafeString(html)  # the parser escapes all text


class _Renderer(RendererHTML):
    """Writes code blocks with a copy button, and images as links."""

    @override
    def fence(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        return _code_block(tokens[idx].content, tokens[idx].info.strip().split(" ")[0], env)

    @override
    def code_block(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        return _code_block(tokens[idx].content, "", env)

    @override
    def image(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        token = tokens[idx]
        words = self.renderInlineAsText(token.children or [], options, env)
        if not token.attrGet("src"):
            return conditional_escape(words)
        return format_html(
            '<a class="link" href="{}" rel="nofollow noopener noreferrer" target="_blank">{}</a>',
            token.attrGet("src"),
            words or "image",
        )


def _code_block(code: str, language: str, env: MutableMapping[str, Any]) -> str:
    env["blocks"] = env.get("blocks", 0) + 1
    return format_html(
        '<div class="code"><div class="code-head"><span>{language}</span>'
        '<button type="button" class="quiet" data-copy="#{id}">Copy<span class="sr"> the code</span></button>'
        '</div><pre tabindex="0"><code id="{id}">{code}</code></pre></div>\n',
        language=language[:LANGUAGE_MAX_CHARS],
        id=f"code-{env['name']}-{env['blocks']}",
        code=code,
    )


def _mend_tokens(tokens: Sequence[Token]) -> None:
    """Open links in a tab of their own, lower headings, and align cells by a class instead of a style."""
    is_link = True
    for token in tokens:
        if token.type == "link_open":
            is_link = bool(token.attrGet("href"))
        if token.type in ("link_open", "link_close"):
            # The parser keeps a link without an address.
            token.hidden = not is_link
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(LAST_LEVEL, FIRST_LEVEL - 1 + int(token.tag[1]))}"
        if token.type == "link_open":
            token.attrs.update({"class": "link", "rel": "nofollow noopener noreferrer", "target": "_blank"})
        if token.type in ("th_open", "td_open") and token.attrs.pop("style", "") == "text-align:right":
            token.attrSet("class", "n")
        _mend_tokens(token.children or [])


class _Parser(MarkdownIt):
    @override
    def validateLink(self, url: str) -> bool:
        """Allow whole addresses of the web and of mail; a path would lead into this site."""
        try:
            parts = urlsplit(url.strip())
            return parts.scheme == "mailto" or (parts.scheme in ("http", "https") and bool(parts.netloc))
        except ValueError:
            return False


_PARSER = _Parser("commonmark", {"html": False, "breaks": True}, renderer_cls=_Renderer)
_PARSER.enable(["table", "strikethrough"])
_PARSER.core.ruler.push("mend", lambda state: _mend_tokens(state.tokens))
