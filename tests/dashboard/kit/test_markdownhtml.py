"""Answers as HTML: what Markdown shows, and what a hostile answer cannot do."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.kit.markdownhtml import LANGUAGE_MAX_CHARS, RENDERED_MAX_CHARS, render_markdown

TAGS = {
    "p", "br", "em", "strong", "s", "ul", "ol", "li", "blockquote", "hr", "a", "code", "pre", "div", "span",
    "button", "table", "thead", "tbody", "tr", "th", "td", "h3", "h4", "h5", "h6",
}  # fmt: skip
ATTRIBUTES = {"class", "href", "rel", "target", "id", "tabindex", "type", "data-copy", "start", "title"}


class Elements(HTMLParser):
    """Collects every tag and attribute of some HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    @property
    def links(self) -> list[str | None]:
        return [value for name, value in self.attributes if name == "href"]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("**b** _i_ ~~s~~", "<p><strong>b</strong> <em>i</em> <s>s</s></p>\n"),
        ("one\ntwo", "<p>one<br />\ntwo</p>\n"),
        ("# T", "<h3>T</h3>\n"),
        ("###### T", "<h6>T</h6>\n"),
        ("<b>x</b> & y", "<p>&lt;b&gt;x&lt;/b&gt; &amp; y</p>\n"),
        ("|a|b|\n|-|-:|\n|1|2|", None),
        ("![dog](https://x.test/d.png)", None),
        ("```py\nprint('<b>')\n```", None),
    ],
)
def test_what_is_shown(text: str, html: str | None) -> None:
    found = render_markdown(text, "7")
    if html is not None:
        assert found == html
    assert "style=" not in found


def test_a_code_block_has_its_language_and_a_copy_button() -> None:
    html = render_markdown("```python title=x\n<b>1</b>\n```\n\n    two\n", "7")
    assert "<span>python</span>" in html
    assert 'data-copy="#code-7-1"' in html
    assert '<code id="code-7-1">&lt;b&gt;1&lt;/b&gt;\n</code>' in html
    assert '<code id="code-7-2">two\n</code>' in html


def test_an_unclosed_fence_is_code_to_the_end() -> None:
    assert '<code id="code-7-1">print(1)' in render_markdown("```\nprint(1)", "7")


def test_a_long_language_is_cut() -> None:
    assert f"<span>{'x' * LANGUAGE_MAX_CHARS}</span>" in render_markdown(f"```{'x' * 999}\n1\n```", "7")


def test_numbers_are_aligned_by_a_class() -> None:
    assert '<td class="n">2</td>' in render_markdown("|a|b|\n|-|-:|\n|1|2|", "7")


def test_an_image_is_a_link_and_is_not_loaded() -> None:
    html = render_markdown("![a <dog>](https://x.test/d.png)", "7")
    assert "<img" not in html
    assert 'href="https://x.test/d.png"' in html
    assert "a &lt;dog&gt;</a>" in html


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)", "JaVaScRiPt:alert(1)", "java&#115;cript:alert(1)", "data:text/html,x",
        "vbscript:x", "file:///etc/passwd", "/accounts/logout/", "//evil.test/x", "?x=1", "#top",
        "blob:https://x.test/1", "https", "https:x", "http:/x", "https:///x", "", "\tjavascript:alert(1)", "http\n://x",
    ],
)  # fmt: skip
def test_only_whole_addresses_of_web_and_mail_are_links(address: str) -> None:
    for text in (f"[x]({address})", f"[x](<{address}>)", f"![x]({address})", f"<{address}>"):
        links = Elements(render_markdown(text, "7")).links
        assert links == []


@pytest.mark.parametrize("address", ["https://x.test/a?b=1", "http://x.test", "mailto:a@x.test"])
def test_links_open_elsewhere_and_vouch_for_nothing(address: str) -> None:
    html = render_markdown(f"[x]({address})", "7")
    assert Elements(html).links == [address]
    assert 'rel="nofollow noopener noreferrer" target="_blank"' in html


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<!-- x --><style>*{}</style>",
        "<a href='javascript:alert(1)'>x</a>",
        '[x](https://x.test "a\\" onclick=\\"alert(1)")',
        "```<script>\n</code></pre><script>alert(1)</script>\n```",
        "`</code><script>alert(1)</script>`",
        '[x]: https://x.test "><script>alert(1)</script>"\n\n[x]',
        "&lt;script&gt;alert(1)&lt;/script&gt;",
    ],
)
def test_markup_in_an_answer_is_text(text: str) -> None:
    found = Elements(render_markdown(text, "7"))
    assert set(found.tags) <= TAGS
    assert {name for name, _ in found.attributes} <= ATTRIBUTES


SCRAPS = st.sampled_from(
    ["<", ">", '"', "'", "`", "```", "[", "](", ")", "!", "*", "_", "|", "\n", "    ", "&", "#",
     "javascript:", "https://x.test", "<script>", "</code>", "onclick=", "a", " ", "\\", "-", ":", "\x00"]
)  # fmt: skip


@given(st.lists(SCRAPS, max_size=60).map("".join))
def test_no_text_makes_other_tags_or_attributes(text: str) -> None:
    found = Elements(render_markdown(text, "7"))
    assert set(found.tags) <= TAGS
    assert {name for name, _ in found.attributes} <= ATTRIBUTES
    assert all(str(link).startswith(("https://", "http://", "mailto:")) for link in found.links)


def test_a_very_long_answer_is_shown_as_it_was_written() -> None:
    html = render_markdown("**b** <i>" * (RENDERED_MAX_CHARS // 8), "7")
    assert html.startswith('<p class="words">**b** &lt;i&gt;')
